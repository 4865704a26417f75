//! The commands of `--json`: a program writes one JSON object a line on stdin, and gets a reply to each. They are another thing
//! than the commands of the command line, and than lines that begin with `/` (those are one of these: `command`).
//!
//! `command/line.rs` reads the lines. Each line has a reply here, also a bad one and one that is not carried out because the run
//! has ended or a later line stopped it; `run/listener.rs` sends the replies.
//!
//! A change may add fields, and must not change one: the lines are a promise to programs (`docs/FORMATS.md`).

mod line;

use serde_json::{Map, Value, json};
use tamtam::{
    Delivery, Message, MessageId, Receipt, SendError, Seq,
    runtime::{CommandError, Commanded},
    session::{Grant, Refusal},
};

use super::grants::{AnswerError, Host, listed};

/// A command that a line of stdin gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Send { text: String, id: Option<MessageId>, delivery: Delivery, pin: bool },
    Abort { reason: String },
    Queue,
    Withdraw { message: MessageId },
    Answer { ask: Seq, grant: Grant, who: Option<String>, digest: Option<String> },
    Grants,
    Revoke { grant: Seq },
    Pin { message: MessageId },
    Unpin { message: MessageId },
    ResetLoops,
    Tree,
    Line { line: String },
}

impl Command {
    fn name(&self) -> &'static str {
        match self {
            Command::Send { .. } => "send",
            Command::Abort { .. } => "abort",
            Command::Queue => "queue",
            Command::Withdraw { .. } => "withdraw",
            Command::Answer { .. } => "answer",
            Command::Grants => "grants",
            Command::Revoke { .. } => "revoke",
            Command::Pin { .. } => "pin",
            Command::Unpin { .. } => "unpin",
            Command::ResetLoops => "reset",
            Command::Tree => "tree",
            Command::Line { .. } => "command",
        }
    }

    /// Whether the command ends the running turn.
    pub(super) fn stops(&self) -> bool {
        matches!(self, Command::Abort { .. })
    }

    /// The answer to a command that came after the end of the run: nothing was done.
    pub(super) fn too_late(self) -> Value {
        let message = "the run has ended, so nothing was done: `tamtam run --session ID` continues the session";
        json!({"command": self.name(), "error": {"kind": "closed", "message": message}})
    }

    /// Carries out the command, and gives the answer. It waits until the session has answered: for its tape, and for a model where
    /// the line is `/title` or `/summary`.
    pub(super) async fn carry_out(self, host: &Host) -> Value {
        let name = self.name();
        let session = &host.session;
        let done = match self {
            Command::Send { text, id, delivery, pin } => {
                let message = Message::user(text);
                let message = if let Some(id) = id { message.with_id(id) } else { message };
                let message = if pin { message.pinned() } else { message };
                session.send(message, delivery).await.map(|receipt| sent(&receipt))
            }
            Command::Abort { reason } => session.abort(reason).await.map(|_| json!({})),
            Command::Queue => session.queue().await.map(|queue| json!({"queue": queue})),
            Command::Withdraw { message } => session.withdraw(message).await.map(|()| json!({})),
            Command::Grants => {
                let grants = session.grants().await;
                grants.map(|grants| json!({"grants": grants.iter().map(listed).collect::<Vec<_>>()}))
            }
            Command::Revoke { grant } => session.revoke(grant).await.map(|()| json!({})),
            Command::Answer { ask, grant, who, digest } => match host.answer(ask, grant, who, digest).await {
                Ok(()) => Ok(json!({})),
                Err(AnswerError::Send(error)) => Err(error),
                Err(AnswerError::Project { kind, message }) => {
                    return json!({"command": name, "error": {"kind": kind, "message": message}});
                }
            },
            Command::Pin { message } => session.pin(message).await.map(|()| json!({})),
            Command::Unpin { message } => session.unpin(message).await.map(|()| json!({})),
            Command::ResetLoops => session.reset_loops().await.map(|()| json!({})),
            Command::Tree => Ok(json!({"tree": host.runtime.tree()})),
            Command::Line { line } => match session.command(&line, Delivery::Queue).await {
                Ok(Commanded::Sent(receipt)) => Ok(sent(&receipt)),
                Ok(Commanded::Said(words)) => Ok(json!({"said": words})),
                Ok(Commanded::Task(child)) => Ok(json!({"task": child})),
                Ok(_) => Ok(json!({})),
                Err(CommandError::Session(error)) => Err(error),
                Err(error) => {
                    return json!({"command": name, "error": {"kind": error.kind(), "message": error.to_string()}});
                }
            },
        };
        let mut reply = Map::from_iter([("command".to_owned(), name.into())]);
        match done {
            Ok(Value::Object(fields)) => reply.extend(fields),
            Ok(_) => {}
            Err(error) => {
                reply.insert("error".to_owned(), refused(&error));
            }
        }
        Value::Object(reply)
    }
}

fn sent(receipt: &Receipt) -> Value {
    json!({"message": receipt.message, "seq": receipt.seq, "disposition": receipt.disposition})
}

/// The answer to a command that stood before an abort and waited for the reader of the replies: nothing was done.
pub(super) fn overtaken(command: &Command) -> Value {
    let message = "a later line stopped the session while the replies were not read, so nothing was done";
    json!({"command": command.name(), "error": {"kind": "overtaken", "message": message}})
}

/// The answer to a bad line.
pub(super) fn bad_line(message: &str) -> Value {
    json!({"error": {"kind": "bad_line", "message": message}})
}

/// The reply to the line of stdin with this number. Lines are counted from 1.
pub(super) fn reply(number: u64, mut answer: Value) -> Value {
    answer["re"] = number.into();
    json!({"reply": answer})
}

/// The error of a reply: `kind` is a stable word for programs, `message` has the library's own words.
fn refused(error: &SendError) -> Value {
    json!({"kind": kind(error), "message": error.to_string()})
}

fn kind(error: &SendError) -> &'static str {
    match error {
        SendError::Refused(Refusal::Busy { .. }) => "busy",
        SendError::Refused(Refusal::TurnMismatch { .. }) => "turn_mismatch",
        SendError::Refused(Refusal::InboxFull { .. }) => "inbox_full",
        SendError::Refused(Refusal::AskClosed { .. }) => "ask_closed",
        SendError::Refused(Refusal::NoSuchOffer { .. }) => "no_such_offer",
        SendError::Refused(Refusal::NoSuchGrant { .. }) => "no_such_grant",
        SendError::Refused(Refusal::TooManyGrants { .. }) => "too_many_grants",
        SendError::Refused(Refusal::NotWaiting { .. }) => "not_waiting",
        SendError::Refused(Refusal::Empty) => "empty",
        SendError::Parked => "parked",
        SendError::Draining => "draining",
        SendError::Closed => "closed",
        SendError::Stopped => "stopped",
        SendError::Unsettled { .. } => "unsettled",
        SendError::Refused(Refusal::Ended) => "ended",
        SendError::Storage(_) => "storage",
        _ => "refused",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tamtam::session::Refusal;

    use super::*;

    /// The message of a reply has the library's words, and those of the core's refusal.
    #[test]
    fn a_reply_to_a_refused_command_has_the_words_of_the_refusal() {
        let cases = [
            (Refusal::TurnMismatch { expected: Seq(4), actual: Some(Seq(9)) }, "turn_mismatch"),
            (Refusal::InboxFull { depth: 256 }, "inbox_full"),
            (Refusal::Busy { turn: Seq(7) }, "busy"),
            (Refusal::AskClosed { ask: Seq(3) }, "ask_closed"),
            (Refusal::NothingToCompact, "refused"),
        ];
        for (refusal, kind) in cases {
            let message = refusal.to_string();
            assert_eq!(refused(&refusal.into()), json!({"kind": kind, "message": message}));
        }
    }
}
