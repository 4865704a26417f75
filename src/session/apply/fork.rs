//! What becomes of a state where another session goes on from it: the conversation is kept, what was open is not.

use std::sync::Arc;

use crate::{
    ids::SessionId,
    message::ErrorReason,
    session::{CallState, OpenCall, Outcome, Spent, State},
    tape::Forked,
    tool::ToolResult,
    usage::Usage,
};

impl State {
    /// From here on it is the state of the fork. Its history, settings and context are what they were; what was open (the turn,
    /// calls, messages that wait, tasks, standing grants) stays with the parent, and its counters begin anew. Its limits are what was left of them (decision 0011).
    pub(super) fn fork(&mut self, forked: &Forked) {
        // While what is open is still there: what is held for it is not left.
        self.leave_what_is_left();
        self.answer_open_calls(&forked.parent);
        self.open.clear();
        self.tasks_ended.clear();
        // A message that waits there was never said here: sent again, it is new.
        for waiting in self.queue.drain(..).chain(self.steering.drain(..)) {
            self.seen.forget(&waiting.message.id);
        }
        if let Some(turn) = self.turn.take() {
            // Who waits for the messages of that turn, here, hears what became of it.
            let reason = format!("it goes on in session {}", forked.parent);
            self.remember_end(&turn, Outcome::Aborted { reason });
        }
        // What was ready waited for a request that is not open any more.
        self.put_compacted_in_place();
        self.grants = Arc::default();
        self.origin = None;
        self.closed = None;
        self.usage = Usage::default();
        self.spent = Spent::default();
        self.spent_by_tasks = Spent::default();
        self.turns = 0;
        self.recoveries = 0;
        (self.held, self.paused, self.waits) = (false, false, false);
        self.mark_fork();
        self.session = forked.session.clone();
        if let Some(spill) = &forked.spill {
            // The parent's stays readable too: the history names files in it.
            Arc::make_mut(&mut self.settings).read_roots.push(spill.clone());
        }
    }

    /// Each call has a result, in the order of the calls: those that are open get one that says where theirs will be.
    fn answer_open_calls(&mut self, parent: &SessionId) {
        let open: Vec<_> = self.calls().map(|(ticket, call)| (ticket, untold(call, parent))).collect();
        for (ticket, result) in open {
            self.take_result(ticket, &Arc::new(result));
        }
    }
}

/// What the model of a fork is told of a call whose result is its parent's.
fn untold(call: &OpenCall, parent: &SessionId) -> ToolResult {
    let begun = matches!(call.state, CallState::Running | CallState::Closing);
    let what = match begun {
        true => "was running, and what came of it is not known here: check before you rely on it or do it again",
        false => "had not begun, and does not run here",
    };
    let text = format!("This conversation was forked from session {parent} at this point. The call {what}.");
    ToolResult::failed(if begun { ErrorReason::Unknown } else { ErrorReason::Skipped }, text)
}
