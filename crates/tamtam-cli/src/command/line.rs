//! Reads a line that a program writes on stdin of a run with `--json`: which fields it may have, and which [`Command`] it is. Pure.
//!
//! The forms are read strictly: an unknown field, a key that is there twice, two commands in one line, or a field that does not fit
//! to another one is an error that names it. So a misspelt command never counts as another one.
//!
//! A change must keep that, and must accept every line that is accepted now: the lines are a promise to programs
//! (`docs/FORMATS.md`).

use serde::Deserialize;
use serde_json::{Map, Value};
use tamtam::{
    Delivery, MessageId, Seq, Steering,
    model::MicroUsd,
    session::{Grant, Limits, Scope},
};

use super::Command;
use crate::grants::standing;

const COMMANDS: [&str; 12] =
    ["send", "abort", "queue", "withdraw", "answer", "grants", "revoke", "pin", "unpin", "reset", "tree", "command"];

impl Command {
    /// Reads one line, or says what is wrong with the line.
    pub(crate) fn read(line: &str) -> Result<Command, String> {
        let value = serde_json::from_str(line).map_err(|error| format!("not JSON: {error}"))?;
        let Value::Object(fields) = &value else { return Err("a command is a JSON object".to_owned()) };
        // Beside `send`, `pin` is a field of the message and not a second command.
        let is_mark = |name: &str| name == "pin" && fields.contains_key("send");
        let mut named = COMMANDS.into_iter().filter(|name| fields.contains_key(*name) && !is_mark(name));
        match (named.next(), named.next()) {
            (None, _) => {
                let given = fields.keys().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
                let named = if given.is_empty() { "no command".to_owned() } else { format!("{given}: not a command") };
                Err(format!("{named}: use one of {}", COMMANDS.join(", ")))
            }
            (Some(one), Some(two)) => Err(format!("two commands in one line: {one} and {two}")),
            (Some("send"), None) => send(line),
            (Some("answer"), None) => answer(line),
            (Some(name @ ("queue" | "tree" | "grants")), None) => match (only(line, fields, name)?, name) {
                (Value::Bool(true), "queue") => Ok(Command::Queue),
                (Value::Bool(true), "grants") => Ok(Command::Grants),
                (Value::Bool(true), _) => Ok(Command::Tree),
                _ => Err(format!("`{name}` must be true")),
            },
            (Some("revoke"), None) => {
                let id = AskId::deserialize(only(line, fields, "revoke")?);
                let id = id.map_err(|_| "`revoke` must be the id of a grant".to_owned())?;
                Ok(Command::Revoke { grant: id.seq("`revoke` names no grant")? })
            }
            (Some("reset"), None) => match only(line, fields, "reset")? {
                Value::String(what) if what == "loops" => Ok(Command::ResetLoops),
                _ => Err("`reset` must be \"loops\"".to_owned()),
            },
            (Some(name), None) => match only(line, fields, name)? {
                Value::String(text) if name == "abort" => Ok(Command::Abort { reason: text.clone() }),
                Value::String(text) if name == "pin" => Ok(Command::Pin { message: text.as_str().into() }),
                Value::String(text) if name == "unpin" => Ok(Command::Unpin { message: text.as_str().into() }),
                Value::String(text) if name == "command" => match text.starts_with('/') {
                    true => Ok(Command::Line { line: text.clone() }),
                    false => Err("`command` must begin with /, such as /compact".to_owned()),
                },
                Value::String(text) => Ok(Command::Withdraw { message: text.as_str().into() }),
                _ => Err(format!("`{name}` must be a text")),
            },
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SendLine {
    send: String,
    id: Option<String>,
    #[serde(default)]
    delivery: DeliveryWord,
    steering: Option<Steering>,
    #[serde(default)]
    pin: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum DeliveryWord {
    #[default]
    Queue,
    Steer,
    Reject,
}

/// The commands whose lines have a single field. [`Command::read`] has refused two in one line.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "only the form is looked at")]
struct PlainLine {
    abort: Option<Value>,
    queue: Option<Value>,
    withdraw: Option<Value>,
    pin: Option<Value>,
    unpin: Option<Value>,
    grants: Option<Value>,
    revoke: Option<Value>,
    reset: Option<Value>,
    tree: Option<Value>,
    command: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswerLine {
    answer: AnswerFields,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswerFields {
    ask: AskId,
    grant: GrantWord,
    scope: Option<Scope>,
    offer: Option<u32>,
    who: Option<String>,
    message: Option<String>,
    by: Option<RaiseFields>,
    digest: Option<String>,
}

/// By how much limits are raised. Money is in millionths of a US dollar, as on every line.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RaiseFields {
    tokens: Option<u64>,
    micro_usd: Option<u64>,
    time_ms: Option<u64>,
    calls: Option<u64>,
    tasks: Option<u64>,
    bytes: Option<u64>,
}

impl RaiseFields {
    fn limits(self) -> Result<Limits, String> {
        let RaiseFields { tokens, micro_usd, time_ms, calls, tasks, bytes } = self;
        let usd = micro_usd.map(|micro| MicroUsd(micro).to_pico());
        let mut limits = Limits::default();
        (limits.tokens, limits.usd, limits.time_ms) = (tokens, usd, time_ms);
        (limits.calls, limits.tasks, limits.bytes) = (calls, tasks, bytes);
        match limits.is_none() {
            true => Err("`by` raises nothing: say by how much, such as {\"tokens\":5000}".to_owned()),
            false => Ok(limits),
        }
    }
}

/// The id of an ask or of a grant, as a number or as text.
#[derive(Deserialize)]
#[serde(untagged)]
enum AskId {
    Number(u64),
    Text(String),
}

impl AskId {
    fn seq(self, what: &str) -> Result<Seq, String> {
        match self {
            AskId::Number(number) => Ok(Seq(number)),
            AskId::Text(text) => text.trim().parse().map(Seq).map_err(|_| format!("{what}: {text:?}")),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum GrantWord {
    Once,
    Always,
    Raise,
    Reject,
}

/// The value of the command `name`, which must be the only field of the line.
fn only<'a>(line: &str, fields: &'a Map<String, Value>, name: &str) -> Result<&'a Value, String> {
    typed::<PlainLine>(line)?;
    Ok(&fields[name])
}

fn send(line: &str) -> Result<Command, String> {
    let line: SendLine = typed(line)?;
    let delivery = match (line.delivery, line.steering) {
        (DeliveryWord::Steer, steering) => Delivery::Steer(steering.unwrap_or_default()),
        (_, Some(_)) => return Err("`steering` needs \"delivery\":\"steer\"".to_owned()),
        (DeliveryWord::Queue, None) => Delivery::Queue,
        (DeliveryWord::Reject, None) => Delivery::Reject,
    };
    let id = line.id.map(MessageId::from);
    Ok(Command::Send { text: line.send, id, delivery, pin: line.pin })
}

fn answer(line: &str) -> Result<Command, String> {
    let fields = typed::<AnswerLine>(line)?.answer;
    let ask = fields.ask.seq("`ask` names no ask")?;
    let always = fields.grant == GrantWord::Always;
    match fields.offer {
        Some(_) if !always => return Err("`offer` needs \"grant\":\"always\"".to_owned()),
        Some(0) => return Err("`offer` is a number from 1".to_owned()),
        _ => {}
    }
    let grant = match (fields.grant, fields.scope, fields.message, fields.by) {
        (GrantWord::Once, None, None, None) => Grant::Once,
        (GrantWord::Always, scope, None, None) => standing(scope.unwrap_or_default(), fields.offer.unwrap_or(1)),
        (GrantWord::Raise, None, None, Some(by)) => Grant::Raise(by.limits()?),
        (GrantWord::Raise, None, None, None) => {
            return Err("\"grant\":\"raise\" needs `by`, such as {\"tokens\":5000}".to_owned());
        }
        (GrantWord::Reject, None, message, None) => Grant::Reject(message),
        (_, Some(_), ..) => return Err("`scope` needs \"grant\":\"always\"".to_owned()),
        (_, _, Some(_), _) => return Err("`message` needs \"grant\":\"reject\"".to_owned()),
        (.., Some(_)) => return Err("`by` needs \"grant\":\"raise\"".to_owned()),
    };
    Ok(Command::Answer { ask, grant, who: fields.who, digest: fields.digest })
}

/// Reads the text of the line and not its parsed value, because only the text shows a key that is there twice. Which of two such
/// values was meant is unknown, so the line is an error.
fn typed<T: serde::de::DeserializeOwned>(line: &str) -> Result<T, String> {
    let mut json = serde_json::Deserializer::from_str(line);
    serde_path_to_error::deserialize(&mut json).map_err(|error| match error.path().to_string().as_str() {
        "." => error.into_inner().to_string(),
        path => format!("`{path}`: {}", error.inner()),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_commands_of_the_interface_are_read() {
        let send = |delivery| Command::Send { text: "x".to_owned(), id: None, delivery, pin: false };
        let answer = |grant| Command::Answer { ask: Seq(9), grant, who: None, digest: None };
        let dollars = |usd: &str| Grant::Raise(Limits::default().usd(usd.parse().unwrap()));
        let cases = [
            (r#"{"send":"x"}"#, send(Delivery::Queue)),
            (r#"{"send":"x","delivery":"queue"}"#, send(Delivery::Queue)),
            (r#"{"send":"x","delivery":"reject"}"#, send(Delivery::Reject)),
            (r#"{"send":"x","delivery":"steer"}"#, send(Delivery::Steer(Steering::SkipRemaining))),
            (
                r#"{"send":"x","delivery":"steer","steering":"finish_batch"}"#,
                send(Delivery::Steer(Steering::FinishBatch)),
            ),
            (
                r#"{"send":"x","delivery":"steer","steering":"abort_running"}"#,
                send(Delivery::Steer(Steering::AbortRunning)),
            ),
            (
                r#"{"send":"x","pin":true}"#,
                Command::Send { text: "x".to_owned(), id: None, delivery: Delivery::Queue, pin: true },
            ),
            (
                r#"{"send":"x","id":"m"}"#,
                Command::Send { text: "x".to_owned(), id: Some("m".into()), delivery: Delivery::Queue, pin: false },
            ),
            (r#"{"pin":"ID"}"#, Command::Pin { message: "ID".into() }),
            (r#"{"unpin":"ID"}"#, Command::Unpin { message: "ID".into() }),
            (r#"{"abort":"why"}"#, Command::Abort { reason: "why".to_owned() }),
            (r#"{"queue":true}"#, Command::Queue),
            (r#"{"withdraw":"ID"}"#, Command::Withdraw { message: "ID".into() }),
            (r#"{"answer":{"ask":9,"grant":"once"}}"#, answer(Grant::Once)),
            (
                r#"{"answer":{"ask":9,"grant":"once","who":"ada"}}"#,
                Command::Answer { ask: Seq(9), grant: Grant::Once, who: Some("ada".to_owned()), digest: None },
            ),
            (r#"{"answer":{"ask":"9","grant":"always"}}"#, answer(Grant::Always(Scope::Session))),
            (r#"{"answer":{"ask":9,"grant":"always","scope":"turn"}}"#, answer(Grant::Always(Scope::Turn))),
            (
                r#"{"answer":{"ask":9,"grant":"always","scope":"turn","offer":2}}"#,
                answer(Grant::Offered { scope: Scope::Turn, offer: 2 }),
            ),
            (r#"{"answer":{"ask":9,"grant":"always","offer":1}}"#, answer(Grant::Always(Scope::Session))),
            (r#"{"answer":{"ask":9,"grant":"always","scope":"project"}}"#, answer(Grant::Always(Scope::Project))),
            (r#"{"grants":true}"#, Command::Grants),
            (r#"{"revoke":"7"}"#, Command::Revoke { grant: Seq(7) }),
            (r#"{"revoke":7}"#, Command::Revoke { grant: Seq(7) }),
            (r#"{"reset":"loops"}"#, Command::ResetLoops),
            (r#"{"answer":{"ask":9,"grant":"reject"}}"#, answer(Grant::Reject(None))),
            (r#"{"answer":{"ask":9,"grant":"reject","message":"no"}}"#, answer(Grant::Reject(Some("no".to_owned())))),
            (
                r#"{"answer":{"ask":9,"grant":"raise","by":{"tokens":5000,"calls":2}}}"#,
                answer(Grant::Raise(Limits::default().tokens(5_000).calls(2))),
            ),
            (r#"{"answer":{"ask":9,"grant":"raise","by":{"micro_usd":250000}}}"#, answer(dollars("0.25"))),
            (r#"{"tree":true}"#, Command::Tree),
            (r#"{"command":"/compact"}"#, Command::Line { line: "/compact".to_owned() }),
        ];
        for (line, expected) in cases {
            assert_eq!(Command::read(line), Ok(expected), "{line}");
        }
    }

    #[test]
    fn a_bad_line_is_named_and_is_no_command() {
        let cases = [
            ("", "not JSON"),
            ("send it", "not JSON"),
            ("[]", "a command is a JSON object"),
            ("{}", "no command: use one of send, abort"),
            (r#"{"sent":"x"}"#, "`sent`: not a command"),
            (r#"{"send":"x","send":"y"}"#, "duplicate field `send`"),
            (r#"{"abort":"x","abort":"y"}"#, "duplicate field `abort`"),
            (r#"{"answer":{"ask":9,"grant":"once","grant":"reject"}}"#, "duplicate field `grant`"),
            (r#"{"send":"x","abort":"y"}"#, "two commands in one line: send and abort"),
            (r#"{"send":7}"#, "`send`"),
            (r#"{"send":"x","delivery":"later"}"#, "`delivery`: unknown variant `later`"),
            (r#"{"send":"x","steering":"finish_batch"}"#, "`steering` needs"),
            (r#"{"send":"x","to":"y"}"#, "unknown field `to`"),
            (r#"{"abort":true}"#, "`abort` must be a text"),
            (r#"{"pin":true}"#, "`pin` must be a text"),
            (r#"{"send":"x","pin":"ID"}"#, "`pin`"),
            (r#"{"queue":false}"#, "`queue` must be true"),
            (r#"{"command":"compact"}"#, "`command` must begin with /"),
            (r#"{"command":true}"#, "`command` must be a text"),
            (r#"{"tree":true,"deep":true}"#, "unknown field `deep`"),
            (r#"{"answer":{"ask":"x","grant":"once"}}"#, "names no ask"),
            (r#"{"answer":{"ask":9,"grant":"maybe"}}"#, "unknown variant `maybe`"),
            (r#"{"answer":{"ask":9,"grant":"once","scope":"turn"}}"#, "`scope` needs"),
            (r#"{"answer":{"ask":9,"grant":"always","scope":"world"}}"#, "unknown variant `world`"),
            (r#"{"answer":{"ask":9,"grant":"once","offer":1}}"#, "`offer` needs"),
            (r#"{"answer":{"ask":9,"grant":"always","offer":0}}"#, "a number from 1"),
            (r#"{"answer":{"ask":9,"grant":"always","offer":"2"}}"#, "`answer.offer`"),
            (r#"{"revoke":"x"}"#, "names no grant"),
            (r#"{"revoke":true}"#, "must be the id"),
            (r#"{"reset":true}"#, "must be \"loops\""),
            (r#"{"reset":"all"}"#, "must be \"loops\""),
            (r#"{"grants":false}"#, "`grants` must be true"),
            (r#"{"answer":{"ask":9,"grant":"raise"}}"#, "needs `by`"),
            (r#"{"answer":{"ask":9,"grant":"raise","by":{}}}"#, "raises nothing"),
            (r#"{"answer":{"ask":9,"grant":"once","by":{"tokens":1}}}"#, "`by` needs"),
            (r#"{"answer":{"ask":9,"grant":"raise","by":{"micro_usd":0.25}}}"#, "0.25"),
            (r#"{"answer":{"ask":9,"grant":"raise","by":{"usd":1}}}"#, "micro_usd"),
            (r#"{"answer":{"ask":9,"grant":"raise","by":{"euros":1}}}"#, "euros"),
        ];
        for (line, expected) in cases {
            let error = Command::read(line).err().unwrap_or_default();
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}
