//! The models that a turn goes on with where its model fails: which model of the chain of an agent ([`Fallback`]) has the step.
//!
//! ```text
//! a request fails ──another try may help──► waits, the same model
//!                 └─none is left──► the next model of the chain that stands in for this failure ──► its request
//!                                   └─there is none──► the turn fails
//! ```
//!
//! `request_failed` names the model that has the step from then on, and each request of such a model says in whose place it is asked,
//! and why ([`FellBack`]). It keeps the turn; the next turn begins with the first model again. A message or an agent that brings a
//! model, and a change of the model or of the chain, take the turn back. The tries of one step are numbered through, and each model
//! has all of its retries.
//!
//! A model that a budget has asked in the place of a dearer one is no part of a chain: its request names none, and its failure is the
//! turn's. Where money is limited, models whose price is not known are passed over as long as another one is left.
//!
//! A change must keep that a chain only goes forward within a turn, or two models that are down would hand a step to and fro; and that
//! what follows from a fall is decided from the state, because a torn write may leave `request_failed` alone.

use crate::{
    kernel::{Fallen, FellBack, OpenRequest, Settings, State},
    model::ErrorKind,
    words::message::ModelRef,
};

impl State {
    /// The model of the running turn; between turns, of the session.
    pub(crate) fn model_now(&self) -> &ModelRef {
        let turn = self.turn.as_deref();
        let fallen = turn.and_then(|turn| Some(&turn.fallen.as_ref()?.to));
        fallen.or_else(|| turn?.model.as_ref()).unwrap_or(&self.settings.model)
    }

    /// The next model of the chain for a step whose request to `failed` ends in this failure: the first that can be paid, or the
    /// first at all, whose own refusal then says what is missing.
    pub(in crate::kernel) fn next_model(
        &self,
        failed: &ModelRef,
        kind: ErrorKind,
        can_be_paid: impl Fn(&ModelRef) -> bool,
    ) -> Option<ModelRef> {
        let (chain, fallen) = (&self.settings.fallback, self.turn.as_ref()?.fallen.as_ref());
        let now = fallen.and_then(|fallen| chain.iter().position(|fallback| fallback.model == fallen.to));
        let behind = chain.iter().skip(now.map_or(0, |now| now + 1));
        let mut next = behind.filter(|next| next.model != *failed && next.stands_in_for(kind)).map(|next| &next.model);
        let first = next.next()?;
        let paid = std::iter::once(first).chain(next).find(|model| can_be_paid(model));
        Some(paid.unwrap_or(first).clone())
    }

    pub(in crate::kernel) fn fall_back(&mut self, request: &OpenRequest, kind: ErrorKind, to: &ModelRef) {
        let why = FellBack { from: request.model.clone(), on: kind };
        let fallen = Fallen { to: to.clone(), why };
        self.in_turn(|turn| {
            turn.fallen = Some(fallen);
            turn.tried = request.attempt;
            // Its window is another one.
            turn.overflows = 0;
        });
    }

    /// Gives the turn back where its model, or the chain behind it, is no longer the one of `before`.
    pub(in crate::kernel) fn end_fallback_of(&mut self, before: &Settings) {
        let is_other = before.model != self.settings.model || before.fallback != self.settings.fallback;
        if is_other && self.turn.as_ref().is_some_and(|turn| turn.fallen.is_some()) {
            self.in_turn(|turn| turn.fallen = None);
        }
    }
}
