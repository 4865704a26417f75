//! P4-03: a message meets a session in each of five phases, with each of four policies: twenty rows, each with the kill of its host.
//!
//! A row is played to its end by the host that sent the message; and once more by a second host, over the disk as a `kill -9` leaves
//! it as soon as the first one has the receipt. Both ends are the same: the model gets the message once, at the same
//! place, after the same results. What a row says of the first life is the table of design §5; what differs in the
//! second is said there.

mod life;

use tamtam::{
    Delivery, Outcome, Session,
    Steering::{AbortRunning, FinishBatch, SkipRemaining},
    session::{Disposition, Record},
};

use life::{Life, MESSAGE, Phase, Told, soon};

/// A row, played.
struct Met {
    /// By the host that sent the message.
    lived: Told,
    /// By the host after the kill.
    killed: Told,
    /// Whether the request behind the last wait was made before the wait was over, in each.
    cut_short: [bool; 2],
}

impl Met {
    /// What the model was told up to the message, and how often each tool began: `looks` in the first life and in the second,
    /// `writes` in each.
    fn both(&self, lines: &[&str], looks: [usize; 2], writes: usize) {
        assert_eq!(self.lived.lines, lines);
        assert_eq!(self.killed.lines, lines, "after the kill");
        assert_eq!([self.lived.looks, self.killed.looks], looks);
        assert_eq!([self.lived.writes, self.killed.writes], [writes, writes]);
    }

    /// The wait was cut short, and the message is in the request that it held up.
    fn cut_short(&self) {
        assert_eq!(self.cut_short, [true, true]);
        self.both(&["user: go", "user: instead"], [0, 0], 0);
    }

    /// The request that was open at the kill is the first one after it, as it was.
    fn asks_again(&self, open: usize) {
        assert_eq!(self.killed.requests[0], self.lived.requests[open]);
    }
}

async fn steer(phase: Phase, steering: tamtam::Steering) -> Met {
    meet(phase, Delivery::Steer(steering)).await
}

async fn queue(phase: Phase) -> Met {
    meet(phase, Delivery::Queue).await
}

/// Sends the message in that phase, kills the host in a copy of its disk, and lets both come to their end.
async fn meet(phase: Phase, delivery: Delivery) -> Met {
    let joins = delivery != Delivery::Queue;
    let (first, session, prompt) = Life::begin(phase, joins).await;
    let sent = soon("the receipt", session.send(MESSAGE, delivery)).await.unwrap();
    let waits = if joins { Disposition::Steering } else { Disposition::Queued { before: 0 } };
    assert_eq!(sent.disposition, waits);

    let second = first.killed().await;
    first.go_on(&session).await;
    let again = second.resume().await;

    let ids = [prompt.message, sent.message];
    for session in [&session, &again] {
        is_answered_once(session, &ids, joins).await;
    }
    let cut_short = [is_cut_short(&session).await, is_cut_short(&again).await];
    let met = Met { lived: first.told(), killed: second.told(), cut_short };
    first.end().await;
    second.end().await;
    met
}

/// Both messages are answered, in one turn where the second joined it, and in their order.
async fn is_answered_once(session: &Session, ids: &[tamtam::MessageId; 2], joins: bool) {
    let state = session.state().await.unwrap();
    assert!(state.is_idle() && state.open.is_empty());
    let ended = state.ended.iter().filter(|end| end.messages.iter().any(|id| ids.contains(id)));
    let turns: Vec<_> = ended.map(|end| (end.messages.clone(), end.outcome.clone())).collect();
    let wanted = match joins {
        true => vec![(ids.to_vec(), Outcome::Done)],
        false => ids.iter().map(|id| (vec![id.clone()], Outcome::Done)).collect(),
    };
    assert_eq!(turns, wanted);
}

async fn is_cut_short(session: &Session) -> bool {
    let entries = session.entries().await.unwrap();
    let mut waits = entries.iter().enumerate().filter_map(|(at, entry)| match entry.record {
        Record::RetryWait { until, .. } => Some((at, until)),
        _ => None,
    });
    let Some((at, until)) = waits.next_back() else { return false };
    let request = entries[at..].iter().find(|entry| matches!(entry.record, Record::Request(_)));
    request.expect("it is made again").time < until
}

// ── the model streams ──

/// P403-01: the answer is finished, and both of its calls are answered as skipped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p403_01_a_stream_ends_and_its_calls_are_skipped() {
    let met = steer(Phase::Stream, SkipRemaining).await;
    met.asks_again(0);
    let lines = ["calls look", "calls write", "look skipped", "write skipped", "user: instead"];
    met.both(&[&["user: go", "model: I look"][..], &lines].concat(), [0, 0], 0);
}

/// P403-02: the answer is finished, and both of its calls run before the message is read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p403_02_a_stream_ends_and_its_calls_run() {
    let met = steer(Phase::Stream, FinishBatch).await;
    met.asks_again(0);
    let lines = ["calls look", "calls write", "look ran", "write ran", "user: instead"];
    met.both(&[&["user: go", "model: I look"][..], &lines].concat(), [1, 1], 1);
}

/// P403-03: the stream is closed, and what the model had said by then stands before the message. After the kill it may be gone:
/// text is provisional until its answer is recorded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p403_03_a_stream_is_closed() {
    let mut met = steer(Phase::Stream, AbortRunning).await;
    if met.killed.lines.len() == 2 {
        met.killed.lines.insert(1, "model: I look".to_owned());
    }
    met.both(&["user: go", "model: I look", "user: instead"], [0, 0], 0);
}

/// P403-04: the turn goes on to its end, and the message is the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p403_04_a_stream_and_its_turn_go_on() {
    let met = queue(Phase::Stream).await;
    met.asks_again(0);
    let lines = ["calls look", "calls write", "look ran", "write ran", "model: done", "user: instead"];
    met.both(&[&["user: go", "model: I look"][..], &lines].concat(), [1, 1], 1);
}

// ── a call runs, another one waits behind it ──

/// P403-05: the running call ends, and the one behind it is answered as skipped. After the kill the call runs again: it only reads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p403_05_a_running_call_ends_and_the_next_is_skipped() {
    let met = steer(Phase::Call, SkipRemaining).await;
    met.both(&["user: go", "calls look", "calls write", "look ran", "write skipped", "user: instead"], [1, 1], 0);
}

/// P403-06: both calls run to their end before the message is read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p403_06_a_running_call_ends_and_the_next_runs() {
    let met = steer(Phase::Call, FinishBatch).await;
    met.both(&["user: go", "calls look", "calls write", "look ran", "write ran", "user: instead"], [1, 1], 1);
}

/// P403-07: the running call is stopped, and the one behind it is skipped. After the kill neither runs, though the first only reads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p403_07_a_running_call_is_stopped() {
    let met = steer(Phase::Call, AbortRunning).await;
    met.both(&["user: go", "calls look", "calls write", "look stopped", "write skipped", "user: instead"], [1, 0], 0);
}

/// P403-08: both calls run, the turn goes on to its end, and the message is the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p403_08_a_running_call_and_its_turn_go_on() {
    let met = queue(Phase::Call).await;
    let lines = ["user: go", "calls look", "calls write", "look ran", "write ran", "model: done", "user: instead"];
    met.both(&lines, [1, 1], 1);
}

// ── a person is asked about a call, another one waits behind it ──

/// P403-09: the question is withdrawn, and both calls are skipped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p403_09_a_question_is_withdrawn_and_its_call_skipped() {
    let met = steer(Phase::Ask, SkipRemaining).await;
    met.both(&["user: go", "calls look", "calls write", "look skipped", "write skipped", "user: instead"], [0, 0], 0);
}

/// P403-10: the question stays, also over the kill; answered, both calls run before the message is read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p403_10_a_question_stays_and_its_batch_runs() {
    let met = steer(Phase::Ask, FinishBatch).await;
    met.both(&["user: go", "calls look", "calls write", "look ran", "write ran", "user: instead"], [1, 1], 1);
}

/// P403-11: the question is withdrawn, as with the weaker policy: nothing runs that could be stopped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p403_11_a_question_is_withdrawn_where_nothing_runs() {
    let met = steer(Phase::Ask, AbortRunning).await;
    met.both(&["user: go", "calls look", "calls write", "look skipped", "write skipped", "user: instead"], [0, 0], 0);
}

/// P403-12: the question stays, also over the kill; answered, the turn goes on to its end, and the message is the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p403_12_a_question_stays_and_its_turn_goes_on() {
    let met = queue(Phase::Ask).await;
    let lines = ["user: go", "calls look", "calls write", "look ran", "write ran", "model: done", "user: instead"];
    met.both(&lines, [1, 1], 1);
}

// ── a failed request waits to be made again ──

/// P403-13: the wait is cut short, and the message joins the request that is made again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p403_13_a_wait_is_cut_short() {
    steer(Phase::Wait, SkipRemaining).await.cut_short();
}

/// P403-14: the same where the batch may finish: there is none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p403_14_a_wait_is_cut_short_where_the_batch_may_finish() {
    steer(Phase::Wait, FinishBatch).await.cut_short();
}

/// P403-15: the same where what runs is to be stopped: nothing does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p403_15_a_wait_is_cut_short_where_what_runs_is_stopped() {
    steer(Phase::Wait, AbortRunning).await.cut_short();
}

/// P403-16: the wait goes on to its end, also over the kill, and the request is made again as it was; the message is the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p403_16_a_wait_goes_on() {
    let met = queue(Phase::Wait).await;
    assert_eq!(met.cut_short, [false, false]);
    met.asks_again(0);
    met.both(&["user: go", "model: done", "user: instead"], [0, 0], 0);
}

// ── a summary holds the turn up ──

/// P403-17: the message is read right behind the summary, and joins the turn that waited for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p403_17_a_summary_is_finished_before_the_message_is_read() {
    steer(Phase::Summary, SkipRemaining).await.both(&SUMMED_UP, [1, 0], 0);
}

/// P403-18: the same where the batch may finish: its call is done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p403_18_a_summary_is_finished_where_the_batch_may_finish() {
    steer(Phase::Summary, FinishBatch).await.both(&SUMMED_UP, [1, 0], 0);
}

/// P403-19: nobody waits for the summary: a cut takes its place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p403_19_a_summary_is_replaced_by_a_cut() {
    let lines = ["cut", "calls look", "look ran", "user: instead"];
    steer(Phase::Summary, AbortRunning).await.both(&lines, [1, 0], 0);
}

/// P403-20: the turn goes on behind the summary to its end, and the message is the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p403_20_a_summary_and_its_turn_go_on() {
    let lines = ["summary", "calls look", "look ran", "model: done", "user: instead"];
    queue(Phase::Summary).await.both(&lines, [1, 0], 0);
}

/// A talk that was summed up in mid-turn, its prompt too, with the message behind it.
const SUMMED_UP: [&str; 4] = ["summary", "calls look", "look ran", "user: instead"];
