//! How the state becomes that of a fork or of an imported session: both keep the conversation, and none of the open work.
//!
//! After either, no ticket is open, no message waits, no grant is left, and each call that was open has a result that says why it
//! goes on no further. A fork keeps the settings otherwise, but its budget is what was left of the parent's. An imported file is
//! not trusted: [`State::bring_in`] takes nothing from it that gives power: no rules, grants, folders or provider options, and no
//! limits above the defaults on steps, retries, asks, parallel calls and tasks.
//!
//! A change must keep this: a field of [`State`] or [`Settings`] that is not named here is taken over as it is. So each new field
//! needs a decision here.

use std::sync::Arc;

use crate::{
    kernel::{CallState, CallVerdict, OpenCall, Outcome, Settings, Spent, State},
    tape::{Forked, ImportedFrom},
    tool::ToolResult,
    words::{ids::Seq, message::ErrorReason, sandbox::SandboxTerms, usage::Usage},
};

impl State {
    /// Turns the state into that of a fork. The history and the context stay as they were, and the settings too, except for the
    /// budget, the grants and one more folder that may be read. The open work (the turn, calls, waiting messages, tasks) and all
    /// grants of people stay with the parent, and the counters begin anew. The limits of the fork are what was left of the parent's
    /// (decision 0011).
    pub(super) fn fork(&mut self, forked: &Forked) {
        // First of all, while the open tickets are still there: the amounts reserved for them are not left.
        self.leave_what_is_left();
        let parent = &forked.parent;
        let why = format!("This conversation was forked from session {parent} at this point.");
        self.leave_open(&why, format!("it goes on in session {parent}"));
        self.tasks_ended.clear();
        self.closed = None;
        self.usage = Usage::default();
        self.spent = Spent::default();
        self.spent_by_tasks = Spent::default();
        self.turns = 0;
        self.mark_fork();
        self.session = forked.session.clone();
        if let Some(spill) = &forked.spill {
            // The parent's folder stays readable too, because the history names files in it.
            Arc::make_mut(&mut self.settings).read_roots.push(spill.clone());
        }
    }

    /// Turns the state into that of an imported session, which nobody vouches for. History, model, prompt, budget and counters
    /// are what the file says. Some limits have the defaults as a ceiling: see the code. Nothing is open and nothing is granted.
    /// The session has no rules of its own, so a person is asked about each call that the host's rules do not decide.
    pub(super) fn bring_in(&mut self, seq: Seq, imported: &ImportedFrom) {
        let tasks: Vec<Seq> = self.tasks().map(|(ticket, _)| ticket).collect();
        tasks.into_iter().for_each(|ticket| self.close_task(seq, ticket, None, None));
        self.leave_open(
            "This conversation was brought in from a file at this point.",
            "the session was brought in from a file, without what was open".to_owned(),
        );
        // The id in the file is not used: hooks, keys and folders go by the id that this store gave.
        self.session = imported.session.clone();
        self.settings = Arc::new(self.settings.own());
        self.agent_after = None;
        let settings = Arc::make_mut(&mut self.settings);
        let fresh = Settings::new(imported.workspace.clone(), settings.model.clone());
        settings.workspace = fresh.workspace;
        settings.read_roots = imported.spill.iter().cloned().collect();
        // Without any rule each call is asked about.
        settings.rules = Vec::new();
        settings.host = None;
        // Its paths and its network would give power; that there is a sandbox does not.
        if let Some(terms) = settings.sandbox.as_mut().map(Arc::make_mut) {
            *terms = SandboxTerms { required: terms.required, ..SandboxTerms::default() };
        }
        // A file does not choose in whose lists its session stands.
        settings.labels = fresh.labels;
        // Provider options give power too.
        settings.params.options = fresh.params.options;
        // Nor does it choose to whom else the conversation goes.
        settings.fallback = fresh.fallback;
        let steps = fresh.steps_max.unwrap_or(u32::MAX);
        settings.steps_max = Some(settings.steps_max.map_or(steps, |max| max.min(steps)));
        settings.parallel_max = settings.parallel_max.min(fresh.parallel_max);
        settings.ask_limit_ms = settings.ask_limit_ms.min(fresh.ask_limit_ms);
        settings.asks_wait &= fresh.asks_wait;
        settings.retries_max = settings.retries_max.min(fresh.retries_max);
        settings.task_depth_max = settings.task_depth_max.min(fresh.task_depth_max);
        settings.task_width_max = settings.task_width_max.min(fresh.task_width_max);
        settings.task_queue_max = settings.task_queue_max.min(fresh.task_queue_max);
    }

    /// Closes everything that is open or waits. Each open call gets a result that says why, in the order of the calls.
    fn leave_open(&mut self, why: &str, reason: String) {
        let open: Vec<_> = self.calls().map(|(ticket, call)| (ticket, untold(call, why))).collect();
        for (ticket, result) in open {
            self.take_result(ticket, &Arc::new(result), CallVerdict::Lost);
        }
        self.open.clear();
        // A message that waits at the parent was never said here: sent again, it is new.
        for waiting in self.queue.drain(..).chain(self.steering.drain(..)) {
            self.seen.forget(&waiting.message.id);
        }
        if let Some(turn) = self.turn.take() {
            // A caller that waits here for the messages of that turn hears how the turn ended.
            self.remember_end(&turn, Outcome::Aborted { reason });
        }
        // A finished compaction waited for a request that is no longer open.
        self.put_compacted_in_place();
        self.grants = Arc::default();
        Arc::make_mut(&mut self.settings).granted.clear();
        // These commands were done at the parent, and not here.
        self.done.clear();
        self.origin = None;
        (self.recoveries, self.stopped) = (0, false);
        self.next_agent = None;
        (self.on_hold, self.paused, self.waits) = (false, false, false);
    }
}

/// What the model is told of a call whose result will never be here.
fn untold(call: &OpenCall, why: &str) -> ToolResult {
    // A call that ran in an earlier incarnation may be pending or asked about again.
    let begun = call.attempts > 0 || matches!(call.state, CallState::Running | CallState::Closing);
    let what = match begun {
        true => "was running, and what came of it is not known here: check before you rely on it or do it again",
        false => "had not begun, and does not run here",
    };
    let text = format!("{why} The call {what}.");
    ToolResult::failed(if begun { ErrorReason::Unknown } else { ErrorReason::Skipped }, text)
}
