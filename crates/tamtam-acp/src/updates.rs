//! [`Updates`]: the events of a session as the updates that an editor shows. Pure: an event in, updates out.
//!
//! Text is shown as it is written, and a durable event then repeats each part as it stands on the tape. What was shown of the part
//! is remembered until then, so that only the rest is sent; so a reader that missed deltas (it was slow, or it came in mid-answer)
//! has the whole text nevertheless. While deltas are missing none is shown, because a text with a hole is wrong.
//!
//! A call keeps one id from its first sight to its result. Models number calls as they like, so an id that comes again is another
//! call and gets a mark.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
};

use serde_json::{Value, json};
use tamtam::{
    Event, EventKind, Message, MessageId, Part, Seq,
    session::{Ahead, CallId, OpenCall, Role, ToolPart, ToolState},
};

use crate::{
    calls::{self, Ended},
    content,
};

/// What the client can show beyond what every client can.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shows {
    /// Short notes: retries, limits, failures.
    pub(crate) notices: bool,
    /// Compactions.
    pub(crate) compactions: bool,
}

/// The updates of one session for one client.
pub(crate) struct Updates {
    workspace: PathBuf,
    shows: Shows,
    /// Messages that wait, as far as this client has not sent them.
    waiting: BTreeMap<MessageId, Arc<Message>>,
    /// Calls without a result.
    calls: BTreeMap<CallId, Call>,
    tickets: BTreeMap<Seq, CallId>,
    /// Ids of calls that are over.
    used: BTreeSet<String>,
    text: Written,
    thought: Written,
    /// The open request, and the number of its last delta.
    request: Option<(Seq, u32)>,
    /// Whether a delta of the open request is missing.
    is_holed: bool,
    compaction: Option<String>,
    /// How full the context is: tokens that the newest request took, and may take.
    context: Option<(u64, u64)>,
}

struct Call {
    id: String,
    /// The change that its arguments say.
    change: Option<Value>,
    /// Whether the tape has it, and not only the stream of an answer.
    is_made: bool,
}

/// What was shown of an answer, and is not confirmed yet.
#[derive(Default)]
struct Written(String);

impl Written {
    /// What is missing of a part that is complete; `None` if what was shown is something else.
    fn confirmed(&mut self, whole: &str) -> Option<String> {
        if let Some(more) = self.0.strip_prefix(whole) {
            self.0 = more.to_owned();
            return Some(String::new());
        }
        let shown = std::mem::take(&mut self.0);
        whole.strip_prefix(shown.as_str()).map(str::to_owned)
    }
}

/// Under which name a text is sent.
const TEXT: &str = "agent_message_chunk";
const THOUGHT: &str = "agent_thought_chunk";

impl Updates {
    /// For a session from its first entry on, or, `in_mid`, for one that is under way.
    pub(crate) fn new(workspace: PathBuf, shows: Shows, in_mid: bool) -> Updates {
        Updates {
            workspace,
            shows,
            waiting: BTreeMap::new(),
            calls: BTreeMap::new(),
            tickets: BTreeMap::new(),
            used: BTreeSet::new(),
            text: Written::default(),
            thought: Written::default(),
            request: None,
            is_holed: in_mid,
            compaction: None,
            context: None,
        }
    }

    /// Some events are missing that no tape has.
    pub(crate) fn lagged(&mut self) {
        self.is_holed = true;
    }

    /// A message that waits since before the first event.
    pub(crate) fn waits(&mut self, message: &Arc<Message>) {
        self.waiting.insert(message.id.clone(), message.clone());
    }

    /// The id under which the client knows a call of the session.
    pub(crate) fn call(&self, call: &CallId) -> Option<&str> {
        self.calls.get(call).map(|call| call.id.as_str())
    }

    /// Tokens that the newest request took, and those that it might take.
    pub(crate) fn context(&self) -> Option<(u64, u64)> {
        self.context
    }

    /// A call that was open before the first event: shown, unless the conversation so far has shown it.
    pub(crate) fn is_open(&mut self, ticket: Seq, call: &OpenCall) -> Option<Value> {
        let is_new = !self.calls.contains_key(&call.id);
        let made = is_new.then(|| self.made(&call.id, &call.facts.tool, &call.input)).flatten();
        self.tickets.insert(ticket, call.id.clone());
        made
    }

    /// The conversation so far.
    pub(crate) fn past(&mut self, message: &Message) -> Vec<Value> {
        if message.role == Role::User {
            return said_by_user(message);
        }
        let mut updates = Vec::new();
        for part in &message.parts {
            match part {
                Part::Text(part) => chunks(TEXT, message.id.as_str(), &part.text, &mut updates),
                Part::Reasoning(part) => chunks(THOUGHT, message.id.as_str(), &part.text, &mut updates),
                Part::Tool(part) => self.past_call(part, &mut updates),
                _ => {}
            }
        }
        updates
    }

    fn past_call(&mut self, part: &ToolPart, updates: &mut Vec<Value>) {
        let (ToolState::Pending { input }
        | ToolState::Running { input, .. }
        | ToolState::Completed { input, .. }
        | ToolState::Error { input, .. }) = &part.state
        else {
            return;
        };
        updates.extend(self.made(&part.call, &part.tool, input));
        let (title, error, said, details, attachments) = match &part.state {
            ToolState::Completed { output, title, metadata, attachments, .. } => {
                (title.as_deref(), None, output, metadata, attachments.as_slice())
            }
            ToolState::Error { error, reason, .. } => (None, Some(*reason), error, &Value::Null, [].as_slice()),
            _ => return,
        };
        let ended = Ended { name: &part.tool, title, error, content: said, details, attachments };
        updates.extend(self.ended(&part.call, &ended));
    }

    /// The updates of one event. `is_own` says whether this client has sent a message, and so shows it already.
    pub(crate) fn next(&mut self, event: &Event, is_own: impl Fn(&MessageId) -> bool) -> Vec<Value> {
        if !event.id.is_durable() {
            self.count(event);
        }
        let step = format!("{}.{}", event.turn.unwrap_or_default(), event.step.unwrap_or_default());
        let mut updates = Vec::new();
        match &event.kind {
            EventKind::Queued { message, .. } | EventKind::Steered { message, .. } => {
                if !is_own(&message.id) {
                    self.waits(message);
                }
                let state = if matches!(event.kind, EventKind::Queued { .. }) { "queued" } else { "steering" };
                updates.push(receipt(&message.id, state, event));
            }
            EventKind::QueueEdited { message } => {
                if !is_own(&message.id) {
                    self.waits(message);
                }
            }
            EventKind::SteeringMoved { message, to, .. } => {
                let state = match to {
                    Ahead::Sent => "sent",
                    Ahead::Committed => "committed",
                    _ => "returned",
                };
                updates.push(receipt(message, state, event));
            }
            EventKind::Withdrawn { message } => {
                self.waiting.remove(message);
                updates.push(receipt(message, "withdrawn", event));
            }
            EventKind::Delivered { messages } | EventKind::TurnStarted { messages } => {
                for id in messages {
                    if let Some(message) = self.waiting.remove(id) {
                        updates.extend(said_by_user(&message));
                    }
                    updates.push(receipt(id, "delivered", event));
                }
            }
            EventKind::StepStarted { used, usable, .. } => {
                // What an answer that broke off had said stays on the screen.
                if !self.text.0.is_empty() {
                    updates.push(chunk(TEXT, &step, "\n\n[The answer broke off, and begins again.]\n\n"));
                }
                self.begin_request(event.id.seq, &mut updates);
                self.context = Some((*used, *usable));
                updates.push(json!({ "sessionUpdate": "usage_update", "used": used, "size": usable }));
            }
            EventKind::TextDelta { text } if !self.is_holed => {
                self.text.0.push_str(text);
                chunks(TEXT, &step, text, &mut updates);
            }
            EventKind::ReasoningDelta { text } if !self.is_holed => {
                self.thought.0.push_str(text);
                chunks(THOUGHT, &step, text, &mut updates);
            }
            EventKind::CallPending { call, name, .. } if !self.is_holed => {
                let id = self.open(call, false);
                updates.push(json!({
                    "sessionUpdate": "tool_call", "toolCallId": id, "title": name, "name": name, "kind": calls::kind(name),
                    "status": "pending",
                }));
            }
            EventKind::PartUpdated { part } => {
                // The answer is on the tape: a piece of it that comes now is an old one.
                self.request = None;
                match part {
                    Part::Text(part) => confirm(TEXT, &step, &part.text, &mut self.text, &mut updates),
                    Part::Reasoning(part) => confirm(THOUGHT, &step, &part.text, &mut self.thought, &mut updates),
                    Part::Tool(part) => {
                        if let ToolState::Pending { input } = &part.state {
                            updates.extend(self.made(&part.call, &part.tool, input));
                        }
                    }
                    _ => {}
                }
            }
            EventKind::CallStarted { ticket, call, name, input, .. } => {
                if !self.calls.contains_key(call) {
                    updates.extend(self.made(call, name, input));
                }
                self.tickets.insert(*ticket, call.clone());
                updates.extend(self.update(call, json!({ "status": "in_progress" })));
            }
            EventKind::CallProgress { ticket, title, metadata } => {
                let mut facts = json!({});
                if let Some(title) = title {
                    facts["title"] = calls::cut(title).into();
                }
                if let Some(tail) = metadata["tail"].as_str() {
                    facts["content"] = json!([calls::said(tail)]);
                }
                if let Some(call) = self.tickets.get(ticket).cloned() {
                    updates.extend(self.update(&call, facts));
                }
            }
            EventKind::CallFinished { ticket, call, name, error, content, title, details, attachments } => {
                self.tickets.remove(ticket);
                let (title, error) = (title.as_deref(), *error);
                let ended = Ended { name, title, error, content, details, attachments };
                updates.extend(self.ended(call, &ended));
            }
            EventKind::StepFinished { .. } | EventKind::TurnFinished { .. } => {
                (self.text, self.thought) = (Written::default(), Written::default());
                self.never_made(&mut updates);
            }
            EventKind::AgentSwitched { agent, .. } => {
                updates.push(json!({ "sessionUpdate": "current_mode_update", "currentModeId": agent }));
            }
            EventKind::CompactionStarted { .. } => {
                let id = format!("compaction-{}", event.id.seq);
                self.compaction = Some(id.clone());
                updates.extend(self.compacts(&id, json!({ "status": "in_progress" })));
            }
            EventKind::CompactionFinished { summary, error, .. } => {
                let id = self.compaction.take().unwrap_or_else(|| format!("compaction-{}", event.id.seq));
                let facts = match (error, summary) {
                    (Some(error), _) => json!({ "status": "failed", "error": error }),
                    (None, Some(summary)) => {
                        let pieces: Vec<_> = content::pieces(summary).map(content::text).collect();
                        json!({ "status": "completed", "summary": pieces })
                    }
                    (None, None) => json!({ "status": "completed" }),
                };
                updates.extend(self.compacts(&id, facts));
            }
            kind => updates.extend(self.notice(kind)),
        }
        updates
    }

    /// Counts the pieces of the open answer, to know whether one is missing.
    fn count(&mut self, event: &Event) {
        let is_piece = matches!(
            event.kind,
            EventKind::TextDelta { .. }
                | EventKind::ReasoningStarted { .. }
                | EventKind::ReasoningDelta { .. }
                | EventKind::ReasoningEnded { .. }
                | EventKind::CallPending { .. }
                | EventKind::CallInput { .. }
        );
        if !is_piece {
            return;
        }
        match &mut self.request {
            Some((request, last)) if *request == event.id.seq && event.id.sub <= last.saturating_add(1) => {
                *last = event.id.sub;
            }
            _ => self.is_holed = true,
        }
    }

    fn begin_request(&mut self, request: Seq, updates: &mut Vec<Value>) {
        (self.text, self.thought) = (Written::default(), Written::default());
        (self.request, self.is_holed) = (Some((request, 0)), false);
        self.never_made(updates);
    }

    /// Calls that a model began to write, and that never were.
    fn never_made(&mut self, updates: &mut Vec<Value>) {
        let lost: Vec<_> = self.calls.iter().filter(|(_, call)| !call.is_made).map(|(id, _)| id.clone()).collect();
        for call in lost {
            let content = json!([calls::said("The answer broke off before the call was complete.")]);
            updates.extend(self.update(&call, json!({ "status": "failed", "content": content })));
            self.close(&call);
        }
    }

    fn open(&mut self, call: &CallId, is_made: bool) -> String {
        let plain = call.as_str();
        let numbered = (2..).map(|n| format!("{plain}#{n}"));
        let id = std::iter::once(plain.to_owned()).chain(numbered).find(|id| !self.used.contains(id));
        // The numbers do not end.
        let id = id.unwrap_or_default();
        self.calls.insert(call.clone(), Call { id: id.clone(), change: None, is_made });
        id
    }

    fn close(&mut self, call: &CallId) {
        if let Some(call) = self.calls.remove(call) {
            self.used.insert(call.id);
        }
    }

    /// A call whose arguments are complete.
    fn made(&mut self, call: &CallId, name: &str, input: &str) -> Option<Value> {
        let facts = calls::facts(name, input, &self.workspace);
        let change = facts["content"].get(0).cloned();
        if let Some(known) = self.calls.get_mut(call) {
            (known.change, known.is_made) = (change, true);
            return self.update(call, facts);
        }
        let id = self.open(call, true);
        if let Some(known) = self.calls.get_mut(call) {
            known.change = change;
        }
        let mut made = facts;
        made["sessionUpdate"] = "tool_call".into();
        made["toolCallId"] = id.into();
        made["name"] = name.into();
        made["status"] = "pending".into();
        Some(made)
    }

    fn update(&self, call: &CallId, mut facts: Value) -> Option<Value> {
        facts["sessionUpdate"] = "tool_call_update".into();
        facts["toolCallId"] = self.call(call)?.into();
        Some(facts)
    }

    fn ended(&mut self, call: &CallId, ended: &Ended<'_>) -> Vec<Value> {
        let change = self.calls.get(call).and_then(|call| call.change.clone());
        let over = self.update(call, ended.facts(change.as_ref()));
        self.close(call);
        let is_plan = ended.name == "todo_write" && ended.error.is_none();
        let plan = is_plan.then(|| calls::plan(&ended.details["todos"])).flatten();
        over.into_iter().chain(plan).collect()
    }

    fn compacts(&self, id: &str, mut facts: Value) -> Option<Value> {
        facts["sessionUpdate"] = "compaction_update".into();
        facts["compactionId"] = id.into();
        self.shows.compactions.then_some(facts)
    }

    fn notice(&self, kind: &EventKind) -> Option<Value> {
        let (severity, title, description) = match kind {
            EventKind::RequestFailed { error, fallback, .. } => {
                let then = fallback.as_ref().map(|model| format!(" (goes on with {model})")).unwrap_or_default();
                ("warning", "The request to the model failed", format!("{error}{then}"))
            }
            EventKind::Retry { attempt, .. } => ("info", "The request is made again", format!("Retry {attempt}.")),
            EventKind::ContextWarning { used, usable } => {
                ("info", "The context is nearly full", format!("{used} of {usable} tokens."))
            }
            EventKind::Budget { text, .. } => ("warning", "A limit of the budget is reached", text.clone()),
            EventKind::HookError { hook, error, .. } => ("warning", "A hook failed", format!("{hook}: {error}")),
            EventKind::StorageFailed { error } => ("error", "The tape cannot be written", error.clone()),
            EventKind::SessionRecovered { .. } => ("info", "The session was recovered from its tape", String::new()),
            EventKind::Ended { why } => ("info", "The session has ended", why.clone()),
            _ => return None,
        };
        let notice = json!({
            "sessionUpdate": "notice", "severity": severity, "title": title, "description": calls::cut(&description),
        });
        self.shows.notices.then_some(notice)
    }
}

fn chunk(name: &str, message: &str, text: &str) -> Value {
    json!({ "sessionUpdate": name, "content": content::text(text), "messageId": message })
}

fn chunks(name: &str, message: &str, text: &str, updates: &mut Vec<Value>) {
    updates.extend(content::pieces(text).map(|piece| chunk(name, message, piece)));
}

/// The rest of a part that is complete.
fn confirm(name: &str, step: &str, whole: &str, shown: &mut Written, updates: &mut Vec<Value>) {
    match shown.confirmed(whole) {
        Some(rest) => chunks(name, step, &rest, updates),
        // A hook has changed what was shown: the tape is right.
        None => chunks(name, step, &format!("\n\n{whole}"), updates),
    }
}

fn said_by_user(message: &Message) -> Vec<Value> {
    let blocks = content::blocks(message).into_iter();
    let update = |block| json!({ "sessionUpdate": "user_message_chunk", "content": block, "messageId": message.id });
    blocks.map(update).collect()
}

/// What became of a message, in an update that every client takes and none shows.
fn receipt(message: &MessageId, state: &str, event: &Event) -> Value {
    let receipt = json!({ "message": message, "state": state, "seq": event.id.seq, "turn": event.turn });
    json!({ "sessionUpdate": "session_info_update", "_meta": { "tamtam": { "receipt": receipt } } })
}
#[cfg(test)]
mod tests;
