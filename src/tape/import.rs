//! Importing a session from a file that [`TapeStoreExt::export`](super::TapeStoreExt::export) wrote: all of it or nothing.
//!
//! ```text
//! lines of the file ─► Incoming: checks, names, seals again ─► pieces ─► TapeStore::take_in: the engine makes all or nothing
//! ```
//!
//! The form of the file is never trusted. Each line is checked as on a tape and given on as this library writes it; names are
//! checked before they become paths; nothing is larger than the header says. The header, each line and append, the number of
//! anchors, and the large outputs have separate bounds; the tape as a whole has none. An engine makes the session in one step behind
//! the last piece (`store/take_in.rs`: by one rename), so after any error, and after a crash at any point, either the whole session
//! exists or nothing of it.
//! Anyone can make a sound file. So the session ends with an entry that keeps its words and takes its powers away ([`narrowed`]),
//! unless the host says that the file is its own ([`ImportOptions::as_it_was`]) or the session has no entry. In all other cases a
//! change must not let a session get its place without that entry and the mark next to the tape. It must keep every bound, and must
//! not use a name or a length before it was checked. Blocks.

use std::{
    collections::{BTreeSet, VecDeque},
    io::{BufRead, Read as _},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    TapeEntry, TapeError, TapePiece, TapeStore, TapeStoreExt as _,
    export::{EXPORT_VERSION, Header, Piece},
    handle::APPEND_BYTES_MAX,
    layout::{anchor_name, anchor_number, plain_anchor_name},
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

/// [`TapeStoreExt::import`](super::TapeStoreExt::import).
pub(super) fn import<S: TapeStore + ?Sized>(
    store: &S,
    from: &mut dyn BufRead,
    options: &ImportOptions,
) -> Result<Imported, TapeError> {
    let mut from = Lines { from, line: 0, of: HEADER_BYTES_MAX };
    let header = read_header(&mut from)?;
    from.of = LINE_BYTES_MAX;
    let session = options.as_id.as_ref().unwrap_or(&header.session).clone();
    let spill = store.spill_path(&session);
    if !header.spills.is_empty() && spill.is_none() {
        return Err(from.refuse("it has large outputs, and this store has no place for them: export it without them"));
    }
    let (anchors, spills) = (header.anchors.len(), header.spills.len());
    let spill = spill.map(|folder| folder.display().to_string());
    let mut incoming = Incoming::new(from, header, session.clone(), options, spill);
    store.take_in(&session, &mut incoming)?;
    Ok(Imported { session, last: incoming.last, anchors, spills })
}

/// The pieces of a file, each checked before it is given on. After an error nothing more may be taken.
struct Incoming<'a> {
    from: Lines<'a>,
    header: Header,
    session: SessionId,
    options: &'a ImportOptions,
    spill_path: Option<String>,
    /// The anchors and the large outputs that are read to their end.
    anchors: usize,
    spills: usize,
    /// What was read of the anchor or the large output that is being read.
    read: Option<Reading>,
    /// The ends of the tape in the file, and of that which is made of it.
    ends: Option<(Chain, Chain)>,
    noted: Noted,
    /// What follows the tape of the file, once that is read.
    closing: Option<VecDeque<TapePiece>>,
    /// The last entry of the session.
    last: Seq,
}

#[derive(Default)]
struct Reading {
    hasher: blake3::Hasher,
    bytes: u64,
    lines: u64,
}

impl Reading {
    fn is_all_of(&self, piece: &Piece) -> bool {
        self.bytes == piece.bytes && self.hasher.finalize().to_hex().as_str() == piece.hash
    }
}

impl Iterator for Incoming<'_> {
    type Item = Result<TapePiece, TapeError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.piece().transpose()
    }
}

impl<'a> Incoming<'a> {
    fn new(
        from: Lines<'a>,
        header: Header,
        session: SessionId,
        options: &'a ImportOptions,
        spill_path: Option<String>,
    ) -> Incoming<'a> {
        let (read, ends, noted, closing) = (None, None, Noted::default(), None);
        let (anchors, spills, last) = (0, 0, Seq::ZERO);
        Incoming { from, header, session, options, spill_path, anchors, spills, read, ends, noted, closing, last }
    }

    fn piece(&mut self) -> Result<Option<TapePiece>, TapeError> {
        while let Some(anchor) = self.header.anchors.get(self.anchors).cloned() {
            if self.read.as_ref().is_none_or(|read| read.lines < anchor.lines) {
                return self.append(&anchor).map(Some);
            }
            let read = self.read.take().unwrap_or_default();
            if !read.is_all_of(&anchor) {
                return Err(self.from.refuse("the lines of an anchor are not those that the first line names"));
            }
            self.anchors += 1;
        }
        if self.closing.is_none() {
            self.closing = Some(self.close()?);
        }
        if let Some(piece) = self.closing.as_mut().and_then(VecDeque::pop_front) {
            return Ok(Some(piece));
        }
        while let Some(spill) = self.header.spills.get(self.spills).cloned() {
            if self.read.as_ref().is_none_or(|read| read.bytes < spill.bytes) {
                return self.spill(&spill).map(Some);
            }
            let read = self.read.take().unwrap_or_default();
            if !read.is_all_of(&spill) {
                return Err(self.from.refuse(&format!("{} is not what the first line names", spill.name)));
            }
            self.spills += 1;
        }
        match self.from.next()? {
            None => Ok(None),
            Some(_) => Err(self.from.refuse("there is data after its end")),
        }
    }

    /// The next append of an anchor.
    fn append(&mut self, anchor: &Piece) -> Result<TapePiece, TapeError> {
        let (old, mut new) = match (&self.ends, &self.read) {
            (Some(ends), Some(_)) => ends.clone(),
            (Some((old, new)), None) => (old.in_file(&anchor.name), new.in_file(&anchor.name)),
            (None, _) => (Chain::start(&self.header.session, &anchor.name), Chain::start(&self.session, &anchor.name)),
        };
        let (begins, read) = (self.from.line + 1, self.read.get_or_insert_default());
        let mut append: Vec<u8> = Vec::new();
        loop {
            let line = self.from.next()?.ok_or_else(|| self.from.refuse("it ends too early"))?;
            append.extend_from_slice(&line);
            append.push(b'\n');
            read.lines += 1;
            let more = glance(&line).map_or(0, |seen| seen.more);
            if more == 0 || read.lines == anchor.lines {
                break;
            }
            if append.len() > 2 * APPEND_BYTES_MAX {
                return Err(self.from.refuse("one append of it is too large"));
            }
        }
        read.hasher.update(&append);
        read.bytes += append.len() as u64;
        if read.bytes > anchor.bytes {
            return Err(self.from.refuse("an anchor is larger than the first line says"));
        }
        let decoded = decode_lines(&old, &append)?;
        match decoded.rest {
            Rest::Nothing => {}
            Rest::Torn { line, what } | Rest::Bad { line, what } => {
                return Err(TapeError::Import { line: begins + line as u64 - 1, what });
            }
        }
        let renamed = old.session != new.session;
        let named = |entry| if renamed { under_new_name(entry, &old.session, &new.session) } else { entry };
        let entries: Vec<TapeEntry> = decoded.entries.into_iter().map(named).collect();
        let noted = &mut self.noted;
        entries.iter().try_for_each(|entry| noted.take(entry)).map_err(|what| self.from.refuse(&what))?;
        let written = encode_lines(&mut new, &entries)?;
        // JSON can say the same with other spaces or in another order. Readers that look for fields at fixed places know one form.
        if !renamed && written != append {
            return Err(TapeError::Import { line: begins, what: "the lines are not written as a tape's are".into() });
        }
        self.ends = Some((decoded.chain, new));
        Ok(TapePiece::Append { part: anchor.name.clone(), entries })
    }

    /// What follows the tape of the file: the entry that takes the powers of the session, and the mark next to it.
    fn close(&mut self) -> Result<VecDeque<TapePiece>, TapeError> {
        self.last = self.ends.as_ref().map_or(Seq::ZERO, |(old, _)| old.seq);
        if self.last != self.header.last {
            let (ends, said) = (self.last, self.header.last);
            return Err(self.from.refuse(&format!("it ends with entry {ends} and not with {said}")));
        }
        // A session without an entry has no powers to take.
        let (Some((workspace, now)), Some(newest)) = (&self.options.into, self.header.anchors.last()) else {
            // The session was brought in before: keep that mark, so a fork from before its `imported` entry gets no powers.
            return Ok(self
                .noted
                .imported
                .take()
                .map(|(seq, imported)| narrowed::mark(seq, imported))
                .into_iter()
                .collect());
        };
        let (session, from, workspace) = (self.session.clone(), self.header.session.clone(), workspace.clone());
        let imported = ImportedFrom { session, from, last: self.last, workspace, spill: self.spill_path.clone() };
        self.last = self.last.next();
        let entries = vec![imported.entry(self.last, self.noted.time.max(*now))];
        let append = TapePiece::Append { part: newest.name.clone(), entries };
        Ok([append, narrowed::mark(self.last, imported)].into())
    }

    /// The next bytes of a large output; first none, so that an empty one is there too.
    fn spill(&mut self, spill: &Piece) -> Result<TapePiece, TapeError> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Part {
            spill: String,
            data: String,
        }
        let name = spill.name.clone();
        let Some(read) = &mut self.read else {
            self.read = Some(Reading::default());
            return Ok(TapePiece::Spill { name, bytes: Vec::new() });
        };
        let line = self.from.next()?.ok_or_else(|| self.from.refuse("it ends too early"))?;
        let part: Option<Part> = serde_json::from_slice(&line).ok().filter(|part: &Part| part.spill == name);
        let bytes = part.and_then(|part| BASE64_STANDARD.decode(part.data).ok()).filter(|bytes| !bytes.is_empty());
        let bytes = bytes.ok_or_else(|| self.from.refuse(&format!("a piece of {name} should be there")))?;
        read.bytes += bytes.len() as u64;
        read.hasher.update(&bytes);
        if read.bytes > spill.bytes {
            return Err(self.from.refuse(&format!("{name} is not what the first line names")));
        }
        Ok(TapePiece::Spill { name, bytes })
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
    let begins = header.anchors.first().is_none_or(|first| anchor_number(&first.name) == Some(1));
    let ascend = header.anchors.windows(2).all(|pair| anchor_number(&pair[0].name) < anchor_number(&pair[1].name));
    // A first anchor with another number than 1 would be taken for a fork's, and its first line would say where it continues
    // from.
    if !begins || !ascend || header.anchors.iter().any(|anchor| !is_anchor_name(&anchor.name)) {
        return Err(from.refuse("it has an anchor with an invalid name"));
    }
    // An anchor without a line counts as not begun, and the anchors after it would not be found.
    if header.anchors.iter().any(|anchor| anchor.lines == 0) {
        return Err(from.refuse("it has an anchor without a line"));
    }
    let bytes = header.spills.iter().fold(0_u64, |sum, spill| sum.saturating_add(spill.bytes));
    if bytes > SPILL_BYTES_MAX || header.spills.iter().any(|spill| !is_spill_name(&spill.name)) {
        return Err(from.refuse("its large outputs are too large, or have invalid names"));
    }
    // One behind the other, they would become one file.
    let names: BTreeSet<&str> = header.spills.iter().map(|spill| &*spill.name).collect();
    if names.len() < header.spills.len() {
        return Err(from.refuse("it has two large outputs of one name"));
    }
    Ok(header)
}

pub(super) fn is_anchor_name(name: &str) -> bool {
    let is_plain = plain_anchor_name(anchor_name(name)) == anchor_name(name);
    is_plain && anchor_number(name).is_some_and(|number| number <= ANCHOR_NUMBER_MAX)
}

pub(super) fn is_spill_name(name: &str) -> bool {
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
    plain && name.ends_with(".log") && !name.starts_with('.') && name.len() <= 200
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

#[cfg(test)]
mod tests;
