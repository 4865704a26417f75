//! Steering messages that go into the answer that is being made, ahead of their delivery (`docs/decisions/0057`).
//!
//! ```text
//! waits ── offered to the request that runs ──► sent ──► committed ── next request ──► delivered
//!                                                └────► returned: it only waits
//! ```
//!
//! A message on this way waits all the same, and is delivered as any other. So what a provider did with it is never what decides
//! whether it is read: a change must keep that, or a crash could lose or double it.

use crate::{
    kernel::{
        Ahead, CarriedOut, Mode, OpenRequest, Record, Refusal, State, Steering, Waiting,
        draft::{Decide, Draft},
    },
    model::Steered,
    words::ids::{MessageId, Seq},
};

/// The worker of a request says that the provider has taken a message for the answer that it makes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NoteSent {
    /// The ticket of the request.
    pub request: Seq,
    /// The message.
    pub message: MessageId,
}

impl Decide for NoteSent {
    fn decide(&self, draft: &mut Draft<'_>) -> Result<CarriedOut, Refusal> {
        let runs = draft.state.request().is_some_and(|(ticket, request)| ticket == self.request && !request.closing);
        let waits = |waiting: &Waiting| waiting.message.id == self.message && waiting.ahead != Some(Ahead::Sent);
        if runs && draft.state.steering.iter().any(waits) {
            draft.write(Some(self.request), Record::Sent { id: self.message.clone() });
        }
        Ok(CarriedOut::Done(draft.state.seq))
    }

    fn in_words(&self) -> String {
        format!("message {} was sent into request {}", self.message, self.request)
    }

    fn about(&self) -> Option<Seq> {
        Some(self.request)
    }
}

impl State {
    /// The steering messages that the running request may take now, in the order in which they are to be read.
    ///
    /// None that would change the request that reads it (another agent, model or tools), and nothing behind such a one; none where
    /// the turn makes no further request.
    pub(crate) fn to_send_ahead(&self) -> impl Iterator<Item = &Waiting> {
        let may = |request: &OpenRequest| !request.closing && !request.last && !self.paused && !self.is_ending();
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
                Some(Steered { returned: None, .. }) => Some((id, Ahead::Committed, None)),
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
