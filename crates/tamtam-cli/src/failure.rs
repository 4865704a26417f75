//! How a command ends: with an exit code ([`Exit`]), and after most failures with one line for the user ([`Failure`]).
//!
//! Each error of the library that reaches a user is turned into a [`Failure`] here, or in the module of its command. Where
//! something can be done, its message says what. Does no I/O: `end` in `main.rs` writes and escapes the line.
//!
//! A change must keep the numbers of [`Exit`] and the words of [`Failure::kind`], which programs read: both are a promise
//! (`docs/FORMATS.md`).

use std::process::ExitCode;

use tamtam::{
    OpenError, Outcome, SendError,
    runtime::{Kind, StartError},
    session::Refusal,
    tape::TapeError,
};

/// How a command ended. The numbers are a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Exit {
    /// The command did what was asked.
    Done = 0,
    /// The command began and failed: a refused key, an unreachable server, a claimed session, a full disk.
    Failed = 1,
    /// The command could not begin: wrong arguments or configuration.
    Usage = 2,
    /// A person, a budget, the limit of steps or the guard against loops stopped it.
    Stopped = 3,
    /// The turn was aborted, or a signal ended the command.
    Aborted = 130,
}

impl Exit {
    /// The number that the shell sees.
    pub(super) fn code(self) -> u8 {
        self as u8
    }

    /// How a turn's outcome ends the command.
    pub(super) fn of(outcome: &Outcome) -> Exit {
        match outcome {
            Outcome::Done => Exit::Done,
            Outcome::Aborted { .. } => Exit::Aborted,
            Outcome::Rejected { .. }
            | Outcome::StepLimit { .. }
            | Outcome::Budget { .. }
            | Outcome::DoomLoop { .. } => Exit::Stopped,
            _ => Exit::Failed,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

/// Why a command did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) exit: Exit,
    /// What a program can do about it: `usage`, or a kind of the library's errors (`docs/FORMATS.md`).
    pub(super) kind: String,
    /// What happened and what to do; empty for a command that ends quietly.
    pub(super) message: String,
}

impl Failure {
    /// The command began and failed.
    pub(super) fn failed(message: impl Into<String>) -> Failure {
        Failure { exit: Exit::Failed, kind: in_words(Kind::Failed), message: message.into() }
    }

    /// The command could not begin.
    pub(super) fn usage(message: impl Into<String>) -> Failure {
        Failure { exit: Exit::Usage, kind: "usage".to_owned(), message: message.into() }
    }

    /// The command ends without a line.
    pub(super) fn quiet(exit: Exit) -> Failure {
        Failure { exit, kind: in_words(Kind::Failed), message: String::new() }
    }
}

/// A kind as programs read it.
fn in_words(kind: Kind) -> String {
    serde_json::json!(kind).as_str().unwrap_or_default().to_owned()
}

impl Failure {
    /// The same failure with another kind.
    fn of(self, kind: Kind) -> Failure {
        Failure { kind: in_words(kind), ..self }
    }

    /// The line for programs that says why a command with `--json` did not begin.
    pub(super) fn line(&self) -> String {
        let failure = serde_json::json!({"kind": self.kind, "message": self.message});
        format!("{}\n", serde_json::json!({"failure": failure}))
    }
}

impl From<TapeError> for Failure {
    fn from(error: TapeError) -> Failure {
        let (exit, advice) = match &error {
            _ if error.is_full() => (Exit::Failed, ": free some space there; nothing that was accepted is lost"),
            TapeError::Index { is_damaged: true, .. } => (Exit::Failed, ": `tamtam tape rebuild` rebuilds it"),
            // The database says "disk I/O error" of a full disk too.
            TapeError::Index { message, .. } if message.contains("disk") => {
                (Exit::Failed, ": if the disk is full, free some space there; the tapes are as they were")
            }
            TapeError::Index { .. } => (Exit::Failed, ""),
            TapeError::Claimed { .. } => (Exit::Failed, ": wait until that process ends, or use another session"),
            TapeError::Damaged(_) => {
                (Exit::Failed, ": `tamtam tape verify` lists the damage, `tamtam tape fork ID` continues before it")
            }
            TapeError::Newer { .. } => (Exit::Failed, ": use a newer tamtam"),
            TapeError::Missing { .. } => (Exit::Usage, ": `tamtam sessions` lists the sessions"),
            TapeError::Query { .. } => (Exit::Usage, " (see `tamtam tape search --help`)"),
            TapeError::NoEntry { .. } | TapeError::InsideAppend { .. } => (Exit::Usage, ""),
            TapeError::Exists { .. } => (Exit::Usage, ": choose another id"),
            TapeError::Io { source, .. } if is_a_matter_of_place(source.kind()) => {
                (Exit::Usage, ": choose another folder with --store")
            }
            _ => (Exit::Failed, ""),
        };
        let message = format!("{error}{advice}");
        Failure { exit, kind: in_words(error.kind()), message }
    }
}

/// Whether another folder would help: the folder is wrong, not the state of the disk.
fn is_a_matter_of_place(kind: std::io::ErrorKind) -> bool {
    use std::io::ErrorKind::{AlreadyExists, NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem};
    matches!(kind, AlreadyExists | NotADirectory | NotFound | PermissionDenied | ReadOnlyFilesystem)
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Failure {
        match error {
            StartError::Store(error) => error.into(),
            other => Failure::failed(other.to_string()).of(other.kind()),
        }
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Failure {
        let kind = error.kind();
        match error {
            OpenError::Tape(error) => error.into(),
            OpenError::Workspace { .. } => Failure::usage(format!("{error}: choose a folder with --workspace")),
            OpenError::Damaged { ref session, .. } => Failure::failed(format!(
                "{error}: `tamtam tape verify` lists the damage, `tamtam tape fork {session}` continues before it"
            ))
            .of(kind),
            other => Failure::failed(other.to_string()).of(kind),
        }
    }
}

impl From<SendError> for Failure {
    fn from(error: SendError) -> Failure {
        let kind = error.kind();
        match error {
            SendError::Storage(error) => error.into(),
            SendError::Refused(Refusal::Empty) => Failure::usage("the prompt is empty: say what to do"),
            SendError::Parked => {
                Failure::failed("the session kept crashing; `tamtam resume ID` tries once more").of(kind)
            }
            other => Failure::failed(other.to_string()).of(kind),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "database disk image is malformed" was taken for a full disk.
    #[test]
    fn only_a_damaged_index_is_to_be_rebuilt_and_only_a_full_disk_to_be_cleared() {
        for (message, is_damaged, advice) in [
            ("database disk image is malformed", true, ": `tamtam tape rebuild` rebuilds it"),
            ("database or disk is full", false, ": free some space there; nothing that was accepted is lost"),
            ("disk I/O error", false, ": if the disk is full, free some space there; the tapes are as they were"),
            ("another process writes it", false, ""),
        ] {
            let error = TapeError::Index { op: "read", message: message.to_owned(), is_damaged };
            let plain = error.to_string();
            assert_eq!(Failure::from(error).message.strip_prefix(&plain), Some(advice), "{message}");
        }
    }
}
