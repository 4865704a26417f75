//! Where a conversation may be cut in two: the items before the cut are summed up, the items after it stay as they are.
//!
//! A change must never part a call from its result: a cut comes before a user's message or before an answer, never before a
//! result. The newest item always stays. If a cut comes before an answer, the newest user message before the cut is named, so that
//! the summary can say what the rest of the turn was asked for. A pure function: the history is read and not changed. Replay
//! computes the cuts of existing tapes again, so a change must not move one.

use crate::model::{History, Item};

/// A place to cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// The position of the first item that stays.
    pub first_kept: usize,
    /// The nearest user item before the cut, at or after `from`, if the cut stands before an answer; else `None`. A steering
    /// message counts like the message that began the turn.
    pub split_turn: Option<usize>,
}

/// The cut that keeps about `keep` tokens at the end, as `tokens` counts them, or `None` if nothing would be cut off.
///
/// `from` items at the front cannot be cut off by themselves: they stand for the part that an earlier cut took. The newest item
/// always stays. The kept part is larger than `keep` only if the newest item alone is, or if the border falls among the results of
/// an answer: then that answer and all its results are kept.
pub(crate) fn cut(history: &History, from: usize, keep: u64, tokens: impl Fn(&Item) -> u64) -> Option<Cut> {
    let items: Vec<_> = history.iter().collect();
    let mut kept = 0_u64;
    let mut border = items.len().checked_sub(1)?;
    for (at, item) in items.iter().enumerate().skip(from).rev() {
        kept = kept.saturating_add(tokens(item));
        if at < border && kept > keep {
            break;
        }
        border = at;
    }
    // An answer stands before its results, so walking back always finds a place.
    while matches!(items.get(border).map(|item| &***item), Some(Item::Result(_))) {
        border = border.checked_sub(1)?;
    }
    if border <= from {
        return None;
    }
    let is_user = |at: &usize| matches!(&**items[*at], Item::User(_));
    let split_turn = match is_user(&border) {
        true => None,
        false => (from..border).rev().find(is_user),
    };
    Some(Cut { first_kept: border, split_turn })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        kernel::context::{of_item, window::KEEP_RECENT},
        model::{AnswerPart, ModelAnswer, ToolResultItem, UserItem},
        words::message::{Finish, Part},
    };

    /// u: a message, a: an answer, c: an answer with two calls, followed by its results.
    fn history(shape: &str) -> History {
        let mut history = History::default();
        for (n, c) in shape.chars().enumerate() {
            let call = |k: usize| crate::words::ids::CallId::from(format!("call-{n}-{k}"));
            match c {
                'u' => history.push(Item::User(UserItem {
                    id: "m".into(),
                    parts: vec![Part::text("x")],
                    fragment: Default::default(),
                })),
                'a' => {
                    let text = AnswerPart::Text { text: "y".into(), extra: None };
                    history.push(Item::Assistant(ModelAnswer::new(vec![text], Finish::Stop)));
                }
                _ => {
                    let calls = (0..2).map(|k| AnswerPart::Call {
                        id: call(k),
                        name: "read".into(),
                        input: "{}".into(),
                        extra: None,
                    });
                    history.push(Item::Assistant(ModelAnswer::new(calls.collect(), Finish::ToolCalls)));
                    for k in 0..2 {
                        history.push(Item::Result(ToolResultItem {
                            call: call(k),
                            name: "read".into(),
                            content: "z".into(),
                            is_error: false,
                            attachments: vec![],
                            time: Default::default(),
                            seq: Default::default(),
                            fragment: Default::default(),
                        }));
                    }
                }
            }
        }
        history
    }

    fn cut_of(shape: &str, from: usize, keep: u64) -> Option<(usize, Option<usize>)> {
        cut(&history(shape), from, keep, |_| 1).map(|cut| (cut.first_kept, cut.split_turn))
    }

    /// C-31: what is kept is counted in tokens, however many messages that are; counted as one each, as in these tests, it is
    /// a number of messages.
    #[test]
    fn what_is_kept_is_counted_in_tokens_or_as_tests_do_in_messages() {
        let said = |tokens: usize| {
            let parts = vec![Part::text("x".repeat(tokens * 4))];
            Item::User(UserItem { id: "m".into(), parts, fragment: Default::default() })
        };
        for tokens in [100, 1_000, 10_000] {
            let history: History = (0..100).map(|_| said(tokens)).collect();
            let one = of_item(&said(tokens));
            let cut_off = cut(&history, 0, KEEP_RECENT, of_item).map_or(0, |cut| cut.first_kept);
            let kept = (100 - cut_off) as u64;
            assert!(
                kept * one <= KEEP_RECENT + one && (kept == 100 || (kept + 1) * one > KEEP_RECENT),
                "{tokens}: {kept}"
            );
            let by_messages = cut(&history, 0, 20, |_| 1).map(|cut| cut.first_kept);
            assert_eq!(by_messages, Some(80), "20 messages of {tokens} tokens");
        }
    }

    /// J-21, J-22, BDD-COMPACT-004: the newest items stay; a cut between turns splits none.
    #[test]
    fn a_cut_keeps_the_newest_and_stands_before_a_message_or_an_answer() {
        for (shape, from, keep, expected) in [
            ("", 0, 3, None),
            ("u", 0, 0, None),
            ("ua", 0, 0, Some((1, Some(0)))),
            ("uaua", 0, 2, Some((2, None))),
            ("uaua", 0, 3, Some((1, Some(0)))),
            ("uaua", 0, 9, None),
            // Items: u c r r a; a cut before a result moves to its answer.
            ("uca", 0, 1, Some((4, Some(0)))),
            ("uca", 0, 2, Some((1, Some(0)))),
            ("uca", 0, 3, Some((1, Some(0)))),
            ("uca", 0, 4, Some((1, Some(0)))),
            // What an earlier cut left is not cut off by itself.
            ("uua", 1, 1, Some((2, Some(1)))),
            ("uua", 1, 2, None),
            ("ua", 1, 0, None),
        ] {
            assert_eq!(cut_of(shape, from, keep), expected, "{shape} from {from} keep {keep}");
        }
    }

    proptest! {
        /// Promise 2, BDD-COMPACT-015, 017: whatever the conversation and the limit, no result is parted from its call, the newest
        /// item stays, and what must not be cut off is not.
        #[test]
        fn no_cut_parts_a_result_from_its_call(shape in "[uac]{0,24}", from in 0..4_usize, keep in 0..40_u64) {
            let history = history(&shape);
            let items: Vec<_> = history.iter().cloned().collect();
            if let Some(Cut { first_kept, split_turn }) = cut(&history, from, keep, |_| 1) {
                prop_assert!(first_kept > from && first_kept < items.len());
                let calls_kept = |id: &crate::words::ids::CallId| items[first_kept..].iter().any(|item| matches!(&**item,
                    Item::Assistant(answer) if answer.parts.iter().any(|part| matches!(part, AnswerPart::Call { id: called, .. } if called == id))));
                for item in &items[first_kept..] {
                    if let Item::Result(result) = &**item {
                        prop_assert!(calls_kept(&result.call));
                    }
                }
                if let Some(start) = split_turn {
                    prop_assert!(start < first_kept && matches!(&*items[start], Item::User(_)));
                    prop_assert!(items[start + 1..=first_kept].iter().all(|item| !matches!(&**item, Item::User(_))));
                }
                // At most the pairs of one answer more than was asked for.
                prop_assert!((items.len() - first_kept) as u64 <= keep.max(1) + 2);
            }
        }
    }
}
