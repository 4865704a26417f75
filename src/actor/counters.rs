//! The counters of a runtime ([`Counters`]): what it has done since its start, by kind, for a host's dashboards.
//!
//! They are read from milestones and from the bill's own rule (decision 0051), so that their sums are those of the tapes. A change
//! must keep that no text of a conversation becomes a name here, and that the number of names is bounded.

use std::{borrow::Borrow, collections::BTreeMap};

use serde::{Serialize, Serializer};

use crate::{
    actor::milestone::Milestone,
    kernel::{BillLine, CallVerdict, Outcome, Spent},
    lock::Lock,
    model::ErrorKind,
    words::{labels::Labels, message::ModelRef},
};

/// How many different names of one kind are counted: models, tools, values of a label. Further ones count as `other`.
pub(crate) const NAMES_MAX: usize = 100;

/// What a runtime has done since its start, over all its sessions. Sums stop at the largest number.
///
/// A tape has the truth of one session; this has the sums of what this runtime put on its tapes. At most 100 models, 100 tools and
/// 100 values of the [counted label](crate::runtime::Builder::count_label) have counters of their own; further ones add to `other` (models: `other/other`).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Counters {
    /// Turns that began.
    pub turns_begun: u64,
    /// Turns that are over, by the word of their [`Outcome`] on the tape, such as `done`.
    pub turns: BTreeMap<&'static str, u64>,
    /// Steps that began: model requests of turns, retries not counted.
    pub steps: u64,
    /// Waits before a retry.
    pub retries: u64,
    /// Sessions that were rebuilt from their tapes in mid-turn.
    pub recoveries: u64,
    /// Compactions that replaced something.
    pub compactions: u64,
    /// Compactions that failed.
    pub compactions_failed: u64,
    /// Questions to people.
    pub asks: u64,
    /// Tasks that were given to children.
    pub tasks: u64,
    /// Decisions that a tape refused.
    pub refused_appends: u64,
    /// By model; in JSON by its text form.
    #[serde(serialize_with = "by_text")]
    pub models: BTreeMap<ModelRef, ModelCounters>,
    /// By tool.
    pub tools: BTreeMap<String, ToolCounters>,
    /// What was used, by the value of the [counted label](crate::runtime::Builder::count_label); empty without one. Sessions
    /// without the label count under the empty value.
    pub labelled: BTreeMap<String, Spent>,
}

/// The counters of one model.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ModelCounters {
    /// Tokens and money: the sum of the lines of all [bills](crate::session::Bill).
    pub spent: Spent,
    /// Requests that failed, by kind.
    pub failed: BTreeMap<ErrorKind, u64>,
    /// How long the requests took that were answered.
    pub took: Durations,
}

/// The counters of one tool.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ToolCounters {
    /// Calls that are over, by the verdict on them.
    pub verdicts: BTreeMap<CallVerdict, u64>,
    /// Those that ran and failed.
    pub failed: u64,
    /// How long the calls took that ran.
    pub took: Durations,
}

/// A histogram of durations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Durations {
    /// How many durations were at most as long as [`Durations::BOUNDS_MS`] says, each counted once, in the first bucket that holds
    /// it; the last bucket has the longer ones.
    pub buckets: [u64; Durations::BOUNDS_MS.len() + 1],
    /// Their sum, in milliseconds.
    pub sum_ms: u64,
}

impl Durations {
    /// The upper bounds of all buckets but the last, in milliseconds: from a tool in memory to a model that thinks for ten minutes.
    pub const BOUNDS_MS: [u64; 14] =
        [1, 5, 25, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 180_000, 600_000];

    fn count(&mut self, ms: u64) {
        let bucket = Self::BOUNDS_MS.partition_point(|bound| *bound < ms);
        self.buckets[bucket] = self.buckets[bucket].saturating_add(1);
        self.sum_ms = self.sum_ms.saturating_add(ms);
    }
}

/// The counters of a running runtime.
#[derive(Debug, Default)]
pub(crate) struct Counting {
    counters: Lock<Counters>,
    /// The key of the label whose values are told apart.
    pub(crate) label: Option<String>,
}

impl Counting {
    /// The counters as they are now.
    pub(crate) fn now(&self) -> Counters {
        self.counters.lock().clone()
    }

    /// Counts a milestone, and how long that took which it ends.
    pub(crate) fn count(&self, milestone: &Milestone<'_>, took: Option<u64>) {
        self.counters.lock().add(milestone, took);
    }

    /// Counts a line of a session's bill.
    pub(crate) fn used(&self, line: &BillLine, labels: &Labels) {
        let mut counters = self.counters.lock();
        named(&mut counters.models, &line.model, other_model, |model| model.spent += line.charge);
        if let Some(key) = &self.label {
            named(&mut counters.labelled, labels.get(key).unwrap_or_default(), other, |spent| *spent += line.charge);
        }
    }

    /// Counts a decision that the tape refused.
    pub(crate) fn refused(&self) {
        bump(&mut self.counters.lock().refused_appends);
    }
}

impl Counters {
    fn add(&mut self, milestone: &Milestone<'_>, took: Option<u64>) {
        match milestone {
            Milestone::TurnBegan => bump(&mut self.turns_begun),
            Milestone::TurnOver { outcome, .. } => bump(self.turns.entry(word(outcome)).or_default()),
            Milestone::Asked { attempt: 1, .. } => bump(&mut self.steps),
            Milestone::Answered { model: Some(model), .. } => {
                let Some(ms) = took else { return };
                named(&mut self.models, *model, other_model, |model| model.took.count(ms));
            }
            Milestone::RequestFailed { model: Some(model), kind, .. } => {
                named(&mut self.models, *model, other_model, |model| bump(model.failed.entry(*kind).or_default()));
            }
            Milestone::RetryWaits { .. } => bump(&mut self.retries),
            Milestone::CallOver { tool: Some(tool), judged, is_error, .. } => {
                named(&mut self.tools, *tool, other, |counters| {
                    bump(counters.verdicts.entry(*judged).or_default());
                    if *judged == CallVerdict::Allowed {
                        counters.failed = counters.failed.saturating_add(u64::from(*is_error));
                        took.into_iter().for_each(|ms| counters.took.count(ms));
                    }
                });
            }
            Milestone::PersonAsked => bump(&mut self.asks),
            Milestone::TaskBegan { .. } => bump(&mut self.tasks),
            Milestone::Compacted => bump(&mut self.compactions),
            Milestone::CompactionFailed => bump(&mut self.compactions_failed),
            Milestone::Recovered { .. } => bump(&mut self.recoveries),
            _ => {}
        }
    }
}

/// JSON has texts alone for keys.
fn by_text<S: Serializer>(models: &BTreeMap<ModelRef, ModelCounters>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(models.iter().map(|(model, counters)| (model.to_string(), counters)))
}

/// Counts under that name, or under the one for all names beyond the limit.
fn named<K, N, C>(all: &mut BTreeMap<K, C>, name: &N, other: impl FnOnce() -> K, count: impl FnOnce(&mut C))
where
    K: Ord + Borrow<N>,
    N: Ord + ToOwned<Owned = K> + ?Sized,
    C: Default,
{
    if let Some(counters) = all.get_mut(name) {
        return count(counters);
    }
    let name = if all.len() < NAMES_MAX { name.to_owned() } else { other() };
    count(all.entry(name).or_default());
}

fn other() -> String {
    "other".to_owned()
}

fn other_model() -> ModelRef {
    ModelRef::new("other", "other")
}

fn bump(counter: &mut u64) {
    *counter = counter.saturating_add(1);
}

/// The word of an outcome, as tapes have it.
pub(crate) fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Done => "done",
        Outcome::Failed { .. } => "failed",
        Outcome::Aborted { .. } => "aborted",
        Outcome::Rejected { .. } => "rejected",
        Outcome::StepLimit { .. } => "step_limit",
        Outcome::RecoveryLimit { .. } => "recovery_limit",
        Outcome::Budget { .. } => "budget",
        Outcome::DoomLoop { .. } => "doom_loop",
        Outcome::CutShort => "cut_short",
        Outcome::Refused => "refused",
        Outcome::BadAnswer { .. } => "bad_answer",
    }
}
