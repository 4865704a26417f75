//! How an entry is written and read, and what it says of the input that wrote it: the field `in` of its line, from which replay
//! reads the input back.
//!
//! The first entry that an input wrote has the field. The entries behind it, up to the next one with the field, followed from the
//! same input. The field says the kind of input, the id of a command, and what was read of [`Env`](crate::kernel::Env). Of the
//! input's own values it says only those that none of its entries holds: a sent message is in its `accepted` entry, and is read
//! back from there. So a replay reads each recorded input back from the tape. What it reads may differ from the original input, and
//! leads to the same decision.
//!
//! An input that wrote nothing has changed nothing, and is not recorded. A command or report may write nothing by itself while
//! something still follows from the state, because the host has other rules by now. It is recorded as [`Input::Look`]; an
//! abort or an end keeps its name. Entries that no decision wrote (the first of a tape, of a fork, of an import) have no field.
//!
//! [`Recorded`] and the names in it are a stored format. A change must keep that `read_back` of what was written leads to the same
//! decision, for existing tapes too: replay compares them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json, value::RawValue};

use crate::{
    kernel::{
        BadRecord, Command, Entry, Input, Limits, Link, NoSummary, Outcome, Record, Recorded, ReplyTo, Report, Tie,
        budget::spent, input::*,
    },
    model::{ErrorKind, ModelError},
    tape,
    tool::CallFacts,
    words::ids::{Millis, Seq, SessionId},
};

/// Room for an entry of usual size, so that few are copied while they are written.
const LINE_BYTES: usize = 768;

impl Command {
    /// The description of the command on its first entry: its name, and the values that stand in none of its entries.
    pub(super) fn recorded(&self, wrote: &[Entry]) -> Recorded {
        if let [Entry { record: Record::BranchFailed { .. }, .. }, ..] = wrote {
            // A command that brings a summary and was refused has done the same as giving the summary up.
            return Recorded::new("give_up_branch");
        }
        let fields = match self {
            Command::StopTask(StopTask { parent, ticket, .. })
            | Command::Orphan(Orphan { parent, ticket, .. })
            | Command::BeAdopted(BeAdopted { tie: Tie { parent, ticket, .. }, .. }) => {
                Map::from_iter([("parent".to_owned(), json!(parent)), ("ticket".to_owned(), json!(ticket))])
            }
            Command::Abort(Abort { turn: Some(turn), .. }) => Map::from_iter([("turn".to_owned(), json!(turn))]),
            Command::HandOff(handoff) if handoff.summary().is_some() => {
                Map::from_iter([("summarised".to_owned(), Value::Bool(true))])
            }
            _ => Map::new(),
        };
        Recorded { fields, ..Recorded::new(self.name()) }
    }
}

impl Entry {
    /// An entry that belongs to no turn, step or ticket; set the fields that hold.
    #[must_use]
    pub fn new(seq: Seq, time: Millis, record: Record) -> Entry {
        Entry { seq, time, cause: None, turn: None, step: None, ticket: None, input: None, record }
    }

    /// The entry as the tape takes it.
    ///
    /// # Errors
    /// If the record cannot be written as JSON. The core makes no such record.
    pub fn to_tape(&self) -> Result<tape::TapeEntry, serde_json::Error> {
        // The record is written as {"kind":data}; its two halves are the kind and the data of the line.
        let mut whole = Vec::with_capacity(LINE_BYTES);
        serde_json::to_writer(&mut whole, &self.record)?;
        let whole = String::from_utf8(whole).map_err(serde::ser::Error::custom)?;
        let kind_end = whole[2..].find('"').map_or(whole.len(), |at| at + 2);
        let kind = whole[2..kind_end].to_owned();
        let data = RawValue::from_string(whole[kind_end + 2..whole.len() - 1].to_owned())?;
        Ok(tape::TapeEntry {
            seq: self.seq,
            time: self.time,
            cause: self.cause.clone(),
            turn: self.turn,
            step: self.step,
            ticket: self.ticket,
            input: self.input.as_ref().map(serde_json::value::to_raw_value).transpose()?,
            kind,
            data,
        })
    }

    /// The entry that a line of the tape holds.
    ///
    /// # Errors
    /// If the kind is unknown or its data has another shape: a newer version wrote the line, or it is damaged.
    pub fn from_tape(line: &tape::TapeEntry) -> Result<Entry, BadRecord> {
        let text = format!("{{{}:{}}}", serde_json::Value::from(line.kind.as_str()), line.data.get());
        let bad = |source| BadRecord { seq: line.seq, kind: line.kind.clone(), source };
        // At most as deep as serde_json reads: values that come in have a lower bound (`words/depth.rs`).
        let record = serde_json::from_str(&text).map_err(bad)?;
        let input = line.input.as_ref().map(|input| serde_json::from_str(input.get())).transpose().map_err(bad)?;
        Ok(Entry {
            seq: line.seq,
            time: line.time,
            cause: line.cause.clone(),
            turn: line.turn,
            step: line.step,
            ticket: line.ticket,
            input,
            record,
        })
    }
}

impl Recorded {
    /// The description of an input that wrote these entries. `acted` says whether it wrote some by itself, and not only what
    /// followed from the state.
    pub(super) fn of(input: &Input, wrote: &[Entry], acted: bool) -> Recorded {
        match input {
            Input::Command { command, .. } if acted || command.ends_the_turn() => command.recorded(wrote),
            // A request that was told to stop, and failed meanwhile, counts as cut off: its error is not on the tape.
            Input::Report { report: Report::Failed { .. }, .. }
                if acted && matches!(wrote, [Entry { record: Record::Answer { .. }, .. }, ..]) =>
            {
                Recorded::new("cut_off")
            }
            // What hooks made of it came too late, or was too much.
            Input::Report { report: Report::Prepared { .. } | Report::Gated { .. }, .. } if acted => {
                Recorded::new(match wrote.first().map(|entry| &entry.record) {
                    Some(Record::Answer { .. }) => "cut_off",
                    Some(Record::RequestFailed { .. }) => "failed",
                    Some(Record::Result { .. }) => "returned",
                    _ => input.name(),
                })
            }
            Input::Report { .. } if acted => Recorded::new(input.name()),
            Input::Command { .. } | Input::Report { .. } | Input::Look | Input::Hold => {
                Recorded::new(Input::Look.name())
            }
            Input::Timer | Input::Recover { .. } | Input::Stop => Recorded::new(input.name()),
        }
    }

    /// The parent that told a child something, and the task's ticket on the parent's tape.
    fn parent(&self) -> Option<(SessionId, Seq)> {
        let parent = self.fields.get("parent")?.as_str()?.parse().ok()?;
        Some((parent, Seq(self.fields.get("ticket")?.as_u64()?)))
    }
}

/// The entries that an input wrote by itself, without an entry about changed rules of the host in front of them.
pub(super) fn own(wrote: &[Entry]) -> &[Entry] {
    match wrote {
        [Entry { record: Record::HostRules { .. }, .. }, rest @ ..] => rest,
        all => all,
    }
}

/// Reads an input back from its description and from the entries that it wrote. `None` if the entries do not fit the description.
pub(crate) fn read_back(recorded: &Recorded, wrote: &[Entry]) -> Option<Input> {
    let wrote = own(wrote);
    match recorded.is.as_str() {
        "look" => Some(Input::Look),
        "timer" => Some(Input::Timer),
        "stop" => Some(Input::Stop),
        "recover" => Some(Input::Recover { calls: facts(wrote) }),
        _ => match command(recorded, wrote) {
            Some(command) => Some(Input::Command { reply: ReplyTo::NOBODY, command, id: recorded.id.clone() }),
            None => {
                let first = wrote.first()?;
                report(&recorded.is, first, wrote)?.of(first.ticket?).into()
            }
        },
    }
}

/// Reads a command back by its name and by the first entry that it wrote by itself. The command need not equal the original; it
/// must lead to the same decision.
fn command(recorded: &Recorded, wrote: &[Entry]) -> Option<Command> {
    let ticket = wrote.first().and_then(|entry| entry.ticket);
    Some(match (recorded.is.as_str(), wrote.first().map(|entry| &entry.record)) {
        ("send", Some(Record::Accepted { message, delivery, agent, added })) => {
            let (message, delivery, agent, added) = ((**message).clone(), *delivery, agent.clone(), *added);
            SendMessage { message, delivery, expect_turn: None, agent, added }.into()
        }
        ("edit", Some(Record::Edited { message })) => EditMessage { message: (**message).clone() }.into(),
        ("withdraw", Some(Record::Withdrawn { id })) => WithdrawMessage { id: id.clone() }.into(),
        ("clear_queue", Some(Record::Withdrawn { .. })) => ClearQueue.into(),
        ("answer_ask", Some(Record::Granted { grant, who, rules })) => {
            AnswerAsk { ask: ticket?, grant: grant.clone(), who: who.clone(), rules: Some(rules.clone()), digest: None }
                .into()
        }
        ("revoke", Some(Record::Revoked { grant })) => RevokeGrant { grant: *grant }.into(),
        ("revoke_all", _) => RevokeAll.into(),
        ("put_question", Some(Record::Ask { call, access, question: Some(question), .. })) => {
            let (access, question) = (access.clone(), question.clone());
            PutQuestion { call: *call, attempt: None, access, question }.into()
        }
        ("note_sent", Some(Record::Sent { id })) => NoteSent { request: ticket?, id: id.clone(), said: None }.into(),
        ("task_asked", Some(Record::TaskAsk(asked))) => TaskAsked { task: ticket?, asked: asked.clone() }.into(),
        ("task_ask_over", Some(Record::AskClosed { .. })) => TaskAskOver { ask: ticket? }.into(),
        ("abort", _) => {
            let turn = recorded.fields.get("turn").and_then(Value::as_u64).map(Seq);
            Abort { reason: why_aborted(wrote), turn }.into()
        }
        ("go_on", _) => GoOn.into(),
        ("pause", _) => Pause.into(),
        ("resume", _) => Resume.into(),
        ("reset_loops", _) => ResetLoops.into(),
        ("configure", Some(Record::Settings(settings))) => {
            Configure { before: None, settings: settings.clone() }.into()
        }
        ("switch_agent", Some(Record::AgentChosen { choice, .. })) => SwitchAgent { choice: choice.clone() }.into(),
        ("compact", _) => Compact.into(),
        ("restored", Some(Record::Restored(files))) => RecordRestored { files: files.clone() }.into(),
        ("undo_compaction", Some(Record::CompactionUndone(undone))) => UndoCompaction { undone: undone.clone() }.into(),
        ("sum_up_branch", Some(Record::BranchOpened(open))) => SumUpBranch { request: Box::new(open.clone()) }.into(),
        ("give_up_branch", Some(Record::BranchFailed { error, usage, estimated, lost })) => {
            let why = Box::new(NoSummary { error: error.clone(), usage: *usage, estimated: *estimated });
            GiveUpBranch { ticket: ticket?, why, lost: *lost }.into()
        }
        ("leave_branch", Some(Record::BranchSummary(branch))) => LeaveBranch { branch: branch.clone() }.into(),
        ("pin", Some(Record::Pinned { message })) => PinMessage { message: message.clone() }.into(),
        ("unpin", Some(Record::Unpinned { message })) => UnpinMessage { message: message.clone() }.into(),
        ("roll_back", Some(Record::RolledBack(back))) => {
            let (mut files, mut summary) = (None, None);
            for entry in &wrote[1..] {
                match &entry.record {
                    Record::Restored(restored) => files = Some(restored.clone()),
                    Record::BranchSummary(branch) => summary = Some(branch.clone()),
                    _ => {}
                }
            }
            RollBack { back: back.clone(), files, summary }.into()
        }
        ("merge", Some(Record::Merged(merged))) => Merge { merged: merged.clone() }.into(),
        ("anchor", _) => BeginAnchor.into(),
        ("hand_off", Some(Record::State(state))) => {
            let is_summed_up = recorded.fields.contains_key("summarised");
            let summary = state.context.summary.clone().filter(|_| is_summed_up);
            HandOff { name: state.anchor.as_ref()?.name.clone(), summary }.into()
        }
        ("spawn", Some(Record::TaskStarted { child, link, order: Some(order), .. })) => {
            Spawn { child: child.clone(), order: Box::new((**order).clone()), link: *link }.into()
        }
        ("adopt", Some(Record::TaskStarted { child, link, order: None, .. })) => {
            Adopt { child: child.clone(), link: *link }.into()
        }
        ("stop_child", Some(Record::Closing { why })) => StopChild { ticket: ticket?, why: why.clone()? }.into(),
        // A task that waits for room is over at once.
        ("stop_child", _) => StopChild { ticket: ticket?, why: "".into() }.into(),
        ("end", Some(Record::Ended { why })) => End { reason: why.clone() }.into(),
        // An end of a session that has already ended writes nothing of its own.
        ("end", _) => End { reason: String::new() }.into(),
        ("stop_task", _) => {
            let (parent, ticket) = recorded.parent()?;
            StopTask { parent, ticket, why: why_aborted(wrote) }.into()
        }
        ("orphaned", Some(Record::Orphaned { why })) => {
            let (parent, ticket) = recorded.parent()?;
            Orphan { parent, ticket, why: why.clone() }.into()
        }
        ("adopted", Some(Record::Adopted { tie, above, next })) => {
            let message = wrote.get(1).and_then(|entry| match &entry.record {
                Record::Accepted { message, .. } => Some((**message).clone()),
                _ => None,
            });
            let next = message.zip(next.as_ref().map(|next| next.terms.clone())).map(Box::new);
            BeAdopted { tie: tie.clone(), above: above.clone(), next }.into()
        }
        // A session that is already the parent's child writes only the new rules; the description names the parent.
        ("adopted", Some(Record::Narrowed { above })) => {
            let (parent, ticket) = recorded.parent()?;
            let tie = Tie { parent, ticket, link: Link::default(), depth: 0, grant: Limits::default() };
            BeAdopted { tie, above: above.clone(), next: None }.into()
        }
        _ => return None,
    })
}

/// The reason of an abort that wrote these entries; empty if it ended no turn.
fn why_aborted(wrote: &[Entry]) -> String {
    let reason = wrote.iter().find_map(|entry| match &entry.record {
        Record::Ending { outcome: Outcome::Aborted { reason } } => Some(reason.clone()),
        _ => None,
    });
    reason.unwrap_or_default()
}

/// Reads a report back by its name and by the first entry that it wrote by itself.
fn report(is: &str, first: &Entry, wrote: &[Entry]) -> Option<Report> {
    Some(match (is, &first.record) {
        ("answered", Record::Answer { answer, interrupted: false, .. }) => {
            let calls = facts(wrote);
            let unknown = |name: &str, input: &str| CallFacts::unknown(name, input, "is not on the tape");
            let told = (0..).zip(answer.calls());
            let calls =
                told.map(|(index, (name, input))| calls.get(&index).cloned().unwrap_or_else(|| unknown(name, input)));
            let calls = calls.collect();
            Report::Answered { answer: (**answer).clone(), calls }
        }
        ("prepared", Record::Prepared(prepared)) => Report::Prepared { prepared: Box::new((**prepared).clone()) },
        ("gated", Record::CallGated(gated)) => Report::Gated { gated: Box::new((**gated).clone()) },
        ("failed", Record::RequestFailed { error, .. }) => Report::Failed { error: error.clone() },
        // Nothing of it was charged, because its key was refused meanwhile.
        ("cut_off", Record::Answer { interrupted: true, estimated: None, .. }) => {
            Report::Failed { error: ModelError::new(ErrorKind::Auth, "the key was refused") }
        }
        ("cut_off", Record::Answer { answer, interrupted: true, estimated, .. }) => {
            let written = estimated.map_or(0, |estimated| estimated.output);
            let thrown_away = written.saturating_sub(spent::written(answer));
            Report::CutOff { partial: answer.parts.clone(), thrown_away }
        }
        ("returned", Record::Result { result, .. }) => Report::Returned { result: (**result).clone() },
        ("summarised", Record::Compacted(compacted)) => {
            let summary = compacted.summary.clone()?;
            Report::Summarised { result: Ok((summary, compacted.usage)), lost: compacted.lost }
        }
        ("summarised", Record::CompactionFailed { error, usage, estimated, lost }) => {
            let none = NoSummary { error: error.clone(), usage: *usage, estimated: *estimated };
            Report::Summarised { result: Err(none), lost: *lost }
        }
        ("task_down", Record::TaskFinished { down, .. }) => Report::TaskDown { down: (**down).clone() },
        ("task_left", Record::TaskLeft {}) => Report::TaskLeft,
        _ => return None,
    })
}

/// The facts of calls, by their position in the answer that asked for them.
fn facts(wrote: &[Entry]) -> BTreeMap<u32, CallFacts> {
    let told = wrote.iter().filter_map(|entry| match &entry.record {
        Record::Call(call) => Some((call.index, call.facts.clone())),
        Record::CallFacts { index, facts } => Some((*index, facts.clone())),
        _ => None,
    });
    told.collect()
}
