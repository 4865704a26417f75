//! The inputs of the core: a command of a host, a report of a worker, time that passed, a recovery, and two that bring nothing new:
//! [`Input::Look`] (decide what follows from the state) and [`Input::Hold`] (a recovery comes next). Also the list of the commands.
//!
//! An input is a plain value. It may be decided several times until the tape has its record, so a clone must mean the same.
//!
//! A command is one type with its [`Decide`] (`pin.rs` has [`PinMessage`]): what it leads to, and the properties that only some
//! commands have, such as that it stops running work. It has one line in the list below with its name on the tape, and one row in
//! `recorded.rs`, which reads it back from what it wrote.
//!
//! A change must not rename what [`Input::name`] returns: it is written on the tape and read back by `recorded.rs`. What a decision
//! about a new input or value depends on must be readable back from its entries or from [`Command::recorded`], or replay fails.

use std::collections::BTreeMap;

use crate::{
    kernel::{ReplyTo, Report, draft::Decide},
    tool::CallFacts,
    words::ids::{CommandId, MessageId, Seq},
};

pub(crate) use crate::kernel::{
    children::{
        child::{BeAdopted, Orphan, StopTask},
        task_ask::{TaskAskOver, TaskAsked},
        tasks::{Adopt, Spawn, StopChild},
    },
    context::{
        compact::Compact,
        pin::{PinMessage, UnpinMessage},
        undo::UndoCompaction,
    },
    history::{
        back::RollBack,
        branch::{GiveUpBranch, LeaveBranch, SumUpBranch},
        handoff::{BeginAnchor, HandOff},
        merge::Merge,
        restored::RecordRestored,
    },
    turn::{
        advance::{Abort, GoOn, Pause, Resume},
        ahead::NoteSent,
        answer_ask::AnswerAsk,
        edit::{ClearQueue, EditMessage, WithdrawMessage},
        end::End,
        grants::{RevokeAll, RevokeGrant},
        inbox::SendMessage,
        question::PutQuestion,
        repeats::ResetLoops,
        switch::{Configure, SwitchAgent},
    },
};

/// One thing that happened, as the core is told of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Input {
    /// A host, or the runtime for it, gives a command.
    Command {
        /// The sender to answer.
        reply: ReplyTo,
        /// The command.
        command: Command,
        /// The id of the command. A command that was done under this id is not done again; its sender is told what was done.
        id: Option<CommandId>,
    },
    /// A worker reports. Taken only if its ticket is open.
    Report {
        /// The ticket that it worked on.
        ticket: Seq,
        /// The report.
        report: Report,
    },
    /// The clock passed a moment that the state named ([`State::due`](crate::kernel::State::due)).
    Timer,
    /// The session was rebuilt from its tape, and no worker is alive.
    Recover {
        /// The present facts of the calls that are not over ([`State::calls_to_ask`](crate::kernel::State::calls_to_ask)), as the
        /// tools tell them, by position in the answer. A call that is left out keeps its former facts.
        calls: BTreeMap<u32, CallFacts>,
    },
    /// The session's actor is being stopped in order: the next recovery follows no crash. Nothing follows from it.
    Stop,
    /// Nothing happened: only what follows from the state is decided, because the host may have changed meanwhile.
    Look,
    /// A recovery follows in an append of its own: the reports before this input are recorded, and nothing follows from them yet.
    Hold,
}

impl Input {
    /// A recovery after which the tools say what they said before.
    #[cfg(test)]
    pub(crate) fn recover() -> Input {
        Input::Recover { calls: BTreeMap::new() }
    }

    /// The same command under an id; any other input as it is.
    #[cfg(test)]
    pub(crate) fn under(self, id: CommandId) -> Input {
        match self {
            Input::Command { reply, command, .. } => Input::Command { reply, command, id: Some(id) },
            other => other,
        }
    }

    /// The id under which a command is remembered as done. `None` for a message: it is known by its message id.
    #[must_use]
    pub(crate) fn id(&self) -> Option<&CommandId> {
        match self {
            Input::Command { command, id: Some(id), .. } if !matches!(command, Command::SendMessage(_)) => Some(id),
            _ => None,
        }
    }

    /// The name of the input on the tape and in the supervision tree. Part of the stored format.
    #[must_use]
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Input::Command { command, .. } => command.name(),
            Input::Report { report, .. } => report.name(),
            Input::Timer => "timer",
            Input::Recover { .. } => "recover",
            Input::Stop => "stop",
            Input::Look => "look",
            Input::Hold => "hold",
        }
    }

    /// What happened, in a few words, for a person who reads a replay.
    pub(crate) fn in_words(&self) -> String {
        match self {
            Input::Command { command, .. } => command.in_words(),
            Input::Recover { .. } => "recovery".to_owned(),
            Input::Stop => "the actor was stopped in order".to_owned(),
            Input::Timer => "time passed".to_owned(),
            Input::Look => "the host had changed".to_owned(),
            Input::Hold => "a recovery was to come".to_owned(),
            Input::Report { ticket, report } => report.in_words(*ticket),
        }
    }

    /// The ticket or the entry that the input is about.
    #[must_use]
    pub(crate) fn about(&self) -> Option<Seq> {
        match self {
            Input::Command { command, .. } => command.about(),
            Input::Report { ticket, .. } => Some(*ticket),
            Input::Timer | Input::Recover { .. } | Input::Stop | Input::Look | Input::Hold => None,
        }
    }

    /// The sender to answer; `None` where nobody waits for an answer.
    #[must_use]
    pub(crate) fn reply(&self) -> Option<ReplyTo> {
        match self {
            Input::Command { reply, .. } if *reply != ReplyTo::NOBODY => Some(*reply),
            _ => None,
        }
    }

    /// The ticket that a worker's report is about; `None` for an input that is no report.
    #[must_use]
    pub(crate) fn reported(&self) -> Option<Seq> {
        match self {
            Input::Report { ticket, .. } => Some(*ticket),
            _ => None,
        }
    }

    /// The id of the message that the input sends; `None` for any other input.
    #[must_use]
    pub(crate) fn message(&self) -> Option<&MessageId> {
        match self {
            Input::Command { command: Command::SendMessage(send), .. } => Some(&send.message.id),
            _ => None,
        }
    }

    /// Whether the input stops running work (see [`Decide::stops`]). The workers are stopped at once, and nothing starts before
    /// the record of the stop.
    #[must_use]
    pub(crate) fn is_stop(&self) -> bool {
        matches!(self, Input::Command { command, .. } if command.stops())
    }

    /// Whether it stands alone in its append.
    #[must_use]
    pub(crate) fn stands_alone(&self) -> bool {
        matches!(self, Input::Command { command, .. } if command.stands_alone())
    }

    /// Its size in bytes, about.
    #[must_use]
    pub(crate) fn bytes(&self) -> usize {
        const HEAD: usize = 512;
        let own = match self {
            Input::Command { command, .. } => command.bytes(),
            Input::Report { report, .. } => report.bytes(),
            Input::Timer | Input::Recover { .. } | Input::Stop | Input::Look | Input::Hold => 0,
        };
        HEAD + own
    }

    /// Whether the input decides about all that is open. If so, reports before it in the same append are only recorded, and nothing
    /// more follows from them.
    pub(super) fn settles_what_is_open(&self) -> bool {
        match self {
            Input::Command { command, .. } => command.ends_the_turn(),
            Input::Recover { .. } | Input::Hold => true,
            Input::Report { .. } | Input::Timer | Input::Stop | Input::Look => false,
        }
    }
}

impl Report {
    /// The report, about that ticket.
    #[must_use]
    pub(crate) fn of(self, ticket: Seq) -> Input {
        Input::Report { ticket, report: self }
    }
}

macro_rules! commands {
    ($($name:literal => $command:ident),* $(,)?) => {
        /// A command to a session.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub(crate) enum Command {
            $(#[doc = concat!("See [`", stringify!($command), "`].")] $command($command)),*
        }

        impl Command {
            /// The name of the command on the tape, in the supervision tree and in a replay. Part of the stored format.
            #[must_use]
            pub(crate) fn name(&self) -> &'static str {
                match self {
                    $(Command::$command(_) => $name),*
                }
            }
        }

        impl std::ops::Deref for Command {
            type Target = dyn Decide;

            fn deref(&self) -> &Self::Target {
                match self {
                    $(Command::$command(command) => command),*
                }
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
                /// The command as an input, with the sender to answer.
                #[allow(dead_code, reason = "each command has it, and no test needs all")]
                pub(crate) fn to(self, reply: $crate::kernel::ReplyTo) -> $crate::kernel::Input {
                    $crate::kernel::Input::Command { reply, command: self.into(), id: None }
                }
            }
        )*
    };
}

commands! {
    "send" => SendMessage,
    "edit" => EditMessage,
    "withdraw" => WithdrawMessage,
    "clear_queue" => ClearQueue,
    "answer_ask" => AnswerAsk,
    "revoke" => RevokeGrant,
    "revoke_all" => RevokeAll,
    "abort" => Abort,
    "go_on" => GoOn,
    "pause" => Pause,
    "resume" => Resume,
    "reset_loops" => ResetLoops,
    "configure" => Configure,
    "compact" => Compact,
    "restored" => RecordRestored,
    "undo_compaction" => UndoCompaction,
    "sum_up_branch" => SumUpBranch,
    "give_up_branch" => GiveUpBranch,
    "leave_branch" => LeaveBranch,
    "pin" => PinMessage,
    "unpin" => UnpinMessage,
    "roll_back" => RollBack,
    "merge" => Merge,
    "anchor" => BeginAnchor,
    "hand_off" => HandOff,
    "spawn" => Spawn,
    "adopt" => Adopt,
    "stop_child" => StopChild,
    "end" => End,
    "stop_task" => StopTask,
    "orphaned" => Orphan,
    "adopted" => BeAdopted,
    "task_asked" => TaskAsked,
    "task_ask_over" => TaskAskOver,
    "switch_agent" => SwitchAgent,
    "put_question" => PutQuestion,
    "note_sent" => NoteSent,
}
