//! What becomes of each open ticket after a crash: one rule for each kind (`docs/ARCHITECTURE.md`, "Recovery"). Each incarnation
//! (start of the actor) decides its recovery first, together with the reports that wait, which come before it.
//!
//! A torn write may have left only the first entries of a decision. The content of the missing entries follows from the state, so
//! it is decided again; an answer whose calls have no tickets yet gets them.
//!
//! A turn resumes by itself once, if the settings allow it. If it crashes again with no new answer or result in between, it waits
//! for a go-on or a message, so that a turn that kills its process cannot do so for ever. While it waits, its open work is not
//! begun. A turn that makes progress between its crashes ends after [`TURN_RECOVERIES_MAX`] of them. An incarnation that was
//! stopped in order ([`Input::Stop`](crate::kernel::Input::Stop)) has not crashed: its recovery counts for neither bound.
//!
//! A change must keep two things: nothing that the tape has of a turn is lost, and no running call with the effect `Once` is run
//! again. The effect is the stricter one of what the tool said when the call began and what it says now. Nothing here asks a tool;
//! what the present tools say of the open calls comes with the input.

use std::collections::BTreeMap;

use crate::{
    kernel::{
        AskClosedWhy, CallState, Open, Outcome, Record, Steering, StopLevel,
        budget::spending,
        children::tasks,
        context::compact,
        draft::Draft,
        turn::{batch, end, retry},
    },
    tool::{CallFacts, Effect},
};

/// The most recoveries in a row, with no progress in between, after which a turn still goes on by itself.
const RECOVERIES_MAX: u32 = 1;

/// The most recoveries of a turn from crashes, whatever it gets done in between, until a person lets it go on.
const TURN_RECOVERIES_MAX: u32 = 10;

/// Notes that the incarnation ends in order. A turn that waits has nothing that a crash could have cut off.
pub(in crate::kernel) fn stopped(draft: &mut Draft<'_>) {
    if draft.state.turn.is_some() && !draft.state.waits && !draft.state.stopped {
        draft.write(None, Record::Stopped {});
    }
}

/// Decides about all that is open: the session was rebuilt, and none of its workers is alive.
pub(in crate::kernel) fn recover(draft: &mut Draft<'_>, calls: &BTreeMap<u32, CallFacts>) {
    recover_tasks(draft);
    if draft.state.turn.is_none() {
        let written = |open: &Open| matches!(open, Open::Compaction(_) | Open::Branch(_));
        if draft.state.open.values().any(written) {
            // No turn was cut off, but the tokens reserved for these requests count as spent.
            draft.write(None, Record::Recovered { n: 0, resumed: true });
        }
        return compact::close_unaffordable(draft);
    }
    let n = draft.state.recoveries.saturating_add(u32::from(!draft.state.stopped));
    let resumed = draft.state.settings.auto_resume && n <= RECOVERIES_MAX && !draft.state.waits;
    draft.write(None, Record::Recovered { n, resumed });
    let recoveries = draft.state.turn.as_ref().map_or(0, |turn| turn.recoveries);
    if recoveries > TURN_RECOVERIES_MAX && !draft.state.is_ending() {
        draft.write(None, Record::Ending { outcome: Outcome::RecoveryLimit { recoveries } });
    }
    learn(draft, calls);
    batch::open(draft, |index| calls.get(&index).cloned());
    match resumed {
        true => start_again(draft),
        false => take_down(draft),
    }
    // A compaction belongs to the session, so it does not wait for the turn's go-on.
    compact::close_unaffordable(draft);
}

/// Writes what the present tools say of the open calls, where that changed, before the calls are judged again.
fn learn(draft: &mut Draft<'_>, calls: &BTreeMap<u32, CallFacts>) {
    for (index, ticket) in draft.state.open_batch() {
        let Some(Open::Call(call)) = draft.state.open.get(&ticket) else { continue };
        if let Some(facts) = calls.get(&index)
            && call.facts_now(facts) != call.facts
        {
            let (state, is_other) = (call.state, facts.access != call.facts.access);
            if is_other && let CallState::Asking(ask) = state {
                // What a person was shown is not what the call wants now, so a yes to it would be for another call.
                draft.write(Some(ask), Record::AskClosed { why: AskClosedWhy::Withdrawn });
            }
            draft.write(Some(ticket), Record::CallFacts { index, facts: facts.clone() });
        }
    }
}

/// Closes the tickets that cannot go on while no worker is alive. A ticket that was told to stop is down for certain, a ticket that
/// is to be stopped need not be started, and a call that must not run again is answered.
pub(in crate::kernel) fn take_down(draft: &mut Draft<'_>) {
    let stops = draft.state.is_ending() || draft.state.strongest_steering() == Some(Steering::AbortRunning);
    let open: Vec<_> = draft.state.open.iter().map(|(ticket, open)| (*ticket, open.clone())).collect();
    for (ticket, open) in open {
        match open {
            Open::Request(request) if request.closing || stops => retry::close_lost(draft, ticket),
            Open::Call(call) => match (call.state, call.facts.effect) {
                (CallState::Closing, _) => batch::close_unknown(draft, ticket),
                // A call that ran before may be open in another state: its tool was another then, and a person is asked now.
                (_, Effect::Once) if call.attempts > 0 => batch::close_unknown(draft, ticket),
                (CallState::Running, _) if stops => batch::close_unknown(draft, ticket),
                _ => {}
            },
            Open::Request(_)
            | Open::Ask(_)
            | Open::TaskAsk(_)
            | Open::BudgetAsk(_)
            | Open::Wait(_)
            | Open::Compaction(_)
            | Open::Branch(_)
            | Open::Task(_) => {}
        }
    }
}

/// Continues the work that ran when the session went down, where it still may: a request as it is, a call after it is judged again.
pub(in crate::kernel) fn start_again(draft: &mut Draft<'_>) {
    take_down(draft);
    let open: Vec<_> = draft.state.open.iter().map(|(ticket, open)| (*ticket, open.clone())).collect();
    for (ticket, open) in open {
        match open {
            // The request is not made again, and the tokens reserved for it are spent.
            Open::Request(_) if !spending::again_fits(draft, ticket) => retry::close_lost(draft, ticket),
            Open::Call(call) if call.state == CallState::Running => batch::run_again(draft, ticket),
            _ => {}
        }
    }
}

/// Sees to each open task after a crash. Its child may be anywhere between not made and down.
fn recover_tasks(draft: &mut Draft<'_>) {
    let stopped = draft.state.tasks().filter(|(_, task)| task.stop_level == StopLevel::Stop);
    let stopped: Vec<_> = stopped.map(|(ticket, _)| ticket).collect();
    // The entries that a torn write left out come first, so that no child is started only to be stopped.
    end::wind_up(draft);
    tasks::stop_with_turn(draft);
    stopped.into_iter().for_each(|ticket| tasks::stop_if_told(draft, ticket));
}
