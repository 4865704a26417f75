//! Four jobs of a host, as data, played over HTTP as its adapter calls an agent: create, stream, steer, abort, the agent named by each call.
//!
//! `cargo run -p tamtam-server --example scenarios` plays the files of this folder, or those that are named; offline, on scripted
//! models, with real tools in a folder of their own. It prints each difference between what a file expects and what happened, and
//! then ends with 1.
//!
//! | field of a file | meaning |
//! |---|---|
//! | `files`, `leaves` | what is in the folder before; and afterwards, `null` for a file that must not be there |
//! | `agents` | `prompt` and `tools` of each agent |
//! | `asks` | the permissions that a person is asked for, such as `edit`; all others are given |
//! | `replies` | what the model says, in order (`docs/FORMATS.md`, "Scripted model file") |
//! | `turns` | each one `input` to an `agent` in a `session`, its `calls`, `answer` and `outcome`; `then` acts at the first event of a kind |

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

use serde::Deserialize;
use serde_json::{Value, json};
use tamtam::{
    Runtime, SessionOptions,
    model::Scripted,
    permission::{Action, Rule, Ruleset},
    runtime::{Agent, Agents},
    tools,
};
use tamtam_server::{Bound, Server, ServerOptions};

mod adapter;

use adapter::Adapter;

/// Whatever keeps a scenario from being played.
pub type Failed = Box<dyn std::error::Error + Send + Sync>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenario {
    about: String,
    #[serde(default)]
    files: BTreeMap<String, String>,
    agents: BTreeMap<String, Persona>,
    #[serde(default)]
    asks: Vec<String>,
    replies: Vec<Value>,
    turns: Vec<Turn>,
    #[serde(default)]
    leaves: BTreeMap<String, Option<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Persona {
    prompt: String,
    tools: BTreeSet<String>,
}

/// What is asked of an agent, and what must come of it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Turn {
    session: String,
    agent: String,
    input: String,
    then: Option<Then>,
    #[serde(default)]
    calls: Vec<Call>,
    answer: String,
    #[serde(default = "done")]
    outcome: String,
}

fn done() -> String {
    "done".to_owned()
}

/// What the host does in mid-run, at the first event of that kind.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Then {
    on: String,
    steer: Option<String>,
    abort: Option<String>,
}

/// A call, in the order of the calls: its tool, why it has no good result, and words of its result.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    name: String,
    error: Option<String>,
    #[serde(default)]
    result: String,
}

/// Plays one scenario, given as its JSON, in an empty folder. Gives the differences.
///
/// # Errors
/// The scenario cannot be read, or the server cannot be reached.
pub fn play(text: &str, folder: &Path) -> Result<Vec<String>, Failed> {
    let scenario: Scenario = serde_json::from_str(text)?;
    let work = folder.join("work");
    std::fs::create_dir_all(&work)?;
    for (name, content) in &scenario.files {
        std::fs::write(work.join(name), content)?;
    }
    let script = json!({ "by": "order", "replies": scenario.replies }).to_string();
    let model = Arc::new(Scripted::from_json(&script)?);
    // The adapter waits for answers like any other client, so the server has threads of its own.
    let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (server, bound) = threads.block_on(serve(&scenario, folder, model.clone()))?;
    let adapter = Adapter::new(bound.at());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let served = threads.spawn(tamtam_server::serve(server, bound, async { drop(stopped.await) }));
    let played = scenario.turns.iter().map(|turn| differences(&adapter, turn)).collect::<Result<Vec<_>, Failed>>();
    drop(stop);
    let left = threads.block_on(served)?;
    let mut differences: Vec<String> = played?.into_iter().flatten().collect();
    differs(&mut differences, "requests to the model", &scenario.replies.len(), &model.requests().len());
    for (name, wanted) in &scenario.leaves {
        differs(&mut differences, name, wanted, &std::fs::read_to_string(work.join(name)).ok());
    }
    differs(&mut differences, "what is left of the runtime", &true, &left.is_empty());
    Ok(differences)
}

/// A server over the tools, agents and rules of a scenario.
async fn serve(scenario: &Scenario, folder: &Path, model: Arc<Scripted>) -> Result<(Server, Bound), Failed> {
    let mut agents = Agents::built_in();
    for (name, persona) in &scenario.agents {
        let mut agent = Agent::new(name, &persona.prompt);
        (agent.prompt, agent.tools) = (Some(persona.prompt.clone()), Some(persona.tools.clone()));
        agents = agents.with(agent)?;
    }
    let builder = Runtime::builder().store(folder.join("store")).model(model).tools(tools::full()).agents(agents);
    let allowed = std::iter::once(Rule::new("*", "**", Action::Allow));
    let asked = scenario.asks.iter().map(|permission| Rule::new(permission, "**", Action::Ask));
    let (rules, work) = (Ruleset::new("host", allowed.chain(asked)), folder.join("work"));
    let options = ServerOptions::default()
        .new_session(move |_, _| Ok(SessionOptions::new(&work).rules(rules.clone()).asks_wait(true)));
    let server = Server::new(builder.start().await?).with(options);
    let bound = Bound::tcp("127.0.0.1:0".parse()?, &server).await?;
    Ok((server, bound))
}

fn differs<T: PartialEq + std::fmt::Debug + ?Sized>(found: &mut Vec<String>, what: &str, wanted: &T, got: &T) {
    if wanted != got {
        found.push(format!("{what}: expected {wanted:?}, got {got:?}"));
    }
}

/// Has the agent do a turn, and compares.
fn differences(adapter: &Adapter, turn: &Turn) -> Result<Vec<String>, Failed> {
    adapter.create_session(&turn.session)?;
    let (mut calls, mut has_acted, mut finished) = (BTreeMap::new(), false, Value::Null);
    adapter.stream(&turn.session, &turn.agent, &turn.input, &mut |event| {
        if event["event"] == "call_finished" {
            calls.insert(event["ticket"].as_u64(), event.clone());
        }
        if let Some(then) = turn.then.as_ref().filter(|then| event["event"] == then.on.as_str() && !has_acted) {
            has_acted = true;
            then.steer.iter().try_for_each(|words| adapter.steer(&turn.session, words))?;
            then.abort.iter().try_for_each(|why| adapter.abort(&turn.session, why))?;
        }
        finished = event.clone();
        Ok(())
    })?;
    let mut found = Vec::new();
    let names = |calls: &mut dyn Iterator<Item = (&str, Option<&str>)>| {
        calls
            .map(|(name, error)| error.map_or(name.to_owned(), |error| format!("{name} ({error})")))
            .collect::<Vec<_>>()
    };
    let wanted = names(&mut turn.calls.iter().map(|call| (call.name.as_str(), call.error.as_deref())));
    let got = names(&mut calls.values().map(|call| (call["name"].as_str().unwrap_or("?"), call["error"].as_str())));
    differs(&mut found, "calls", &wanted, &got);
    for (wanted, got) in turn.calls.iter().zip(calls.values()) {
        let content = got["content"].as_str().unwrap_or_default();
        if !content.contains(&wanted.result) {
            found.push(format!("result of {}: expected {:?} in {content:?}", wanted.name, wanted.result));
        }
    }
    differs(&mut found, "answer", turn.answer.as_str(), finished["text"].as_str().unwrap_or("?"));

    differs(&mut found, "outcome", turn.outcome.as_str(), finished["outcome"].as_str().unwrap_or("?"));
    differs(&mut found, "acted in mid-run", &turn.then.is_some(), &has_acted);
    Ok(found.into_iter().map(|difference| format!("{} ({}): {difference}", turn.session, turn.input)).collect())
}

fn main() -> Result<(), Failed> {
    let mut files: Vec<_> = std::env::args_os().skip(1).map(std::path::PathBuf::from).collect();
    if files.is_empty() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/scenarios");
        files.extend(std::fs::read_dir(here)?.filter_map(|entry| entry.ok().map(|entry| entry.path())));
        files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
        files.sort();
    }
    let mut has_differences = false;
    for file in files {
        let text = std::fs::read_to_string(&file)?;
        let folder = tempfile::tempdir()?;
        let differences = play(&text, folder.path())?;
        let about = serde_json::from_str::<Scenario>(&text)?.about;
        let name = file.file_stem().unwrap_or_default().display();
        println!("{name}: {about} {}", if differences.is_empty() { "as expected" } else { "DIFFERENT" });
        differences.iter().for_each(|difference| println!("  {difference}"));
        has_differences |= !differences.is_empty();
    }
    if has_differences { Err("not all went as expected".into()) } else { Ok(()) }
}
