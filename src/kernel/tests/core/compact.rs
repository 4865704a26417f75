//! When a conversation is made smaller, and what takes its place: checklist J, C-11, C-18; the rows COMPACT and AUTOCOMPACT.

use std::sync::Arc;

use tamtam::{
    Seq,
    kernel::{
        BranchSummary, CarriedOut, Compact, Due, HandOff, LeaveBranch, Record, Refusal, Reply, Report, UndoCompaction,
        Undone, context::Window,
    },
    model::Item,
    session::Finish,
};

use super::play::{Play, call};

/// What one message of 500 characters takes by our estimate.
pub(super) const MESSAGE: u64 = 129;

/// A conversation of so many turns, a message of `size` characters and an answer of as many in each, in a window of 2,000
/// tokens of which 500 are kept free; three messages stay.
pub(super) fn talked(turns: usize, size: usize) -> Play {
    let mut play = Play::with(|settings| {
        settings.compaction.reserve = Some(500);
        settings.compaction.keep = Some(3 * MESSAGE);
        settings.compaction.auto = false;
    });
    play.window = Window::new(2_000, 0).with_reserve(500);
    for turn in 0..turns {
        play.send(&format!("{turn:0size$}"));
        play.answer_text(&"y".repeat(size));
    }
    play
}

pub(super) fn compact(play: &mut Play) -> Reply {
    let reply = play.reply_to();
    play.signal(Compact.to(reply));
    play.reply.clone().unwrap()
}

/// The ticket that was opened.
pub(super) fn ticket(play: &Play) -> Seq {
    play.state.compaction().expect("a compaction is open").0
}

pub(super) fn summarised(play: &mut Play, summary: Result<&str, &str>) {
    let result = summary.map(|text| (Arc::from(text), Default::default())).map_err(Into::into);
    let ticket = ticket(play);
    play.signal(Report::Summarised { result, lost: 0 }.of(ticket));
}

pub(super) fn first_text(play: &Play) -> String {
    let first = play.state.history.iter().next().unwrap().clone();
    let Item::User(user) = &*first else { panic!("the history begins with {first:?}") };
    tamtam::Message { parts: user.parts.clone(), ..tamtam::Message::user("") }.text()
}

/// BDD-COMPACT-003, BDD-COMPACT-009, BDD-COMPACT-016: where all of it is to stay, nothing is summed up.
#[test]
fn a_short_conversation_is_left_alone() {
    let mut play = talked(1, 10);
    let before = play.state.history.clone();
    assert_eq!(compact(&mut play), Err(Refusal::NothingToCompact));
    assert_eq!((play.entries.len(), &play.state.history), (0, &before));
}

/// BDD-AUTOCOMPACT-002: three small messages in a large window start no compaction by themselves.
#[test]
fn a_window_with_room_starts_no_compaction() {
    let mut play = Play::new();
    for said in ["a", "b", "c"] {
        play.send(said);
        play.answer_text("fine");
    }
    assert!(play.state.compaction().is_none() && play.state.context.compactions == 0);
}

/// BDD-COMPACT-004, BDD-COMPACT-015, J-29: a summary takes the place of all but the newest.
#[test]
fn a_summary_replaces_all_but_the_newest_messages() {
    let mut play = talked(5, 500);
    compact(&mut play).unwrap();
    assert_eq!(play.follows(), (vec![Due::Summary(ticket(&play))], vec![]));
    assert_eq!(play.state.history.len(), 10, "nothing changes before the summary is there");
    summarised(&mut play, Ok("## Goal\nTalk."));
    assert_eq!(play.state.history.len(), 4);
    assert!(first_text(&play).contains("## Goal\nTalk."));
    assert_eq!(play.state.context.compactions, 1);
}

/// BDD-COMPACT-005, BDD-COMPACT-013, J-17: the system prompt is no part of what is summed up; with nothing to keep, all but
/// the newest item goes.
#[test]
fn the_system_prompt_is_never_summed_up() {
    let mut play = talked(5, 500);
    play.configure(|settings| {
        settings.system = "You are strict.".into();
        settings.compaction.keep = Some(0);
    });
    compact(&mut play).unwrap();
    summarised(&mut play, Ok("sum"));
    assert_eq!(play.state.history.len(), 2);
    assert_eq!(&*play.state.settings.system, "You are strict.");
}

/// BDD-COMPACT-006, BDD-COMPACT-010, BDD-COMPACT-018, J-18: a summariser that fails changes nothing; an empty summary, and
/// one that is larger than what it replaces, are failures too.
#[test]
fn a_failed_compaction_leaves_the_history_as_it_is() {
    for summary in [Err("the model is down"), Ok(" \n"), Ok(&*"too long ".repeat(1_000))] {
        let mut play = talked(5, 500);
        let before = play.state.history.clone();
        compact(&mut play).unwrap();
        summarised(&mut play, summary);
        assert!(play.entries.iter().any(|entry| matches!(entry.record, Record::CompactionFailed { .. })));
        assert_eq!(play.state.history, before);
        assert_eq!((play.state.context.failures, play.state.compaction()), (1, None));
    }
}

/// BDD-COMPACT-006, BDD-COMPACT-014: after three failures in a row, and only without room, the oldest part is cut off without a
/// summary; three messages stay, and the host's own words are carried on.
#[test]
fn after_three_failures_a_full_context_is_cut_without_a_summary() {
    let mut play = talked(7, 500);
    play.configure(|settings| settings.compaction.auto = true);
    play.send("next");
    for _ in 0..3 {
        assert!(play.state.request().is_none(), "no request is made while there is no room");
        summarised(&mut play, Err("the model is down"));
    }
    assert_eq!(play.state.compaction(), None);
    assert!(play.state.request().is_some());
    let first = first_text(&play);
    assert!(first.contains("No summary could be written") && first.contains("- 0000"), "{first}");
    assert_eq!(play.state.history.len(), 1 + 3, "the newest stay: the message of this turn among them");
}

/// BDD-COMPACT-007, BDD-COMPACT-011, BDD-COMPACT-012, J-19: one compaction at a time, by session; afterwards there may be
/// another.
#[test]
fn a_session_is_compacted_once_at_a_time() {
    let (mut one, mut other) = (talked(5, 500), talked(5, 500));
    compact(&mut one).unwrap();
    let open = ticket(&one);
    let refused = compact(&mut one);
    assert_eq!(refused, Err(Refusal::Compacting { ticket: open }));
    assert!(refused.unwrap_err().to_string().contains("in progress"));
    assert!(matches!(compact(&mut other), Ok(CarriedOut::Done(_))));
    summarised(&mut one, Err("no"));
    assert!(compact(&mut one).is_ok());
}

/// BDD-COMPACT-015 (seed: the cut moves off results), BDD-COMPACT-016 (seed: no orphan results), BDD-COMPACT-017: every
/// call that stays is followed by its result, and none is without its call.
#[test]
fn pairs_are_never_parted() {
    let mut play = talked(3, 500);
    play.send(&"x".repeat(500));
    play.answer(vec![call("c0", "read", "{}"), call("c1", "read", "{}")], Finish::ToolCalls);
    let calls: Vec<_> = play.state.calls().map(|(ticket, _)| ticket).collect();
    for call in calls {
        play.returned(call, &"z".repeat(500));
    }
    compact(&mut play).unwrap();
    summarised(&mut play, Ok("sum"));
    // The request that was open then is answered; now the summary takes its place.
    play.answer_text("read");
    let kinds: String = play
        .state
        .history
        .iter()
        .map(|item| match &**item {
            Item::User(_) => 'u',
            Item::Assistant(_) => 'a',
            Item::Result(_) => 'r',
        })
        .collect();
    assert_eq!(kinds, "uarra");
}

/// J-26: a second compaction brings the first summary up to date, and one summary stands in the context.
#[test]
fn a_second_compaction_takes_the_first_summary_with_it() {
    let mut play = talked(5, 500);
    compact(&mut play).unwrap();
    summarised(&mut play, Ok("the first summary"));
    for turn in 0..3 {
        play.send(&format!("{turn}{}", "x".repeat(500)));
        play.answer_text(&"y".repeat(500));
    }
    compact(&mut play).unwrap();
    summarised(&mut play, Ok("the second summary"));
    let first = first_text(&play);
    assert!(first.contains("the second summary") && !first.contains("the first summary"));
    assert_eq!(play.state.context.summary.as_deref(), Some("the second summary"));
    assert_eq!(
        play.state
            .history
            .iter()
            .filter(|item| matches!(&***item, Item::User(user) if user.id.as_str().starts_with("compaction")))
            .count(),
        1
    );
    let Record::Compacted(compacted) = &play.entries[0].record else { panic!("{:?}", play.entries) };
    assert!(compacted.replaced.is_empty());
}

/// BDD-AUTOCOMPACT-001, J-03, J-14: a context that reaches its reserve is compacted by itself, in the background: a ticket for
/// it is opened, and the step goes on.
#[test]
fn a_context_that_reaches_its_reserve_is_compacted_beside_the_turn() {
    let mut play = talked(6, 484);
    play.configure(|settings| settings.compaction.auto = true);
    play.send("next");
    let (summary, request) = (ticket(&play), play.request());
    assert_eq!(play.follows(), (vec![Due::Summary(summary), Due::Request(request)], vec![]));
    // The summary is there while the request streams: its bytes stay what they are until it is answered.
    let during = play.state.history_hash.clone();
    summarised(&mut play, Ok("sum"));
    assert_eq!((play.state.history.len(), &play.state.history_hash), (13, &during));
    play.answer_text("done");
    assert!(first_text(&play).contains("sum"));
    assert_eq!(play.state.history.len(), 6, "the summary, the newest four of then, and the answer");
}

/// What the newest compaction of this session replaced, as a reader of its tape finds it.
fn undone(play: &Play) -> std::sync::Arc<Undone> {
    let entries = play.entries_of_the_tape();
    let at = entries.iter().position(|entry| entry.seq == play.state.context.newest).unwrap();
    Undone::of(&entries[..=at]).unwrap().into()
}

fn undo(play: &mut Play, undone: std::sync::Arc<Undone>) -> Reply {
    let reply = play.reply_to();
    play.signal(UndoCompaction { undone }.to(reply));
    play.reply.clone().unwrap()
}

/// A compaction is undone by one entry: what it replaced stands in front of what was said since, and the session is as it was;
/// the one before it can be undone then.
#[test]
fn compactions_are_undone_one_by_one() {
    let mut play = talked(5, 500);
    let mut said = play.state.history.clone();
    let mut of_two = None;
    for n in 0..2 {
        compact(&mut play).unwrap();
        summarised(&mut play, Ok(&format!("summary {n}")));
        of_two = Some(play.state.history.clone()).filter(|_| n == 0).or(of_two);
        play.send(&format!("after {n} {}", "x".repeat(500)));
        play.answer_text("noted");
        for item in play.state.history.iter().skip(play.state.history.len() - 2) {
            said.push_shared(item.clone());
        }
    }
    play.window = Window::new(20_000, 0);
    let second = undone(&play);
    undo(&mut play, second.clone()).unwrap();
    assert_eq!(play.entries.len(), 1);
    assert_eq!(play.state.context.summary.as_deref(), Some("summary 0"));
    assert!(first_text(&play).contains("summary 0") && play.history().iter().any(|line| line.contains("after 0")));
    assert_eq!(undo(&mut play, second), Err(Refusal::NothingToUndo), "it is undone");
    let first = undone(&play);
    undo(&mut play, first).unwrap();
    assert_eq!(play.state.history, said, "all of it is there, in order");
    assert_eq!((play.state.context.front, play.state.context.newest), (0, Seq::ZERO));
    play.crash();
    assert_eq!(play.state.history, said);
    play.send("go on");
    play.answer_text("gladly");
}

/// Nothing is undone under a running turn, beside another compaction, or where it would be summed up again at once.
#[test]
fn a_compaction_is_not_undone_where_it_cannot_last() {
    let mut play = talked(6, 500);
    compact(&mut play).unwrap();
    summarised(&mut play, Ok("sum"));
    let back = undone(&play);
    let refused = undo(&mut play, back.clone()).unwrap_err();
    assert!(matches!(refused, Refusal::WouldNotFit { usable: 1_500, .. }), "{refused}");
    assert!(refused.to_string().contains("larger window"));
    play.window = Window::new(20_000, 0);
    play.send("next");
    assert!(matches!(undo(&mut play, back.clone()), Err(Refusal::Busy { .. })));
    play.answer_text("done");
    play.configure(|settings| settings.compaction.keep = Some(0));
    compact(&mut play).unwrap();
    assert!(matches!(undo(&mut play, back.clone()), Err(Refusal::Compacting { .. })));
    summarised(&mut play, Err("no"));
    undo(&mut play, back).unwrap();
}

/// What a compaction replaced is not put back behind a host's own summary, which took the place of what was kept beside it too
/// (seed 81887 of the simulator).
#[test]
fn nothing_from_before_a_hosts_own_summary_is_undone() {
    let mut play = talked(6, 500);
    compact(&mut play).unwrap();
    summarised(&mut play, Ok("sum"));
    let back = undone(&play);
    play.window = Window::new(20_000, 0);
    let reply = play.reply_to();
    play.signal(HandOff { name: "by-hand".into(), summary: Some("all of it".into()) }.to(reply));
    let history = play.history();
    assert_eq!(undo(&mut play, back), Err(Refusal::NothingToUndo));
    assert_eq!(play.history(), history);
}

/// BDD-COMPACT-027: the summary of a branch stands in front of the next turn, and no compaction sums it up: it is there
/// word for word after several of them.
#[test]
fn bdd_compact_027_the_summary_of_a_branch_survives_compaction() {
    let mut play = talked(3, 500);
    let left = play.reply_to();
    let files = tamtam::kernel::context::FileOperations { read: vec!["a.rs".into()], modified: vec![] };
    let branch = BranchSummary {
        from: Seq(4),
        to: Seq(19),
        summary: "The cache was no help.".into(),
        usage: Default::default(),
        files,
        request: None,
    };
    play.signal(LeaveBranch { branch: std::sync::Arc::new(branch.clone()) }.to(left));
    play.reply.clone().unwrap().unwrap();
    assert!(play.history().last().unwrap().contains("The cache was no help."));
    for _ in 0..3 {
        for turn in 0..3 {
            play.send(&format!("{}{turn}{}", play.state.seq, "x".repeat(500)));
            play.answer_text(&"y".repeat(500));
        }
        compact(&mut play).unwrap();
        summarised(&mut play, Ok("a summary that forgets"));
        assert_eq!(play.history().join("\n").matches("The cache was no help.").count(), 1);
    }
    assert!(first_text(&play).contains("The cache was no help.") && first_text(&play).contains("- a.rs"));
    play.send("next");
    let reply = play.reply_to();
    play.signal(LeaveBranch { branch: std::sync::Arc::new(branch) }.to(reply));
    assert!(matches!(play.reply, Some(Err(Refusal::Busy { .. }))), "not under a running turn");
}
