//! Which events follow from an entry. A pure function of the entry and the state before it.

use std::sync::Arc;

use crate::{
    event::{BudgetThen, EVENT_VERSION, Event, EventId, EventKind},
    kernel::context::Fullness,
    kernel::{Charge, Entry, Limits, Open, OpenCall, Outcome, Record, State},
    model::{Answer, AnswerPart},
    words::ids::{Seq, SessionId},
    words::message::{Finish, Part, ReasoningPart, TextPart, ToolPart, ToolState},
};

/// The durable events of one entry, in order. `before` is the state that the entry was applied to.
pub(crate) fn events_of(before: &State, entry: &Entry) -> Vec<Event> {
    let kinds = kinds_of(before, entry);
    let session = match &entry.record {
        Record::State(state) => state.session.clone(),
        _ => before.session.clone(),
    };
    let event = |(sub, kind)| Event {
        v: EVENT_VERSION,
        id: EventId { seq: entry.seq, incarnation: 0, sub },
        session: session.clone(),
        time: entry.time,
        cause: entry.cause.clone(),
        turn: entry.turn,
        step: entry.step,
        kind,
    };
    (0..).zip(kinds).map(event).collect()
}

fn kinds_of(before: &State, entry: &Entry) -> Vec<EventKind> {
    let ticket = entry.ticket.unwrap_or(entry.seq);
    let call = |ticket| match before.open.get(&ticket) {
        Some(Open::Call(call)) => Some(call),
        _ => None,
    };
    match &entry.record {
        Record::State(_) | Record::Settings(_) | Record::Call(_) | Record::Closing {} | Record::Ending { .. } => vec![],
        Record::CallFacts { .. } => vec![],
        Record::Released {} | Record::Pruned { .. } | Record::Narrowed { .. } | Record::HostRules { .. } => vec![],
        // Whoever asked for it is told; what it costs stands in `left`.
        Record::BranchOpened(_) | Record::BranchFailed { .. } => vec![],
        Record::Compaction(open) => vec![EventKind::CompactionStarted {
            reason: open.reason,
            model: open.model.to_string(),
            used: open.used,
            usable: open.usable,
        }],
        Record::Compacted(compacted) => vec![EventKind::CompactionFinished {
            items: compacted.first_kept,
            summary: compacted.summary.clone(),
            error: None,
        }],
        Record::CompactionUndone(undone) => {
            vec![EventKind::CompactionUndone { compaction: undone.compaction, items: undone.history.len() }]
        }
        Record::BranchSummary(branch) => {
            vec![EventKind::BranchSummary { from: branch.from, to: branch.to, summary: branch.summary.clone() }]
        }
        Record::Pinned { message } => vec![EventKind::Pinned { message: message.clone() }],
        Record::Unpinned { message } => vec![EventKind::Unpinned { message: message.clone() }],
        Record::CompactionFailed { error, .. } => {
            vec![EventKind::CompactionFinished { items: 0, summary: None, error: Some(error.clone()) }]
        }
        Record::Accepted { message, delivery } => {
            let (message, delivery) = (message.clone(), *delivery);
            match (delivery, &before.turn) {
                (crate::kernel::Delivery::Steer(_), Some(_)) => vec![EventKind::Steered { message, delivery }],
                _ => vec![EventKind::Queued { message, delivery }],
            }
        }
        Record::Edited { message } => vec![EventKind::QueueEdited { message: message.clone() }],
        Record::Withdrawn { id } => vec![EventKind::Withdrawn { message: id.clone() }],
        Record::Delivered { ids } => match &before.turn {
            Some(_) => vec![EventKind::Delivered { messages: ids.clone() }],
            None => vec![EventKind::TurnStarted { messages: ids.clone() }],
        },
        Record::Request(request) => {
            let instead = request.instead.map(|breach| {
                let (then, model) = (BudgetThen::Model, Some(request.model.to_string()));
                EventKind::Budget { breach, then, ask: None, expires: None, model, text: breach.to_string() }
            });
            let mut kinds = Vec::from_iter(instead);
            kinds.push(EventKind::StepStarted {
                model: request.model.to_string(),
                attempt: request.attempt,
                used: request.used,
                usable: request.usable,
                hash: request.hash.clone(),
            });
            let (used, usable) = (request.used, request.usable);
            if (Fullness { used, usable }).warns() && !before.context.fullness.warns() {
                kinds.push(EventKind::ContextWarning { used, usable });
            }
            kinds
        }
        Record::BudgetAsk { breach, expires, .. } => {
            let (ask, expires, text) = (Some(entry.seq), Some(*expires), breach.to_string());
            vec![EventKind::Budget { breach: *breach, then: BudgetThen::Ask, ask, expires, model: None, text }]
        }
        Record::Answer { answer, interrupted, estimated } => {
            let price = match before.open.get(&ticket) {
                Some(Open::Request(request)) => request.price,
                _ => None,
            };
            let charge = Charge::of(price.as_ref(), &answer.usage, estimated.as_ref());
            answer_events(answer, charge.unwrap_or_default(), *interrupted, left_after(before, entry))
        }
        Record::RequestFailed { error, .. } => {
            vec![EventKind::RequestFailed { error: error.message.clone(), kind: error.kind, class: error.class() }]
        }
        Record::RetryWait { attempt, until, server } => {
            vec![EventKind::Retry { attempt: *attempt, until: *until, server: *server }]
        }
        Record::Ask { call: asked, access, expires } => call(*asked).map_or(vec![], |call| {
            vec![EventKind::Ask {
                ask: entry.seq,
                call: call.id.clone(),
                name: call.facts.tool.clone(),
                input: call.input.clone(),
                access: access.clone(),
                expires: *expires,
            }]
        }),
        Record::Granted { grant } => vec![EventKind::AskClosed { ask: ticket, grant: Some(grant.clone()), why: None }],
        Record::AskClosed { why } => vec![EventKind::AskClosed { ask: ticket, grant: None, why: Some(*why) }],
        Record::CallStarted { attempt, .. } => call(ticket).map_or(vec![], |call| {
            vec![EventKind::CallStarted {
                ticket,
                call: call.id.clone(),
                name: call.facts.tool.clone(),
                input: call.input.clone(),
                attempt: *attempt,
            }]
        }),
        Record::Result { result, .. } => call(ticket).map_or(vec![], |call| result_events(before, entry, call, result)),
        Record::Recovered { n, resumed } => vec![EventKind::SessionRecovered { n: *n, resumed: *resumed }],
        Record::TurnFinished { outcome, .. } => before.turn.as_ref().map_or(vec![], |turn| {
            let stopped = match outcome {
                Outcome::Budget { breach } => Some(EventKind::Budget {
                    breach: *breach,
                    then: BudgetThen::Stop,
                    ask: None,
                    expires: None,
                    model: None,
                    text: breach.to_string(),
                }),
                _ => None,
            };
            let finished = EventKind::TurnFinished {
                outcome: outcome.clone(),
                text: turn.text.clone(),
                messages: turn.messages.clone(),
                usage: turn.spent.usage,
                estimated: turn.spent.estimated,
                cost: turn.spent.cost.shown(),
            };
            stopped.into_iter().chain([finished]).collect()
        }),
        Record::TaskStarted { child, link, depth, grant, order } => vec![EventKind::TaskStarted {
            ticket: entry.seq,
            child: child.clone(),
            link: *link,
            depth: *depth,
            grant: *grant,
            adopted: order.is_none(),
        }],
        Record::TaskFinished { down, notice } => child_of(before, ticket).map_or(vec![], |child| {
            let message = notice.as_ref().map(|notice| notice.id.clone());
            vec![EventKind::TaskFinished { ticket, child, down: down.clone(), message }]
        }),
        Record::TaskLeft {} => {
            child_of(before, ticket).map_or(vec![], |child| vec![EventKind::TaskLeft { ticket, child }])
        }
        Record::Orphaned { why } => before
            .origin
            .as_ref()
            .map_or(vec![], |origin| vec![EventKind::Orphaned { parent: origin.parent.clone(), why: why.clone() }]),
        Record::Adopted { tie, .. } => vec![EventKind::Adopted { tie: tie.clone() }],
        Record::Merged(merged) => vec![EventKind::Merged {
            fork: merged.fork.clone(),
            from: merged.from,
            to: merged.to,
            items: merged.items.len(),
            messages: merged.messages(),
        }],
        Record::RolledBack(back) => vec![EventKind::RolledBack {
            to: back.to,
            way: back.way,
            gone: back.gone.clone(),
            again: back.again.clone(),
        }],
        Record::Ended { why } => vec![EventKind::Ended { why: why.clone() }],
        // Nobody listened to it before it was there.
        Record::Forked(_) | Record::Imported(_) => vec![],
        Record::Paused {} => vec![EventKind::Paused {}],
        Record::Resumed {} => vec![EventKind::Resumed {}],
        Record::Restored(restored) => vec![EventKind::FilesRestored {
            since: restored.since,
            files: restored.files.iter().map(|file| file.path.clone()).collect(),
            refused: restored.refused.clone(),
        }],
    }
}

fn child_of(before: &State, task: Seq) -> Option<SessionId> {
    match before.open.get(&task) {
        Some(Open::Task(task)) => Some(task.child.clone()),
        _ => None,
    }
}

/// What is left of the budget once that entry is in. Nothing is computed where nothing is limited.
fn left_after(before: &State, entry: &Entry) -> Limits {
    if before.left().is_none() {
        return Limits::default();
    }
    let mut after = before.clone();
    after.apply(entry);
    after.left()
}

fn answer_events(answer: &Answer, charge: Charge, interrupted: bool, left: Limits) -> Vec<EventKind> {
    let mut kinds: Vec<_> = answer.parts.iter().map(|part| EventKind::PartUpdated { part: part_of(part) }).collect();
    if !has_calls(answer) {
        kinds.push(step_finished(vec![], answer.finish, charge, interrupted, left));
    }
    kinds
}

fn has_calls(answer: &Answer) -> bool {
    answer.parts.iter().any(|part| matches!(part, AnswerPart::Call { .. }))
}

fn part_of(part: &AnswerPart) -> Part {
    match part.clone() {
        AnswerPart::Text { text, extra } => Part::Text(TextPart { text, extra }),
        AnswerPart::Reasoning { text, time, extra } => Part::Reasoning(ReasoningPart { text, time, extra }),
        AnswerPart::Call { id, name, input, extra } => {
            Part::Tool(ToolPart { call: id, tool: name, state: ToolState::Pending { input }, extra })
        }
    }
}

fn result_events(
    before: &State,
    entry: &Entry,
    call: &OpenCall,
    result: &Arc<crate::tool::ToolResult>,
) -> Vec<EventKind> {
    let mut kinds = vec![EventKind::CallFinished {
        ticket: entry.ticket.unwrap_or(entry.seq),
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
        kinds.push(step_finished(calls, finish, charge, false, left_after(before, entry)));
    }
    kinds
}

/// The tools of the newest answer, in call order. `last` is the one call of it that has no result yet.
fn names_of_batch(before: &State, last: &OpenCall) -> Vec<String> {
    let batch = before.turn.as_ref().map_or(&[][..], |turn| &turn.batch);
    batch.iter().map(|item| item.result.as_ref().map_or(&last.facts.tool, |result| &result.name).clone()).collect()
}

fn step_finished(calls: Vec<String>, finish: Finish, charge: Charge, interrupted: bool, left: Limits) -> EventKind {
    let Charge { usage, estimated, cost } = charge;
    EventKind::StepFinished { calls, finish, usage, estimated, cost: cost.shown(), left, interrupted }
}
