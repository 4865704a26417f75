//! Reading a tape back by appends. An append is the entries that one decision wrote together; here it also has its file and line.
//! Replay, export and recorded tests read whole tapes this way, because they need the borders of appends. [`read_range`] reads a
//! range of entries. An anchor is a point from which a tape can be read without the entries before it; each has its own file.
//!
//! Every line of the files that are read is checked, and so is that each file continues its predecessor. A whole tape is read
//! from entry 1; of a fork, that includes the tapes that it continues from. [`read_range`] reads only the session's own files. Of a
//! long file it reads only the lines that were asked for, and checks each against the one before: a bad line further up is found
//! by whoever folds the tape, for that reads from an anchor on.
//!
//! A change must keep: an [`Append`] always has all its entries (a range may begin or end inside one); no lock is taken and nothing
//! is changed; a tail that a live writer is writing is left out; both readers read again before they report damage. Whole files
//! are read: not for async threads. A range of a long file must cost what the range costs (`benches/growth.rs`).

use std::path::PathBuf;

use super::{
    Damage, Store, TapeEntry, TapeError,
    layout::Layout,
    line::{Chain, Decoded, Rest, decode_lines, glance},
    lineage::{FORKS_OF_FORKS_MAX, origin},
    read::{again_if_damaged, bytes_through, decode_file, newest_at, whole_file},
    seek::{Begins, begins_at},
    whole::END,
};
use crate::words::ids::{Seq, SessionId};

/// The entries that one decision wrote: they are on the tape together or not at all. Never empty.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Append {
    /// The file that has the entries.
    pub file: PathBuf,
    /// The line of the first entry, from 1.
    pub line: usize,
    /// The entries, in order.
    pub entries: Vec<TapeEntry>,
}

/// The file of one anchor, as far as it belongs to the tape that is read: not what a parent has after the entry where it was
/// forked, and (once decoded) not a tail that is being written.
#[derive(Clone, Debug)]
pub(crate) struct TapeFile {
    /// The session that wrote it: the tape's own, or one that it continues from.
    pub(crate) session: SessionId,
    pub(crate) anchor: String,
    pub(crate) path: PathBuf,
    /// The line of `path` where `bytes` begin, from 1. Not 1 in a recorded test, where the tape follows a header.
    pub(crate) line: usize,
    /// Whether a writer may be writing at its end: then a torn tail is not damage.
    pub(crate) live: bool,
    pub(crate) bytes: Vec<u8>,
}

impl Store {
    /// All entries of a session by appends, of all anchors; of a fork, also those of the tapes that it continues from.
    ///
    /// # Errors
    ///
    /// [`TapeError::Missing`]; [`TapeError::Damaged`] if a line in between is bad; [`TapeError::Newer`]; [`TapeError::TooDeep`] if
    /// a fork continues from too many forks; [`TapeError::Io`].
    pub fn appends(&self, session: &SessionId) -> Result<Vec<Append>, TapeError> {
        self.tape_files(session).map(|(_, appends)| appends)
    }

    /// The files of a session's tape, oldest first, and the appends in them.
    pub(crate) fn tape_files(&self, session: &SessionId) -> Result<(Vec<TapeFile>, Vec<Append>), TapeError> {
        again_if_damaged(|| {
            let mut files = self.tape_files_once(session)?;
            let appends = decode_files(&mut files)?;
            Ok((files, appends))
        })
    }

    /// The files of a session's tape, and of a fork also those of its parents. Not decoded yet.
    fn tape_files_once(&self, session: &SessionId) -> Result<Vec<TapeFile>, TapeError> {
        self.must_exist(session)?;
        let layout = self.layout();
        let mut files = Vec::new();
        let (mut session, mut through) = (session.clone(), END);
        for _ in 0..=FORKS_OF_FORKS_MAX {
            let folders = layout.anchor_names(&session)?;
            for n in (0..begun_by(layout, &session, &folders, through)?).rev() {
                files.push(TapeFile::read(layout, &session, &folders, n, through)?);
            }
            let Some(forked) = origin(layout, &session, &folders)? else {
                files.reverse();
                return Ok(files);
            };
            (session, through) = (forked.parent, through.min(forked.seq));
        }
        Err(TapeError::TooDeep { session, max: FORKS_OF_FORKS_MAX })
    }
}

impl TapeFile {
    /// The nth file of a session, through the append with the entry `through`.
    fn read(
        layout: &Layout,
        session: &SessionId,
        folders: &[String],
        n: usize,
        through: Seq,
    ) -> Result<TapeFile, TapeError> {
        let (anchor, is_newest) = (folders[n].clone(), n + 1 == folders.len());
        let path = layout.entries(session, &anchor);
        let bytes = if through == END { whole_file(&path)? } else { bytes_through(&path, 0, through)? };
        // A bad line at the end of the bytes that were asked for is damage if the file goes on behind it. A line without an end is
        // the last one.
        let is_all = |file: std::fs::Metadata| file.len() == bytes.len() as u64;
        let live = is_newest && (through == END || !bytes.ends_with(b"\n") || path.metadata().is_ok_and(is_all));
        Ok(TapeFile { session: session.clone(), anchor, path, line: 1, live, bytes })
    }
}

/// How many of a session's anchors begin at or before the entry `through`.
pub(super) fn begun_by(
    layout: &Layout,
    session: &SessionId,
    folders: &[String],
    through: Seq,
) -> Result<usize, TapeError> {
    match through {
        END => Ok(folders.len()),
        through => Ok(newest_at(layout, session, folders, through)?.map_or(0, |n| n + 1)),
    }
}

/// The entries up to `through` that end an append in a session's own files. Checks no line: for entries that were read.
pub(super) fn read_ends(layout: &Layout, session: &SessionId, through: Seq) -> Result<Vec<Seq>, TapeError> {
    let folders = layout.anchor_names(session)?;
    let mut ends = Vec::new();
    for n in 0..begun_by(layout, session, &folders, through)? {
        let file = TapeFile::read(layout, session, &folders, n, through)?;
        let seen = file.bytes.split(|byte| *byte == b'\n').filter_map(glance);
        ends.extend(seen.filter(|line| line.more == 0 && line.seq <= through).map(|line| line.seq));
    }
    Ok(ends)
}

/// The entries `from` to `through`, both included, that a session's own files have.
pub(super) fn read_range(
    layout: &Layout,
    session: &SessionId,
    from: Seq,
    through: Seq,
) -> Result<Vec<TapeEntry>, TapeError> {
    again_if_damaged(|| read_range_once(layout, session, from, through))
}

fn read_range_once(layout: &Layout, session: &SessionId, from: Seq, through: Seq) -> Result<Vec<TapeEntry>, TapeError> {
    let folders = layout.anchor_names(session)?;
    let first = newest_at(layout, session, &folders, from)?.unwrap_or(0);
    let through_file = begun_by(layout, session, &folders, through)?;
    if first + 1 == through_file
        && let Some(entries) = read_in_one_file(layout, session, &folders[first], from, through)?
    {
        return Ok(entries);
    }
    let files = (first..through_file).map(|n| TapeFile::read(layout, session, &folders, n, through));
    let appends = decode_parts(&mut files.collect::<Result<Vec<_>, _>>()?)?;
    let entries = appends.into_iter().flat_map(|append| append.entries);
    Ok(entries.filter(|entry| (from..=through).contains(&entry.seq)).collect())
}

/// The entries of a range that lies in one long file, read from the first of them on. `None` where the whole file is to be read: it is
/// short, or something in the range is not as it should be, so that the lines before must tell what is wrong.
fn read_in_one_file(
    layout: &Layout,
    session: &SessionId,
    anchor: &str,
    from: Seq,
    through: Seq,
) -> Result<Option<Vec<TapeEntry>>, TapeError> {
    let path = layout.entries(session, anchor);
    let Some(Begins { offset, before }) = begins_at(&path, from)? else { return Ok(None) };
    let bytes = bytes_through(&path, offset, through)?;
    let before = Chain::at(session, anchor, Seq(from.0 - 1), before);
    let mut entries = match decode_lines(&before, &bytes) {
        Ok(Decoded { entries, rest: Rest::Nothing, .. }) => entries,
        // A line that is just being written, or damage: the caller can tell them apart.
        _ => return Ok(None),
    };
    entries.retain(|entry| entry.seq <= through);
    Ok(Some(entries))
}

/// The appends in the files of one whole tape, from entry 1 on. Checks every line, and that each file continues its predecessor.
/// Cuts a torn tail of a live file off the file's `bytes`.
pub(crate) fn decode_files(files: &mut [TapeFile]) -> Result<Vec<Append>, TapeError> {
    let appends = decode_parts(files)?;
    match appends.first() {
        Some(Append { file, line, entries }) if entries[0].seq != Seq(1) => {
            let what = "the anchors before it are missing".to_owned();
            Err(TapeError::Damaged(Damage { file: file.clone(), line: *line, what, last_good: Seq::ZERO }))
        }
        _ => Ok(appends),
    }
}

/// [`decode_files`] for files that need not begin with entry 1.
fn decode_parts(files: &mut [TapeFile]) -> Result<Vec<Append>, TapeError> {
    let mut appends = Vec::new();
    let mut last: Option<Chain> = None;
    for TapeFile { session, anchor, path, line: first_line, live, bytes } in files {
        let damaged = |n: usize, what, last_good| {
            TapeError::Damaged(Damage { file: path.clone(), line: *first_line + n, what, last_good })
        };
        let read = decode_file(path, session, anchor, bytes)?;
        if let Some(last) = last.as_ref().filter(|last| !read.goes_on_from(last)) {
            return Err(damaged(0, "the anchor does not continue the one before".to_owned(), last.seq));
        }
        match read.rest {
            Rest::Nothing => {}
            Rest::Torn { .. } if *live => bytes.truncate(read.good_bytes),
            Rest::Torn { line, what } | Rest::Bad { line, what } => {
                return Err(damaged(line - 1, what, read.chain.seq));
            }
        }
        let mut whole = true;
        for (n, (entry, more)) in read.entries.into_iter().zip(read.more).enumerate() {
            match appends.last_mut() {
                Some(Append { entries, .. }) if !whole => entries.push(entry),
                _ => appends.push(Append { file: path.clone(), line: *first_line + n, entries: vec![entry] }),
            }
            whole = more == 0;
        }
        last = Some(read.chain);
    }
    Ok(appends)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use std::sync::Arc;

    use super::*;
    use crate::{
        tape::{Appended, StoreOptions, TapeStore as _, TapeStoreExt as _},
        words::ids::Millis,
    };

    fn entry(seq: u64) -> TapeEntry {
        let data = serde_json::value::to_raw_value(&seq).unwrap();
        let (seq, time) = (Seq(seq), Millis(1));
        TapeEntry {
            seq,
            time,
            cause: None,
            turn: None,
            step: None,
            ticket: None,
            input: None,
            kind: "note".into(),
            data,
        }
    }

    /// A disk that is slow at the moment may leave it for later.
    fn taken(store: &Store, appended: Appended) {
        assert!(!matches!(appended, Appended::Now(Err(_))), "{appended:?}");
        assert!(store.settle(std::time::Duration::from_secs(60)));
    }

    /// Every append comes back as one, with its place; so does an anchor's first.
    #[test]
    fn a_tape_comes_back_by_appends() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), StoreOptions::default()).unwrap();
        let id: SessionId = "s".parse().unwrap();
        let mut tape = store.create(&id, Arc::new(|_| {})).unwrap();
        for entries in [vec![entry(1)], vec![entry(2), entry(3), entry(4)], vec![entry(5)]] {
            taken(&store, tape.append(&entries));
        }
        taken(&store, tape.begin_anchor("later", &entry(6)));
        taken(&store, tape.append(&[entry(7), entry(8)]));
        let shape = |appends: &[Append]| -> Vec<(u64, usize, usize)> {
            appends.iter().map(|append| (append.entries[0].seq.0, append.line, append.entries.len())).collect()
        };
        let appends = store.appends(&id).unwrap();
        assert_eq!(shape(&appends), [(1, 1, 1), (2, 2, 3), (5, 5, 1), (6, 1, 1), (7, 2, 2)]);
        assert!(appends[3].file.ends_with("002_later/entries.jsonl"));
        let all: Vec<_> = appends.iter().flat_map(|append| append.entries.clone()).collect();
        assert_eq!(all, store.read(&id, Seq::ZERO).unwrap());

        // An unfinished tail is what a writer is writing; a missing file is not.
        let newest = &appends[4].file;
        let mut bytes = std::fs::read(newest).unwrap();
        bytes.truncate(bytes.len() - 10);
        std::fs::write(newest, bytes).unwrap();
        assert_eq!(shape(&store.appends(&id).unwrap()), [(1, 1, 1), (2, 2, 3), (5, 5, 1), (6, 1, 1)]);
        std::fs::remove_file(&appends[0].file).unwrap();
        assert!(matches!(store.appends(&id), Err(TapeError::Damaged(_))));
    }

    /// A store with one session of that many entries in two anchors, and some entries longer than others.
    fn long_tape(folder: &std::path::Path, entries: u64) -> (Store, SessionId) {
        let store = Store::open(folder, StoreOptions::default()).unwrap();
        let session: SessionId = "long".parse().unwrap();
        let mut tape = store.create(&session, Arc::new(|_| {})).unwrap();
        let long = |seq: u64| {
            let text = format!("{seq} {}", "x".repeat((seq % 13) as usize * 100));
            TapeEntry { data: serde_json::value::to_raw_value(&text).unwrap(), ..entry(seq) }
        };
        let mut seq = 1;
        while seq <= entries {
            let more = (seq % 3).min(entries - seq);
            let append: Vec<TapeEntry> = (seq..=seq + more).map(long).collect();
            taken(&store, tape.append(&append));
            seq += more + 1;
            if seq > entries / 2 && seq <= entries && store.parts(&session).unwrap().len() == 1 {
                taken(&store, tape.begin_anchor("half", &long(seq)));
                seq += 1;
            }
        }
        drop(tape);
        assert!(store.settle(std::time::Duration::from_secs(60)));
        (store, session)
    }

    /// Each range of a long tape is what the whole tape has there.
    #[test]
    fn a_range_of_a_long_tape_is_a_part_of_the_whole() {
        let folder = tempfile::tempdir().unwrap();
        let (store, session) = long_tape(folder.path(), 1_000);
        let whole = store.range(&session, Seq(1), END).unwrap();
        assert_eq!(whole.len(), 1_000);
        for from in (1..=1_003).step_by(17) {
            for through in [from, from + 1, from + 40, 480, 700, u64::MAX] {
                let wanted: Vec<_> = whole.iter().filter(|e| (from..=through).contains(&e.seq.0)).cloned().collect();
                assert!(store.range(&session, Seq(from), Seq(through)).unwrap() == wanted, "{from} to {through}");
            }
        }
    }

    /// A torn tail is left out; a bad line is damage to those who ask for it, and named with its place.
    #[test]
    fn a_range_of_a_long_tape_sees_the_damage_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let (store, session) = long_tape(folder.path(), 1_000);
        let newest = store.layout().anchor_names(&session).unwrap().pop().unwrap();
        let path = store.layout().entries(&session, &newest);
        let sound = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("{sound}{{\"v\":1,\"session\":\"long\",\"seq\":1001,\"id")).unwrap();
        let seqs = |from: u64| {
            store.range(&session, Seq(from), END).map(|all| all.iter().map(|e| e.seq.0).collect::<Vec<_>>())
        };
        assert_eq!(seqs(998).unwrap(), [998, 999, 1000]);
        assert_eq!(seqs(1001).unwrap(), [0; 0]);
        let place = sound.lines().position(|line| line.contains("\"seq\":900,")).unwrap();
        std::fs::write(&path, sound.replacen("\"900 x", "\"900 y", 1)).unwrap();
        assert_eq!(seqs(950).unwrap().len(), 51, "what was asked for is sound");
        for from in [700, 899, 900] {
            let Err(TapeError::Damaged(damage)) = seqs(from) else { panic!("entry 900 is bad, from {from} on") };
            assert_eq!((damage.line, damage.last_good), (place + 1, Seq(899)));
        }
        // A line that lies about its place is passed over, and never taken for an entry.
        std::fs::write(&path, sound.replacen("\"seq\":900,", "\"seq\":950,", 1)).unwrap();
        assert!(matches!(seqs(900), Err(TapeError::Damaged(_))));
    }

    /// Beside a writer, a range is there up to an append, and its entries follow each other.
    #[test]
    fn a_range_is_read_beside_a_writer() {
        let folder = tempfile::tempdir().unwrap();
        let (store, session) = long_tape(folder.path(), 1_000);
        let mut loaded = store.load(&session, Arc::new(|_| {})).unwrap();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for seq in (1_001..1_400).step_by(2) {
                    taken(&store, loaded.tape.append(&[entry(seq), entry(seq + 1)]));
                }
            });
            while !writer.is_finished() {
                let read = store.range(&session, Seq(990), END).unwrap();
                let seqs: Vec<u64> = read.iter().map(|entry| entry.seq.0).collect();
                assert_eq!(seqs, (990..990 + seqs.len() as u64).collect::<Vec<_>>());
                // 990 to 1,000, and appends of two.
                assert_eq!(seqs.len() % 2, 1);
            }
        });
    }
}
