//! What a session writes down and finds again: kinds of entries, settings, order, failures. Through the host's door.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use serde_json::json;
use tamtam::{
    Event, EventKind, Outcome, Runtime, Seq, Session, SessionOptions,
    hook::Hook,
    model::{ErrorKind, ModelError, Reply, Scripted},
    permission::Profile,
    session::Role,
    tape::{Store, StoreOptions, TapeAccess, TapeEntry, TapeStore as _, TapeStoreExt as _},
};

use crate::support::taped;

async fn runtime(folder: &Path, model: Scripted) -> Runtime {
    let builder = Runtime::builder().store(folder.join("store")).model(Arc::new(model));
    #[cfg(feature = "tools")]
    let builder = builder.tools(tamtam::tools::full());
    builder.start().await.unwrap()
}

async fn say(session: &Session, text: &str) -> Outcome {
    let answer = session.prompt(text).await.unwrap().wait().await.unwrap();
    session.wait().await.unwrap();
    answer.outcome
}

fn tape(folder: &Path, session: &Session) -> Vec<TapeEntry> {
    let options = StoreOptions::default().access(TapeAccess::Read);
    Store::open(folder.join("store"), options).unwrap().read(session.id(), Seq::ZERO).unwrap()
}

async fn texts(session: &Session) -> Vec<String> {
    session.messages().await.unwrap().iter().map(tamtam::Message::text).collect()
}

/// BDD-TAPE-004: a call is an entry of the tape, once. BDD-TAPE-026: message, call and message stand in one file, in the order
/// in which they came, each under its kind; here there is one file where the original had one for each kind.
#[cfg(feature = "tools")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_stands_between_the_messages_before_and_after_it() {
    let folder = taped::folder();
    std::fs::write(folder.path().join("test"), "content").unwrap();
    let model = Scripted::new([
        Reply::call("read", json!({"path": "test"})),
        Reply::text("It says content."),
        Reply::text("You are welcome."),
    ]);
    let runtime = runtime(folder.path(), model).await;
    let session = runtime.create(SessionOptions::new(folder.path()).profile(Profile::Auto)).await.unwrap();
    assert_eq!(say(&session, "Read it.").await, Outcome::Done);
    assert_eq!(say(&session, "Thanks.").await, Outcome::Done);
    let entries = tape(folder.path(), &session);
    let of_kind = |kind: &str| entries.iter().filter(|entry| entry.kind == kind).collect::<Vec<_>>();
    let calls = of_kind("call");
    assert_eq!(calls.len(), 1);
    assert!(calls[0].data.get().contains(r#""tool":"read""#), "{}", calls[0].data);
    let answer: serde_json::Value = serde_json::from_str(of_kind("answer")[0].data.get()).unwrap();
    let input = answer["answer"]["parts"].as_array().unwrap().iter().find_map(|part| part["input"].as_str()).unwrap();
    assert_eq!(serde_json::from_str::<serde_json::Value>(input).unwrap(), json!({"path": "test"}));
    let told: Vec<&str> = entries
        .iter()
        .map(|entry| entry.kind.as_str())
        .filter(|kind| matches!(*kind, "accepted" | "call" | "result"))
        .collect();
    assert_eq!(told, ["accepted", "call", "result", "accepted"]);
    let anchors = folder.path().join("store/sessions").join(session.id().as_str()).join("anchors/001_session-start");
    let files: Vec<_> = std::fs::read_dir(anchors).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(files, ["entries.jsonl"]);
    assert!(runtime.shutdown().await.is_empty());
}

/// BDD-TAPE-029: a tape takes whatever kind it is given, beside the others, and finds it by that.
#[cfg(feature = "sqlite")]
#[test]
fn an_entry_of_any_kind_is_kept_and_found_by_its_kind() {
    use tamtam::{Millis, tape::Query};
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), StoreOptions::default()).unwrap();
    let id = "s".parse().unwrap();
    let mut tape = store.create(&id, Arc::new(|_| {})).unwrap();
    for (seq, kind) in [(1, "message"), (2, "event")] {
        let entry = TapeEntry::new(
            Seq(seq),
            Millis(seq),
            kind,
            serde_json::value::to_raw_value(&json!({"text": "the gong was struck"})).unwrap(),
        );
        let _ = tape.append(&[entry]);
        assert!(store.settle(std::time::Duration::from_secs(60)));
    }
    let kinds: Vec<String> = store.read(&id, Seq::ZERO).unwrap().into_iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds, ["message", "event"]);
    let query = Query::new("gong").kinds(["event"]).wait(std::time::Duration::from_secs(60));
    let hits = store.search(&query).unwrap().hits;
    assert_eq!(hits.iter().map(|hit| hit.seq).collect::<Vec<_>>(), [Seq(2)]);
}

/// SESSION-007: what a session began with is what it has after a restart: its model, and the options that go to it.
/// SESSION-ERR-003: and what was said, in its order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_keeps_the_first_settings_and_the_order_of_what_was_said() {
    let folder = taped::folder();
    let named = |model: Scripted| model.named("deepseek/deepseek-chat".parse().unwrap());
    let first = runtime(folder.path(), named(Scripted::from_fn(|_| Reply::text("ok")))).await;
    let mut options = SessionOptions::new(folder.path());
    options.params.options = json!({"thinking": "high"});
    let session = first.create(options).await.unwrap();
    for text in ["first", "second", "third"] {
        assert_eq!(say(&session, text).await, Outcome::Done);
    }
    assert!(first.shutdown().await.is_empty());

    let other = named(Scripted::from_fn(|request| {
        assert_eq!(request.params.options, json!({"thinking": "high"}));
        Reply::text("still")
    }));
    let second = runtime(folder.path(), other).await;
    let session = second.open(session.id()).await.unwrap();
    let settings = session.state().await.unwrap().settings.clone();
    assert_eq!(settings.model.to_string(), "deepseek/deepseek-chat");
    assert_eq!(settings.params.options, json!({"thinking": "high"}));
    assert_eq!(texts(&session).await, ["first", "ok", "second", "ok", "third", "ok"]);
    assert_eq!(say(&session, "fourth").await, Outcome::Done);
    assert!(second.shutdown().await.is_empty());
}

/// SESSION-ERR-004: what failed stands on the tape, is shown as an event, and is what the turn ended with; also to whoever
/// listens later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_is_kept_and_shown() {
    let folder = taped::folder();
    let refused = ModelError::new(ErrorKind::InvalidRequest, "no such parameter");
    let runtime = runtime(folder.path(), Scripted::new([Reply::error(refused), Reply::text("fine")])).await;
    let session = runtime.create(SessionOptions::new(folder.path())).await.unwrap();
    let outcome = say(&session, "one").await;
    assert!(matches!(&outcome, Outcome::Failed { error } if error.contains("no such parameter")), "{outcome:?}");
    let failed: Vec<TapeEntry> =
        tape(folder.path(), &session).into_iter().filter(|entry| entry.kind == "request_failed").collect();
    assert_eq!(failed.len(), 1);
    assert!(failed[0].data.get().contains("no such parameter"));
    let mut events = session.events_after(Seq::ZERO).await.unwrap();
    loop {
        let Some(tamtam::session::Next::Event(event)) = events.next().await else { panic!("it is among the events") };
        if let EventKind::RequestFailed { error, .. } = &event.kind {
            assert!(error.contains("no such parameter"));
            break;
        }
    }
    assert_eq!(say(&session, "two").await, Outcome::Done);
    assert!(runtime.shutdown().await.is_empty());
}

/// Panics at every event, and counts them.
struct Clumsy(Arc<AtomicUsize>);

impl Hook for Clumsy {
    fn name(&self) -> &str {
        "clumsy"
    }

    fn on_event(&self, _: &Event) {
        self.0.fetch_add(1, Ordering::SeqCst);
        panic!("the handler of events fails");
    }
}

/// SESSION-ERR-006: a handler of events that fails costs nobody anything and is told of: the turn ends as it would, no actor crashed, those
/// who listen hear all, and the handler is asked again the next time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_of_events_that_fails_is_passed_over() {
    let folder = taped::folder();
    let called = Arc::new(AtomicUsize::new(0));
    let model = Scripted::from_fn(|_| Reply::text("Done."));
    let builder = Runtime::builder().store(folder.path().join("store")).model(Arc::new(model));
    let runtime = builder.hook(Clumsy(called.clone())).start().await.unwrap();
    let session = runtime.create(SessionOptions::new(folder.path())).await.unwrap();
    let mut events = session.events();
    for text in ["one", "two"] {
        assert_eq!(say(&session, text).await, Outcome::Done);
    }
    assert_eq!(runtime.crashes().len(), 0);
    // It is shown what happened some time after, and all of it before the end.
    assert!(runtime.shutdown().await.is_empty());
    let (mut finished, mut shown, mut told) = (0, 0, 0);
    while let Some(tamtam::session::Next::Event(event)) = events.next().await {
        match &event.kind {
            EventKind::HookError { hook, callback, error } if callback == "on_event" => {
                assert_eq!((hook.as_str(), error.as_str()), ("clumsy", "panicked: the handler of events fails"));
                told += 1;
            }
            kind => {
                finished += usize::from(matches!(kind, EventKind::TurnFinished { .. }));
                shown += usize::from(event.id.is_durable());
            }
        }
    }
    assert_eq!((finished, told), (2, shown), "each failure at an event of the tape is told of");
    assert!(called.load(Ordering::SeqCst) >= told, "it is called again and again");
}

/// SESSION-ERR-007: a turn that was aborted before it said anything leaves no answer: the last one is that of before, to the
/// host and to the model.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_aborted_turn_that_said_nothing_leaves_no_answer() {
    let folder = taped::folder();
    let model = Scripted::new([Reply::text("the first"), Reply::hang().at_barrier("begun")]);
    let begun = model.barrier("begun");
    let runtime = runtime(folder.path(), model).await;
    let session = runtime.create(SessionOptions::new(folder.path())).await.unwrap();
    assert_eq!(say(&session, "one").await, Outcome::Done);
    let second = session.prompt("two").await.unwrap();
    begun.reached().await;
    session.abort("enough").await.unwrap();
    let aborted = second.wait().await.unwrap();
    assert!(matches!(&aborted.outcome, Outcome::Aborted { reason } if reason == "enough"), "{aborted:?}");
    assert_eq!(aborted.text, "");
    session.wait().await.unwrap();
    let messages = session.messages().await.unwrap();
    let said = messages.iter().filter(|message| message.role == Role::Assistant && !message.text().is_empty());
    assert_eq!(said.map(tamtam::Message::text).collect::<Vec<_>>(), ["the first"]);
    let history = session.state().await.unwrap().history;
    let answers = history.iter().filter(|item| matches!(item.as_ref(), tamtam::model::Item::Assistant(_))).count();
    assert_eq!(answers, 1);
    assert!(runtime.shutdown().await.is_empty());
}
