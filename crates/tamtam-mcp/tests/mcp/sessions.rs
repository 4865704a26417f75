//! Servers in whole turns: questions to people, rules, sizes, and tools that come and go.

use std::sync::Arc;

use serde_json::{Value, json};
use tamtam::{
    EventKind, EventStream, Outcome, Runtime, Seq, Session,
    hook::{Hook, HookCall, HookContext, Outgoing, Verdict},
    model::{BoxFuture, Item, Reply, Request, ScriptBy, Scripted},
    ops::replay::Replay,
    permission::{Action, Profile, Rule, Ruleset},
    runtime::{Builder, Skill, Skills},
    session::{Grant, Next},
    tape::{Store, StoreOptions, TapeAccess},
};

use crate::lab::{Lab, PATIENCE, everything, hostile, until};

/// A runtime with one hostile server of this mode, and a model that calls one of its tools and then says that it is done.
async fn calling(mode: &str, tool: &str, arguments: Value) -> (Lab, Scripted) {
    let folder = crate::taped::folder();
    let config = hostile("bad", mode, &folder.path().join("starts"));
    let model = Scripted::from_list([Reply::call(tool, arguments), Reply::text("Done.")], ScriptBy::Answers);
    (Lab::with(folder, [config]).await.with_sessions(model.clone()).await, model)
}

/// The result of the one call of a session.
async fn result(session: &Session) -> String {
    let state = session.state().await.unwrap();
    let result = state.history.iter().find_map(|item| match item.as_ref() {
        Item::Result(result) => Some(result.content.to_string()),
        _ => None,
    });
    result.unwrap()
}

/// The next ask, and what it is about.
async fn asked(events: &mut EventStream) -> (Seq, String) {
    let next = async {
        loop {
            if let Next::Event(event) = events.next().await.expect("the session lives")
                && let EventKind::Ask { ask, question, name, .. } = &event.kind
            {
                let title = question.as_ref().map_or_else(|| name.to_string(), |question| question.title.clone());
                return (*ask, title);
            }
        }
    };
    tokio::time::timeout(PATIENCE, next).await.expect("the question comes")
}

fn names(request: &Request) -> Vec<&str> {
    request.tools.iter().map(|tool| tool.name.as_str()).collect()
}

/// E-10: a question of the server is an ask of the session; a yes fills its form, a no declines. Both eras of the protocol.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_of_the_server_is_asked_in_the_session_and_answered() {
    for (mode, end) in [("good", ""), ("modern", " s1")] {
        let (lab, _) = calling(mode, "mcp_bad_ask", json!({})).await;
        for (grant, expected) in [
            (Grant::Once, json!({"action": "accept", "content": {"sure": true}})),
            (Grant::Reject(Some("no".to_owned())), json!({"action": "decline"})),
        ] {
            let session = lab.runtime.create(lab.options()).await.unwrap();
            let mut events = session.events();
            let prompt = session.prompt("Go.").await.unwrap();
            let (ask, title) = asked(&mut events).await;
            let words = if mode == "good" { "Really?" } else { "Sure?" };
            assert_eq!(title, format!("The MCP server \"bad\" asks: {words}"));
            session.answer(ask, grant).await.unwrap();
            assert_eq!(prompt.wait().await.unwrap().outcome, Outcome::Done);
            let said = result(&session).await;
            let answer: Value = serde_json::from_str(said.strip_suffix(end).unwrap()).unwrap();
            assert_eq!(answer, expected, "{mode}");
        }
        lab.end().await;
    }
}

/// E-08, H-12: a rule about `mcp_bad_*` is about all tools of the server: a deny hides them, and in a session whose rules ask, a call
/// is asked about by its name.
#[tokio::test(flavor = "multi_thread")]
async fn a_rule_about_a_server_hides_its_tools_or_asks() {
    let (lab, model) = calling("good", "mcp_bad_echo", json!({"a": 1})).await;
    let mut denied = lab.options();
    denied.rules =
        Some(Ruleset::new("test", [Rule::new("*", "*", Action::Allow), Rule::new("mcp_bad_*", "*", Action::Deny)]));
    let session = lab.runtime.create(denied).await.unwrap();
    let answer = session.prompt("Go.").await.unwrap().wait().await.unwrap();
    assert_eq!(answer.outcome, Outcome::Done);
    assert!(names(&model.requests()[0]).is_empty(), "{:?}", names(&model.requests()[0]));
    assert!(!result(&session).await.contains("{\"a\":1}"));

    let session = lab.runtime.create(lab.options().profile(Profile::Ask)).await.unwrap();
    let mut events = session.events();
    let prompt = session.prompt("Go.").await.unwrap();
    let (ask, name) = asked(&mut events).await;
    assert_eq!(name, "mcp_bad_echo");
    assert_eq!(lab.figures("bad").calls, 0, "nothing reached the server");
    session.answer(ask, Grant::Once).await.unwrap();
    assert_eq!(prompt.wait().await.unwrap().outcome, Outcome::Done);
    assert_eq!((result(&session).await.as_str(), lab.figures("bad").calls), ("{\"a\":1}", 1));
    assert!(names(&model.requests().pop().unwrap()).contains(&"mcp_bad_echo"));
    lab.end().await;
}

/// A result that is too long is cut as every result is, and says where the whole is.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_result_is_cut_by_the_runtime() {
    let (lab, _) = calling("good", "mcp_bad_echo", json!({"text": "x\n".repeat(100_000)})).await;
    let session = lab.runtime.create(lab.options()).await.unwrap();
    assert_eq!(session.prompt("Go.").await.unwrap().wait().await.unwrap().outcome, Outcome::Done);
    let said = result(&session).await;
    assert!(
        said.len() < 60_000 && said.contains("Full output: "),
        "{} bytes: {}",
        said.len(),
        &said[said.len() - 300..]
    );
    lab.end().await;
}
/// AA-01: a session has the tools of a server that starts after it, and those that the server has later.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_has_the_tools_that_a_server_has_now() {
    let folder = crate::taped::folder();
    let config = hostile("bad", "rename", &folder.path().join("starts"));
    let model = Scripted::from_fn(|request| match (names(request).first(), request.history.iter().count()) {
        (Some(&"mcp_bad_before"), 1) => Reply::call("mcp_bad_before", json!({})),
        _ => Reply::text("Done."),
    });
    let lab = Lab::around(folder, [config], model.clone()).await;
    let session = lab.runtime.create(lab.options()).await.unwrap();
    session.prompt("One.").await.unwrap().wait().await.unwrap();
    lab.list().await;
    let (servers, runtime) = (lab.servers.clone(), lab.runtime.clone());
    let following = tokio::spawn(async move { servers.keep_offered(&runtime).await });
    until("the tools are offered", || lab.runtime.tools().names().any(|name| name == "mcp_bad_before")).await;
    let other = lab.runtime.create(lab.options()).await.unwrap();
    other.prompt("Two.").await.unwrap().wait().await.unwrap();
    assert_eq!(result(&other).await, "called before");
    until("the new tools are offered", || lab.runtime.tools().names().any(|name| name == "mcp_bad_after")).await;
    session.prompt("Three.").await.unwrap().wait().await.unwrap();
    let offered: Vec<Vec<String>> =
        model.requests().iter().map(|request| names(request).into_iter().map(str::to_owned).collect()).collect();
    assert_eq!((&offered[0], offered.last().unwrap()), (&vec![], &vec!["mcp_bad_after".to_owned()]));
    following.abort();
    lab.end().await;
}

/// Puts a reminder behind each request, and rewrites what `echo` is told.
struct Rewrites;

impl Hook for Rewrites {
    fn name(&self) -> &str {
        "rewrites"
    }

    fn sees_requests(&self) -> bool {
        true
    }

    fn before_call<'a>(&'a self, call: &'a HookCall) -> BoxFuture<'a, Verdict> {
        let is_first = call.arguments == json!({"message": "first"});
        Box::pin(async move { if is_first { Verdict::Rewrite(json!({"message": "second"})) } else { Verdict::Pass } })
    }

    fn on_context<'a>(&'a self, _: &'a HookContext, mut request: Outgoing) -> BoxFuture<'a, Outgoing> {
        request.reminders.push("Keep it short.".to_owned());
        Box::pin(async { request })
    }
}

/// Extensions 6: the tape of a session that called a server, used a skill and had its requests and calls changed by a hook replays byte
/// for byte where there is no server, no skill and no hook.
#[tokio::test(flavor = "multi_thread")]
async fn a_tape_of_extensions_replays_without_any_of_them() {
    let lab = Lab::new([everything("all")]).await;
    assert_eq!(lab.list().await.error, None);
    let skills = Skills::default().with([Skill::new("brief", "Says less.", "Say less than before.").unwrap()]);
    let calls = Reply::call("mcp_all_echo", json!({"message": "first"})).with_call("skill", json!({"name": "brief"}));
    let model = Arc::new(Scripted::new([calls, Reply::text("Done.")]));
    let builder = Runtime::builder().store(lab.folder.path().join("second")).model(model.clone());
    let builder = lab.servers.tools().into_iter().fold(builder, Builder::tool).tool(skills.tool()).hook(Rewrites);
    let runtime = builder.start().await.unwrap();
    let session = runtime.create(lab.options()).await.unwrap();
    session.prompt("Go.").await.unwrap().wait().await.unwrap();
    let said = tamtam::model::transcript(&model.requests()[1]);
    assert!(said.contains("Echo: second") && said.contains("Say less than before."), "{said}");
    let id = session.id().clone();
    assert!(runtime.shutdown().await.is_empty());
    let options = StoreOptions::default().access(TapeAccess::Read);
    let store = Store::open(lab.folder.path().join("second"), options).unwrap();
    let steps: Vec<_> = Replay::open(&store, &id).unwrap().flat_map(|step| step.recorded).collect();
    for kind in ["prepared", "call_gated", "result"] {
        assert!(steps.iter().any(|(_, recorded)| recorded == kind), "{kind}: {steps:?}");
    }
    assert_eq!(Replay::open(&store, &id).unwrap().first_difference(), None);
    lab.end().await;
}
