//! When a conversation is made smaller, in the course of a turn: the order of a round, requests that are too large, crashes.

use tamtam::{
    kernel::{
        Due, Entry, Input, Outcome, Record, Refusal, Report, Resource, Steering,
        context::{PRUNED_TEXT, Window},
    },
    model::{ErrorKind, Item},
    session::Finish,
};

use super::{
    compact::{compact, first_text, summarised, talked, ticket},
    play::{Play, text},
};

/// The kinds of the entries that the last decision wrote.
fn written(play: &Play) -> Vec<String> {
    play.entries.iter().map(|entry| entry.to_tape().unwrap().kind).collect()
}

/// B-08: one round in its order: the conversation without what was compacted, whether it fits, the tools, the model, and what
/// follows from its answer.
#[test]
fn a_round_goes_in_its_order() {
    let mut play = talked(6, 484);
    compact(&mut play).unwrap();
    summarised(&mut play, Ok("## Goal\nTalk."));
    let kept = play.state.history.len();
    assert_eq!(kept, 4, "the summary stands for the rest");
    play.configure(|settings| settings.compaction.auto = true);
    let turn = |play: &mut Play, said: &str| {
        play.send(said);
        let kinds = written(play);
        let request = play.entries.iter().find_map(|entry| match &entry.record {
            Record::Request(request) => Some(request.clone()),
            _ => None,
        });
        (kinds, request.unwrap())
    };
    // With room: what stands in the context, how full that is, and the tools, all before the request is made.
    let (kinds, request) = turn(&mut play, "next");
    assert_eq!(kinds, ["accepted", "delivered", "request"]);
    assert_eq!((request.items, request.tools.as_str()), (kept + 1, "tools"));
    assert!(request.used > 0 && request.used < request.usable);
    let calls = play.answer_calls(&["bash"]);
    play.returned(calls[0], "ok");
    assert_eq!(written(&play), ["result", "request"], "a call leads to another round");
    play.answer_text("done");
    assert_eq!(written(&play), ["answer", "turn_finished"], "an answer without calls ends it");
    // Without room: found before the request, which goes on beside the summary.
    let room = usize::try_from(request.usable - request.used).unwrap();
    let (kinds, request) = turn(&mut play, &"z".repeat(room * 4));
    assert_eq!(kinds, ["accepted", "delivered", "compaction", "request"]);
    assert!(request.used >= request.usable, "{request:?}");
}

/// BDD-AUTOCOMPACT-003: what steers while a compaction holds the turn up waits for it, and is in the first request after it.
/// BDD-AGENT-037: messages of both kinds are kept while the summary is written, in order: two steer, and one stays in the queue.
///
/// J-27, AB-07 (pi 1312).
///
/// T-07
#[test]
fn messages_that_come_during_a_compaction_are_delivered_after_it() {
    let mut play = talked(7, 500);
    play.configure(|settings| settings.compaction.auto = true);
    play.send("next");
    assert!(play.state.request().is_none() && play.state.compaction().is_some());
    play.steer("one", Steering::SkipRemaining);
    play.steer("two", Steering::FinishBatch);
    play.send("later");
    assert!(play.state.request().is_none());
    summarised(&mut play, Ok("sum"));
    assert!(play.state.request().is_some());
    let history = play.history();
    assert_eq!(history[history.len() - 3..], ["user: next", "user: one", "user: two"]);
    assert_eq!(play.state.queue.len(), 1);
}

/// Design §5: whoever aborts what runs is not made to wait for a summary.
#[test]
fn a_message_that_aborts_replaces_a_blocking_compaction_by_a_cut() {
    let mut play = talked(7, 500);
    play.configure(|settings| settings.compaction.auto = true);
    play.send("next");
    let summary = ticket(&play);
    play.steer("now!", Steering::AbortRunning);
    // The end of the summary is no stop: it ends because its ticket is closed.
    assert_eq!((play.follows(), play.state.open.len()), ((vec![Due::Request(play.request())], vec![]), 1));
    assert!(!play.state.open.contains_key(&summary));
    assert!(first_text(&play).contains("No summary could be written"));
    // The summary that was on its way changes nothing any more.
    let before = play.state.clone();
    play.signal(Report::Summarised { result: Ok(("late".into(), Default::default())), lost: 0 }.of(summary));
    assert_eq!(play.state, before);
}

/// J-01: a request that the provider refuses as too large is made again, once, after a compaction; it eats no step.
#[test]
fn an_overflow_compacts_once_and_sends_again() {
    let mut play = talked(5, 400);
    play.configure(|settings| settings.compaction.auto = true);
    play.send("next");
    play.failed(ErrorKind::ContextOverflow);
    assert!(play.state.request().is_none());
    summarised(&mut play, Ok("sum"));
    let Record::Request(again) = &play.entries.last().unwrap().record else { panic!("{:?}", play.entries) };
    assert_eq!((again.attempt, play.state.turn.as_ref().unwrap().step), (2, 1));
}

/// A server whose real window is smaller than what is said of it: whatever the conversation holds, each turn ends with an answer or an
/// error, no request is made twice, and the next small message is answered.
#[test]
fn a_server_with_a_smaller_window_than_is_said_is_answered_in_the_end() {
    for real in [2_000, 16_000, 64_000] {
        for says in [true, false] {
            let mut server = Server::new(real, says);
            for size in [3_000, 30, 90_000, 300_000] {
                server.turn(&"w ".repeat(size / 2), 0);
                server.turn("call", size);
                let small = server.turn("hi", 0);
                assert_eq!(small, Some(Outcome::Done), "real {real}, says {says}, after {size}");
            }
            let learned = server.play.state.context.learned.first();
            assert!(learned.is_some_and(|(_, learned)| *learned < 200_000), "it is on the tape");
        }
    }
}

/// See the test above.
struct Server {
    play: Play,
    real: u64,
    says: bool,
    sent: u32,
    seen: std::collections::BTreeSet<String>,
}

impl Server {
    fn new(real: u64, says: bool) -> Server {
        let mut play = Play::new();
        play.window = Window::new(200_000, 8_192);
        Server { play, real, says, sent: 0, seen: Default::default() }
    }

    /// Sends that, has the model ask for a call with an output of so many characters where that is not 0, and sees to all that follows.
    fn turn(&mut self, text: &str, output: usize) -> Option<Outcome> {
        // A message is known by its words here.
        self.sent += 1;
        self.play.send(&format!("{} {text}", self.sent));
        let mut called = output == 0;
        for _ in 0..100 {
            if self.play.state.compaction().is_some() {
                // It reads what it is shown, which must be small enough by then.
                summarised(&mut self.play, Ok("in short"));
            } else if let Some((_, request)) = self.play.state.request() {
                assert!(self.seen.insert(request.hash.clone()), "the same request twice");
                let size: u64 = self.play.state.history.iter().map(|item| tamtam::kernel::context::of_item(item)).sum();
                if size > self.real {
                    let message = match self.says {
                        true => format!("prompt is too long: {size} tokens > {} maximum", self.real),
                        false => "prompt is too long".to_owned(),
                    };
                    self.play.failed_with(tamtam::model::ModelError::new(ErrorKind::ContextOverflow, message));
                } else if called {
                    self.play.answer_text("fine");
                } else {
                    called = true;
                    let calls = self.play.answer_calls(&["read"]);
                    self.play.returned(calls[0], &"z".repeat(output));
                }
            } else {
                return self.play.outcome();
            }
        }
        panic!("the turn does not end: {:?}", self.play.newest(20, 200));
    }
}

/// J-28, C-19, AB-07 (pi 1038): a rate limit never compacts, and neither does another error.
#[test]
fn a_rate_limit_never_compacts() {
    for kind in [ErrorKind::RateLimited, ErrorKind::InvalidRequest, ErrorKind::Network] {
        let mut play = talked(5, 400);
        play.configure(|settings| settings.compaction.auto = true);
        play.send("next");
        play.failed(kind);
        assert!(play.state.compaction().is_none(), "{kind:?}");
    }
}

/// COST-ERR-006: what the old model refused says nothing of the next one.
#[test]
fn an_overflow_of_the_old_model_does_not_compact_for_the_new() {
    let mut play = talked(5, 400);
    play.configure(|settings| settings.compaction.auto = true);
    play.send("next");
    play.failed(ErrorKind::ContextOverflow);
    play.abort("another model");
    play.configure(|settings| settings.model = "fake/larger".parse().unwrap());
    play.window = Window::new(200_000, 8_192);
    summarised(&mut play, Err("not needed"));
    play.go_on();
    play.send("with the larger one");
    assert!(play.state.compaction().is_none() && play.state.request().is_some());
}

/// J-11, C-18, J-10: old outputs of tools are left out first, and nothing is summed up where that is enough.
#[test]
fn old_outputs_are_pruned_before_anything_is_summed_up() {
    let mut play = Play::new();
    play.window = Window::new(120_000, 0).with_reserve(20_000);
    for turn in 0..4 {
        play.send(&format!("turn {turn}"));
        let calls = play.answer_calls(&["read"]);
        play.returned(calls[0], &"z".repeat(if turn < 2 { 170_000 } else { 400 }));
        play.answer_text("ok");
    }
    play.send(&"x".repeat(70_000));
    assert!(
        play.entries.iter().any(|entry| matches!(&entry.record, Record::Pruned { results, .. } if results.len() == 2))
    );
    assert!(play.state.compaction().is_none() && play.state.request().is_some());
    let contents: Vec<_> = play
        .state
        .history
        .iter()
        .filter_map(|item| match &**item {
            Item::Result(result) => Some(result.content.len()),
            _ => None,
        })
        .collect();
    assert_eq!(contents, [PRUNED_TEXT.len(), PRUNED_TEXT.len(), 400, 400]);
    let tape = play.tape();
    let on_tape = tape.iter().filter_map(|entry| match &entry.record {
        Record::Result { result, .. } => Some(result.content.len()),
        _ => None,
    });
    assert_eq!(on_tape.collect::<Vec<_>>(), [170_000, 170_000, 400, 400], "the tape keeps what was left out");
}

/// J-05: the figure of before a summary says nothing of after it: the answer that brought the session to its limit is not what
/// the next step is measured by, and no summary follows on a summary.
#[test]
fn no_summary_follows_on_a_summary() {
    let mut play = talked(6, 484);
    play.configure(|settings| settings.compaction.auto = true);
    play.send("next");
    summarised(&mut play, Ok("sum"));
    let usage = tamtam::model::Usage { input: 1_600, output: 10, ..Default::default() };
    play.answer_using(vec![text("done")], Finish::Stop, usage);
    assert_eq!(play.state.context.compactions, 1);
    for turn in 0..2 {
        play.send(&format!("and {turn}"));
        assert!(play.state.compaction().is_none() && play.state.request().is_some(), "turn {turn}");
        play.answer_text("fine");
    }
    assert_eq!(play.state.context.compactions, 1);
}

/// A request that a crash interrupts while a summary waits to be put in place is made again with the same hash.
#[test]
fn a_crash_between_a_summary_and_its_place_changes_no_request() {
    let mut play = talked(6, 484);
    play.configure(|settings| settings.compaction.auto = true);
    play.send("next");
    let (request, hash) = (play.request(), play.state.history_hash.clone());
    summarised(&mut play, Ok("sum"));
    play.signal(Input::recover());
    assert_eq!(play.follows(), (vec![Due::Request(request)], vec![]));
    assert_eq!(play.state.history_hash, hash);
    play.answer(vec![text("done")], Finish::Stop);
    assert!(first_text(&play).contains("sum"));
}

/// A compaction that a crash interrupts is begun again, also in a session that is idle.
#[test]
fn a_crash_begins_the_summary_again() {
    let mut play = talked(5, 500);
    compact(&mut play).unwrap();
    let open = ticket(&play);
    play.signal(Input::recover());
    assert_eq!(play.follows(), (vec![Due::Summary(open)], vec![]));
    summarised(&mut play, Ok("sum"));
    assert_eq!(play.state.context.compactions, 1);
}

/// After a crash a summary is not written again where the budget does not allow as much once more: what was held for it is spent.
#[test]
fn a_crash_begins_no_summary_again_that_the_budget_does_not_allow() {
    let mut play = talked(5, 500);
    play.configure(|settings| settings.budget.session.tokens = Some(100_000));
    compact(&mut play).unwrap();
    let open = ticket(&play);
    let left = play.state.left().of(Resource::Tokens).unwrap();
    play.configure(|settings| settings.budget.session.tokens = Some(100_000 - left));
    play.crash();
    let failed = |entry: &Entry| matches!(&entry.record, Record::CompactionFailed { .. }) && entry.ticket == Some(open);
    assert!(play.entries.iter().any(failed), "{:?}", play.entries);
    assert_eq!((play.state.compaction(), play.is_quiet()), (None, true));
}

/// A compaction that is written and waits for the open request is in progress: another one would cut what it replaces.
#[test]
fn no_compaction_is_opened_while_one_waits_for_its_place() {
    let mut play = talked(6, 484);
    play.configure(|settings| settings.compaction.auto = true);
    play.send("next");
    let first = ticket(&play);
    summarised(&mut play, Ok("sum"));
    assert_eq!(compact(&mut play), Err(Refusal::Compacting { ticket: first }));
    play.answer_text("done");
    assert!(first_text(&play).contains("sum"));
    assert_eq!(play.history().iter().filter(|line| line.starts_with("model: done")).count(), 1);
}

/// J-02: above 80 % the step says so, once until there is room again.
#[test]
fn a_context_that_fills_up_is_warned_of_once() {
    let mut play = talked(4, 500);
    let warned = |play: &Play| play.state.context.fullness.warns();
    assert!(!warned(&play));
    play.send(&"x".repeat(700));
    play.answer_text(&"y".repeat(500));
    assert!(warned(&play), "{:?}", play.state.context.fullness);
    assert!(play.state.context.fullness.percent() >= 80);
    compact(&mut play).unwrap();
    summarised(&mut play, Ok("sum"));
    assert!(!warned(&play), "it was made smaller");
    play.send("next");
    assert!(!warned(&play), "{:?}", play.state.context.fullness);
}

/// An answer may be no larger than what the window leaves, where it would be; a strict provider refuses the request otherwise.
#[test]
fn the_largest_answer_shrinks_with_the_room_that_is_left() {
    let mut play = talked(6, 484);
    play.configure(|settings| settings.params.max_output = Some(500));
    play.send("next");
    let Record::Request(request) = &play.entries.last().unwrap().record else { panic!("{:?}", play.entries) };
    let max = request.max_output.unwrap();
    assert!(request.used + max <= 2_000 && max > 400, "{request:?}");
    assert_eq!(play.state.request().unwrap().1.params.max_output, Some(max));
}

/// A message that joins the next request counts before it is made.
#[test]
fn steering_that_would_not_fit_makes_room_first() {
    let mut play = talked(4, 500);
    play.configure(|settings| settings.compaction.auto = true);
    play.send("next");
    play.steer(&"x".repeat(3_000), Steering::FinishBatch);
    play.answer(vec![text("on it")], Finish::Stop);
    assert!(play.state.compaction().is_some());
}

/// What stands in place of the old is smaller than the old, all that is carried on included; else nothing changes.
#[test]
fn a_summary_that_is_small_with_much_carried_on_is_refused_too() {
    let mut play = Play::with(|settings| {
        settings.compaction.keep = Some(0);
        settings.compaction.auto = false;
    });
    play.send("go");
    play.answer_text("yes");
    play.send("on");
    play.answer_text("fine");
    let before = play.state.history.clone();
    compact(&mut play).unwrap();
    summarised(&mut play, Ok("s"));
    assert_eq!((play.state.history.clone(), play.state.context.failures), (before, 1));
}

/// The summariser has a window of its own, and counts as it does: it is shown no more than fits.
#[test]
fn what_the_summariser_is_shown_follows_what_it_counts() {
    let mut play = talked(5, 500);
    play.send("next");
    let ticket_of_request = play.request();
    let mut answer = tamtam::model::ModelAnswer::new(vec![text("ok")], Finish::Stop);
    answer.usage.input = play.state.request().unwrap().1.estimated * 2;
    play.signal(Report::Answered { answer, calls: Vec::new() }.of(ticket_of_request));
    compact(&mut play).unwrap();
    let open = play.state.compaction().unwrap().1.clone();
    assert!(open.room <= open.usable * 6 / 10, "{open:?}");
}
