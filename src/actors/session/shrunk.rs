//! What a session makes of a report, or of a reason, that is too large for its tape: a smaller one. Held and tried again it would
//! never fit, and whatever came behind it would wait for ever.

use crate::{
    actors::session::Live,
    context::of_item,
    error::SendError,
    message::Finish,
    model::{Answer, AnswerPart, Item, ModelError},
    session::{Abort, Command, End, Input, NoSummary, Report},
    supervisor::ExitReason,
    tape::TapeError,
    tool::{Changes, ToolResult},
};

/// How much of the words of a result, or of a child, is kept where the whole does not fit.
const WORDS_BYTES_MAX: usize = 64 * 1024;

impl Live {
    /// A decision could not be recorded, and never will be as it is. Gives back the signal where it may be recorded later.
    pub(super) fn shrink_or_give_up(&mut self, signal: Input, error: &TapeError) -> Option<Input> {
        match error {
            TapeError::TooLarge { bytes, max } => match (smaller(&signal, *bytes, *max), signal.reply()) {
                (Some(smaller), _) => {
                    tracing::warn!(session = %self.slot.id, bytes, "a report was too large for the tape, and is recorded smaller");
                    self.on(smaller);
                }
                // Whoever said it is told; that ends no life.
                (None, Some(to)) => self.slot.answer(to, Err(SendError::Storage(error.clone()))),
                // It would not fit in the next life either.
                (None, None) => self.give_up(error),
            },
            // What it knows is no longer what the tape says, so the next life reads the tape, and decides about this anew.
            TapeError::Changed { .. } | TapeError::Gap { .. } | TapeError::Damaged(_) => {
                self.give_up(error);
                self.put_by(signal);
            }
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

/// The same input, smaller; `None` where it cannot be made so.
fn smaller(input: &Input, bytes: usize, max: usize) -> Option<Input> {
    let too_large = |what: &str| format!("{what} is too large to be recorded: {bytes} bytes, and {max} are the most");
    Some(match input {
        Input::Report { ticket, report } => smaller_report(report, too_large)?.of(*ticket),
        Input::Command { reply, command: Command::Abort(Abort { reason }), id } if reason.len() > WORDS_BYTES_MAX => {
            let command = Abort { reason: kept(reason.clone()) }.into();
            Input::Command { reply: *reply, command, id: id.clone() }
        }
        Input::Command { reply, command: Command::End(End { reason }), id } if reason.len() > WORDS_BYTES_MAX => {
            let command = End { reason: kept(reason.clone()) }.into();
            Input::Command { reply: *reply, command, id: id.clone() }
        }
        Input::Command { .. } | Input::Timer | Input::Recover { .. } | Input::Look => return None,
    })
}

fn smaller_report(report: &Report, too_large: impl Fn(&str) -> String) -> Option<Report> {
    Some(match report {
        // It ends the turn as an answer that was cut short does. It is not asked for again: the same question gets as large an
        // answer, and this one was paid for.
        Report::Answered { answer, .. } if !is_short(answer) => {
            let text = format!("{}\n[{}]", kept(answer.text()), too_large("the whole answer"));
            let parts = vec![AnswerPart::Text { text, extra: None }];
            let (usage, model) = (answer.usage, answer.model.clone());
            let answer = Answer { usage, model, ..Answer::new(parts, Finish::Length) };
            Report::Answered { answer, calls: Vec::new() }
        }
        Report::Failed { error } if error.message.len() > WORDS_BYTES_MAX => {
            let message = kept(error.message.clone());
            Report::Failed { error: ModelError { message, ..error.clone() } }
        }
        Report::CutOff { partial, thrown_away } if !partial.is_empty() => {
            let arrived = Item::Assistant(Answer::new(partial.clone(), Finish::Unknown));
            Report::CutOff { partial: Vec::new(), thrown_away: thrown_away.saturating_add(of_item(&arrived)) }
        }
        Report::Returned { result } if !is_bare(result) => {
            let content = format!("{}\n[{}]", kept(result.content.clone()), too_large("the whole result"));
            let unlisted = result.changes.as_ref().map(|_| too_large("the list of changed files"));
            let changes = unlisted.map(|unlisted| Box::new(Changes { files: Vec::new(), unlisted: Some(unlisted) }));
            Report::Returned { result: ToolResult { error: result.error, changes, ..ToolResult::ok(content) } }
        }
        Report::Summarised { result: Ok((_, usage)), lost } => {
            let none = NoSummary { error: too_large("the summary"), usage: *usage, estimated: None };
            Report::Summarised { result: Err(none), lost: *lost }
        }
        Report::TaskDown { down } if down.text.len() > WORDS_BYTES_MAX => {
            let mut down = down.clone();
            down.text = format!("{}\n[{}]", kept(down.text.to_string()), too_large("the whole text")).into();
            Report::TaskDown { down }
        }
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

/// Whether an answer has no more than what is kept of one, and no calls.
fn is_short(answer: &Answer) -> bool {
    let is_text = |part: &AnswerPart| matches!(part, AnswerPart::Text { extra: None, .. });
    answer.parts.iter().all(is_text) && answer.text().len() <= WORDS_BYTES_MAX + 1024
}

/// What is kept of words that somebody else chose the length of: the first 64 KiB.
pub(crate) fn kept(mut words: String) -> String {
    words.truncate(words.floor_char_boundary(WORDS_BYTES_MAX));
    words
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
        let Some(Input::Report { report: Report::Returned { result: small }, .. }) =
            smaller(&Report::Returned { result: result.clone() }.of(Seq(4)), 99, 9)
        else {
            panic!("it is made smaller")
        };
        assert!(small.content.starts_with("éé") && small.content.ends_with("99 bytes, and 9 are the most]"));
        assert_eq!((small.error, small.attachments.len()), (result.error, 0));
        assert!(small.changes.as_ref().unwrap().unlisted.is_some());
        assert_eq!(smaller(&Report::Returned { result: *Box::new(small) }.of(Seq(4)), 99, 9), None);
        assert_eq!(smaller(&Input::Timer, 99, 9), None);
    }
}
