//! The doom loop: a model that makes the same call again and again, or the same few calls in turn (`docs/SEMANTICS.md`, "Loops").
//!
//! The newest calls of a turn are known by their keys ([`CallFacts::loop_key`]). A call repeats if it ends the third round of a
//! cycle of one to four calls, such as `A A A` or `A B A B A B`. A message ends the run of calls, and so do a call without a key
//! and a reset by the host. A call that can never run counts like any other.
//!
//! A call that repeats needs the permission `doom_loop` for its tool, beside its usual ones. If the rules deny that, or if no
//! listener could be asked, the call is answered with [`CallVerdict::Repeats`]. So is a call that can never run, unless the rules
//! or a grant allow the loop. A loop is refused once; if a later answer repeats it, the turn ends with [`Outcome::DoomLoop`].
//!
//! A change must keep which calls count as a cycle and what ends the run, or old tapes replay to other decisions. The run
//! ([`Turn::newest_calls`]) follows from the entries alone, so a compaction, a crash and a replay change nothing about it.
//!
//! Rejected: to count how often each call was made in the session. A build that is run after each edit would be a loop.
//!
//! Rejected: to compare results too. A model that reads a clock, or watches a build that never ends, would never be stopped; a
//! tool whose calls are meant to be repeated says so itself.

use std::collections::VecDeque;

use crate::{
    kernel::{
        CallVerdict, CarriedOut, Open, OpenCall, Outcome, Record, Refusal, State, Turn,
        draft::{Decide, Draft},
    },
    permission::Action,
    tool::{Access, CallFacts},
};

/// How often a cycle is gone through before it is a loop.
const ROUNDS: usize = 3;

/// The most calls of a cycle.
const CYCLE_MAX: usize = 4;

/// The permission that a call needs which repeats.
const PERMISSION: &str = "doom_loop";

/// A host lets the calls of the running turn begin anew: calls so far count for no loop.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ResetLoops;

impl Decide for ResetLoops {
    fn decide(&self, draft: &mut Draft<'_>) -> Result<CarriedOut, Refusal> {
        if draft.state.turn.as_ref().is_some_and(|turn| !turn.newest_calls.is_empty()) {
            draft.write(None, Record::LoopsReset {});
        }
        Ok(CarriedOut::Done(draft.state.seq))
    }

    fn in_words(&self) -> String {
        "the calls so far were to count for no loop".to_owned()
    }
}

/// The number of calls in the shortest cycle of which the newest call ends the third round; `None` where it ends none.
fn cycle<K: PartialEq>(calls: &VecDeque<K>) -> Option<usize> {
    (1..=CYCLE_MAX).find(|length| {
        let Some(first) = calls.len().checked_sub(ROUNDS * length) else { return false };
        (first + length..calls.len()).all(|at| calls[at] == calls[at - length])
    })
}

impl Turn {
    /// Takes a call that the model asked for, and gives the cycle that it repeats.
    pub(in crate::kernel) fn take_call(&mut self, facts: &CallFacts) -> Option<u32> {
        let Some(key) = &facts.loop_key else {
            self.forget_calls();
            return None;
        };
        if self.newest_calls.len() == ROUNDS * CYCLE_MAX {
            self.newest_calls.pop_front();
        }
        self.newest_calls.push_back(key.as_str().into());
        let cycle = cycle(&self.newest_calls).and_then(|length| u32::try_from(length).ok());
        self.loop_refused &= cycle.is_some();
        cycle
    }

    /// Ends the run of calls: what was called so far counts for no loop.
    pub(in crate::kernel) fn forget_calls(&mut self) {
        self.newest_calls.clear();
        self.loop_refused = false;
    }
}

/// What a call repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Repeats {
    /// How many calls are made in turn: 1 where it is the same call again and again.
    pub calls: u32,
    /// How often this very call was asked for since the last message, this time included. Counted to 12 at most, and for calls in turn
    /// to 12 calls of all of them.
    pub times: u32,
}

impl State {
    /// What a call repeats; `None` where it repeats nothing.
    pub(crate) fn repeats(&self, call: &OpenCall) -> Option<Repeats> {
        let (calls, key) = (call.cycle?, call.facts.loop_key.as_deref()?);
        let newest = self.turn.as_ref()?.newest_calls.iter();
        let times = u32::try_from(newest.filter(|made| &***made == key).count()).unwrap_or(u32::MAX);
        Some(Repeats { calls, times })
    }

    /// Lets the calls begin anew, also those that are open.
    pub(in crate::kernel) fn reset_loops(&mut self) {
        self.in_turn(Turn::forget_calls);
        let in_cycle = |open: &Open| matches!(open, Open::Call(call) if call.cycle.is_some());
        self.open.change(usize::MAX, in_cycle, |open| {
            if let Open::Call(call) = open {
                call.cycle = None;
            }
        });
    }
}

/// Whether that verdict on a call that repeats tells the model to stop it. The next repetition then ends the turn.
pub(in crate::kernel) fn is_refusal(judged: CallVerdict) -> bool {
    matches!(judged, CallVerdict::Repeats | CallVerdict::Rejected | CallVerdict::Expired)
}

/// The decision of the present rules about the repetition in a call.
pub(in crate::kernel) enum Repetition {
    /// Nothing to say: the call repeats nothing, or it may.
    Free,
    /// A person must be asked about this access.
    Ask(Access),
    /// The call does not run; this is the text of its result.
    Refuse(String),
}

/// Judges a call by what it repeats.
pub(in crate::kernel) fn judge(draft: &Draft<'_>, call: &OpenCall) -> Repetition {
    let Some(cycle) = call.cycle else { return Repetition::Free };
    let access = Access::new(PERMISSION, &call.facts.tool);
    let judged = draft.state.settings.judge(std::slice::from_ref(&access), draft.env.globs()).action;
    match judged {
        Action::Allow => Repetition::Free,
        Action::Ask if call.granted || draft.state.is_granted(std::slice::from_ref(&access), draft.env.globs()) => {
            Repetition::Free
        }
        Action::Ask if !call.told && draft.reaches_someone() => Repetition::Ask(access),
        Action::Ask | Action::Deny => Repetition::Refuse(refusal(&call.facts.tool, cycle)),
    }
}

/// The verdict on a call that cannot run at all, and the text of its result: those given, or that it repeats.
pub(in crate::kernel) fn or_repeats(
    draft: &Draft<'_>,
    call: &OpenCall,
    judged: CallVerdict,
    text: String,
) -> (CallVerdict, String) {
    // The turn ends with such an answer, so no later one can repeat the call.
    let is_last = matches!(judged, CallVerdict::LastStep | CallVerdict::Withheld);
    match (judge(draft, call), call.cycle) {
        (Repetition::Ask(_) | Repetition::Refuse(_), Some(cycle)) if !is_last => {
            (CallVerdict::Repeats, format!("{text} {}", refusal(&call.facts.tool, cycle)))
        }
        _ => (judged, text),
    }
}

/// What the model is told of a call that repeats and may not.
fn refusal(tool: &str, cycle: u32) -> String {
    let what = match cycle {
        1 => format!("this is the same call of {tool} for the third time in a row, or more"),
        calls => format!("this call of {tool} repeats the same {calls} calls in turn, for the third time or more"),
    };
    format!(
        "Not run: {what}. Asking again changes nothing. Do something else, or say in words what stands in the way. \
         If the next answer repeats it, the turn ends."
    )
}

/// Ends the turn after a call was refused because it repeats, if the model was told so before. All calls of an answer are opened
/// before the first of them is judged, so a call that was told has heard it from an earlier answer.
pub(in crate::kernel) fn end_if_told_before(draft: &mut Draft<'_>, call: &OpenCall) {
    if call.told && !draft.state.is_ending() {
        draft.write(None, Record::Ending { outcome: Outcome::DoomLoop { tool: call.facts.tool.clone() } });
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;

    use super::*;
    use crate::{
        kernel::tests::sim::{checks::Row, rng::Rng},
        tool::Effect,
    };

    fn facts(key: Option<&str>) -> CallFacts {
        let loop_key = key.map(str::to_owned);
        CallFacts {
            tool: "a".into(),
            effect: Effect::Read,
            parallel: true,
            access: Vec::new(),
            loop_key,
            unusable: None,
        }
    }

    /// C-09, I-01 to I-03: on 20,000 random rows of calls, polls and messages the guard finds what a slow comparison of whole rows finds.
    #[test]
    fn the_guard_finds_what_a_slow_comparison_finds() {
        let mut found = BTreeSet::new();
        for seed in 0..20_000 {
            let mut rng = Rng::new(seed);
            let (mut turn, mut row) = (Turn::default(), Vec::<String>::new());
            let length = 1 + rng.below(5);
            for _ in 0..40 {
                if rng.percent(2) {
                    turn.forget_calls();
                    row.clear();
                }
                let before = row.len().checked_sub(length).filter(|_| rng.percent(90));
                let key = before.map_or_else(|| rng.pick(&["a", "b", "c", "d", "e"]).to_owned(), |at| row[at].clone());
                let key = Some(key).filter(|_| !rng.percent(2));
                let cycle = turn.take_call(&facts(key.as_deref()));
                match key {
                    Some(key) => row.push(key),
                    None => row.clear(),
                }
                let slow = (1..=4).find(|length| Row::is_loop_of(&row, *length));
                assert_eq!(cycle.map(|length| length as usize), slow, "seed {seed}: {row:?}");
                assert!(turn.newest_calls.len() <= 12, "what is kept is bounded");
                found.extend(cycle);
            }
        }
        assert_eq!(found, BTreeSet::from([1, 2, 3, 4]), "the rows are not tame");
    }
}
