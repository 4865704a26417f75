//! Alarms: conditions of a runtime that want a person, and when they come and go.
//!
//! [`conditions`] is a function of values. [`Alarms`] looks every few seconds and says what changed; it asks no actor, so a stuck one
//! is seen too.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use tamtam::{
    Runtime, SessionId,
    runtime::{Counters, SessionFigures, Tree},
    session::Resource,
    supervisor::{Node, Status},
};
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::samples::each;

/// When a condition is an alarm.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct AlarmOptions {
    /// How often the tree is looked at; 5 s by default, and at least 100 ms.
    pub every: Duration,
    /// How long a request or a call may go without a sign of life: a byte of the answer, a report of progress; 5 min by default.
    pub quiet_max: Duration,
    /// How many crashes of one actor, in the window of its restart budget; 3 by default.
    pub crashes: u64,
    /// How much of a budget may be used, in hundredths; 80 by default.
    pub budget_percent: u64,
    /// How many inputs may wait in one queue; 32 by default.
    pub queue: u64,
}

impl Default for AlarmOptions {
    fn default() -> AlarmOptions {
        AlarmOptions {
            every: Duration::from_secs(5),
            quiet_max: Duration::from_secs(300),
            crashes: 3,
            budget_percent: 80,
            queue: 32,
        }
    }
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Condition {
    /// A request or a call has shown no sign of life for too long.
    Stalled,
    /// An actor does not take its next message: it has been busy with one for too long, or does not end.
    Stuck,
    /// An actor crashes again and again.
    Crashing,
    /// An actor is kept stopped, after too many crashes or by hand.
    Parked,
    /// Most of a budget is used.
    Budget(Resource),
    /// Too many inputs wait.
    Queue,
    /// The disk refuses what sessions write.
    Disk,
}

/// Something that wants a person.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Alarm {
    /// The path of the node in the tree; empty for the whole runtime.
    pub path: String,
    /// The session that it is about, if it is about one.
    pub session: Option<SessionId>,
    /// What is wrong.
    pub condition: Condition,
}

/// The alarms of a runtime as it is now. `quiet` says for how long a node has shown no sign of life, in milliseconds.
#[must_use]
pub fn conditions(tree: &Tree, options: &AlarmOptions, quiet: &dyn Fn(&Node) -> u64) -> Vec<Alarm> {
    let mut alarms = Vec::new();
    below(&tree.roots, (None, None), &mut |node, (session, phase)| {
        let mut found = Vec::new();
        let quiet_max = u64::try_from(options.quiet_max.as_millis()).unwrap_or(u64::MAX);
        let is_work = matches!(node.kind, "request" | "call");
        // A call that waits for a person waits as long as the person takes.
        if is_work && phase != Some("asking") && quiet(node) >= quiet_max {
            found.push(Condition::Stalled);
        }
        if node.busy_ms.is_some_and(|ms| ms >= quiet_max) || node.status == Status::Unkillable {
            found.push(Condition::Stuck);
        }
        if node.restarts_in_window >= options.crashes && node.status != Status::Parked {
            found.push(Condition::Crashing);
        }
        if node.status == Status::Parked {
            found.push(Condition::Parked);
        }
        if node.queue >= options.queue && !is_work {
            found.push(Condition::Queue);
        }
        if node.phase == Some("storage") {
            found.push(Condition::Disk);
        }
        found.extend(used_up(node, options.budget_percent).into_iter().map(Condition::Budget));
        let of = |condition| Alarm { path: node.path.clone(), session: session.cloned(), condition };
        alarms.extend(found.into_iter().map(of));
    });
    alarms.sort();
    alarms
}

/// Visits all nodes, each with the session that it belongs to and what that does.
fn below<'n>(
    nodes: &'n [Node],
    of: (Option<&SessionId>, Option<&'static str>),
    visit: &mut impl FnMut(&'n Node, (Option<&SessionId>, Option<&'static str>)),
) {
    for node in nodes {
        let own: Option<SessionId> = (node.kind == "session").then(|| node.id.parse().ok()).flatten();
        let of = own.as_ref().map_or(of, |session| (Some(session), node.phase));
        visit(node, of);
        below(&node.children, of, visit);
    }
}

/// The resources of a session's budget of which so many hundredths are used.
fn used_up(node: &Node, percent: u64) -> Vec<Resource> {
    let Some(SessionFigures { usage, cost, left, .. }) = SessionFigures::of(node) else { return Vec::new() };
    let of = |resource: Resource, used: u64, left: Option<u64>| {
        let left = left?;
        let all = u128::from(used) + u128::from(left);
        (all > 0 && u128::from(used) * 100 >= all * u128::from(percent)).then_some(resource)
    };
    let tokens = of(Resource::Tokens, usage.total(), left.tokens);
    let money = of(Resource::Usd, cost.known.0, left.usd.map(|usd| usd.0));
    tokens.into_iter().chain(money).collect()
}

/// A change of the alarms.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AlarmChange {
    /// A condition has come.
    Raised(Alarm),
    /// It is over.
    Cleared(Alarm),
}

/// The alarms of a runtime as they come and go. Looks only while somebody waits in [`Alarms::next`]; dropping it ends it.
///
/// Keeps the runtime. A look costs a visit of each node.
#[derive(Debug)]
pub struct Alarms {
    runtime: Runtime,
    options: AlarmOptions,
    ticks: Interval,
    raised: Vec<Alarm>,
    changes: VecDeque<AlarmChange>,
    /// The sign of life of each request and call at the last look, and for how long it has been that one.
    heard: BTreeMap<u64, (u64, tokio::time::Instant)>,
    refused: u64,
}

impl Alarms {
    /// The alarms of a runtime. Call it inside of a tokio runtime.
    #[must_use]
    pub fn of(runtime: &Runtime, options: AlarmOptions) -> Alarms {
        let mut ticks = interval(options.every.max(Duration::from_millis(100)));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let refused = runtime.counters().refused_appends;
        Alarms {
            runtime: runtime.clone(),
            options,
            ticks,
            raised: Vec::new(),
            changes: VecDeque::new(),
            heard: BTreeMap::new(),
            refused,
        }
    }

    /// Waits for the next change. Dropping the future loses none.
    pub async fn next(&mut self) -> AlarmChange {
        loop {
            if let Some(change) = self.changes.pop_front() {
                return change;
            }
            self.ticks.tick().await;
            self.look();
        }
    }

    /// The conditions that hold, as of the last look.
    #[must_use]
    pub fn raised(&self) -> &[Alarm] {
        &self.raised
    }

    fn look(&mut self) {
        let (tree, now) = (self.runtime.tree(), tokio::time::Instant::now());
        let mut heard = BTreeMap::new();
        each(&tree.roots, &mut |node| {
            if matches!(node.kind, "request" | "call") {
                let before = self.heard.get(&node.key).filter(|(handled, _)| *handled == node.handled);
                let since = before.map_or(now, |(_, since)| *since);
                heard.insert(node.key, (node.handled, since));
            }
        });
        self.heard = heard;
        let quiet = |node: &Node| {
            let since = self.heard.get(&node.key).map(|(_, since)| now.saturating_duration_since(*since));
            since.map_or(0, |quiet| u64::try_from(quiet.as_millis()).unwrap_or(u64::MAX))
        };
        let mut alarms = conditions(&tree, &self.options, &quiet);
        let Counters { refused_appends, .. } = self.runtime.counters();
        if refused_appends > self.refused {
            alarms.push(Alarm { path: String::new(), session: None, condition: Condition::Disk });
        }
        self.refused = refused_appends;
        alarms.sort();
        let cleared = self.raised.iter().filter(|alarm| alarms.binary_search(alarm).is_err());
        self.changes.extend(cleared.cloned().map(AlarmChange::Cleared));
        let raised = alarms.iter().filter(|alarm| self.raised.binary_search(alarm).is_err());
        self.changes.extend(raised.cloned().map(AlarmChange::Raised));
        self.raised = alarms;
    }
}
