//! Tapes that no session wrote: taken from a schedule and changed where it hurts. A tape can be imported, so its numbers are
//! somebody else's. Whatever they say, folding it, deciding on it and reading it back neither panics nor goes round for ever.
//!
//! ```text
//! TAMTAM_FORGED=20000 cargo test --test it forged        more tapes (300 by default)
//! TAMTAM_FORGED_SEED=7 cargo test --test it forged       one of them
//! ```

use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
};

use serde_json::Value;
use tamtam::{
    Message, Millis, Seq,
    kernel::{
        Abort, Adopt, AnswerAsk, BeginAnchor, Bill, Branch, Compact, Configure, Delivery, End, Entry, Env,
        GiveUpBranch, GoOn, Grant, HandOff, Input, Link, NoSummary, Open, PinMessage, Point, Prepared, Record, ReplyTo,
        Report, Resume, RollBack, RollbackTarget, SendMessage, Settings, Shown, Spawn, State, Steering, TaskOrder,
        Trail, Transcript, Undone, context::Window, decide, look_back, plan_merge,
    },
    model::{ErrorKind, ModelAnswer, ModelError},
    ops::replay::Replay,
    permission::Globs,
    session::Finish,
    tape::{Append, ImportedFrom},
    tool::ToolResult,
};

use super::{rng::Rng, world::World};
use crate::kernel::tests::core::{
    play::{call, text},
    tools,
};

/// What a number is replaced with.
const EXTREMES: [u64; 6] = [0, 1, 2, u32::MAX as u64, i64::MAX as u64, u64::MAX];

/// Numbers in a value, in the order in which they stand, each with the names of the fields that lead to it.
fn numbers<'v>(value: &'v mut Value, field: &str, found: &mut Vec<(String, &'v mut Value)>) {
    match value {
        Value::Number(_) => found.push((field.to_owned(), value)),
        Value::Array(items) => items.iter_mut().for_each(|item| numbers(item, field, found)),
        Value::Object(fields) => {
            for (name, item) in fields {
                // One ticket's number is as good as another's.
                let name = if name.bytes().all(|b| b.is_ascii_digit()) { "0" } else { name };
                numbers(item, &format!("{field}.{name}"), found);
            }
        }
        _ => {}
    }
}

/// Puts a number in the place of one that an entry has; what it was where no reader would take the other.
fn with_number(entry: &Entry, at: usize, number: u64) -> Entry {
    let line = entry.to_tape().unwrap();
    let mut data: Value = serde_json::from_str(line.data.get()).unwrap();
    let mut found = Vec::new();
    numbers(&mut data, "", &mut found);
    *found[at].1 = number.into();
    let data = serde_json::value::RawValue::from_string(data.to_string()).unwrap();
    Entry::from_tape(&tamtam::tape::TapeEntry { data, ..line }).unwrap_or_else(|_| entry.clone())
}

/// The fields of an entry that are numbers.
fn fields(entry: &Entry) -> Vec<String> {
    let mut data: Value = serde_json::from_str(entry.to_tape().unwrap().data.get()).unwrap();
    let mut found = Vec::new();
    numbers(&mut data, "", &mut found);
    found.into_iter().map(|(field, _)| field).collect()
}

/// Puts an extreme where a number stands. Gives the entry as it was where no reader would take the other.
fn forge(rng: &mut Rng, entry: &Entry) -> Entry {
    let extreme = rng.pick(&EXTREMES);
    match rng.below(10) {
        0 => return Entry { ticket: Some(Seq(extreme)), ..entry.clone() },
        1 => return Entry { time: Millis(extreme), ..entry.clone() },
        2 => return Entry { turn: Some(Seq(extreme)), step: Some(u32::MAX), ..entry.clone() },
        _ => {}
    }
    match fields(entry).len() {
        0 => entry.clone(),
        many => with_number(entry, rng.below(many), extreme),
    }
}

/// A tape that was forged: a few numbers are others, and now and then an entry stands somewhere else, or twice.
fn forged(rng: &mut Rng, mut entries: Vec<Entry>) -> Vec<Entry> {
    for _ in 0..1 + rng.below(4) {
        let at = rng.below(entries.len());
        entries[at] = forge(rng, &entries[at]);
    }
    if rng.percent(30) && entries.len() > 2 {
        let (from, to) = (1 + rng.below(entries.len() - 1), 1 + rng.below(entries.len() - 1));
        let copy = entries[from].clone();
        entries.insert(to, copy);
    }
    // The tape itself sees to it that positions follow each other.
    for (entry, seq) in entries.iter_mut().zip(1..) {
        entry.seq = Seq(seq);
    }
    entries
}

/// All that can be said to a state, on whatever tickets are open.
fn signals(state: &State, rng: &mut Rng) -> Vec<Input> {
    let reply = ReplyTo(1);
    let message = |id: &str| Message::user("words").with_id(id.into());
    let order = || TaskOrder::new((*state.settings).clone(), message("p"));
    let mut all = vec![
        Input::recover(),
        Input::Timer,
        SendMessage { message: message("new"), delivery: Delivery::Queue, expect_turn: None, agent: None, added: 0 }
            .to(reply),
        SendMessage {
            message: message("steer"),
            delivery: Delivery::Steer(Steering::AbortRunning),
            expect_turn: Some(Seq(u64::MAX)),
            agent: None,
            added: 0,
        }
        .to(reply),
        Abort { reason: "enough".into(), turn: None }.to(reply),
        GoOn.to(reply),
        Resume.to(reply),
        Compact.to(reply),
        Configure { before: None, settings: Box::new(Settings::new("/w", "a/b".parse().unwrap())) }.to(reply),
        BeginAnchor.to(ReplyTo::NOBODY),
        HandOff { name: "named".into(), summary: Some("all of it".into()) }.to(reply),
        PinMessage { message: "m0".into() }.to(reply),
        Spawn { child: "c".parse().unwrap(), order: Box::new(order()), link: Link::LINKED }.to(reply),
        Adopt { child: "d".parse().unwrap(), link: Link::DETACHED }.to(reply),
        End { reason: "over".into() }.to(reply),
    ];
    for (ticket, open) in state.open.iter() {
        let ticket = *ticket;
        match open {
            Open::Request(_) => {
                let parts = vec![text("so"), call("c0", "read", "{}"), call("c1", "bash", "{}")];
                let mut answer = ModelAnswer::new(parts, Finish::ToolCalls);
                answer.usage.input = rng.pick(&EXTREMES);
                all.push(Report::Answered { answer, calls: Vec::new() }.of(ticket));
                let error = ModelError::new(rng.pick(&[ErrorKind::Network, ErrorKind::ContextOverflow]), "no");
                all.push(Report::Failed { error }.of(ticket));
                let shown = Some(vec![Shown::Kept(usize::MAX, usize::MAX)]);
                all.push(Report::Prepared { prepared: Box::new(Prepared { shown, ..Prepared::default() }) }.of(ticket));
                all.push(Report::CutOff { partial: vec![text("half")], thrown_away: 0 }.of(ticket));
            }
            Open::Call(_) => all.extend([
                Report::Gated { gated: Box::default() }.of(ticket),
                Report::Returned { result: ToolResult::ok("ok") }.of(ticket),
            ]),
            Open::Ask(_) | Open::BudgetAsk(_) => {
                all.push(AnswerAsk { ask: ticket, grant: Grant::Once, who: None, rules: None, digest: None }.to(reply));
            }
            Open::Compaction(_) => {
                let result = Ok(("sum".into(), Default::default()));
                all.push(Report::Summarised { result, lost: u32::MAX }.of(ticket));
            }
            Open::Branch(_) => {
                let why = Box::new(NoSummary::from("no"));
                all.push(GiveUpBranch { ticket, why, lost: u32::MAX }.to(reply));
            }
            _ => {}
        }
    }
    all
}

/// Reads a forged tape in every way there is, and decides on it.
fn read(entries: &[Entry], rng: &mut Rng) {
    let mut state = State::new("forged".parse().unwrap(), Settings::new("/w", "a/b".parse().unwrap()), Millis(0));
    let mut half = state.clone();
    for entry in entries {
        state.apply(entry);
        if rng.percent(50) {
            half = state.clone();
        }
    }
    drop(Transcript::of(entries));
    drop(Bill::of(entries));
    drop(Branch::of(entries, Seq(rng.pick(&EXTREMES))));
    drop(Undone::of(entries));
    drop(Trail::new(&Default::default(), state.seq));
    drop(plan_merge(state.seq, entries, &half, entries));
    for wanted in [
        RollbackTarget::Undo,
        RollbackTarget::Redo,
        RollbackTarget::Point(Point::At(Seq(rng.below(entries.len() + 2) as u64))),
    ] {
        if let Ok(Some(back)) = look_back(entries, &state, &wanted, true) {
            let reply = ReplyTo(2);
            judge(&state, &RollBack { back: back.into(), files: None, summary: None }.to(reply));
        }
    }
    let mut brought = state.clone();
    brought.apply(&Entry {
        seq: state.seq,
        time: state.time,
        cause: None,
        turn: None,
        step: None,
        ticket: None,
        input: None,
        record: Record::Imported(Box::new(ImportedFrom {
            session: "here".parse().unwrap(),
            from: "there".parse().unwrap(),
            last: state.seq,
            workspace: "/here".into(),
            spill: None,
        })),
    });
    assert!(brought.open.is_empty() && brought.turn.is_none() && brought.session.as_str() == "here");
    for state in [&state, &half, &brought] {
        let _ = (state.left(), state.due(), state.is_idle());
        for signal in signals(state, rng) {
            judge(state, &signal);
        }
    }
    // In appends of any length: each but the first is a decision that is found, or not, and made again.
    let (mut appends, mut rest) = (Vec::new(), entries);
    while !rest.is_empty() {
        let (these, others) = rest.split_at((1 + rng.below(4)).min(rest.len()));
        let line = entries.len() - rest.len() + 1;
        let lines = these.iter().map(|entry| entry.to_tape().unwrap()).collect();
        appends.push(Append { file: "forged".into(), line, entries: lines });
        rest = others;
    }
    if let Ok(replay) = Replay::of(appends) {
        replay.for_each(drop);
    }
}

/// What follows from a signal, and what follows from that.
fn judge(state: &State, signal: &Input) {
    let (toolbox, globs) = (tools::toolbox(), Globs::default());
    let signal = &tools::told(&toolbox, state, signal);
    let window = Window { context: 300, reserve: 400, output: 60 };
    let env = Env {
        host_rules: None,
        globs: &globs,
        tools_tokens: 7,
        permissions: &Default::default(),
        windows: &window,
        toolbox_hash: "tools",
        asks_are_heard: true,
        jitter: 0.5,
    };
    let after = decide(state, std::slice::from_ref(signal), &env, Millis(2_000_000)).after;
    drop(decide(&after, &[Input::Timer], &env, Millis(u64::MAX)));
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("the setting is a number"))
}

/// The core is total: no tape, whatever its numbers say, makes it panic or go round for ever.
#[test]
fn no_forged_tape_panics_the_core() {
    let seeds = match setting("TAMTAM_FORGED_SEED") {
        Some(seed) => seed..seed + 1,
        None => 1..setting("TAMTAM_FORGED").unwrap_or(300) + 1,
    };
    for seed in seeds {
        let mut world = World::new(seed, false);
        let (mut rng, happenings) = (Rng::new(seed.wrapping_add(1 << 40)), 20 + seed % 40);
        // A schedule that stops anywhere: much is open.
        (0..happenings).for_each(|_| drop(world.happen()));
        let entries = forged(&mut rng, world.entries());
        let at = entries.iter().position(|entry| !matches!(entry.record, Record::State(_))).unwrap_or(0);
        let told = || format!("seed {seed}, {} entries, the first that is no anchor is {at}", entries.len());
        let read = catch_unwind(AssertUnwindSafe(|| read(&entries, &mut rng)));
        assert!(read.is_ok(), "a forged tape panics the core: {}", told());
    }
}

/// Nor does any number of any kind of entry, as the last thing that a tape says: so what it opens is open when the next signal
/// comes.
#[test]
fn no_number_of_a_newest_entry_panics_the_core() {
    let mut seen = BTreeSet::new();
    for seed in 1..60 {
        let mut world = World::new(seed, false);
        (0..40).for_each(|_| drop(world.happen()));
        let entries = world.entries();
        for (last, entry) in entries.iter().enumerate() {
            for (at, field) in fields(entry).into_iter().enumerate() {
                // Two of its kind: one alone may stand where nothing has happened yet.
                let kind = entry.to_tape().unwrap().kind;
                let times = (0..2).find(|times| seen.insert((kind.to_string(), field.clone(), *times)));
                if times.is_none() {
                    continue;
                }
                for number in [0, u64::MAX] {
                    let mut forged = entries[..=last].to_vec();
                    forged[last] = with_number(entry, at, number);
                    let read = catch_unwind(AssertUnwindSafe(|| read(&forged, &mut Rng::new(seed))));
                    assert!(read.is_ok(), "seed {seed}, entry {} ({kind}): {field} = {number}", last + 1);
                }
            }
        }
    }
}
