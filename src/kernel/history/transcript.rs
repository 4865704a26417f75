//! The conversation as messages, as a page or a chat shows it: a second fold of the tape's entries, beside the state. No decision
//! depends on it.
//!
//! The same entries give the same messages. Where a compaction left the state only a summary, the messages are still there in full;
//! messages that a rollback left are not. A message that waits in the queue shows only once it is delivered.
//!
//! A change must keep that an entry without a line in [`Transcript::apply`] leaves the list of messages as it is, so that entries
//! that show nothing need no code. A new kind of entry that shows in a conversation needs a line there.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use serde_json::Value;

use crate::{
    kernel::{
        AgentChoice, CallOpened, Charge, CompactionReason, Entry, Merged, Record, Settings, State, TaskOrder,
        history::trail::Trail,
    },
    model::{AnswerPart, Item, ModelAnswer, Price, ToolResultItem},
    tool::{FileImage, FileState, ToolResult},
    words::{
        ids::{MessageId, Millis, Seq, SessionId},
        message::{
            AgentPart, CompactionPart, ErrorReason, Message, MessageTime, Part, PatchPart, ReasoningPart, RetryPart,
            Role, SnapshotPart, Span, StepFinishPart, StepStartPart, SubtaskPart, TextPart, ToolPart, ToolState,
        },
        usage::Usage,
    },
};

/// Characters of a task's first line that stand for its subject.
const DESCRIPTION_MAX: usize = 80;

/// Builds messages from entries, one by one.
#[derive(Debug, Default)]
pub struct Transcript {
    messages: Vec<Message>,
    accepted: BTreeMap<MessageId, Arc<Message>>,
    session: Option<SessionId>,
    /// The settings that hold, for the agent and the model of a message.
    settings: Option<Arc<Settings>>,
    /// The agent that was chosen, and is not yet in force.
    chosen: Option<AgentChoice>,
    /// The parts that say what happened between two steps: a compaction, a switch of the agent, a task. They go before the next
    /// step.
    marks: Vec<Part>,
    /// Whether the compaction that is being written was begun by the runtime.
    auto: bool,
    /// The place of each call's part, by the call's ticket: position of the message, and of the part in it.
    calls: BTreeMap<Seq, (usize, usize)>,
    /// The place of each answer, by its entry: position of the message, and the positions of its parts that are calls.
    answers: BTreeMap<Seq, (usize, Vec<usize>)>,
    /// The parts that go before the next answer.
    before: Vec<Part>,
    requested: Option<(Millis, crate::words::message::ModelRef, Option<Price>)>,
    /// The entry that each message came with, in the order of `messages`.
    made: Vec<Seq>,
    /// The messages that are no longer part of the conversation, and may be again after a redo.
    away: Vec<(Seq, Message)>,
    /// The jumps of the tape: from each entry that rolls back to the point that it goes back to.
    jumps: BTreeMap<Seq, Seq>,
}

impl Transcript {
    /// The messages of a whole tape.
    #[must_use]
    pub fn of<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Vec<Message> {
        Transcript::numbered(entries).0
    }

    /// The messages of a whole tape, oldest first, and the entry that each of them came with.
    pub(crate) fn numbered<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> (Vec<Message>, Vec<Seq>) {
        let mut transcript = Transcript::default();
        entries.into_iter().for_each(|entry| transcript.apply(entry));
        (transcript.messages, transcript.made)
    }

    /// The messages of the end of a tape: exactly the newest ones of [`Transcript::numbered`] over the whole tape. `entries` begin with
    /// the state of an anchor. A message of which a part may stand in front of it is left out, with all before it.
    pub(crate) fn tail(entries: &[Entry]) -> (Vec<Message>, Vec<Seq>) {
        let mut transcript = Transcript::default();
        let (mut unsure, mut requests) = (Seq::ZERO, 0);
        for entry in entries {
            match &entry.record {
                // A request takes the parts that wait for the next answer. What waits from before the anchor is gone with the first
                // one; the answer to the second has all of its parts.
                Record::Request(request) => requests += u32::from(request.attempt == 1),
                // Nobody knows whether the message before the anchor takes it, or the next answer.
                Record::TaskStarted { order: Some(_), .. } if transcript.messages.is_empty() => requests = 0,
                Record::Answer { .. } | Record::Merged(_) if requests < 2 => unsure = entry.seq,
                _ => {}
            }
            transcript.apply(entry);
        }
        let first = transcript.made.partition_point(|made| *made <= unsure);
        (transcript.messages.split_off(first), transcript.made.split_off(first))
    }

    /// Takes what the state at an anchor says that entries before it said. Over a whole tape it says nothing new.
    fn go_on_from(&mut self, state: &State) {
        self.session = Some(state.session.clone());
        self.settings = Some(state.settings.clone());
        self.chosen.clone_from(&state.next_agent);
        for waiting in state.steering.iter().chain(&state.queue) {
            self.accepted.entry(waiting.message.id.clone()).or_insert_with(|| waiting.message.clone());
        }
        if let Some((_, open)) = state.compaction() {
            self.auto = open.reason != CompactionReason::Asked;
        }
    }

    /// The messages so far, oldest first.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Takes the next entry.
    pub fn apply(&mut self, entry: &Entry) {
        let ticket = entry.ticket.unwrap_or(entry.seq);
        match &entry.record {
            Record::State(state) => self.go_on_from(state),
            Record::Settings(settings) => self.settings = Some(Arc::new((**settings).clone())),
            Record::AgentChosen { choice, .. } => self.chosen = Some(choice.clone()),
            Record::AgentSwitched { agent } => self.switch_agent(agent),
            Record::TaskStarted { order: Some(order), .. } => self.subtask(order),
            Record::Compaction(open) => self.auto = open.reason != CompactionReason::Asked,
            Record::Compacted(_) => {
                // A cut without a summary has no ticket, and is the runtime's.
                let auto = entry.ticket.is_none() || self.auto;
                self.marks.push(Part::Compaction(CompactionPart { auto }));
            }
            Record::Accepted { message, .. } | Record::Edited { message } => {
                self.accepted.insert(message.id.clone(), message.clone());
            }
            Record::TaskFinished { notice: Some(notice), .. } => {
                self.accepted.insert(notice.id.clone(), notice.clone());
            }
            Record::Withdrawn { id } => {
                self.accepted.remove(id);
            }
            Record::Delivered { ids } => {
                let delivered = ids.iter().filter_map(|id| self.accepted.remove(id));
                let delivered: Vec<Message> =
                    delivered.collect::<Vec<_>>().iter().map(|message| self.as_told(message)).collect();
                self.messages.extend(delivered);
            }
            Record::Prepared(prepared) => {
                if let Some(said) = prepared.said(entry.seq, entry.time) {
                    let message = self.as_told(&said);
                    self.messages.push(message);
                }
            }
            Record::Request(request) => {
                self.requested = Some((entry.time, request.model.clone(), request.price));
                if request.attempt == 1 {
                    self.before = std::mem::take(&mut self.marks);
                    self.before.push(Part::StepStart(StepStartPart { step: entry.step.unwrap_or(1) }));
                }
            }
            Record::RequestFailed { error, .. } => {
                let attempt = self.before.iter().filter(|part| matches!(part, Part::Retry(_))).count();
                let attempt = u32::try_from(attempt).unwrap_or(u32::MAX).saturating_add(1);
                self.before.push(Part::Retry(RetryPart { attempt, error: error.message.clone(), time: entry.time }));
            }
            Record::Answer { answer, price, estimated, .. } => self.answer(entry, answer, estimated.as_ref(), *price),
            Record::Call(call) => self.call(entry.seq, call),
            Record::CallStarted { .. } => self.change_call(ticket, |state| {
                let (input, time) = (input_of(state).to_owned(), Span { start: entry.time, end: None });
                *state = ToolState::Running { input, title: None, metadata: Value::Null, time };
            }),
            Record::Result { result, .. } => {
                self.change_call(ticket, |state| *state = result_state(state, result, entry.time));
                self.patched(ticket, result);
            }
            Record::Merged(merged) => self.merge(entry, merged),
            Record::Pinned { message } => self.pin(message, true),
            Record::Unpinned { message } => self.pin(message, false),
            Record::RolledBack(back) => {
                self.roll_back(entry.seq, back.to);
                // The pins are those of the point that the conversation went back to.
                for message in &mut self.messages {
                    message.pinned = back.context.pins.iter().any(|pin| pin.message == message.id);
                }
            }
            Record::Forked(forked) => {
                self.leave_open(entry.time, "the conversation was forked while this call was open");
                self.belong_to(&forked.session);
            }
            Record::Imported(imported) => {
                self.leave_open(entry.time, "it was brought in from a file while this call was open");
                self.belong_to(&imported.session);
            }
            _ => {}
        }
        self.made.resize(self.messages.len(), entry.seq);
    }

    /// The tape is that of another session from here on, and so are all its messages.
    fn belong_to(&mut self, session: &SessionId) {
        let messages = self.messages.iter_mut().chain(self.away.iter_mut().map(|(_, message)| message));
        messages.for_each(|message| message.session = Some(session.clone()));
        self.session = Some(session.clone());
    }

    /// A user's message as it is told: with its session, and the agent and the model that it is for.
    fn as_told(&self, message: &Message) -> Message {
        let mut message = Message { session: self.session.clone(), ..message.clone() };
        if let Some(settings) = &self.settings {
            message.agent.get_or_insert_with(|| settings.agent.clone());
            message.model.get_or_insert_with(|| settings.model.clone());
        }
        message
    }

    fn switch_agent(&mut self, agent: &str) {
        if let Some((settings, choice)) = self.settings.as_ref().zip(self.chosen.take()) {
            self.settings = Some(Arc::new(settings.with_agent(&choice)));
        }
        self.marks.push(Part::Agent(AgentPart { name: agent.to_owned() }));
    }

    /// Adds the part of a task, behind the answer that is the newest; before the next one where there is none.
    fn subtask(&mut self, order: &TaskOrder) {
        let prompt = order.prompt.text();
        let first_line = || prompt.lines().next().unwrap_or_default().chars().take(DESCRIPTION_MAX).collect();
        let part = Part::Subtask(SubtaskPart {
            description: order.settings.title.clone().unwrap_or_else(first_line),
            agent: order.settings.agent.clone(),
            prompt,
        });
        match self.messages.last_mut().filter(|message| message.role == Role::Assistant) {
            Some(message) => message.parts.push(part),
            None => self.marks.push(part),
        }
    }

    fn pin(&mut self, id: &MessageId, pinned: bool) {
        self.messages.iter_mut().filter(|message| message.id == *id).for_each(|message| message.pinned = pinned);
    }

    /// Adds the messages of a merged fork as if they had been said here.
    fn merge(&mut self, entry: &Entry, merged: &Merged) {
        // The calls of the newest answer that have no result yet: results follow in their order.
        let mut calls = VecDeque::new();
        // The waiting parts belong to an answer of this session, and not to an answer of the fork.
        self.before.clear();
        for (n, item) in merged.items.iter().enumerate() {
            match &**item {
                Item::User(user) => {
                    let time = MessageTime { created: entry.time, completed: Some(entry.time) };
                    let said = Message::user("").with_id(user.id.clone());
                    let session = self.session.clone();
                    self.messages.push(Message { session, parts: user.parts.clone(), time, ..said });
                }
                Item::Assistant(answer) => {
                    self.answer(entry, answer, None, None);
                    let (at, parts) = self.answers.remove(&entry.seq).unwrap_or_default();
                    if let Some(message) = self.messages.get_mut(at) {
                        message.id = MessageId::from(format!("answer-{}-{n}", entry.seq));
                    }
                    calls = parts.into_iter().map(|part| (at, part)).collect();
                }
                Item::Result(result) => {
                    let Some(place) = calls.pop_front() else { continue };
                    self.change(place, |state| *state = told_result(state, result));
                }
            }
        }
    }

    /// Keeps the messages that are on the trail after a rollback, and puts the others away.
    fn roll_back(&mut self, seq: Seq, to: Seq) {
        self.jumps.insert(seq, to);
        let trail = Trail::new(&self.jumps, seq);
        let mut all = std::mem::take(&mut self.away);
        all.extend(std::mem::take(&mut self.made).into_iter().zip(std::mem::take(&mut self.messages)));
        // The order of the entries is the order of the messages.
        all.sort_by_key(|(made, _)| *made);
        for (made, message) in all {
            if trail.has(made) {
                self.made.push(made);
                self.messages.push(message);
            } else {
                self.away.push((made, message));
            }
        }
        // Nothing is open when a conversation goes back, so none of these is needed again.
        self.calls.clear();
        self.answers.clear();
        self.before.clear();
        self.marks.clear();
        self.requested = None;
    }

    /// Closes what was open: it stays with the parent, or with the file that was imported.
    fn leave_open(&mut self, now: Millis, why: &str) {
        self.accepted.clear();
        self.before.clear();
        self.requested = None;
        let calls: Vec<Seq> = self.calls.keys().copied().collect();
        for call in calls {
            self.change_call(call, |state| {
                let reason = match state {
                    ToolState::Pending { .. } => ErrorReason::Skipped,
                    ToolState::Running { .. } => ErrorReason::Unknown,
                    ToolState::Completed { .. } | ToolState::Error { .. } => return,
                };
                *state = result_state(state, &ToolResult::failed(reason, why), now);
            });
        }
    }

    fn answer(&mut self, entry: &Entry, answer: &ModelAnswer, estimate: Option<&Usage>, of_other: Option<Price>) {
        let (created, model, price) = match self.requested.take() {
            Some((time, model, price)) => (time, Some(model), price),
            None => (entry.time, None, None),
        };
        let (model, price) = match &answer.by {
            Some(by) => (Some(by.clone()), of_other),
            None => (model, price),
        };
        let charge = Charge::of(price.as_ref(), &answer.usage, estimate);
        let cost = charge.and_then(|charge| charge.cost.shown().cost);
        let (tokens, estimated) = charge.map_or((answer.usage, false), |charge| (charge.usage, charge.estimated));
        let mut parts = std::mem::take(&mut self.before);
        let before = parts.len();
        parts.extend(answer.parts.iter().cloned().map(Part::from));
        let is_call = |at: &usize| matches!(parts[*at], Part::Tool(_));
        let call_parts = (before..parts.len()).filter(is_call).collect();
        let step = entry.step.unwrap_or(1);
        let finished = StepFinishPart { step, finish: answer.finish, tokens, estimated, cost };
        parts.push(Part::StepFinish(finished));
        self.answers.insert(entry.seq, (self.messages.len(), call_parts));
        self.messages.push(Message {
            id: MessageId::from(format!("answer-{}", entry.seq)),
            session: self.session.clone(),
            role: Role::Assistant,
            parts,
            agent: self.settings.as_ref().map(|settings| settings.agent.clone()),
            model,
            pinned: false,
            trace: None,
            tools: BTreeMap::new(),
            time: MessageTime { created, completed: Some(entry.time) },
            tokens: Some(tokens),
            estimated,
            cost,
            finish: Some(answer.finish),
        });
    }

    fn call(&mut self, seq: Seq, call: &CallOpened) {
        let answer = self.answers.get(&call.answer);
        let place = answer.and_then(|(message, parts)| Some((*message, *parts.get(call.index as usize)?)));
        self.calls.extend(place.map(|place| (seq, place)));
    }

    /// Adds parts for the files that a call changed, behind its step: a snapshot for each former content that was kept, and a patch
    /// for the files that had that content.
    fn patched(&mut self, ticket: Seq, result: &ToolResult) {
        let Some(message) = self.calls.get(&ticket).and_then(|(message, _)| self.messages.get_mut(*message)) else {
            return;
        };
        let Some(changes) = result.changes.as_ref().map(|changes| &changes.files) else { return };
        let mut by_hash: Vec<(&str, Vec<String>)> = Vec::new();
        for change in changes {
            let hash = kept_as(&change.before);
            match by_hash.iter_mut().find(|(known, _)| *known == hash) {
                Some((_, files)) => files.push(change.path.clone()),
                None => by_hash.push((hash, vec![change.path.clone()])),
            }
        }
        let diff = result.details["diff"]["content"].as_str().filter(|_| changes.len() == 1);
        for (hash, files) in by_hash {
            if hash != ABSENT && hash != UNKNOWN {
                message.parts.push(Part::Snapshot(SnapshotPart { snapshot: hash.to_owned() }));
            }
            message.parts.push(Part::Patch(PatchPart { hash: hash.to_owned(), files, diff: diff.map(str::to_owned) }));
        }
    }

    fn change_call(&mut self, ticket: Seq, change: impl FnOnce(&mut ToolState)) {
        if let Some(place) = self.calls.get(&ticket) {
            self.change(*place, change);
        }
    }

    /// Changes the state of the call at this place (message and part).
    fn change(&mut self, (message, part): (usize, usize), change: impl FnOnce(&mut ToolState)) {
        let part = self.messages.get_mut(message).and_then(|message| message.parts.get_mut(part));
        if let Some(Part::Tool(tool)) = part {
            change(&mut tool.state);
        }
    }
}

impl From<AnswerPart> for Part {
    /// The part of an answer as it is shown. A call is shown as not yet started.
    fn from(part: AnswerPart) -> Part {
        match part {
            AnswerPart::Text { text, extra } => Part::Text(TextPart { text, extra }),
            AnswerPart::Reasoning { text, time, extra } => Part::Reasoning(ReasoningPart { text, time, extra }),
            AnswerPart::Call { id, name, input, extra } => {
                Part::Tool(ToolPart { call: id, tool: name, state: ToolState::Pending { input }, extra })
            }
        }
    }
}

/// Marks a file that was not there before, in the place of a hash.
const ABSENT: &str = "absent";
/// Marks a file whose former content is not kept.
const UNKNOWN: &str = "unknown";

/// The hash that the former content is kept under, or a mark in its place.
fn kept_as(state: &FileState) -> &str {
    match state {
        FileState::Absent => ABSENT,
        FileState::File(FileImage { hash: Some(hash), not_kept: None, .. }) => hash,
        FileState::File(_) | FileState::Unknown(_) => UNKNOWN,
    }
}

/// The state of a merged call, by the result that the model was told.
fn told_result(before: &ToolState, result: &ToolResultItem) -> ToolState {
    let error = result.is_error.then_some(ErrorReason::Failed);
    let (content, attachments) = (result.content.clone(), result.attachments.clone());
    result_state(before, &ToolResult { error, attachments, ..ToolResult::ok(content) }, result.time)
}

fn input_of(state: &ToolState) -> &str {
    match state {
        ToolState::Pending { input }
        | ToolState::Running { input, .. }
        | ToolState::Completed { input, .. }
        | ToolState::Error { input, .. } => input,
    }
}

fn result_state(before: &ToolState, result: &ToolResult, now: Millis) -> ToolState {
    let start = match before {
        ToolState::Running { time, .. } => time.start,
        _ => now,
    };
    let (input, time) = (input_of(before).to_owned(), Span { start, end: Some(now) });
    match result.error {
        Some(reason) => ToolState::Error { input, error: result.content.clone(), reason, time },
        None => ToolState::Completed {
            input,
            output: result.content.clone(),
            title: result.title.clone(),
            metadata: result.details.clone(),
            time,
            attachments: result.attachments.clone(),
        },
    }
}
