//! A host with its own adapter: the four calls that it needs, over a runtime in its process; and the four jobs of the
//! host that the design was made for, each played through that adapter with real tools.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use serde_json::json;
use tamtam::{
    Answer, EventKind, Outcome, Runtime, SessionId, SessionOptions,
    model::{Reply, Scripted, transcript},
    permission::{Action, Rule},
    runtime::Agent,
    session::Next,
    tools,
};

use crate::support::taped;

/// What the host's own code sees of agents.
struct Adapter {
    runtime: Runtime,
    agents: BTreeMap<&'static str, Agent>,
}

impl Adapter {
    async fn create_session(&self, options: SessionOptions) -> SessionId {
        self.runtime.create(options).await.unwrap().id().clone()
    }

    /// One turn by that agent, to its end.
    async fn call(&self, session: &SessionId, agent: &str, input: &str) -> Answer {
        let session = self.by_agent(session, agent).await;
        session.prompt(input).await.unwrap().wait().await.unwrap()
    }

    /// One turn by that agent, each piece of text as it comes.
    async fn stream(&self, session: &SessionId, agent: &str, input: &str, mut piece: impl FnMut(&str)) -> Outcome {
        let session = self.by_agent(session, agent).await;
        let mut events = session.events();
        session.prompt(input).await.unwrap();
        loop {
            let Next::Event(event) = events.next().await.expect("the session goes on") else { continue };
            match &event.kind {
                EventKind::TextDelta { text } => piece(text),
                EventKind::TurnFinished { outcome, .. } => return outcome.clone(),
                _ => {}
            }
        }
    }

    async fn abort(&self, session: &SessionId, reason: &str) {
        self.runtime.session(session).abort(reason).await.unwrap();
    }

    async fn by_agent(&self, session: &SessionId, agent: &str) -> tamtam::Session {
        let (session, agent) = (self.runtime.session(session), &self.agents[agent]);
        let change = session.configure(|settings| {
            settings.agent.clone_from(&agent.name);
            settings.system = agent.prompt.clone().unwrap_or_default().into();
            settings.tools.clone_from(&agent.tools);
            settings.rules = agent.ruleset().into_iter().collect();
        });
        change.await.unwrap();
        session
    }
}

fn agent(name: &str, prompt: &str, tools: &[&str]) -> Agent {
    let mut agent = Agent::new(name, prompt);
    agent.prompt = Some(prompt.to_owned());
    agent.tools = Some(tools.iter().map(|tool| (*tool).to_owned()).collect());
    agent.permission = vec![Rule::new("*", "**", Action::Allow)];
    agent
}

async fn adapter(folder: &Path, replies: impl IntoIterator<Item = Reply>) -> (Adapter, Arc<Scripted>) {
    std::fs::create_dir(folder.join("work")).unwrap();
    let model = Arc::new(Scripted::new(replies));
    let builder = Runtime::builder().store(folder.join("store")).model(model.clone()).tools(tools::full());
    let agents = [
        agent("librarian", "You look things up.", &["read", "grep", "find", "ls"]),
        agent("planner", "You make plans.", &[]),
        agent("builder", "You build.", &["read", "write", "edit", "bash"]),
    ];
    let names = ["librarian", "planner", "builder"];
    (Adapter { runtime: builder.start().await.unwrap(), agents: names.into_iter().zip(agents).collect() }, model)
}

fn put(folder: &Path, name: &str, content: &str) {
    std::fs::write(folder.join("work").join(name), content).unwrap();
}

/// A-06, A-12: a host's adapter is four calls on an id: a session is made, an agent is called and answers, an agent is
/// listened to while it answers, and what runs is stopped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_adapter_is_four_calls() {
    let folder = taped::folder();
    let replies = [
        Reply::text("Paris."),
        Reply::empty().with_text("Two ").with_text("million."),
        Reply::empty().with_text("Let me see").hanging(),
        Reply::text("Here I am."),
    ];
    let (adapter, model) = adapter(folder.path(), replies).await;
    let session = adapter.create_session(SessionOptions::new(folder.path().join("work"))).await;
    let answer = adapter.call(&session, "librarian", "The capital?").await;
    assert_eq!((answer.outcome, answer.text.as_str()), (Outcome::Done, "Paris."));
    let mut pieces = Vec::new();
    let outcome = adapter.stream(&session, "planner", "How many?", |piece| pieces.push(piece.to_owned())).await;
    assert_eq!((outcome, pieces), (Outcome::Done, vec!["Two ".to_owned(), "million.".to_owned()]));
    // Each agent has its own prompt and its own tools, and knows what was said to the other.
    let requests = model.requests();
    assert_eq!((&*requests[0].system, requests[0].tools.len()), ("You look things up.", 4));
    assert_eq!((&*requests[1].system, requests[1].tools.len()), ("You make plans.", 0));
    assert!(transcript(&requests[1]).contains("Paris."));

    let (stop, stopped) = tokio::sync::oneshot::channel();
    let mut stop = Some(stop);
    let streaming = adapter.stream(&session, "planner", "And then?", |_| {
        stop.take().map(|stop| stop.send(()));
    });
    let stopping = async {
        stopped.await.unwrap();
        adapter.abort(&session, "enough").await;
    };
    let (outcome, ()) = tokio::join!(streaming, stopping);
    assert_eq!(outcome, Outcome::Aborted { reason: "enough".into() });
    assert_eq!(adapter.call(&session, "planner", "Are you there?").await.text, "Here I am.");
    assert!(adapter.runtime.shutdown().await.is_empty());
}

/// A-10: kb-triage, kb-answer, rlm-planner and build: the four jobs of the host, each to its end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_four_jobs_of_the_host_are_done() {
    let folder = taped::folder();
    let replies = [
        // kb-triage: a report is sorted by what the knowledge base says of it.
        Reply::call("grep", json!({"pattern": "E42", "glob": "*.md"})),
        Reply::text(r#"{"label": "billing", "article": "billing.md"}"#).expecting("billing.md"),
        // kb-answer: a question is answered from an article.
        Reply::call("read", json!({"path": "billing.md"})),
        Reply::text("Pay the invoice anew (billing.md).").expecting("pay the invoice anew"),
        // rlm-planner: a plan, of which the host has each part done in a session of its own.
        Reply::text("read a.txt\nread b.txt"),
        Reply::call("read", json!({"path": "a.txt"})),
        Reply::text("a is 20").expecting("20"),
        Reply::call("read", json!({"path": "b.txt"})),
        Reply::text("b is 22").expecting("22"),
        Reply::text("42").expecting("b is 22"),
        // build: written, tried, mended, tried again.
        Reply::call("write", json!({"path": "run.sh", "content": "ech built > out.txt\n"})),
        Reply::call("bash", json!({"command": "bash -e run.sh"})),
        Reply::call("edit", json!({"path": "run.sh", "old_string": "ech ", "new_string": "echo "}))
            .expecting("not found"),
        Reply::call("bash", json!({"command": "bash -e run.sh"})),
        Reply::text("It is built."),
    ];
    let (adapter, model) = adapter(folder.path(), replies).await;
    put(folder.path(), "billing.md", "E42: the card was refused; pay the invoice anew.\n");
    put(folder.path(), "login.md", "E7: the password is wrong.\n");
    put(folder.path(), "a.txt", "20\n");
    put(folder.path(), "b.txt", "22\n");
    let options = || SessionOptions::new(folder.path().join("work"));

    let desk = adapter.create_session(options()).await;
    let triage = adapter.call(&desk, "librarian", "Sort this: error E42 at checkout").await;
    let label: serde_json::Value = serde_json::from_str(&triage.text).unwrap();
    assert_eq!((triage.outcome, &label["label"]), (Outcome::Done, &json!("billing")));
    let mut said = String::new();
    let outcome = adapter.stream(&desk, "librarian", "What do I do?", |piece| said.push_str(piece)).await;
    assert_eq!((outcome, said.as_str()), (Outcome::Done, "Pay the invoice anew (billing.md)."));

    let plans = adapter.create_session(options()).await;
    let plan = adapter.call(&plans, "planner", "Add a and b").await.text;
    let mut parts = Vec::new();
    for part in plan.lines() {
        let worker = adapter.create_session(options()).await;
        parts.push(adapter.call(&worker, "librarian", part).await.text);
    }
    assert_eq!(adapter.call(&plans, "planner", &parts.join("\n")).await.text, "42");

    let builds = adapter.create_session(options()).await;
    let built = adapter.call(&builds, "builder", "Build it").await;
    assert_eq!((built.outcome, built.steps), (Outcome::Done, 5));
    assert_eq!(std::fs::read_to_string(folder.path().join("work/out.txt")).unwrap(), "built\n");
    assert_eq!(model.requests().len(), 15, "each reply was given, and met what it expected");
    assert!(adapter.runtime.shutdown().await.is_empty());
}
