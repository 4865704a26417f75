//! The [`WorkerContext`]: which session, incarnation and ticket a worker works for, and its ways back: the report, provisional events,
//! and the handle of the session for code of the host.
//!
//! A change must keep that a report goes to the slot and nowhere else: a worker never touches the state or the tape.

use std::sync::Arc;

use crate::{
    actor::{shared::Shared, slot::Slot, trace_link::Traced},
    error::SendError,
    event::{EVENT_VERSION, Event, EventId, EventKind},
    hook::{HookContext, HookFailure},
    kernel::{NoteSent, Report},
    model::Steers,
    tool::SessionRef,
    words::ids::Seq,
    words::message::Message,
};

/// The session, incarnation and ticket that a worker belongs to.
#[derive(Clone)]
pub(crate) struct WorkerContext {
    pub(crate) shared: Arc<Shared>,
    pub(crate) slot: Arc<Slot>,
    pub(crate) incarnation: u32,
    pub(crate) ticket: Seq,
    pub(crate) turn: Option<Seq>,
    pub(crate) step: Option<u32>,
    /// The span that the work runs in, and the trace that it carries on.
    pub(crate) traced: Traced,
}

impl WorkerContext {
    /// Reports the outcome to the slot. Call it when nothing of the work is left; the first report of a ticket counts.
    pub(crate) fn report(&self, report: Report) {
        self.slot.report(self.incarnation, self.ticket, report);
    }

    /// The line on which steering messages go into the answer of the request. What the provider takes is noted on the tape.
    pub(crate) fn steers(&self) -> Steers {
        let (slot, incarnation, request) = (Arc::downgrade(&self.slot), self.incarnation, self.ticket);
        Steers::new(move |message| {
            if let Some(slot) = slot.upgrade() {
                let (id, said) = (message.id.clone(), Some(message.clone()));
                slot.note_sent(incarnation, NoteSent { request, id, said });
            }
        })
    }

    /// Shows a provisional event to listeners and observers.
    pub(crate) fn show(&self, sub: u32, kind: EventKind) {
        let observers = &self.shared.observers;
        if !self.slot.is_heard() && !observers.watch() {
            return;
        }
        let event = Event {
            v: EVENT_VERSION,
            id: EventId { seq: self.ticket, incarnation: self.incarnation, sub },
            session: self.slot.id.clone(),
            time: self.shared.clock.now(),
            cause: None,
            turn: self.turn,
            step: self.step,
            kind,
        };
        // No `Tell` here, because provisional events are many: a hook that fails at one is only logged.
        let event = [Arc::new(event)];
        observers.show(&event, || None);
        self.slot.show(event);
    }

    /// Notes on the node of the work that it lives.
    pub(crate) fn lives(&self) {
        if let Some(node) = self.traced.node.upgrade() {
            node.lives();
        }
    }

    /// Shows on the node of the work what it does now.
    pub(crate) fn doing(&self, what: String) {
        if let Some(node) = self.traced.node.upgrade() {
            node.doing(what);
        }
    }

    /// The way back to the session, for code of the host that may keep it.
    pub(crate) fn session_ref(&self) -> SessionRef {
        SessionRef::new(self.slot.clone())
    }

    pub(crate) fn hook_context(&self) -> HookContext {
        HookContext { id: self.slot.id.clone(), session_ref: self.session_ref() }
    }

    /// What the input hooks make of a message. A failed hook that guards refuses it.
    pub(crate) async fn passed(&self, message: Message) -> Result<Message, SendError> {
        let (context, failed) = (self.hook_context(), |failure| self.hook_failed(failure));
        match self.shared.hooks.on_input(&context, message, &failed).await {
            Ok(message) => message.ok_or(SendError::Handled),
            Err(HookFailure { hook, error, .. }) => Err(SendError::HookFailed { hook, error }),
        }
    }

    /// Says that a hook failed: to the log, and to those who listen.
    pub(crate) fn hook_failed(&self, failure: HookFailure) {
        tracing::warn!(session = %self.slot.id, hook = failure.hook, callback = failure.callback, error = failure.error, "hook failed");
        let HookFailure { hook, callback, error } = failure;
        self.show(0, EventKind::HookError { hook, callback: callback.into(), error });
    }
}
