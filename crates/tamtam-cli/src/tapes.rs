//! Opens the store for the commands, and carries out `tamtam tape show`, `verify` and `rebuild`.
//!
//! These three commands change no tape, so they may run beside a process that uses the store; `rebuild` writes the index.
//!
//! A change must keep this: a command that only looks opens the store with [`open`] or [`open_for`], which never write, so that it
//! works where the user may only read. A command that needs the index up to date uses [`open_with_index`]. No command of this file
//! makes the folder of a store; who calls [`open_with_index`] checks first that it is there.

use std::{fmt::Write as _, path::Path, sync::Arc};

use serde_json::{Value, json};
use tamtam::{
    Millis, Seq, SessionId, session,
    tape::{Rebuilt, Store, StoreOptions, TapeAccess, TapeEntry, TapeError, TapeStore as _, TapeStoreExt as _},
};

use super::{
    escape,
    failure::{Exit, Failure},
    print,
    progress::Progress,
};

/// Most characters of an entry's data that are shown without `--json`.
const DATA_MAX: usize = 160;

/// Whether there is a store in the folder. A path that cannot be looked at is an error: it may lead to one.
pub(super) fn is_there(path: &Path) -> Result<bool, TapeError> {
    let refused = |source| TapeError::Io { op: "look at", path: path.to_owned(), source: Arc::new(source) };
    path.try_exists().map_err(refused)
}

/// Opens the store to read; `None` if there is no such folder.
pub(super) fn open(path: &Path) -> Result<Option<Store>, TapeError> {
    let options = StoreOptions::default().access(TapeAccess::Read);
    is_there(path)?.then(|| Store::open(path, options)).transpose()
}

/// Opens the store to read; a folder that is not there is a missing session.
pub(super) fn open_for(path: &Path, id: &SessionId) -> Result<Store, TapeError> {
    open(path)?.ok_or_else(|| TapeError::Missing { session: id.clone() })
}

/// Opens the store to write, for a change of a session that is there. Makes no folder.
pub(super) fn open_to_change(path: &Path, id: &SessionId) -> Result<Store, TapeError> {
    // Opened to write, an empty folder would become a store.
    if !open_for(path, id)?.exists(id) {
        return Err(TapeError::Missing { session: id.clone() });
    }
    Store::open(path, StoreOptions::default())
}

/// Opens an existing store to write, so that the index can be brought up to date; if that fails (read-only folder), opens it to
/// read.
pub(super) fn open_with_index(path: &Path) -> Result<Store, TapeError> {
    match Store::open(path, StoreOptions::default()) {
        Err(TapeError::Io { source, .. }) if source.kind() != std::io::ErrorKind::NotADirectory => {
            Store::open(path, StoreOptions::default().access(TapeAccess::Read))
        }
        opened => opened,
    }
}

/// The state of a session, folded from its tape; `None` if there is no such session, or it has no entry: its maker died before the
/// first one, or is making it now. Changes nothing.
pub(super) fn state(store: &Path, id: &SessionId) -> Result<Option<session::State>, Failure> {
    let Some(store) = open(store)?.filter(|store| store.exists(id)) else { return Ok(None) };
    let unreadable =
        |why: &dyn std::fmt::Display| Failure::failed(format!("the tape of session {id} cannot be read: {why}"));
    let lines = store.read(id, Seq::ZERO)?;
    if lines.is_empty() {
        return Ok(None);
    }
    let entries: Result<Vec<_>, _> = lines.iter().map(session::Entry::from_tape).collect();
    let state = session::State::fold(entries.map_err(|error| unreadable(&error))?);
    state.map(Some).ok_or_else(|| unreadable(&"it does not say how the session began"))
}

/// A moment to the second, in UTC.
pub(super) fn moment(time: Millis) -> String {
    let stamp = i64::try_from(time.0 / 1000).ok().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    stamp.map_or_else(|| "-".to_owned(), |stamp| stamp.to_string())
}

/// Prints the entries of a tape, oldest first.
pub(super) fn show(path: &Path, id: &SessionId, json: bool) -> Result<Exit, Failure> {
    let mut text = String::new();
    let store = open_for(path, id)?;
    let entries = match store.read(id, Seq::ZERO) {
        Err(TapeError::Damaged(_)) => return show_sound(&store, id, json),
        read => read?,
    };
    if entries.is_empty() {
        return Err(Failure::failed(format!("session {id} has no entry: it never began")));
    }
    let trail = trail(&entries);
    for entry in &entries {
        // An entry that was rolled back stays on the tape, and is no part of the conversation any more.
        let mark = if trail.has(entry.seq) { ' ' } else { '~' };
        let line = if json { json_line(entry) } else { format!("{mark}{}", entry_line(entry)) };
        let _ = writeln!(text, "{line}");
    }
    print(&text)
}

/// Prints the entries of a damaged tape before the damage, and fails with the place of the damage.
fn show_sound(store: &Store, id: &SessionId, json: bool) -> Result<Exit, Failure> {
    let findings = store.verify(id)?;
    let end = store.sound_end(id)?.seq;
    let sound = if end == Seq::ZERO { Vec::new() } else { store.read_to(id, end)?.entries };
    let mut text = String::new();
    for entry in &sound {
        let line = if json { json_line(entry) } else { format!(" {}", entry_line(entry)) };
        let _ = writeln!(text, "{line}");
    }
    print(&text)?;
    let places: Vec<_> = findings.iter().map(ToString::to_string).collect();
    let places = places.join("; ");
    Err(Failure::failed(format!("the tape is damaged: {places}: `tamtam tape fork {id}` continues before it")))
}

/// The entries that make up the conversation now: those not rolled back.
fn trail(entries: &[TapeEntry]) -> session::Trail {
    let jumps = entries.iter().filter_map(|entry| Some((entry.seq, rolled_back(entry)?.to)));
    let end = entries.last().map_or(Seq::ZERO, |entry| entry.seq);
    session::Trail::new(&jumps.collect(), end)
}

/// The data of a `rolled_back` entry; `None` for any other kind.
fn rolled_back(entry: &TapeEntry) -> Option<session::RolledBack> {
    if entry.kind == "rolled_back" { serde_json::from_str(entry.data.get()).ok() } else { None }
}

fn back_in_words(back: &session::RolledBack) -> String {
    let mut words = format!("{}: back at entry {}", json!(back.way).as_str().unwrap_or_default(), back.to);
    for (what, ids) in [("undone", &back.gone), ("restored", &back.again)] {
        if !ids.is_empty() {
            // Writing to a String cannot fail.
            let _ = write!(words, "; {what}: {}", ids.iter().map(|id| id.as_str()).collect::<Vec<_>>().join(", "));
        }
    }
    words
}

/// An entry as one line of JSON. What the tape has is written as it stands there: a number keeps its digits.
#[derive(serde::Serialize)]
pub(super) struct EntryJson<'a> {
    seq: Seq,
    time: Millis,
    cause: Option<Value>,
    turn: Option<Seq>,
    step: Option<u32>,
    ticket: Option<Seq>,
    #[serde(rename = "in")]
    input: Option<&'a serde_json::value::RawValue>,
    kind: &'a str,
    data: &'a serde_json::value::RawValue,
}

pub(super) fn entry_json(entry: &TapeEntry) -> EntryJson<'_> {
    let TapeEntry { seq, time, cause, turn, step, ticket, input, kind, data, .. } = entry;
    let cause = cause.as_ref().map(|cause| json!(cause));
    let (seq, time, turn, step, ticket, input) = (*seq, *time, *turn, *step, *ticket, input.as_deref());
    EntryJson { seq, time, cause, turn, step, ticket, input, kind, data }
}

fn json_line(entry: &TapeEntry) -> String {
    serde_json::to_string(&entry_json(entry)).unwrap_or_default()
}

fn entry_line(entry: &TapeEntry) -> String {
    let at = match (entry.turn, entry.step) {
        (Some(turn), Some(step)) => format!("{turn}.{step}"),
        (Some(turn), None) => turn.to_string(),
        _ => String::new(),
    };
    let ticket = entry.ticket.map(|ticket| format!("#{ticket}")).unwrap_or_default();
    let in_words = rolled_back(entry).map(|back| back_in_words(&back));
    let data = escape::short(in_words.as_deref().unwrap_or(entry.data.get()), DATA_MAX);
    let time = moment(entry.time);
    format!("{:5}  {time}  {at:7} {ticket:6} {:15} {data}", entry.seq.0, escape::line(&entry.kind))
}

/// Checks every line of one session or of all, and prints the findings. The index is not checked: a rebuild says whether it was
/// right.
pub(super) fn verify(path: &Path, id: Option<&SessionId>) -> Result<Exit, Failure> {
    let store = id.map_or_else(|| open(path), |id| open_for(path, id).map(Some))?;
    let (findings, checked) = match (&store, id) {
        (None, _) => (Vec::new(), 0),
        (Some(store), Some(id)) => (store.verify(id)?, 1),
        (Some(store), None) => (store.verify_all()?, store.list()?.len()),
    };
    let mut text = String::new();
    for finding in &findings {
        let _ = writeln!(text, "{}", escape::line(&finding.to_string()));
    }
    if findings.is_empty() {
        let plural = if checked == 1 { "" } else { "s" };
        let _ = writeln!(text, "{checked} tape{plural} checked, no damage");
    }
    print(&text)?;
    Ok(if findings.is_empty() { Exit::Done } else { Exit::Failed })
}

/// Builds the index again from the tapes, whatever it held before: the index decides nothing, and only the tapes count.
pub(super) fn rebuild(path: &Path) -> Result<Exit, Failure> {
    if !is_there(path)? {
        return print("0 entries indexed: there are no tapes\n");
    }
    let store = Store::open(path, StoreOptions::default())?;
    let mut progress = Progress::new();
    let rebuilt =
        store.index()?.rebuild_telling(&mut |done| progress.show(&format!("{} entries indexed", done.added)))?;
    drop(progress);
    let Rebuilt { before, after, .. } = rebuilt;
    let was = match before {
        Some(before) if before == after => "the index was right before",
        Some(_) => "the index was wrong before",
        None => "the index could not be read before",
    };
    print(&format!("{} entries indexed; {was}\n", after.entries))
}
