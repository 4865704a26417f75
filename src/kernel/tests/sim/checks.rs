//! What must hold: after each signal, at each request, and on the whole tape.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use tamtam::{
    MessageId, Part, Seq,
    kernel::{Ahead, CallState, CallVerdict, Entry, Mode, Open, Outcome, Record, State, Steering, Transcript},
    model::{AnswerPart, History, Item},
    permission::{Action, Globs, grants, judge_all},
    session::{ErrorReason, ToolState},
    tool::{Access, Effect, Toolbox},
};

use super::{Broken, hold};

/// The tickets that a worker works on.
pub(super) fn worked_on(state: &State) -> BTreeSet<Seq> {
    let worked = state.open.iter().filter(|(_, open)| match open {
        Open::Request(_) | Open::Compaction(_) => true,
        Open::Call(call) => matches!(call.state, CallState::Running | CallState::Closing),
        _ => false,
    });
    worked.map(|(ticket, _)| *ticket).collect()
}

/// What holds in every state that a decision leaves behind.
pub(super) fn state(state: &State) -> Result<(), Broken> {
    if state.turn.is_none() {
        let of_the_turn =
            state.open.values().any(|open| !matches!(open, Open::Task(_) | Open::Compaction(_) | Open::Branch(_)));
        hold!(!of_the_turn, "open without a turn: {:?}", state.open);
        hold!(state.steering.is_empty(), "steering waits without a turn");
        return Ok(());
    }
    let requests = state.open.values().filter(|open| matches!(open, Open::Request(_))).count();
    let waits = state.open.values().filter(|open| matches!(open, Open::Wait(_))).count();
    let calls = state.calls().count();
    let kinds = [requests, waits, usize::from(calls > 0)];
    hold!(kinds.iter().sum::<usize>() <= 1, "requests, waits, calls are open together: {kinds:?}");
    calls_and_asks(state)?;
    obeyed(state)?;
    let summaries = state.open.values().filter(|open| matches!(open, Open::Compaction(_))).count();
    hold!(summaries <= 1, "{summaries} summaries are written side by side");
    let asks_for_more = state.open.values().filter(|open| matches!(open, Open::BudgetAsk(_))).count();
    hold!(asks_for_more <= 1, "{asks_for_more} questions for more of a budget are open");
    let works = requests + waits + calls + summaries + asks_for_more > 0;
    hold!(works || state.paused || state.waits, "a turn runs and nothing of it is open");
    Ok(())
}

/// Asks and calls point at each other; a barrier runs alone; no more run than may.
fn calls_and_asks(state: &State) -> Result<(), Broken> {
    for (ticket, open) in state.open.iter() {
        match open {
            Open::Ask(ask) if ask.question.is_some() => {
                let runs = matches!(state.open.get(&ask.call), Some(Open::Call(call)) if call.attempts > 0 && call.state != CallState::Closing);
                hold!(runs, "question {ticket} is of call {}, which does not run", ask.call);
            }
            Open::Ask(ask) => {
                let asked = matches!(state.open.get(&ask.call), Some(Open::Call(call)) if call.state == CallState::Asking(*ticket));
                hold!(asked, "ask {ticket} is about call {}, which does not ask", ask.call);
            }
            Open::Call(call) => {
                if let CallState::Asking(ask) = call.state {
                    hold!(
                        matches!(state.open.get(&ask), Some(Open::Ask(_))),
                        "call {ticket} asks {ask}, which is closed"
                    );
                }
            }
            _ => {}
        }
    }
    let runs = |state: CallState| matches!(state, CallState::Running | CallState::Closing);
    let running: Vec<_> = state.calls().filter(|(_, call)| runs(call.state)).collect();
    hold!(running.len() <= state.settings.parallel_max.max(1), "{} calls run at the same time", running.len());
    let mut barrier = None;
    for (ticket, call) in state.calls() {
        let begun = matches!(call.state, CallState::Asking(_)) || runs(call.state);
        hold!(barrier.is_none() || !begun, "call {ticket} did not wait for {barrier:?}");
        let alone = state.calls().next().is_some_and(|(first, _)| first == ticket);
        hold!(
            call.facts.parallel || alone || !begun,
            "call {ticket} is a barrier and did not wait for those before it"
        );
        if !call.facts.parallel {
            barrier = Some(ticket);
        }
    }
    Ok(())
}

/// The table of `design.md` §5: what a waiting message, or an end, does at once.
fn obeyed(state: &State) -> Result<(), Broken> {
    let ending = state.turn.as_ref().is_some_and(|turn| turn.ending.is_some());
    let strongest = state.steering.iter().map(tamtam::kernel::Waiting::steering).max();
    let stops = ending || strongest == Some(Steering::AbortRunning);
    let skips = stops || strongest == Some(Steering::SkipRemaining);
    for (ticket, call) in state.calls() {
        match call.state {
            CallState::Running => hold!(!stops, "call {ticket} was to be stopped and runs"),
            CallState::Pending | CallState::Allowed | CallState::Asking(_) => {
                hold!(!skips, "call {ticket} was to be skipped and is {:?}", call.state);
            }
            CallState::Closing => {}
        }
    }
    for waiting in state.queue.iter().chain(&state.steering) {
        let fits = match waiting.ahead {
            Some(Ahead::Sent) => state.request().is_some(),
            Some(Ahead::Committed) => state.request().is_none() && state.turn.is_some(),
            _ => true,
        };
        hold!(fits, "{} is {:?}", waiting.message.id, waiting.ahead);
    }
    if let Some((ticket, request)) = state.request() {
        hold!(!stops || request.closing, "request {ticket} was to be cut and goes on");
    }
    Ok(())
}

/// What holds for what one decision wrote, beside the state it leaves.
pub(super) fn decision(before: &State, entries: &[Entry], after: &State) -> Result<(), Broken> {
    let mut seq = before.seq;
    let mut time = before.time;
    for entry in entries {
        hold!(entry.seq == seq.next(), "entry {} follows entry {seq}", entry.seq);
        hold!(entry.time >= time, "time runs backwards at entry {}", entry.seq);
        (seq, time) = (entry.seq, entry.time);
    }
    for entry in entries {
        let Record::Request(request) = &entry.record else { continue };
        // Nothing but a chain brings these two models.
        let is_of_chain = matches!(&*request.model.model, "second" | "third");
        let told = request.fallback.is_some();
        hold!(told || !is_of_chain, "{} is asked, and it is not said in whose place", request.model);
        hold!(!told || is_of_chain, "{} is asked in its own place", request.model);
        hold!(!told || request.instead.is_none(), "{} is asked for a budget, and for a chain", request.model);
    }
    let requested = entries.iter().any(|entry| matches!(entry.record, Record::Request(_)));
    let left_behind = requested && after.settings.steering_mode == Mode::All && !after.steering.is_empty();
    // What the provider has begun to answer is delivered alone.
    let mut state = before.clone();
    let goes_on = left_behind
        && entries.iter().any(|entry| {
            let is_ahead = |id: &MessageId| {
                let waiting = state.steering.iter().find(|waiting| waiting.message.id == *id);
                waiting.is_some_and(|waiting| waiting.ahead == Some(Ahead::Committed))
            };
            let alone = matches!(&entry.record, Record::Delivered { ids } if ids.iter().all(is_ahead));
            state.apply(entry);
            alone
        });
    hold!(goes_on || !left_behind, "a request was made and steering messages still wait");
    Ok(())
}

/// Promise 8: nothing starts that a rule denies, and nothing that is to be asked for starts without a grant.
pub(super) fn permitted(before: &State, entries: &[Entry], after: &State, toolbox: &Toolbox) -> Result<(), Broken> {
    for entry in entries {
        let (Record::CallStarted { attempt, .. }, Some(ticket)) = (&entry.record, entry.ticket) else { continue };
        let Some(Open::Call(call)) = after.open.get(&ticket) else { continue };
        let arguments = serde_json::from_str(&call.input).unwrap_or_default();
        let mut access = toolbox.find(&call.facts.tool).map(|tool| tool.access(&arguments)).unwrap_or_default();
        access.extend(call.cycle.map(|_| Access::new("doom_loop", &call.facts.tool)));
        let layers: Vec<_> = after.settings.host.iter().chain(&after.settings.rules).collect();
        let action = judge_all(&layers, &access, &Globs::default()).action;
        hold!(action != Action::Deny, "call {ticket} started and is denied");
        // One that ran before was asked about then, or is asked about by rules that are new.
        if *attempt > 1 {
            continue;
        }
        let was_asked = matches!(
            before.open.get(&ticket),
            Some(Open::Call(call)) if matches!(call.state, CallState::Asking(_) | CallState::Allowed)
        );
        let globs = Globs::default();
        let stands = !access.is_empty()
            && access.iter().all(|access| {
                let is_granted = after.grants.iter().any(|granted| grants(&granted.rules, access, &globs));
                is_granted || judge_all(&layers, std::slice::from_ref(access), &globs).action == Action::Allow
            });
        hold!(action == Action::Allow || was_asked || stands, "call {ticket} started and nobody was asked");
    }
    Ok(())
}

/// Promise 2, as a provider sees it: each call is followed by its result, in call order, before anything else.
pub(super) fn paired(history: &History) -> Result<(), Broken> {
    let mut expected: Vec<&str> = Vec::new();
    let mut at = 0;
    for item in history.iter() {
        match item.as_ref() {
            Item::Result(result) => {
                let call = expected.get(at).copied();
                hold!(call == Some(result.call.as_str()), "a result of {} stands where {call:?} is due", result.call);
                at += 1;
            }
            other => {
                hold!(at == expected.len(), "{} calls have no result before {other:?}", expected.len() - at);
                (expected, at) = (Vec::new(), 0);
                if let Item::Assistant(answer) = other {
                    let calls = answer.parts.iter().filter_map(|part| match part {
                        AnswerPart::Call { id, .. } => Some(id.as_str()),
                        _ => None,
                    });
                    expected = calls.collect();
                }
            }
        }
    }
    hold!(at == expected.len(), "{} calls have no result at the end", expected.len() - at);
    Ok(())
}

/// What the model sees is the end of the whole conversation, item by item, behind at most one summary: nothing of it is lost,
/// doubled or moved by a compaction, and of a pruned result only the content is gone.
pub(super) fn is_end_of(state: &State, whole: &State) -> Result<(), Broken> {
    let front = state.context.front;
    hold!(front <= 1 && (front == 1) == (state.context.newest > Seq::ZERO), "{front} summaries stand in the context");
    let kept = state.history.len() - front;
    let all = whole.history.len();
    hold!(kept <= all, "{kept} items are seen, and {all} were said");
    for (seen, said) in state.history.iter().skip(front).zip(whole.history.iter().skip(all - kept)) {
        let same = match (seen.as_ref(), said.as_ref()) {
            (Item::Result(seen), Item::Result(said)) => seen.call == said.call && seen.seq == said.seq,
            (seen, said) => seen == said,
        };
        hold!(same, "{seen:?} is seen where {said:?} was said");
    }
    Ok(())
}

/// The words of each pinned message stand in the context, whole: in the message itself, or beside the summary of what was cut off.
pub(super) fn pins_stay(state: &State) -> Result<(), Broken> {
    let front = state.history.iter().take(state.context.front).find_map(|item| match item.as_ref() {
        Item::User(user) => Some(tamtam::Message { parts: user.parts.clone(), ..tamtam::Message::user("") }.text()),
        _ => None,
    });
    for pin in &state.context.pins {
        let mut since = state.history.iter().skip(state.context.front);
        let said = since.any(|item| matches!(item.as_ref(), Item::User(user) if user.id == pin.message));
        let carried = front.as_ref().is_some_and(|front| front.contains(&*pin.text));
        hold!(said || carried, "{} is pinned, and its words are gone", pin.message);
    }
    Ok(())
}

/// Promises 2, 4 and 5 on the whole tape of a session that has come to rest.
pub(super) fn tape(entries: &[Entry]) -> Result<(), Broken> {
    let mut effects = BTreeMap::new();
    let mut results: BTreeMap<Seq, u32> = BTreeMap::new();
    let mut keys: BTreeMap<Seq, String> = BTreeMap::new();
    let (mut resumed, mut stopped) = (false, false);
    let mut downs: BTreeMap<Seq, u32> = BTreeMap::new();
    let mut row = Row::default();
    for entry in entries {
        let ticket = entry.ticket.unwrap_or(entry.seq);
        row.look(entry)?;
        match &entry.record {
            Record::Call(call) => {
                effects.insert(entry.seq, call.facts.effect);
                results.insert(entry.seq, 0);
            }
            Record::CallStarted { attempt, key, .. } => {
                let again = *attempt > 1;
                hold!(
                    !(again && effects.get(&ticket) == Some(&Effect::Once)),
                    "call {ticket} of effect once ran again"
                );
                let first = keys.entry(ticket).or_insert_with(|| key.clone());
                hold!(first == key, "call {ticket} ran again under another key");
                hold!(results.get(&ticket) == Some(&0), "call {ticket} was started after its result");
            }
            Record::Result { result, .. } => {
                *results.entry(ticket).or_default() += 1;
                resumed &= result.error == Some(ErrorReason::Unknown);
            }
            Record::TaskStarted { .. } => drop(downs.insert(entry.seq, 0)),
            Record::TaskFinished { .. } | Record::TaskLeft {} => *downs.entry(ticket).or_default() += 1,
            Record::Answer { interrupted, .. } => resumed &= *interrupted,
            Record::TurnFinished { .. } => resumed = false,
            // What was open is its parent's; each call got a word of where its result will be.
            Record::Forked(_) => {
                results.values_mut().for_each(|times| *times = 1);
                downs.clear();
                resumed = false;
            }
            Record::Stopped {} => stopped = true,
            // Behind a stop in order it is no recovery from a crash.
            Record::Recovered { .. } if std::mem::take(&mut stopped) => {}
            Record::Recovered { n: 1.., resumed: true } => {
                hold!(!resumed, "entry {}: the turn went on by itself twice without progress", entry.seq);
                resumed = true;
            }
            _ => {}
        }
    }
    let unheard = downs.iter().find(|(_, times)| **times != 1);
    hold!(unheard.is_none(), "a task has other than one DOWN: {unheard:?}");
    let unpaired = results.iter().find(|(_, times)| **times != 1);
    hold!(unpaired.is_none(), "calls have other than one result: {unpaired:?}");
    let open = Transcript::of(entries).into_iter().flat_map(|message| message.parts).find(|part| {
        matches!(part, Part::Tool(tool) if matches!(tool.state, ToolState::Pending { .. } | ToolState::Running { .. }))
    });
    hold!(open.is_none(), "the transcript shows an open call: {open:?}");
    tail(entries)
}

/// A page that is read from an anchor on shows what it would show over the whole tape, wherever the anchor is.
fn tail(entries: &[Entry]) -> Result<(), Broken> {
    let whole: Vec<_> = {
        let (messages, made) = Transcript::numbered(entries);
        made.into_iter().zip(messages).collect()
    };
    for nth in 1..5 {
        let at = entries.len() * nth / 5;
        let Some(state) = State::fold(&entries[..at]) else { continue };
        let before = &entries[at - 1];
        let anchor = Entry { ticket: None, record: Record::State(Arc::new(state)), ..before.clone() };
        let from_there: Vec<_> = [anchor].iter().chain(&entries[at..]).cloned().collect();
        let (messages, made) = Transcript::tail(&from_there);
        let tail: Vec<_> = made.into_iter().zip(messages).collect();
        hold!(whole.ends_with(&tail), "from entry {} on the transcript is {tail:#?}\n\nand not {whole:#?}", before.seq);
    }
    Ok(())
}

/// The calls since the last message, as the guard against loops must see them: known from the tape alone, and compared slowly.
#[derive(Default)]
pub(crate) struct Row {
    keys: Vec<String>,
    repeats: BTreeSet<Seq>,
    refused: BTreeSet<Seq>,
    answer: Option<Seq>,
}

impl Row {
    /// Whether the row ends in three equal rounds of so many calls.
    pub(crate) fn is_loop_of(keys: &[String], length: usize) -> bool {
        let rounds: Vec<_> = keys.rchunks_exact(length).take(3).collect();
        rounds.len() == 3 && rounds.iter().all(|round| *round == rounds[0])
    }

    fn look(&mut self, entry: &Entry) -> Result<(), Broken> {
        match &entry.record {
            Record::Delivered { .. } | Record::LoopsReset {} => *self = Row { answer: self.answer, ..Row::default() },
            Record::Answer { .. } => self.answer = Some(entry.seq),
            Record::Call(call) => {
                match &call.facts.loop_key {
                    Some(key) => self.keys.push(key.clone()),
                    None => self.keys.clear(),
                }
                match (1..=4).any(|length| Row::is_loop_of(&self.keys, length)) {
                    true => drop(self.repeats.insert(entry.seq)),
                    false => self.refused.clear(),
                }
            }
            Record::Result { judged: CallVerdict::Repeats, .. } => {
                let ticket = entry.ticket.unwrap_or_default();
                hold!(self.repeats.contains(&ticket), "call {ticket} was refused as a repetition, and is none");
                self.refused.extend(self.answer);
            }
            Record::Result { judged: CallVerdict::Rejected | CallVerdict::Expired, .. }
                if self.repeats.contains(&entry.ticket.unwrap_or_default()) =>
            {
                self.refused.extend(self.answer);
            }
            Record::Ending { outcome: Outcome::DoomLoop { .. } } => {
                hold!(self.refused.len() > 1, "entry {}: a loop ended the turn, and the model was not told", entry.seq);
            }
            _ => {}
        }
        Ok(())
    }
}
