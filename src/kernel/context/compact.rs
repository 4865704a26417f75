//! When a conversation is made smaller so that it fits the model's window, and what replaces its older part.
//!
//! Before each step the core asks how full the context is. If it is too full, old tool outputs are pruned (left out). If it is
//! still too full, a compaction is opened: a summary is to take the place of the older items. Its ticket belongs to the session,
//! not to the turn. The summary is written in the background while the turn goes on; the turn waits for it only if the context is
//! full. It replaces those items when no request is open, so that a request that a crash interrupts is made again byte
//! for byte. A session whose settings switch this off ([`CompactionSettings::auto`](crate::kernel::CompactionSettings)) compacts
//! only when a host asks.
//!
//! A compaction that fails leaves the history as it is; a later step opens another one, up to three failures in a row. If there is
//! no room left and no summary can be had (after those failures, over budget, or because a message that aborts cannot wait), the
//! oldest part is cut off without a new summary. The host's own words, an earlier summary and the files that were touched are
//! still carried on, within a bound, and nothing leaves the tape.
//!
//! A change must keep that, and that a replacement is smaller than what it replaces, by our estimate; only the host's own summary
//! of a handoff is not checked. Nothing here calls a model.

use std::sync::Arc;

use crate::{
    kernel::{
        CarriedOut, Compacted, CompactionReason, NoSummary, Open, OpenCompaction, Record, Refusal, Reserve, State,
        Steering,
        budget::spending,
        context::{
            BadSummary, Cut, Level, PruneRule, Replaced, Summarise, bytes, bytes_of, carry_max, check, cut, fullness,
            of_item, of_text, pin, prune, summary_max,
        },
        draft::{Decide, Draft},
    },
    model::Item,
    words::{ids::Seq, message::ModelRef, usage::Usage},
};

/// A host asks for a compaction now.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Compact;

impl Decide for Compact {
    fn decide(&self, draft: &mut Draft<'_>) -> Result<CarriedOut, Refusal> {
        if let Some((ticket, _)) = draft.state.compaction() {
            return Err(Refusal::Compacting { ticket });
        }
        if draft.state.context.ready.is_some() {
            // A finished compaction waits until the open request is answered: another one would cut the same items.
            return Err(Refusal::Compacting { ticket: draft.state.context.ready_ticket });
        }
        open(draft, CompactionReason::Asked).map(CarriedOut::Done)
    }

    fn in_words(&self) -> String {
        "a compaction was asked for".to_owned()
    }
}

/// The number of failures in a row after which the session requests no further summary by itself. A host may still ask for one.
const FAILURES_MAX: u32 = 3;

/// The cut of the conversation: the newest tokens stay, as many as the settings or the window say. If a provider has refused a
/// request as too large, at most half of the usable window stays; if the present request was refused and that cuts nothing off,
/// only the newest item stays.
fn cut_of(draft: &Draft<'_>) -> Option<Cut> {
    let (window, _) = fullness::fullness(draft);
    let (history, context) = (&draft.state.history, &draft.state.context);
    let bytes_max = bytes::limit_of(draft, fullness::model_of(draft));
    // Where bytes are what runs out, an item is as large as its share of them.
    let size = |item: &Item| {
        let share = |max: u64| u128::from(bytes_of(item)) * u128::from(window.usable()) / u128::from(max.max(1));
        let by_bytes = bytes_max.map_or(0, |max| u64::try_from(share(max)).unwrap_or(u64::MAX));
        context.meter.corrected(of_item(item)).max(by_bytes)
    };
    let found = |keep| cut(history, context.front, keep, size);
    let keep = draft.state.settings.compaction.keep.unwrap_or_else(|| window.keep());
    match overflowed(draft) || bytes_max.is_some() || !context.learned.is_empty() {
        true => found(keep.min(window.usable() / 2)).or_else(|| overflowed(draft).then(|| found(0))?),
        false => found(keep),
    }
}

/// Whether there is room for the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::kernel) enum Room {
    /// The step can be made.
    Made,
    /// The step waits for a compaction.
    Awaited,
    /// There can be no room: the turn has ended.
    Never,
}

/// Makes room before a step.
pub(in crate::kernel) fn make_room(draft: &mut Draft<'_>) -> Room {
    if !draft.state.settings.compaction.auto {
        return Room::Made;
    }
    if pin::leave_no_room(draft) {
        return Room::Never;
    }
    let is_smaller = bytes::leave_out_files(draft);
    let (window, _) = fullness::fullness(draft);
    let mut level = level_of(draft);
    if level >= Level::Compact && draft.state.compaction().is_none() && draft.state.context.ready.is_none() {
        level = pruned(draft, PruneRule::default()).unwrap_or(level);
    }
    // A request that was refused, and has become small enough without files, is made again as it is.
    let overflowed_still = overflowed(draft) && !is_smaller;
    let mut must = level == Level::Full || overflowed_still;
    if must && overflowed(draft) && draft.state.compaction().is_none() && draft.state.context.ready.is_none() {
        // The provider refused the request, so outputs of this turn are pruned too. Half of the usable window stays.
        let by_bytes = bytes::limit_of(draft, fullness::model_of(draft)).map_or(u64::MAX, |max| max / 8);
        let protect = by_bytes.min(window.usable() / 2);
        let rule = PruneRule { turns: 0, protect, minimum: 0, tools: &[] };
        if let Some(now) = pruned(draft, rule) {
            (level, must) = (now, now == Level::Full);
        }
    }
    if (level >= Level::Compact || must) && draft.state.compaction().is_none() {
        let reason = if overflowed(draft) { CompactionReason::Overflow } else { CompactionReason::Threshold };
        let opened = draft.state.context.failures < FAILURES_MAX && open(draft, reason).is_ok();
        if !opened && must {
            truncate(draft);
        }
    }
    if !must || draft.state.compaction().is_none() {
        return Room::Made;
    }
    if draft.state.strongest_steering() == Some(Steering::AbortRunning) {
        // A message that aborts running work is not made to wait for a summary.
        truncate(draft);
        return Room::Made;
    }
    Room::Awaited
}

/// Prunes results by the rule. Gives the level of the context afterwards, or `None` if no result could go.
fn pruned(draft: &mut Draft<'_>, rule: PruneRule<'_>) -> Option<Level> {
    let results = prune(&draft.state.history, draft.state.context.front, rule);
    if results.is_empty() {
        return None;
    }
    draft.write(None, Record::Pruned { results, files: Vec::new() });
    Some(level_of(draft))
}

/// How full the context of the next request is, in tokens or in bytes.
fn level_of(draft: &Draft<'_>) -> Level {
    let (window, used) = fullness::with_steering(draft);
    if bytes::fit(draft) { window.level(used) } else { Level::Full }
}

fn overflowed(draft: &Draft<'_>) -> bool {
    draft.state.turn.as_ref().is_some_and(|turn| turn.overflowed)
}

/// Opens a compaction, if there are items that it could replace and the budget allows it.
fn open(draft: &mut Draft<'_>, reason: CompactionReason) -> Result<Seq, Refusal> {
    let (window, used) = fullness::fullness(draft);
    let settings = draft.state.settings.clone();
    let found = cut_of(draft).ok_or(Refusal::NothingToCompact)?;
    let meter = draft.state.context.meter;
    // A model that has failed in this turn is not asked for the summary either.
    let fallen = draft.state.turn.as_ref().and_then(|turn| Some(turn.fallen.as_ref()?.to.clone()));
    let model = settings.compaction.model.clone().or(fallen).unwrap_or_else(|| settings.model.clone());
    // The summariser may have another window, and its provider may count more tokens than we estimate.
    let shown = fullness::window_of(draft, &model).usable().saturating_mul(1_000) / meter.factor.max(1_000);
    // Four bytes make a token, and a fifth of the limit is left for what stands around the text.
    let shown = bytes::limit_of(draft, &model).map_or(shown, |max| shown.min(max / 5));
    // An earlier try may have failed because it was too large.
    let shown = shown >> draft.state.context.failures.min(63);
    let going = draft.state.history.iter().take(found.first_kept).map(|item| of_item(item)).sum();
    let (price, output) = (draft.model(&model).price, summary_max(window.usable()));
    let reserved = draft.state.reserve_for_summary(price.as_ref(), meter.corrected(going), output);
    let reserved = reserved.ok_or(Refusal::SummaryOverBudget)?;
    let opened = OpenCompaction {
        reason,
        price,
        reserved,
        model,
        room: shown,
        first_kept: found.first_kept,
        split_turn: found.split_turn,
        used,
        usable: window.usable(),
    };
    Ok(draft.write(None, Record::Compaction(opened)))
}

/// Decides about the report of a summariser: a summary, or a failure.
pub(in crate::kernel) fn summarised(
    draft: &mut Draft<'_>,
    ticket: Seq,
    result: &Result<(Arc<str>, Usage), NoSummary>,
    lost: u32,
) {
    let Some(Open::Compaction(open)) = draft.state.open.get(&ticket).cloned() else { return };
    let (summary, usage) = match result {
        Ok((summary, usage)) => (summary, *usage),
        Err(why) => return give_up(draft, ticket, why.clone(), lost),
    };
    let (input, output) = (open.reserved.input, of_text(summary));
    let estimated = (usage.total() == 0).then(|| Usage { input, output, ..Usage::default() });
    let bare = without_summary(draft, open.first_kept, open.usable);
    let compacted = Compacted { summary: Some(summary.clone()), usage, estimated, lost, ..bare };
    match fits(draft, &compacted) {
        Ok(()) => drop(draft.write(Some(ticket), Record::Compacted(Arc::new(compacted)))),
        Err(bad) => give_up(draft, ticket, NoSummary { error: bad.to_string(), usage, estimated }, lost),
    }
}

fn give_up(draft: &mut Draft<'_>, ticket: Seq, why: NoSummary, lost: u32) {
    let NoSummary { error, usage, estimated } = why;
    draft.write(Some(ticket), Record::CompactionFailed { error, usage, estimated, lost });
}

/// A compaction without a summary: what takes the place of the items before `first_kept`.
fn without_summary(draft: &Draft<'_>, first_kept: usize, usable: u64) -> Compacted {
    let replaced = Replaced::of(draft.state.history.iter().take(first_kept).map(|item| &**item));
    let (usage, carry) = (Usage::default(), carry_max(usable));
    Compacted { summary: None, usage, estimated: None, lost: 0, first_kept, replaced, carry }
}

/// Checks that the replacement, with all that is carried on, is smaller than the items that it replaces.
fn fits(draft: &Draft<'_>, compacted: &Compacted) -> Result<(), BadSummary> {
    let going = draft.state.history.iter().take(compacted.first_kept);
    let (_, text) = draft.state.in_place_of(compacted);
    check(compacted.summary.as_deref(), &text, going.map(|item| of_item(item)).sum())
}

/// After a crash the summary must be written anew. Gives the open compaction up if the budget does not allow that.
pub(in crate::kernel) fn close_unaffordable(draft: &mut Draft<'_>) {
    let open = draft.state.compaction().map(|(ticket, _)| ticket);
    if let Some(ticket) = open.filter(|_| !spending::summary_fits_again(draft)) {
        give_up(draft, ticket, "its process ended, and the budget does not allow it once more".into(), 0);
    }
}

/// A compaction that puts the host's own summary in the place of the whole conversation.
pub(in crate::kernel) fn in_place_of_all(draft: &Draft<'_>, summary: &Arc<str>) -> Compacted {
    let (window, _) = fullness::fullness(draft);
    let all = draft.state.history.iter().count();
    Compacted { summary: Some(summary.clone()), ..without_summary(draft, all, window.usable()) }
}

/// Cuts off the oldest part without a summary, if that makes the context smaller.
fn truncate(draft: &mut Draft<'_>) {
    let open = draft.state.compaction().map(|(ticket, open)| (ticket, open.first_kept));
    let (window, _) = fullness::fullness(draft);
    let first_kept = open.map(|(_, first_kept)| first_kept);
    let Some(first_kept) = first_kept.or_else(|| Some(cut_of(draft)?.first_kept)) else { return };
    // A summary that was requested before this decision counts as read by the provider, though no report will say so.
    let lost = open.map_or(0, |(ticket, _)| u32::from(!draft.opened_now(ticket)));
    let compacted = Compacted { lost, ..without_summary(draft, first_kept, window.usable()) };
    match (fits(draft, &compacted), open) {
        (Ok(()), open) => drop(draft.write(open.map(|(ticket, _)| ticket), Record::Compacted(Arc::new(compacted)))),
        // The cut would gain nothing. The provider says whether the request is too large.
        (Err(_), Some((ticket, _))) => give_up(draft, ticket, "it was not waited for".into(), lost),
        (Err(_), None) => {}
    }
}

/// The request for a summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    /// The model to ask.
    pub(crate) model: ModelRef,
    /// The text of the request.
    pub(crate) prompt: String,
    /// The most tokens of the answer.
    pub(crate) tokens_max: u64,
    /// The most tries that a provider may read. Under a budget, the tokens reserved are enough for one.
    pub(crate) reads_max: u32,
}

/// The most tries of a summary that a provider may read, by the tokens reserved for it.
pub(crate) fn reads_max(reserved: &Reserve) -> u32 {
    // Tokens for the answer are reserved only where a budget limits them.
    if reserved.output > 0 { 1 } else { u32::MAX }
}

/// The request for the summary of an open compaction; `None` if the ticket is not open.
pub(crate) fn prompt(state: &State, ticket: Seq) -> Option<Asked> {
    let Some(Open::Compaction(open)) = state.open.get(&ticket) else { return None };
    let items: Vec<_> = state.history.iter().take(open.first_kept).skip(state.context.front).cloned().collect();
    let turn_prefix = open.split_turn.map_or(0, |start| open.first_kept.saturating_sub(start));
    let earlier = state.context.summary.as_deref();
    let asked = Summarise { earlier, items: &items, turn_prefix, tokens_max: open.room };
    let (prompt, tokens_max) = (asked.prompt(), summary_max(open.usable));
    Some(Asked { model: open.model.clone(), prompt, tokens_max, reads_max: reads_max(&open.reserved) })
}
