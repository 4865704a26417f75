//! What a tape, and the notes beside it, say about files. Functions of values: nothing here reads a disk.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use crate::{
    kernel::{CallState, Entry, Open, Record},
    tape::ImportedFrom,
    tool::{Effect, FileChange, ToolResult, files::Note},
    tools::names,
    words::ids::{Seq, SessionId},
    words::message::ErrorReason,
};

/// What was changed after an entry.
#[derive(Debug, Default)]
pub(super) struct History {
    pub(super) since: Seq,
    /// The newest entry.
    pub(super) upto: Seq,
    /// The workspace, as it is set now.
    pub(super) workspace: String,
    /// In the order in which it was done.
    pub(super) changes: Vec<Made>,
    /// What ran without saying what it changed.
    pub(super) silent: Vec<String>,
    /// The forks that were merged into it: what they did to files is kept beside their tapes.
    pub(super) merged: Vec<SessionId>,
}

/// One change.
#[derive(Clone, Debug)]
pub(super) struct Made {
    /// Where on the tape.
    pub(super) at: Seq,
    /// The call's ticket, or the restore's entry.
    pub(super) by: Seq,
    pub(super) change: FileChange,
    /// It was about to be made when a crash came; whether it was, nobody knows.
    pub(super) uncertain: bool,
    /// Whether it is in the workspace that is set now.
    pub(super) here: bool,
}

/// A call that may run.
struct Call {
    tool: String,
    effect: Effect,
    started: bool,
}

/// The sessions that a tape goes on from, nearest first, and the last entry that it has of each: as far as these entries say, who
/// need not be believed.
pub(super) fn forked_from(entries: &[Entry]) -> Vec<(SessionId, Seq)> {
    let forks = entries.iter().rev().filter_map(|entry| match &entry.record {
        Record::Forked(forked) => Some((forked.parent.clone(), forked.seq)),
        _ => None,
    });
    forks.collect()
}

/// Whether a note of a session is about what a fork of it has on its tape too, where it was forked at that entry. What it noted
/// later is about what it did alone. A restore is noted under the newest entry there was, so one that is noted under that very
/// entry is taken for a later one: what it changed, the other session knows.
pub(super) fn is_shared(note: &Note, forked_at: Seq) -> bool {
    if note.restore.is_some() { note.seq < forked_at } else { note.seq <= forked_at }
}

/// Reads a tape from an anchor on. Changes count from `since` on, without it.
pub(super) fn of(entries: &[Entry], notes: &[Note], since: Seq) -> History {
    let mut reader = Reader { since, notes, ..Reader::default() };
    entries.iter().for_each(|entry| reader.take(entry));
    reader.finish()
}

#[derive(Default)]
struct Reader<'n> {
    since: Seq,
    notes: &'n [Note],
    history: History,
    /// Calls by ticket, those that may run.
    calls: BTreeMap<Seq, Call>,
    /// The workspace at each change, by its place in the list.
    workspaces: Vec<String>,
    /// Calls whose result was seen, or that went on in the session which this one was forked from; and the restores.
    over: BTreeSet<Seq>,
    restores: BTreeSet<String>,
}

impl Reader<'_> {
    fn take(&mut self, entry: &Entry) {
        self.history.upto = entry.seq;
        let counts = entry.seq > self.since;
        match &entry.record {
            Record::State(state) => {
                self.history.workspace.clone_from(&state.settings.workspace);
                for (ticket, open) in &state.open {
                    // Those that wait, or are asked about, may run yet.
                    if let Open::Call(call) = open {
                        let started = matches!(call.state, CallState::Running | CallState::Closing);
                        let call = Call { tool: call.facts.tool.clone(), effect: call.facts.effect, started };
                        self.calls.insert(*ticket, call);
                    }
                }
            }
            Record::Settings(settings) => self.history.workspace.clone_from(&settings.workspace),
            Record::Call(call) => {
                let call = Call { tool: call.facts.tool.clone(), effect: call.facts.effect, started: false };
                self.calls.insert(entry.seq, call);
            }
            Record::CallStarted { .. } => {
                if let Some(call) = self.calls.get_mut(&entry.ticket.unwrap_or(entry.seq)) {
                    call.started = true;
                }
            }
            Record::Forked(forked) => {
                let parent = &forked.parent;
                let why =
                    format!("it was running when this was forked, and what it changed is on the tape of {parent}");
                self.leave_open(&why, counts);
            }
            Record::Imported(imported) => self.bring_in(imported, counts),
            Record::Result { result, .. } => {
                let ticket = entry.ticket.unwrap_or(entry.seq);
                self.over.insert(ticket);
                if let (Some(call), true) = (self.calls.remove(&ticket), counts) {
                    self.result(entry.seq, ticket, &call, result);
                }
            }
            Record::Restored(restored) => {
                self.restores.insert(restored.key.clone());
                if counts {
                    restored.files.iter().for_each(|change| self.add(entry.seq, entry.seq, change, false));
                }
            }
            Record::Merged(merged) => {
                if counts {
                    merged.files.iter().for_each(|change| self.add(entry.seq, entry.seq, change, false));
                    let silent = merged.unlisted.iter().map(|line| format!("{line}, in fork {}", merged.fork));
                    self.history.silent.extend(silent);
                }
                if !self.history.merged.contains(&merged.fork) {
                    self.history.merged.push(merged.fork.clone());
                }
            }
            _ => {}
        }
    }

    fn result(&mut self, at: Seq, ticket: Seq, call: &Call, result: &ToolResult) {
        let tool = &call.tool;
        let said = result.changes.as_deref();
        for change in said.iter().flat_map(|changes| &changes.files) {
            self.add(at, ticket, change, false);
        }
        let paths: BTreeSet<&str> =
            said.iter().flat_map(|changes| &changes.files).map(|change| change.path.as_str()).collect();
        let notes = self.notes.iter().filter(|note| note.restore.is_none() && note.seq == ticket);
        let noted: Vec<&Note> = notes.filter(|note| !paths.contains(note.change.path.as_str())).collect();
        for note in &noted {
            self.add(at, ticket, &note.change, true);
        }
        let silent = match (said.map(|changes| &changes.unlisted), result.error) {
            (Some(Some(why)), _) => Some(why.clone()),
            (Some(None), _) => None,
            (None, Some(ErrorReason::Unknown)) if call.effect != Effect::Read && noted.is_empty() => {
                Some("it was cut off by a crash, and what it changed, if anything, is not known".to_owned())
            }
            (None, Some(ErrorReason::Blocked | ErrorReason::Denied | ErrorReason::Skipped | ErrorReason::Unknown)) => {
                None
            }
            (None, _) => {
                (call.effect != Effect::Read).then(|| "the tool does not say which files it changes".to_owned())
            }
        };
        self.history.silent.extend(silent.map(|why| format!("{tool} (call {ticket}): {why}")));
    }

    /// What was open does not go on here: what it does from here on is not on this tape, and what was noted of that is not this
    /// one's to take back.
    fn leave_open(&mut self, why: &str, counts: bool) {
        for (ticket, call) in std::mem::take(&mut self.calls) {
            self.over.insert(ticket);
            if counts && call.started && call.effect != Effect::Read {
                self.history.silent.push(format!("{} (call {ticket}): {why}", call.tool));
            }
        }
    }

    /// What the file says was changed was changed elsewhere, or nowhere: nothing here is put back for it.
    fn bring_in(&mut self, imported: &ImportedFrom, counts: bool) {
        self.leave_open("it was running when this was brought in from a file", counts);
        self.history.workspace.clone_from(&imported.workspace);
        self.workspaces.clear();
        // Who has the names of those forks here is another.
        self.history.merged.clear();
        let before = std::mem::take(&mut self.history.changes);
        if !before.is_empty() {
            let why = format!("{} changes of files are from before this was brought in from a file", before.len());
            self.history.silent.push(why);
        }
    }

    fn add(&mut self, at: Seq, by: Seq, change: &FileChange, uncertain: bool) {
        self.workspaces.push(self.history.workspace.clone());
        self.history.changes.push(Made { at, by, change: change.clone(), uncertain, here: false });
    }

    fn finish(mut self) -> History {
        // What was begun and has no entry: the process died before it could say more.
        for note in self.notes {
            let lost = match &note.restore {
                None => note.seq > self.since && !self.over.contains(&note.seq),
                Some(key) => note.seq >= self.since && !self.restores.contains(key),
            };
            if lost {
                self.add(note.seq, note.seq, &note.change, true);
            }
        }
        let History { workspace, changes, .. } = &mut self.history;
        for (made, of) in changes.iter_mut().zip(&self.workspaces) {
            made.here = of == workspace && !names::given(&made.change.path).is_absolute();
            if of != workspace && !names::given(&made.change.path).is_absolute() {
                // Shown by its whole name, so that it is not taken for the file of that name here.
                made.change.path = names::shown(&Path::new(of).join(names::given(&made.change.path)));
            }
        }
        // Stable: changes of one entry keep their order.
        changes.sort_by_key(|made| made.at);
        self.history.since = self.since;
        self.history
    }
}
