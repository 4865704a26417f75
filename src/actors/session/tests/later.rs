//! Appends that are answered later, and lives that end before they are.

use futures_util::FutureExt as _;

use super::*;
use crate::{
    event::Next,
    model::History,
    session::{
        Abort, BeginAnchor, Compact, Configure, ContextState, ReplyTo, Report, RollBack, RolledBack, SendMessage, Way,
    },
    tape::tests::support::entry,
    usage::Usage,
};

impl Bench {
    /// Has another session of the store write in place, and not come to an end of it: what is appended meanwhile is left to the
    /// store's thread. Joined when the disk is opened up.
    fn another_writes(&self) -> std::thread::JoinHandle<()> {
        let mut other = self.store.create(&"other".parse().unwrap(), Arc::new(|_| {})).unwrap();
        self.disk.shut();
        self.disk.open_but_to("stuck");
        let thread = std::thread::spawn(move || {
            let stuck = crate::tape::Entry { kind: "stuck".into(), ..entry(1) };
            drop(other.append(&[stuck]));
        });
        self.disk.wait_until_one_waits();
        thread
    }

    /// Ends that, with all that was left to the thread written, or refused, and told.
    fn it_is_done(&self, another: std::thread::JoinHandle<()>) {
        assert!(self.store.settle(std::time::Duration::from_secs(60)));
        self.disk.open_up();
        another.join().unwrap();
    }

    /// A turn that waits for so many calls.
    fn calls(&mut self, many: usize) -> Vec<Seq> {
        drop(self.send("m"));
        self.live.work();
        let ticket = self.live.state.request().unwrap().0;
        let call =
            |n| AnswerPart::Call { id: format!("{n}").into(), name: "waits".into(), input: "{}".into(), extra: None };
        let answer = Answer::new((0..many).map(call).collect(), Finish::ToolCalls);
        self.answered(ticket, answer);
        self.live.calls.keys().copied().collect()
    }

    fn configure(&mut self) {
        let mut settings = Box::new((*self.live.state.settings).clone());
        settings.retries_max += 1;
        self.live.on(Configure { before: None, settings }.to(ReplyTo(0)));
    }

    fn history(&self) -> String {
        self.live.state.history.iter().map(|item| format!("{item:?}\n")).collect()
    }
}

fn send(id: &str) -> Input {
    let message = Message::user("go").with_id(id.into());
    SendMessage { message, delivery: Delivery::Queue, expect_turn: None }.to(ReplyTo(9))
}

/// An append that was left to the thread is on the tape, and the actor has not heard of it, when it decides the next thing and
/// writes that in place: what was decided first is told first all the same.
#[tokio::test]
async fn what_was_decided_first_is_told_first_however_its_append_was_answered() {
    let mut bench = bench();
    let mut events = bench.live.slot.listen();
    let another = bench.another_writes();
    bench.live.on(send("a"));
    assert_eq!(bench.live.pending.len(), 1);
    bench.it_is_done(another);
    bench.live.on(send("b"));
    assert!(bench.live.pending.is_empty(), "it was written in place");
    assert_eq!(bench.live.requests.len(), 1, "what the first one starts is started");
    bench.live.work();
    let mut shown = Vec::new();
    while let Some(Some(Next::Event(event))) = events.next().now_or_never() {
        shown.push(event.id);
    }
    let mut sorted = shown.clone();
    sorted.sort_by_key(|id| (id.seq, id.sub));
    sorted.dedup();
    assert_eq!(shown, sorted, "in order, and once");
    assert_eq!(bench.live.told.load(Ordering::Relaxed), bench.live.state.seq.0);
    assert!(shown.iter().any(|id| id.seq <= Seq(3)) && shown.last().unwrap().seq == bench.live.state.seq);
}

/// The same where the first one failed, and the second one was refused because of it: they are held in their order.
#[tokio::test]
async fn what_was_decided_first_is_held_first_where_the_disk_refuses() {
    let mut bench = bench();
    let calls = bench.calls(2);
    let another = bench.another_writes();
    bench.live.on(Report::Returned { result: ToolResult::ok("first") }.of(calls[0]));
    assert_eq!(bench.live.pending.len(), 1);
    bench.disk.fail_from(0, ALL);
    bench.it_is_done(another);
    bench.live.on(Report::Returned { result: ToolResult::ok("second") }.of(calls[1]));
    bench.live.work();
    let held: Vec<_> = bench.live.held.iter().filter_map(Input::reported).collect();
    assert_eq!(held, calls);
}

/// Where nothing is open, nothing is marked: also where what was written last was answered later.
#[tokio::test]
async fn an_idle_session_has_no_mark_when_what_it_wrote_last_is_settled() {
    let mut bench = bench();
    let another = bench.another_writes();
    bench.configure();
    bench.store.mark_open(&bench.live.slot.id).unwrap();
    bench.live.unmark_if_finished();
    bench.it_is_done(another);
    assert!(bench.store.settle(std::time::Duration::from_secs(60)));
    assert_eq!(bench.store.open_sessions().unwrap().len(), 1);
    bench.live.work();
    assert!(bench.store.settle(std::time::Duration::from_secs(60)));
    assert_eq!(bench.store.open_sessions().unwrap(), []);
}

/// Promise 11: however often the disk is tried, and however often somebody aborts meanwhile, a call is reported once.
#[tokio::test(start_paused = true)]
async fn an_abort_on_a_full_disk_is_held_once_however_often_the_disk_is_tried() {
    let mut bench = bench();
    let calls = bench.calls(1);
    bench.disk.fail_from(0, ALL);
    bench.live.on(Report::Returned { result: ToolResult::ok("done") }.of(calls[0]));
    let slot = bench.live.slot.clone();
    let abort = || slot.input(|reply| Abort { reason: "enough".into() }.to(reply)).unwrap();
    let (first, second) = (abort(), abort());
    for _ in 0..10 {
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
        bench.live.work();
        assert_eq!(bench.live.held.len(), 3, "{:?}", bench.live.held);
    }
    bench.disk.heal();
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    bench.live.work();
    assert!(first.await.unwrap().is_ok() && second.await.unwrap().is_ok());
    assert!(bench.live.held.is_empty() && bench.live.state.turn.is_none());
    assert!(bench.history().contains("done"));
}

/// A reason that no line takes is cut; it ends no life, and the turn is ended.
#[tokio::test]
async fn a_reason_that_is_too_large_is_cut() {
    let mut bench = bench();
    bench.calls(0);
    drop(bench.send("m2"));
    bench.live.work();
    assert!(bench.live.state.turn.is_some());
    bench.live.on(Abort { reason: "x".repeat(LINE_BYTES_MAX) }.to(ReplyTo(8)));
    assert!(bench.live.given_up().is_none() && bench.live.held.is_empty());
    let ending = bench.live.state.turn.as_ref().unwrap().ending.clone().unwrap();
    let Outcome::Aborted { reason } = ending else { panic!("{ending:?}") };
    assert_eq!(reason.len(), 64 * 1024);
}

/// What an earlier life did not get to, and the disk does not take now, is recorded before anything is decided about what it left
/// open.
#[tokio::test(start_paused = true)]
async fn a_report_of_an_earlier_life_is_held_in_front_of_recovery() {
    let mut bench = bench();
    let calls = bench.calls(2);
    bench.disk.fail_from(0, ALL);
    let large = ToolResult::ok("large").with_details("x".repeat(LINE_BYTES_MAX).into());
    let left = [ToolResult::ok("done"), large];
    let left = calls.iter().zip(left).map(|(ticket, result)| Report::Returned { result }.of(*ticket));
    bench.live.recover(left.collect(), BTreeMap::new());
    bench.disk.heal();
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    bench.live.after_work();
    let history = bench.history();
    assert!(history.contains("done") && history.contains("the whole result is too large"), "{history}");
    assert!(!history.contains("unknown"), "{history}");
}

/// What a worker reported and the disk did not take is left to the next life, whatever ends this one.
#[tokio::test]
async fn a_life_that_ends_leaves_what_it_holds_to_the_next_one() {
    let mut bench = bench();
    let calls = bench.calls(2);
    bench.disk.fail_from(0, ALL);
    for ticket in &calls {
        bench.live.on(Report::Returned { result: ToolResult::ok("done") }.of(*ticket));
    }
    assert_eq!(bench.live.held.len(), 2);
    let slot = bench.live.slot.clone();
    drop(bench);
    for ticket in calls {
        assert!(slot.has_report(
            |report| matches!(report, Input::Report { ticket: of, report: Report::Returned { .. } } if *of == ticket)
        ));
    }
}

/// A summary comes while its end is on the way to a disk that then refuses: it is decided about again, for somebody still waits
/// for it.
#[tokio::test(start_paused = true)]
async fn a_summary_whose_end_was_not_recorded_is_taken() {
    let mut bench = bench();
    let mut settings = other_settings(&bench.live);
    settings.compaction.keep = Some(1);
    bench.live.on(Configure { before: None, settings: Box::new(settings) }.to(ReplyTo(0)));
    for id in ["a", "b"] {
        bench.live.on(send(id));
        let ticket = bench.live.state.request().unwrap().0;
        let text = AnswerPart::Text { text: "word ".repeat(400), extra: None };
        bench.live.on(Report::Answered { answer: Answer::new(vec![text], Finish::Stop), calls: Vec::new() }.of(ticket));
    }
    bench.live.on(Compact.to(ReplyTo(0)));
    let (ticket, _) = bench.live.state.compaction().unwrap();
    let back = RolledBack {
        from: bench.live.state.seq,
        to: Seq(1),
        way: Way::Rollback,
        gone: Vec::new(),
        again: Vec::new(),
        keep: 0,
        items: History::default(),
        hash: String::new(),
        context: Arc::new(ContextState::default()),
    };
    let another = bench.another_writes();
    bench.live.on(RollBack { back: Arc::new(back), files: None, summary: None }.to(ReplyTo(0)));
    assert!(bench.live.state.compaction().is_none() && bench.live.pending.len() == 1);
    let result = Ok(("in short".into(), Usage::default()));
    bench.live.on(Report::Summarised { result, lost: 0 }.of(ticket));
    bench.disk.fail_from(0, ALL);
    bench.it_is_done(another);
    bench.live.work();
    bench.disk.heal();
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    bench.live.after_work();
    assert!(bench.live.state.compaction().is_none() && bench.live.held.is_empty());
    assert!(bench.history().contains("in short"), "{}", bench.history());
}

/// A disk that does not come back holds up no fork for ever, and none of what it has already.
#[tokio::test(start_paused = true)]
async fn a_fork_does_not_wait_for_ever_for_a_disk_that_hangs() {
    let mut bench = bench();
    bench.configure();
    let on_tape = bench.live.state.seq;
    let another = bench.another_writes();
    bench.configure();
    assert_eq!(bench.live.pending.len(), 1);
    let (host, id) = (bench.live.host.clone(), bench.live.slot.id.clone());
    let refused = crate::handle::fork_now(&host, &id, None).await.unwrap_err();
    assert!(matches!(refused, crate::OpenError::Tape(TapeError::Busy { .. })), "{refused:?}");
    let since = tokio::time::Instant::now();
    let fork = crate::handle::fork_now(&host, &id, Some(on_tape)).await.unwrap();
    assert_eq!(bench.store.forked_from(&fork).unwrap().unwrap().seq, on_tape);
    assert!(since.elapsed() < std::time::Duration::from_secs(1));
    bench.it_is_done(another);
}

/// The same of a way back, which looks at the tape, and not for longer than a host waits for anything else of a disk.
#[tokio::test(start_paused = true)]
async fn a_way_back_does_not_wait_for_ever_for_a_disk_that_hangs() {
    let mut bench = bench();
    bench.configure();
    let another = bench.another_writes();
    bench.configure();
    let session = crate::Session { host: bench.live.host.clone(), slot: bench.live.slot.clone() };
    let undo = tokio::time::timeout(std::time::Duration::from_secs(120), session.undo());
    tokio::pin!(undo);
    assert!(futures_util::poll!(&mut undo).is_pending());
    // It is told the state, and asks for the tape to have it.
    bench.live.work();
    assert!(futures_util::poll!(&mut undo).is_pending());
    bench.live.work();
    let refused = undo.await.expect("half a minute is the most").unwrap_err();
    assert!(refused.to_string().contains(&TapeError::Busy { waiting: 1 }.to_string()), "{refused:?}");
    bench.it_is_done(another);
}

/// The wish for an anchor, left over by a life that crashed, is no report: where it cannot be made nothing waits behind it.
#[tokio::test(start_paused = true)]
async fn an_anchor_that_was_left_over_and_cannot_be_made_holds_up_nothing() {
    let mut bench = bench();
    bench.configure();
    let upto = bench.live.state.seq;
    bench.disk.fail_from(0, ALL);
    bench.live.recover(vec![BeginAnchor.to(ReplyTo::NOBODY)], BTreeMap::new());
    assert_eq!((bench.live.held.len(), bench.live.state.seq), (0, upto));
    bench.disk.heal();
    let receipt = bench.send("m");
    bench.live.work();
    assert!(receipt.await.unwrap().is_ok());
}
