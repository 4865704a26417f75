//! What a session may use, what it must ask for, and who is asked: in a whole runtime, through tools that only count.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tamtam::{
    EventKind, EventStream, Message, Outcome, Runtime, SendError, Seq, Session, SessionOptions,
    model::{BoxFuture, Item, Reply, Request, Scripted},
    permission::{Action, Profile, Rule, Ruleset},
    runtime::Agent,
    session::{CallState, Grant, Next, Refusal, Scope},
    tool::{Access, Effect, Tool, ToolContext, ToolResult},
};

use crate::support::taped;

/// Says which session it runs in, and counts how often it began.
#[derive(Clone)]
struct Counting {
    name: &'static str,
    wants: &'static str,
    began: Arc<AtomicUsize>,
}

fn tool(name: &'static str, wants: &'static str) -> Counting {
    Counting { name, wants, began: Arc::default() }
}

impl Counting {
    fn began(&self) -> usize {
        self.began.load(Ordering::SeqCst)
    }
}

impl Tool for Counting {
    fn name(&self) -> &str {
        self.name
    }

    fn description(&self) -> &str {
        "Counts."
    }

    fn schema(&self) -> Value {
        json!({ "type": "object" })
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }

    fn parallel(&self) -> bool {
        true
    }

    fn access(&self, arguments: &Value) -> Vec<Access> {
        vec![Access::new(self.wants, arguments["at"].as_str().unwrap_or("a.txt"))]
    }

    fn run<'a>(&'a self, _: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        self.began.fetch_add(1, Ordering::SeqCst);
        let session: &tamtam::SessionId = &context.session;
        Box::pin(async move { ToolResult::ok(format!("ran in {session}")) })
    }
}

struct Lab {
    folder: taped::Folder,
    model: Arc<Scripted>,
    runtime: Runtime,
}

async fn lab(replies: impl IntoIterator<Item = Reply>, tools: impl IntoIterator<Item = Counting>) -> Lab {
    let folder = taped::folder();
    let model = Arc::new(Scripted::new(replies));
    let builder = Runtime::builder().store(folder.path().join("store")).model(model.clone());
    let runtime = tools.into_iter().fold(builder, tamtam::runtime::Builder::tool).start().await.unwrap();
    Lab { folder, model, runtime }
}

impl Lab {
    fn options(&self) -> SessionOptions {
        SessionOptions::new(self.folder.path())
    }

    /// The results that the newest request tells.
    fn results(&self) -> Vec<String> {
        let newest: Request = self.model.requests().last().cloned().expect("the model was asked");
        let results = newest.history.iter().filter_map(|item| match item.as_ref() {
            Item::Result(result) => Some(result.content.clone()),
            _ => None,
        });
        results.collect()
    }
}

fn rules(name: &str, rules: &[(&str, Action)]) -> Ruleset {
    let rules = rules.iter().map(|(permission, action)| Rule::new(*permission, "*", *action));
    Ruleset::new(name, rules)
}

/// The asks of a turn, until it ends: each is handed to `answer`.
async fn asks(events: &mut EventStream, mut answer: impl AsyncFnMut(Seq)) -> usize {
    let mut asked = 0;
    let listen = async {
        loop {
            let Next::Event(event) = events.next().await.expect("the session goes on") else { continue };
            match event.kind {
                EventKind::Ask { ask, .. } => {
                    asked += 1;
                    answer(ask).await;
                }
                EventKind::TurnFinished { .. } => return,
                _ => {}
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), listen).await.expect("the turn ends");
    asked
}

/// Whether the only call of a session waits for an answer.
async fn is_asking(session: &Session) -> bool {
    let state = session.state().await.unwrap();
    state.calls().all(|(_, call)| matches!(call.state, CallState::Asking(_)))
}

/// A-17: what its mode allows runs, and so does what was granted for good; about the rest there is an event, and the call waits
/// for the answer. Where nobody is to be asked it is denied.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_is_let_through_by_its_mode_by_a_grant_or_by_a_person() {
    let put = tool("put", "edit");
    let turn = || [Reply::call("put", json!({})), Reply::text("ok")];
    let lab = lab((0..5).flat_map(|_| turn()), [put.clone()]).await;
    for (profile, expected_asks, expected_runs) in [
        (Profile::Auto, 0, 1),
        (Profile::Edits, 0, 1),
        (Profile::Headless, 0, 0),
        // It is asked in the first turn, and granted for the session: not in the second.
        (Profile::Ask, 1, 2),
    ] {
        let session = lab.runtime.create(lab.options().profile(profile)).await.unwrap();
        let mut events = session.events();
        let before = put.began();
        let turns = if profile == Profile::Ask { 2 } else { 1 };
        let mut asked = 0;
        for _ in 0..turns {
            let receipt = session.prompt("go").await.unwrap();
            asked += asks(&mut events, async |ask| {
                assert!(is_asking(&session).await && put.began() == before, "it waits for the answer");
                session.answer(ask, Grant::Always(Scope::Session)).await.unwrap();
            })
            .await;
            assert_eq!(receipt.wait().await.unwrap().outcome, Outcome::Done);
        }
        assert_eq!((asked, put.began() - before), (expected_asks, expected_runs), "{profile:?}");
    }
    assert!(lab.runtime.shutdown().await.is_empty());
}

/// C-37: a session that was given no rules asks about everything, reads too; and a tool is told its session by its type.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_rules_everything_is_asked() {
    let tools = [tool("look", "read"), tool("put", "edit"), tool("my_tool", "my_tool")];
    let calls = tools.iter().fold(Reply::empty(), |reply, tool| reply.with_call(tool.name, json!({})));
    let lab = lab([calls, Reply::text("ok")], tools.clone()).await;
    let session = lab.runtime.create(lab.options()).await.unwrap();
    let mut events = session.events();
    let receipt = session.prompt("go").await.unwrap();
    let asked = asks(&mut events, async |ask| session.answer(ask, Grant::Once).await.unwrap()).await;
    receipt.wait().await.unwrap();
    assert_eq!(asked, 3);
    assert_eq!(lab.results(), [(); 3].map(|()| format!("ran in {}", session.id())));
    assert!(lab.runtime.shutdown().await.is_empty());
}

/// H-18, C-02: each wish is judged by the rules of the agent and, behind them, those of the session: these may loosen and
/// tighten what the agent's say, but not allow what it denies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rules_of_an_agent_stand_before_those_of_its_session() {
    let tools = ["look", "put", "drop", "free"].map(|name| tool(name, name));
    let calls = tools.iter().fold(Reply::empty(), |reply, tool| reply.with_call(tool.name, json!({})));
    let lab = lab([calls, Reply::text("ok")], tools.clone()).await;
    let mut agent = Agent::new("careful", "Takes care.");
    agent.permission = vec![
        Rule::new("*", "*", Action::Allow),
        Rule::new("drop", "*", Action::Deny),
        Rule::new("free", "*", Action::Ask),
    ];
    let mut options = SessionOptions::from_agent(&agent, lab.folder.path()).unwrap();
    options.rules = Some(rules("session", &[("put", Action::Ask), ("drop", Action::Allow), ("free", Action::Allow)]));
    let session = lab.runtime.create(options).await.unwrap();
    let mut events = session.events();
    let receipt = session.prompt("go").await.unwrap();
    let rejection = || Grant::Reject(Some("not now".into()));
    let asked = asks(&mut events, async |ask| session.answer(ask, rejection()).await.unwrap()).await;
    receipt.wait().await.unwrap();
    assert_eq!(asked, 1, "put, as the session says");
    assert_eq!(tools.each_ref().map(Counting::began), [1, 0, 0, 1]);
    let results = lab.results();
    assert!(results[1].contains("not now"), "{results:?}");
    assert!(results[2].contains("by agent careful (deny drop *)"), "{results:?}");
    assert!(lab.runtime.shutdown().await.is_empty());
}

/// H-23: whether a tool can be used at all is one thing, how far it may go another: the first is what the model is told of, the
/// second is judged call by call, and neither makes up for the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_must_be_there_and_be_allowed() {
    let tools = ["look", "put", "drop"].map(|name| tool(name, name));
    let near = Reply::call("put", json!({"at": "near"})).with_call("put", json!({"at": "far"}));
    let lab = lab([near.with_call("drop", json!({})), Reply::text("ok")], tools.clone()).await;
    let mut options = lab.options();
    options.tools = Some(["look", "put"].map(str::to_owned).into());
    let mut allowed = rules("test", &[("*", Action::Allow)]);
    allowed.rules.push(Rule::new("put", "far", Action::Deny));
    options.rules = Some(allowed);
    let session = lab.runtime.create(options).await.unwrap();
    session.prompt("go").await.unwrap().wait().await.unwrap();
    let told: Vec<_> = lab.model.requests()[0].tools.iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(told, ["look", "put"]);
    let results = lab.results();
    assert!(results[0].starts_with("ran in "), "{results:?}");
    assert_eq!(results[1], "Permission denied: put far by test (deny put far).");
    assert_eq!(results[2], "The tool drop is not among those of this agent.");
    assert_eq!(tools.each_ref().map(Counting::began), [0, 1, 0]);
    assert!(lab.runtime.shutdown().await.is_empty());
}

/// H-24: a session's asks and grants are its actor's, so however many answer at the same time, each ask has one answer: whoever
/// came later is told so, and no call runs twice or unasked.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn asks_that_many_answer_at_once_are_answered_once() {
    const CALLS: usize = 8;
    let put = tool("put", "put");
    let calls = (0..CALLS).fold(Reply::empty(), |reply, n| reply.with_call("put", json!({"at": n.to_string()})));
    let lab = lab([calls, Reply::text("ok")], [put.clone()]).await;
    let session = lab.runtime.create(lab.options().profile(Profile::Strict)).await.unwrap();
    let mut events = session.events();
    let receipt = session.prompt("go").await.unwrap();
    let mut open = Vec::new();
    while open.len() < CALLS {
        if let Next::Event(event) = events.next().await.unwrap()
            && let EventKind::Ask { ask, .. } = event.kind
        {
            open.push(ask);
        }
    }
    assert_eq!(put.began(), 0);
    let answers = (0..4).flat_map(|_| open.clone()).map(|ask| {
        let session = session.clone();
        tokio::spawn(async move { session.answer(ask, Grant::Once).await })
    });
    let mut taken = 0;
    for answer in answers.collect::<Vec<_>>() {
        match answer.await.unwrap() {
            Ok(()) => taken += 1,
            Err(error) => assert!(matches!(error, SendError::Refused(Refusal::AskClosed { .. })), "{error}"),
        }
    }
    assert_eq!(receipt.wait().await.unwrap().outcome, Outcome::Done);
    assert_eq!((taken, put.began()), (CALLS, CALLS));
    assert!(lab.runtime.shutdown().await.is_empty());
}

/// CONFIG-ERR-003: an empty list of tools is none at all, and not all of them: the model is told of none, and none runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_list_of_tools_is_no_tool() {
    let look = tool("look", "read");
    let lab = lab([Reply::call("look", json!({})), Reply::text("ok")], [look.clone()]).await;
    let mut options = lab.options().profile(Profile::Auto);
    options.tools = Some(BTreeSet::new());
    let session = lab.runtime.create(options).await.unwrap();
    session.prompt("go").await.unwrap().wait().await.unwrap();
    assert!(lab.model.requests()[0].tools.is_empty());
    assert_eq!((lab.results(), look.began()), (vec!["The tool look is not among those of this agent.".to_owned()], 0));
    assert!(lab.runtime.shutdown().await.is_empty());
}

/// E-07, E-08: an agent's tools, and those that a message switches, may be named by patterns; the model is told of what is left,
/// and nothing else runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tools_are_named_by_patterns() {
    let tools = ["mcp_files_read", "mcp_files_drop", "mcp_mail_send", "look", "put"].map(|name| tool(name, name));
    let calls = tools.iter().fold(Reply::empty(), |reply, tool| reply.with_call(tool.name, json!({})));
    let lab = lab([calls, Reply::text("ok"), Reply::text("ok")], tools.clone()).await;
    let mut options = lab.options().profile(Profile::Auto);
    options.tools = Some(BTreeSet::from(["mcp_*".to_owned(), "look".to_owned()]));
    let session = lab.runtime.create(options).await.unwrap();
    let mut message = Message::user("go");
    message.tools =
        [("mcp_*", false), ("mcp_files_*", true), ("put", true)].map(|(name, on)| (name.to_owned(), on)).into();
    session.prompt(message).await.unwrap().wait().await.unwrap();
    session.prompt("and again").await.unwrap().wait().await.unwrap();
    let told = |request: &Request| request.tools.iter().map(|tool| tool.name.clone()).collect::<Vec<_>>();
    let requests = lab.model.requests();
    assert_eq!(told(&requests[0]), ["look", "mcp_files_drop", "mcp_files_read"]);
    assert_eq!(told(&requests[2]), ["look", "mcp_files_drop", "mcp_files_read", "mcp_mail_send"]);
    assert_eq!(tools.each_ref().map(Counting::began), [1, 1, 0, 1, 0]);
    assert!(lab.runtime.shutdown().await.is_empty());
}

/// C-05: what was granted for a session holds in that session, also after a restart, and in no other one; a deny that comes later
/// beats it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_for_a_session_ends_with_it() {
    let put = tool("put", "edit");
    let turn = || [Reply::call("put", json!({})), Reply::text("ok")];
    let lab = lab((0..4).flat_map(|_| turn()), [put.clone()]).await;
    let profile = || lab.options().profile(Profile::Ask);
    let asked_in = async |session: &Session, grant: Grant| {
        let mut events = session.events();
        let receipt = session.prompt("go").await.unwrap();
        let asked = asks(&mut events, async |ask| session.answer(ask, grant.clone()).await.unwrap()).await;
        receipt.wait().await.unwrap();
        asked
    };
    let granted = lab.runtime.create(profile()).await.unwrap();
    assert_eq!(asked_in(&granted, Grant::Always(Scope::Session)).await, 1);
    let other = lab.runtime.create(profile()).await.unwrap();
    assert_eq!(asked_in(&other, Grant::Once).await, 1, "it was granted in another session");
    lab.runtime.operate().restart(granted.id().as_str()).await.unwrap();
    assert_eq!((asked_in(&granted, Grant::Reject(None)).await, put.began()), (0, 3), "it is on the tape");
    granted.configure(|settings| settings.rules.push(rules("later", &[("edit", Action::Deny)]))).await.unwrap();
    assert_eq!((asked_in(&granted, Grant::Reject(None)).await, put.began()), (0, 3));
    assert!(lab.results().last().unwrap().contains("Permission denied: edit a.txt by later"), "{:?}", lab.results());
    assert!(lab.runtime.shutdown().await.is_empty());
}

/// M-01, M-02: an agent is a persona, tools, a permission and limits, and each of the four is felt by whoever uses it: the prompt
/// is what the model is told, no tool beyond its own is offered or run, what it may not do is denied, and its turn ends at its
/// limits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_is_a_persona_tools_a_permission_and_limits() {
    let tools = ["look", "put", "drop"].map(|name| tool(name, name));
    let calls = || tools.iter().fold(Reply::empty(), |reply, tool| reply.with_call(tool.name, json!({})));
    let lab = lab([calls(), calls()], tools.clone()).await;
    let agent = r#"{"name":"looker","description":"Looks.","prompt":"You look, and touch nothing.","tools":["look","put"],
        "permission":[{"permission":"*","pattern":"*","action":"allow"},{"permission":"put","pattern":"*","action":"deny"}],
        "limits":{"steps_max":2,"output_max":77}}"#;
    let options = SessionOptions::from_agent(&Agent::from_json(agent).unwrap(), lab.folder.path()).unwrap();
    let session = lab.runtime.create(options).await.unwrap();
    let answer = session.prompt("go").await.unwrap().wait().await.unwrap();
    assert_eq!((answer.outcome, answer.steps), (Outcome::StepLimit { steps: 2 }, 2));
    let requests = lab.model.requests();
    for request in &requests {
        assert_eq!((&*request.system, request.params.max_output), ("You look, and touch nothing.", Some(77)));
    }
    let told = |request: &Request| request.tools.iter().map(|tool| tool.name.clone()).collect::<Vec<_>>();
    assert_eq!((told(&requests[0]), told(&requests[1])), (vec!["look".to_owned()], vec![]), "put is denied in full");
    let results = lab.results();
    assert_eq!(results[0], format!("ran in {}", session.id()));
    assert!(results[1].contains("Permission denied: put a.txt by agent looker"), "{results:?}");
    assert_eq!(results[2], "The tool drop is not among those of this agent.");
    assert_eq!(tools.each_ref().map(Counting::began), [1, 0, 0]);
    assert!(lab.runtime.shutdown().await.is_empty());
}
