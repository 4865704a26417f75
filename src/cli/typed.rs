//! What a line means that a person typed while a turn runs. A pure function.

use tamtam::{Grant, Seq, session::Scope};

/// What was meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Typed {
    /// A message for the running turn.
    Steer(String),
    /// The answer to a question.
    Answer(Seq, Grant),
    /// The line is no answer to the question that is open.
    NoAnswer,
    /// An empty line.
    Nothing,
}

/// How a question may be answered.
pub(super) const ANSWERS: &str =
    "y: once, a: always in this session, n: no and stop, n MESSAGE: no, and tell the model why";

/// Reads a line. While a question is open the line must answer it: a wrong key must neither allow a call nor pass for a
/// message.
pub(super) fn read(line: &str, asked: Option<Seq>) -> Typed {
    let line = line.trim();
    let Some(ask) = asked else {
        return if line.is_empty() { Typed::Nothing } else { Typed::Steer(line.to_owned()) };
    };
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    let answer = |grant| Typed::Answer(ask, grant);
    match (word.to_lowercase().as_str(), rest) {
        ("y" | "yes", "") => answer(Grant::Once),
        ("a" | "always", "") => answer(Grant::Always(Scope::Session)),
        ("n" | "no", "") => answer(Grant::Reject(None)),
        ("n" | "no", message) => answer(Grant::Reject(Some(message.to_owned()))),
        _ => Typed::NoAnswer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_steers_unless_a_question_is_open() {
        let ask = Seq(7);
        let answer = |grant| Typed::Answer(ask, grant);
        let cases = [
            (" use tabs \n", None, Typed::Steer("use tabs".to_owned())),
            ("y", None, Typed::Steer("y".to_owned())),
            ("  ", None, Typed::Nothing),
            ("y", Some(ask), answer(Grant::Once)),
            ("YES", Some(ask), answer(Grant::Once)),
            ("a", Some(ask), answer(Grant::Always(Scope::Session))),
            ("n", Some(ask), answer(Grant::Reject(None))),
            ("n  not there", Some(ask), answer(Grant::Reject(Some("not there".to_owned())))),
            ("yes please", Some(ask), Typed::NoAnswer),
            ("use tabs", Some(ask), Typed::NoAnswer),
            ("", Some(ask), Typed::NoAnswer),
        ];
        for (line, asked, expected) in cases {
            assert_eq!(read(line, asked), expected, "{line:?}");
        }
    }
}
