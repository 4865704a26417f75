//! A tape that somebody else made: what it says of a call is not believed when the call would run again.

use tamtam::{
    SessionId,
    tape::{Access, Spills, Store, StoreOptions},
};

use super::*;

/// A tape on which a call of a tool of that name is running, and may run again.
async fn forged(tool: &'static str) -> (Vec<u8>, SessionId) {
    let folder = taped::folder();
    let model = Arc::new(Scripted::new([Reply::call(tool, json!({}))]));
    let read = Probe::new(tool, Effect::Read).waiting();
    let runtime = builder(folder.path(), &model).tool(read.clone()).start().await.unwrap();
    let session = runtime.create(options(folder.path(), everything())).await.unwrap();
    drop(session.prompt("go").await.unwrap());
    read.has_run(1).await;
    let reading = StoreOptions { access: Access::Read, ..StoreOptions::default() };
    let store = Store::open(folder.path().join("store"), reading).unwrap();
    let mut file = Vec::new();
    store.export(session.id(), Spills::Left, &mut file).unwrap();
    drop(store);
    assert!(runtime.shutdown().await.is_empty());
    (file, session.id().clone())
}

/// What a host with that tool does when it goes on with such a tape: how often the tool runs, and what the model is told.
async fn gone_on(probe: Probe, rules: Option<Ruleset>) -> (usize, String) {
    let (file, id) = forged(probe.name).await;
    let folder = taped::folder();
    let store = Store::open(folder.path().join("store"), StoreOptions::default()).unwrap();
    store.import(&mut &file[..], None).unwrap();
    drop(store);
    let model = Arc::new(Scripted::new([Reply::text("I see")]));
    let builder = builder(folder.path(), &model).tool(probe.clone());
    let builder = match rules {
        Some(rules) => builder.rules(rules),
        None => builder,
    };
    let runtime = builder.start().await.unwrap();
    let session = runtime.resume(&id).await.unwrap();
    idle(&session).await;
    assert!(runtime.shutdown().await.is_empty());
    (probe.runs(), shown(&model))
}

/// Promises 4, 8: a tape cannot make a call run again whose tool does not: it says itself what its effect is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tape_cannot_say_that_a_call_may_run_again() {
    let (runs, said) = gone_on(Probe::new("probe", Effect::Once), None).await;
    assert_eq!(runs, 0);
    assert!(said.contains("its outcome is unknown"), "{said}");
}

/// Promise 8: nor that it was allowed: the host is asked before anything runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tape_cannot_say_that_a_call_was_allowed() {
    let deny = rules("host", &[("probe", "*", Action::Deny)]);
    let (runs, said) = gone_on(Probe::new("probe", Effect::Read), Some(deny)).await;
    assert_eq!(runs, 0);
    assert!(said.contains("Permission denied: probe * by host"), "{said}");
}

/// The other side: what its tool and the host allow runs again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_tool_and_host_allow_runs_again() {
    let (runs, said) = gone_on(Probe::new("probe", Effect::Read), None).await;
    assert_eq!(runs, 1);
    assert!(said.contains("ran"), "{said}");
}
