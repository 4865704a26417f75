//! Steering messages that go into the answer that is being made, ahead of their delivery (`docs/decisions/0057`).
//!
//! ```text
//! waits ── offered to the request that runs ──► sent ──► committed ── next request ──► delivered
//!                                                └────► returned: it only waits
//! ```
//!
//! A message on this way waits all the same, and is delivered as any other. So what a provider did with it is never what decides
//! whether it is read: a change must keep that, or a crash could lose or double it.

use std::sync::Arc;

use crate::{
    kernel::{
        Ahead, CarriedOut, Mode, OpenRequest, Record, Refusal, State, Steering, Waiting,
        draft::{Decide, Draft},
    },
    model::Steered,
    words::{
        ids::{MessageId, Seq},
        message::Message,
    },
};

/// The worker of a request says that the provider has taken a message for the answer that it makes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NoteSent {
    /// The ticket of the request.
    pub request: Seq,
    /// The message.
    pub id: MessageId,
    /// The message as the provider has it; `None` in a replay, which knows that it was the one that waited.
    pub said: Option<Arc<Message>>,
}

impl Decide for NoteSent {
    fn decide(&self, draft: &mut Draft<'_>) -> Result<CarriedOut, Refusal> {
        let runs = draft.state.request().is_some_and(|(ticket, request)| ticket == self.request && !request.closing);
        // Where it was edited meanwhile, the provider has other words than those that wait.
        let waits = |waiting: &Waiting| {
            waiting.message.id == self.id
                && waiting.ahead != Some(Ahead::Sent)
                && self.said.as_ref().is_none_or(|said| said.parts == waiting.message.parts)
        };
        if runs && draft.state.steering.iter().any(waits) {
            draft.write(Some(self.request), Record::Sent { id: self.id.clone() });
        }
        Ok(CarriedOut::Done(draft.state.seq))
    }

    fn in_words(&self) -> String {
        format!("message {} was sent into request {}", self.id, self.request)
    }

    fn about(&self) -> Option<Seq> {
        Some(self.request)
    }
}

impl State {
    /// The steering messages that the running request may take now, in the order in which they are to be read.
    ///
    /// None that would change the request that reads it (another agent, model or tools), and nothing behind such a one; none where
    /// the turn makes no further request, or one that differs from this one.
    pub(crate) fn to_send_ahead(&self) -> impl Iterator<Item = &Waiting> {
        // A request with a shorter limit than that of the settings (of the window, of a budget) has another one at the next step.
        let limit = self.settings.params.max_output;
        let may = |request: &OpenRequest| {
            !request.closing
                && !self.next_is_last()
                && !self.paused
                && !self.is_ending()
                && request.params.max_output == limit
        };
        let takes = self.request().is_some_and(|(_, request)| may(request))
            && self.strongest_steering() != Some(Steering::AbortRunning);
        let most = match (takes, self.settings.steering_mode) {
            (false, _) => 0,
            (true, Mode::One) => 1,
            (true, Mode::All) => usize::MAX,
        };
        let is_plain = |waiting: &&Waiting| {
            waiting.agent.is_none() && waiting.message.model.is_none() && waiting.message.tools.is_empty()
        };
        self.steering.iter().take_while(is_plain).take(most)
    }

    /// Whether the next step is the last that the turn may make, or none may be made.
    fn next_is_last(&self) -> bool {
        let step = self.turn.as_ref().map_or(0, |turn| turn.step);
        self.settings.steps_max.is_some_and(|max| step.saturating_add(1) >= max.max(1))
    }

    /// The messages that the provider has committed and that are to be delivered alone, because the answer with them has begun.
    pub(in crate::kernel) fn committed(&self) -> usize {
        self.steering.iter().take_while(|waiting| waiting.ahead == Some(Ahead::Committed)).count()
    }

    pub(in crate::kernel) fn send_ahead(&mut self, id: &MessageId) {
        let it = self.steering.iter_mut().filter(|waiting| waiting.message.id == *id);
        it.for_each(|waiting| waiting.ahead = Some(Ahead::Sent));
    }

    /// What becomes of the messages that were sent ahead, now that their request is over with these ends, or that another is made:
    /// what was not committed only waits.
    pub(crate) fn moved_ahead<'a>(
        &'a self,
        steered: &'a [Steered],
    ) -> impl Iterator<Item = (&'a MessageId, Ahead, Option<&'a str>)> {
        self.steering.iter().filter_map(move |waiting| {
            let id = &waiting.message.id;
            let was_sent = matches!(waiting.ahead, Some(Ahead::Sent | Ahead::Committed));
            match steered.iter().find(|end| end.message == *id) {
                // Not one that was edited after it was sent.
                Some(Steered { returned: None, .. }) if waiting.ahead == Some(Ahead::Sent) => {
                    Some((id, Ahead::Committed, None))
                }
                Some(Steered { returned: None, .. }) => Some((id, Ahead::Returned, None)),
                Some(Steered { returned: Some(why), .. }) => Some((id, Ahead::Returned, Some(why.as_str()))),
                None => was_sent.then_some((id, Ahead::Returned, None)),
            }
        })
    }

    pub(in crate::kernel) fn move_ahead(&mut self, steered: &[Steered]) {
        let moved: Vec<_> = self.moved_ahead(steered).map(|(id, place, _)| (id.clone(), place)).collect();
        for (id, place) in moved {
            let it = self.steering.iter_mut().filter(|waiting| waiting.message.id == id);
            it.for_each(|waiting| waiting.ahead = Some(place));
        }
    }
}
