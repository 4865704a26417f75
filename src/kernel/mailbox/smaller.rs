//! Shortens an input that the tape refused as too large, so that it can be recorded.
//!
//! Only reports are made smaller. A host's message never is, because its words must not be lost in silence; its sender is told
//! instead. (The reasons of aborts and ends are cut before they get here: `kernel/bounds.rs`.) A report has no sender, so it gets
//! smaller in rounds: first without its large parts, then as a failure of its ticket in a few words.
//!
//! A change must keep that each round returns a smaller input or `None`, so that the rounds end. An input that is still refused then
//! stays in the mailbox if it is a report; a command is answered.

use crate::{
    kernel::{Down, DownReason, Input, NoSummary, Report},
    model::{AnswerPart, ErrorKind, ModelAnswer, ModelError},
    tape::TapeError,
    tool::{Changes, ToolResult},
    words::message::{ErrorReason, Finish},
};

/// The most bytes that are kept of a text whose length somebody else chose, if the whole text does not fit.
const WORDS_BYTES_MAX: usize = 64 * 1024;

/// The same input, smaller; `None` if it cannot be made smaller, or was refused for another reason than its size.
pub(super) fn smaller(input: &Input, error: &TapeError) -> Option<Input> {
    let TapeError::TooLarge { bytes, max } = error else { return None };
    let too_large = |what: &str| format!("{what} is too large to be recorded: {bytes} bytes, and {max} are the most");
    Some(match input {
        Input::Report { ticket, report } => smaller_report(report, too_large)?.of(*ticket),
        Input::Command { .. } | Input::Timer | Input::Recover { .. } | Input::Stop | Input::Look | Input::Hold => {
            return None;
        }
    })
}

fn smaller_report(report: &Report, too_large: impl Fn(&str) -> String) -> Option<Report> {
    Some(match report {
        // The short answer ends the turn as an answer that was cut short does. The request is not made again: it would get as large
        // an answer, and this one was paid for.
        Report::Answered { answer, .. } if !is_short(answer) => {
            let text = format!("{}\n[{}]", kept(answer.text()), too_large("the whole answer"));
            let parts = vec![AnswerPart::Text { text, extra: None }];
            let mut short = ModelAnswer { usage: answer.usage, ..ModelAnswer::new(parts, Finish::Length) };
            // What it cost, and by whose price, stays whole.
            (short.model, short.by, short.dropped) = (answer.model.clone(), answer.by.clone(), answer.dropped.clone());
            Report::Answered { answer: short, calls: Vec::new() }
        }
        Report::Failed { error } if error.message.len() > WORDS_BYTES_MAX => {
            let message = kept(error.message.clone());
            Report::Failed { error: ModelError { message, ..error.clone() } }
        }
        Report::CutOff { partial, thrown_away } if !partial.is_empty() => {
            Report::CutOff { partial: Vec::new(), thrown_away: *thrown_away }
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
        Report::TaskDown { down } if down.text.len() > WORDS_BYTES_MAX + 1024 => {
            let mut down = down.clone();
            down.text = format!("{}\n[{}]", kept(down.text.to_string()), too_large("the whole text")).into();
            Report::TaskDown { down }
        }
        // Nothing is left to take away: the report becomes a failure of its ticket, in a few words.
        report => {
            Some(failure(report, "what came of it is too large to be recorded")).filter(|failed| failed != report)?
        }
    })
}

/// Whether nothing is left to take away from a result.
fn is_bare(result: &ToolResult) -> bool {
    result.content.len() <= WORDS_BYTES_MAX + 1024
        && result.details.is_null()
        && result.title.is_none()
        && result.attachments.is_empty()
        && result.changes.as_ref().is_none_or(|changes| changes.files.is_empty())
}

/// Whether an answer has only text, and no more of it than would be kept.
fn is_short(answer: &ModelAnswer) -> bool {
    let is_text = |part: &AnswerPart| matches!(part, AnswerPart::Text { extra: None, .. });
    answer.parts.iter().all(is_text) && answer.text().len() <= WORDS_BYTES_MAX + 1024
}

/// The part that is kept of a text whose length somebody else chose: the first 64 KiB.
pub(crate) fn kept(mut words: String) -> String {
    words.truncate(words.floor_char_boundary(WORDS_BYTES_MAX));
    words
}

/// The failure that takes the place of a report that cannot be recorded: its ticket has failed, for the reason `why`.
pub(super) fn failure(report: &Report, why: &str) -> Report {
    match report {
        Report::Answered { .. } | Report::Prepared { .. } | Report::Failed { .. } | Report::CutOff { .. } => {
            Report::Failed { error: ModelError::new(ErrorKind::Crashed, why) }
        }
        Report::Gated { .. } | Report::Returned { .. } => {
            Report::Returned { result: ToolResult::failed(ErrorReason::Unknown, why) }
        }
        Report::Summarised { lost, .. } => Report::Summarised { result: Err(why.into()), lost: *lost },
        Report::TaskDown { .. } => {
            Report::TaskDown { down: Down::without_a_word(DownReason::Lost { error: why.to_owned() }) }
        }
        Report::TaskLeft => Report::TaskLeft,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::*;
    use crate::{words::ids::Seq, words::message::FilePart};

    /// As for a result: one shortening, then a failure without a word, then nothing smaller.
    #[test]
    fn a_down_is_made_smaller_once_and_ends() {
        let error = TapeError::TooLarge { bytes: 99, max: 9 };
        let mut down = Down::without_a_word(DownReason::Done);
        down.text = "x".repeat(2 * WORDS_BYTES_MAX).into();
        let small = smaller(&Report::TaskDown { down }.of(Seq(4)), &error).unwrap();
        assert!(format!("{small:?}").contains("99 bytes, and 9 are the most]"));
        let failed = smaller(&small, &error).unwrap();
        assert!(format!("{failed:?}").contains("what came of it is too large"));
        assert_eq!(smaller(&failed, &error), None);
    }

    /// However often it is too large, it is bare at some time, and then there is nothing smaller.
    #[test]
    fn a_result_is_made_smaller_once_and_keeps_its_words() {
        let error = TapeError::TooLarge { bytes: 99, max: 9 };
        let mut result = ToolResult::error("é".repeat(WORDS_BYTES_MAX)).with_details("x".into()).with_title("t");
        result.attachments = vec![FilePart::inline("image/png", None, &[0; 9])];
        result.changes = Some(Box::default());
        let Some(Input::Report { report: Report::Returned { result: small }, .. }) =
            smaller(&Report::Returned { result: result.clone() }.of(Seq(4)), &error)
        else {
            panic!("it is made smaller")
        };
        assert!(small.content.starts_with("éé") && small.content.ends_with("99 bytes, and 9 are the most]"));
        assert_eq!((small.error, small.attachments.len()), (result.error, 0));
        assert!(small.changes.as_ref().unwrap().unlisted.is_some());
        let failed = smaller(&Report::Returned { result: small }.of(Seq(4)), &error).unwrap();
        assert!(format!("{failed:?}").contains("what came of it is too large"));
        assert_eq!((smaller(&failed, &error), smaller(&Input::Timer, &error)), (None, None));
    }
}
