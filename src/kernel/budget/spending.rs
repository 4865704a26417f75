//! What a budget allows, and what happens when it does not. The arithmetic is in `account.rs`.
//!
//! Every check comes before the work that it is about. A request reserves the tokens that it may read and, where tokens or money
//! are limited, those that it may write; a call reserves the bytes of its result where these are limited, a task its grant
//! (`tasks.rs`). So work that has begun is not stopped for want of money; answers and results are bounded beforehand by what is
//! left. A change must keep that order: check and reserve first, then write the entry from which the work begins. For a request and
//! a task that entry opens the ticket; a call has its ticket before, and begins with `call_started`.
//!
//! Time is the exception: it runs while work runs. When a limit of time is over and no person is asked for more, the running work
//! is stopped as by an abort, each call with its result. Nothing here reads a clock: time is `Draft::now`.

use crate::{
    kernel::{
        AskClosedWhy, Breach, CallState, CarriedOut, Extent, Grant, Limits, OnBreach, Open, OpenCall, Outcome, Record,
        Refusal, Reserve, Resource, State, TaskOrder,
        context::{Meter, fullness, of_item, of_text},
        draft::Draft,
    },
    model::{Item, Price, UserItem},
    tool::ToolResult,
    words::{ids::Seq, message::ModelRef},
};

/// The fewest tokens that an answer must be able to have: a budget that leaves fewer does not allow the request.
const OUTPUT_MIN: u64 = 1_024;

/// The most bytes that are reserved for a result. If the budget leaves less, the result is cut to what is left.
const RESULT_BYTES_MAX: u64 = 51_200;

/// The model and the bounds that a request is made with.
pub(in crate::kernel) struct Fit {
    pub(in crate::kernel) model: ModelRef,
    pub(in crate::kernel) price: Option<Price>,
    pub(in crate::kernel) reserved: Reserve,
    /// Tokens that the answer may have, where a budget limits them.
    pub(in crate::kernel) output_max: Option<u64>,
    /// The limit that did not allow the model that was to be asked.
    pub(in crate::kernel) instead: Option<Breach>,
}

/// Why a request is not made.
enum NoFit {
    Breach(Breach),
    /// Money is limited, and what the model costs is not known.
    Unpriced,
}

/// The model and the bounds of the next request. `None` where the budget allows neither the model nor its replacement: then the
/// entry that follows (a budget ask, or the end of the turn) is already written.
pub(in crate::kernel) fn for_request(draft: &mut Draft<'_>, model: &ModelRef, wanted: u64) -> Option<Fit> {
    let first = match time(draft).map_or_else(|| fit(draft, model, wanted), |breach| Err(NoFit::Breach(breach))) {
        Ok(fit) => return Some(fit),
        Err(NoFit::Unpriced) => {
            let error = unpriced(model);
            draft.write(None, Record::TurnFinished { outcome: Outcome::Failed { error } });
            return None;
        }
        Err(NoFit::Breach(breach)) => breach,
    };
    if let (OnBreach::Model(second), Resource::Tokens | Resource::Usd) =
        (draft.state.settings.budget.on_breach.clone(), first.resource)
    {
        let why = match fit(draft, &second, wanted) {
            Ok(fit) => return Some(Fit { instead: Some(first), ..fit }),
            Err(NoFit::Breach(_)) => "does not fit either",
            Err(NoFit::Unpriced) => "was not asked instead, because its price is not known",
        };
        stop(draft, first, Some(format!("{second} {why}")));
        return None;
    }
    breached(draft, first);
    None
}

/// The error text where money is limited and a price is missing.
fn unpriced(model: &ModelRef) -> String {
    format!(
        "the price of {model} is not known, and a budget in US dollars cannot be held without it: give the price \
         (Builder::prices, or --price on the command line), choose a model of `tamtam models`, or limit tokens instead"
    )
}

fn fit(draft: &Draft<'_>, model: &ModelRef, wanted: u64) -> Result<Fit, NoFit> {
    let wanted = wanted.max(1);
    // What the next request may read at most.
    let input = draft.state.context.meter.at_most(fullness::estimated(draft));
    let (model, price) = (model.clone(), draft.model(model).price);
    let (tokens, usd) = (draft.state.room(Resource::Tokens), draft.state.room(Resource::Usd));
    if tokens.is_none() && usd.is_none() {
        let reserved = Reserve { input, output: 0 };
        return Ok(Fit { model, price, reserved, output_max: None, instead: None });
    }
    let least = wanted.min(OUTPUT_MIN);
    if let Some(breach) = draft.state.breach(Resource::Tokens, input.saturating_add(least)) {
        return Err(NoFit::Breach(breach));
    }
    let mut output = wanted.min(tokens.map_or(u64::MAX, |left| left.saturating_sub(input)));
    if let Some(left) = usd {
        let Some((price, needs)) = price.and_then(|price| Some((price, price.most(input, least)?))) else {
            return Err(NoFit::Unpriced);
        };
        if let Some(breach) = draft.state.breach(Resource::Usd, needs.0) {
            return Err(NoFit::Breach(breach));
        }
        let read = price.most(input, 0).unwrap_or_default();
        let affordable = left.saturating_sub(read.0).checked_div(price.dearest_output().0).unwrap_or(u64::MAX);
        output = output.min(affordable);
    }
    Ok(Fit { model, price, reserved: Reserve { input, output }, output_max: Some(output), instead: None })
}

impl State {
    /// The tokens to reserve for a summary that reads `input` and may write `output` tokens; `None` where the budget does not
    /// allow it.
    pub(crate) fn reserve_for_summary(&self, price: Option<&Price>, input: u64, output: u64) -> Option<Reserve> {
        let left = self.left();
        if left.tokens.is_none() && left.usd.is_none() {
            return Some(Reserve { input, output: 0 });
        }
        let reserved = Reserve { input, output };
        let usd = match left.usd {
            Some(_) => price?.most(input, output)?.0,
            None => 0,
        };
        let fits = |resource, needs| self.breach_of_session(resource, needs).is_none();
        (fits(Resource::Tokens, reserved.tokens()) && fits(Resource::Usd, usd)).then_some(reserved)
    }
}

/// What the first request of a new child needs, of the resources that this session's budget limits: what it reads, and the fewest
/// tokens that its answer must be able to have. A further task of a child also reads what that child knows; this session does not
/// know how much that is.
pub(in crate::kernel) fn first_request(draft: &Draft<'_>, order: &TaskOrder) -> Limits {
    let left = draft.state.left();
    if left.tokens.is_none() && left.usd.is_none() {
        return Limits::default();
    }
    let TaskOrder { settings, prompt, .. } = order;
    let (id, parts) = (prompt.id.clone(), prompt.parts.clone());
    let prompt = Item::User(UserItem { id, parts, fragment: Default::default() });
    let reads = of_text(&settings.system)
        .saturating_add(draft.env.tools_tokens(&draft.state.env))
        .saturating_add(of_item(&prompt));
    let input = Meter::default().at_most(reads);
    let output = settings.params.max_output.map_or(OUTPUT_MIN, |max| max.clamp(1, OUTPUT_MIN));
    let price = left.usd.and_then(|_| draft.model(&settings.model).price);
    Limits {
        tokens: Some(input.saturating_add(output)),
        usd: price.and_then(|price| price.most(input, output)),
        ..Limits::default()
    }
}

/// Whether a call may start now, and if so, the most bytes that its result may have. The outer `None` means that it may not start:
/// it waits for running calls to give back what is reserved for them; if none runs, a person is asked or the turn ends. The inner
/// `None` means that nothing limits the bytes.
pub(in crate::kernel) fn for_call(draft: &mut Draft<'_>, call: &OpenCall) -> Option<Option<u64>> {
    if draft.state.budget_ask().is_some() || draft.state.is_ending() {
        return None;
    }
    // A call that ran before a crash, and was asked about again, still holds the bytes of its result; so does one that a hook held
    // up, and that was counted when it began.
    let is_held_up = call.gate.is_some();
    let held = call.bytes.filter(|_| call.attempts > 0 || is_held_up);
    let more = |resource| draft.state.breach(resource, 1);
    let calls = || if is_held_up { None } else { more(Resource::Calls) };
    let bytes = || if held.is_some() { None } else { more(Resource::Bytes) };
    let Some(breach) = time(draft).or_else(calls).or_else(bytes) else {
        return Some(held.or_else(|| draft.state.room(Resource::Bytes).map(|left| left.min(RESULT_BYTES_MAX))));
    };
    // Running calls go on and give back what they hold; after that the check is made again.
    if !draft.state.calls().any(|(_, call)| matches!(call.state, CallState::Running | CallState::Closing)) {
        breached(draft, breach);
    }
    None
}

/// The same for a call that is to run again after a crash. The outer `None` means that the budget has no room for a second run; the
/// caller answers the call.
pub(in crate::kernel) fn for_call_again(draft: &Draft<'_>, call: &OpenCall) -> Option<Option<u64>> {
    // The bytes for the result are still reserved.
    let breach = time(draft).or_else(|| draft.state.breach(Resource::Calls, 1));
    breach.is_none().then_some(call.bytes)
}

/// Cuts a result to the bytes that were reserved for it.
pub(in crate::kernel) fn cut(result: &mut ToolResult, call: &OpenCall) {
    let Some(max) = call.bytes.filter(|max| result.bytes() > *max) else { return };
    let max = usize::try_from(max).unwrap_or(usize::MAX);
    let note = "\n... [truncated: the budget for results is used up]";
    result.attachments.clear();
    if result.content.len() > max {
        let room = max.saturating_sub(note.len());
        result.content.truncate(result.content.floor_char_boundary(room));
        if max >= note.len() {
            result.content.push_str(note);
        }
    }
}

/// Whether a request that a crash cut off may be made again. The recovery has counted the tokens reserved for the first try as
/// spent, and the second try needs as many again.
pub(in crate::kernel) fn again_fits(draft: &Draft<'_>, ticket: Seq) -> bool {
    // The ticket is still open, so its reserve counts for the second try. That fits if spent and reserved amounts together exceed
    // no limit.
    draft.state.open.contains_key(&ticket) && !draft.state.is_overdrawn(|_| true) && time(draft).is_none()
}

/// The same for a summary that a crash cut off. It belongs to no turn, so the turn's limits do not count.
pub(in crate::kernel) fn summary_fits_again(draft: &Draft<'_>) -> bool {
    !draft.state.is_overdrawn(|extent| extent != Extent::Turn)
}

fn time(draft: &Draft<'_>) -> Option<Breach> {
    draft.state.time_is_over(draft.now)
}

/// Decides what follows if a limit of time is over at `Draft::now`.
pub(in crate::kernel) fn check_time(draft: &mut Draft<'_>) {
    if draft.state.account.since.is_some()
        && !draft.state.is_ending()
        && let Some(breach) = time(draft)
    {
        breached(draft, breach);
    }
}

/// Does what the settings say about a breach: a person is asked, or the turn ends.
fn breached(draft: &mut Draft<'_>, breach: Breach) {
    let asks = draft.state.settings.budget.on_breach == OnBreach::Ask;
    // Nobody can give a child more than its parent has granted.
    if asks && breach.extent != Extent::Grant && draft.reaches_someone() {
        let expires = draft.now.plus(draft.state.settings.ask_limit());
        draft.write(None, Record::BudgetAsk { breach, expires });
    } else {
        stop(draft, breach, None);
    }
}

fn stop(draft: &mut Draft<'_>, breach: Breach, no_switch: Option<String>) {
    if draft.state.turn.as_ref().is_some_and(|turn| turn.ending.is_none()) {
        draft.write(None, Record::Ending { outcome: Outcome::Budget { breach, no_switch } });
    }
}

/// A person answered the question for more.
pub(in crate::kernel) fn answer(
    draft: &mut Draft<'_>,
    ask: Seq,
    grant: &Grant,
    who: Option<String>,
) -> Result<CarriedOut, Refusal> {
    let Some(Open::BudgetAsk(open)) = draft.state.open.get(&ask) else { return Err(Refusal::AskClosed { ask }) };
    let breach = open.breach;
    if let Grant::Raise(more) = grant
        && more.of(breach.resource).unwrap_or_default() == 0
    {
        return Err(Refusal::RaisesNothing { ask, resource: breach.resource });
    }
    let seq = draft.write(Some(ask), Record::Granted { grant: grant.clone(), who, rules: Vec::new() });
    if matches!(grant, Grant::Reject(_) | Grant::Unheard) {
        stop(draft, breach, None);
    }
    Ok(CarriedOut::Done(seq))
}

/// Closes a budget ask that nobody answered in time, and ends the turn.
pub(in crate::kernel) fn expire(draft: &mut Draft<'_>) {
    let Some((ask, open)) = draft.state.budget_ask() else { return };
    if open.expires <= draft.now {
        let breach = open.breach;
        draft.write(Some(ask), Record::AskClosed { why: AskClosedWhy::Expired });
        stop(draft, breach, None);
    }
}

/// Withdraws the open budget ask, because the turn is being ended.
pub(in crate::kernel) fn withdraw(draft: &mut Draft<'_>) {
    if let Some((ask, _)) = draft.state.budget_ask() {
        draft.write(Some(ask), Record::AskClosed { why: AskClosedWhy::Aborted });
    }
}
