//! Going back in a whole runtime: real actors, a real tape, processes that die, and the requests afterwards.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};
use tamtam::{
    Delivery, EventKind, Message, ModelRef, Outcome, Runtime, SendError, Session, SessionId, SessionOptions,
    model::{AnswerPart, BoxFuture, Deltas, Item, Model, ModelAnswer, ModelError, Request},
    permission::Profile,
    session::{BranchError, BranchEvent, Entry, Finish, NoPoint, Point, Record, Refusal, State},
};

use crate::support::taped;

/// Answers each message with itself, and remembers all that it was sent.
#[derive(Default)]
pub(crate) struct Echo {
    id: Option<ModelRef>,
    sent: Mutex<Vec<Value>>,
}

impl Echo {
    pub(crate) fn new() -> Arc<Echo> {
        Arc::new(Echo { id: Some("echo/one".parse().unwrap()), sent: Mutex::default() })
    }

    pub(crate) fn newest(&self) -> Value {
        self.sent.lock().unwrap().last().cloned().unwrap()
    }
}

impl Echo {
    /// What it was last asked to sum up of a branch.
    pub(crate) fn sent_to_sum_up(&self) -> String {
        let sent = self.sent.lock().unwrap();
        let asked = sent.iter().rev().map(|sent| sent["history"][0]["parts"][0]["text"].as_str().unwrap_or_default());
        asked.filter(|text| text.contains("<branch>")).map(str::to_owned).next().unwrap()
    }
}

impl Model for Echo {
    fn id(&self) -> &ModelRef {
        self.id.as_ref().unwrap()
    }

    fn stream<'a>(
        &'a self,
        request: &'a Request,
        _: &'a mut dyn Deltas,
    ) -> BoxFuture<'a, Result<ModelAnswer, ModelError>> {
        let tools: Vec<_> =
            request.tools.iter().map(|tool| json!([tool.name, tool.description, tool.schema])).collect();
        let sent = json!({
            "system": request.system, "tools": tools, "params": request.params, "reminder": request.reminder,
            "history": request.history.iter().map(|item| json!(**item)).collect::<Vec<_>>(),
        });
        self.sent.lock().unwrap().push(sent);
        let said = request.history.last().map_or_else(String::new, |item| match &**item {
            Item::User(user) => user.text(),
            _ => String::new(),
        });
        let text = AnswerPart::Text { text: format!("re {said}"), extra: None };
        Box::pin(async move { Ok(ModelAnswer::new(vec![text], Finish::Stop)) })
    }
}

async fn start(folder: &Path, model: &Arc<Echo>) -> Runtime {
    std::fs::create_dir_all(folder.join("work")).unwrap();
    Runtime::builder().store(folder.join("store")).model(model.clone()).start().await.unwrap()
}

async fn create(runtime: &Runtime, folder: &Path, id: &str) -> Session {
    let options = SessionOptions::new(folder.join("work")).profile(Profile::Auto).id(id.parse().unwrap());
    runtime.create(options).await.unwrap()
}

async fn say(session: &Session, texts: &[&str]) {
    for text in texts {
        let message = Message::user(*text).with_id((*text).into());
        let answer = session.prompt(message).await.unwrap().wait().await.unwrap();
        assert_eq!((answer.outcome, answer.text), (Outcome::Done, format!("re {text}")));
    }
}

/// The entries of its tape, all that were decided: what is on its way to the disk is waited for.
pub(crate) async fn entries(session: &Session) -> Vec<Entry> {
    let newest = session.state().await.map_or(tamtam::Seq::ZERO, |state| state.seq);
    loop {
        let entries = session.entries().await.unwrap();
        if entries.last().is_some_and(|entry| entry.seq >= newest) {
            return entries;
        }
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
}

/// The conversation as messages.
pub(crate) async fn told(session: &Session) -> Vec<String> {
    entries(session).await;
    session.messages().await.unwrap().iter().map(Message::text).collect()
}

/// Z-02: what the provider gets after a rollback is, byte for byte, what it gets from a session in which nothing else was said.
#[tokio::test(flavor = "multi_thread")]
async fn the_request_after_a_rollback_is_that_of_a_fresh_session() {
    let folder = taped::folder();
    let model = Echo::new();
    let runtime = start(folder.path(), &model).await;
    let session = create(&runtime, folder.path(), "rolled").await;
    say(&session, &["a", "b", "c"]).await;
    let back = session.rollback(Point::BeforeMessage("b".into())).await.unwrap();
    assert_eq!((back.gone.len(), back.again.len()), (2, 0));
    say(&session, &["d"]).await;
    let rolled = model.newest();
    let fresh = create(&runtime, folder.path(), "fresh").await;
    say(&fresh, &["a", "d"]).await;
    assert_eq!(rolled.to_string(), model.newest().to_string());
    assert_eq!(told(&session).await, ["a", "re a", "d", "re d"]);
    assert!(runtime.shutdown().await.is_empty());
}

/// Z-02, Z-05: a receipt keeps its outcome, the hosts who listen are told, and the next process finds it as it was left.
#[tokio::test(flavor = "multi_thread")]
async fn undo_and_redo_outlive_the_process() {
    let folder = taped::folder();
    let model = Echo::new();
    let runtime = start(folder.path(), &model).await;
    let session = create(&runtime, folder.path(), "s").await;
    say(&session, &["a"]).await;
    let receipt = session.prompt(Message::user("b").with_id("b".into())).await.unwrap();
    receipt.wait().await.unwrap();
    let mut events = session.events();
    let undone = session.undo().await.unwrap();
    let shown = loop {
        match events.next().await {
            Some(tamtam::session::Next::Event(event)) => break event.kind.clone(),
            Some(_) => {}
            None => panic!("the stream ended"),
        }
    };
    assert!(
        matches!(&shown, EventKind::Branch(BranchEvent::RolledBack { to, gone, .. }) if *to == undone.to && *gone == undone.gone),
        "{shown:?}"
    );
    assert_eq!(receipt.wait().await.unwrap().text, "re b");
    assert!(runtime.shutdown().await.is_empty());

    let runtime = start(folder.path(), &model).await;
    let session = runtime.open(&"s".parse().unwrap()).await.unwrap();
    assert_eq!(told(&session).await, ["a", "re a"]);
    assert_eq!(session.undo().await.unwrap().gone, ["a".into()]);
    assert!(matches!(session.undo().await, Err(BranchError::NoPoint(NoPoint::NothingToUndo))));
    session.redo().await.unwrap();
    assert_eq!(session.redo().await.unwrap().again, ["b".into()]);
    assert_eq!(told(&session).await, ["a", "re a", "b", "re b"]);
    assert!(matches!(session.redo().await, Err(BranchError::NoPoint(NoPoint::NothingToRedo))));
    say(&session, &["c"]).await;
    assert_eq!(model.newest()["history"].as_array().unwrap().len(), 5);
    // Asleep it is as good as awake.
    runtime.passivate(session.id()).await.unwrap();
    session.undo().await.unwrap();
    assert_eq!(told(&session).await, ["a", "re a", "b", "re b"]);
    assert!(runtime.shutdown().await.is_empty());
}

/// A session that is at work refuses; so does one that has ended.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_at_work_does_not_go_back() {
    let folder = taped::folder();
    let model = Echo::new();
    let runtime = start(folder.path(), &model).await;
    let session = create(&runtime, folder.path(), "s").await;
    say(&session, &["a"]).await;
    let state = session.state().await.unwrap();
    session.pause().await.unwrap();
    session.send("b", Delivery::Queue).await.unwrap();
    // Paused between two turns it is idle: what waits stays.
    session.undo().await.unwrap();
    assert_eq!(session.queue().await.unwrap().len(), 1);
    session.resume().await.unwrap();
    assert_eq!(session.queue().await.unwrap().len(), 1, "held until somebody says go on");
    session.go_on().await.unwrap();
    session.wait().await.unwrap();
    assert_eq!(told(&session).await, ["b", "re b"]);
    session.end("over").await.unwrap();
    let refused = session.rollback(state.seq).await.unwrap_err();
    assert!(matches!(refused, BranchError::Session(SendError::Refused(Refusal::Ended))), "{refused:?}");
    assert!(runtime.shutdown().await.is_empty());
}

/// Two hosts that go back at once: one of them does, and the other is told to look again; never both at one place.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_rollbacks_at_once_each_is_whole() {
    let folder = taped::folder();
    let model = Echo::new();
    let runtime = start(folder.path(), &model).await;
    let session = create(&runtime, folder.path(), "s").await;
    say(&session, &["a", "b", "c", "d"]).await;
    let (one, other) = (session.clone(), session.clone());
    let ways =
        tokio::join!(one.rollback(Point::BeforeMessage("b".into())), other.rollback(Point::BeforeMessage("c".into())));
    let mut done = 0;
    for way in [ways.0, ways.1] {
        match way {
            Ok(_) => done += 1,
            Err(BranchError::Session(SendError::Refused(Refusal::Moved { .. }))) => {}
            // It looked when the other was done: the message that it was to go back to is gone.
            Err(BranchError::NoPoint(NoPoint::NoMessage { .. })) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    let entries = entries(&session).await;
    let recorded = entries.iter().filter(|entry| matches!(entry.record, Record::RolledBack(_))).count();
    assert!(done >= 1 && recorded == done, "{done} were told so, {recorded} are recorded");
    assert!(runtime.shutdown().await.is_empty());
}

fn tape_of(folder: &Path, id: &str) -> PathBuf {
    folder.join(format!("store/sessions/{id}/anchors/001_session-start/entries.jsonl"))
}

/// The state that the entries of a tape make, and all of them.
async fn folded(session: &Session) -> (State, Vec<Entry>) {
    let entries = entries(session).await;
    let Record::State(first) = &entries[0].record else { panic!("{:?}", entries[0]) };
    let mut state = (**first).clone();
    entries.iter().for_each(|entry| state.apply(entry));
    (state, entries)
}

/// D10, X05: `kill -9` after each entry of a story of rollbacks, and inside each of its lines: the session opens as the tape says,
/// goes on, and can go back again.
#[tokio::test(flavor = "multi_thread")]
async fn a_story_of_rollbacks_survives_a_kill_at_each_of_its_bytes_that_matter() {
    let story = taped::folder();
    let model = Echo::new();
    let runtime = start(story.path(), &model).await;
    let session = create(&runtime, story.path(), "s").await;
    say(&session, &["a", "b", "c"]).await;
    session.undo().await.unwrap();
    session.undo().await.unwrap();
    session.redo().await.unwrap();
    say(&session, &["d"]).await;
    session.rollback(Point::BeforeMessage("a".into())).await.unwrap();
    session.redo().await.unwrap();
    assert_eq!(told(&session).await, ["a", "re a", "b", "re b", "d", "re d"]);
    assert!(runtime.shutdown().await.is_empty());
    let tape = std::fs::read(tape_of(story.path(), "s")).unwrap();
    let ends: Vec<_> = tape.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect();
    let mut cuts = Vec::new();
    for pair in ends.windows(2) {
        cuts.extend([pair[0], pair[0] + 1, (pair[0] + pair[1]) / 2, pair[1] - 1]);
    }
    cuts.push(tape.len());
    for cut in cuts {
        let folder = taped::folder();
        let at = tape_of(folder.path(), "s");
        std::fs::create_dir_all(at.parent().unwrap()).unwrap();
        std::fs::write(&at, &tape[..cut]).unwrap();
        // The tape names the workspace of the story, which is still there.
        let runtime = start(folder.path(), &model).await;
        let session = runtime.open(&"s".parse::<SessionId>().unwrap()).await.unwrap();
        session.wait().await.unwrap();
        let (state, entries) = folded(&session).await;
        assert_eq!(session.state().await.unwrap(), state, "cut at {cut}");
        let before = told(&session).await;
        say(&session, &["after"]).await;
        assert_eq!(session.undo().await.unwrap().gone, ["after".into()], "cut at {cut}");
        assert_eq!(told(&session).await, before, "cut at {cut}");
        let kept = entries.iter().filter(|entry| matches!(entry.record, Record::RolledBack(_))).count();
        let whole = ends.iter().filter(|end| **end <= cut).count();
        let written = entries.iter().take(whole).filter(|entry| matches!(entry.record, Record::RolledBack(_))).count();
        assert_eq!(kept, written, "no rollback is made up, and none is lost");
        assert!(runtime.shutdown().await.is_empty());
    }
}

/// A01: the session's actor dies at each crash point while it goes back: it goes back once, and the host is told so.
#[cfg(feature = "fault-injection")]
#[tokio::test(flavor = "multi_thread")]
async fn a_crash_at_any_point_of_a_rollback_makes_it_once() {
    use std::sync::atomic::{AtomicBool, Ordering};

    for point in ["session.took", "session.decided", "session.appended", "session.published", "session.worked"] {
        let folder = taped::folder();
        let model = Echo::new();
        std::fs::create_dir_all(folder.path().join("work")).unwrap();
        let armed = Arc::new(AtomicBool::new(false));
        let strikes = armed.clone();
        let faults = tamtam::runtime::Faults::new(move |passed, _| {
            if passed == point && strikes.swap(false, Ordering::SeqCst) {
                std::panic::resume_unwind(Box::new("struck on purpose"));
            }
        });
        let builder = Runtime::builder().store(folder.path().join("store")).model(model.clone());
        let runtime = builder.faults(faults).start().await.unwrap();
        let session = create(&runtime, folder.path(), "s").await;
        say(&session, &["a", "b"]).await;
        armed.store(true, Ordering::SeqCst);
        let undone = session.undo().await;
        let undone = match undone {
            // It struck while the state was looked at or before the wish was taken up anew: nothing was done.
            Err(BranchError::Session(_)) => session.undo().await,
            other => other,
        };
        assert_eq!(undone.unwrap().gone, ["b".into()], "{point}");
        let entries = entries(&session).await;
        let recorded = entries.iter().filter(|entry| matches!(entry.record, Record::RolledBack(_))).count();
        assert_eq!((recorded, told(&session).await), (1, vec!["a".to_owned(), "re a".to_owned()]), "{point}");
        assert!(runtime.shutdown().await.is_empty());
        // Asked once everything ended: the last point is passed behind the answer.
        assert!(!armed.load(Ordering::SeqCst), "{point} was not passed");
    }
}
