//! The shell over a disk that is slow or refuses.

#![allow(clippy::unwrap_used, clippy::panic)]

mod bench;

use std::{sync::atomic::Ordering, time::Duration};

use tokio::sync::oneshot;

use super::*;
use crate::{
    actor::slot::{Admission, LeftInFlight, Phase, Slept, Work},
    error::{OpenError, PassivateError, SendError},
    kernel::{Abort, CarriedOut, Decision, Delivery, Entry, Outcome, Pause, Record, Report, SendMessage, Steering},
    model::{AnswerPart, ErrorKind, ModelAnswer, ModelError},
    session::BranchError,
    tape::{Appended, LINE_BYTES_MAX, Notify, TapeError, TapeStore as _, TapeStoreExt as _},
    tool::ToolResult,
    words::ids::{Seq, SessionId},
    words::message::{Finish, Message},
};
use bench::{ALL, Bench, abort, bench, bench_ahead, bench_of, message};

/// While the disk refuses, what stays is tried again in its own time, and not at every wake.
#[tokio::test(start_paused = true)]
async fn a_disk_that_refuses_is_not_asked_again_at_every_wake() {
    let mut bench = bench();
    drop(bench.send("m"));
    bench.disk.fail_from(0, ALL);
    bench.failed(bench.request());
    let tried = bench.disk.operations.load(Ordering::SeqCst);
    (0..20).for_each(|_| bench.work());
    assert_eq!(bench.disk.operations.load(Ordering::SeqCst), tried);
    assert!(bench.live.timer.is_some() && bench.live.state.due().is_none(), "the state is what it was");
    bench.disk.heal();
    bench.later(Duration::from_secs(1)).await;
    assert!(bench.live.state.due().is_some(), "the failure is recorded, and waits for its retry");
}

/// A command that the disk refuses never takes effect: its sender is told at once, and nothing of it comes later.
#[tokio::test(start_paused = true)]
async fn a_refused_command_is_told_and_never_takes_effect() {
    let mut bench = bench();
    bench.disk.fail_from(0, ALL);
    assert!(matches!(bench.send("m").await.unwrap(), Err(SendError::Storage(_))));
    assert!(matches!(bench.ask(Pause).await.unwrap(), Err(SendError::Storage(_))));
    bench.disk.heal();
    bench.later(Duration::from_secs(5)).await;
    assert!(bench.live.state.turn.is_none() && bench.live.state.queue.is_empty() && !bench.live.state.paused);
}

/// The same behind a slow disk, in one batch: each of its senders is told.
#[tokio::test]
async fn all_commands_of_a_refused_batch_are_told() {
    let mut bench = bench();
    bench.hold_up_the_disk();
    let first = bench.send("a");
    let behind = [bench.send("b"), bench.send("c")];
    bench.disk.fail_from(0, ALL);
    bench.let_the_disk_go();
    assert!(matches!(first.await.unwrap(), Err(SendError::Storage(_))));
    for answer in behind {
        assert!(matches!(answer.await.unwrap(), Err(SendError::Storage(_))));
    }
    assert!(bench.live.writing.is_none() && bench.live.state.turn.is_none());
}

/// What waits behind an append is decided about in one, and each sender has an answer of their own.
#[tokio::test]
async fn what_waits_behind_a_flight_is_one_append() {
    let mut bench = bench();
    drop(bench.send("m"));
    bench.hold_up_the_disk();
    let first = bench.send("a");
    let behind: Vec<_> = (0..10).map(|n| bench.send(&format!("b{n}"))).collect();
    let before = bench.store.appends(&bench.live.slot.id).unwrap().len();
    bench.let_the_disk_go();
    assert!(bench.store.settle(Duration::from_secs(60)));
    bench.work();
    assert!(first.await.unwrap().is_ok());
    for answer in behind {
        assert!(matches!(answer.await.unwrap(), Ok(CarriedOut::Receipt(_))));
    }
    assert_eq!(bench.store.appends(&bench.live.slot.id).unwrap().len(), before + 2);
    assert_eq!(bench.live.state.queue.len(), 11);
}

/// A full disk holds up what is recorded, and never what stops: an abort ends every process in the thread of its sender, and what
/// was reported before it is recorded without starting anything.
#[tokio::test(start_paused = true)]
async fn an_abort_on_a_full_disk_stops_what_runs_and_nothing_starts() {
    let mut bench = bench();
    let [a, b] = bench.calls(2)[..] else { panic!("two calls run") };
    bench.disk.fail_from(0, ALL);
    bench.returned(a, "done");
    let (_, mut aborted) = bench.live.slot.command(abort()).unwrap();
    assert!(bench.is_stopping(b), "before the actor has heard of it");
    bench.work();
    assert!(aborted.try_recv().is_err(), "it is not on the tape yet");
    bench.returned(b, "stopped");
    bench.disk.heal();
    bench.later(Duration::from_secs(1)).await;
    assert!(aborted.await.unwrap().is_ok());
    let end = bench.live.state.ended.back().unwrap();
    assert!(matches!(&end.outcome, Outcome::Aborted { reason } if reason == "enough"));
    assert!(bench.live.state.request().is_none() && bench.requests() == 0, "no step followed");
    assert!(bench.history().contains("done"));
}

/// Finding: an engine that tells late, or twice, said of what was not on the tape yet that it was.
#[tokio::test]
async fn an_append_counts_only_when_the_tape_says_so_of_that_very_append() {
    let mut bench = bench();
    bench.hold_up_the_disk();
    let (before, slot) = (bench.live.state.seq, bench.live.slot.clone());
    let mut sent = bench.send("m");
    slot.settled(Ok(before));
    bench.work();
    assert_eq!(bench.live.state.seq, before);
    assert!(sent.try_recv().is_err(), "nothing is on the tape yet");
    bench.let_the_disk_go();
    assert!(bench.live.state.seq > before);
    assert!(sent.try_recv().unwrap().is_ok());
    // One that nobody waits for changes nothing.
    let after = bench.live.state.seq;
    slot.settled(Ok(before));
    bench.work();
    assert_eq!(bench.live.state.seq, after);
}

/// An append that was written before its claim was lost counts, whatever comes first to the actor: who sent is answered, nothing is
/// begun for it, and the actor leaves.
#[tokio::test]
async fn what_was_written_before_a_claim_was_lost_is_answered_and_begins_nothing() {
    let mut bench = bench();
    bench.hold_up_the_disk();
    let mut sent = bench.send("m");
    let (slot, flying) = (bench.live.slot.clone(), bench.live.writing.as_ref().unwrap().after.seq);
    slot.settled(Ok(flying));
    let by = crate::tape::Holder::new("two", 2, "other");
    slot.settled(Err(TapeError::Claimed { session: slot.id.clone(), by }));
    assert!(matches!(bench.live.work().unwrap(), Then::Leave(TapeError::Claimed { .. })));
    assert!(sent.try_recv().unwrap().is_ok());
    assert!(bench.live.state.request().is_some() && bench.requests() == 0 && bench.live.workers.is_empty());
    bench.disk.open_up();
}

/// A stop while an append is in flight: what it stops is stopped, and its record follows.
#[tokio::test]
async fn a_stop_during_a_flight_stops_at_once_and_is_recorded_after_it() {
    let mut bench = bench();
    let [a] = bench.calls(1)[..] else { panic!("a call runs") };
    bench.hold_up_the_disk();
    let queued = bench.send("later");
    let mut steered = bench.ask(message("now", Delivery::Steer(Steering::AbortRunning)));
    assert!(bench.is_stopping(a) && steered.try_recv().is_err());
    bench.let_the_disk_go();
    assert!(bench.store.settle(Duration::from_secs(60)));
    bench.work();
    assert!(queued.await.unwrap().is_ok() && steered.await.unwrap().is_ok());
    assert_eq!(bench.live.state.steering.len(), 1);
}

/// However often the disk is tried, and however often somebody aborts meanwhile, a call is reported once.
#[tokio::test(start_paused = true)]
async fn stops_and_reports_stay_and_are_recorded_once() {
    let mut bench = bench();
    let [a] = bench.calls(1)[..] else { panic!("a call runs") };
    bench.disk.fail_from(0, ALL);
    bench.returned(a, "done");
    bench.returned(a, "again");
    let aborts = [bench.ask(abort()), bench.ask(abort())];
    for _ in 0..10 {
        bench.later(Duration::from_secs(1)).await;
        assert_eq!(bench.live.slot.depth(), 2);
    }
    bench.disk.heal();
    bench.later(Duration::from_secs(1)).await;
    for aborted in aborts {
        assert!(aborted.await.unwrap().is_ok());
    }
    assert!(bench.live.slot.is_quiet() && bench.live.state.turn.is_none());
    assert_eq!(bench.history().matches("done").count(), 1);
}

/// The way of a message from its handle to its receipt: in, out, who listens, handed to the tape, published, recorded.
#[tokio::test]
async fn a_message_takes_the_lock_of_its_slot_at_most_six_times() {
    struct Told(Arc<Slot>, std::sync::atomic::AtomicUsize);
    impl std::task::Wake for Told {
        fn wake(self: Arc<Self>) {
            self.1.store(self.0.locked.load(Ordering::SeqCst), Ordering::SeqCst);
        }
    }
    let mut bench = bench();
    let slot = bench.live.slot.clone();
    let before = slot.locked.load(Ordering::SeqCst);
    let (_, mut answer) = slot.command(message("m", Delivery::Queue)).unwrap();
    let told = Arc::new(Told(slot, Default::default()));
    let waker = told.clone().into();
    assert!(std::pin::Pin::new(&mut answer).poll(&mut std::task::Context::from_waker(&waker)).is_pending());
    bench.work();
    assert!(answer.try_recv().unwrap().is_ok());
    let locks = told.1.load(Ordering::SeqCst) - before;
    assert!((1..=6).contains(&locks), "{locks}");
}

/// Who waits for a turn is not told of an end that the disk may still refuse.
#[tokio::test]
async fn an_outcome_is_told_when_it_is_on_the_tape() {
    let mut bench = bench();
    drop(bench.send("m"));
    let ticket = bench.request();
    bench.hold_up_the_disk();
    bench.answered(ticket, ModelAnswer::new(Vec::new(), Finish::Stop));
    let slot = bench.live.slot.clone();
    let mut outcome = Box::pin(slot.until(|now| now.state.turn.is_none().then_some(Ok(()))));
    assert!(futures_util::poll!(&mut outcome).is_pending() && bench.live.state.turn.is_some());
    bench.work();
    assert!(futures_util::poll!(&mut outcome).is_pending());
    bench.let_the_disk_go();
    assert!(outcome.await.is_ok());
}

/// A turn that is not listed as open would not go on by itself: then it does not begin.
#[tokio::test]
async fn a_turn_that_cannot_be_marked_does_not_begin() {
    let mut bench = bench();
    let open = bench._folder.path().join("open");
    std::fs::remove_dir_all(&open).unwrap();
    std::fs::write(&open, "in the way").unwrap();
    assert!(matches!(bench.send("m").await.unwrap(), Err(SendError::Storage(_))));
    assert!(bench.live.state.turn.is_none());
}

/// A mark that no turn follows would keep an idle session from being deleted, and wake it at every start.
#[tokio::test]
async fn an_idle_session_has_no_mark_of_an_open_turn() {
    let bench = bench();
    bench.store.mark_open(&bench.live.slot.id).unwrap();
    let mut bench = bench.dies();
    assert_eq!(bench.store.open_sessions().unwrap(), []);
    bench.disk.fail_from(0, ALL);
    assert!(matches!(bench.send("m").await.unwrap(), Err(SendError::Storage(_))));
    bench.disk.heal();
    assert_eq!(bench.store.open_sessions().unwrap(), []);
}

/// A report that no tape can take would be tried again for ever, and all that comes behind it would wait.
#[tokio::test(start_paused = true)]
async fn a_report_that_is_too_large_is_recorded_smaller() {
    let mut bench = bench();
    let [a] = bench.calls(1)[..] else { panic!("a call runs") };
    let result = ToolResult::ok("done").with_details("x".repeat(LINE_BYTES_MAX).into());
    bench.report(a, Report::Returned { result });
    assert!(bench.history().contains("the whole result is too large"));
    let text = AnswerPart::Text { text: "x".repeat(LINE_BYTES_MAX), extra: None };
    let before = bench.live.state.spent.usage.output;
    let usage = crate::words::usage::Usage { input: 9, output: 4_000_000, ..Default::default() };
    let answer = ModelAnswer { usage, ..ModelAnswer::new(vec![text], Finish::Stop) };
    bench.answered(bench.request(), answer);
    let end = bench.live.state.ended.back().unwrap();
    assert_eq!(end.outcome, Outcome::CutShort, "{end:?}");
    assert!(end.text.starts_with("xx") && end.text.contains("the whole answer is too large"));
    assert_eq!(bench.live.state.spent.usage.output, before + 4_000_000, "it was paid for");
    assert!(bench.live.slot.is_quiet() && bench.live.state.is_idle());
}

/// Beside one that is too large, the others of its batch are recorded: they are decided one by one.
#[tokio::test]
async fn a_batch_that_is_too_large_is_decided_one_by_one() {
    let mut bench = bench();
    drop(bench.send("m"));
    bench.hold_up_the_disk();
    let first = bench.send("a");
    let large = Message::user("x".repeat(LINE_BYTES_MAX)).with_id("large".into());
    let small = bench.send("small");
    let large =
        bench.ask(SendMessage { message: large, delivery: Delivery::Queue, expect_turn: None, agent: None, added: 0 });
    let paused = bench.ask(Pause);
    bench.let_the_disk_go();
    (0..5).for_each(|_| {
        assert!(bench.store.settle(Duration::from_secs(60)));
        bench.work();
    });
    assert!(first.await.unwrap().is_ok() && small.await.unwrap().is_ok() && paused.await.unwrap().is_ok());
    assert!(matches!(large.await.unwrap(), Err(SendError::Storage(TapeError::TooLarge { .. }))));
    assert!(bench.live.state.paused && bench.live.state.queue.len() == 2);
}

/// A message that stops what runs holds back what is due until it is recorded. Where the tape does not take it, that begins after
/// all.
#[tokio::test]
async fn a_stop_that_is_not_recorded_after_all_holds_nothing_back() {
    let mut bench = bench();
    drop(bench.send("m"));
    bench.hold_up_the_disk();
    let call = AnswerPart::Call { id: "c".into(), name: "waits".into(), input: "{}".into(), extra: None };
    bench.answered(bench.request(), ModelAnswer::new(vec![call], Finish::ToolCalls));
    let large = Message::user("x".repeat(LINE_BYTES_MAX)).with_id("large".into());
    let delivery = Delivery::Steer(Steering::AbortRunning);
    let stop = bench.ask(SendMessage { message: large, delivery, expect_turn: None, agent: None, added: 0 });
    bench.let_the_disk_go();
    assert!(matches!(stop.await.unwrap(), Err(SendError::Storage(TapeError::TooLarge { .. }))));
    assert_eq!(bench.running().len(), 1, "{:?}", bench.live.state.open);
}

/// Between an abort and its record nobody begins. One whose task is gone is down, whether it has reported or not.
#[tokio::test]
async fn a_worker_begins_behind_no_stop_and_is_down_with_its_task() {
    let mut bench = bench();
    bench.hold_up_the_disk();
    let slot = bench.live.slot.clone();
    let at_work = slot.begin_worker(0, Seq(90)).unwrap();
    let (_, _answer) = slot.command(abort()).unwrap();
    let mut down = Box::pin(slot.stopped_workers_down());
    assert!(futures_util::FutureExt::now_or_never(&mut down).is_none());
    assert!(slot.begin_worker(0, Seq(91)).is_none());
    bench.work();
    bench.let_the_disk_go();
    // One that begins behind the abort is not waited for.
    let _later = slot.begin_worker(0, Seq(91)).unwrap();
    assert!(futures_util::FutureExt::now_or_never(&mut down).is_none());
    drop(at_work);
    assert!(futures_util::FutureExt::now_or_never(down).is_some());
}

/// What an incarnation knows is worth nothing where the tape is not what it wrote: it ends, and what was reported stays.
#[tokio::test]
async fn a_tape_that_somebody_else_changed_ends_the_incarnation() {
    let mut bench = bench();
    drop(bench.send("m"));
    let ticket = bench.request();
    let tape = bench._folder.path().join("sessions/s/anchors/001_session-start/entries.jsonl");
    std::io::Write::write_all(&mut std::fs::File::options().append(true).open(tape).unwrap(), b"{}\n").unwrap();
    bench.live.slot.report(0, ticket, Report::Failed { error: ModelError::new(ErrorKind::Network, "gone") });
    let why = format!("{:?}", bench.live.work().unwrap_err());
    assert!(why.contains("was changed by another program"), "{why}");
    assert!(bench.live.slot.has_report(ticket));
}

/// An actor that dies between the append and the pop: its next incarnation finds the entry, and gives the answer of then.
#[tokio::test]
async fn a_crash_between_append_and_pop_is_answered_by_the_next_incarnation() {
    let mut bench = bench();
    bench.hold_up_the_disk();
    let mut answer = bench.send("m");
    assert!(bench.live.writing.is_some() && answer.try_recv().is_err());
    bench.disk.open_up();
    assert!(bench.store.settle(Duration::from_secs(60)));
    let mut bench = bench.dies();
    assert!(matches!(answer.await.unwrap(), Ok(CarriedOut::Receipt(_))));
    bench.let_the_disk_go();
    assert!(bench.live.slot.is_quiet() && bench.live.state.turn.is_some());
}

/// An actor that dies before its append: what it had in hand is there again.
#[tokio::test]
async fn a_crash_in_front_of_the_append_loses_nothing() {
    let mut bench = bench();
    bench.work();
    let (_, answer) = bench.live.slot.command(message("m", Delivery::Queue)).unwrap();
    assert!(matches!(bench.live.slot.take(&bench.live.state, bench.live.now()), Some(Work::Decide(_))));
    let bench = bench.dies();
    assert!(answer.await.unwrap().is_ok());
    assert!(bench.live.state.turn.is_some());
}

/// An actor dies with its append in flight, which the tape did not take, and another owner writes as many entries before its node has
/// the session again: the message is not taken for written, and is written behind them.
#[tokio::test]
async fn an_entry_of_another_owner_is_not_taken_for_what_was_in_flight() {
    let mut bench = bench();
    bench.work();
    let (_, answer) = bench.live.slot.command(message("m", Delivery::Queue)).unwrap();
    let Some(Work::Decide(inputs)) = bench.live.slot.take(&bench.live.state, bench.live.now()) else {
        panic!("it is to be decided")
    };
    let (Decision { entries, replies, .. }, _) = bench.live.decide(&inputs, &bench.live.shared.tools.now());
    let others: Vec<_> = entries.iter().map(|entry| Entry::new(entry.seq, entry.time, Record::Resumed {})).collect();
    let others: Vec<_> = others.iter().map(|entry| entry.to_tape().unwrap()).collect();
    bench.live.slot.handed_over(Arc::new(entries), replies);
    let bench = bench.dies_and(|tapes, id| {
        let mut other = tapes.load(id, &(Arc::new(|_| {}) as Notify), Duration::ZERO).unwrap().tape;
        assert!(matches!(other.append(&others), Appended::Now(Ok(_))));
    });
    assert!(answer.await.unwrap().is_ok());
    let Some(turn) = &bench.live.state.turn else { panic!("it was acknowledged, and is not on the tape") };
    assert_eq!(turn.messages, ["m".into()]);
}

/// After two incarnations died over it, a command is answered so, and what came behind it is decided.
#[tokio::test]
async fn an_input_that_two_incarnations_died_over_is_given_up() {
    let mut bench = bench();
    bench.work();
    let (_, poison) = bench.live.slot.command(message("poison", Delivery::Queue)).unwrap();
    assert!(bench.live.slot.take(&bench.live.state, bench.live.now()).is_some());
    let slot = bench.live.slot.clone();
    slot.next_incarnation(1, LeftInFlight::Nowhere);
    (bench.live.incarnation, bench.live.workers) = (1, Default::default());
    let (_, behind) = slot.command(Pause).unwrap();
    let state = bench.live.state.clone();
    let take = || match slot.take(&state, bench.live.now()) {
        Some(Work::Decide(inputs)) => inputs,
        _ => panic!("something is to be decided"),
    };
    assert_eq!(take()[..], [Input::recover()]);
    slot.recorded();
    assert_eq!(take().len(), 1, "what an incarnation died over is decided about alone");
    let bench = bench.dies();
    assert!(matches!(poison.await.unwrap(), Err(SendError::Crashed)));
    assert!(behind.await.unwrap().is_ok());
    assert!(bench.live.state.paused && bench.live.state.turn.is_none());
}

/// A report that comes too late, of an earlier incarnation, is dropped: the next one has decided about its ticket.
#[tokio::test]
async fn a_late_report_of_an_earlier_incarnation_is_dropped() {
    let mut bench = bench();
    let [a] = bench.calls(1)[..] else { panic!("a call runs") };
    let mut bench = bench.dies();
    bench.live.slot.report(0, a, Report::Returned { result: ToolResult::ok("late") });
    bench.work();
    let history = bench.history();
    assert!(!history.contains("late") && history.contains("unknown"), "{history}");
}

/// What was reported in time is recorded in front of the recovery, and starts nothing of its own: also where it is too large, and
/// where the disk does not take it at first.
#[tokio::test(start_paused = true)]
async fn what_was_reported_before_a_crash_is_recorded_in_front_of_recovery() {
    let mut bench = bench();
    let calls = bench.calls(2);
    bench.disk.fail_from(0, ALL);
    let large = ToolResult::ok("large").with_details("x".repeat(LINE_BYTES_MAX).into());
    bench.returned(calls[0], "done");
    bench.report(calls[1], Report::Returned { result: large });
    let mut bench = bench.dies();
    bench.disk.heal();
    bench.later(Duration::from_secs(1)).await;
    let history = bench.history();
    assert!(history.contains("done") && history.contains("the whole result is too large"), "{history}");
    assert!(!history.contains("unknown"), "{history}");
}

/// A reason that no line takes is cut; it ends no incarnation, and the turn is ended.
#[tokio::test]
async fn a_reason_that_is_too_large_is_cut() {
    let mut bench = bench();
    drop(bench.send("m"));
    drop(bench.ask(Abort { reason: "x".repeat(LINE_BYTES_MAX), turn: None }));
    let ending = bench.live.state.turn.as_ref().unwrap().ending.clone().unwrap();
    let Outcome::Aborted { reason } = ending else { panic!("{ending:?}") };
    assert_eq!(reason.len(), 64 * 1024);
}

/// The end of a runtime refuses at once what nobody has in hand. What is on its way to the tape keeps its place; where nobody can
/// say any more what became of it, the error names the message, so that it can be sent again.
#[tokio::test]
async fn what_is_on_its_way_to_the_tape_is_not_refused_as_if_it_were_not() {
    let mut bench = bench();
    bench.hold_up_the_disk();
    let mut taken = bench.send("m");
    let mut waits = bench.send("late");
    bench.live.slot.set_admission(crate::actor::slot::Admission::Closed);
    assert!(matches!(waits.try_recv(), Ok(Err(SendError::Closed))));
    assert!(taken.try_recv().is_err(), "its append is under way");
    bench.live.slot.give_up();
    assert!(matches!(taken.try_recv(), Ok(Err(SendError::Unsettled { message: Some(id) })) if id == "m".into()));
    assert_eq!(bench.live.slot.depth(), 0);
    bench.disk.open_up();
    assert!(bench.store.settle(Duration::from_secs(60)));
}

/// A command is answered within ten seconds, whatever the disk does: one in flight may yet be recorded, one that waits never is.
#[tokio::test]
async fn a_command_that_is_overdue_is_taken_out_or_not_known() {
    let mut bench = bench();
    bench.hold_up_the_disk();
    let (flying, _answer) = bench.live.slot.command(message("m", Delivery::Queue)).unwrap();
    bench.work();
    let (waiting, _answer) = bench.live.slot.command(Pause).unwrap();
    bench.work();
    assert!(matches!(bench.live.slot.overdue(waiting), Some(SendError::Storage(TapeError::Busy { .. }))));
    assert!(matches!(bench.live.slot.overdue(flying), Some(SendError::Unsettled { .. })));
    bench.let_the_disk_go();
    assert!(bench.live.state.turn.is_some() && !bench.live.state.paused);
}

/// A fork of "now" has what the tape has: nothing that may still be cut back.
#[tokio::test]
async fn a_fork_of_now_has_what_is_published() {
    let mut bench = bench();
    bench.work();
    bench.hold_up_the_disk();
    let published = bench.live.state.seq;
    let _receipt = bench.send("m");
    assert!(bench.live.writing.is_some());
    bench.disk.open_up();
    assert!(bench.store.settle(Duration::from_secs(60)));
    // It is on the disk, and its session has not heard of it.
    let (shared, id) = (bench.live.shared.clone(), bench.live.slot.id.clone());
    let make =
        |at: Option<Seq>, fork: &SessionId| crate::session::make_fork(&shared, &id, at.map(Into::into).as_ref(), fork);
    let (fork, named) = ("fork".parse().unwrap(), "named".parse().unwrap());
    make(None, &fork).unwrap();
    assert_eq!(bench.store.forked_from(&fork).unwrap().unwrap().seq, published);
    // Nor does a fork of an entry that the caller names.
    let newest = bench.store.summary(&id).unwrap().seq;
    assert!(newest > published);
    let refused = make(Some(newest), &named);
    assert!(matches!(refused, Err(BranchError::Open(OpenError::Tape(TapeError::Busy { .. })))), "{refused:?}");
    assert_eq!(bench.store.forks_of(&id).unwrap(), [fork]);
}

/// A clock that was set back between two incarnations makes no wait longer: the second before a retry is a second, and is over when
/// it is over.
#[tokio::test(start_paused = true)]
async fn a_clock_that_was_set_back_makes_no_wait_longer() {
    let mut bench = bench_ahead(Duration::from_secs(3_600));
    let before = bench.live.now();
    drop(bench.send("m"));
    bench.failed(bench.request());
    let wait = bench.live.state.due().unwrap().since(before);
    assert!(wait <= Duration::from_secs(2), "{wait:?}");
    let (at, _) = bench.live.timer.as_ref().unwrap();
    let timer = bench.live.clock.instant(*at) - tokio::time::Instant::now();
    assert!(timer <= Duration::from_secs(2), "{timer:?}");
    bench.later(timer).await;
    assert!(bench.live.state.request().is_some(), "it is made again");
}

/// Found when levers raced: a session that was parked on its way to sleep left those waiting for ever who had asked it to sleep.
#[tokio::test]
async fn who_asks_for_sleep_is_answered_by_whoever_settles_it() {
    let ask = |bench: &Bench| {
        let (reply, told) = oneshot::channel();
        bench.live.slot.passivate(Slept::told(reply));
        told
    };
    let busy = |told: Result<(), PassivateError>| matches!(told, Err(PassivateError::Busy { .. }));

    // Parked while it falls asleep, and while it is awake.
    let mut falls = bench::bench();
    let (first, second) = (ask(&falls), ask(&falls));
    assert!(matches!(falls.live.work().unwrap(), Then::Sleep));
    let late = ask(&falls);
    assert_eq!(falls.live.slot.phase(), Phase::Passivating);
    falls.live.slot.park(falls.live.slot.newest_incarnation(), || ());
    assert_eq!(falls.live.slot.phase(), Phase::Active, "it keeps its place");
    for told in [first, second, late, ask(&falls)] {
        assert_eq!(told.await.unwrap(), Err(PassivateError::Parked));
    }
    let awake = bench::bench();
    let told = ask(&awake);
    awake.live.slot.park(awake.live.slot.newest_incarnation(), || ());
    assert_eq!(told.await.unwrap(), Err(PassivateError::Parked));

    // Busy; unreadable; with an actor that does not end; at the end of the runtime.
    let mut working = bench::bench();
    drop(working.send("m"));
    let told = ask(&working);
    working.work();
    assert!(busy(told.await.unwrap()));
    let told = ask(&working);
    working.live.slot.cannot_be_read(OpenError::Unavailable);
    assert!(busy(told.await.unwrap()));
    let told = ask(&working);
    working.live.slot.give_up();
    assert!(busy(told.await.unwrap()));
    let told = ask(&working);
    working.live.slot.set_admission(Admission::Closed);
    assert_eq!(told.await.unwrap(), Ok(()));
}

/// A hook that sees no events costs no event: none is made for it.
#[tokio::test]
async fn no_event_is_made_for_a_hook_that_sees_none() {
    struct Watches(bool);
    impl crate::hook::Hook for Watches {
        fn name(&self) -> &'static str {
            "watches"
        }

        fn sees_events(&self) -> bool {
            self.0
        }
    }
    for sees in [false, true] {
        let hook: Arc<dyn crate::hook::Hook> = Arc::new(Watches(sees));
        let bench = bench_of(Duration::ZERO, crate::hook::Hooks::new([hook]));
        drop(bench.live.slot.command(Pause).unwrap());
        let work = bench.live.slot.take(&bench.live.state, bench.live.now());
        let Some(Work::Decide(inputs)) = work else { panic!("the command is there") };
        let (decision, events) = bench.live.decide(&inputs, &bench.live.shared.tools.now());
        assert_eq!((decision.entries.is_empty(), events.is_some()), (false, sees));
    }
}

/// A listener that comes while an append is in flight is told of it: nothing is missing between what is on the tape and what comes.
#[tokio::test]
async fn a_listener_that_joins_while_an_append_is_in_flight_is_told_of_it() {
    let mut bench = bench();
    bench.hold_up_the_disk();
    drop(bench.ask(Pause));
    assert!(bench.live.writing.as_ref().is_some_and(|writing| writing.events.is_none()), "nobody listened then");
    let mut events = bench.live.slot.listen();
    bench.let_the_disk_go();
    let next = futures_util::FutureExt::now_or_never(events.next()).flatten();
    let Some(crate::event::Next::Event(event)) = next else { panic!("{next:?}") };
    assert!(matches!(event.kind, crate::event::EventKind::Paused { .. }), "{:?}", event.kind);
}
