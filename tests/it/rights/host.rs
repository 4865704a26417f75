//! The rules of the host are those that it has now: over sessions of every age, their forks and their children.

use super::*;

fn deny_probe() -> Ruleset {
    rules("host", &[("probe", "*", Action::Deny)])
}

fn call() -> Reply {
    Reply::call("probe", json!({}))
}

/// Promise 8: stricter rules at the next start hold for a session that was made before; looser ones at the start after that too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rules_that_a_host_starts_with_hold_for_the_sessions_that_it_has() {
    let folder = taped::folder();
    let model = Arc::new(Scripted::new([]));
    let probe = Probe::new("probe", Effect::Once);
    let runtime = builder(folder.path(), &model).tool(probe.clone()).start().await.unwrap();
    let id = runtime.create(options(folder.path(), everything())).await.unwrap().id().clone();
    assert!(runtime.shutdown().await.is_empty());

    let model = Arc::new(Scripted::new([call(), Reply::text("refused"), call(), Reply::text("refused")]));
    let strict = builder(folder.path(), &model).tool(probe.clone()).rules(deny_probe()).start().await.unwrap();
    let session = strict.open(&id).await.unwrap();
    say(&session, "one").await;
    assert!(shown(&model).contains("Permission denied: probe * by host"), "{}", shown(&model));
    // No change of the settings reaches them, and none has to name them.
    session.configure(|settings| settings.rules = vec![everything()]).await.unwrap();
    session.configure(|settings| settings.host = None).await.unwrap();
    say(&session, "two").await;
    assert_eq!(probe.runs(), 0);
    assert_eq!(kinds(folder.path(), &session, "host_rules").len(), 1);
    assert!(strict.shutdown().await.is_empty());

    let model = Arc::new(Scripted::new([call(), Reply::text("done")]));
    let loose = builder(folder.path(), &model).tool(probe.clone()).start().await.unwrap();
    say(&loose.open(&id).await.unwrap(), "three").await;
    assert_eq!(probe.runs(), 1);
    assert!(loose.shutdown().await.is_empty());
}

/// Promise 8: they hold for a turn that was cut off, before anything of it goes on: for a call that runs again, and for one
/// that had not begun.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_hold_for_a_turn_that_was_cut_off() {
    let folder = taped::folder();
    let both = Reply::call("look", json!({})).with_call("probe", json!({}));
    let model = Arc::new(Scripted::new([both]));
    let (look, probe) = (Probe::new("look", Effect::Read).waiting(), Probe::new("probe", Effect::Once));
    let runtime = builder(folder.path(), &model).tool(look.clone()).tool(probe.clone()).start().await.unwrap();
    let session = runtime.create(options(folder.path(), everything())).await.unwrap();
    drop(session.prompt("go").await.unwrap());
    look.has_run(1).await;
    assert!(runtime.shutdown().await.is_empty());

    let model = Arc::new(Scripted::new([Reply::text("refused")]));
    let deny = rules("host", &[("look", "*", Action::Deny), ("probe", "*", Action::Deny)]);
    let strict = builder(folder.path(), &model).tool(look.clone()).tool(probe.clone()).rules(deny);
    let strict = strict.start().await.unwrap();
    idle(&strict.session(session.id())).await;
    assert_eq!((look.runs(), probe.runs()), (1, 0));
    let said = shown(&model);
    assert!(said.contains("Permission denied: look *") && said.contains("Permission denied: probe *"), "{said}");
    assert!(strict.shutdown().await.is_empty());
}

/// Promise 8: they hold for the fork of a session that was made before, and for its children.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_hold_for_its_fork_and_for_its_child() {
    let folder = taped::folder();
    let model = Arc::new(Scripted::new([Reply::text("hello")]));
    let probe = Probe::new("probe", Effect::Once);
    let runtime = builder(folder.path(), &model).tool(probe.clone()).start().await.unwrap();
    let old = runtime.create(options(folder.path(), everything())).await.unwrap();
    say(&old, "hello").await;
    assert!(runtime.shutdown().await.is_empty());

    let model = Arc::new(Scripted::new([call(), Reply::text("refused"), call(), Reply::text("refused")]));
    let strict = builder(folder.path(), &model).tool(probe.clone()).rules(deny_probe()).start().await.unwrap();
    let fork = strict.session(old.id()).fork(tamtam::session::ForkOptions::newest()).await.unwrap();
    say(&fork, "go").await;
    assert!(shown(&model).contains("Permission denied: probe * by host"), "{}", shown(&model));
    let old = strict.session(old.id());
    let child = old.spawn_child(options(folder.path(), everything()), "work", Link::DETACHED).await.unwrap();
    assert_eq!(down(&child).await, DownReason::Done);
    assert!(shown(&model).contains("Permission denied: probe * by host"), "{}", shown(&model));
    assert_eq!(probe.runs(), 0);
    // It was made under them, so there is nothing to say.
    assert_eq!(kinds(folder.path(), child.session(), "host_rules").len(), 0);
    assert!(strict.shutdown().await.is_empty());
}
