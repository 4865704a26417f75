//! The inputs of the core: a command of a host, a report of a worker, a timer, a recovery.
//!
//! An input is a value that is decided as often as it has to be until the tape has its record: a clone must mean the same. A report
//! changes nothing if its ticket is no longer open.
//!
//! [`Input::name`] is written on the tape and read back by `recorded.rs`, so a name must not change. A new kind of input, or a new
//! value in one, must be on the tape when it is decided: otherwise a replay cannot make the decision again.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    kernel::{Command, Down},
    model::{Answer, AnswerPart, ModelError},
    tool::{CallFacts, ToolResult},
    words::ids::{CommandId, MessageId, Seq},
    words::usage::Usage,
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
    /// The clock passed a moment that an open ticket named.
    Timer,
    /// The session was rebuilt from its tape, and no worker is alive.
    Recover {
        /// The present facts of the calls that are not over ([`State::calls_to_ask`](crate::kernel::State::calls_to_ask)), as the
        /// tools tell them, by position in the answer. A call that is left out keeps its former facts.
        calls: BTreeMap<u32, CallFacts>,
    },
    /// Nothing happened: only what follows from the state is decided, because the host may have changed meanwhile.
    Look,
    /// A recovery follows in an append of its own: the reports before this input are recorded, and nothing follows from them yet.
    Hold,
}

/// The report of a worker about its ticket.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub(crate) enum Report {
    /// The model answered.
    Answered {
        /// Its answer, complete.
        answer: Answer,
        /// What the tools say of its calls, in their order.
        calls: Vec<CallFacts>,
    },
    /// A model request failed.
    Failed {
        /// What went wrong.
        error: ModelError,
    },
    /// A model request was cut off because the core said so.
    CutOff {
        /// What had arrived.
        partial: Vec<AnswerPart>,
        /// What had arrived and was thrown away, in estimated tokens.
        thrown_away: u64,
    },
    /// A call is over, and nothing of it is left.
    Returned {
        /// The result of the call.
        result: ToolResult,
    },
    /// A summary was written, or could not be.
    Summarised {
        /// The summary and the tokens that it took, or why there is none.
        result: Result<(Arc<str>, Usage), NoSummary>,
        /// The number of further tries that the provider read and that came to nothing.
        lost: u32,
    },
    /// A child is down.
    TaskDown {
        /// How the task ended.
        down: Down,
    },
    /// A child knows that it is an orphan.
    TaskLeft,
}

/// Why there is no summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NoSummary {
    /// What went wrong.
    pub error: String,
    /// The tokens that the request used all the same: the provider's figures.
    pub usage: Usage,
    /// Our estimate of those tokens, where the provider gave no figures.
    pub estimated: Option<Usage>,
}

impl From<&str> for NoSummary {
    fn from(error: &str) -> NoSummary {
        NoSummary { error: error.to_owned(), usage: Usage::default(), estimated: None }
    }
}

/// The sender that a decision answers. The shell gives the number, and the core hands it back unread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ReplyTo(pub u64);

impl ReplyTo {
    /// Nobody waits for the answer: the session gives itself a command, or a replay decides again.
    pub(crate) const NOBODY: ReplyTo = ReplyTo(0);
}

impl Report {
    /// The report, about that ticket.
    #[must_use]
    pub(crate) fn of(self, ticket: Seq) -> Input {
        Input::Report { ticket, report: self }
    }
}

fn part_bytes(part: &AnswerPart) -> usize {
    match part {
        AnswerPart::Text { text, .. } | AnswerPart::Reasoning { text, .. } => text.len(),
        AnswerPart::Call { input, .. } => input.len(),
    }
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
            Input::Report { report, .. } => match report {
                Report::Answered { .. } => "answered",
                Report::Failed { .. } => "failed",
                Report::CutOff { .. } => "cut_off",
                Report::Returned { .. } => "returned",
                Report::Summarised { .. } => "summarised",
                Report::TaskDown { .. } => "task_down",
                Report::TaskLeft => "task_left",
            },
            Input::Timer => "timer",
            Input::Recover { .. } => "recover",
            Input::Look => "look",
            Input::Hold => "hold",
        }
    }

    /// What happened, in a few words, for a person who reads a replay.
    pub(crate) fn in_words(&self) -> String {
        match self {
            Input::Command { command, .. } => command.in_words(),
            Input::Recover { .. } => "recovery after a crash".to_owned(),
            Input::Timer => "time passed".to_owned(),
            Input::Look => "the host had changed".to_owned(),
            Input::Hold => "a recovery was to come".to_owned(),
            Input::Report { ticket, report } => match report {
                Report::Answered { .. } => format!("request {ticket} was answered"),
                Report::Failed { .. } => format!("request {ticket} failed"),
                Report::CutOff { .. } => format!("request {ticket} was cut off"),
                Report::Returned { .. } => format!("call {ticket} returned"),
                Report::Summarised { result: Ok(_), .. } => format!("the summary of compaction {ticket} came"),
                Report::Summarised { result: Err(_), .. } => format!("compaction {ticket} failed"),
                Report::TaskDown { .. } => format!("the child of task {ticket} is down"),
                Report::TaskLeft => format!("the child of task {ticket} knows that it is an orphan"),
            },
        }
    }

    /// The ticket or the entry that the input is about.
    #[must_use]
    pub(crate) fn about(&self) -> Option<Seq> {
        match self {
            Input::Command { command, .. } => command.about(),
            Input::Report { ticket, .. } => Some(*ticket),
            Input::Timer | Input::Recover { .. } | Input::Look | Input::Hold => None,
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

    /// Whether the input stops running work (see [`Command::stops`]). The workers are stopped at once, and nothing starts before
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
            Input::Report { report: Report::Answered { answer, .. }, .. } => answer.parts.iter().map(part_bytes).sum(),
            Input::Report { report: Report::CutOff { partial, .. }, .. } => partial.iter().map(part_bytes).sum(),
            Input::Report { report: Report::Returned { result }, .. } => {
                result.content.len() + result.attachments.iter().map(|file| file.url.len()).sum::<usize>()
            }
            Input::Report { report: Report::Summarised { result: Ok((text, _)), .. }, .. } => text.len(),
            Input::Report { report: Report::TaskDown { down }, .. } => down.text.len(),
            Input::Report { .. } | Input::Timer | Input::Recover { .. } | Input::Look | Input::Hold => 0,
        };
        HEAD + own
    }

    /// Whether the input decides about all that is open. If so, reports before it in the same append are only recorded, and nothing
    /// more follows from them.
    pub(super) fn settles_what_is_open(&self) -> bool {
        match self {
            Input::Command { command, .. } => command.ends_the_turn(),
            Input::Recover { .. } | Input::Hold => true,
            Input::Report { .. } | Input::Timer | Input::Look => false,
        }
    }
}
