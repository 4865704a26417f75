//! A chat service over HTTP, by the router: its own tools, hooks and rules, a page, and the routes of `docs/HTTP.md`. It continues after a
//! restart.
//!
//! `cargo run -p tamtam-server --example service -- 127.0.0.1:8080`, then `curl localhost:8080/v1/sessions --json
//! '{"id":"s1","prompt":{"text":"primes 20"}}'` and `curl -N 'localhost:8080/v1/sessions/s1/events?after=0'`.

use std::{path::Path, sync::Arc};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tamtam::{
    Message, Part, Runtime, SessionOptions,
    hook::{Hook, HookCall, HookContext, Input, Verdict},
    model::{AnswerPart, BoxFuture, Model, Reply, Request, Scripted, transcript},
    permission::{Action, Rule, Ruleset},
    runtime::StartError,
    tool::{self, Effect},
};
use tamtam_server::{Bound, Server, ServerOptions};

#[derive(Deserialize, JsonSchema)]
struct Primes {
    /// Primes below this number are listed.
    below: u32,
}

#[derive(Deserialize, JsonSchema)]
struct Note {
    /// What to write down.
    text: String,
}

/// Takes keys out of what people and models say, before anyone else sees it, and refuses calls that would write a password down.
struct NoSecrets;

fn without_keys(text: &mut String) {
    let words = text.split(' ').map(|word| if word.starts_with("sk-") { "[key]" } else { word });
    *text = words.collect::<Vec<_>>().join(" ");
}

impl Hook for NoSecrets {
    fn name(&self) -> &str {
        "no secrets"
    }

    fn sees_answers(&self) -> bool {
        true
    }

    fn on_input<'a>(&'a self, _: &'a HookContext, mut message: Message) -> BoxFuture<'a, Input> {
        let texts =
            message.parts.iter_mut().filter_map(|part| if let Part::Text(text) = part { Some(text) } else { None });
        texts.for_each(|text| without_keys(&mut text.text));
        Box::pin(async { Input::Pass(Box::new(message)) })
    }

    fn on_answer<'a>(&'a self, _: &'a HookContext, mut parts: Vec<AnswerPart>) -> BoxFuture<'a, Vec<AnswerPart>> {
        parts.iter_mut().for_each(|part| {
            if let AnswerPart::Text { text, .. } = part {
                without_keys(text)
            }
        });
        Box::pin(async { parts })
    }

    fn before_call<'a>(&'a self, call: &'a HookCall) -> BoxFuture<'a, Verdict> {
        let blocked = call.tool == "note" && call.arguments.to_string().contains("password");
        Box::pin(async move { if blocked { Verdict::Block("no passwords in notes".into()) } else { Verdict::Pass } })
    }
}

/// The service over a folder: the tapes in one part of it, the notes in another. Interrupted turns continue automatically.
pub async fn service(folder: &Path, model: Arc<dyn Model>) -> Result<Server, StartError> {
    let primes = tool::typed("primes", "Lists prime numbers.", |Primes { below }, _| async move {
        tool::Json((2..below).filter(|n| (2..*n).all(|d| n % d != 0)).collect::<Vec<_>>())
    });
    let note = tool::typed_blocking("note", "Writes a note down.", |Note { text }, cx| {
        let path = cx.workspace.join(format!("{}.notes", cx.session));
        let notes = std::fs::read_to_string(&path).unwrap_or_default();
        std::fs::write(path, format!("{notes}{text}\n")).map(|()| "written down")
    });
    let builder = Runtime::builder().store(folder.join("tapes")).model(model).hook(NoSecrets).tool(note);
    let runtime = builder.tool(primes.effect(Effect::Read).parallel()).start().await?;
    let notes = folder.join("notes");
    let options = ServerOptions::default().new_session(move |new, _| {
        let rules = vec![Rule::new("primes", "*", Action::Allow), Rule::new("note", "*", Action::Ask)];
        // A person may come to the page later than the question.
        let mut options = SessionOptions::new(&notes).rules(Ruleset::new("service", rules)).asks_wait(true);
        if let Some(budget) = &new.budget {
            budget.apply(&mut options.budget);
        }
        Ok(options)
    });
    Ok(Server::new(runtime).with(options))
}

/// A model without a network: the first word tells it what to do.
pub fn reply(request: &Request) -> Reply {
    let said = transcript(request);
    let last = said.lines().next_back().unwrap_or_default();
    match last.split_once(": ").map(|(who, text)| (who, text.split_once(' '))) {
        Some(("user", Some(("primes", below)))) => Reply::call("primes", json!({ "below": below.parse::<u32>().ok() })),
        Some(("user", Some(("note", text)))) => Reply::call("note", json!({ "text": text })),
        _ => Reply::text(format!("I was told: {last}")),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".into());
    std::fs::create_dir_all("service-data/notes")?;
    let server = service(Path::new("service-data"), Arc::new(Scripted::from_fn(reply))).await?;
    let bound = Bound::tcp(address.parse()?, &server).await?;
    println!("listening on {}", bound.at());
    let left = tamtam_server::serve(server, bound, async { drop(tokio::signal::ctrl_c().await) }).await;
    if left.is_empty() { Ok(()) } else { Err(format!("still running: {left:?}").into()) }
}
