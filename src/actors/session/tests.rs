//! The shell over a disk that is slow or refuses.

#![allow(clippy::unwrap_used, clippy::panic)]

mod later;

use std::sync::atomic::Ordering;

use tokio::sync::oneshot;

use super::*;
use crate::{
    actors::tapes::Tapes,
    error::SendError,
    hook::Hooks,
    ids::SessionId,
    message::{Finish, Message, ModelRef},
    model::{Answer, AnswerPart, ErrorKind, ModelError, Models, Scripted},
    permission::Profile,
    session::{Abort, Configure, Delivery, Held, Outcome, Pause, ReplyTo, Report, SendMessage, Settings},
    supervisor::{Registry, card::Shown},
    tape::{
        LINE_BYTES_MAX, Store,
        tests::support::{FakeDisk, own_folder, small, store_on},
    },
    tool::{BoxFuture, Tool, ToolContext, ToolResult, Toolbox},
};

/// Far more operations than a test makes.
const ALL: usize = 10_000;

struct Script(Arc<Scripted>);

impl Models for Script {
    fn find(&self, _: &ModelRef) -> Result<Arc<dyn crate::model::Model>, ModelError> {
        Ok(self.0.clone())
    }
}

/// Waits until it is told to stop.
struct Waits;

impl Tool for Waits {
    fn name(&self) -> &str {
        "waits"
    }

    fn description(&self) -> &str {
        "Waits."
    }

    fn schema(&self) -> serde_json::Value {
        serde_json::json!({"type": "object"})
    }

    fn parallel(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, _: serde_json::Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async {
            context.cancel.cancelled().await;
            ToolResult::error("stopped")
        })
    }
}

/// One life of a session on a disk that a test breaks.
struct Bench {
    live: Live,
    disk: Arc<FakeDisk>,
    store: Store,
    _card: Shown,
    _folder: tempfile::TempDir,
}

fn bench() -> Bench {
    bench_ahead(std::time::Duration::ZERO)
}

/// One whose tape was written by a clock that was so far ahead.
fn bench_ahead(ahead: std::time::Duration) -> Bench {
    let (folder, disk, registry) = (own_folder(), FakeDisk::new(), Registry::new());
    let store = store_on(folder.path(), small(), &disk);
    let models = Arc::new(Script(Arc::new(Scripted::new([]))));
    let hooks = Hooks(Arc::new([]));
    let passivation = crate::actors::timekeeper::Passivation::default();
    let (tapes, toolbox) = (Tapes::of_files(store.clone()), Toolbox::default().with(Waits));
    let host = Host::new(tapes, toolbox, models, hooks, registry.clone(), passivation);
    let host = Arc::new(host);
    let id: SessionId = "s".parse().unwrap();
    let slot = host.slot(&id);
    // As if it were awake.
    slot.begin_activation().unwrap().land(Ok(()));
    let mut tape = host.store.create(&id, build::notify(&slot)).unwrap();
    let now = host.clock.now().plus(ahead);
    let mut settings = Settings::new("/w", "fake/model".parse().unwrap());
    settings.rules = vec![Profile::Auto.ruleset()];
    let mut state = State::new(id, settings, now);
    let record = Record::State(Arc::new(state.clone()));
    let first =
        Entry { seq: Seq(1), time: now, cause: None, turn: None, step: None, ticket: None, input: None, record };
    assert!(matches!(tape.append(&[first.to_tape().unwrap()]), Appended::Now(Ok(_))));
    state.apply(&first);
    #[cfg(feature = "fault-injection")]
    let tape = Tape::new(tape, None);
    let card = registry.show(None, "s", "session");
    let live = Live::new(host, slot, card.0.clone(), 0, tape, state);
    Bench { live, disk, store, _card: card, _folder: folder }
}

impl Bench {
    /// The model answers, and its worker has asked what the calls want.
    fn answered(&mut self, ticket: Seq, answer: Answer) {
        let calls = answer.calls().map(|(name, input)| self.live.host.toolbox.facts(name, input)).collect();
        self.live.on(Report::Answered { answer, calls }.of(ticket));
    }

    fn send(&self, id: &str) -> oneshot::Receiver<Result<Held, SendError>> {
        let message = Message::user("go").with_id(id.into());
        let send = |reply| SendMessage { message, delivery: Delivery::Queue, expect_turn: None }.to(reply);
        self.live.slot.input(send).unwrap()
    }
}

/// While the disk refuses, a moment that is due is decided about when the disk is tried again, and not at every wake: else
/// each try would set the next one off at once.
#[tokio::test(start_paused = true)]
async fn a_disk_that_refuses_is_not_asked_again_by_every_tick() {
    let mut bench = bench();
    let _receipt = bench.send("m");
    bench.live.work();
    let ticket = bench.live.state.request().unwrap().0;
    bench.live.on(Report::Failed { error: ModelError::new(ErrorKind::Network, "gone") }.of(ticket));
    let due = bench.live.state.due().unwrap();
    bench.disk.fail_from(0, ALL);
    tokio::time::advance(due.since(bench.live.now()) + std::time::Duration::from_millis(1)).await;
    bench.live.after_work();
    assert_eq!((bench.live.held.len(), bench.live.due()), (1, None));

    let tried = bench.disk.operations.load(Ordering::SeqCst);
    (0..20).for_each(|_| bench.live.after_work());
    assert_eq!(bench.disk.operations.load(Ordering::SeqCst), tried);
    assert_eq!(bench.live.timer.as_ref().map(|(at, _)| *at), bench.live.storage_retry);

    bench.disk.heal();
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    bench.live.after_work();
    assert!(bench.live.held.is_empty() && bench.live.state.request().is_some());
}

/// A receipt that only waits with an append for the disk speaks of what that append records: where it fails, whoever waits for
/// it is told so, and can send again.
#[tokio::test]
async fn replies_behind_a_failed_append_are_told_of_it() {
    let mut bench = bench();
    bench.disk.be_slow();
    // The first slow write makes the store leave the next ones to its thread.
    bench.live.on(Configure { before: None, settings: Box::new(other_settings(&bench.live)) }.to(ReplyTo(0)));
    bench.disk.shut();
    let (first, again) = (bench.send("m"), bench.send("m"));
    bench.live.work();
    assert_eq!(bench.live.pending.len(), 1);
    bench.disk.fail_from(0, ALL);
    bench.disk.open_up();
    assert!(bench.store.settle(std::time::Duration::from_secs(60)));
    bench.live.work();
    for reply in [first, again] {
        assert!(matches!(reply.await.unwrap(), Err(SendError::Storage(_))));
    }
    assert!(bench.live.pending.is_empty() && bench.live.state.turn.is_none());
}

/// The end of a runtime refuses at once what nobody has taken up. What is on its way to the tape keeps its place; where nobody can
/// say any more what became of it, the error names the message, so that it can be sent again.
#[tokio::test]
async fn what_is_on_its_way_to_the_tape_is_not_refused_as_if_it_were_not() {
    let mut bench = bench();
    bench.disk.be_slow();
    // The first slow write makes the store leave the next ones to its thread.
    bench.live.on(Configure { before: None, settings: Box::new(other_settings(&bench.live)) }.to(ReplyTo(0)));
    bench.disk.shut();
    let mut taken = bench.send("m");
    bench.live.work();
    let mut unseen = bench.send("late");
    bench.live.slot.set_door(crate::actors::slot::Door::Closed);
    assert!(matches!(unseen.try_recv(), Ok(Err(SendError::Closed))));
    assert!(taken.try_recv().is_err(), "its append is under way");
    bench.live.slot.give_up();
    assert!(matches!(taken.try_recv(), Ok(Err(SendError::Unsettled { message: Some(id) })) if id == "m".into()));
    assert_eq!(bench.live.slot.depth(), 0);
    bench.disk.open_up();
    assert!(bench.store.settle(std::time::Duration::from_secs(60)));
}

/// A full disk holds up what is recorded, and never what stops: an abort ends every process at once, and is recorded before
/// what workers reported, so that none of their reports starts anything first.
#[tokio::test(start_paused = true)]
async fn an_abort_on_a_full_disk_stops_what_runs_and_is_recorded_before_what_was_reported() {
    let mut bench = bench();
    let _receipt = bench.send("m");
    bench.live.work();
    let ticket = bench.live.state.request().unwrap().0;
    let call = |id: &str| AnswerPart::Call { id: id.into(), name: "waits".into(), input: "{}".into(), extra: None };
    let answer = Answer::new(vec![call("a"), call("b")], Finish::ToolCalls);
    bench.answered(ticket, answer);
    let [a, b] = bench.live.calls.keys().copied().collect::<Vec<_>>()[..] else { panic!("two calls run") };

    bench.disk.fail_from(0, ALL);
    bench.live.on(Report::Returned { result: ToolResult::ok("done") }.of(a));
    let slot = bench.live.slot.clone();
    let mut aborted = slot.input(|reply| Abort { reason: "enough".into() }.to(reply)).unwrap();
    bench.live.work();
    assert!(bench.live.calls[&b].is_stopping());
    assert!(matches!(bench.live.held.front(), Some(Input::Command { command: crate::session::Command::Abort(_), .. })));
    assert!(aborted.try_recv().is_err(), "it is not on the tape yet");
    bench.live.on(Report::Returned { result: ToolResult::error("stopped") }.of(b));

    bench.disk.heal();
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    bench.live.after_work();
    assert!(aborted.await.unwrap().is_ok());
    let end = bench.live.state.ended.back().unwrap();
    assert!(matches!(&end.outcome, Outcome::Aborted { reason } if reason == "enough"));
    assert!(bench.live.state.request().is_none() && bench.live.requests.is_empty(), "no step followed");
    assert!(bench.live.state.history.iter().any(|item| format!("{item:?}").contains("done")));
}

/// What is held came before what a host says now: it is recorded first, or neither is.
#[tokio::test(start_paused = true)]
async fn what_is_held_is_recorded_before_what_is_said_later() {
    let mut bench = bench();
    let _receipt = bench.send("m");
    bench.live.work();
    bench.disk.fail_from(0, ALL);
    let slot = bench.live.slot.clone();
    let aborted = slot.input(|reply| Abort { reason: "enough".into() }.to(reply)).unwrap();
    bench.live.work();
    assert_eq!(bench.live.requests.len(), 1, "it is being cut, and has not said that it is down");
    let refused = bench.send("too early");
    bench.live.work();
    assert!(matches!(refused.await.unwrap(), Err(SendError::Storage(_))));

    bench.disk.heal();
    let later = bench.send("instead");
    bench.live.work();
    assert!(aborted.await.unwrap().is_ok() && later.await.unwrap().is_ok());
    let turn = bench.live.state.turn.as_ref().unwrap();
    assert!(turn.ending.is_some() && bench.live.state.queue.len() == 1, "it is about the turn before the message");
}

/// Who waits for a turn is not told of an end that the disk may still refuse.
#[tokio::test]
async fn an_outcome_is_told_when_it_is_on_the_tape() {
    let mut bench = bench();
    let _receipt = bench.send("m");
    bench.live.work();
    let ticket = bench.live.state.request().unwrap().0;
    bench.disk.be_slow();
    bench.live.on(Configure { settings: Box::new(other_settings(&bench.live)), before: None }.to(ReplyTo(0)));
    bench.disk.shut();
    bench.live.on(Report::Answered { answer: Answer::new(Vec::new(), Finish::Stop), calls: Vec::new() }.of(ticket));
    let (reply, mut outcome) = oneshot::channel();
    bench.live.answer(Question::Outcome("m".into(), reply));
    assert!(bench.live.state.turn.is_none() && outcome.try_recv().is_err());
    bench.disk.open_up();
    assert!(bench.store.settle(std::time::Duration::from_secs(60)));
    bench.live.work();
    assert!(outcome.await.unwrap().is_ok());
}

/// A turn that is not listed as open would not go on by itself: then it does not begin.
#[tokio::test]
async fn a_turn_that_cannot_be_marked_does_not_begin() {
    let mut bench = bench();
    let open = bench._folder.path().join("open");
    std::fs::remove_dir_all(&open).unwrap();
    std::fs::write(&open, "in the way").unwrap();
    let receipt = bench.send("m");
    bench.live.work();
    assert!(matches!(receipt.await.unwrap(), Err(SendError::Storage(_))));
    assert!(bench.live.state.turn.is_none());
}

/// Who can say it again is told at once; nothing of it comes later, when nobody thinks of it any more.
#[tokio::test(start_paused = true)]
async fn a_pause_on_a_full_disk_is_told_that_it_was_not_recorded() {
    let mut bench = bench();
    let _receipt = bench.send("m");
    bench.live.work();
    let ticket = bench.live.state.request().unwrap().0;
    bench.disk.fail_from(0, ALL);
    bench.live.on(Report::Failed { error: ModelError::new(ErrorKind::Network, "gone") }.of(ticket));
    let slot = bench.live.slot.clone();
    let paused = slot.input(|reply| Pause.to(reply)).unwrap();
    bench.live.work();
    assert!(matches!(paused.await.unwrap(), Err(SendError::Storage(_))));
    assert_eq!(bench.live.held.len(), 1);
}

/// A report that no tape can take would be tried again for ever, and all that comes behind it, an abort too, would wait.
#[tokio::test(start_paused = true)]
async fn a_report_that_is_too_large_is_recorded_smaller() {
    let mut bench = bench();
    let _receipt = bench.send("m");
    bench.live.work();
    let ticket = bench.live.state.request().unwrap().0;
    let call = AnswerPart::Call { id: "a".into(), name: "waits".into(), input: "{}".into(), extra: None };
    bench.answered(ticket, Answer::new(vec![call], Finish::ToolCalls));
    let a = *bench.live.calls.keys().next().unwrap();
    let result = ToolResult::ok("done").with_details("x".repeat(LINE_BYTES_MAX).into());
    bench.live.on(Report::Returned { result }.of(a));
    assert!(bench.live.held.is_empty());
    assert!(bench.live.state.history.iter().any(|item| format!("{item:?}").contains("the whole result is too large")));

    let ticket = bench.live.state.request().unwrap().0;
    let text = AnswerPart::Text { text: "x".repeat(LINE_BYTES_MAX), extra: None };
    let before = bench.live.state.spent.usage.output;
    let usage = crate::usage::Usage { input: 9, output: 4_000_000, ..Default::default() };
    let answer = Answer { usage, ..Answer::new(vec![text], Finish::Stop) };
    bench.live.on(Report::Answered { answer, calls: Vec::new() }.of(ticket));
    let end = bench.live.state.ended.back().unwrap();
    assert_eq!(end.outcome, Outcome::CutShort, "{end:?}");
    assert!(end.text.starts_with("xx") && end.text.contains("the whole answer is too large"));
    assert_eq!(bench.live.state.spent.usage.output, before + 4_000_000, "it was paid for");
    assert!(bench.live.held.is_empty() && bench.live.state.is_idle());
}

/// What a life knows is worth nothing where the tape is not what it wrote: it ends, and the next one reads the tape.
#[tokio::test]
async fn a_tape_that_somebody_else_changed_ends_the_life() {
    let mut bench = bench();
    let _receipt = bench.send("m");
    bench.live.work();
    let ticket = bench.live.state.request().unwrap().0;
    let tape = bench._folder.path().join("sessions/s/anchors/001_session-start/entries.jsonl");
    std::io::Write::write_all(&mut std::fs::File::options().append(true).open(tape).unwrap(), b"{}\n").unwrap();
    bench.live.on(Report::Failed { error: ModelError::new(ErrorKind::Network, "gone") }.of(ticket));
    let why = format!("{:?}", bench.live.given_up().unwrap());
    assert!(why.contains("was changed by somebody else"), "{why}");
    // What the worker reported is left to the next life.
    let slot = bench.live.slot.clone();
    drop(bench);
    assert!(slot.has_report(
        |report| matches!(report, Input::Report { ticket: of, report: Report::Failed { .. } } if *of == ticket)
    ));
}

/// A mark that no turn follows would keep an idle session from being deleted, and wake it at every start.
#[tokio::test]
async fn an_idle_session_has_no_mark_of_an_open_turn() {
    let mut bench = bench();
    bench.store.mark_open(&bench.live.slot.id).unwrap();
    bench.live.recover(Vec::new(), BTreeMap::new());
    assert_eq!(bench.store.open_sessions().unwrap(), []);
    bench.disk.fail_from(0, ALL);
    let receipt = bench.send("m");
    bench.live.work();
    assert!(matches!(receipt.await.unwrap(), Err(SendError::Storage(_))));
    bench.disk.heal();
    assert_eq!(bench.store.open_sessions().unwrap(), []);
}

/// A fork of "now" has all that was decided by then: it waits for a disk that is behind, however long that takes.
#[tokio::test]
async fn a_fork_of_now_waits_until_its_parents_newest_entry_is_on_the_tape() {
    let mut bench = bench();
    bench.disk.be_slow();
    // The first slow write makes the store leave the next ones to its thread.
    bench
        .live
        .on(Configure { before: None, settings: Box::new(other_settings(&bench.live)) }.to(crate::session::ReplyTo(0)));
    bench.disk.shut();
    let _receipt = bench.send("m");
    bench.live.work();
    let (decided, host) = (bench.live.state.seq, bench.live.host.clone());
    assert_eq!(bench.live.pending.len(), 1);
    let id = bench.live.slot.id.clone();
    let fork = crate::handle::fork_now(&host, &id, None);
    tokio::pin!(fork);
    // It has asked, and the session has heard of it; the disk has the entries of neither.
    assert!(futures_util::poll!(&mut fork).is_pending());
    bench.live.work();
    assert!(futures_util::poll!(&mut fork).is_pending(), "the tape does not have it yet");
    bench.disk.open_up();
    assert!(bench.store.settle(std::time::Duration::from_secs(60)));
    bench.live.work();
    let fork = fork.await.unwrap();
    assert_eq!(bench.store.forked_from(&fork).unwrap().unwrap().seq, decided);
}

fn other_settings(live: &Live) -> Settings {
    let mut settings = (*live.state.settings).clone();
    settings.retries_max = 2;
    settings
}

/// A clock that was set back between two lives makes no wait longer: the second before a retry is a second, and is over when it is
/// over.
#[tokio::test(start_paused = true)]
async fn a_clock_that_was_set_back_makes_no_wait_longer() {
    let mut bench = bench_ahead(std::time::Duration::from_secs(3_600));
    let before = bench.live.now();
    let _receipt = bench.send("m");
    bench.live.work();
    let ticket = bench.live.state.request().unwrap().0;
    bench.live.on(Report::Failed { error: ModelError::new(ErrorKind::Network, "gone") }.of(ticket));
    let wait = bench.live.state.due().unwrap().since(before);
    assert!(wait <= std::time::Duration::from_secs(2), "{wait:?}");
    bench.live.after_work();
    let (at, _) = bench.live.timer.as_ref().unwrap();
    let timer = bench.live.clock.instant(*at) - tokio::time::Instant::now();
    assert!(timer <= std::time::Duration::from_secs(2), "{timer:?}");
    tokio::time::advance(timer).await;
    bench.live.after_work();
    assert!(bench.live.state.request().is_some(), "it is made again");
}
