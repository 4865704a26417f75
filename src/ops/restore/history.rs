//! Finds, in the entries of a tape and in the notes next to it, what a session did to files. A note is written before a file is
//! changed, so it names the changes of a call that a crash cut off. Functions of values: the caller reads the tape and the notes.
//!
//! The result lists the changes of files after a given entry, in order. A change that a crash may have cut off is marked as
//! uncertain. A call that may have changed files and did not say which has a separate line.
//!
//! A change must keep two rules, or a restore would touch files that this session did not change. A parent's notes count only up
//! to the fork. What was done before an import does not count, because it was done elsewhere; one line says how many changes
//! there were.

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

/// The file changes after an entry.
#[derive(Debug, Default)]
pub(super) struct History {
    pub(super) since: Seq,
    /// The newest entry.
    pub(super) upto: Seq,
    /// The workspace, as it is set now.
    pub(super) workspace: String,
    /// The changes, in the order in which they were made.
    pub(super) changes: Vec<Made>,
    /// Calls that ran without saying what they change, one line each.
    pub(super) silent: Vec<String>,
    /// The forks that were merged into the session. Their old contents are kept next to their own tapes.
    pub(super) merged: Vec<SessionId>,
}

/// One change.
#[derive(Clone, Debug)]
pub(super) struct Made {
    /// The entry that records the change, or the newest entry that its note names.
    pub(super) at: Seq,
    /// The call's ticket, or the restore's entry.
    pub(super) by: Seq,
    pub(super) change: FileChange,
    /// Whether a crash came when the change was about to be made, so that it is unknown whether it was.
    pub(super) uncertain: bool,
    /// Whether the path is in the present workspace.
    pub(super) here: bool,
}

/// A call whose result has not been seen yet.
struct Call {
    tool: String,
    effect: Effect,
    started: bool,
}

/// The sessions that a tape is forked from, nearest first, and the last entry that it has of each. Only what the entries claim: the
/// caller must check it against the store.
pub(super) fn forked_from(entries: &[Entry]) -> Vec<(SessionId, Seq)> {
    let forks = entries.iter().rev().filter_map(|entry| match &entry.record {
        Record::Forked(forked) => Some((forked.parent.clone(), forked.seq)),
        _ => None,
    });
    forks.collect()
}

/// Whether a parent's note is about a change that a fork at `forked_at` has on its tape too. Later notes are about changes that the
/// parent made alone. A restore is noted under the newest entry of its moment. So a restore that is noted under `forked_at` itself
/// counts as later: the parent's tape knows what it changed.
pub(super) fn is_shared(note: &Note, forked_at: Seq) -> bool {
    if note.restore.is_some() { note.seq < forked_at } else { note.seq <= forked_at }
}

/// Reads a tape from an anchor on. Only changes after `since` count.
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
    /// Calls whose result has not been seen yet, by ticket.
    calls: BTreeMap<Seq, Call>,
    /// The workspace at each change, by its place in the list.
    workspaces: Vec<String>,
    /// Tickets of calls whose result was seen, or that continued in the parent after the fork.
    over: BTreeSet<Seq>,
    /// The keys of the recorded restores.
    restores: BTreeSet<String>,
}

impl Reader<'_> {
    fn take(&mut self, entry: &Entry) {
        self.history.upto = entry.seq;
        let counts = entry.seq > self.since;
        match &entry.record {
            Record::State(state) => {
                self.history.workspace.clone_from(&state.settings.workspace);
                for (ticket, open) in state.open.iter() {
                    // A call that waits, or that a person is asked about, may still run.
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

    /// Drops the open calls, because they do not continue in this session. Their later changes are not on this tape, and this
    /// session must not take their notes back.
    fn leave_open(&mut self, why: &str, counts: bool) {
        for (ticket, call) in std::mem::take(&mut self.calls) {
            self.over.insert(ticket);
            if counts && call.started && call.effect != Effect::Read {
                self.history.silent.push(format!("{} (call {ticket}): {why}", call.tool));
            }
        }
    }

    /// Takes an import. The changes before it were made in another store, so no file is put back for them.
    fn bring_in(&mut self, imported: &ImportedFrom, counts: bool) {
        self.leave_open("it was running when this was brought in from a file", counts);
        self.history.workspace.clone_from(&imported.workspace);
        self.workspaces.clear();
        // Sessions with the names of these forks are other sessions here.
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
        // Notes without an entry: the process died before it could record the change.
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
                // The absolute path keeps it apart from the file of the same name in the present workspace.
                made.change.path = names::shown(&Path::new(of).join(names::given(&made.change.path)));
            }
        }
        // Stable: changes of one entry keep their order.
        changes.sort_by_key(|made| made.at);
        self.history.since = self.since;
        self.history
    }
}
