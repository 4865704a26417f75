//! A session as one file, to be kept or carried to another store: a header line, the lines of its tape as they are, and its
//! large outputs where that is asked for.
//!
//! ```text
//! {"tamtam":"tape","v":1,"session":"s","last":7,"anchors":[{"folder":"001_session-start","lines":7,"bytes":2143,"hash":"…"}]}
//! {"v":1,"session":"s","seq":1,…}                     the lines, anchor after anchor, byte for byte
//! {"spill":"c1-3f2a.log","data":"aGVsbG8="}           pieces of the large outputs, in order
//! ```
//!
//! Reads beside a live writer: what was acknowledged when it began is in it. What is damaged is not exported.

use std::{io::Write, path::Path};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::{Deserialize, Serialize};

use super::{
    Damage, Store, TapeError,
    line::Rest,
    read::{again_if_damaged, read_file},
};
use crate::{
    ids::{Seq, SessionId},
    tool::truncate::list_spills,
};

/// The newest version of the file that is written, and understood.
pub(super) const EXPORT_VERSION: u64 = 1;
/// Bytes of a large output in one line.
pub(super) const SPILL_PIECE_BYTES: usize = 256 * 1024;

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
    /// Writes a session as one file.
    ///
    /// # Errors
    ///
    /// [`TapeError::Missing`]; [`TapeError::Damaged`]: nothing is exported of a tape with a bad line; [`TapeError::Newer`];
    /// [`TapeError::Io`], also of `to`. What was written until then is no export: it does not come in anywhere.
    pub fn export(&self, session: &SessionId, spills: Spills, to: &mut dyn Write) -> Result<Exported, TapeError> {
        self.must_exist(session)?;
        let header = again_if_damaged(|| self.header(session, spills))?;
        let out = Path::new("the export");
        let mut line = serde_json::to_vec(&header).map_err(|error| TapeError::io("write", out)(error.into()))?;
        line.push(b'\n');
        to.write_all(&line).map_err(TapeError::io("write", out))?;
        for anchor in &header.anchors {
            let (mut bytes, _) = read_file(self.layout(), session, &anchor.name)?;
            bytes.truncate(usize::try_from(anchor.bytes).unwrap_or(usize::MAX));
            if Piece::of(&anchor.name, anchor.lines, &bytes) != *anchor {
                let path = self.layout().entries(session, &anchor.name);
                return Err(TapeError::Changed { path, expected: anchor.bytes, found: bytes.len() as u64 });
            }
            to.write_all(&bytes).map_err(TapeError::io("write", out))?;
        }
        for spill in &header.spills {
            let path = self.spill_path(session).join(&spill.name);
            let bytes = std::fs::read(&path).map_err(TapeError::io("read", &path))?;
            if Piece::of(&spill.name, 0, &bytes) != *spill {
                return Err(TapeError::Changed { path, expected: spill.bytes, found: bytes.len() as u64 });
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

    fn header(&self, session: &SessionId, spills: Spills) -> Result<Header, TapeError> {
        let layout = self.layout();
        let folders = layout.anchor_names(session)?;
        let mut header = Header {
            tamtam: Kind::Tape,
            v: EXPORT_VERSION,
            session: session.clone(),
            last: Seq::ZERO,
            anchors: Vec::new(),
            spills: Vec::new(),
        };
        let mut before = None;
        for (n, anchor) in folders.iter().enumerate() {
            let (bytes, read) = read_file(layout, session, anchor)?;
            let damaged = |line, what: String| {
                let file = layout.entries(session, anchor);
                Err(TapeError::Damaged(Damage { file, line, what, last_good: read.chain.seq }))
            };
            match &read.rest {
                Rest::Bad { line, what } => return damaged(*line, what.clone()),
                Rest::Torn { line, what } if n + 1 < folders.len() => return damaged(*line, what.clone()),
                // What is being written just now.
                Rest::Torn { .. } | Rest::Nothing => {}
            }
            if read.entries.is_empty() {
                continue;
            }
            if before.is_some_and(|before| before != read.began) {
                return damaged(1, "the anchor does not go on from the one before".into());
            }
            before = Some((read.chain.seq, read.chain.sum));
            header.last = read.chain.seq;
            header.anchors.push(Piece::of(anchor, read.entries.len() as u64, &bytes[..read.good_bytes]));
        }
        if spills == Spills::Taken {
            let folder = self.spill_path(session);
            for spill in list_spills(&folder).map_err(TapeError::io("list", &folder))? {
                let Some(name) = spill.path.file_name().and_then(|name| name.to_str()) else { continue };
                let bytes = std::fs::read(&spill.path).map_err(TapeError::io("read", &spill.path))?;
                header.spills.push(Piece::of(name, 0, &bytes));
            }
        }
        Ok(header)
    }
}
