//! What a session makes of a report that is too large for its tape: a smaller one that says so. Held and tried again it would
//! never fit, and whatever came behind it would wait for ever.

use crate::{
    actors::session::Live,
    model::{ErrorKind, ModelError},
    session::{NoSummary, Signal},
    supervisor::ExitReason,
    tape::TapeError,
    tool::{Changes, ToolResult},
};

/// How much of the words of a result, or of a child, is kept where the whole does not fit.
const WORDS_BYTES_MAX: usize = 64 * 1024;

impl Live {
    /// A decision could not be recorded, and never will be as it is. Gives back the signal where it may be recorded later.
    pub(super) fn shrink_or_give_up(&mut self, signal: Signal, error: &TapeError) -> Option<Signal> {
        match error {
            TapeError::TooLarge { bytes, max } => match smaller(&signal, *bytes, *max) {
                Some(smaller) => {
                    tracing::warn!(session = %self.slot.id, bytes, "a report was too large for the tape, and is recorded smaller");
                    self.on(smaller);
                }
                None => self.give_up(error),
            },
            // What it knows is no longer what the tape says, so the next life reads the tape.
            TapeError::Changed { .. } | TapeError::Gap { .. } | TapeError::Damaged(_) => self.give_up(error),
            _ => return Some(signal),
        }
        None
    }

    /// This life cannot go on: the supervisor decides.
    fn give_up(&mut self, error: &TapeError) {
        self.given_up.get_or_insert_with(|| format!("its tape cannot be written any more: {error}"));
    }

    /// Why this life ends, where it must.
    pub(super) fn given_up(&mut self) -> Option<ExitReason> {
        self.given_up.take().map(ExitReason::Error)
    }
}

/// The same report, smaller; `None` where it cannot be made so.
fn smaller(signal: &Signal, bytes: usize, max: usize) -> Option<Signal> {
    let too_large = |what: &str| format!("{what} is too large to be recorded: {bytes} bytes, and {max} are the most");
    Some(match signal {
        Signal::Answered { ticket, .. } => {
            // Not one that is tried again: the same question gets as large an answer, and each costs.
            let error = ModelError::new(ErrorKind::InvalidRequest, too_large("the answer"));
            Signal::Failed { ticket: *ticket, error }
        }
        Signal::Failed { ticket, error } if error.message.len() > WORDS_BYTES_MAX => {
            let message = cut(&error.message);
            Signal::Failed { ticket: *ticket, error: ModelError { message, ..error.clone() } }
        }
        Signal::CutOff { ticket, partial } if !partial.is_empty() => {
            Signal::CutOff { ticket: *ticket, partial: Vec::new() }
        }
        Signal::Returned { ticket, result } if !is_bare(result) => {
            let content = format!("{}\n[{}]", cut(&result.content), too_large("the whole result"));
            let unlisted = result.changes.as_ref().map(|_| too_large("the list of changed files"));
            let changes = unlisted.map(|unlisted| Box::new(Changes { files: Vec::new(), unlisted: Some(unlisted) }));
            Signal::Returned {
                ticket: *ticket,
                result: ToolResult { error: result.error, changes, ..ToolResult::ok(content) },
            }
        }
        Signal::Summarised { ticket, result: Ok((_, usage)), lost } => {
            let none = NoSummary { error: too_large("the summary"), usage: *usage, estimated: None };
            Signal::Summarised { ticket: *ticket, result: Err(none), lost: *lost }
        }
        Signal::TaskDown { ticket, down } if down.text.len() > WORDS_BYTES_MAX => {
            let mut down = down.clone();
            down.text = format!("{}\n[{}]", cut(&down.text), too_large("the whole text")).into();
            Signal::TaskDown { ticket: *ticket, down }
        }
        Signal::Left(report) => Signal::Left(Box::new(smaller(report, bytes, max)?)),
        _ => return None,
    })
}

/// Whether nothing is left to take away.
fn is_bare(result: &ToolResult) -> bool {
    result.content.len() <= WORDS_BYTES_MAX + 1024
        && result.details.is_null()
        && result.title.is_none()
        && result.attachments.is_empty()
        && result.changes.as_ref().is_none_or(|changes| changes.files.is_empty())
}

fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(WORDS_BYTES_MAX)].to_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::*;
    use crate::{ids::Seq, message::FilePart};

    /// However often it is too large, it is bare at some time, and then there is nothing smaller.
    #[test]
    fn a_result_is_made_smaller_once_and_keeps_its_words() {
        let mut result = ToolResult::error("é".repeat(WORDS_BYTES_MAX)).with_details("x".into()).with_title("t");
        result.attachments = vec![FilePart::inline("image/png", None, &[0; 9])];
        result.changes = Some(Box::default());
        let Some(Signal::Returned { result: small, .. }) =
            smaller(&Signal::Returned { ticket: Seq(4), result: result.clone() }, 99, 9)
        else {
            panic!("it is made smaller")
        };
        assert!(small.content.starts_with("éé") && small.content.ends_with("99 bytes, and 9 are the most]"));
        assert_eq!((small.error, small.attachments.len()), (result.error, 0));
        assert!(small.changes.as_ref().unwrap().unlisted.is_some());
        assert_eq!(smaller(&Signal::Returned { ticket: Seq(4), result: *Box::new(small) }, 99, 9), None);
        assert_eq!(smaller(&Signal::Tick, 99, 9), None);
    }
}
