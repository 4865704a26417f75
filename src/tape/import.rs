//! Importing a session from a file that [`Store::export`] wrote: all of it or nothing.
//!
//! The form of the file is never trusted. Each line is checked as on a tape and written as this library writes it; names are
//! checked before they become paths; nothing is larger than the header says. The header, each line and append, the number of
//! anchors, and the large outputs have separate bounds; the tape as a whole has none. The session is written under `importing/`,
//! synced, and gets its place by one rename that replaces nothing. So after any error, and after a crash at any point, either the
//! whole session exists or nothing of it; the next import removes what a killed one left.
//! Anyone can make a sound file. So the session ends with an entry that keeps its words and takes its powers away ([`narrowed`]),
//! unless the host says that the file is its own ([`ImportOptions::as_it_was`]) or the session has no entry. In all other cases a
//! change must not let a session get its place without that entry and the mark next to the tape. It must keep every bound, and must
//! not use a name or a length before it was checked. Blocks; waits for another import without a limit.

use std::{
    fs::File,
    io::{BufRead, BufWriter, Read as _, Write as _},
    path::{Path, PathBuf},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    Store, TapeEntry, TapeError, TapeStoreExt as _,
    export::{EXPORT_VERSION, Header, Piece},
    handle::APPEND_BYTES_MAX,
    layout::{
        anchor_name, anchor_number, make_folder, make_new_folder, names_in, new_file, open_or_make, plain_anchor_name,
        sync_folder,
    },
    line::{Chain, LINE_BYTES_MAX, Rest, decode_lines, encode_lines, glance},
};
use crate::words::ids::{Millis, Seq, SessionId};

pub(super) mod narrowed;

pub use narrowed::ImportedFrom;

/// The longest header, in bytes.
const HEADER_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The most anchors.
const ANCHORS_MAX: usize = 10_000;
/// The highest number of an anchor: more than there may be anchors, and far below the nine digits that a tape may count up to.
const ANCHOR_NUMBER_MAX: u64 = 999_999;
/// The most large outputs, and the most bytes of all of them together.
const SPILLS_MAX: usize = 10_000;
const SPILL_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;

/// The session that was brought in.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Imported {
    /// Its id in this store.
    pub session: SessionId,
    /// Its last entry: that of the file, or the `imported` entry after it.
    pub last: Seq,
    /// How many anchors it has.
    pub anchors: usize,
    /// How many large outputs it has.
    pub spills: usize,
}

/// How a session is brought in.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    as_id: Option<SessionId>,
    /// The workspace from now on, and the time of the import; `None` if the file is trusted.
    into: Option<(String, Millis)>,
}

impl ImportOptions {
    /// For a file from anyone. The conversation, model, system prompt and budget are those of the file; some other limits, such
    /// as the number of steps, are at most the defaults. Its powers are not those of the file: the session works in `workspace`,
    /// a person is asked about every call that the host's rules do not decide, no folder outside may be read but that of its own
    /// large outputs, no grant of a person applies, nothing is open or waits, and the session has no parent. An entry on the tape
    /// says so, with the time `time`, or that of the file's latest entry if that is later; a fork from before that entry gets one
    /// like it as its second entry.
    #[must_use]
    pub fn into_workspace(workspace: impl Into<String>, time: Millis) -> ImportOptions {
        ImportOptions { as_id: None, into: Some((workspace.into(), time)) }
    }

    /// For a file that the host wrote itself and that could not be changed since, such as a backup. The session is as it was: it
    /// continues its open turn as soon as it is woken, and its entries still name paths of the machine that it comes from. A
    /// person who could write the file can make this runtime do everything that its own rules allow.
    #[must_use]
    pub fn as_it_was() -> ImportOptions {
        ImportOptions { as_id: None, into: None }
    }

    /// Imports under another id than that in the file: the lines are sealed again.
    #[must_use]
    pub fn under(mut self, id: SessionId) -> ImportOptions {
        self.as_id = Some(id);
        self
    }
}

impl Store {
    /// Brings in a session that [`Store::export`] wrote.
    ///
    /// # Errors
    ///
    /// [`TapeError::Exists`]; [`TapeError::Import`] if the file is not an export or is damaged; [`TapeError::Newer`];
    /// [`TapeError::ReadingOnly`]; [`TapeError::Io`]. After an error nothing of the session exists, unless the last step failed
    /// (the sync of the folder of all sessions): then the whole session exists.
    pub fn import(&self, from: &mut dyn BufRead, options: &ImportOptions) -> Result<Imported, TapeError> {
        self.inner.must_write()?;
        let mut from = Lines { from, line: 0, of: HEADER_BYTES_MAX };
        let header = read_header(&mut from)?;
        let session = options.as_id.as_ref().unwrap_or(&header.session).clone();
        let exists = || TapeError::Exists { session: session.clone() };
        if self.layout().session(&session).exists() {
            return Err(exists());
        }
        let staging = Staging::new(self)?;
        fault!(self.faults(), "tape.import.begun", session.as_str());
        from.of = LINE_BYTES_MAX;
        let last = self.bring_in(&mut from, &header, (&session, options), &staging.folder)?;
        if from.next()?.is_some() {
            return Err(from.refuse("there is data after its end"));
        }
        fault!(self.faults(), "tape.import.written", session.as_str());
        let to = self.layout().session(&session);
        let flags = rustix::fs::RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(rustix::fs::CWD, &staging.folder, rustix::fs::CWD, &to, flags) {
            Err(rustix::io::Errno::EXIST | rustix::io::Errno::NOTEMPTY) => return Err(exists()),
            moved => moved.map_err(|error| TapeError::io("make", &to)(error.into()))?,
        }
        self.inner.writer.files.changed.note(&session);
        sync_folder(&self.layout().sessions())?;
        fault!(self.faults(), "tape.import.done", session.as_str());
        Ok(Imported { session, last, anchors: header.anchors.len(), spills: header.spills.len() })
    }

    fn bring_in(
        &self,
        from: &mut Lines<'_>,
        header: &Header,
        (session, options): (&SessionId, &ImportOptions),
        folder: &Path,
    ) -> Result<Seq, TapeError> {
        let anchors = folder.join("anchors");
        make_folder(&anchors)?;
        let mut ends: Option<(Chain, Chain)> = None;
        let mut noted = Noted::default();
        for anchor in &header.anchors {
            let chains = match &ends {
                Some((old, new)) => (old.in_file(&anchor.name), new.in_file(&anchor.name)),
                None => (Chain::start(&header.session, &anchor.name), Chain::start(session, &anchor.name)),
            };
            let at = anchors.join(&anchor.name);
            make_new_folder(&at).map_err(TapeError::io("make", &at))?;
            ends = Some(bring_in_anchor(from, anchor, chains, &at.join("entries.jsonl"), &mut noted)?);
            sync_folder(&at)?;
        }
        let last = ends.as_ref().map_or(Seq::ZERO, |(old, _)| old.seq);
        if last != header.last {
            return Err(from.refuse(&format!("it ends with entry {last} and not with {}", header.last)));
        }
        sync_folder(&anchors)?;
        // A session without an entry has no powers to take.
        let last = match (&options.into, ends, header.anchors.last()) {
            (Some((workspace, now)), Some((_, mut chain)), Some(newest)) => {
                let (from, workspace) = (header.session.clone(), workspace.clone());
                let spill = self.spill_path(session).map(|folder| folder.display().to_string());
                let imported = ImportedFrom { session: session.clone(), from, last, workspace, spill };
                let entries = anchors.join(&newest.name).join("entries.jsonl");
                narrowed::write(folder, &entries, &mut chain, &imported, noted.time.max(*now))?
            }
            _ => {
                // The session was brought in before: keep that mark, so a fork from before its `imported` entry gets no powers.
                if let Some((seq, imported)) = noted.imported {
                    narrowed::mark(folder, seq, imported)?;
                }
                last
            }
        };
        if !header.spills.is_empty() {
            let spills = folder.join("spill");
            make_folder(&spills)?;
            header.spills.iter().try_for_each(|spill| bring_in_spill(from, spill, &spills.join(&spill.name)))?;
            sync_folder(&spills)?;
        }
        sync_folder(folder)?;
        Ok(last)
    }
}

fn read_header(from: &mut Lines<'_>) -> Result<Header, TapeError> {
    let not_ours = "it is not a session export";
    let line = from.next()?.ok_or_else(|| TapeError::Import { line: 1, what: "it is empty".into() })?;
    // Read the version first: a later version may have other fields.
    let said: serde_json::Value = serde_json::from_slice(&line).map_err(|_| from.refuse(not_ours))?;
    if let Some(found) = said["v"].as_u64().filter(|v| *v > EXPORT_VERSION && said["tamtam"].is_string()) {
        return Err(TapeError::Newer { file: "the export".into(), found, known: EXPORT_VERSION });
    }
    let header: Header = serde_json::from_slice(&line).map_err(|error| from.refuse(&format!("{not_ours}: {error}")))?;
    if header.anchors.len() > ANCHORS_MAX || header.spills.len() > SPILLS_MAX {
        return Err(from.refuse("it has too many anchors or large outputs"));
    }
    let is_anchor = |name: &str| {
        let is_plain = plain_anchor_name(anchor_name(name)) == anchor_name(name);
        is_plain && anchor_number(name).is_some_and(|number| number <= ANCHOR_NUMBER_MAX)
    };
    let begins = header.anchors.first().is_none_or(|first| anchor_number(&first.name) == Some(1));
    let ascend = header.anchors.windows(2).all(|pair| anchor_number(&pair[0].name) < anchor_number(&pair[1].name));
    // A first anchor with another number than 1 would be taken for a fork's, and its first line would say where it continues
    // from.
    if !begins || !ascend || header.anchors.iter().any(|anchor| !is_anchor(&anchor.name)) {
        return Err(from.refuse("it has an anchor with an invalid name"));
    }
    // An anchor without a line counts as not begun, and the anchors after it would not be found.
    if header.anchors.iter().any(|anchor| anchor.lines == 0) {
        return Err(from.refuse("it has an anchor without a line"));
    }
    let is_spill = |name: &str| {
        let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
        plain && name.ends_with(".log") && !name.starts_with('.') && name.len() <= 200
    };
    let bytes = header.spills.iter().fold(0_u64, |sum, spill| sum.saturating_add(spill.bytes));
    if bytes > SPILL_BYTES_MAX || header.spills.iter().any(|spill| !is_spill(&spill.name)) {
        return Err(from.refuse("its large outputs are too large, or have invalid names"));
    }
    Ok(header)
}

/// What is remembered of the entries that were read.
#[derive(Default)]
struct Noted {
    /// The latest time of an entry.
    time: Millis,
    /// The newest `imported` entry: the session was brought in before.
    imported: Option<(Seq, ImportedFrom)>,
}

impl Noted {
    fn take(&mut self, entry: &TapeEntry) -> Result<(), String> {
        self.time = self.time.max(entry.time);
        if let Some(imported) = narrowed::of(entry) {
            let unreadable = |error| format!("entry {} cannot be understood: {error}", entry.seq);
            self.imported = Some((entry.seq, imported.map_err(unreadable)?));
        }
        Ok(())
    }
}

/// Copies the lines of one anchor, append by append, and checks each. Returns the ends of the old and of the new chain.
fn bring_in_anchor(
    from: &mut Lines<'_>,
    anchor: &Piece,
    (mut old, mut new): (Chain, Chain),
    path: &Path,
    noted: &mut Noted,
) -> Result<(Chain, Chain), TapeError> {
    let renamed = old.session != new.session;
    let file = new_file(path).map_err(TapeError::io("make", path))?;
    let mut out = BufWriter::new(file);
    let (mut hasher, mut bytes, mut lines) = (blake3::Hasher::new(), 0_u64, 0_u64);
    let mut append: Vec<u8> = Vec::new();
    while lines < anchor.lines {
        let begins = from.line + 1;
        append.clear();
        loop {
            let line = from.next()?.ok_or_else(|| from.refuse("it ends too early"))?;
            append.extend_from_slice(&line);
            append.push(b'\n');
            lines += 1;
            let more = glance(&line).map_or(0, |seen| seen.more);
            if more == 0 || lines == anchor.lines {
                break;
            }
            if append.len() > 2 * APPEND_BYTES_MAX {
                return Err(from.refuse("one append of it is too large"));
            }
        }
        hasher.update(&append);
        bytes += append.len() as u64;
        if bytes > anchor.bytes {
            return Err(from.refuse("an anchor is larger than the first line says"));
        }
        let read = decode_lines(&old, &append)?;
        match read.rest {
            Rest::Nothing => {}
            Rest::Torn { line, what } | Rest::Bad { line, what } => {
                return Err(TapeError::Import { line: begins + line as u64 - 1, what });
            }
        }
        let named = |entry| if renamed { under_new_name(entry, &old.session, &new.session) } else { entry };
        let entries: Vec<TapeEntry> = read.entries.into_iter().map(named).collect();
        entries.iter().try_for_each(|entry| noted.take(entry)).map_err(|what| from.refuse(&what))?;
        let written = encode_lines(&mut new, &entries)?;
        // JSON can say the same with other spaces or in another order. Readers that look for fields at fixed places know one form.
        if !renamed && written != append {
            return Err(TapeError::Import { line: begins, what: "the lines are not written as a tape's are".into() });
        }
        old = read.chain;
        out.write_all(&written).map_err(TapeError::io("write", path))?;
    }
    if bytes != anchor.bytes || hasher.finalize().to_hex().as_str() != anchor.hash {
        return Err(from.refuse("the lines of an anchor are not those that the first line names"));
    }
    finish(out, path)?;
    Ok((old, new))
}

/// Puts the new name into an entry that holds the session's own name; other entries stay as they are.
fn under_new_name(entry: TapeEntry, old: &SessionId, new: &SessionId) -> TapeEntry {
    let is_of_itself = matches!(entry.kind.as_str(), "state" | "forked" | "imported");
    let fields = serde_json::from_str::<std::collections::BTreeMap<String, Box<RawValue>>>(entry.data.get());
    let Some(mut fields) = fields.ok().filter(|_| is_of_itself) else { return entry };
    let said = fields.get("session").and_then(|name| serde_json::from_str::<SessionId>(name.get()).ok());
    let name = serde_json::value::to_raw_value(new);
    let (true, Ok(name)) = (said.as_ref() == Some(old), name) else { return entry };
    fields.insert("session".into(), name);
    match serde_json::value::to_raw_value(&fields) {
        Ok(data) => TapeEntry { data, ..entry },
        Err(_) => entry,
    }
}

fn bring_in_spill(from: &mut Lines<'_>, spill: &Piece, path: &Path) -> Result<(), TapeError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Part {
        spill: String,
        data: String,
    }
    let file = new_file(path).map_err(TapeError::io("make", path))?;
    let mut out = BufWriter::new(file);
    let (mut hasher, mut bytes) = (blake3::Hasher::new(), 0_u64);
    while bytes < spill.bytes {
        let line = from.next()?.ok_or_else(|| from.refuse("it ends too early"))?;
        let part: Option<Part> = serde_json::from_slice(&line).ok().filter(|part: &Part| part.spill == spill.name);
        let data = part.and_then(|part| BASE64_STANDARD.decode(part.data).ok()).filter(|data| !data.is_empty());
        let data = data.ok_or_else(|| from.refuse(&format!("a piece of {} should be there", spill.name)))?;
        bytes += data.len() as u64;
        hasher.update(&data);
        if bytes > spill.bytes {
            break;
        }
        out.write_all(&data).map_err(TapeError::io("write", path))?;
    }
    if bytes != spill.bytes || hasher.finalize().to_hex().as_str() != spill.hash {
        return Err(from.refuse(&format!("{} is not what the first line names", spill.name)));
    }
    finish(out, path)
}

fn finish(out: BufWriter<File>, path: &Path) -> Result<(), TapeError> {
    let file = out.into_inner().map_err(|error| TapeError::io("write", path)(error.into_error()))?;
    file.sync_all().map_err(TapeError::io("sync", path))
}

/// The lines of the file that is brought in, each of a bounded length.
struct Lines<'a> {
    from: &'a mut dyn BufRead,
    /// How many lines were read.
    line: u64,
    /// The longest line that is accepted, in bytes.
    of: usize,
}

impl Lines<'_> {
    /// The next line without its line break; `None` at the end.
    fn next(&mut self) -> Result<Option<Vec<u8>>, TapeError> {
        let mut line = Vec::new();
        let limit = self.of as u64 + 1;
        let read = (&mut self.from).take(limit).read_until(b'\n', &mut line);
        read.map_err(TapeError::io("read", "the export"))?;
        if line.is_empty() {
            return Ok(None);
        }
        self.line += 1;
        match line.pop() {
            Some(b'\n') => Ok(Some(line)),
            _ if line.len() >= self.of => Err(self.refuse("the line is too long")),
            _ => Err(self.refuse("the line has no end")),
        }
    }

    fn refuse(&self, what: &str) -> TapeError {
        TapeError::Import { line: self.line.max(1), what: what.to_owned() }
    }
}

/// The folder under `importing/` that a session is written into. Dropping this removes it, unless the session moved to its place.
struct Staging {
    folder: PathBuf,
    /// Held while the import runs. There is one import at a time, so everything else in `importing/` was left by a killed one.
    _lock: File,
}

impl Staging {
    fn new(store: &Store) -> Result<Staging, TapeError> {
        let importing = store.layout().root.join("importing");
        make_folder(&importing)?;
        let path = importing.join("lock");
        let lock = open_or_make(&path).map_err(TapeError::io("open", &path))?;
        lock.lock().map_err(TapeError::io("lock", &path))?;
        for left in names_in(&importing)?.iter().filter(|name| *name != "lock") {
            let left = importing.join(left);
            std::fs::remove_dir_all(&left).map_err(TapeError::io("remove", left))?;
        }
        let folder = importing.join(crate::words::ids::new_uuid().simple().to_string());
        make_new_folder(&folder).map_err(TapeError::io("make", &folder))?;
        Ok(Staging { folder, _lock: lock })
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // The folder may have moved to its place. If it cannot be removed now, the next import removes it.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[cfg(test)]
mod tests;
