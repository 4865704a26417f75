//! The commands that a host, or the runtime for it, gives a session.
//!
//! A command is one type beside the code that decides about it (`pin.rs` has [`PinMessage`]), and one line in the list below:
//! everything else that must know of all commands asks them through [`Decide`].

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    kernel::{Entry, Held, Limits, Record, Recorded, Refusal, decide::Draft},
    words::ids::Seq,
};

pub(crate) use crate::kernel::{
    advance::{Abort, GoOn, Pause, Resume},
    back::RollBack,
    batch::AnswerAsk,
    branch::{GiveUpBranch, LeaveBranch, SumUpBranch},
    child::{BeAdopted, Orphan, StopTask},
    compact::Compact,
    decide::Configure,
    edit::{ClearQueue, EditMessage, WithdrawMessage},
    end::End,
    handoff::{BeginAnchor, HandOff},
    inbox::SendMessage,
    merge::Merge,
    pin::{PinMessage, UnpinMessage},
    restored::RecordRestored,
    tasks::{Adopt, Spawn},
    undo::UndoCompaction,
};

/// What the core, its shell and its readers must know of a command.
pub(super) trait Decide {
    /// What it is called, for the tree and for whoever replays.
    fn name(&self) -> &'static str;

    /// What it is called on the tape.
    fn is() -> &'static str
    where
        Self: Sized;

    /// Reads it back from what it wrote by itself, and from what else was recorded of it. It need not be what it was: it must lead
    /// to the same.
    fn read_back(recorded: &Recorded, wrote: &[Entry]) -> Option<Self>
    where
        Self: Sized;

    /// What is recorded of it beside what it wrote: small values that no entry of it holds.
    fn record(&self, fields: &mut Map<String, Value>) {
        let _ = fields;
    }

    /// Another kind of command that it is recorded as, where it did what that one does.
    fn recorded_as(&self, wrote: &[Entry]) -> Option<&'static str> {
        let _ = wrote;
        None
    }

    /// What follows from it, and what its sender is told.
    fn decide(&self, draft: &mut Draft<'_>) -> Result<Held, Refusal>;

    /// What it wants, in words that name what it is about.
    fn in_words(&self) -> String {
        self.name().to_owned()
    }

    /// The ticket or the entry that it is about.
    fn about(&self) -> Option<Seq> {
        None
    }

    /// What was said, for whoever traces a session in full.
    fn said(&self) -> Option<String> {
        None
    }

    /// Whether its sender knows it by an id of its own.
    fn has_an_id(&self) -> bool {
        false
    }

    /// Whether it adds work: refused where the queue is full.
    fn adds_work(&self) -> bool {
        false
    }

    /// Whether it begins work of its own: refused while the runtime drains.
    fn begins_work(&self) -> bool {
        false
    }

    /// Whether it stops what runs: it stays where the disk refuses it, for what it stops is stopped at once.
    fn stops(&self) -> bool {
        false
    }

    /// The size of what it brings, in bytes, about.
    fn bytes(&self) -> usize {
        0
    }

    /// Whether it stands alone in its append, and nothing more follows from it.
    fn stands_alone(&self) -> bool {
        false
    }
}

macro_rules! commands {
    ($($command:ident),* $(,)?) => {
        /// Everything that may be wanted of a session.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub(crate) enum Command {
            $(#[doc = concat!("See [`", stringify!($command), "`].")] $command($command)),*
        }

        impl Command {
            fn as_decide(&self) -> &dyn Decide {
                match self {
                    $(Command::$command(command) => command),*
                }
            }

            fn is(&self) -> &'static str {
                match self {
                    $(Command::$command(_) => <$command as Decide>::is()),*
                }
            }

            /// Reads a command back from what is recorded of it.
            pub(super) fn read_back(recorded: &Recorded, wrote: &[Entry]) -> Option<Command> {
                $(
                    if recorded.is == <$command as Decide>::is() {
                        return $command::read_back(recorded, wrote).map(Command::$command);
                    }
                )*
                None
            }
        }

        $(
            impl From<$command> for Command {
                fn from(command: $command) -> Command {
                    Command::$command(command)
                }
            }

            #[cfg(test)]
            impl $command {
                /// The command, for whoever is to be answered so.
                #[allow(dead_code, reason = "each command has it, and no test needs all")]
                pub(crate) fn to(self, reply: $crate::kernel::ReplyTo) -> $crate::kernel::Input {
                    $crate::kernel::Input::Command { reply, command: self.into(), id: None }
                }
            }
        )*
    };
}

commands! {
    SendMessage,
    EditMessage,
    WithdrawMessage,
    ClearQueue,
    AnswerAsk,
    Abort,
    GoOn,
    Pause,
    Resume,
    Configure,
    Compact,
    RecordRestored,
    UndoCompaction,
    SumUpBranch,
    GiveUpBranch,
    LeaveBranch,
    PinMessage,
    UnpinMessage,
    RollBack,
    Merge,
    BeginAnchor,
    HandOff,
    Spawn,
    Adopt,
    End,
    StopTask,
    Orphan,
    BeAdopted,
}

impl Command {
    /// What it is called.
    #[must_use]
    pub(crate) fn name(&self) -> &'static str {
        self.as_decide().name()
    }

    /// What it wants, in words that name what it is about.
    #[must_use]
    pub(crate) fn in_words(&self) -> String {
        self.as_decide().in_words()
    }

    /// The ticket or the entry that it is about.
    #[must_use]
    pub(crate) fn about(&self) -> Option<Seq> {
        self.as_decide().about()
    }

    /// What was said, for whoever traces a session in full.
    #[must_use]
    pub(crate) fn said(&self) -> Option<String> {
        self.as_decide().said()
    }

    /// Whether it begins work of its own: refused while the runtime drains.
    #[must_use]
    pub(crate) fn begins_work(&self) -> bool {
        self.as_decide().begins_work()
    }

    /// Whether it adds work: refused where the queue is full.
    #[must_use]
    pub(crate) fn adds_work(&self) -> bool {
        self.as_decide().adds_work()
    }

    /// Whether it ends the running turn, whatever that is at.
    #[must_use]
    pub(crate) fn ends_the_turn(&self) -> bool {
        matches!(self, Command::Abort(_) | Command::End(_))
    }

    /// Whether it stops what runs.
    #[must_use]
    pub(crate) fn stops(&self) -> bool {
        self.as_decide().stops()
    }

    /// The size of what it brings, in bytes, about.
    #[must_use]
    pub(crate) fn bytes(&self) -> usize {
        self.as_decide().bytes()
    }

    /// Whether it stands alone in its append, and nothing more follows from it.
    #[must_use]
    pub(crate) fn stands_alone(&self) -> bool {
        self.as_decide().stands_alone()
    }

    /// Whether its sender knows it by an id of its own.
    pub(super) fn has_an_id(&self) -> bool {
        self.as_decide().has_an_id()
    }

    /// What its first entry says of it.
    pub(super) fn recorded(&self, wrote: &[Entry]) -> Recorded {
        let command = self.as_decide();
        if let Some(is) = command.recorded_as(wrote) {
            return Recorded::new(is);
        }
        let mut recorded = Recorded::new(self.is());
        command.record(&mut recorded.fields);
        recorded
    }

    pub(super) fn decide(&self, draft: &mut Draft<'_>) -> Result<Held, Refusal> {
        self.as_decide().decide(draft)
    }
}

/// What an input wrote first, by itself.
pub(super) fn first(wrote: &[Entry]) -> Option<&Record> {
    wrote.first().map(|entry| &entry.record)
}

/// What becomes of a message when the session is busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// A turn of its own, after this one. Also called follow-up.
    #[default]
    Queue,
    /// Into the running turn, before its next step.
    Steer(Steering),
    /// Only if the session is idle; else [`Refusal::Busy`](crate::kernel::Refusal::Busy).
    Reject,
}

/// What becomes of the calls of the running step when a message steers. The strongest waiting one wins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Steering {
    /// All calls run; then the message is read.
    FinishBatch,
    /// Running calls finish, the others are answered "skipped".
    #[default]
    SkipRemaining,
    /// The model's stream is closed and running calls are stopped, with all their processes.
    AbortRunning,
}

/// A person's answer to an ask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grant {
    /// This call may run.
    Once,
    /// This call may run, and so may all that ask for the same again within the scope.
    Always(Scope),
    /// Only of a question for more of a budget: its limits are raised by so much. There, `Once` raises the limit by as much as
    /// it was, `Always` lifts it, and `Reject` ends the turn.
    Raise(Limits),
    /// This call may not run. With a message the model is told and goes on; without one the turn ends (C-06).
    Reject(Option<String>),
}

/// How far a standing grant reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The running turn.
    Turn,
    /// The session.
    #[default]
    Session,
}
