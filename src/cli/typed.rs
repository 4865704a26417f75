//! Reads a line that a person types while a turn runs: a message, an answer, or a mistake. A pure function of the line and the
//! open question.
//!
//! A change must keep this: while a question is open, no line steers the turn; only the words after an `n` to a question about a
//! call reach the model. A typing error must allow nothing: a call is allowed by `y`, `yes`, and the words of [`always`] and by no
//! others; a budget is raised by `y`, `yes`, `a`, `always` or an amount. `n` and `no` refuse; every other line is
//! [`Typed::NoAnswer`].

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
    /// A question is open, and the line is no answer to it.
    NoAnswer,
    /// An empty line.
    Nothing,
}

/// A question that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Question {
    /// The seq of the ask.
    pub(super) ask: Seq,
    /// The resource that a question about a budget wants more of; `None` for a question about a call.
    pub(super) more: Option<Resource>,
    /// How many offers a question about a call has.
    pub(super) offers: usize,
}

impl Question {
    /// The possible answers, in words.
    pub(super) fn answers(&self) -> String {
        match self.more {
            None => call_answers(self.offers),
            Some(resource) => more_answers(resource),
        }
    }
}

/// The possible answers to a question about a call with so many offers, in words.
pub(super) fn call_answers(offers: usize) -> String {
    let always = match offers {
        0 => String::new(),
        1 => "a1: always in this session".to_owned(),
        last => format!("a1 to a{last}: always in this session"),
    };
    let always = match offers {
        0 => always,
        _ => format!("{always}, a1 turn: only in this turn, a1 project: always in this folder, "),
    };
    format!("y: once, {always}n: no and stop, n MESSAGE: no, and tell the model why")
}

/// The answer `a`, `a2` or `a2 turn` to a question about a call with so many offers; `None` for any other line.
fn always(word: &str, scope: &str, offers: usize) -> Option<Grant> {
    let offer = match word {
        "a" | "always" => 1,
        // As it is listed, and in no other form of the number.
        word => (1..=u32::try_from(offers).unwrap_or(u32::MAX)).find(|offer| word == format!("a{offer}"))?,
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
    };
    let number = example.split(' ').next().unwrap_or_default();
    format!("y: the same amount again, a: lift this limit, n: stop, {number}: {example}")
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

/// Reads a line. While a question is open, a line that does not answer it is [`Typed::NoAnswer`].
pub(super) fn read(typed: &str, asked: Option<Question>) -> Typed {
    let line = typed.trim();
    let Some(Question { ask, more, offers }) = asked else {
        return match line {
            "" => Typed::Nothing,
            line if typed.starts_with('/') => Typed::Command(line.to_owned()),
            line => Typed::Steer(line.to_owned()),
        };
    };
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    let answer = |grant| Typed::Answer(ask, grant);
    match (word.to_lowercase().as_str(), rest) {
        ("y" | "yes", "") => answer(Grant::Once),
        ("a" | "always", "") if more.is_some() => answer(Grant::Always(Scope::Session)),
        ("n" | "no", "") => answer(Grant::Reject(None)),
        ("n" | "no", message) if more.is_none() => answer(Grant::Reject(Some(message.to_owned()))),
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

    #[test]
    fn a_line_steers_unless_a_question_is_open() {
        let answer = |grant| Typed::Answer(Seq(7), grant);
        let ask = Question { ask: Seq(7), more: None, offers: 2 };
        let none = Question { offers: 0, ..ask };
        let cases = [
            (" use tabs \n", None, Typed::Steer("use tabs".to_owned())),
            ("y", None, Typed::Steer("y".to_owned())),
            ("/compact \n", None, Typed::Command("/compact".to_owned())),
            (" /tmp is full", None, Typed::Steer("/tmp is full".to_owned())),
            ("/compact", Some(ask), Typed::NoAnswer),
            ("  ", None, Typed::Nothing),
            ("y", Some(ask), answer(Grant::Once)),
            ("YES", Some(ask), answer(Grant::Once)),
            ("a", Some(ask), answer(Grant::Always(Scope::Session))),
            ("a1", Some(ask), answer(Grant::Always(Scope::Session))),
            ("A2", Some(ask), answer(Grant::Offered { scope: Scope::Session, offer: 2 })),
            ("a2 turn", Some(ask), answer(Grant::Offered { scope: Scope::Turn, offer: 2 })),
            ("a project", Some(ask), answer(Grant::Always(Scope::Project))),
            ("a3", Some(ask), Typed::NoAnswer),
            ("a0", Some(ask), Typed::NoAnswer),
            ("a2 please", Some(ask), Typed::NoAnswer),
            ("a+1", Some(ask), Typed::NoAnswer),
            ("a01", Some(ask), Typed::NoAnswer),
            ("a1", Some(none), Typed::NoAnswer),
            ("a", Some(none), Typed::NoAnswer),
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

    /// A typed amount raises a limit, in the unit that people use; it does not answer a question about a call.
    #[test]
    fn a_question_for_more_is_answered_by_an_amount() {
        let about = |resource| Some(Question { ask: Seq(7), more: Some(resource), offers: 0 });
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
            assert_eq!(read(line, about(resource)), expected, "{line:?}");
        }
        assert_eq!(read("5000", Some(Question { ask: Seq(7), more: None, offers: 1 })), Typed::NoAnswer);
        for resource in Resource::ALL {
            let answers = more_answers(resource);
            let example =
                answers.rsplit(", ").next().unwrap_or_default().split(':').next().unwrap_or_default().to_owned();
            assert!(matches!(read(&example, about(resource)), Typed::Answer(..)), "what is proposed works: {answers}");
        }
    }
}
