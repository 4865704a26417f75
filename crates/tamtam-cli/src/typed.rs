//! Reads a line that a person types while a turn runs: a message, an answer, or a mistake. A pure function of the line, of the
//! question that was on the screen while it was typed, and of the question that is open now.
//!
//! A change must keep this: a line answers the question under which it was typed and no other, so that a `y` which comes a moment
//! early or late allows nothing. While a question is open, no line that was typed under it steers the turn; only the words after an
//! `n` to a question about a call reach the model. A typing error must allow nothing: a call is allowed by `y`, `yes`, and the words
//! of [`always`] and by no others; a budget is raised by `y`, `yes`, `a`, `always` or an amount. A line that has the form of an
//! answer and answers nothing is no message either: it is [`Typed::NotUsed`].

use tamtam::{
    Seq,
    session::{Grant, Limits, Resource, Scope},
};

use super::grants::standing;

/// The meaning of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Typed {
    /// A message for the running turn.
    Steer(String),
    /// A line that begins with `/`.
    Command(String),
    /// The answer to a question.
    Answer(Seq, Grant),
    /// The line was typed under the open question, and is no answer to it.
    NoAnswer,
    /// The line is neither an answer nor a message; why.
    NotUsed(&'static str),
    /// An empty line.
    Nothing,
}

/// Why an answer without its question is not used.
const CHANGED: &str = "the question changed: answer again";
const EARLY: &str = "it was typed before the question was shown: answer again";
const CLOSED: &str = "its question is closed";
const UNASKED: &str = "no question is open; to send it as a message, type a space before it";

/// A question that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Question {
    /// The seq of the ask.
    pub(super) ask: Seq,
    /// The resource that a question about a budget wants more of; `None` for a question about a call.
    pub(super) more: Option<Resource>,
    /// How many offers a question about a call has.
    pub(super) offers: usize,
    /// What a yes means, in a word: `once` for a call that has not started, `yes` for the question of a call that runs.
    pub(super) yes: &'static str,
}

impl Question {
    /// The possible answers, in words.
    pub(super) fn answers(&self) -> String {
        match self.more {
            None => call_answers(self.yes, self.offers),
            Some(resource) => more_answers(resource),
        }
    }
}

/// The possible answers to a question about a call with so many offers, in words. `yes` is what a yes means.
pub(super) fn call_answers(yes: &str, offers: usize) -> String {
    let numbers = (1..=offers).map(|offer| format!("[{offer}]")).collect::<Vec<_>>().join("/");
    let always = match offers {
        0 => String::new(),
        _ => format!("{numbers} for this session (+ `turn` or `project`) · "),
    };
    format!("[y] {yes} · {always}[n] no, stop here · n REASON: no, and tell the agent why")
}

/// The answer `1`, `a1` or `2 turn` to a question about a call with so many offers; `None` for any other line.
fn always(word: &str, scope: &str, offers: usize) -> Option<Grant> {
    let offer = match word {
        "a" | "always" => 1,
        // As it is listed, and in no other form of the number.
        word => {
            let number = word.strip_prefix('a').unwrap_or(word);
            (1..=u32::try_from(offers).unwrap_or(u32::MAX)).find(|offer| number == offer.to_string())?
        }
    };
    let scope = match scope {
        "" | "session" => Scope::Session,
        "turn" => Scope::Turn,
        "project" => Scope::Project,
        _ => return None,
    };
    (offers > 0).then(|| standing(scope, offer))
}

/// The possible answers to a question for more of a budget, in words.
pub(super) fn more_answers(resource: Resource) -> String {
    let example = match resource {
        Resource::Usd => "0.50 dollars more",
        Resource::TimeMs => "60 seconds more",
        Resource::Tokens => "5000 tokens more",
        Resource::Bytes => "50000 bytes more",
        Resource::Calls => "10 calls more",
        Resource::Tasks => "2 tasks more",
        _ => "10 more",
    };
    let number = example.split(' ').next().unwrap_or_default();
    format!("[y] the same amount again · [a] no limit · [n] stop · {number}: {example}")
}

/// By how much the line raises a limit; `None` if it names no amount above zero. Time is typed in seconds.
fn by(line: &str, resource: Resource) -> Option<Limits> {
    let amount = match resource {
        Resource::Usd => line.parse::<tamtam::model::PicoUsd>().ok()?.0,
        Resource::TimeMs => line.parse::<u64>().ok()?.checked_mul(1_000)?,
        _ => line.parse().ok()?,
    };
    let mut more = Limits::default();
    more.set(resource, Some(amount));
    (amount > 0).then_some(more)
}

/// Whether a line has the form of an answer: one of the short words of a question, or a number. A blank before it makes it a
/// message.
pub(super) fn is_answer(typed: &str) -> bool {
    let (word, rest) = split(typed.trim_end());
    let number = word.strip_prefix(['a', '$']).unwrap_or(&word);
    let is_number =
        number.contains(|c: char| c.is_ascii_digit()) && number.chars().all(|c| c.is_ascii_digit() || c == '.');
    let is_scope = matches!(rest, "" | "turn" | "session" | "project");
    (rest.is_empty() && matches!(word.as_str(), "y" | "yes" | "n" | "no"))
        || (is_scope && (matches!(word.as_str(), "a" | "always") || is_number))
}

/// The first word in lower case, and the rest.
fn split(line: &str) -> (String, &str) {
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    (word.to_lowercase(), rest.trim())
}

/// Reads a line. `about` is the question that the person could see when they began the line, `asked` the one that is open now.
pub(super) fn read(typed: &str, about: Option<Seq>, asked: Option<Question>) -> Typed {
    let line = typed.trim();
    match (about, asked) {
        (Some(about), Some(question)) if about == question.ask => answer(line, question),
        _ if line.is_empty() => Typed::Nothing,
        (Some(_), Some(_)) => Typed::NotUsed(CHANGED),
        (Some(_), None) => Typed::NotUsed(CLOSED),
        (None, Some(_)) if is_answer(typed) => Typed::NotUsed(EARLY),
        (None, None) if is_answer(typed) => Typed::NotUsed(UNASKED),
        // Entered before a question came, if one came: it is sent as it was meant.
        (None, _) if typed.starts_with('/') => Typed::Command(line.to_owned()),
        (None, _) => Typed::Steer(line.to_owned()),
    }
}

/// Reads a line that was typed under the open question.
fn answer(line: &str, Question { ask, more, offers, .. }: Question) -> Typed {
    let (word, rest) = split(line);
    let answer = |grant| Typed::Answer(ask, grant);
    match (word.as_str(), rest) {
        ("y" | "yes", "") => answer(Grant::Once),
        ("a" | "always", "") if more.is_some() => answer(Grant::Always(Scope::Session)),
        ("n" | "no", "") => answer(Grant::Reject(None)),
        // Not `no MESSAGE`: that is how a message begins which was not meant as an answer.
        ("n", message) if more.is_none() => answer(Grant::Reject(Some(message.to_owned()))),
        (word, rest) => {
            let given = match more {
                Some(resource) => by(line, resource).map(Grant::Raise),
                None => always(word, rest, offers),
            };
            given.map_or(Typed::NoAnswer, answer)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The whole table: what was on the screen while the line was typed, what is open now, and what the line then is.
    #[test]
    fn a_line_answers_the_question_under_which_it_was_typed_and_no_other() {
        let answer = |grant| Typed::Answer(Seq(7), grant);
        let ask = Question { ask: Seq(7), more: None, offers: 2, yes: "once" };
        let (none, other) = (Question { offers: 0, ..ask }, Question { ask: Seq(9), ..ask });
        let (seven, unused) = (Some(Seq(7)), Typed::NotUsed);
        let cases = [
            (" use tabs \n", None, None, Typed::Steer("use tabs".to_owned())),
            ("/compact \n", None, None, Typed::Command("/compact".to_owned())),
            (" /tmp is full", None, None, Typed::Steer("/tmp is full".to_owned())),
            ("  ", None, None, Typed::Nothing),
            // Nothing is asked: a late answer is no message, and a blank before it makes it one.
            ("y", None, None, unused(UNASKED)),
            ("N", None, None, unused(UNASKED)),
            ("1", None, None, unused(UNASKED)),
            ("a1 project", None, None, unused(UNASKED)),
            ("$0.50", None, None, unused(UNASKED)),
            (" y", None, None, Typed::Steer("y".to_owned())),
            ("n use src instead", None, None, Typed::Steer("n use src instead".to_owned())),
            // Dots without a digit counted as a number.
            ("...", None, None, Typed::Steer("...".to_owned())),
            ("a.", None, Some(ask), Typed::Steer("a.".to_owned())),
            ("3 files are left", None, None, Typed::Steer("3 files are left".to_owned())),
            ("a test is missing", None, None, Typed::Steer("a test is missing".to_owned())),
            // Typed before the question was shown.
            ("y", None, Some(ask), unused(EARLY)),
            ("a", None, Some(ask), unused(EARLY)),
            ("2 turn", None, Some(ask), unused(EARLY)),
            ("", None, Some(ask), Typed::Nothing),
            ("no, use src instead", None, Some(ask), Typed::Steer("no, use src instead".to_owned())),
            ("/compact", None, Some(ask), Typed::Command("/compact".to_owned())),
            // Typed for a question whose place another one took, or that is closed.
            ("y", seven, Some(other), unused(CHANGED)),
            ("1", seven, Some(other), unused(CHANGED)),
            ("n not there", seven, Some(other), unused(CHANGED)),
            ("y", seven, None, unused(CLOSED)),
            ("use tabs", seven, None, unused(CLOSED)),
            ("", seven, Some(other), Typed::Nothing),
            // Typed under the open question.
            ("/compact", seven, Some(ask), Typed::NoAnswer),
            ("y", seven, Some(ask), answer(Grant::Once)),
            ("YES", seven, Some(ask), answer(Grant::Once)),
            ("a", seven, Some(ask), answer(Grant::Always(Scope::Session))),
            ("1", seven, Some(ask), answer(Grant::Always(Scope::Session))),
            ("A2", seven, Some(ask), answer(Grant::Offered { scope: Scope::Session, offer: 2 })),
            ("2 turn", seven, Some(ask), answer(Grant::Offered { scope: Scope::Turn, offer: 2 })),
            ("a project", seven, Some(ask), answer(Grant::Always(Scope::Project))),
            ("3", seven, Some(ask), Typed::NoAnswer),
            ("a0", seven, Some(ask), Typed::NoAnswer),
            ("a2 please", seven, Some(ask), Typed::NoAnswer),
            ("+1", seven, Some(ask), Typed::NoAnswer),
            ("01", seven, Some(ask), Typed::NoAnswer),
            ("1", seven, Some(none), Typed::NoAnswer),
            ("a", seven, Some(none), Typed::NoAnswer),
            ("n", seven, Some(ask), answer(Grant::Reject(None))),
            ("n  not there", seven, Some(ask), answer(Grant::Reject(Some("not there".to_owned())))),
            ("no wait", seven, Some(ask), Typed::NoAnswer),
            ("yes please", seven, Some(ask), Typed::NoAnswer),
            ("use tabs", seven, Some(ask), Typed::NoAnswer),
            ("", seven, Some(ask), Typed::NoAnswer),
        ];
        for (line, about, asked, expected) in cases {
            assert_eq!(read(line, about, asked), expected, "{line:?} typed under {about:?}, and {asked:?} is open");
        }
    }

    /// A typed amount raises a limit, in the unit that people use; it does not answer a question about a call.
    #[test]
    fn a_question_for_more_is_answered_by_an_amount() {
        let about = |resource| Some(Question { ask: Seq(7), more: Some(resource), offers: 0, yes: "once" });
        let raised = |resource, amount| {
            let mut more = Limits::default();
            more.set(resource, Some(amount));
            Typed::Answer(Seq(7), Grant::Raise(more))
        };
        let cases = [
            ("5000", Resource::Tokens, raised(Resource::Tokens, 5_000)),
            ("$0.50", Resource::Usd, raised(Resource::Usd, 500_000_000_000)),
            ("90", Resource::TimeMs, raised(Resource::TimeMs, 90_000)),
            ("y", Resource::Calls, Typed::Answer(Seq(7), Grant::Once)),
            ("a", Resource::Calls, Typed::Answer(Seq(7), Grant::Always(Scope::Session))),
            ("n", Resource::Calls, Typed::Answer(Seq(7), Grant::Reject(None))),
            ("n, thanks", Resource::Calls, Typed::NoAnswer),
            ("no more", Resource::Calls, Typed::NoAnswer),
            ("0", Resource::Calls, Typed::NoAnswer),
            ("-3", Resource::Calls, Typed::NoAnswer),
            ("0.5", Resource::Tokens, Typed::NoAnswer),
        ];
        for (line, resource, expected) in cases {
            assert_eq!(read(line, Some(Seq(7)), about(resource)), expected, "{line:?}");
        }
        assert_eq!(
            read("5000", Some(Seq(7)), Some(Question { ask: Seq(7), more: None, offers: 1, yes: "once" })),
            Typed::NoAnswer
        );
        for resource in Resource::ALL {
            let answers = more_answers(resource);
            let example = answers.rsplit(" · ").next().unwrap_or_default().split(':').next().unwrap_or_default();
            let read = read(example, Some(Seq(7)), about(resource));
            assert!(matches!(read, Typed::Answer(..)), "what is proposed works: {answers}");
        }
    }
}
