//! The core from outside: tables of what it decides (`core/`), random schedules with crashes (`sim/`), and here what decisions
//! cost, counted and not timed.

#![allow(clippy::unwrap_used, clippy::panic, unreachable_pub)]

mod core;
pub(super) mod sim;

use std::{cell::Cell, sync::Arc};

use crate::{
    kernel::context::Window,
    kernel::{
        BeginAnchor, Compact, Decision, Entry, Env, ForkMade, Input, Merged, Record, ReplyTo, Report, Settings, Spent,
        State, decide,
    },
    model::{AnswerPart, History, Item, ModelAnswer, UserItem},
    permission::Globs,
    words::ids::{Millis, Seq},
    words::message::Finish,
    words::usage::Usage,
};

thread_local! {
    /// Items that were serialised and hashed on this thread.
    static HASHED: Cell<usize> = const { Cell::new(0) };
}

/// One item more was serialised and hashed.
pub(super) fn hashed() {
    HASHED.with(|count| count.set(count.get() + 1));
}

fn item(n: usize, letters: usize) -> Item {
    let text = format!("{n:05} {}", "x".repeat(letters));
    match n % 2 {
        0 => Item::User(UserItem {
            id: format!("m{n}").into(),
            parts: vec![crate::words::message::Part::text(text)],
            fragment: Default::default(),
        }),
        _ => Item::Assistant(ModelAnswer::new(vec![AnswerPart::Text { text, extra: None }], Finish::Stop)),
    }
}

/// A session in which so many items of about a hundred tokens were said.
fn said(items: usize) -> State {
    let mut settings = Settings::new("/w", "fake/model".parse().unwrap());
    settings.compaction.keep = Some(2_000);
    let mut state = State::new("s".parse().unwrap(), settings, Millis(1));
    let items: History = (0..items).map(|n| item(n, 400)).collect();
    let merged = Merged {
        fork: "f".parse().unwrap(),
        made: ForkMade { entry: Seq(1), time: Millis(1) },
        onto: Seq::ZERO,
        from: Seq::ZERO,
        to: Seq(9),
        items,
        spent: Spent::default(),
        files: Vec::new(),
        unlisted: Vec::new(),
        spill: None,
    };
    let record = Record::Merged(Arc::new(merged));
    state.apply(&Entry {
        seq: Seq(1),
        time: Millis(1),
        cause: None,
        turn: None,
        step: None,
        ticket: None,
        input: None,
        record,
    });
    state
}

/// A decision, and how many items were serialised and hashed for it.
fn counted(state: &State, signal: &Input) -> (Decision, usize) {
    let (globs, window) = (Globs::default(), Window::new(10_000_000, 1_000));
    let env = Env {
        globs: &globs,
        toolbox_hash: "tools",
        tools_tokens: 0,
        permissions: &Default::default(),
        windows: &window,
        asks_are_heard: true,
        jitter: 0.5,
        host_rules: None,
    };
    HASHED.with(|count| count.set(0));
    let decision = decide(state, std::slice::from_ref(signal), &env, Millis(2));
    (decision, HASHED.with(Cell::get))
}

/// What the swap of a compaction costs on the actor's path: each item that is kept is serialised and hashed once, and the summary;
/// the entry that begins the anchor holds these and no more. So it is the same however long the conversation was; an ordinary
/// answer costs one item.
#[test]
fn the_swap_of_a_compaction_costs_what_is_kept_however_long_the_conversation() {
    let swap = |items: usize| {
        let (opened, hashed) = counted(&said(items), &Compact.to(ReplyTo(1)));
        assert_eq!(hashed, 0, "opening one hashes nothing");
        let ticket = opened.after.compaction().unwrap().0;
        let result = Ok(("sum".into(), Usage::default()));
        let (swapped, hashed) = counted(&opened.after, &Report::Summarised { result, lost: 0 }.of(ticket));
        let (anchor, none) = counted(&swapped.after, &BeginAnchor.to(ReplyTo::NOBODY));
        assert_eq!((none, swapped.after.context.compactions), (0, 1));
        let bytes = anchor.entries[0].to_tape().unwrap().data.get().len();
        (hashed, swapped.after.history.len(), bytes)
    };
    let (hashed, kept, bytes) = swap(200);
    assert_eq!((hashed, kept), (19, 19), "eighteen items and the summary");
    let (hashed_of_more, kept_of_more, bytes_of_more) = swap(4_000);
    assert_eq!((hashed_of_more, kept_of_more), (hashed, kept));
    assert!(bytes_of_more.abs_diff(bytes) < 2_000, "{bytes} bytes, and {bytes_of_more} of twenty times as much");
}
