//! Tools that are found before they are listed, because the servers have many.

use serde_json::json;
use tamtam::{
    Outcome, Runtime, Session,
    model::{Item, Reply, Request, Scripted},
    permission::{Action, Rule, Ruleset},
};

use crate::lab::{Lab, hostile};

fn names(request: &Request) -> Vec<&str> {
    request.tools.iter().map(|tool| tool.name.as_str()).collect()
}

/// A model that searches for what it is told to (`find QUERY`), or calls a tool (`call NAME`), and then says that it is done.
fn obedient() -> Scripted {
    Scripted::from_fn(|request: &Request| match request.history.iter().next_back().map(AsRef::as_ref) {
        Some(Item::User(user)) => match user.text().split_once(' ') {
            Some(("find", query)) => Reply::call("tool_search", json!({"query": query, "count": 2})),
            Some(("call", name)) => Reply::call(name, json!({})),
            _ => Reply::text("Done."),
        },
        _ => Reply::text("Done."),
    })
}

async fn say(session: &Session, words: &str) {
    let answer = session.prompt(words).await.unwrap().wait().await.unwrap();
    assert_eq!(answer.outcome, Outcome::Done, "{answer:?}");
}

async fn last_result(session: &Session) -> String {
    let state = session.state().await.unwrap();
    let mut results = state.history.iter().rev().filter_map(|item| match item.as_ref() {
        Item::Result(result) => Some(result.content.clone()),
        _ => None,
    });
    results.next().unwrap()
}

/// AA-01, promise 12: with many tools a request lists one that searches; what it finds is listed behind it from the next request on, in
/// this session alone, also after a restart; what the rules deny is not listed although it was found.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_session_finds_is_offered_to_it_from_then_on() {
    let folder = crate::taped::folder();
    let config = hostile("bad", "many", &folder.path().join("starts"));
    let model = obedient();
    let lab = Lab::with(folder, [config]).await.with_sessions(model.clone()).await;
    let session = lab.runtime.create(lab.options()).await.unwrap();
    say(&session, "find t17").await;
    let found = last_result(&session).await;
    assert!(found.contains("\n- mcp_bad_t17: The tool t17.\n") && found.lines().count() == 2, "{found}");
    say(&session, "find t5").await;
    say(&session, "call mcp_bad_t17").await;
    let requests = model.requests();
    let listed: Vec<_> = requests.iter().map(names).collect();
    assert_eq!(listed[..2], [vec!["tool_search"], vec!["tool_search", "mcp_bad_t17"]]);
    assert_eq!(listed[3][..2], ["tool_search", "mcp_bad_t17"], "what was found first stays where it is");
    assert!(listed[3].contains(&"mcp_bad_t5") && listed[3].len() == 4, "{:?}", listed[3]);
    assert_eq!((requests[2].tools.clone(), &requests[5].tools), (requests[1].tools.clone(), &requests[3].tools));
    assert_eq!(last_result(&session).await, "called t17");
    assert_eq!(lab.figures("bad").calls, 1, "a search asks no server");

    let listed_now = || names(model.requests().last().unwrap()).into_iter().map(str::to_owned).collect::<Vec<_>>();
    let fork = session.fork(tamtam::session::ForkOptions::newest()).await.unwrap();
    say(&fork, "hello").await;
    assert_eq!(model.requests().last().unwrap().tools, requests[5].tools, "a fork has what its parent found");
    let other = lab.runtime.create(lab.options()).await.unwrap();
    say(&other, "hello").await;
    assert_eq!(listed_now(), ["tool_search"]);
    say(&other, "find t17").await;
    assert_eq!(listed_now().len(), 2);
    other.undo().await.unwrap();
    say(&other, "call no_such_tool").await;
    assert_eq!(listed_now(), ["tool_search"], "an undo takes back what was found");
    assert_eq!(last_result(&other).await, "tool not found: no_such_tool. Available tools: tool_search");
    let mut denied = lab.options();
    denied.rules =
        Some(Ruleset::new("test", [Rule::new("*", "*", Action::Allow), Rule::new("mcp_bad_t17", "*", Action::Deny)]));
    let denied = lab.runtime.create(denied).await.unwrap();
    say(&denied, "find t17").await;
    assert_eq!(listed_now(), ["tool_search"]);

    // The next runtime over the same store knows what was found.
    let id = session.id().clone();
    assert!(lab.runtime.shutdown().await.is_empty());
    let tools = lab.servers.tools().into_iter();
    let builder = Runtime::builder().store(lab.folder.path().join("second")).model(std::sync::Arc::new(model.clone()));
    let runtime = tools.fold(builder, tamtam::runtime::Builder::tool).start().await.unwrap();
    say(&runtime.open(&id).await.unwrap(), "hello").await;
    assert_eq!(model.requests().last().unwrap().tools, requests[5].tools);
    assert!(runtime.shutdown().await.is_empty());
}

/// Few tools are listed as ever, and a host sets what is few. What is offered again takes the place of what was, the search too.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_says_how_many_tools_are_listed() {
    let folder = crate::taped::folder();
    let config = hostile("bad", "good", &folder.path().join("starts"));
    let lab = Lab::with(folder, [config]).await;
    lab.list().await;
    let offered = |servers: &tamtam_mcp::Servers| {
        servers.offer(&lab.runtime).unwrap();
        let specs = lab.runtime.tools().specs();
        (specs.iter().any(|spec| spec.name == "tool_search"), specs.iter().filter(|spec| spec.deferred).count())
    };
    let at = |tools, bytes| lab.servers.clone().listed_max(tools, bytes);
    assert_eq!(offered(&lab.servers), (false, 0));
    assert_eq!(offered(&at(5, 1 << 20)), (true, 6), "six tools, five are few");
    assert_eq!(offered(&at(6, 100)), (true, 6), "six tools, but large ones");
    assert_eq!(offered(&at(6, 1 << 20)), (false, 0));
    lab.end().await;
}
