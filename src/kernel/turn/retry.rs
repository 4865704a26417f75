//! What follows from the reports of a model request: it was answered, failed or was cut off. Above all, whether and when a failed
//! request is made again.
//!
//! Only failures that may pass (such as of the network) are retried, by default at most three times. Our own waits are 1 s, 2 s and
//! 4 s with jitter, 30 s at most. A wait that the server asks for is honoured up to 60 s; a longer one ends the turn with an error.
//! A retry does not count as a step of the turn, and a rate limit never leads to a compaction. The wait is a ticket like any other
//! open work: hosts see it, an abort ends it, and a steering message cuts it short, but not a wait of the server. A request that
//! was too large for the model, in tokens or in bytes, is made again at once when the context is smaller, without a wait, up to
//! eight times in a step. One whose key was refused is made again at once, once, where the host has another key. One of which a file
//! was refused is made again at once without files. Where no further try helps, the chain of the agent may have another model
//! (`chain.rs`).
//!
//! A change must keep that an interrupted answer leaves only text in the history, and that each try that the provider read is
//! charged once, whether it was answered, failed or cut off. (One that fails while it is being closed counts as read, unless its key
//! was refused.) Nothing here sleeps or draws a random number: the wait is recorded on the tape, and the jitter comes from `Env`.

use std::{sync::Arc, time::Duration};

use crate::{
    kernel::{
        Learned, OpenRequest, Outcome, Record, Resource,
        budget::spent,
        context::{bytes, learned, with_files},
        draft::Draft,
        turn::batch,
    },
    model::{AnswerPart, ErrorKind, ModelAnswer, ModelError, RetryClass},
    tool::CallFacts,
    words::{
        ids::Seq,
        message::{Finish, ModelRef},
        usage::Usage,
    },
};

/// The most retries of a request whose client panics: the same code over the same request panics again, as a rule.
const CRASH_RETRIES_MAX: u32 = 2;
/// The first wait; each further one is twice as long.
const BACKOFF_BASE: Duration = Duration::from_secs(1);
/// The longest wait of our own.
const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// How often, in one step, a request is made smaller after the provider refused it as too large.
const OVERFLOWS_MAX: u32 = 8;
/// The longest wait that is honoured if a server asks for it.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

fn open_request<'d>(draft: &'d Draft<'_>, ticket: Seq) -> Option<&'d OpenRequest> {
    draft.state.request().filter(|(open, _)| *open == ticket).map(|(_, request)| request)
}

/// Takes the answer of a model, and opens its calls.
pub(in crate::kernel) fn answered(draft: &mut Draft<'_>, ticket: Seq, answer: &ModelAnswer, calls: &[CallFacts]) {
    if let Some(request) = open_request(draft, ticket) {
        let read = draft.state.context.meter.used(request.estimated);
        let mut answer = answer.clone();
        if answer.finish == Finish::Steered && answer.calls().next().is_none() && draft.state.steering.is_empty() {
            // What it stopped for was taken back: as of an answer that was cut off, nothing of it is kept.
            answer.parts.clear();
        }
        let estimated = spent::estimate(read, &answer);
        answer.by.take_if(|by| *by == request.model);
        let price = answer.by.as_ref().and_then(|by| draft.model(by).price);
        draft.write(Some(ticket), Record::Answer { answer: Arc::new(answer), interrupted: false, estimated, price });
        batch::open(draft, |index| calls.get(index as usize).cloned());
    }
}

/// Takes the report that a request was stopped because the core said so. The text that had arrived is kept.
pub(in crate::kernel) fn cut_off(draft: &mut Draft<'_>, ticket: Seq, partial: &[AnswerPart], thrown_away: u64) {
    let Some(request) = open_request(draft, ticket) else { return };
    // The provider has read the request and written this much, but gives no figures.
    let read = draft.state.context.meter.used(request.estimated);
    let written = spent::written(&ModelAnswer::new(partial.to_vec(), Finish::Unknown)).saturating_add(thrown_away);
    let estimated = Usage { input: read, output: written, ..Usage::default() };
    close_cut_off(draft, ticket, partial, Some(estimated));
}

/// Closes a request whose worker went down with its process. Its usage was counted by the recovery.
pub(in crate::kernel) fn close_lost(draft: &mut Draft<'_>, ticket: Seq) {
    if open_request(draft, ticket).is_some() {
        close_cut_off(draft, ticket, &[], None);
    }
}

fn close_cut_off(draft: &mut Draft<'_>, ticket: Seq, partial: &[AnswerPart], estimated: Option<Usage>) {
    // If the message that cut the answer off was withdrawn meanwhile, the request is made again from the same history. A half
    // answer at its end would be taken for words put into the model's mouth, which some providers refuse.
    let follows = !draft.state.steering.is_empty() || draft.state.is_ending();
    // A thought without its signature and a call without its end would both be refused when sent back.
    let is_text = |part: &&AnswerPart| matches!(part, AnswerPart::Text { text, .. } if !text.is_empty());
    let text = partial.iter().filter(is_text).filter(|_| follows);
    let answer = ModelAnswer::new(text.cloned().collect(), Finish::Unknown);
    draft.write(Some(ticket), Record::Answer { answer: Arc::new(answer), interrupted: true, estimated, price: None });
}

/// Takes the failure of a request: it is made again after a wait, or after the context was made smaller, or the turn ends.
pub(in crate::kernel) fn failed(draft: &mut Draft<'_>, ticket: Seq, error: &ModelError) {
    let Some(request) = open_request(draft, ticket) else { return };
    if request.closing {
        // Its record is that of a request that was cut off, so it is charged as one, also where it was not read. A key that was
        // refused is the exception: the host is asked for another one for as long as half a minute, so cuts come then.
        return match error.kind == ErrorKind::Auth && !error.was_read() {
            true => close_cut_off(draft, ticket, &[], None),
            false => cut_off(draft, ticket, &[], 0),
        };
    }
    let (model, attempt) = (request.model.clone(), request.attempt);
    let turn = draft.state.turn.as_ref();
    let is_renewed = turn.is_some_and(|turn| turn.renewed_for.as_ref() == Some(&model));
    let has_key = error.key_renewed && error.kind == ErrorKind::Auth && !is_renewed;
    let error = &ModelError { key_renewed: has_key, ..with_bounded_wait(error) };
    // Each model of a chain has all of the retries, and so has each key.
    let tried = turn.map_or(0, |turn| turn.tried);
    let tries_before = attempt.saturating_sub(1).saturating_sub(tried);
    let files = match error.kind {
        ErrorKind::FileRefused => with_files(&draft.state.history, u64::MAX),
        _ => Vec::new(),
    };
    let learned = match error.kind {
        ErrorKind::ContextOverflow => Some(Learned::Window(learned(draft.state.context.fullness.used, &error.message))),
        ErrorKind::RequestTooLarge => Some(Learned::Bytes(bytes::learned(draft))),
        _ => (!files.is_empty()).then_some(Learned::Files),
    };
    let smaller_helps = learned.is_some()
        && (!files.is_empty() || draft.state.settings.compaction.auto)
        && turn.is_some_and(|turn| turn.overflows < OVERFLOWS_MAX);
    let read = draft.state.context.meter.used(request.estimated);
    let estimated = spent::estimate_of_failure(read, error);
    let retries_max = match error.kind {
        // What crashes a client three times is the request.
        ErrorKind::Crashed => draft.state.settings.retries_max.min(CRASH_RETRIES_MAX),
        _ => draft.state.settings.retries_max,
    };
    let at_once = Wait { length: Duration::ZERO, server: false };
    let planned = (!smaller_helps)
        .then(|| if has_key { Ok(at_once) } else { plan(error, tries_before, retries_max, &|| draft.env.jitter()) });
    let is_over = matches!(planned, Some(Err(_)));
    // A model that a budget has asked instead has no chain behind it.
    let may_fall = is_over && !request.instead;
    let is_limited = draft.state.room(Resource::Usd).is_some();
    let can_be_paid = |model: &ModelRef| !is_limited || draft.model(model).price.is_some();
    let fallback = if may_fall { draft.state.next_model(&model, error.kind, can_be_paid) } else { None };
    let falls_back = fallback.is_some();
    draft.write(Some(ticket), Record::RequestFailed { error: error.clone(), estimated, learned, fallback });
    if !files.is_empty() {
        draft.write(None, Record::Pruned { results: Vec::new(), files });
    }
    match planned {
        Some(Ok(wait)) => {
            let until = draft.now.plus(wait.length);
            draft.write(None, Record::RetryWait { attempt: attempt.max(1), until, server: wait.server });
        }
        Some(Err(why)) if !falls_back => {
            draft.write(None, Record::TurnFinished { outcome: Outcome::Failed { error: why } });
        }
        // The next step is held up until the request is smaller, and is then made again; one without files is smaller already. Or it
        // is made by another model.
        _ => {}
    }
}

/// The failure; of its own kind where the server asks for a longer wait than is honoured.
fn with_bounded_wait(error: &ModelError) -> ModelError {
    let asked = error.server_wait().filter(|asked| *asked > RETRY_AFTER_MAX);
    let Some(asked) = asked.filter(|_| error.class() == RetryClass::Transient) else { return error.clone() };
    let (message, seconds) = (&error.message, asked.as_millis().div_ceil(1_000));
    let message = format!("{message}: the server asks to wait {seconds} s, more than the 60 s that are honoured");
    ModelError { kind: ErrorKind::RetryAfterTooLong, message, ..error.clone() }
}

/// A wait before a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wait {
    length: Duration,
    server: bool,
}

/// How long to wait before the request is made again, or why it is not.
fn plan(error: &ModelError, tries_before: u32, retries_max: u32, jitter: &dyn Fn() -> f64) -> Result<Wait, String> {
    if error.class() != RetryClass::Transient {
        return Err(error.message.clone());
    }
    if tries_before >= retries_max {
        return Err(match retries_max {
            0 => error.message.clone(),
            n => format!("{} (gave up after {n} retries)", error.message),
        });
    }
    match error.server_wait() {
        Some(asked) => Ok(Wait { length: asked, server: true }),
        None => {
            let full = backoff(tries_before);
            // From 75 % up to 125 %, so that many sessions do not come back together.
            Ok(Wait { length: full.mul_f64(0.75 + 0.5 * jitter().clamp(0.0, 1.0)).min(BACKOFF_MAX), server: false })
        }
    }
}

/// Our own wait after `tries_before` tries, without jitter.
fn backoff(tries_before: u32) -> Duration {
    BACKOFF_BASE.saturating_mul(1 << tries_before.min(16)).min(BACKOFF_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(kind: ErrorKind) -> ModelError {
        ModelError::new(kind, "it failed")
    }

    /// K-04, C-19, K-02: 1 s, 2 s, 4 s and then no more.
    #[test]
    fn waits_double_and_end_after_three_retries() {
        let waits: Vec<_> = (0..4)
            .map(|tries| plan(&error(ErrorKind::Network), tries, 3, &|| 0.5).map(|wait| wait.length.as_millis()))
            .collect();
        let given_up = "it failed (gave up after 3 retries)".to_owned();
        assert_eq!(waits, [Ok(1_000), Ok(2_000), Ok(4_000), Err(given_up)]);
    }

    /// C-19: jitter stays within its bounds, and a long wait within 30 s.
    #[test]
    fn jitter_moves_a_wait_by_a_quarter_at_most() {
        let wait =
            |tries, jitter| plan(&error(ErrorKind::Server), tries, 99, &|| jitter).map(|wait| wait.length.as_millis());
        assert_eq!((wait(0, 0.0), wait(0, 1.0)), (Ok(750), Ok(1_250)));
        assert_eq!(wait(60, 1.0), Ok(30_000));
    }

    /// C-19, V01: a server's wait is honoured up to 60 s, and is an error above.
    #[test]
    fn a_servers_wait_is_honoured_up_to_a_minute() {
        let after = |kind, ms| {
            let error = with_bounded_wait(&error(kind).with_retry_after(Some(Duration::from_millis(ms))));
            (plan(&error, 0, 3, &|| 0.0), error.kind)
        };
        let waits = Ok(Wait { length: Duration::from_secs(60), server: true });
        assert_eq!(after(ErrorKind::RateLimited, 60_000), (waits, ErrorKind::RateLimited));
        let none = Ok(Wait { length: Duration::from_millis(750), server: false });
        assert_eq!(after(ErrorKind::RateLimited, 0), (none, ErrorKind::RateLimited), "no wait is no wish");
        assert!(after(ErrorKind::RateLimited, 60_001).0.is_err_and(|why| why.contains("61 s, more than the 60 s")));
        let (failed, kind) = after(ErrorKind::RateLimited, 61_000);
        assert!(failed.is_err_and(|why| why.contains("61 s")) && kind == ErrorKind::RetryAfterTooLong);
        assert_eq!(after(ErrorKind::Auth, 61_000).1, ErrorKind::Auth, "what no wait helps keeps its kind");
    }

    /// V03, K-07: what another try cannot help is not tried again.
    #[test]
    fn permanent_failures_are_not_retried() {
        for kind in [ErrorKind::Auth, ErrorKind::InvalidRequest, ErrorKind::ContextOverflow, ErrorKind::ContentPolicy] {
            assert_eq!(plan(&error(kind), 0, 3, &|| 0.0), Err("it failed".to_owned()), "{kind:?}");
        }
    }
}
