//! Limits: the most of each resource (tokens, money, time and so on) that a session or a turn may use. Amounts and nothing else:
//! the field that holds a [`Limits`] says whose they are, and `account.rs` does the arithmetic.
//!
//! In a limit, `None` is no limit, and must never be read as zero. Some fields use the same type for amounts that were used or are
//! to be added ([`Grant::Raise`](crate::kernel::Grant), `Account::written_off`); there `None` is nothing.
//!
//! [`Limits`] and [`Resource`] are stored formats, in settings, entries and states: do not rename or retype anything. A new
//! resource needs a variant and a field here, and a place in [`Resource::ALL`]. The compiler finds each `match` that needs a line,
//! but not a missing place in `ALL`: the sums and checks of budgets would pass over the resource.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use crate::words::usage::{MicroUsd, PICO_IN_MICRO, PicoUsd};

/// A resource that may be limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Resource {
    /// Tokens of all kinds, read and written.
    Tokens,
    /// Money, in picodollars.
    Usd,
    /// The time that turns run, in milliseconds.
    TimeMs,
    /// Tool calls that are started.
    Calls,
    /// Tasks that are given to children, those that wait for room included.
    Tasks,
    /// Bytes of results.
    Bytes,
}

impl Resource {
    /// All of them.
    pub const ALL: [Resource; 6] =
        [Resource::Tokens, Resource::Usd, Resource::TimeMs, Resource::Calls, Resource::Tasks, Resource::Bytes];

    /// An amount of the resource, as text for people.
    #[must_use]
    pub fn amount(self, amount: u64) -> String {
        match self {
            Resource::Usd => PicoUsd(amount).to_string(),
            Resource::TimeMs => format!("{}.{} s", amount / 1_000, amount % 1_000 / 100),
            Resource::Tokens | Resource::Calls | Resource::Tasks | Resource::Bytes => format!("{amount} {self}"),
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Resource::Tokens => "tokens",
            Resource::Usd => "US dollars",
            Resource::TimeMs => "time",
            Resource::Calls => "calls",
            Resource::Tasks => "tasks",
            Resource::Bytes => "bytes of results",
        })
    }
}

/// Limits, or what is left of them: there `None` is no limit. Also amounts, where `None` is nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
#[non_exhaustive]
pub struct Limits {
    /// Tokens of all kinds, read and written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Money, in picodollars. With this limit, a model without a known price is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd: Option<PicoUsd>,
    /// The time that turns run, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_ms: Option<u64>,
    /// Tool calls that are started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
    /// Tasks that are given to children, and by them to theirs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<u64>,
    /// Bytes of results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

impl Limits {
    /// Whether nothing is limited.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Limits::default()
    }

    /// The limit of one resource.
    #[must_use]
    pub fn of(&self, resource: Resource) -> Option<u64> {
        match resource {
            Resource::Tokens => self.tokens,
            Resource::Usd => self.usd.map(|usd| usd.0),
            Resource::TimeMs => self.time_ms,
            Resource::Calls => self.calls,
            Resource::Tasks => self.tasks,
            Resource::Bytes => self.bytes,
        }
    }

    /// Sets the limit of one resource.
    pub fn set(&mut self, resource: Resource, limit: Option<u64>) {
        match resource {
            Resource::Tokens => self.tokens = limit,
            Resource::Usd => self.usd = limit.map(PicoUsd),
            Resource::TimeMs => self.time_ms = limit,
            Resource::Calls => self.calls = limit,
            Resource::Tasks => self.tasks = limit,
            Resource::Bytes => self.bytes = limit,
        }
    }

    /// The limits that a function gives for each resource.
    #[must_use]
    pub fn each(limit: impl Fn(Resource) -> Option<u64>) -> Limits {
        let mut limits = Limits::default();
        Resource::ALL.into_iter().for_each(|resource| limits.set(resource, limit(resource)));
        limits
    }

    /// The same limits as other programs are shown them.
    #[must_use]
    pub fn shown(&self) -> ShownLimits {
        let Limits { tokens, usd, time_ms, calls, tasks, bytes } = *self;
        let micro_usd = usd.map(|usd| MicroUsd(usd.0 / PICO_IN_MICRO));
        ShownLimits { tokens, micro_usd, time_ms, calls, tasks, bytes }
    }

    /// The smaller limit of each resource.
    #[must_use]
    pub(crate) fn or_less(&self, other: &Limits) -> Limits {
        Limits::each(|resource| match (self.of(resource), other.of(resource)) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        })
    }

    /// Limits the [time](#structfield.time_ms).
    #[must_use]
    pub fn time(mut self, time: Duration) -> Limits {
        self.time_ms = Some(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        self
    }

    crate::words::setters::setters! {
        /// Limits the [tokens](#structfield.tokens).
        tokens: u64 = Some(tokens);
        /// Limits the [money](#structfield.usd).
        usd: PicoUsd = Some(usd);
        /// Limits the [tool calls](#structfield.calls).
        calls: u64 = Some(calls);
        /// Limits the [tasks](#structfield.tasks).
        tasks: u64 = Some(tasks);
        /// Limits the [bytes of results](#structfield.bytes).
        bytes: u64 = Some(bytes);
    }
}

/// [`Limits`] in the JSON that other programs read: money in millionths of a US dollar, rounded down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShownLimits {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    micro_usd: Option<MicroUsd>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    time_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    calls: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tasks: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
}

impl From<ShownLimits> for Limits {
    fn from(shown: ShownLimits) -> Limits {
        let ShownLimits { tokens, micro_usd, time_ms, calls, tasks, bytes } = shown;
        Limits { tokens, usd: micro_usd.map(MicroUsd::to_pico), time_ms, calls, tasks, bytes }
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let amounts = Resource::ALL.into_iter().filter_map(|resource| Some(resource.amount(self.of(resource)?)));
        f.write_str(&amounts.collect::<Vec<_>>().join(", "))
    }
}
