//! [`TapeLines`]: the lines of a tape, for an engine that keeps them elsewhere than in files.
//!
//! An engine may keep entries in any form. One that keeps them as lines has the checksums of files, finds a line that was changed
//! behind its back, and gives the same bytes back that a store of files would have written: a tape can move between the two. The
//! line itself is in `line.rs`; this is its door for other crates, and holds no state but a place. Pure, without I/O.

use super::{
    Damage, TapeEntry, TapeError,
    layout::plain_anchor_name,
    line::{Chain, Rest, Sum, decode_lines, encode_lines, entry_of},
};
use crate::words::ids::{Seq, SessionId};

/// A place between two lines of a tape, from which its next line is written or read. `docs/TAPE.md` specifies the line.
///
/// ```
/// use tamtam::{Millis, Seq, SessionId, tape::{TapeEntry, TapeLines}};
///
/// let session: SessionId = "s".parse()?;
/// let entry = TapeEntry::new(Seq(1), Millis(1), "note", serde_json::value::to_raw_value("hello")?);
/// let start = TapeLines::after(&session, "", Seq(0), "");
/// let lines = start.clone().encode("001_session-start", &[entry.clone()])?;
/// let mut read = Vec::new();
/// start.clone().decode("001_session-start", &lines[0].0, &mut read)?;
/// assert_eq!(read, [entry]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct TapeLines(Chain);

impl TapeLines {
    /// The place after the entry `seq` with the checksum `sum`, in the part `anchor` (`NNN_name`). Before the first entry of a tape
    /// `anchor` is empty, and `seq` and `sum` are those of the position that the tape continues from, or 0 and any text.
    #[must_use]
    pub fn after(session: &SessionId, anchor: &str, seq: Seq, sum: &str) -> TapeLines {
        TapeLines(Chain::at(session, anchor, seq, Sum::parse(sum).unwrap_or_else(Sum::zero)))
    }

    /// The number of the last entry before this place.
    #[must_use]
    pub fn seq(&self) -> Seq {
        self.0.seq
    }

    /// The part of the last line before this place.
    #[must_use]
    pub fn anchor(&self) -> &str {
        &self.0.anchor
    }

    /// The checksum of the last line before this place: 16 hex digits.
    #[must_use]
    pub fn sum(&self) -> &str {
        self.0.sum.as_str()
    }

    /// The name that a part gets if it is begun as `given`: letters, digits, `.`, `_` and `-`, at most 64 bytes.
    #[must_use]
    pub fn part_name(given: &str) -> String {
        plain_anchor_name(given)
    }

    /// Writes one append in the part `anchor`, which it begins if the place is in another part, and moves behind it. Returns each
    /// line without its line break, and its checksum.
    ///
    /// # Errors
    ///
    /// [`TapeError::Gap`], and [`TapeError::TooLarge`] for a line. The place stays where it was.
    pub fn encode(&mut self, anchor: &str, entries: &[TapeEntry]) -> Result<Vec<(String, String)>, TapeError> {
        let mut chain = self.in_part(anchor);
        let bytes = encode_lines(&mut chain, entries)?;
        self.0 = chain;
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let text = |line: &[u8]| String::from_utf8_lossy(line).into_owned();
        let sum = |line: &[u8]| Sum::at_end_of(line).map_or_else(String::new, |sum| sum.as_str().to_owned());
        Ok(lines.map(|line| (text(line), sum(line))).collect())
    }

    /// Reads lines of the part `anchor`, each with its line break but the last, which may have none; puts their entries behind
    /// those in `into`, and moves behind them. The first may be in the middle of an append; the last must end one.
    ///
    /// # Errors
    ///
    /// [`TapeError::Damaged`] if a line is not what the place, the line before it and its checksum say: the whole appends before it
    /// are in `into` then. [`TapeError::Newer`].
    pub fn decode(&mut self, anchor: &str, lines: &str, into: &mut Vec<TapeEntry>) -> Result<(), TapeError> {
        let chain = self.in_part(anchor);
        let ended = lines.ends_with('\n') || lines.is_empty();
        let decoded = match ended {
            true => decode_lines(&chain, lines.as_bytes())?,
            false => decode_lines(&chain, format!("{lines}\n").as_bytes())?,
        };
        into.extend(decoded.entries);
        self.0 = decoded.chain;
        match decoded.rest {
            Rest::Nothing => Ok(()),
            Rest::Torn { line, what } | Rest::Bad { line, what } => {
                let file = format!("{}/{anchor}", self.0.session);
                Err(TapeError::Damaged(Damage::new(file, line, what, self.0.seq)))
            }
        }
    }

    /// The entry of one line alone, as an index finds it. Its checksum is not looked at; `None` if it is no line.
    #[must_use]
    pub fn entry_of(line: &str) -> Option<TapeEntry> {
        entry_of(line.as_bytes())
    }

    fn in_part(&self, anchor: &str) -> Chain {
        if *self.0.anchor == *anchor { self.0.clone() } else { self.0.in_file(anchor) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::*;
    use crate::tape::{
        Store, TapeStore as _, TapeStoreExt as _,
        tests::support::{entry, id, own_folder, small},
    };

    /// Appends of one, two and one entries; the last begins a part.
    fn appended() -> [(&'static str, Vec<TapeEntry>); 3] {
        let first = "001_session-start";
        [(first, vec![entry(1)]), (first, vec![entry(2), entry(3)]), ("002_p", vec![entry(4)])]
    }

    fn encoded() -> Vec<(&'static str, String)> {
        let mut lines = TapeLines::after(&id("s"), "", Seq::ZERO, "");
        let mut all = Vec::new();
        for (anchor, entries) in appended() {
            all.extend(lines.encode(anchor, &entries).unwrap().into_iter().map(|(line, _)| (anchor, line)));
        }
        assert_eq!((lines.seq(), lines.anchor()), (Seq(4), "002_p"));
        assert!(all[3].1.ends_with(&format!(",\"sum\":\"{}\"}}", lines.sum())));
        all
    }

    #[test]
    fn lines_are_those_of_files() {
        let folder = own_folder();
        let store = Store::open(folder.path(), small()).unwrap();
        let mut tape = store.create(&id("s"), std::sync::Arc::new(|_| {})).unwrap();
        let [one, two, three] = appended();
        for append in [one.1, two.1] {
            let _ = tape.append(&append);
        }
        assert!(store.settle(std::time::Duration::from_secs(60)));
        let _ = tape.begin_anchor("p", &three.1[0]);
        assert!(store.settle(std::time::Duration::from_secs(60)));
        let file = |anchor: &str| {
            std::fs::read_to_string(folder.path().join("sessions/s/anchors").join(anchor).join("entries.jsonl"))
        };
        let written = file("001_session-start").unwrap() + &file("002_p").unwrap();
        assert_eq!(written.lines().collect::<Vec<_>>(), encoded().iter().map(|(_, line)| line).collect::<Vec<_>>());
    }

    #[test]
    fn lines_are_read_from_any_place_and_damage_is_found() {
        let all = encoded();
        let sum = |n: usize| all[n].1.rsplit('"').nth(1).unwrap();
        // From the middle of an append, into the next part.
        let mut place = TapeLines::after(&id("s"), "001_session-start", Seq(2), sum(1));
        let mut read = Vec::new();
        place.decode(all[2].0, &all[2].1, &mut read).unwrap();
        place.decode(all[3].0, &format!("{}\n", all[3].1), &mut read).unwrap();
        assert_eq!((read, place.seq()), (vec![entry(3), entry(4)], Seq(4)));

        let mut read = Vec::new();
        let lines = format!("{}\n{}\n{}", all[0].1, all[1].1, all[2].1.replace("entry 3", "entry 4"));
        let damaged = TapeLines::after(&id("s"), "", Seq::ZERO, "").decode(all[0].0, &lines, &mut read);
        let Err(TapeError::Damaged(damage)) = damaged else { panic!("{damaged:?}") };
        assert_eq!((read, damage.last_good), (vec![entry(1)], Seq(1)));
    }
}
