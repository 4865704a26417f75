//! [`RuntimeLimits`]: bounds of one runtime that a host may narrow: on messages that come in, and on models.
//!
//! The core reads none of them. A message is checked before it is handed to the session (`RuntimeLimits::of_host`), and a model's
//! answer before its worker reports it (`actor/worker.rs`), so a tape replays the same under any limits; a change must keep that.

use std::time::Duration;

use crate::{
    error::{SendError, StartError},
    kernel::{Refusal, bounds},
    model::CALLS_MAX,
    words::message::Message,
};

/// The most bytes of the parts of a message, files as they travel (base64) included: with its escapes and its frame it must fit a
/// line of the tape ([`LINE_BYTES_MAX`](crate::tape::LINE_BYTES_MAX)). [`RuntimeLimits`] may set less.
pub const MESSAGE_BYTES_MAX: usize = 12 * 1024 * 1024;

const REQUEST_TIME_LEAST: Duration = Duration::from_secs(1);
const REQUEST_TIME_MOST: Duration = Duration::from_secs(24 * 60 * 60);

/// The limits of a runtime on messages and models ([`Builder::limits`](crate::runtime::Builder::limits)). What a session has
/// accepted stays accepted under any later limits.
///
/// ```
/// use std::time::Duration;
/// use tamtam::{Runtime, runtime::RuntimeLimits};
///
/// let mut limits = RuntimeLimits::default();
/// limits.message_bytes_max = 64 * 1024;
/// limits.request_time_max = Duration::from_secs(120);
/// let builder = Runtime::builder().limits(limits);
/// # drop(builder);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuntimeLimits {
    /// The most bytes of a message that a host sends, files included as they travel (base64): 1 to 12 MiB; 12 MiB by default. A
    /// larger message is refused as [`Refusal::TooLarge`](crate::session::Refusal::TooLarge).
    pub message_bytes_max: usize,
    /// The most calls that one answer of a model may ask for: 1 to 1,024; 1,024 by default. An answer with more fails its request.
    pub answer_calls_max: usize,
    /// How long one model request of a turn may take in all, whatever model answers it: 1 s to 24 h; an hour by default. The
    /// built-in wires have shorter limits of their own. A summary has a limit of its own, 15 minutes.
    pub request_time_max: Duration,
}

impl Default for RuntimeLimits {
    fn default() -> RuntimeLimits {
        RuntimeLimits {
            message_bytes_max: MESSAGE_BYTES_MAX,
            answer_calls_max: CALLS_MAX,
            request_time_max: Duration::from_secs(60 * 60),
        }
    }
}

impl RuntimeLimits {
    /// Refuses limits that are out of range.
    pub(crate) fn check(&self) -> Result<(), StartError> {
        let bad = |limit, is: String, range: String| Err(StartError::Limit { limit, is, range });
        if !(1..=MESSAGE_BYTES_MAX).contains(&self.message_bytes_max) {
            return bad("message_bytes_max", self.message_bytes_max.to_string(), format!("1 to {MESSAGE_BYTES_MAX}"));
        }
        if !(1..=CALLS_MAX).contains(&self.answer_calls_max) {
            return bad("answer_calls_max", self.answer_calls_max.to_string(), format!("1 to {CALLS_MAX}"));
        }
        if !(REQUEST_TIME_LEAST..=REQUEST_TIME_MOST).contains(&self.request_time_max) {
            let range = format!("{REQUEST_TIME_LEAST:?} to {REQUEST_TIME_MOST:?}");
            return bad("request_time_max", format!("{:?}", self.request_time_max), range);
        }
        Ok(())
    }

    /// Refuses a host's message that is too large or too deep, or whose id has no length that an id may have or is reserved for the
    /// runtime. The kernel does not check this: tapes on which a host used such an id must still replay as they were.
    pub(crate) fn of_host(&self, mut message: Message) -> Result<Message, SendError> {
        bounds::message(&mut message)?;
        let (bytes, max) = (message.bytes(), self.message_bytes_max);
        match message.id.is_reserved() {
            true => Err(Refusal::ReservedId { id: message.id }.into()),
            false if bytes > max => Err(Refusal::TooLarge { bytes, max }.into()),
            false => Ok(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_out_of_range_are_refused_in_words() {
        let with = |change: fn(&mut RuntimeLimits)| {
            let mut limits = RuntimeLimits::default();
            change(&mut limits);
            limits.check().map_err(|error| error.to_string())
        };
        assert_eq!(with(|_| {}), Ok(()));
        assert_eq!(with(|limits| limits.message_bytes_max = 1), Ok(()));
        for (change, words) in [
            (
                (|limits| limits.message_bytes_max = 0) as fn(&mut RuntimeLimits),
                "the limit message_bytes_max is 0: it may be 1 to 12582912",
            ),
            (
                |limits| limits.message_bytes_max = MESSAGE_BYTES_MAX + 1,
                "the limit message_bytes_max is 12582913: it may be 1 to 12582912",
            ),
            (|limits| limits.answer_calls_max = 0, "the limit answer_calls_max is 0: it may be 1 to 1024"),
            (|limits| limits.answer_calls_max = 1025, "the limit answer_calls_max is 1025: it may be 1 to 1024"),
            (
                |limits| limits.request_time_max = Duration::ZERO,
                "the limit request_time_max is 0ns: it may be 1s to 86400s",
            ),
            (
                |limits| limits.request_time_max = Duration::MAX,
                "the limit request_time_max is 18446744073709551615.999999999s: it may be 1s to 86400s",
            ),
        ] {
            assert_eq!(with(change), Err(words.to_owned()));
        }
    }
}
