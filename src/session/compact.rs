//! When a conversation is made smaller, and what takes its place (checklist J, C-11, C-18).
//!
//! Before each step the core asks how full the context is. Too full, old tool outputs are pruned; still too full, a
//! compaction is opened: a ticket of the session, not of the turn. It works in the background while the turn goes on, unless
//! the context is so full that no request would fit. Its summary takes the place of what it sums up when no request is open,
//! so that a request that a crash interrupts is always made again byte for byte.
//!
//! A compaction that fails leaves the history as it is and is tried again before the next step. After three failures in a row
//! the oldest part is cut off without a summary, but only when there is no room left; the host's own words, and the files that
//! were touched, are kept all the same. Nothing that is left out of the context leaves the tape.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    context::{
        FileOperations, Level, Meter, PruneRule, Replaced, Summarise, UserWords, Window, check, cut, of_item, of_text,
        prune,
    },
    ids::Seq,
    message::ModelRef,
    model::{Item, ToolResultItem},
    session::{Directive, Held, Open, Record, Refusal, State, Steering, advance, decide::Draft},
    usage::Usage,
};

/// Failures in a row after which no summary is asked for any more.
const FAILURES_MAX: u32 = 3;

/// What a session knows of its context beside the history.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContextState {
    /// Our estimate of the history's tokens.
    pub estimated: u64,
    /// What the provider said of them.
    pub meter: Meter,
    /// The newest summary, as the model wrote it.
    pub summary: Option<Arc<str>>,
    /// Items at the front of the history that stand in for what was cut off: 0 or 1.
    pub front: usize,
    /// What the host said in what was cut off.
    pub users: UserWords,
    /// The files that were touched in what was cut off.
    pub files: FileOperations,
    /// Compactions that failed in a row.
    pub failures: u32,
    /// Compactions that took place.
    pub compactions: u64,
    /// What is ready to be put in place as soon as no request is open.
    pub ready: Option<Arc<Compacted>>,
}

/// Why a compaction was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CompactionReason {
    /// The context was too full.
    Threshold,
    /// The provider refused a request as too large.
    Overflow,
    /// A host asked for it.
    Asked,
}

/// A compaction that was opened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenCompaction {
    /// Why.
    pub reason: CompactionReason,
    /// The model that sums up.
    pub model: ModelRef,
    /// Items of the history that go, from the front.
    pub first_kept: usize,
    /// Where the turn begins that the cut goes through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split_turn: Option<usize>,
    /// How full the context was.
    pub used: u64,
    /// What a request may take.
    pub usable: u64,
}

/// What takes the place of the items before the cut.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compacted {
    /// What the model wrote; `None` where the oldest part was cut off without a summary.
    pub summary: Option<Arc<str>>,
    /// What that took.
    #[serde(default)]
    pub usage: Usage,
    /// Items of the history that go, from the front.
    pub first_kept: usize,
    /// The calls among them.
    pub replaced: Vec<Replaced>,
}

/// How full the context of the running turn is, for its model.
pub(super) fn fullness(draft: &Draft<'_>) -> (Window, u64) {
    let state = &draft.state;
    let turn_model = state.turn.as_ref().and_then(|turn| turn.model.as_ref());
    let window = draft.env.windows.window(turn_model.unwrap_or(&state.settings.model));
    let window = state.settings.compaction.reserve.map_or(window, |reserve| window.with_reserve(reserve));
    (window, state.context.meter.used(estimated(draft)))
}

/// Our estimate of the next request, whole.
pub(super) fn estimated(draft: &Draft<'_>) -> u64 {
    let state = &draft.state;
    state.context.estimated + of_text(&state.settings.system) + draft.env.tools_tokens
}

/// Makes room before a step. Says whether the step must wait for a compaction.
pub(super) fn holds_up(draft: &mut Draft<'_>) -> bool {
    if !draft.state.settings.compaction.auto {
        return false;
    }
    let (window, used) = fullness(draft);
    let mut level = window.level(used);
    if level >= Level::Compact && draft.state.compaction().is_none() && draft.state.context.ready.is_none() {
        let results = prune(&draft.state.history, draft.state.context.front, PruneRule::default());
        if !results.is_empty() {
            draft.write(None, Record::Pruned { results });
            let (window, used) = fullness(draft);
            level = window.level(used);
        }
    }
    let must = level == Level::Full || overflowed(draft);
    if (level >= Level::Compact || must) && draft.state.compaction().is_none() {
        let reason = if overflowed(draft) { CompactionReason::Overflow } else { CompactionReason::Threshold };
        if draft.state.context.failures < FAILURES_MAX {
            open(draft, reason);
        } else if must {
            truncate(draft);
        }
    }
    if !must || draft.state.compaction().is_none() {
        return false;
    }
    if advance::strongest(draft) == Some(Steering::AbortRunning) {
        // Whoever is in that much of a hurry is not made to wait for a summary.
        truncate(draft);
        return false;
    }
    true
}

fn overflowed(draft: &Draft<'_>) -> bool {
    draft.state.turn.as_ref().is_some_and(|turn| turn.overflowed)
}

/// Opens a compaction, where there is anything that could go.
fn open(draft: &mut Draft<'_>, reason: CompactionReason) -> Option<Seq> {
    let (window, used) = fullness(draft);
    let settings = draft.state.settings.clone();
    let keep = settings.compaction.keep.unwrap_or_else(|| window.keep());
    let meter = draft.state.context.meter;
    let found = cut(&draft.state.history, draft.state.context.front, keep, |item| meter.corrected(of_item(item)))?;
    let model = settings.compaction.model.clone();
    let opened = OpenCompaction {
        reason,
        model: model.unwrap_or_else(|| settings.model.clone()),
        first_kept: found.first_kept,
        split_turn: found.split_turn,
        used,
        usable: window.usable(),
    };
    let ticket = draft.write(None, Record::Compaction(opened));
    draft.direct(Directive::StartCompaction(ticket));
    Some(ticket)
}

/// A host asks for a compaction now.
pub(super) fn asked(draft: &mut Draft<'_>) -> Result<Held, Refusal> {
    if let Some((ticket, _)) = draft.state.compaction() {
        return Err(Refusal::Compacting { ticket });
    }
    match open(draft, CompactionReason::Asked) {
        Some(ticket) => Ok(Held::Done(ticket)),
        None => Err(Refusal::NothingToCompact),
    }
}

/// The summariser has answered, or failed.
pub(super) fn summarised(draft: &mut Draft<'_>, ticket: Seq, result: &Result<(Arc<str>, Usage), String>) {
    let Some(Open::Compaction(open)) = draft.state.open.get(&ticket).cloned() else { return };
    let going: Vec<_> = draft.state.history.iter().take(open.first_kept).cloned().collect();
    let tokens = going.iter().map(|item| of_item(item)).sum();
    let checked = match result {
        Ok((summary, usage)) => check(summary, tokens).map(|()| (summary, usage)).map_err(|bad| bad.to_string()),
        Err(error) => Err(error.clone()),
    };
    match checked {
        Ok((summary, usage)) => {
            let compacted = Compacted {
                summary: Some(summary.clone()),
                usage: *usage,
                first_kept: open.first_kept,
                replaced: Replaced::of(going.iter().map(|item| &**item)),
            };
            draft.write(Some(ticket), Record::Compacted(Arc::new(compacted)));
        }
        Err(error) => {
            draft.write(Some(ticket), Record::CompactionFailed { error });
        }
    }
}

/// After a crash nobody writes the summary any more: it is asked for again.
pub(super) fn start_again(draft: &mut Draft<'_>) {
    if let Some((ticket, _)) = draft.state.compaction() {
        draft.direct(Directive::StartCompaction(ticket));
    }
}

/// Cuts off the oldest part without a summary.
fn truncate(draft: &mut Draft<'_>) {
    let open = draft.state.compaction().map(|(ticket, open)| (ticket, open.first_kept));
    let first_kept = open.map(|(_, first_kept)| first_kept).or_else(|| {
        let (window, _) = fullness(draft);
        let keep = draft.state.settings.compaction.keep.unwrap_or_else(|| window.keep());
        let meter = draft.state.context.meter;
        cut(&draft.state.history, draft.state.context.front, keep, |item| meter.corrected(of_item(item)))
            .map(|found| found.first_kept)
    });
    let Some(first_kept) = first_kept else { return };
    if let Some((ticket, _)) = open {
        draft.direct(Directive::StopCompaction(ticket));
    }
    let replaced = Replaced::of(draft.state.history.iter().take(first_kept).map(|item| &**item));
    let compacted = Compacted { summary: None, usage: Usage::default(), first_kept, replaced };
    draft.write(open.map(|(ticket, _)| ticket), Record::Compacted(Arc::new(compacted)));
}

/// What the summariser of this ticket is asked.
pub(crate) fn prompt(state: &State, ticket: Seq) -> Option<(ModelRef, String)> {
    let Some(Open::Compaction(open)) = state.open.get(&ticket) else { return None };
    let items: Vec<_> = state.history.iter().take(open.first_kept).skip(state.context.front).cloned().collect();
    let prefix = open.split_turn.map_or(0, |start| open.first_kept.saturating_sub(start));
    let earlier = state.context.summary.as_deref();
    let asked = Summarise { earlier, items: &items, turn_prefix: prefix, tokens_max: open.usable };
    Some((open.model.clone(), asked.prompt()))
}

impl State {
    /// The compaction that is open.
    #[must_use]
    pub fn compaction(&self) -> Option<(Seq, &OpenCompaction)> {
        self.open.iter().find_map(|(ticket, open)| match open {
            Open::Compaction(compaction) => Some((*ticket, compaction)),
            _ => None,
        })
    }

    /// Takes a compaction, now or as soon as no request is open.
    pub(super) fn take_compacted(&mut self, compacted: &Arc<Compacted>) {
        self.usage += compacted.usage;
        Arc::make_mut(&mut self.context).ready = Some(compacted.clone());
        self.put_compacted_in_place();
    }

    /// Puts what is ready in place, unless a request is open whose bytes must stay what they are.
    pub(super) fn put_compacted_in_place(&mut self) {
        if self.request().is_some() {
            return;
        }
        let context = Arc::make_mut(&mut self.context);
        let Some(compacted) = context.ready.take() else { return };
        let items: Vec<_> = std::mem::take(&mut self.history).iter().cloned().collect();
        let (going, staying) = items.split_at(compacted.first_kept.min(items.len()));
        let spoken = going.iter().skip(context.front).map(|item| &**item);
        context.users.note(spoken.clone());
        context.files.note(spoken);
        if compacted.summary.is_some() {
            context.summary.clone_from(&compacted.summary);
        }
        let text = crate::context::render(context.summary.as_deref(), &context.users, &context.files, self.seq);
        context.front = 1;
        context.failures = 0;
        context.compactions += 1;
        if let Some(turn) = &mut self.turn {
            Arc::make_mut(turn).overflowed = false;
        }
        let id = format!("compaction-{}", self.seq);
        let parts = vec![crate::message::Part::text(text)];
        let first = Item::User(crate::model::UserItem { id: id.into(), parts, fragment: Default::default() });
        self.replace_history(std::iter::once(Arc::new(first)).chain(staying.iter().cloned()));
    }

    /// Puts the place-holder where these results were.
    pub(super) fn prune_results(&mut self, results: &[usize]) {
        let items: Vec<_> = std::mem::take(&mut self.history).iter().cloned().collect();
        let pruned = items.into_iter().enumerate().map(|(at, item)| match &*item {
            Item::Result(result) if results.contains(&at) => Arc::new(Item::Result(ToolResultItem {
                content: crate::context::PRUNED_TEXT.to_owned(),
                attachments: Vec::new(),
                fragment: Default::default(),
                ..result.clone()
            })),
            _ => item,
        });
        self.replace_history(pruned);
    }

    fn replace_history(&mut self, items: impl Iterator<Item = Arc<Item>>) {
        let context = Arc::make_mut(&mut self.context);
        context.meter.forget();
        context.estimated = 0;
        self.history_hash = String::new();
        items.for_each(|item| self.push_shared(item));
    }
}
