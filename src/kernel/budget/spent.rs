//! The arithmetic of usage: [`Spent`] adds up what a session, a turn or a task has used (requests, tokens, money, time, calls,
//! tasks, bytes), and the functions here say what one request costs, with an estimate where the provider gives no figures.
//!
//! Which entry charges what is decided in `bill.rs`, for the state and for the bill.
//!
//! A change must keep: sums stop at the largest number and never wrap; an unknown price is counted as unknown and never as zero; an
//! estimate is marked as one. The types are stored formats: do not rename or retype a field.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use crate::{
    kernel::{Limits, context::of_item},
    model::{Item, ModelAnswer, ModelError, Price},
    words::{
        ids::Millis,
        is_default,
        usage::{Cost, ShownCost, Usage},
    },
};

/// What was used, by kind. Sums stop at the largest number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Spent {
    /// Model requests that used something: those that came to an end, and those that were lost in a crash; summaries and the answers
    /// that a provider began ahead in vain included.
    pub requests: u64,
    /// The number of those requests whose tokens are our estimate, because the provider gave no figures.
    #[serde(skip_serializing_if = "is_default")]
    pub estimated: u64,
    /// Tokens; estimates included.
    pub usage: Usage,
    /// The cost of the tokens.
    pub cost: Cost,
    /// How long turns ran, in milliseconds. Not counted is the time in which they were paused, waited for a go-on or for a larger
    /// budget, or in which no process ran them.
    pub time_ms: u64,
    /// Calls that were started, again after a crash included.
    pub calls: u64,
    /// Tasks that were given to children, those that waited for room included.
    pub tasks: u64,
    /// Bytes of results.
    pub bytes: u64,
}

impl Spent {
    /// What was used since an earlier moment.
    #[must_use]
    pub fn since(&self, before: &Spent) -> Spent {
        self.with(before, u64::saturating_sub)
    }

    /// Combines two values, figure by figure.
    fn with(&self, other: &Spent, f: fn(u64, u64) -> u64) -> Spent {
        Spent {
            requests: f(self.requests, other.requests),
            estimated: f(self.estimated, other.estimated),
            usage: self.usage.with(&other.usage, f),
            cost: self.cost.with(&other.cost, f),
            time_ms: f(self.time_ms, other.time_ms),
            calls: f(self.calls, other.calls),
            tasks: f(self.tasks, other.tasks),
            bytes: f(self.bytes, other.bytes),
        }
    }
}

// What other programs are shown.
impl Spent {
    /// What a task used of which nobody gives account: at least one request without a known price.
    #[must_use]
    pub(in crate::kernel) fn unknown() -> Spent {
        let mut unknown = Spent::default();
        unknown.cost.unpriced = 1;
        unknown
    }

    /// This and more.
    #[must_use]
    pub fn plus(mut self, more: &Spent) -> Spent {
        self += *more;
        self
    }

    /// The part that tasks used, of which `given` were given; `None` if there was none.
    #[must_use]
    pub fn shown_as_tasks(&self, given: u64) -> Option<ShownTasks> {
        let Spent { requests, estimated, usage, cost, tasks, .. } = *self;
        let count = given.saturating_add(tasks);
        (count > 0 || *self != Spent::default()).then(|| ShownTasks {
            count,
            requests,
            estimated,
            usage,
            cost: cost.shown(),
        })
    }

    /// All of it, with money in millionths of a US dollar.
    #[must_use]
    pub fn shown(&self) -> ShownSpent {
        let Spent { requests, estimated, usage, cost, time_ms, calls, tasks, bytes } = *self;
        ShownSpent { requests, estimated, usage, cost: cost.shown(), time_ms, calls, tasks, bytes }
    }
}

/// What tasks used, with their own tasks and with merged forks, in the JSON that other programs read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ShownTasks {
    /// How many tasks were given, by the session and by its tasks.
    pub count: u64,
    /// Their model requests.
    pub requests: u64,
    /// The number of those requests whose tokens are our estimate.
    #[serde(default, skip_serializing_if = "is_default")]
    pub estimated: u64,
    /// Their tokens; estimates included.
    pub usage: Usage,
    /// The cost of the tokens.
    #[serde(flatten)]
    pub cost: ShownCost,
}

/// [`Spent`] in the JSON that other programs read: money in millionths of a US dollar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShownSpent {
    requests: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    estimated: u64,
    usage: Usage,
    #[serde(flatten)]
    cost: ShownCost,
    time_ms: u64,
    calls: u64,
    tasks: u64,
    bytes: u64,
}

impl From<ShownSpent> for Spent {
    fn from(shown: ShownSpent) -> Spent {
        let ShownSpent { requests, estimated, usage, cost, time_ms, calls, tasks, bytes } = shown;
        Spent { requests, estimated, usage, cost: cost.into(), time_ms, calls, tasks, bytes }
    }
}

impl AddAssign for Spent {
    fn add_assign(&mut self, other: Spent) {
        *self = self.with(&other, u64::saturating_add);
    }
}

impl From<Charge> for Spent {
    fn from(Charge { usage, estimated, cost }: Charge) -> Spent {
        Spent { requests: 1, estimated: u64::from(estimated), usage, cost, ..Spent::default() }
    }
}

impl AddAssign<Charge> for Spent {
    fn add_assign(&mut self, charge: Charge) {
        *self += Spent::from(charge);
    }
}

/// The usage and the cost of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Charge {
    /// The tokens: the provider's figures, or our estimate where it gave none.
    pub usage: Usage,
    /// Whether the tokens are our estimate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
    /// The cost of the tokens.
    pub cost: Cost,
}

impl Charge {
    /// The charge of a request at a price, by the provider's figures, else by our estimate. `None` if there is neither: the request
    /// was not made, or its usage was counted when it was lost.
    #[must_use]
    pub fn of(price: Option<&Price>, said: &Usage, estimate: Option<&Usage>) -> Option<Charge> {
        let (usage, estimated) = match (said.total(), estimate) {
            (0, estimate) => (*estimate?, true),
            _ => (*said, false),
        };
        let cost = Cost::of(price.and_then(|price| price.cost(&usage)));
        Some(Charge { usage, estimated, cost })
    }
}

/// The tokens that are reserved for a request until its usage is known. If the request is lost in a crash, all of them count as
/// spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Reserve {
    /// The most tokens that the request reads, as far as can be told before.
    pub(crate) input: u64,
    /// The tokens that the request may write; 0 where no budget limits tokens or money.
    pub(crate) output: u64,
}

impl Reserve {
    /// The sum of both, in tokens.
    #[must_use]
    pub(crate) fn tokens(&self) -> u64 {
        self.input.saturating_add(self.output)
    }

    /// The charge of a lost request: all that was reserved.
    #[must_use]
    pub(crate) fn lost(&self, price: Option<&Price>) -> Charge {
        let usage = Usage { input: self.input, output: self.output, ..Usage::default() };
        let cost = Cost::of(price.and_then(|price| price.most(self.input, self.output)));
        Charge { usage, estimated: true, cost }
    }
}

/// The most tries of one request that are counted. No worker makes so many.
const TRIES_MAX: u32 = 64;

/// The charges of tries that the provider read and that came to nothing, one by one.
pub(in crate::kernel) fn in_vain(tries: u32, reserved: Reserve, price: Option<Price>) -> impl Iterator<Item = Charge> {
    let each = Reserve { output: 0, ..reserved }.lost(price.as_ref());
    (0..tries.min(TRIES_MAX)).map(move |_| each)
}

/// Our estimate of an answer's tokens, where the provider gave none.
pub(in crate::kernel) fn estimate(read: u64, answer: &ModelAnswer) -> Option<Usage> {
    (answer.usage.total() == 0).then(|| Usage { input: read, output: written(answer), ..Usage::default() })
}

/// Our estimate of the tokens that an answer took to write.
pub(in crate::kernel) fn written(answer: &ModelAnswer) -> u64 {
    of_item(&Item::Assistant(answer.clone()))
}

/// Our estimate of what a failed request used. A request that broke off was read, and what had arrived of its answer was written.
pub(in crate::kernel) fn estimate_of_failure(read: u64, error: &ModelError) -> Option<Usage> {
    error.was_read().then(|| Usage { input: read, output: error.arrived, ..Usage::default() })
}

/// The budget bookkeeping of a session, beside what it has spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Account {
    /// What the parent granted to the session, counted from `base`; `None` without a grant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) grant: Option<Limits>,
    /// What the session had spent when the grant was given, its ended tasks included.
    pub(crate) base: Spent,
    /// What counted as used when the grant was given: `base` as amounts, with what was written off by then.
    #[serde(skip_serializing_if = "Limits::is_none")]
    pub(crate) base_used: Limits,
    /// Grants that the session gave to children and that nobody gave account of: they count as used.
    #[serde(skip_serializing_if = "Limits::is_none")]
    pub(crate) written_off: Limits,
    /// When the clock of the running turn was started; `None` while it stands still.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<Millis>,
}
