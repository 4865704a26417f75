//! What decisions looked at beside the state, read back from what they wrote.
//!
//! | input | where it stands on the tape |
//! |---|---|
//! | the time | the time of the entries |
//! | a model's window | `window` of the nearest `request` to that model |
//! | that of a host's own summary | `anchor.looked` of the `state` that it begins |
//! | the window of a model that only sums up | `looked` of the nearest `compaction`; of an older tape its `room` |
//! | a model's price | the nearest `request` or `compaction` |
//! | hash of the tools | `tools` of the nearest `request` that offers some |
//! | tokens of the tools | `estimated` of that request, less what the conversation takes |
//! | all of that, where a budget did not allow the request, or for a summary | `looked` and `instead_of` of what was written |
//! | whether anybody listens | an `ask`, or what is done instead: a denial that says that nobody does, the end of a turn |
//! | jitter | `until` of a `retry_wait` |
//! | the host's rules | `host_rules`; else those that the tape has |
//! | tools and judgements | see `tools.rs` |
//!
//! The nearest request is the next one, for a decision that leads to it saw the same; else the last one before.

use std::collections::BTreeMap;

use super::{Given, tools};
use crate::{
    context::{RESERVE_MIN, Window, of_text},
    ids::Seq,
    message::ModelRef,
    model::Price,
    permission::{Globs, Ruleset},
    session::{
        Entry, Env, Extent, Judged, OnBreach, Outcome, Record, RequestOpened, State, Verdict, Windows, jitter_of,
        tools_tokens,
    },
    tool::Toolbox,
};

/// The window of a model of which the tape says nothing.
const UNKNOWN: Window = Window { context: 128_000, reserve: RESERVE_MIN, output: 0 };

/// What one request says of what was handed in.
#[derive(Debug)]
struct Seen {
    seq: Seq,
    model: ModelRef,
    window: Window,
    price: Option<Price>,
    /// Hash of the tools; empty where none were offered, or no request was made.
    tools: String,
    tokens: u64,
}

/// What one compaction says of the model that sums up.
#[derive(Debug)]
struct Summariser {
    seq: Seq,
    usable: u64,
    price: Option<Price>,
}

/// What the requests of a tape say of what was handed in.
#[derive(Debug, Default)]
pub(super) struct Inputs {
    seen: Vec<Seen>,
    /// The places among them of each model.
    of_model: BTreeMap<ModelRef, Vec<usize>>,
    /// The places among them of those that offer tools.
    with_tools: Vec<usize>,
    /// What the models that only sum up take, by the entries that opened their compactions.
    summarisers: BTreeMap<ModelRef, Vec<Summariser>>,
}

impl Inputs {
    /// Reads them in one pass over all entries.
    pub(super) fn of<'e>(entries: impl Iterator<Item = &'e Entry>) -> Inputs {
        let mut inputs = Inputs::default();
        let mut state: Option<State> = None;
        for entry in entries {
            if let (Record::Request(request), Some(state)) = (&entry.record, &state) {
                inputs.seen.push(Seen::of(entry.seq, request, state));
            }
            inputs.look(entry);
            if let (Record::Compaction(opened), Some(state)) = (&entry.record, &state) {
                // Back from what the summariser is shown, by our estimate, to what it takes, by its own count.
                let factor = u128::from(state.context.meter.factor.max(1_000));
                let usable = (u128::from(opened.room) * factor).div_ceil(1_000);
                let usable = u64::try_from(usable).unwrap_or(u64::MAX);
                let asked = Summariser { seq: entry.seq, usable, price: opened.price };
                inputs.summarisers.entry(opened.model.clone()).or_default().push(asked);
            }
            match (&mut state, &entry.record) {
                (Some(state), _) => state.apply(entry),
                (none, Record::State(first)) => none.insert((**first).clone()).apply(entry),
                (None, _) => {}
            }
        }
        inputs.index();
        inputs
    }

    /// What an entry says of models that no request of the session is made to there.
    fn look(&mut self, entry: &Entry) {
        let looked = match &entry.record {
            Record::BudgetAsk { looked, .. } | Record::Ending { looked, .. } | Record::TurnFinished { looked, .. } => {
                &looked[..]
            }
            Record::Request(request) => request.instead_of.as_deref().map_or(&[][..], std::slice::from_ref),
            Record::Compaction(opened) => &opened.looked,
            Record::State(state) => state.anchor.as_ref().map_or(&[][..], |mark| &mark.looked),
            _ => &[],
        };
        self.seen.extend(looked.iter().map(|looked| Seen {
            seq: entry.seq,
            model: looked.model.clone(),
            window: looked.window,
            price: looked.price,
            tools: String::new(),
            tokens: looked.tools,
        }));
    }

    /// Notes where what was seen stands, so that a decision finds it without a look at all others.
    fn index(&mut self) {
        for (place, seen) in self.seen.iter().enumerate() {
            match self.of_model.get_mut(&seen.model) {
                Some(places) => places.push(place),
                None => drop(self.of_model.insert(seen.model.clone(), vec![place])),
            }
            if !seen.tools.is_empty() {
                self.with_tools.push(place);
            }
        }
    }

    /// The nearest compaction that a model was asked for.
    fn summariser(&self, seq: Seq, model: &ModelRef) -> Option<&Summariser> {
        nearest(self.summarisers.get(model)?, |asked| asked.seq >= seq)
    }

    /// The nearest request to a model.
    fn of_model(&self, seq: Seq, model: &ModelRef) -> Option<&Seen> {
        self.near(seq, self.of_model.get(model)?)
    }

    /// The nearest request that offers tools.
    fn with_tools(&self, seq: Seq) -> Option<&Seen> {
        self.near(seq, &self.with_tools)
    }

    /// The nearest of those at these places.
    fn near(&self, seq: Seq, places: &[usize]) -> Option<&Seen> {
        nearest(places, |place| self.seen[*place].seq >= seq).map(|place| &self.seen[*place])
    }
}

/// The first that is not before, else the last that is. They are in order.
fn nearest<T>(all: &[T], is_not_before: impl Fn(&T) -> bool) -> Option<&T> {
    all.get(all.partition_point(|one| !is_not_before(one))).or(all.last())
}

impl Seen {
    fn of(seq: Seq, request: &RequestOpened, state: &State) -> Seen {
        // Written before the field was: only the room is known.
        let guessed = || {
            let reserve = RESERVE_MIN.min(request.usable);
            Window { context: request.usable.saturating_add(reserve), reserve, output: 0 }
        };
        let conversation = state.context.estimated.saturating_add(of_text(&state.settings.system));
        Seen {
            seq,
            model: request.model.clone(),
            window: request.window.unwrap_or_else(guessed),
            price: request.price,
            tools: request.tools.clone(),
            tokens: request.estimated.saturating_sub(conversation),
        }
    }
}

/// The windows as the decision that begins at an entry saw them.
#[derive(Debug)]
struct WindowsAt<'a> {
    inputs: &'a Inputs,
    seq: Seq,
    given: Option<Window>,
}

impl Windows for WindowsAt<'_> {
    fn window(&self, model: &ModelRef) -> Window {
        let seen = || self.inputs.of_model(self.seq, model).map(|seen| seen.window);
        // Of a model that no request was made to but for summaries only the room is known.
        let asked = || {
            let asked = self.inputs.summariser(self.seq, model);
            asked.map(|asked| Window { context: asked.usable, reserve: 0, output: 0 })
        };
        self.given.or_else(seen).or_else(asked).unwrap_or(UNKNOWN)
    }

    fn price(&self, model: &ModelRef) -> Option<Price> {
        match self.inputs.of_model(self.seq, model) {
            Some(seen) => seen.price,
            None => self.inputs.summariser(self.seq, model).and_then(|asked| asked.price),
        }
    }
}

/// All that one decision looked at beside the state.
#[derive(Debug)]
pub(super) struct Around<'a> {
    toolbox: Toolbox,
    toolbox_hash: String,
    tools_tokens: u64,
    windows: WindowsAt<'a>,
    host_rules: Option<Ruleset>,
    asks_are_heard: bool,
    jitter: f64,
    verdicts: Option<BTreeMap<Seq, Verdict>>,
}

impl<'a> Around<'a> {
    /// Reads it back for the decision that wrote these entries.
    pub(super) fn of(inputs: &'a Inputs, given: &Given, state: &State, entries: &[Entry]) -> Around<'a> {
        let seq = entries.first().map_or(state.seq, |entry| entry.seq);
        let windows = WindowsAt { inputs, seq, given: given.window };
        let unheard = |entry| says_nobody_listens(entry) || stops_for_want_of_an_answer(state, entry);
        let (asks_are_heard, jitter) = (!entries.iter().any(unheard), jitter(entries));
        let said = entries.iter().find_map(|entry| match &entry.record {
            Record::HostRules { rules } => Some(rules.clone()),
            _ => None,
        });
        let host_rules = said.unwrap_or_else(|| state.settings.host.clone());
        if let Some(toolbox) = given.toolbox.clone() {
            let (toolbox_hash, tools_tokens) = (toolbox.hash(), tools_tokens(&toolbox));
            let verdicts = None;
            return Around {
                toolbox,
                toolbox_hash,
                tools_tokens,
                windows,
                host_rules,
                asks_are_heard,
                jitter,
                verdicts,
            };
        }
        let offered = inputs.with_tools(seq);
        Around {
            toolbox: tools::toolbox(state, entries),
            toolbox_hash: offered.map_or_else(String::new, |seen| seen.tools.clone()),
            tools_tokens: nearest(&inputs.seen, |seen| seen.seq >= seq).map_or(0, |seen| seen.tokens),
            windows,
            host_rules,
            asks_are_heard,
            jitter,
            verdicts: Some(tools::verdicts(state, entries)),
        }
    }

    /// The same, as the core takes it.
    pub(super) fn env<'e>(&'e self, globs: &'e Globs) -> Env<'e> {
        Env {
            toolbox: &self.toolbox,
            globs,
            toolbox_hash: &self.toolbox_hash,
            tools_tokens: self.tools_tokens,
            windows: &self.windows,
            host_rules: self.host_rules.as_ref(),
            asks_are_heard: self.asks_are_heard,
            jitter: self.jitter,
            verdicts: self.verdicts.as_ref(),
        }
    }
}

fn says_nobody_listens(entry: &Entry) -> bool {
    matches!(&entry.record, Record::Result { result, judged }
        if tools::judged_of(result, *judged) == Some(Judged::Unheard))
}

/// A person was to be asked for more of a budget, and the turn ends instead. Where it ends because of an answer, or of silence,
/// nobody is asked in that decision.
fn stops_for_want_of_an_answer(state: &State, entry: &Entry) -> bool {
    let asks = state.settings.budget.on_breach == OnBreach::Ask;
    asks && matches!(&entry.record, Record::Ending { outcome: Outcome::Budget { breach }, .. }
        if breach.extent != Extent::Grant)
}

fn jitter(entries: &[Entry]) -> f64 {
    let drawn = entries.iter().find_map(|entry| match &entry.record {
        Record::RetryWait { attempt, until, server: false } => {
            let waited = until.0.saturating_sub(entry.time.0);
            Some(jitter_of(*attempt, waited))
        }
        _ => None,
    });
    drawn.unwrap_or(0.5)
}
