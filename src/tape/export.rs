//! A session as one file, to be kept or carried to another store: a header line, the lines of its tape as they are, and its
//! large outputs where that is asked for.
//!
//! ```text
//! {"tamtam":"tape","v":1,"session":"s","last":7,"anchors":[{"folder":"001_session-start","lines":7,"bytes":2143,"hash":"…"}]}
//! {"v":1,"session":"s","seq":1,…}                     the lines, anchor after anchor, byte for byte
//! {"spill":"c1-3f2a.log","data":"aGVsbG8="}           pieces of the large outputs, in order
//! ```
//!
//! Reads beside a live writer: what was acknowledged when it began is in it, and nothing that came later, however the session goes
//! on meanwhile. What is damaged is not exported: a fork before the damage is.
//!
//! A fork goes out whole, with what it has from the sessions that it goes on from: their lines are sealed anew under its name,
//! and its first file, which is no anchor, is the end of the anchor before it. So what comes in is a tape like any other, and
//! needs nobody; its `forked` entry still says where it comes from, and does what it did.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom, Write},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::{Deserialize, Serialize};

use super::{
    Access, Damage, Entry, Store, TapeError,
    layout::{Layout, new_file},
    line::{Chain, Rest, Sum, encode_lines},
    lineage::all_parts,
    read::{again_if_damaged, open_if_there, read_file_surely},
};
use crate::{
    tool::truncate::list_spills,
    words::ids::{Seq, SessionId},
};

/// The newest version of the file that is written, and understood.
pub(super) const EXPORT_VERSION: u64 = 1;
/// Bytes of a large output in one line.
pub(super) const SPILL_PIECE_BYTES: usize = 256 * 1024;

/// So many large outputs are held open at most, with one file for the contents of all others: the descriptors are the process's.
const OUTPUTS_OPEN_MAX: usize = 64;

/// The first line of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    pub(super) tamtam: Kind,
    pub(super) v: u64,
    pub(super) session: SessionId,
    /// Its last entry.
    pub(super) last: Seq,
    pub(super) anchors: Vec<Piece>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) spills: Vec<Piece>,
}

/// What kind of file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    Tape,
}

/// One file of the session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Piece {
    /// The anchor's folder, or the name of the large output.
    pub(super) name: String,
    /// Lines of an anchor.
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// Its last entry.
    pub last: Seq,
    /// Anchors.
    pub anchors: usize,
    /// Large outputs.
    pub spills: usize,
}

/// Whether the large outputs of a session go with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spills {
    /// They stay. What the tape says of them is in the export; what was cut off is not.
    #[default]
    Left,
    /// They go with it.
    Taken,
}

impl Store {
    /// Writes a session as one file. A fork has all in it that it has from the session that it goes on from.
    ///
    /// # Errors
    ///
    /// [`TapeError::Missing`]; [`TapeError::Damaged`]: nothing is exported of a tape with a bad line; [`TapeError::Newer`];
    /// [`TapeError::Io`], also of `to`. What was written until then is no export: it does not come in anywhere.
    pub fn export(&self, session: &SessionId, spills: Spills, to: &mut dyn Write) -> Result<Exported, TapeError> {
        self.must_exist(session)?;
        let (header, outputs) = again_if_damaged(|| self.header(session, spills))?;
        let out = Path::new("the export");
        let mut line = serde_json::to_vec(&header).map_err(|error| TapeError::io("write", out)(error.into()))?;
        line.push(b'\n');
        to.write_all(&line).map_err(TapeError::io("write", out))?;
        let mut pieces = header.anchors.iter();
        self.each_anchor(session, Some(header.last), &mut |found, bytes| {
            let told = pieces.next();
            if told != Some(&found) {
                let path = self.layout().entries(session, &found.name);
                let expected = told.map_or(0, |told| told.bytes);
                return Err(TapeError::Changed { path, expected, found: found.bytes });
            }
            to.write_all(bytes).map_err(TapeError::io("write", out))
        })?;
        if let Some(gone) = pieces.next() {
            // It was deleted, or its files were: what was written is no export.
            self.must_exist(session)?;
            let path = self.layout().entries(session, &gone.name);
            return Err(TapeError::Changed { path, expected: gone.bytes, found: 0 });
        }
        for (spill, output) in header.spills.iter().zip(&outputs) {
            let bytes = output.again(spill.bytes)?;
            if Piece::of(&spill.name, 0, &bytes) != *spill {
                let (path, found) = (output.path.clone(), bytes.len() as u64);
                return Err(TapeError::Changed { path, expected: spill.bytes, found });
            }
            for piece in bytes.chunks(SPILL_PIECE_BYTES) {
                let data = BASE64_STANDARD.encode(piece);
                writeln!(to, "{}", serde_json::json!({"spill": spill.name, "data": data}))
                    .map_err(TapeError::io("write", out))?;
            }
        }
        to.flush().map_err(TapeError::io("write", out))?;
        Ok(Exported { last: header.last, anchors: header.anchors.len(), spills: header.spills.len() })
    }

    fn header(&self, session: &SessionId, spills: Spills) -> Result<(Header, Vec<Output>), TapeError> {
        let mut anchors = Vec::new();
        let last = self.each_anchor(session, None, &mut |piece, _| {
            anchors.push(piece);
            Ok(())
        })?;
        let (tamtam, v) = (Kind::Tape, EXPORT_VERSION);
        let mut header = Header { tamtam, v, session: session.clone(), last, anchors, spills: Vec::new() };
        let mut outputs = Vec::new();
        if spills == Spills::Taken {
            let folder = self.layout().session(session).join("spill");
            let mut copies = None;
            // The newest first: those that are being written, or go with a call that is cut off, are held open.
            for spill in list_spills(&folder).map_err(TapeError::io("list", &folder))?.into_iter().rev() {
                let Some(name) = spill.path.file_name().and_then(|name| name.to_str()) else { continue };
                let name = name.to_owned();
                let Some(mut output) = Output::open(spill.path)? else { continue };
                let bytes = output.again(u64::MAX)?;
                if outputs.len() >= OUTPUTS_OPEN_MAX {
                    // The oldest are those that are tidied up while it goes out. Where nothing can be written, they are opened
                    // once more.
                    let copies = copies.get_or_insert_with(|| match self.access() {
                        Access::Write => Copies::make(self.layout()).ok(),
                        Access::Read => None,
                    });
                    output.file = None;
                    output.copy = copies.as_mut().and_then(|copies| copies.take(&bytes).ok());
                }
                header.spills.push(Piece::of(&name, 0, &bytes));
                outputs.push(output);
            }
            header.spills.reverse();
            outputs.reverse();
        }
        Ok((header, outputs))
    }

    /// The lines of each anchor, oldest first, up to that entry, which ends an append; all there are where none is named. One
    /// anchor at a time is in memory. Gives the last entry.
    fn each_anchor(
        &self,
        session: &SessionId,
        until: Option<Seq>,
        each: &mut impl FnMut(Piece, &[u8]) -> Result<(), TapeError>,
    ) -> Result<Seq, TapeError> {
        let layout = self.layout();
        let parts = all_parts(layout, session)?;
        // From the first line that is another's on, the sums are other ones.
        let mut sealing = Sealing { session, anew: parts.iter().any(|part| part.session != *session), chain: None };
        let mut anchor: Option<(String, u64, Vec<u8>)> = None;
        let mut before: Option<(Seq, Sum)> = None;
        let mut last = Seq::ZERO;
        for (n, part) in parts.iter().enumerate() {
            let (mut bytes, mut read) = read_file_surely(layout, &part.session, &part.anchor)?;
            // An anchor that was begun since then.
            if until.is_some_and(|until| read.entries.first().is_some_and(|first| first.seq > until)) {
                break;
            }
            let damaged = |line, what: String| {
                let file = layout.entries(&part.session, &part.anchor);
                Err(TapeError::Damaged(Damage { file, line, what, last_good: read.chain.seq }))
            };
            // What is behind the place of the fork is nothing to it, also where it begins with the very next line.
            let through = part.through.or(until).filter(|through| *through <= read.chain.seq);
            match &read.rest {
                _ if through.is_some() => {}
                Rest::Bad { line, what } => return damaged(*line, what.clone()),
                Rest::Torn { line, what } if n + 1 < parts.len() => return damaged(*line, what.clone()),
                // What is being written just now.
                Rest::Torn { .. } | Rest::Nothing => {}
            }
            if read.entries.is_empty() {
                continue;
            }
            if before.is_some_and(|before| before != read.began) || (n == 0 && part.goes_on) {
                return damaged(1, "it does not go on from the one before".into());
            }
            let kept = through.map_or(read.entries.len(), |through| {
                read.entries.iter().take_while(|entry| entry.seq <= through).count()
            });
            let end = read.offsets.get(kept).copied().unwrap_or(read.good_bytes);
            before = match kept.checked_sub(1) {
                Some(newest) if kept < read.entries.len() => {
                    let from = read.offsets[newest];
                    Sum::at_end_of(&bytes[from..end]).map(|sum| (read.entries[newest].seq, sum))
                }
                _ => Some((read.chain.seq, read.chain.sum)),
            };
            read.entries.truncate(kept);
            read.more.truncate(kept);
            bytes.truncate(end);
            last = read.entries.last().map_or(last, |entry| entry.seq);
            // A fork's first file goes on in the anchor before it.
            if !part.goes_on
                && let Some((name, lines, bytes)) = anchor.take()
            {
                each(Piece::of(&name, lines, &bytes), &bytes)?;
            }
            let (name, lines, of_anchor) = anchor.get_or_insert_with(|| (part.anchor.clone(), 0, Vec::new()));
            *lines += read.entries.len() as u64;
            if sealing.anew {
                sealing.seal(name, &read.entries, &read.more, of_anchor)?;
            } else {
                *of_anchor = bytes;
            }
        }
        if let Some((name, lines, bytes)) = anchor {
            each(Piece::of(&name, lines, &bytes), &bytes)?;
        }
        Ok(last)
    }
}

/// A large output that goes with a session. Held open or copied, so that it can be read again also where it was removed meanwhile.
struct Output {
    path: PathBuf,
    file: Option<File>,
    /// The file of all copies, and where in it this one begins.
    copy: Option<(Arc<File>, u64)>,
}

/// The contents of large outputs, one behind the other, in a file that has no name: it is gone when it is closed.
struct Copies {
    file: Arc<File>,
    length: u64,
}

impl Copies {
    fn make(layout: &Layout) -> io::Result<Copies> {
        let path = layout.root.join(format!(".export-{}", uuid::Uuid::now_v7().simple()));
        let file = new_file(&path)?;
        std::fs::remove_file(&path)?;
        Ok(Copies { file: Arc::new(file), length: 0 })
    }

    fn take(&mut self, bytes: &[u8]) -> io::Result<(Arc<File>, u64)> {
        let at = self.length;
        self.file.write_all_at(bytes, at)?;
        self.length += bytes.len() as u64;
        Ok((Arc::clone(&self.file), at))
    }
}

impl Output {
    /// `None` where it is gone.
    fn open(path: PathBuf) -> Result<Option<Output>, TapeError> {
        Ok(open_if_there(&path)?.map(|file| Output { path, file: Some(file), copy: None }))
    }

    /// Its first bytes: it may have grown.
    fn again(&self, bytes: u64) -> Result<Vec<u8>, TapeError> {
        let mut read = Vec::new();
        let mut all = |file: &File, from| {
            let mut file = file;
            file.seek(SeekFrom::Start(from)).and_then(|_| file.take(bytes).read_to_end(&mut read))
        };
        match (&self.file, &self.copy) {
            (Some(file), _) => all(file, 0),
            (None, Some((copies, at))) => all(copies, *at),
            (None, None) => File::open(&self.path).and_then(|file| all(&file, 0)),
        }
        .map_err(TapeError::io("read", &self.path))?;
        Ok(read)
    }
}

/// Writes lines again under the name of another session, append by append.
struct Sealing<'s> {
    session: &'s SessionId,
    /// Whether that is needed.
    anew: bool,
    chain: Option<Chain>,
}

impl Sealing<'_> {
    fn seal(&mut self, anchor: &str, entries: &[Entry], more: &[usize], out: &mut Vec<u8>) -> Result<(), TapeError> {
        let mut chain = match self.chain.take() {
            None => Chain::start(self.session, anchor),
            Some(chain) if &*chain.anchor == anchor => chain,
            Some(chain) => chain.in_file(anchor),
        };
        let mut from = 0;
        for (at, _) in more.iter().enumerate().filter(|(_, more)| **more == 0) {
            out.extend(encode_lines(&mut chain, &entries[from..=at])?);
            from = at + 1;
        }
        self.chain = Some(chain);
        Ok(())
    }
}
