//! The one table of all figures that go to a dashboard: a pure reading of a runtime's counters and tree.

use std::collections::BTreeMap;

use serde_json::Value as Json;
use tamtam::{
    model::Cost,
    runtime::{Counters, Durations, Tree},
    session::Spent,
    supervisor::Node,
};

/// A family of figures.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Family {
    /// The name without a unit's ending for counters: `tamtam_turns`.
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    pub(crate) kind: Kind,
    pub(crate) samples: Vec<Sample>,
}

/// What kind of figures they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Only grows while the runtime lives.
    Counter,
    Gauge,
    Histogram,
}

/// One figure, with its labels.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample {
    pub(crate) labels: Vec<(&'static str, String)>,
    pub(crate) value: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Whole(u64),
    Real(f64),
    Durations(Durations),
}

impl Sample {
    fn new(labels: impl IntoIterator<Item = (&'static str, String)>, value: impl Into<Value>) -> Sample {
        Sample { labels: labels.into_iter().collect(), value: value.into() }
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Value {
        Value::Whole(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Value {
        Value::Real(value)
    }
}

impl From<Durations> for Value {
    fn from(value: Durations) -> Value {
        Value::Durations(value)
    }
}

/// All figures of a runtime, as they are now.
pub(crate) fn families(counters: &Counters, tree: &Tree) -> Vec<Family> {
    let mut all = of_counters(counters);
    all.extend(of_models(counters));
    all.extend(of_tools(counters));
    all.extend(of_labels(counters));
    all.extend(of_tree(tree));
    all
}

fn counter(name: &'static str, help: &'static str, samples: impl IntoIterator<Item = Sample>) -> Family {
    Family { name, help, kind: Kind::Counter, samples: samples.into_iter().collect() }
}

fn gauge(name: &'static str, help: &'static str, samples: impl IntoIterator<Item = Sample>) -> Family {
    Family { name, help, kind: Kind::Gauge, samples: samples.into_iter().collect() }
}

fn of_counters(counters: &Counters) -> Vec<Family> {
    let one = |value: u64| [Sample::new([], value)];
    let turns = counters.turns.iter().map(|(outcome, n)| Sample::new([("outcome", (*outcome).to_owned())], *n));
    let compactions = [("done", counters.compactions), ("failed", counters.compactions_failed)];
    vec![
        counter("tamtam_turns_begun", "Turns that began.", one(counters.turns_begun)),
        counter("tamtam_turns", "Turns that are over, by outcome.", turns),
        counter("tamtam_steps", "Steps: model requests of turns, without retries.", one(counters.steps)),
        counter("tamtam_retries", "Waits before a retry of a model request.", one(counters.retries)),
        counter(
            "tamtam_recoveries",
            "Sessions that were rebuilt from their tapes in mid-turn.",
            one(counters.recoveries),
        ),
        counter(
            "tamtam_compactions",
            "Compactions, by what became of them.",
            compactions.map(|(result, n)| Sample::new([("result", result.to_owned())], n)),
        ),
        counter("tamtam_asks", "Questions to people.", one(counters.asks)),
        counter("tamtam_tasks", "Tasks that were given to children.", one(counters.tasks)),
        counter("tamtam_refused_appends", "Decisions that a tape refused.", one(counters.refused_appends)),
    ]
}

fn of_models(counters: &Counters) -> Vec<Family> {
    let models = || counters.models.iter().map(|(model, counters)| (("model", model.to_string()), counters));
    let tokens = models().flat_map(|(model, counters)| {
        tokens(&counters.spent).map(|(kind, n)| Sample::new([model.clone(), ("kind", kind.to_owned())], n))
    });
    let failed = models().flat_map(|(model, counters)| {
        counters.failed.iter().map(move |(kind, n)| Sample::new([model.clone(), ("kind", word(kind))], *n))
    });
    vec![
        counter(
            "tamtam_requests",
            "Model requests that used something, by model.",
            models().map(|(model, counters)| Sample::new([model], counters.spent.requests)),
        ),
        counter("tamtam_request_failures", "Model requests that failed, by kind.", failed),
        counter("tamtam_tokens", "Tokens, by model and kind; estimates included.", tokens),
        counter(
            "tamtam_cost_usd",
            "Cost of the tokens whose price is known, in US dollars.",
            models().map(|(model, counters)| Sample::new([model], usd(&counters.spent.cost))),
        ),
        counter(
            "tamtam_unpriced_requests",
            "Model requests whose price is not known.",
            models().map(|(model, counters)| Sample::new([model], counters.spent.cost.unpriced)),
        ),
        Family {
            name: "tamtam_request_duration_seconds",
            help: "How long the model requests took that were answered.",
            kind: Kind::Histogram,
            samples: models().map(|(model, counters)| Sample::new([model], counters.took)).collect(),
        },
    ]
}

fn of_tools(counters: &Counters) -> Vec<Family> {
    let tools = || counters.tools.iter().map(|(tool, counters)| (("tool", tool.clone()), counters));
    let calls = tools().flat_map(|(tool, counters)| {
        counters.verdicts.iter().map(move |(verdict, n)| Sample::new([tool.clone(), ("verdict", word(verdict))], *n))
    });
    vec![
        counter("tamtam_calls", "Tool calls that are over, by the verdict on them.", calls),
        counter(
            "tamtam_call_failures",
            "Tool calls that ran and failed.",
            tools().map(|(tool, counters)| Sample::new([tool], counters.failed)),
        ),
        Family {
            name: "tamtam_call_duration_seconds",
            help: "How long the tool calls took that ran.",
            kind: Kind::Histogram,
            samples: tools().map(|(tool, counters)| Sample::new([tool], counters.took)).collect(),
        },
    ]
}

/// Nothing where no label is counted.
fn of_labels(counters: &Counters) -> Vec<Family> {
    let labels = || counters.labelled.iter().map(|(value, spent)| (("label", value.clone()), spent));
    if counters.labelled.is_empty() {
        return Vec::new();
    }
    vec![
        counter(
            "tamtam_label_tokens",
            "Tokens, by the value of the counted label.",
            labels().map(|(label, spent)| Sample::new([label], spent.usage.total())),
        ),
        counter(
            "tamtam_label_cost_usd",
            "Known cost, by the value of the counted label, in US dollars.",
            labels().map(|(label, spent)| Sample::new([label], usd(&spent.cost))),
        ),
    ]
}

fn of_tree(tree: &Tree) -> Vec<Family> {
    let (mut phases, mut statuses, mut work) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let (mut restarts, mut waiting, mut deepest, mut refused) = (0_u64, 0_u64, 0_u64, 0_u64);
    each(&tree.roots, &mut |node| {
        match node.kind {
            "session" => *phases.entry(node.phase.unwrap_or("starting")).or_insert(0_u64) += 1,
            "request" | "call" => *work.entry(node.kind).or_insert(0_u64) += 1,
            _ => {}
        }
        if !matches!(node.kind, "request" | "call") {
            *statuses.entry(node.status.as_str()).or_insert(0_u64) += 1;
        }
        restarts = restarts.saturating_add(node.restarts);
        waiting = waiting.saturating_add(node.queue);
        deepest = deepest.max(node.queue);
        refused = refused.saturating_add(node.queue_rejected);
    });
    let by = |label: &'static str, counts: BTreeMap<&'static str, u64>| {
        counts.into_iter().map(move |(name, n)| Sample::new([(label, name.to_owned())], n)).collect::<Vec<_>>()
    };
    vec![
        gauge("tamtam_sessions", "Sessions in the tree, by what they do.", by("phase", phases)),
        gauge("tamtam_actors", "Actors in the tree, by status.", by("status", statuses)),
        gauge("tamtam_running", "Model requests and tool calls that run.", by("kind", work)),
        // Those of nodes that are gone are gone with them.
        gauge("tamtam_restarts", "Restarts of the actors that are in the tree.", [Sample::new([], restarts)]),
        gauge("tamtam_queued", "Inputs that wait in the queues of all actors.", [Sample::new([], waiting)]),
        gauge("tamtam_queue_deepest", "Inputs that wait in the longest queue.", [Sample::new([], deepest)]),
        gauge(
            "tamtam_queue_refused",
            "Inputs refused by full queues that are in the tree.",
            [Sample::new([], refused)],
        ),
    ]
}

/// Visits all nodes.
pub(crate) fn each<'n>(nodes: &'n [Node], visit: &mut impl FnMut(&'n Node)) {
    for node in nodes {
        visit(node);
        each(&node.children, visit);
    }
}

fn tokens(spent: &Spent) -> [(&'static str, u64); 5] {
    let usage = spent.usage;
    [
        ("input", usage.input),
        ("output", usage.output),
        ("reasoning", usage.reasoning),
        ("cache_read", usage.cache_read),
        ("cache_write", usage.cache_write),
    ]
}

#[allow(clippy::cast_precision_loss, reason = "a dashboard needs no picodollars")]
fn usd(cost: &Cost) -> f64 {
    cost.known.0 as f64 / 1e12
}

/// The word for a value, as tapes have it.
fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Json::String(word)) => word,
        _ => "other".to_owned(),
    }
}
