//! Crash reports. A supervisor makes one [`CrashReport`] for each of these:
//! - an end of a child that it did not ask for, if the end is abnormal or counts against a restart budget;
//! - a stop that went wrong, such as by a crash, or by a kill because the child's time was over;
//! - a failed start, unless the child was to stop by then.
//!
//! A report is made from the decision of the planner (the part of a supervisor that decides) and from the child's node, so no actor
//! is asked. Hosts read its JSON: a change must not rename or drop a field. In the JSON an unknown `doing` and the fields of a
//! missing payload are left out; other unknown facts are null. `recent` and `payload` must hold no content of a conversation;
//! `doing` and a reason may. A change must keep that in the text foreign words (the reason, what the child was doing, the facts of
//! its payload) lose their control characters, because operators read it in a terminal. The JSON has the words as they were.

use std::fmt;

use serde::Serialize;

use crate::{
    supervisor::{
        exit::ExitReason,
        node_state::{NodeState, millis},
        payload::NodePayload,
        render::{one_line, plain},
        spec::ChildId,
        trace::Happened,
    },
    words::ids::Millis,
};

/// What a supervisor did about the end or the failed start of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Decision {
    /// It is started again after this long.
    Restart {
        /// Milliseconds; 0 is at once.
        after_ms: u64,
    },
    /// It is kept stopped.
    Park,
    /// The supervisor ends itself.
    Escalate,
    /// It ended on its own, is not restarted, and stays down.
    Ended,
    /// It was stopped, and is down.
    Stopped,
    /// It was started by hand and could not start; the caller got the error.
    Refused,
}

/// The phase in which a child ended; the words are those of OTP's supervisor reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Context {
    /// It could not start.
    StartError,
    /// It ended without being asked to.
    ChildTerminated,
    /// It was asked to stop and ended in another way, such as by a crash or a kill.
    ShutdownError,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Decision::Restart { after_ms: 0 } => f.write_str("restarted at once"),
            Decision::Restart { after_ms } => write!(f, "restarted after {after_ms} ms"),
            Decision::Park => f.write_str("parked"),
            Decision::Escalate => f.write_str("its supervisor gave up"),
            Decision::Ended => f.write_str("it stays down"),
            Decision::Stopped => f.write_str("stopped as ordered"),
            Decision::Refused => f.write_str("its starter got the error"),
        }
    }
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Context::StartError => "failed to start",
            Context::ChildTerminated => "crashed",
            Context::ShutdownError => "did not stop as asked",
        })
    }
}

/// An unexpected end or a failed start of a child, or a stop that went wrong: OTP's four facts (supervisor, context, reason,
/// offender), what the child was doing, and what the supervisor did about it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct CrashReport {
    /// The number of the report. Counts up over all reports of the runtime, from 1.
    pub number: u64,
    /// When.
    pub at: Millis,
    /// The path of the supervisor.
    pub supervisor: String,
    /// The phase in which the child ended.
    pub context: Context,
    /// Why.
    pub reason: ExitReason,
    /// Which child.
    pub offender: ChildId,
    /// What kind of node it is.
    pub kind: &'static str,
    /// Which incarnation ended: 1 for the first.
    pub incarnation: u64,
    /// The kind of message that was being handled.
    pub message: Option<String>,
    /// How long it had been handled, in milliseconds.
    pub in_hand_ms: Option<u64>,
    /// What it was doing, by its own words, before that message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doing: Option<String>,
    /// The payload of its node: for a session, its [figures](crate::runtime::SessionFigures).
    #[serde(flatten)]
    pub payload: NodePayload,
    /// How much waited in its queue.
    pub queue: u64,
    /// The last events, oldest first; at most 16. Kinds and numbers, no content.
    pub recent: Vec<Happened>,
    /// What the supervisor did about it.
    pub decision: Decision,
    /// How many crashes fall in the restart window, including this one: those of the child under a supervisor that parks, otherwise
    /// those of all children of the supervisor. 0 if this end did not count as one.
    pub in_window: u32,
}

impl CrashReport {
    /// Makes the report of a child's end from its node. The crash log sets the number.
    pub(crate) fn of(
        child: &NodeState,
        supervisor: &NodeState,
        offender: ChildId,
        context: Context,
        reason: ExitReason,
        decision: Decision,
        in_window: u32,
    ) -> CrashReport {
        let (message, in_hand_ms) = match &reason {
            ExitReason::Panic(panic) => (panic.message.clone(), panic.message.as_ref().map(|_| panic.in_hand_ms)),
            _ => {
                let in_hand = child.in_hand();
                (in_hand.map(|(what, _)| what.to_owned()), in_hand.map(|(_, since)| millis(since)))
            }
        };
        let recent = child.recent();
        let words = child.words();
        CrashReport {
            number: 0,
            at: Millis::now(),
            supervisor: supervisor.path().to_owned(),
            context,
            reason,
            offender,
            kind: child.kind(),
            incarnation: words.incarnation,
            message,
            in_hand_ms,
            doing: words.doing.as_ref().map(|(what, _)| what.clone()),
            payload: words.payload.clone(),
            queue: words.depth(),
            recent,
            decision,
            in_window,
        }
    }

    /// The path of the child.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{}/{}", self.supervisor, self.offender)
    }

    /// The report in one line.
    #[must_use]
    pub fn line(&self) -> String {
        let CrashReport { number, offender, kind, incarnation, context, reason, decision, in_window, .. } = self;
        let at = self.at.utc();
        let nth = match in_window {
            0 => String::new(),
            nth => format!(", crash {nth} in the window"),
        };
        let reason = one_line(&reason.to_string());
        format!("#{number} {at} {kind} {offender} {context} in incarnation {incarnation}: {reason} → {decision}{nth}")
    }
}

/// The report as an operator reads it, one fact a line.
impl fmt::Display for CrashReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CrashReport { number, supervisor, offender, kind, incarnation, context, reason, decision, .. } = self;
        writeln!(f, "crash {number} at {}", self.at.utc())?;
        writeln!(f, "  offender    {kind} {offender}, incarnation {incarnation}, under {supervisor}")?;
        writeln!(f, "  context     {context}")?;
        // Code that may be foreign wrote this and what follows: without control characters each fact stays on its line.
        writeln!(f, "  reason      {}", plain(&reason.to_string()))?;
        if let ExitReason::Panic(panic) = reason {
            writeln!(f, "  location    {}", panic.place())?;
        }
        match (&self.message, self.in_hand_ms) {
            (Some(message), Some(ms)) => writeln!(f, "  handling    {message}, for {ms} ms")?,
            (Some(message), None) => writeln!(f, "  handling    {message}")?,
            (None, _) => writeln!(f, "  handling    nothing")?,
        }
        if let Some(doing) = &self.doing {
            writeln!(f, "  last seen at {}", plain(doing))?;
        }
        let facts = self.payload.facts();
        if !facts.is_empty() {
            writeln!(f, "  figures     {}", plain(&facts.join(", ")))?;
        }
        if self.queue > 0 {
            writeln!(f, "  queue       {} waited", self.queue)?;
        }
        if !self.recent.is_empty() {
            let recent: Vec<String> = self.recent.iter().map(ToString::to_string).collect();
            writeln!(f, "  before that {}", recent.join(", "))?;
        }
        writeln!(f, "  decision    {decision}; crashes in the window: {}", self.in_window)
    }
}
