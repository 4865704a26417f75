//! Looking at the store: the tapes are only read, so this runs beside whatever else does.

use std::{fmt::Write as _, path::Path};

use serde_json::json;
use tamtam::{
    Millis, SessionId, session,
    tape::{Access, Entry, IndexCheck, Rebuilt, Store, StoreOptions, TapeStoreExt as _},
};

use super::{
    arguments::{RebuildArguments, ShowArguments, StoreArguments, VerifyArguments},
    escape,
    failure::{Exit, Failure},
    place::Environment,
    print,
    progress::Progress,
};

/// Characters of an entry's data that are shown without `--json`.
const DATA_MAX: usize = 160;

/// Opens the store to read; `None` where nothing was ever stored.
pub(super) fn open(path: &Path) -> Result<Option<Store>, Failure> {
    if !path.exists() {
        return Ok(None);
    }
    let options = StoreOptions { access: Access::Read, ..StoreOptions::default() };
    Ok(Some(Store::open(path, options)?))
}

fn store(arguments: &StoreArguments, environment: &Environment) -> Result<Option<Store>, Failure> {
    open(&environment.store(arguments.store.as_deref())?)
}

/// The state of a session by its tape; `None` where there is no such session. Changes nothing.
pub(super) fn state(store: &Path, id: &SessionId) -> Result<Option<session::State>, Failure> {
    let Some(store) = open(store)?.filter(|store| store.exists(id)) else { return Ok(None) };
    let unreadable =
        |why: &dyn std::fmt::Display| Failure::failed(format!("the tape of session {id} cannot be read: {why}"));
    let lines = store.read(id, tamtam::Seq::ZERO)?;
    let entries: Result<Vec<_>, _> = lines.iter().map(session::Entry::from_tape).collect();
    let state = session::State::fold(entries.map_err(|error| unreadable(&error))?);
    state.map(Some).ok_or_else(|| unreadable(&"it has no entry, so the session never began: choose another id"))
}

/// A moment to the second, in UTC.
pub(super) fn moment(time: Millis) -> String {
    let stamp = i64::try_from(time.0 / 1000).ok().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    stamp.map_or_else(|| "-".to_owned(), |stamp| stamp.to_string())
}

/// Prints the entries of a tape, oldest first.
pub(super) fn show(given: &ShowArguments, environment: &Environment) -> Result<Exit, Failure> {
    let missing = || tamtam::tape::TapeError::Missing { session: given.session.clone() };
    let store = store(&given.store, environment)?.ok_or_else(missing)?;
    let mut text = String::new();
    let entries = store.read(&given.session, tamtam::Seq::ZERO)?;
    let trail = trail(&entries);
    for entry in &entries {
        // What was taken back stays on the tape, and is no part of the conversation any more.
        let mark = if trail.has(entry.seq) { ' ' } else { '~' };
        let line = if given.json { entry_json(entry) } else { format!("{mark}{}", entry_line(entry)) };
        let _ = writeln!(text, "{line}");
    }
    print(&text)?;
    Ok(Exit::Done)
}

/// Which entries the conversation is made of now.
fn trail(entries: &[Entry]) -> session::Trail {
    let jumps = entries.iter().filter_map(|entry| Some((entry.seq, rolled_back(entry)?.to)));
    let end = entries.last().map_or(tamtam::Seq::ZERO, |entry| entry.seq);
    session::Trail::new(&jumps.collect(), end)
}

/// What an entry says of going back, where it does.
fn rolled_back(entry: &Entry) -> Option<RolledBack> {
    if entry.kind == "rolled_back" { serde_json::from_str(entry.data.get()).ok() } else { None }
}

#[derive(serde::Deserialize)]
struct RolledBack {
    to: tamtam::Seq,
    way: String,
    #[serde(default)]
    gone: Vec<String>,
    #[serde(default)]
    again: Vec<String>,
}

impl RolledBack {
    fn in_words(&self) -> String {
        let mut words = format!("{}: back at entry {}", self.way, self.to);
        for (what, ids) in [("undone", &self.gone), ("restored", &self.again)] {
            if !ids.is_empty() {
                // Writing to a String cannot fail.
                let _ = write!(words, "; {what}: {}", ids.join(", "));
            }
        }
        words
    }
}

pub(super) fn entry_json(entry: &Entry) -> String {
    let Entry { seq, time, cause, turn, step, ticket, input, kind, data } = entry;
    let value =
        |text: &serde_json::value::RawValue| serde_json::from_str::<serde_json::Value>(text.get()).unwrap_or_default();
    json!({
        "seq": seq, "time": time, "cause": cause, "turn": turn, "step": step, "ticket": ticket,
        "in": input.as_deref().map(value), "kind": kind, "data": value(data),
    })
    .to_string()
}

fn entry_line(entry: &Entry) -> String {
    let at = match (entry.turn, entry.step) {
        (Some(turn), Some(step)) => format!("{turn}.{step}"),
        (Some(turn), None) => turn.to_string(),
        _ => String::new(),
    };
    let ticket = entry.ticket.map(|ticket| format!("#{ticket}")).unwrap_or_default();
    let in_words = rolled_back(entry).map(|back| back.in_words());
    let data = escape::short(in_words.as_deref().unwrap_or(entry.data.get()), DATA_MAX);
    let time = moment(entry.time);
    format!("{:5}  {time}  {at:7} {ticket:6} {:15} {data}", entry.seq.0, escape::line(&entry.kind))
}

/// Checks every line, and names the bad ones.
pub(super) fn verify(given: &VerifyArguments, environment: &Environment) -> Result<Exit, Failure> {
    let missing = |session: &SessionId| tamtam::tape::TapeError::Missing { session: session.clone() };
    let store = store(&given.store, environment)?;
    let (findings, checked) = match (&store, &given.session) {
        (None, Some(session)) => return Err(missing(session).into()),
        (None, None) => (Vec::new(), 0),
        (Some(store), Some(session)) => (store.verify(session)?, 1),
        (Some(store), None) => (store.verify_all()?, store.list().map_or(0, |all| all.len())),
    };
    let index = store.map(|store| store.check_index(given.session.as_ref())).transpose()?;
    let mut text = String::new();
    for finding in &findings {
        let _ = writeln!(text, "{}", escape::line(&finding.to_string()));
    }
    let wrong = index.as_ref().map_or(0, |index| index.wrong_count);
    if let Some(index) = &index {
        for row in &index.wrong {
            let _ = writeln!(text, "index.db: {}", escape::line(&row.to_string()));
        }
        if wrong > 0 {
            let _ = writeln!(
                text,
                "{wrong} wrong in the index; the tapes are not affected: `tamtam tape rebuild` rebuilds it"
            );
        }
    }
    if findings.is_empty() && wrong == 0 {
        let _ = write!(text, "{checked} tape{} checked, no damage", if checked == 1 { "" } else { "s" });
        match index {
            Some(IndexCheck { unreadable: Some(why), .. }) => {
                let _ = write!(text, "; the index could not be checked: {}", escape::line(&why));
            }
            Some(index) if !index.is_missing && index.behind > 0 => {
                text.push_str("; the index matches, and has entries still to read");
            }
            Some(index) if !index.is_missing => text.push_str("; the index matches"),
            _ => {}
        }
        text.push('\n');
    }
    print(&text)?;
    Ok(if findings.is_empty() && wrong == 0 { Exit::Done } else { Exit::Failed })
}

/// Makes the index anew. It decides nothing, so whatever was in it, the tapes are what counts.
pub(super) fn rebuild(given: &RebuildArguments, environment: &Environment) -> Result<Exit, Failure> {
    let path = environment.store(given.store.store.as_deref())?;
    if !path.exists() {
        print("0 entries indexed: there are no tapes\n")?;
        return Ok(Exit::Done);
    }
    let store = Store::open(path, StoreOptions::default())?;
    let mut progress = Progress::new();
    let rebuilt =
        store.index()?.rebuild_telling(&mut |done| progress.show(&format!("{} entries indexed", done.added)))?;
    drop(progress);
    let Rebuilt { before, after } = rebuilt;
    let was = match before {
        Some(before) if before == after => "the index was right before",
        Some(_) => "the index was wrong before",
        None => "the index could not be read before",
    };
    print(&format!("{} entries indexed; {was}\n", after.entries))?;
    Ok(Exit::Done)
}
