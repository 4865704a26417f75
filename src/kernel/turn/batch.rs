//! The calls of one answer: which may start, which a person must be asked about, which are refused or skipped.
//!
//! Calls of parallel tools run together, up to a limit. A call of any other tool is a barrier: it waits for all calls before it,
//! and all calls after it wait for it. If steering messages wait, the strongest of them decides what happens to every open call
//! ([`Steering`]).
//!
//! A change must keep three rules. Every call of an answer gets exactly one result, also when it never ran. A call starts only if
//! the rules that hold at that moment allow it, or if they ask and a person has granted it ([`judge`]), and only if the budget has
//! room for it. A running call with the effect `Once` (it must not run again after a crash) is answered by the recovery and not run
//! again. Nothing here runs a tool or asks one: the facts of a call come with the report of its answer, or with the recovery.

use std::sync::Arc;

use crate::{
    kernel::{
        AskClosedWhy, CallGate, CallOpened, CallState, CallVerdict, Open, OpenCall, Outcome, Record, Steering, Stop,
        budget::spending,
        draft::Draft,
        state::Next,
        turn::{
            question,
            repeats::{self, Repetition},
            toolset,
        },
    },
    model::{AnswerPart, Item},
    permission::{Action, RuleVerdict, binds, seen_from, stays_in},
    tool::{Access, CallFacts, ToolResult, Unusable, arguments},
    words::{
        ids::Seq,
        message::{ErrorReason, Finish},
    },
};

/// Opens a ticket for each call of the newest answer that has none yet, and answers at once the calls that cannot run. `told` gives
/// the facts of a call by its position in the answer.
pub(in crate::kernel) fn open(draft: &mut Draft<'_>, told: impl Fn(u32) -> Option<CallFacts>) {
    // The turn is not held: its entries change it, and it would be copied for that.
    let Some(turn) = &draft.state.turn else { return };
    let (Some(answer_seq), Some(newest)) = (turn.answer, draft.state.history.last().cloned()) else { return };
    let (opened, last) = (turn.batch.len(), matches!(turn.next, Next::End(Outcome::StepLimit { .. })));
    let Item::Assistant(answer) = newest.as_ref() else { return };
    let calls = answer.parts.iter().filter_map(|part| match part {
        AnswerPart::Call { id, name, input, .. } => Some((id, name, input)),
        _ => None,
    });
    for (index, (id, name, input)) in (0..).zip(calls).skip(opened) {
        let facts = told(index).unwrap_or_else(|| CallFacts::unknown(name, input, "was not asked about this call"));
        let facts = if answer.finish == Finish::Length { facts.cut_off() } else { facts };
        let record = Record::Call(CallOpened { answer: answer_seq, index, id: id.clone(), facts });
        draft.write(None, record);
    }
    let none_runs = match (last, answer.finish) {
        (true, _) => {
            Some((CallVerdict::LastStep, "No tools can be used on the last step of a turn; the call was not run."))
        }
        (_, Finish::Length) => Some((
            CallVerdict::CutShort,
            "The answer reached its length limit, so this call may be cut off; it was not run. Send it again, shorter.",
        )),
        (_, Finish::ContentFilter) => {
            Some((CallVerdict::Withheld, "The provider withheld the answer; the call was not run."))
        }
        _ => None,
    };
    let none_runs = none_runs.map(|(judged, text)| (judged, text.to_owned()));
    let pending = draft.state.calls().filter(|(_, call)| call.state == CallState::Pending);
    let pending: Vec<_> = pending.map(|(ticket, call)| (ticket, call.clone())).collect();
    for (ticket, call) in pending {
        let cannot_run = none_runs.clone().or_else(|| unusable(draft, &call));
        if let Some((judged, text)) = cannot_run {
            cannot(draft, ticket, &call, judged, text);
        }
    }
}

/// Why a call cannot be carried out at all: there is no such tool, the session does not have it or this turn has it switched off,
/// or the tool can make nothing of the arguments.
fn unusable(draft: &Draft<'_>, call: &OpenCall) -> Option<(CallVerdict, String)> {
    if let Some(Unusable::NoTool(text)) = &call.facts.unusable {
        return Some((CallVerdict::NoTool, text.clone()));
    }
    let tool = &call.facts.tool;
    let switched_off = draft.state.turn.as_ref().is_some_and(|turn| toolset::is_off(&turn.tools, tool));
    if !draft.state.settings.has_tool(tool) {
        return Some((CallVerdict::NotOffered, format!("The tool {tool} is not among those of this agent.")));
    }
    if switched_off {
        return Some((CallVerdict::NotOffered, format!("The tool {tool} is switched off in this turn.")));
    }
    if let Some(Unusable::BadArguments(text)) = &call.facts.unusable {
        return Some((CallVerdict::BadArguments, text.clone()));
    }
    arguments(&call.input).err().map(|text| (CallVerdict::BadArguments, text))
}

/// The note that is added to the result of a call that ran in an earlier incarnation, if nobody knows how far it got.
const BEGUN: &str = "\nIt had been running when the runtime stopped before, and what came of that is unknown: it may have \
                     happened in part, in whole, or not at all. Check before you repeat it.";

/// The error reason in the result of a call with this verdict. A call that was started brings a reason of its own.
fn reason_of(judged: CallVerdict) -> ErrorReason {
    match judged {
        CallVerdict::Lost => ErrorReason::Unknown,
        CallVerdict::Denied
        | CallVerdict::Unheard
        | CallVerdict::Repeats
        | CallVerdict::Rejected
        | CallVerdict::Expired
        | CallVerdict::OverBudget => ErrorReason::Denied,
        CallVerdict::Skipped => ErrorReason::Skipped,
        CallVerdict::Aborted => ErrorReason::Aborted,
        CallVerdict::NoTool
        | CallVerdict::NotOffered
        | CallVerdict::BadArguments
        | CallVerdict::Crashed
        | CallVerdict::LastStep
        | CallVerdict::CutShort
        | CallVerdict::Withheld
        | CallVerdict::Allowed => ErrorReason::Failed,
    }
}

/// Answers a call that was not run, or not to its end.
pub(in crate::kernel) fn fail(draft: &mut Draft<'_>, ticket: Seq, judged: CallVerdict, text: impl Into<String>) {
    let mut text = text.into();
    let has_run = draft.state.call(ticket).is_some_and(|call| call.attempts > 0);
    if has_run && judged != CallVerdict::Lost {
        text.push_str(BEGUN);
    }
    let result = Arc::new(ToolResult::failed(reason_of(judged), text));
    draft.write(Some(ticket), Record::Result { result, judged });
}

/// Answers a call that cannot be carried out at all. A model that sends it again and again is told so, and then ends its turn.
fn cannot(draft: &mut Draft<'_>, ticket: Seq, call: &OpenCall, judged: CallVerdict, text: String) {
    let (judged, text) = repeats::or_repeats(draft, call, judged, text);
    refuse(draft, ticket, call, judged, text);
}

fn refuse(draft: &mut Draft<'_>, ticket: Seq, call: &OpenCall, judged: CallVerdict, text: String) {
    fail(draft, ticket, judged, text);
    if judged == CallVerdict::Repeats {
        repeats::end_if_told_before(draft, call);
    }
}

/// Steers the open calls of a batch, and starts those that may start. Says whether the batch is done or the turn is being ended.
pub(in crate::kernel) fn go_on(draft: &mut Draft<'_>) -> bool {
    if let Some(steering) = draft.state.strongest_steering() {
        steer(draft, steering);
        question::steer(draft, steering);
    }
    if !draft.state.paused && !draft.state.waits {
        while let Some(ticket) = next_to_start(draft) {
            if !start_or_ask(draft, ticket) {
                break;
            }
        }
    }
    draft.state.is_ending() || draft.state.calls().next().is_none()
}

/// Applies a waiting steering message to each call, by the state the call is in.
fn steer(draft: &mut Draft<'_>, steering: Steering) {
    let calls: Vec<_> =
        draft.state.calls().map(|(ticket, call)| (ticket, call.state, call.facts.tool.clone())).collect();
    for (ticket, state, tool) in calls {
        match (steering, state) {
            (Steering::FinishBatch, _) | (_, CallState::Closing) | (Steering::SkipRemaining, CallState::Running) => {}
            (_, CallState::Pending | CallState::Allowed | CallState::Asking(_)) => {
                withdraw_ask(draft, state, AskClosedWhy::Withdrawn);
                // Models and hosts know this sentence: a change must keep its beginning and the tool's name.
                let text = format!("Skipped due to queued user message: {tool} was not run.");
                fail(draft, ticket, CallVerdict::Skipped, text);
            }
            (Steering::AbortRunning, CallState::Running) => {
                draft.write(Some(ticket), Record::Closing { why: None });
                draft.stop(Stop::Call(ticket));
            }
        }
    }
}

fn withdraw_ask(draft: &mut Draft<'_>, state: CallState, why: AskClosedWhy) {
    if let CallState::Asking(ask) = state {
        draft.write(Some(ask), Record::AskClosed { why });
    }
}

/// The first call that may start now.
fn next_to_start(draft: &Draft<'_>) -> Option<Seq> {
    let runs = |call: &OpenCall| matches!(call.state, CallState::Running | CallState::Closing);
    // Count all running calls: a call that waits for an ask may stand before others that already run.
    let running = draft.state.calls().filter(|(_, call)| runs(call)).count();
    let room = running < draft.state.settings.parallel_max.max(1);
    for (before, (ticket, call)) in draft.state.calls().enumerate() {
        if matches!(call.state, CallState::Pending | CallState::Allowed) {
            let barrier_holds = !call.facts.parallel && before > 0;
            return (!barrier_holds && room).then_some(ticket);
        }
        if !call.facts.parallel {
            return None;
        }
    }
    None
}

/// The decision of the present rules about a call.
enum Ruling {
    /// The call may run: as its tool runs it, or confined by the kernel to what the rules allow.
    Run { confined: bool },
    /// A person must be asked about these accesses.
    Ask(Vec<Access>),
    /// The call does not run; this is the verdict and the text of its result.
    Refuse(CallVerdict, String),
}

/// Judges a call, and starts it, asks about it or refuses it. Gives false if the budget allows no call now, or if the turn is
/// being ended: then no further call of the batch can start either.
fn start_or_ask(draft: &mut Draft<'_>, ticket: Seq) -> bool {
    let Some(call) = draft.state.call(ticket).cloned() else { return true };
    if let Some((judged, text)) = unusable(draft, &call) {
        // The tools may be others than when the call was opened: the session was rebuilt in between.
        cannot(draft, ticket, &call, judged, text);
        return !draft.state.is_ending();
    }
    match judge(draft, &call) {
        Ruling::Run { confined } => match spending::for_call(draft, &call) {
            Some(bytes) => start(draft, ticket, &call, bytes, confined),
            None => return false,
        },
        Ruling::Ask(access) => ask(draft, ticket, access),
        Ruling::Refuse(judged, text) => refuse(draft, ticket, &call, judged, text),
    }
    !draft.state.is_ending()
}

fn ask(draft: &mut Draft<'_>, call: Seq, access: Vec<Access>) {
    let expires = draft.now.plus(draft.state.settings.ask_limit());
    draft.write(None, Record::Ask { call, access, expires, question: None });
}

/// Judges a call by the rules that hold now, whether it begins or is to run again.
fn judge(draft: &Draft<'_>, call: &OpenCall) -> Ruling {
    if let Some(Unusable::Crashed(text)) = &call.facts.unusable {
        let (judged, text) = repeats::or_repeats(draft, call, CallVerdict::Crashed, text.clone());
        return Ruling::Refuse(judged, text);
    }
    let settings = &draft.state.settings;
    let mut access = seen_from(&settings.workspace, &settings.read_roots, call.facts.access.clone());
    let mut verdict = settings.decide(&access, draft.env.globs());
    match repeats::judge(draft, call) {
        Repetition::Refuse(text) => return Ruling::Refuse(CallVerdict::Repeats, text),
        Repetition::Ask(repeats) if verdict.judgement.action != Action::Deny => {
            verdict.asked.insert(access.len());
            access.push(repeats);
            verdict.judgement.action = Action::Ask;
        }
        Repetition::Ask(_) | Repetition::Free => {}
    }
    if verdict.judgement.action != Action::Deny {
        for ask in call.gate.iter().flat_map(|gate| &gate.asks) {
            verdict.asked.insert(access.len());
            access.push(Access::new(CallGate::PERMISSION, ask));
            verdict.judgement.action = Action::Ask;
        }
    }
    match verdict.judgement.action {
        Action::Allow => Ruling::Run { confined: verdict.confined },
        // What a person was asked about is said by the accesses: a command that nobody was asked about stays confined.
        Action::Ask if call.state == CallState::Allowed || call.granted => Ruling::Run { confined: verdict.confined },
        Action::Ask => to_ask(draft, access, &verdict),
        Action::Deny => {
            let by = verdict.judgement.rule.map(|rule| format!(" ({rule})")).unwrap_or_default();
            // Of a shell command the part that is denied; else all that the call wants.
            let part = verdict.decided.and_then(|at| access.get(at)).filter(|access| access.part.is_some());
            let wanted = part.map_or_else(|| shown(&access), Access::to_string);
            let text = format!("Permission denied: {wanted} by {}{by}.", verdict.judgement.layer);
            Ruling::Refuse(CallVerdict::Denied, text)
        }
    }
}

/// Asks about what the rules ask about and nobody has granted: of a shell command the parts, else all that the call wants. Parts of
/// which one decides what another one does (`is_bound`) are asked about together, with the whole text.
fn to_ask(draft: &Draft<'_>, access: Vec<Access>, verdict: &RuleVerdict) -> Ruling {
    let is_granted = |access: &[Access]| draft.state.is_granted(access, draft.env.globs());
    let stays = |access: &Access| stays_in(access, &draft.state.settings.workspace);
    let is_bound = draft.state.settings.is_bound(&access);
    let is_wanted = |at: usize, access: &Access| match access.part {
        Some(_) if is_bound => verdict.asked.contains(&at) || (binds(access) && !stays(access)),
        Some(_) => verdict.asked.contains(&at) && !is_granted(std::slice::from_ref(access)),
        None => true,
    };
    let wanted = access.into_iter().enumerate().filter(|(at, access)| is_wanted(*at, access));
    let (at, wanted): (Vec<_>, Vec<_>) = wanted.unzip();
    // A call that names no access has nothing that could have been granted.
    let all_granted = wanted.is_empty() && !verdict.asked.is_empty();
    if all_granted || is_granted(&wanted) {
        return Ruling::Run { confined: verdict.confined };
    }
    if !draft.reaches_someone() {
        // Not the parts that are asked about only beside others.
        let asked = at.iter().zip(&wanted).filter(|(at, access)| verdict.asked.contains(at) || access.part.is_none());
        let wanted = shown(asked.map(|(_, access)| access));
        let text = format!("Permission denied: {wanted} must be asked for, and nobody listens who could answer.");
        return Ruling::Refuse(CallVerdict::Unheard, text);
    }
    Ruling::Ask(wanted)
}

fn shown<'a>(access: impl IntoIterator<Item = &'a Access>) -> String {
    access.into_iter().map(Access::to_string).collect::<Vec<_>>().join(", ")
}

fn start(draft: &mut Draft<'_>, ticket: Seq, call: &OpenCall, bytes: Option<u64>, confined: bool) {
    let key = format!("{}/{ticket}", draft.state.session);
    draft.write(Some(ticket), Record::CallStarted { attempt: call.attempts.saturating_add(1), key, bytes, confined });
}

/// Runs a call again whose outcome is not known, if the rules that hold now allow it.
///
/// The recovery has already closed each call whose effect forbids a second run (`recover.rs`). It goes by the effect that the
/// present tool reports, and not by the tape alone: the tool may have changed since, and a tape may come from anybody.
pub(in crate::kernel) fn run_again(draft: &mut Draft<'_>, ticket: Seq) {
    let Some(call) = draft.state.call(ticket).cloned() else { return };
    if let Some((judged, text)) = unusable(draft, &call) {
        return fail(draft, ticket, judged, text);
    }
    let Some(bytes) = spending::for_call_again(draft, &call) else { return close_unknown(draft, ticket) };
    match judge(draft, &call) {
        Ruling::Run { confined } => start(draft, ticket, &call, bytes, confined),
        Ruling::Ask(access) => ask(draft, ticket, access),
        Ruling::Refuse(judged, text) => fail(draft, ticket, judged, text),
    }
}

/// Answers a call whose outcome nobody knows.
pub(in crate::kernel) fn close_unknown(draft: &mut Draft<'_>, ticket: Seq) {
    let text = "The runtime stopped while this call was running, so its outcome is unknown: it may have happened in part, \
                in whole, or not at all. It was not run again. Check before you repeat it.";
    if let Some(call) = draft.state.call(ticket) {
        withdraw_ask(draft, call.state, AskClosedWhy::Withdrawn);
    }
    fail(draft, ticket, CallVerdict::Lost, text);
}

/// Answers a call that will not be started because its turn is being ended.
pub(in crate::kernel) fn close_unstarted(draft: &mut Draft<'_>, ticket: Seq) {
    let Some(call) = draft.state.call(ticket).cloned() else { return };
    let ending = draft.state.turn.as_ref().and_then(|turn| turn.ending.clone());
    let (why, judged, text) = match ending {
        Some(Outcome::Rejected { tool }) => {
            (AskClosedWhy::Rejected, CallVerdict::Rejected, format!("Not run: the user rejected the call of {tool}."))
        }
        Some(Outcome::Aborted { reason }) => {
            (AskClosedWhy::Aborted, CallVerdict::Aborted, format!("Aborted before it was started: {reason}"))
        }
        Some(Outcome::DoomLoop { tool }) => (
            AskClosedWhy::Aborted,
            CallVerdict::Aborted,
            format!("Not run: the calls of {tool} repeat, and ended the turn."),
        ),
        Some(Outcome::Budget { breach, .. }) => {
            (AskClosedWhy::Aborted, CallVerdict::OverBudget, format!("Not run: {breach}."))
        }
        _ => (AskClosedWhy::Aborted, CallVerdict::Aborted, "Aborted before it was started.".to_owned()),
    };
    withdraw_ask(draft, call.state, why);
    fail(draft, ticket, judged, text);
}

/// A call is over.
pub(in crate::kernel) fn returned(draft: &mut Draft<'_>, ticket: Seq, result: &ToolResult) {
    let Some(call) = draft.state.call(ticket) else { return };
    let mut result = result.clone();
    match call.state {
        CallState::Running => {}
        // The call was told to stop before it returned: its content is kept, but its result counts as an error.
        CallState::Closing => result.error = Some(result.error.unwrap_or(ErrorReason::Aborted)),
        CallState::Pending | CallState::Allowed | CallState::Asking(_) => return,
    }
    spending::cut(&mut result, call);
    draft.write(Some(ticket), Record::Result { result: Arc::new(result), judged: CallVerdict::Allowed });
}

/// Closes the asks that a standing grant has also answered, so that nobody is asked the same thing twice.
pub(in crate::kernel) fn release_granted(draft: &mut Draft<'_>) {
    let granted = draft.state.open.iter().filter_map(|(ticket, open)| match open {
        Open::Ask(ask) => draft.state.is_granted(&ask.access, draft.env.globs()).then_some(*ticket),
        _ => None,
    });
    for ask in granted.collect::<Vec<_>>() {
        draft.write(Some(ask), Record::AskClosed { why: AskClosedWhy::Granted });
    }
}

/// Denies the asks that nobody answered in time.
pub(in crate::kernel) fn expire_asks(draft: &mut Draft<'_>) {
    let expired = draft.state.open.iter().filter_map(|(ticket, open)| match open {
        Open::Ask(ask) if ask.expires <= draft.now => Some((*ticket, ask.call, ask.question.is_some())),
        _ => None,
    });
    for (ask, call, is_question) in expired.collect::<Vec<_>>() {
        draft.write(Some(ask), Record::AskClosed { why: AskClosedWhy::Expired });
        // A running call is told, and goes on.
        if !is_question {
            fail(draft, call, CallVerdict::Expired, "Permission denied: nobody answered the question in time.");
        }
    }
}
