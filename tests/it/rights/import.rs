//! A tape from elsewhere: its words come in and its powers do not; and if a host believes it, its facts about a call
//! are not believed when the call would run again.

use tamtam::{
    Millis, Seq, SessionId,
    tape::{ImportOptions, Spills, Store, StoreOptions, TapeAccess, TapeStore as _, TapeStoreExt as _},
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
    let reading = StoreOptions::default().access(TapeAccess::Read);
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
    store.import(&mut &file[..], &ImportOptions::as_it_was()).unwrap();
    drop(store);
    let model = Arc::new(Scripted::new([Reply::text("I see")]));
    let builder = builder(folder.path(), &model).tool(probe.clone());
    let builder = match rules {
        Some(rules) => builder.rules(rules),
        None => builder,
    };
    let runtime = builder.start().await.unwrap();
    let session = runtime.open(&id).await.unwrap();
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

/// Promise 8: of a file from anybody nothing runs by itself, what it allows is asked about here, and it works where the importer
/// said; whoever goes on from an entry before it was brought in, by a fork, has no more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_file_says_of_rules_calls_and_places_has_no_power() {
    let (file, id) = forged("probe").await;
    let (folder, here) = (taped::folder(), taped::folder());
    let store = Store::open(folder.path().join("store"), StoreOptions::default()).unwrap();
    let options = ImportOptions::into_workspace(here.path().to_str().unwrap(), Millis(1));
    let imported = store.import(&mut &file[..], &options).unwrap();
    let entries = store.read(&id, Seq::ZERO).unwrap();
    let newest = entries.last().unwrap();
    assert_eq!((newest.seq, newest.kind.as_str()), (imported.last, "imported"));
    assert!(newest.time >= entries[entries.len() - 2].time, "time does not go back");
    let whole: Vec<Seq> = entries.iter().map(|entry| entry.seq).filter(|seq| *seq < imported.last).collect();
    drop(store);
    let probe = Probe::new("probe", Effect::Read);
    let replies = || [Reply::call("probe", json!({})), Reply::text("I see")];
    let model = Arc::new(Scripted::new(whole.iter().chain([&imported.last]).flat_map(|_| replies())));
    let runtime = builder(folder.path(), &model).tool(probe.clone()).start().await.unwrap();
    let session = runtime.open(&id).await.unwrap();
    idle(&session).await;
    assert_eq!((probe.runs(), model.requests().len()), (0, 0), "nothing goes on by itself");
    let mut forks = 0;
    let mut all = vec![session];
    for at in whole {
        if let Ok(fork) = runtime.session(&id).fork(at).await {
            forks += 1;
            all.push(fork);
        }
    }
    assert!(forks >= 3, "{forks}");
    for session in &all {
        say(session, "again").await;
        let said = shown(&model);
        assert!(said.contains("probe * must be asked for, and nobody listens"), "{}: {said}", session.id());
        let settings = session.state().await.unwrap().settings.clone();
        assert_eq!(settings.workspace, here.path().to_str().unwrap());
        assert_eq!(settings.read_roots.len(), 1, "its own large outputs: {:?}", settings.read_roots);
    }
    assert_eq!(probe.runs(), 0);
    assert!(runtime.shutdown().await.is_empty());
    let reading = StoreOptions::default().access(TapeAccess::Read);
    let store = Store::open(folder.path().join("store"), reading).unwrap();
    assert_eq!(store.verify_all().unwrap(), []);
}

/// The file with another name inside of its first entry, sealed anew: anybody can do that.
fn calling_itself(victim: &str, file: &[u8]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), StoreOptions::default()).unwrap();
    let believed = ImportOptions::as_it_was();
    let id = store.import(&mut &*file, &believed).unwrap().session;
    let lines = store.read(&id, Seq::ZERO).unwrap();
    let mut tape = store.create(&"forged".parse().unwrap(), Arc::new(|_| {})).unwrap();
    for line in &lines {
        let text = line.data.get().replace(&format!("\"session\":\"{id}\""), &format!("\"session\":\"{victim}\""));
        let data = serde_json::value::RawValue::from_string(text).unwrap();
        let mut forged = line.clone();
        forged.data = data;
        let _ = tape.append(&[forged]);
        assert!(store.settle(Duration::from_secs(30)));
    }
    let mut out = Vec::new();
    store.export(&"forged".parse().unwrap(), Spills::Left, &mut out).unwrap();
    out
}

/// A file may call itself what it likes: here it is what it is called here, for hooks, keys, folders and streams; and one that is
/// believed and does not know its own name is damaged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_file_calls_itself_has_no_power() {
    let (file, _) = forged("probe").await;
    let file = calling_itself("victim", &file);
    // Not replayed: no session wrote these entries under that name, or in these appends.
    let (folder, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = Store::open(folder.path().join("store"), StoreOptions::default()).unwrap();
    let narrowed = ImportOptions::into_workspace(here.path().to_str().unwrap(), Millis(1));
    store.import(&mut &file[..], &narrowed).unwrap();
    store.import(&mut &file[..], &narrowed.clone().under("renamed".parse().unwrap())).unwrap();
    store.import(&mut &file[..], &ImportOptions::as_it_was().under("believed".parse().unwrap())).unwrap();
    drop(store);
    let model = Arc::new(Scripted::new([Reply::text("one"), Reply::text("two")]));
    let runtime = builder(folder.path(), &model).start().await.unwrap();
    for name in ["forged", "renamed"] {
        let session = runtime.open(&name.parse().unwrap()).await.unwrap();
        say(&session, "who are you?").await;
        assert_eq!(session.state().await.unwrap().session.as_str(), name);
    }
    let refused = runtime.open(&"believed".parse().unwrap()).await.unwrap_err().to_string();
    assert!(refused.contains("it says that it is session victim"), "{refused}");
    assert!(runtime.shutdown().await.is_empty());
}

/// A backup of what was brought in comes back as it was, and so does what an import took: also for a fork from before it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_of_what_was_brought_in_gives_nothing_back() {
    let (file, id) = forged("probe").await;
    // Replayed at the end: under another name the keys of calls are those of before, and that is no difference.
    let (folder, here) = (taped::folder(), taped::folder());
    let first = Store::open(folder.path().join("first"), StoreOptions::default()).unwrap();
    let narrowed = ImportOptions::into_workspace(here.path().to_str().unwrap(), Millis(1));
    let imported = first.import(&mut &file[..], &narrowed).unwrap();
    let mut backup = Vec::new();
    first.export(&id, Spills::Left, &mut backup).unwrap();
    let second = Store::open(folder.path().join("second"), StoreOptions::default()).unwrap();
    for options in [ImportOptions::as_it_was(), ImportOptions::as_it_was().under("again".parse().unwrap())] {
        let back = second.import(&mut &backup[..], &options).unwrap();
        assert_eq!(back.last, imported.last, "nothing is written behind it");
        let fork: SessionId = format!("fork-of-{}", back.session).parse().unwrap();
        second.fork(&back.session, Some(Seq(1)), &fork, Millis(2)).unwrap();
        let kinds: Vec<_> = second.read(&fork, Seq(1)).unwrap().into_iter().map(|entry| entry.kind).collect();
        assert_eq!(kinds, ["forked", "imported"], "{}", back.session);
    }
    assert_eq!((first.verify_all().unwrap(), second.verify_all().unwrap()), (vec![], vec![]));
}
