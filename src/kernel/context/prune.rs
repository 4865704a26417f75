//! Which old tool outputs a request can do without: the cheap way to make room, before anything is summed up.
//!
//! The search goes back from the newest item. Outputs within the newest turns stay, then outputs up to a sum of tokens stay, and
//! all outputs before them are candidates, except those of the exempt tools; [`PruneRule`] has the numbers. The search ends at an
//! output before those turns that was pruned earlier. If the candidates have too few tokens, nothing is pruned, and the provider's
//! cache of the history stays good.
//!
//! A change must keep this: a pure function of its arguments, which returns the same positions for existing tapes. Only contents go,
//! never a result itself, so that a call and its result stay a pair. [`PRUNED_TEXT`] stays to the letter, because the fold writes
//! it into the history of existing tapes.

use crate::{
    kernel::context::tokens,
    model::{History, Item},
};

/// The placeholder for an output that was left out. It also marks how far an earlier search for outputs went, so it must not
/// change.
pub(crate) const PRUNED_TEXT: &str = "[Output pruned to save context]";

/// Which outputs stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PruneRule<'a> {
    /// The number of newest turns, counted by user messages, whose outputs stay; 2 by default.
    pub turns: usize,
    /// The tokens of output before those turns that stay too; 40,000 by default.
    pub protect: u64,
    /// The tokens that pruning must gain more than; otherwise nothing is pruned. 20,000 by default.
    pub minimum: u64,
    /// Tools whose outputs always stay.
    pub tools: &'a [&'a str],
}

impl Default for PruneRule<'_> {
    fn default() -> Self {
        PruneRule { turns: 2, protect: 40_000, minimum: 20_000, tools: &["skill", "plan_exit"] }
    }
}

/// The positions of the results whose content can go, oldest first; empty if it is not worth it. The first `from` items stay.
#[must_use]
pub(crate) fn prune(history: &History, from: usize, rule: PruneRule<'_>) -> Vec<usize> {
    let items: Vec<_> = history.iter().collect();
    let (mut turns, mut kept, mut gained) = (0, 0_u64, 0_u64);
    let mut candidates = Vec::new();
    for (at, item) in items.iter().enumerate().skip(from).rev() {
        match &***item {
            Item::User(_) => turns += 1,
            Item::Result(result) if turns >= rule.turns => {
                if result.content == PRUNED_TEXT {
                    // An earlier pruning looked at everything before this result.
                    break;
                }
                if rule.tools.contains(&result.name.as_str()) {
                    continue;
                }
                let size = tokens::of_output(result);
                kept = kept.saturating_add(size);
                if kept > rule.protect {
                    gained = gained.saturating_add(size);
                    candidates.push(at);
                }
            }
            _ => {}
        }
    }
    if gained <= rule.minimum {
        return Vec::new();
    }
    candidates.reverse();
    candidates
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::{ModelAnswer, ToolResultItem, UserItem},
        words::message::{Finish, Part},
    };

    /// Turns of one call each, oldest first: the tool and the tokens of its output.
    fn history(turns: &[(&str, usize)]) -> History {
        let mut history = History::default();
        for (tool, tokens) in turns {
            let user = UserItem { id: "m".into(), parts: vec![Part::text("x")], fragment: Default::default() };
            history.push(Item::User(user));
            history.push(Item::Assistant(ModelAnswer::new(vec![], Finish::ToolCalls)));
            let content = match *tool {
                "pruned" => PRUNED_TEXT.to_owned(),
                _ => "x".repeat(tokens * 4),
            };
            history.push(Item::Result(ToolResultItem {
                call: "c".into(),
                name: (*tool).into(),
                content,
                is_error: false,
                attachments: vec![],
                time: Default::default(),
                seq: Default::default(),
                fragment: Default::default(),
            }));
        }
        history
    }

    fn pruned(turns: &[(&str, usize)]) -> Vec<usize> {
        prune(&history(turns), 0, PruneRule::default())
    }

    /// C-18, J-06 to J-11: two turns, then 40,000 tokens stay; the rest goes if it is more than 20,000.
    #[test]
    fn outputs_beyond_two_turns_and_forty_thousand_tokens_go_where_it_is_worth_it() {
        let read = |tokens| ("read", tokens);
        assert_eq!(pruned(&[]), [0; 0]);
        // The newest two turns count for nothing, however large.
        assert_eq!(pruned(&[read(500_000), read(500_000)]), [0; 0]);
        assert_eq!(pruned(&[read(20_001), read(40_000), read(9), read(9)]), [2]);
        assert_eq!(pruned(&[read(20_000), read(40_000), read(9), read(9)]), [0; 0], "not worth it");
        assert_eq!(pruned(&[read(9), read(20_000), read(40_000), read(9), read(9)]), [2, 5]);
        // What crosses the border goes whole.
        assert_eq!(pruned(&[read(60_000), read(9), read(9)]), [2]);
    }

    /// J-09: outputs of protected tools stay, and an earlier pruning is where the next one ends.
    #[test]
    fn protected_tools_and_what_was_pruned_before_are_left_alone() {
        let turns = [("read", 30_000), ("skill", 90_000), ("read", 40_000), ("read", 9), ("read", 9)];
        assert_eq!(pruned(&turns), [2]);
        let turns = [("read", 30_000), ("pruned", 0), ("read", 41_000), ("read", 30_000), ("read", 9), ("read", 9)];
        assert_eq!(pruned(&turns), [8], "what lies before an output that was pruned was looked at then");
        assert_eq!(prune(&history(&turns), 9, PruneRule::default()), [0; 0], "what stands before `from` stays");
    }
}
