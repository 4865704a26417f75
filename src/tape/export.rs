//! Exporting a session as one file, to keep it or to carry it to another store: a header line, the lines of its tape, and on
//! request its large outputs.
//!
//! ```text
//! {"tamtam":"tape","v":1,"session":"s","last":7,"anchors":[{"name":"001_session-start","lines":7,"bytes":2143,"hash":"…"}]}
//! {"v":1,"session":"s","seq":1,…}                     the lines, anchor after anchor
//! {"spill":"c1-3f2a.log","data":"aGVsbG8="}           pieces of the large outputs, in order
//! ```
//!
//! The file has every entry that was acknowledged when the export began, and may have some that came while it read the tape. A
//! damaged tape is not exported; a fork from an entry before the damage can be. The export changes nothing of the session, takes
//! no lock, and runs alongside a live writer. It blocks.
//!
//! The lines of a session that is not a fork come out byte for byte. The export of a fork also has the entries of its parents, so
//! an import needs no other session; all lines are sealed again (with new ids and checksums) under the fork's name. Large outputs
//! from before the fork stay with the parents. The fork's first file is not an anchor, so it is joined to the anchor before it.
//!
//! The file is a stored format: a new field of [`Header`] or [`Piece`] needs a new [`EXPORT_VERSION`], since a reader refuses
//! unknown fields. A change must not put into the export what was not asked for: entries that a parent wrote after the point of the
//! fork, or the old contents of files (the folder `files/`).

use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, Read as _, Seek as _, Write},
    path::{Path, PathBuf},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::{Deserialize, Serialize};

use super::{
    Anchor, Damage, Position, TapeEntry, TapeError, TapeStore,
    layout::new_file,
    line::{Chain, encode_lines},
    lineage::FORKS_OF_FORKS_MAX,
    read::open_if_there,
    whole::{END, anchors, must_be_shown, range},
};
use crate::{
    tool::truncate::{SpillEntry, list_spills},
    words::ids::{Seq, SessionId},
};

/// The newest version of the file that is written, and understood.
pub(super) const EXPORT_VERSION: u64 = 1;
/// The most bytes of a large output in one line.
pub(super) const SPILL_PIECE_BYTES: usize = 256 * 1024;

/// The first line of the file. Stored format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    pub(super) tamtam: Kind,
    pub(super) v: u64,
    pub(super) session: SessionId,
    /// The number of its last entry.
    pub(super) last: Seq,
    pub(super) anchors: Vec<Piece>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) spills: Vec<Piece>,
}

/// The kind of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    Tape,
}

/// One file of the session in the header: an anchor's, or a large output. Stored format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Piece {
    /// The anchor's folder, or the name of the large output.
    pub(super) name: String,
    /// How many lines the anchor has; 0 for a large output.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) lines: u64,
    pub(super) bytes: u64,
    /// BLAKE3 of its bytes, 64 hex digits.
    pub(super) hash: String,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl Piece {
    pub(super) fn of(name: &str, lines: u64, bytes: &[u8]) -> Piece {
        let hash = blake3::hash(bytes).to_hex().to_string();
        Piece { name: name.to_owned(), lines, bytes: bytes.len() as u64, hash }
    }
}

/// What an export holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Exported {
    /// The last entry.
    pub last: Seq,
    /// How many anchors.
    pub anchors: usize,
    /// How many large outputs.
    pub spills: usize,
}

/// Whether the large outputs of a session go with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Spills {
    /// They stay behind. The tape still has the shortened outputs; the parts that were cut off are not in the export.
    #[default]
    Left,
    /// They are in the export: those that the session made itself. Those of the sessions that a fork continues from are not.
    Taken,
}

/// [`TapeStoreExt::export`](super::TapeStoreExt::export).
pub(super) fn export<S: TapeStore + ?Sized>(
    store: &S,
    session: &SessionId,
    spills: Spills,
    to: &mut dyn Write,
) -> Result<Exported, TapeError> {
    let failed = |error| TapeError::io("write", "the export")(error);
    must_be_shown(store, session)?;
    let began = first(store, session)?;
    let entries = range(store, session, Seq(1), END)?;
    let last = entries.last().map_or(Seq::ZERO, |entry| entry.seq);
    let place = store.position(session, last)?;
    let begun = if entries.is_empty() { Vec::new() } else { anchors(store, session)? };
    let sealed = sealed(session, &entries, &ends(store, session, last)?, &begun)?;
    drop(entries);
    let mut outputs = match spills {
        Spills::Taken => Outputs::of(store, session)?,
        Spills::Left => Outputs::none(store, session),
    };
    let header = Header {
        tamtam: Kind::Tape,
        v: EXPORT_VERSION,
        session: session.clone(),
        last,
        anchors: sealed.iter().map(|(name, lines, bytes)| Piece::of(name, *lines, bytes)).collect(),
        spills: outputs.spills.clone(),
    };
    serde_json::to_writer(&mut *to, &header).map_err(|error| failed(error.into()))?;
    to.write_all(b"\n").map_err(failed)?;
    sealed.iter().try_for_each(|(_, _, bytes)| to.write_all(bytes)).map_err(failed)?;
    for n in 0..outputs.spills.len() {
        let (bytes, name) = (outputs.again(n)?, &outputs.spills[n].name);
        for piece in bytes.chunks(SPILL_PIECE_BYTES) {
            let data = BASE64_STANDARD.encode(piece);
            writeln!(to, "{}", serde_json::json!({"spill": name, "data": data})).map_err(failed)?;
        }
    }
    to.flush().map_err(failed)?;
    // If the session was deleted meanwhile, fail, also where another one has its name by now: nothing that is gone must be backed up.
    must_be_shown(store, session)?;
    let is_same = began.is_none() || first(store, session)? == began;
    if !is_same || store.position(session, last)? != place {
        return Err(TapeError::Missing { session: session.clone() });
    }
    Ok(Exported { last, anchors: header.anchors.len(), spills: header.spills.len() })
}

/// The end of the first append of its own that a session has: by its checksum, which an engine may keep for the ends of appends alone,
/// another session of this name and length has another one.
fn first<S: TapeStore + ?Sized>(store: &S, session: &SessionId) -> Result<Option<Position>, TapeError> {
    let Some(part) = store.parts(session)?.into_iter().next() else { return Ok(None) };
    match store.position(session, part.first)? {
        Some(begun) if begun.more > 0 => store.position(session, Seq(part.first.0 + begun.more)),
        begun => Ok(begun),
    }
}

/// The entries up to `last` that end an append, also of the tapes that a fork continues from.
fn ends<S: TapeStore + ?Sized>(store: &S, session: &SessionId, last: Seq) -> Result<BTreeSet<Seq>, TapeError> {
    let (mut tape, mut through, mut ends) = (session.clone(), last, BTreeSet::new());
    for _ in 0..=FORKS_OF_FORKS_MAX {
        ends.extend(store.ends(&tape, through)?);
        let Some(from) = store.summary(&tape)?.from else { return Ok(ends) };
        (tape, through) = (from.parent, through.min(from.seq));
    }
    Err(TapeError::TooDeep { session: tape, max: FORKS_OF_FORKS_MAX })
}

/// The lines of a tape by anchors (folder, number of lines, bytes), sealed as a tape of `session`'s own. The same appends make the
/// same lines, so those of a session that is not a fork come out byte for byte. A fork's first part is no anchor: it becomes the end
/// of the anchor before it.
fn sealed(
    session: &SessionId,
    entries: &[TapeEntry],
    ends: &BTreeSet<Seq>,
    begun: &[Anchor],
) -> Result<Vec<(String, u64, Vec<u8>)>, TapeError> {
    let mut anchors: Vec<(String, u64, Vec<u8>)> = Vec::new();
    let (mut chain, mut begun) = (Chain::start(session, ""), begun.iter().peekable());
    for append in entries.chunk_by(|one, _| !ends.contains(&one.seq)) {
        if let Some(anchor) = begun.next_if(|anchor| append.first().is_some_and(|first| first.seq == anchor.first)) {
            let folder = format!("{:03}_{}", anchor.number, anchor.name);
            chain = chain.in_file(&folder);
            anchors.push((folder, 0, Vec::new()));
        }
        let Some((_, lines, bytes)) = anchors.last_mut() else {
            let what = "the anchors before it are missing".to_owned();
            return Err(TapeError::Damaged(Damage::new(session.as_str(), 1, what, Seq::ZERO)));
        };
        *lines += append.len() as u64;
        bytes.extend(encode_lines(&mut chain, append)?);
    }
    Ok(anchors)
}

/// The large outputs of an export. All are copied into one nameless file first, so that an output that is removed meanwhile goes
/// out too. If that file cannot be written, the outputs are read a second time.
struct Outputs<'s, S: ?Sized> {
    store: &'s S,
    session: &'s SessionId,
    /// Where they are as files; `None` in a store that keeps them itself.
    folder: Option<PathBuf>,
    spills: Vec<Piece>,
    copies: Option<File>,
}

impl<'s, S: TapeStore + ?Sized> Outputs<'s, S> {
    fn none(store: &'s S, session: &'s SessionId) -> Outputs<'s, S> {
        Outputs { store, session, folder: None, spills: Vec::new(), copies: None }
    }

    /// The large outputs of a session as they are now, by name: a file that was imported is exported as it came in, although its
    /// files are younger.
    fn of(store: &'s S, session: &'s SessionId) -> Result<Outputs<'s, S>, TapeError> {
        let folder = store.folder(Some(session)).map(|folder| folder.join("spill"));
        let beside = store.folder(None).or_else(|| store.output_copies());
        let mut outputs = Outputs {
            folder,
            // Such as before the first output of this process, the folder may not be there.
            copies: beside.and_then(|beside| {
                crate::tool::truncate::private_folder(&beside).and_then(|()| nameless(&beside)).ok()
            }),
            ..Outputs::none(store, session)
        };
        for name in outputs.names()? {
            let Some(bytes) = outputs.read(&name, u64::MAX)? else { continue };
            if outputs.copies.as_mut().is_some_and(|copies| copies.write_all(&bytes).is_err()) {
                outputs.copies = None;
            }
            outputs.spills.push(Piece::of(&name, 0, &bytes));
        }
        if let Some(copies) = &mut outputs.copies {
            copies.rewind().map_err(TapeError::io("read", "the copies of large outputs"))?;
        }
        Ok(outputs)
    }

    /// The bytes of the nth output, checked against its hash. Call it in order.
    fn again(&mut self, n: usize) -> Result<Vec<u8>, TapeError> {
        let spill = &self.spills[n];
        let bytes = match &mut self.copies {
            Some(copies) => {
                let mut bytes = Vec::new();
                let read = copies.take(spill.bytes).read_to_end(&mut bytes);
                read.map_err(TapeError::io("read", self.path(&spill.name)))?;
                bytes
            }
            // The output may have grown since: read no more than its size in the header.
            None => self.read(&spill.name, spill.bytes)?.unwrap_or_default(),
        };
        if Piece::of(&spill.name, 0, &bytes) != *spill {
            let (path, found) = (self.path(&spill.name), bytes.len() as u64);
            return Err(TapeError::Changed { path, expected: spill.bytes, found });
        }
        Ok(bytes)
    }

    fn names(&self) -> Result<Vec<String>, TapeError> {
        let Some(folder) = &self.folder else {
            return Ok(self.store.outputs(self.session)?.into_iter().map(|(name, _)| name).collect());
        };
        let found = list_spills(folder).map_err(TapeError::io("list", folder))?;
        let name = |spill: &SpillEntry| Some(spill.path.file_name()?.to_str()?.to_owned());
        let mut names: Vec<_> = found.iter().filter_map(name).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// The first bytes of an output; `None` if it is gone.
    fn read(&self, name: &str, most: u64) -> Result<Option<Vec<u8>>, TapeError> {
        let mut bytes = Vec::new();
        let Some(folder) = &self.folder else {
            let is_there = self.store.get_output(self.session, name, &mut bytes)?;
            return Ok(is_there.then_some(bytes));
        };
        let path = folder.join(name);
        let Some(file) = open_if_there(&path)? else { return Ok(None) };
        file.take(most).read_to_end(&mut bytes).map_err(TapeError::io("read", &path))?;
        Ok(Some(bytes))
    }

    /// What an error calls an output.
    fn path(&self, name: &str) -> PathBuf {
        self.folder.as_ref().map_or_else(|| PathBuf::from(name), |folder| folder.join(name))
    }
}

/// A file without a name: it is gone when it is closed, also after a crash.
fn nameless(folder: &Path) -> io::Result<File> {
    let path = folder.join(format!(".export-{}", crate::words::ids::new_uuid().simple()));
    let file = new_file(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}
