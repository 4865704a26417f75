//! Which durable events follow from an entry: a pure function of the entry and the state before it, used live and for replay.
//!
//! The same entry always produces the same events in the same order. So listeners can read them again from any seq, and an event
//! is named by its entry and its number in that order. An entry may produce no event.
//!
//! A change must not read anything else. It must not reorder the events of an entry or insert one before others: ids that hosts
//! have stored would then name other events.

use crate::{
    event::{BranchEvent, BudgetThen, EVENT_VERSION, Event, EventId, EventKind},
    kernel::context::Fullness,
    kernel::{
        Ahead, AskClosedWhy, Breach, CacheMiss, Charge, Delivery, Entry, Grant, Limits, Open, OpenCall, OpenCompaction,
        OpenTaskAsk, Outcome, Prepared, Record, RequestOpened, State, TaskAsk, ask_digest,
    },
    model::ModelAnswer,
    permission::offers,
    tool::ToolResult,
    words::ids::{Millis, Seq, SessionId},
    words::message::Finish,
};

/// The durable events of one entry, in order. `before` is the state that the entry was applied to.
pub(crate) fn events_of<'a>(before: &'a State, entry: &'a Entry) -> impl Iterator<Item = Event> + use<'a> {
    let kinds = kinds_of(before, entry)
        .into_iter()
        .chain(withdrawn_by(before, entry))
        .chain(begun_after(before, entry))
        .chain(moved_ahead(before, entry));
    let session = match &entry.record {
        Record::State(state) => state.session.clone(),
        _ => before.session.clone(),
    };
    let event = move |(sub, kind)| Event {
        v: EVENT_VERSION,
        id: EventId { seq: entry.seq, incarnation: 0, sub },
        session: session.clone(),
        time: entry.time,
        cause: entry.cause.clone(),
        turn: entry.turn,
        step: entry.step,
        kind,
    };
    (0..).zip(kinds).map(event)
}

fn kinds_of(before: &State, entry: &Entry) -> Vec<EventKind> {
    match &entry.record {
        Record::Request(request) => request_events(before, request),
        Record::Answer { answer, interrupted, estimated, .. } => {
            let price =
                before.request().filter(|(ticket, _)| Some(*ticket) == entry.ticket).and_then(|(_, open)| open.price);
            let charge = Charge::of(price.as_ref(), &answer.usage, estimated.as_ref());
            let open = before.request().filter(|(ticket, _)| Some(*ticket) == entry.ticket && !*interrupted);
            let miss = open.and_then(|(_, open)| before.cache_miss(open, &answer.usage));
            answer_events(answer, charge.unwrap_or_default(), *interrupted, left_after(before, entry), miss)
        }
        Record::Result { result, .. } => result_events(before, entry, result).unwrap_or_default(),
        Record::TurnFinished { outcome } => turn_events(before, outcome).unwrap_or_default(),
        _ => Vec::from_iter(kind_of(before, entry)),
    }
}

/// The questions of a running call that the entry closes, because it ends the call or tells it to stop.
fn withdrawn_by(before: &State, entry: &Entry) -> impl Iterator<Item = EventKind> + use<> {
    let call = entry.ticket.filter(|_| matches!(entry.record, Record::Result { .. } | Record::Closing { .. }));
    let open = call.map(|call| before.open_questions(call)).unwrap_or_default();
    let why = Some(AskClosedWhy::Withdrawn);
    open.into_iter().map(move |ask| EventKind::AskClosed { ask, grant: None, why, who: None, rules: Vec::new() })
}

/// The steering messages that went into an answer, and what became of them with the entry.
fn moved_ahead<'a>(before: &'a State, entry: &'a Entry) -> impl Iterator<Item = EventKind> + use<'a> {
    let steered = match &entry.record {
        Record::Answer { answer, .. } => Some(&answer.steered[..]),
        Record::Request(_) | Record::RequestFailed { .. } | Record::Recovered { .. } | Record::TurnFinished { .. } => {
            Some(&[][..])
        }
        _ => None,
    };
    let moved = steered.into_iter().flat_map(|steered| before.moved_ahead(steered));
    moved.map(|(message, to, why)| EventKind::SteeringMoved {
        message: message.clone(),
        to,
        why: why.map(str::to_owned),
    })
}

/// The tasks that waited for room, and for which the entry made some. They come after the entry's own events.
fn begun_after(before: &State, entry: &Entry) -> Vec<EventKind> {
    let makes_room = matches!(
        entry.record,
        Record::TaskFinished { .. } | Record::TaskLeft {} | Record::Settings(_) | Record::Resumed {}
    );
    if !makes_room || before.tasks_queued() == 0 {
        return Vec::new();
    }
    let mut after = before.clone();
    after.apply(entry);
    let begun = after.tasks().filter(|(ticket, task)| !task.queued && before.is_queued(*ticket));
    begun.map(|(ticket, task)| EventKind::TaskBegun { ticket, child: task.child.clone() }).collect()
}

/// The event of an entry that has one event at most.
fn kind_of(before: &State, entry: &Entry) -> Option<EventKind> {
    let ticket = entry.ticket.unwrap_or(entry.seq);
    Some(match &entry.record {
        Record::Request(_) | Record::Answer { .. } | Record::Result { .. } | Record::TurnFinished { .. } => {
            return None;
        }
        Record::State(_) | Record::Settings(_) | Record::Call(_) | Record::CallFacts { .. } => return None,
        Record::Closing { .. } | Record::Ending { .. } | Record::Released {} | Record::Pruned { .. } => return None,
        Record::Narrowed { .. } | Record::HostRules { .. } | Record::AgentChosen { .. } => return None,
        Record::LoopsReset {} | Record::Stopped {} => return None,
        // A session has no listeners before its tape exists.
        Record::Forked(_) | Record::Imported(_) => return None,
        // The host that asked for the summary gets its own answer; the cost shows in `left`.
        Record::BranchOpened(_) | Record::BranchFailed { .. } => return None,
        Record::Compaction(OpenCompaction { reason, model, used, usable, .. }) => {
            let (reason, model) = (*reason, model.to_string());
            EventKind::CompactionStarted { reason, model, used: *used, usable: *usable }
        }
        Record::Compacted(compacted) => {
            let (items, summary) = (compacted.first_kept, compacted.summary.clone());
            EventKind::CompactionFinished { items, summary, error: None }
        }
        Record::CompactionFailed { error, .. } => {
            EventKind::CompactionFinished { items: 0, summary: None, error: Some(error.clone()) }
        }
        Record::CompactionUndone(undone) => {
            EventKind::CompactionUndone { compaction: undone.compaction, items: undone.history.len() }
        }
        Record::BranchSummary(branch) => {
            let summary = branch.summary.clone();
            EventKind::Branch(BranchEvent::BranchSummary { from: branch.from, to: branch.to, summary })
        }
        Record::Pinned { message } => EventKind::Pinned { message: message.clone() },
        Record::Unpinned { message } => EventKind::Unpinned { message: message.clone() },
        Record::Accepted { message, delivery, .. } => {
            let (message, delivery) = (message.clone(), *delivery);
            match (delivery, &before.turn) {
                (Delivery::Steer(_), Some(_)) => EventKind::Steered { message, delivery },
                _ => EventKind::Queued { message, delivery },
            }
        }
        Record::Edited { message } => EventKind::QueueEdited { message: message.clone() },
        Record::Withdrawn { id } => EventKind::Withdrawn { message: id.clone() },
        Record::Delivered { ids } => match &before.turn {
            Some(_) => EventKind::Delivered { messages: ids.clone() },
            None => EventKind::TurnStarted { messages: ids.clone() },
        },
        Record::BudgetAsk { breach, expires } => budget(*breach, BudgetThen::Ask, Some((entry.seq, *expires)), None),
        Record::RequestFailed { error, fallback, .. } => EventKind::RequestFailed {
            error: error.message.clone(),
            kind: error.kind,
            class: error.class(),
            fallback: fallback.as_ref().map(ToString::to_string),
        },
        Record::RetryWait { attempt, until, server } => {
            EventKind::Retry { attempt: *attempt, until: *until, server: *server }
        }
        Record::Ask { call, access, expires, question } => {
            let call = before.call(*call)?;
            let digest = ask_digest(&call.facts.tool, &call.input, access, question.as_deref());
            let repeats = before.repeats(call).filter(|_| question.is_none());
            EventKind::Ask {
                ask: entry.seq,
                call: call.id.clone(),
                name: call.facts.tool.clone(),
                input: call.input.clone(),
                access: access.clone(),
                expires: *expires,
                waits: before.settings.asks_wait,
                from: Vec::new(),
                offers: offers(access),
                question: question.clone(),
                digest,
                repeats,
            }
        }
        Record::TaskAsk(asked) => {
            let (digest, repeats) = (asked.digest(), None);
            let TaskAsk { from, call, name, input, access, expires, waits, question, .. } = (**asked).clone();
            let offers = offers(&access);
            EventKind::Ask {
                ask: entry.seq,
                call,
                name,
                input,
                access,
                expires,
                waits,
                from,
                offers,
                question,
                digest,
                repeats,
            }
        }
        Record::Sent { id } => EventKind::SteeringMoved { message: id.clone(), to: Ahead::Sent, why: None },
        Record::Granted { grant: Grant::Unheard, who, .. } => {
            let why = Some(AskClosedWhy::Unheard);
            EventKind::AskClosed { ask: ticket, grant: None, why, who: who.clone(), rules: Vec::new() }
        }
        Record::Granted { grant, who, rules } => {
            let (grant, who, rules) = (Some(grant.clone()), who.clone(), rules.clone());
            EventKind::AskClosed { ask: ticket, grant, why: None, who, rules }
        }
        Record::Revoked { grant } => EventKind::GrantRevoked { grant: *grant },
        // Its answer was shown as its end.
        Record::AskClosed { .. } if is_answered(before, ticket) => return None,
        Record::AskClosed { why } => {
            EventKind::AskClosed { ask: ticket, grant: None, why: Some(*why), who: None, rules: Vec::new() }
        }
        Record::CallStarted { attempt, .. } => {
            let call = before.call(ticket)?;
            let (name, input) = (call.facts.tool.clone(), call.input.clone());
            EventKind::CallStarted { ticket, call: call.id.clone(), name, input, attempt: *attempt }
        }
        Record::Prepared(prepared) => return prepared_event(prepared),
        Record::CallGated(gated) => {
            let call = before.call(ticket)?;
            EventKind::CallGated {
                ticket,
                call: call.id.clone(),
                name: call.facts.tool.clone(),
                hook: gated.hook.clone(),
                input: gated.input.clone(),
                ask: gated.ask.clone(),
            }
        }
        Record::Recovered { n, resumed } => EventKind::SessionRecovered { n: *n, resumed: *resumed },
        Record::TaskStarted { child, link, depth, grant, order } => EventKind::TaskStarted {
            ticket: entry.seq,
            child: child.clone(),
            link: *link,
            depth: *depth,
            grant: *grant,
            adopted: order.is_none(),
            queued: before.tasks_wait(),
        },
        Record::TaskFinished { down, notice } => {
            let message = notice.as_ref().map(|notice| notice.id.clone());
            EventKind::TaskFinished { ticket, child: child_of(before, ticket)?, down: down.clone(), message }
        }
        Record::TaskLeft {} => EventKind::TaskLeft { ticket, child: child_of(before, ticket)? },
        Record::Orphaned { why } => {
            EventKind::Orphaned { parent: before.origin.as_ref()?.parent.clone(), why: why.clone() }
        }
        Record::Adopted { tie, .. } => EventKind::Adopted { tie: tie.clone() },
        Record::Merged(merged) => EventKind::Branch(BranchEvent::Merged {
            fork: merged.fork.clone(),
            from: merged.from,
            to: merged.to,
            items: merged.items.len(),
            messages: merged.messages(),
        }),
        Record::RolledBack(back) => {
            let (gone, again) = (back.gone.clone(), back.again.clone());
            EventKind::Branch(BranchEvent::RolledBack { to: back.to, way: back.way, gone, again })
        }
        Record::Ended { why } => EventKind::Ended { why: why.clone() },
        Record::AgentSwitched { agent } => {
            EventKind::AgentSwitched { agent: agent.clone(), from: before.settings.agent.clone() }
        }
        Record::Paused {} => EventKind::Paused {},
        Record::Resumed {} => EventKind::Resumed {},
        Record::Restored(restored) => EventKind::Branch(BranchEvent::FilesRestored {
            since: restored.since,
            files: restored.files.iter().map(|file| file.path.clone()).collect(),
            refused: restored.refused.clone(),
        }),
    })
}

/// Whether a ticket is a child's question that a person has answered.
fn is_answered(before: &State, ask: Seq) -> bool {
    matches!(before.open.get(&ask), Some(Open::TaskAsk(OpenTaskAsk { answer: Some(_), .. })))
}

/// Nothing is shown of hooks that have left the request as it was.
fn prepared_event(prepared: &Prepared) -> Option<EventKind> {
    let [messages, items, reminders] = prepared.added();
    let system = prepared.adds_to_system();
    let is_other = system || messages > 0 || reminders > 0 || prepared.shows_otherwise();
    is_other.then_some(EventKind::RequestPrepared { system, messages, items, reminders })
}

fn budget(breach: Breach, then: BudgetThen, ask: Option<(Seq, Millis)>, model: Option<String>) -> EventKind {
    let (ask, expires) = ask.unzip();
    EventKind::Budget { breach, then, ask, expires, model, text: breach.to_string() }
}

fn request_events(before: &State, request: &RequestOpened) -> Vec<EventKind> {
    let (model, used, usable) = (request.model.to_string(), request.used, request.usable);
    let instead = request.instead.map(|breach| budget(breach, BudgetThen::Model, None, Some(model.clone())));
    let mut kinds = Vec::from_iter(instead);
    let (hash, fallback) = (request.hash.clone(), request.fallback.clone());
    kinds.push(EventKind::StepStarted { model, attempt: request.attempt, used, usable, hash, fallback });
    if (Fullness { used, usable }).warns() && !before.context.fullness.warns() {
        kinds.push(EventKind::ContextWarning { used, usable });
    }
    kinds
}

fn turn_events(before: &State, outcome: &Outcome) -> Option<Vec<EventKind>> {
    let turn = before.turn.as_ref()?;
    let in_all = turn.spent.plus(&turn.spent_by_tasks);
    let finished = EventKind::TurnFinished {
        outcome: outcome.clone(),
        text: turn.text.clone(),
        messages: turn.messages.clone(),
        usage: in_all.usage,
        estimated: in_all.estimated,
        cost: in_all.cost.shown(),
        tasks: turn.spent_by_tasks.shown_as_tasks(turn.spent.tasks),
    };
    Some(match outcome {
        Outcome::Budget { breach, no_switch } => {
            let mut stopped = budget(*breach, BudgetThen::Stop, None, None);
            if let (EventKind::Budget { text, .. }, Some(why)) = (&mut stopped, no_switch) {
                *text = format!("{text}; {why}");
            }
            vec![stopped, finished]
        }
        _ => vec![finished],
    })
}

fn child_of(before: &State, task: Seq) -> Option<SessionId> {
    match before.open.get(&task) {
        Some(Open::Task(task)) => Some(task.child.clone()),
        _ => None,
    }
}

/// What is left of the budget after the entry. Nothing is computed where nothing is limited.
fn left_after(before: &State, entry: &Entry) -> Limits {
    if before.left().is_none() {
        return Limits::default();
    }
    let mut after = before.clone();
    after.apply(entry);
    after.left()
}

fn answer_events(
    answer: &ModelAnswer,
    charge: Charge,
    interrupted: bool,
    left: Limits,
    miss: Option<CacheMiss>,
) -> Vec<EventKind> {
    let parts = answer.parts.iter().map(|part| EventKind::PartUpdated { part: part.clone().into() });
    let is_done = answer.calls().next().is_none();
    let finished = is_done.then(|| step_finished(vec![], answer.finish, charge, interrupted, left, miss));
    parts.chain(finished).collect()
}

fn result_events(before: &State, entry: &Entry, result: &ToolResult) -> Option<Vec<EventKind>> {
    let ticket = entry.ticket.unwrap_or(entry.seq);
    let call = before.call(ticket)?;
    let mut kinds = vec![EventKind::CallFinished {
        ticket,
        call: call.id.clone(),
        name: call.facts.tool.clone(),
        error: result.error,
        content: result.content.clone(),
        title: result.title.clone(),
        details: result.details.clone(),
        attachments: result.attachments.clone(),
    }];
    let is_last = before.calls().count() == 1;
    let answer = before.turn.as_ref().and_then(|turn| turn.answered);
    if let (true, Some((finish, charge))) = (is_last, answer) {
        let calls = names_of_batch(before, call);
        let miss = before.turn.as_ref().and_then(|turn| turn.cache_miss);
        kinds.push(step_finished(calls, finish, charge, false, left_after(before, entry), miss));
    }
    Some(kinds)
}

/// The tools of the newest answer, in call order. `last` is the one call of the answer that has no result yet.
fn names_of_batch(before: &State, last: &OpenCall) -> Vec<String> {
    let batch = before.turn.as_ref().map_or(&[][..], |turn| &turn.batch);
    batch.iter().map(|item| item.result.as_ref().map_or(&last.facts.tool, |result| &result.name).clone()).collect()
}

fn step_finished(
    calls: Vec<String>,
    finish: Finish,
    charge: Charge,
    interrupted: bool,
    left: Limits,
    cache_miss: Option<CacheMiss>,
) -> EventKind {
    let Charge { usage, estimated, cost } = charge;
    EventKind::StepFinished { calls, finish, usage, estimated, cost: cost.shown(), left, interrupted, cache_miss }
}
