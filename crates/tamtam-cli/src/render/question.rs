//! A question to a person, as text: what is asked, what each answer would allow, and how to answer. Pure functions.
//!
//! A change must keep this: a question about a call shows the whole call, uncut and escaped, because a person cannot judge what is
//! not shown. The possible answers come last, so that they are on the screen however long the call is.

use std::fmt::Write as _;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use tamtam::{
    permission::Offer,
    session::{AskClosedWhy, AskFrom, Grant, Repeats, Scope},
    tool::{Access, Question},
};

use crate::{escape, typed::call_answers};

/// The permission that is asked for where the model repeats its calls.
const REPEATS: &str = "doom_loop";

/// The arguments of a call, in the order in which the model gave them.
struct Fields(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Fields, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Fields;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        from.deserialize_map(InOrder)
    }
}

/// The question about a call; of a child's call, with the agents that it came through: `explore / plan / bash`. `ran` is how often
/// the call has run in this turn.
pub(super) fn about_call(
    from: &[AskFrom],
    name: &str,
    input: &str,
    access: &[Access],
    offers: &[Offer],
    (repeats, ran): (Option<Repeats>, usize),
) -> String {
    let mut lines = format!("? {}{}:\n", way(from), escape::line(name));
    match serde_json::from_str::<Fields>(input) {
        Ok(Fields(mut fields)) => {
            // A model may give the new text first.
            fields.sort_by_key(|(name, _)| (mark(name) != ' ', mark(name) == '+'));
            fields.iter().for_each(|(name, value)| field(&mut lines, name, value));
        }
        Err(_) => {
            // Writing to a String cannot fail.
            let _ = writeln!(lines, "    {}", escape::text(input).replace('\n', "\n    "));
        }
    }
    wants(&mut lines, access, offers);
    if access.iter().any(|access| access.permission == REPEATS) {
        let times = match ran {
            1 => "once".to_owned(),
            times => format!("{times} times"),
        };
        let what = match repeats {
            Some(Repeats { calls: 1, times, .. }) => {
                format!("it asks for this call for the {} time in a row; ", nth(times))
            }
            Some(Repeats { calls, times, .. }) => {
                format!("it makes the same {calls} calls in turn, this one for the {} time; ", nth(times))
            }
            None => String::new(),
        };
        let _ = writeln!(lines, "  The agent repeats itself: {what}this exact call has run {times} in this turn.");
    }
    let _ = write!(lines, "  Allow {} to run? {}", escape::line(name), call_answers("once", offers.len()));
    lines
}

fn nth(times: u32) -> String {
    match times {
        3 => "3rd".to_owned(),
        12.. => "12th or a later".to_owned(),
        times => format!("{times}th"),
    }
}

/// The question of a call that runs.
pub(super) fn by_call(from: &[AskFrom], asked: &Question, access: &[Access], offers: &[Offer]) -> String {
    let mut lines = String::new();
    for line in escape::text(&asked.details).lines() {
        let _ = writeln!(lines, "  | {line}");
    }
    wants(&mut lines, access, offers);
    let _ = write!(lines, "? {}{}\n  {}", way(from), escape::line(&asked.title), call_answers("yes", offers.len()));
    lines
}

fn way(from: &[AskFrom]) -> String {
    from.iter().map(|from| escape::line(&from.agent) + " / ").collect()
}

/// The mark of an argument's lines in a diff.
fn mark(name: &str) -> char {
    match name {
        "old_string" | "old_text" | "oldText" | "oldString" => '-',
        "new_string" | "new_text" | "newText" | "newString" => '+',
        _ => ' ',
    }
}

/// A text that is replaced and the text in its place stand as in a diff; each other argument under its name.
fn field(lines: &mut String, name: &str, value: &Value) {
    let mark = mark(name);
    match value.as_str().filter(|_| mark != ' ') {
        Some(text) => {
            for line in escape::text(text).split('\n') {
                let _ = writeln!(lines, "    {mark} {line}");
            }
        }
        None => {
            let value = value.as_str().map_or_else(|| escape::line(&value.to_string()), escape::text);
            let _ = writeln!(lines, "    {}: {}", escape::line(name), value.replace('\n', "\n      "));
        }
    }
}

/// What is asked about, and what each answer for more than once would allow.
fn wants(lines: &mut String, access: &[Access], offers: &[Offer]) {
    for access in access.iter().filter(|access| access.permission != REPEATS) {
        let _ = writeln!(lines, "  wants: {}", escape::line(&access.to_string()));
    }
    for offer in offers {
        let _ = writeln!(lines, "  [{}] {}", offer.offer, escape::line(allowed(offer)));
    }
}

/// What an offer allows, without the words around it.
fn allowed(offer: &Offer) -> &str {
    let allows = offer.allows.strip_prefix("Allows ").unwrap_or(&offer.allows);
    allows.strip_suffix('.').unwrap_or(allows)
}

/// The line about a question that is closed. `offers` are those of the question.
pub(super) fn closed(grant: Option<&Grant>, why: Option<AskClosedWhy>, offers: &[Offer]) -> String {
    let standing = |scope: Scope, number: u32| {
        let scope = match scope {
            Scope::Turn => "this turn",
            Scope::Session => "this session",
            Scope::Project => "this folder",
            _ => "more than this call",
        };
        match offers.iter().find(|offer| offer.offer == number) {
            Some(offer) => format!("Allowed for {scope}: {}", escape::line(allowed(offer))),
            None => format!("Allowed for {scope}"),
        }
    };
    let words = match (grant, why) {
        (Some(Grant::Once), _) => "Allowed once",
        (Some(Grant::Always(scope)), _) => return standing(*scope, 1),
        (Some(Grant::Offered { scope, offer }), _) => return standing(*scope, *offer),
        (Some(Grant::Raise(_)), _) => "Limit raised",
        (Some(Grant::Reject(_)), _) => "Rejected",
        (Some(Grant::Unheard), _) | (None, Some(AskClosedWhy::Unheard)) => {
            "Question closed: nobody was left to answer it"
        }
        (None, Some(AskClosedWhy::Expired)) => "Question closed: nobody answered in time, so the call was denied",
        (None, Some(AskClosedWhy::Withdrawn)) => "Question closed: a message came before an answer",
        (None, Some(AskClosedWhy::Aborted)) => "Question closed: the turn ended",
        (None, Some(AskClosedWhy::Rejected)) => "Question closed: another call of the turn was rejected",
        (None, Some(AskClosedWhy::Granted)) => "Question closed: an earlier answer allows this call too",
        (None, Some(AskClosedWhy::OverBelow)) => "Question closed: the task ended, or it was answered there",
        _ => "Question closed",
    };
    words.to_owned()
}
