//! The words of a spec: strategy, restart, shutdown, exhaustion, auto-shutdown and kind. Plain values that decide nothing.
//!
//! Meanings and most names are OTP's, and the defaults are Elixir's (of `Strategy`: OTP's). Only `OnExhausted` is our own. A change
//! must keep names, meanings and defaults, because hosts rely on them.

use std::time::Duration;

use serde::Serialize;

/// Which of its children a supervisor restarts when one ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Strategy {
    /// Only the child that ended.
    #[default]
    OneForOne,
    /// All of them: the others are stopped in reverse order, then all are started in order.
    OneForAll,
    /// The child that ended, and those that were started after it.
    RestForOne,
}

/// When a child that ended without being asked to is started again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Restart {
    /// After each end.
    #[default]
    Permanent,
    /// After an abnormal end; being killed is abnormal.
    Transient,
    /// Never; it is forgotten when it ends, also if it is stopped because of a sibling's restart.
    Temporary,
}

/// How a child that is up is stopped. A start that is still under way is cancelled under every setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shutdown {
    /// At once, without a chance to clean up.
    Kill,
    /// It is asked to stop, and killed if it has not ended after this time.
    After(Duration),
    /// It is asked to stop, and waited for however long it takes.
    Infinity,
}

impl Default for Shutdown {
    /// After 5 s.
    fn default() -> Shutdown {
        Shutdown::After(Duration::from_secs(5))
    }
}

/// What happens after too many restarts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnExhausted {
    /// The supervisor stops its children and ends itself; its own parent decides.
    #[default]
    Escalate,
    /// That child is kept stopped until it is unparked, or the time of `SupervisorSpec::park_for` is over; its siblings live on.
    /// Only for dynamic supervisors.
    Park,
}

/// Whether a supervisor ends when its significant children have ended on their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AutoShutdown {
    /// It does not.
    #[default]
    Never,
    /// It ends with the first of them.
    AnySignificant,
    /// It ends with the last of them.
    AllSignificant,
}

/// The kind of a child, for people and for the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ChildKind {
    /// It has children.
    Supervisor,
    /// It does work.
    Worker,
}
