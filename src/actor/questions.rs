//! Puts the questions of a running call to people ([`ToolContext::ask`](crate::tool::ToolContext::ask)), and measures how long
//! the call waits for them: that time does not count towards the call's limit.
//!
//! Such a question is a command to the call's session, like one of a host. The worker of the call waits, and no actor: first for
//! the reply to the command, then for the person's answer, for which it watches the state ([`Slot::until`]).
//!
//! A change must keep two things. The command names the run of the call, so the question of an earlier run is answered
//! `Cancelled`. What a tool keeps of its context ([`Asks`]) holds the slot, which does not own the runtime: the runtime owns the
//! tool.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::{
    actor::slot::Slot,
    error::SendError,
    kernel::{CarriedOut, PutQuestion},
    lock::Lock,
    permission::with_parts,
    tool::{Asks, Question, QuestionAnswer},
    words::ids::Seq,
};

/// The shortest wait before the limit of a call is checked again, while a question of the call is open.
const LIMIT_LOOK: Duration = Duration::from_millis(100);

/// The time that one call has waited for people.
#[derive(Clone, Default)]
pub(super) struct Waited(Arc<Lock<Spans>>);

#[derive(Default)]
struct Spans {
    /// How many questions are open now.
    open: u32,
    /// Since when at least one is open.
    since: Option<Instant>,
    /// The time before that.
    total: Duration,
}

impl Waited {
    /// Resolves when a call that began now has worked for `limit`, not counting the time in which it waits for people.
    pub(super) async fn worked_for(&self, limit: Duration) {
        let began = Instant::now();
        loop {
            let worked = began.elapsed().saturating_sub(self.total());
            let left = limit.saturating_sub(worked);
            if left.is_zero() {
                return;
            }
            // While a question is open nothing is worked, so `left` stays as it is. No look is closer than this to the next.
            tokio::time::sleep(if left < LIMIT_LOOK && self.is_waiting() { LIMIT_LOOK } else { left }).await;
        }
    }

    fn total(&self) -> Duration {
        let spans = self.0.lock();
        spans.total + spans.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn is_waiting(&self) -> bool {
        self.0.lock().open > 0
    }

    /// Counts the time from now on, until the returned value is dropped.
    fn begin(&self) -> Waiting {
        let mut spans = self.0.lock();
        spans.open += 1;
        spans.since.get_or_insert_with(Instant::now);
        drop(spans);
        Waiting(self.clone())
    }
}

/// One question that is open.
struct Waiting(Waited);

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut spans = self.0.0.lock();
        spans.open -= 1;
        if spans.open == 0
            && let Some(since) = spans.since.take()
        {
            spans.total += since.elapsed();
        }
    }
}

/// The way of a call's questions to its session. `attempt` is the run of the call.
pub(super) fn asks(slot: &Arc<Slot>, call: Seq, attempt: u32, waited: &Waited) -> Asks {
    let (slot, waited) = (slot.clone(), waited.clone());
    Asks(Some(Arc::new(move |question: Question| {
        let (slot, waited) = (slot.clone(), waited.clone());
        Box::pin(async move {
            let _waiting = waited.begin();
            put(&slot, call, attempt, question).await
        })
    })))
}

async fn put(slot: &Arc<Slot>, call: Seq, attempt: u32, mut question: Question) -> QuestionAnswer {
    // As of a call itself: shell commands are judged by their parts.
    let access = with_parts(std::mem::take(&mut question.access));
    let put = PutQuestion { call, attempt: Some(attempt), access, question: Arc::new(question) };
    let refused = |error: SendError| match error {
        SendError::Closed | SendError::Parked | SendError::Stopped => QuestionAnswer::Cancelled,
        error => QuestionAnswer::Refused { why: error.to_string() },
    };
    match slot.ask(put).await {
        Ok(CarriedOut::Answer(answer)) => answer,
        Ok(CarriedOut::Done(ask)) => {
            let answer = slot.until(move |now| now.state.question_answer(call, ask).map(Ok)).await;
            answer.unwrap_or_else(refused)
        }
        Ok(_) => QuestionAnswer::Cancelled,
        Err(error) => refused(error),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// E-10: a person may think for longer than the call may work.
    #[tokio::test(start_paused = true)]
    async fn a_wait_for_a_person_is_no_work() {
        let waited = Waited::default();
        let began = Instant::now();
        let limit = waited.worked_for(Duration::from_secs(10));
        let person = async {
            tokio::time::sleep(Duration::from_secs(4)).await;
            let (first, second) = (waited.begin(), waited.begin());
            tokio::time::sleep(Duration::from_secs(300)).await;
            drop(first);
            tokio::time::sleep(Duration::from_secs(300)).await;
            drop(second);
        };
        tokio::join!(limit, person);
        assert_eq!(began.elapsed().as_secs(), 610);
    }
}
