//! What every engine of tapes promises, claim by claim, through the one door of [`TapeStore`]. The module above says over which
//! engines: `each_engine` calls a claim with each. The library's own tests do, and those of each crate that is an engine.

use std::{
    sync::{Arc, mpsc},
    time::Duration,
};

use serde_json::value::RawValue;
use tamtam::{
    Millis, Seq, SessionId,
    tape::{
        Appended, Deleted, FORK_DEPTH_MAX, ImportOptions, LINE_BYTES_MAX, LoadedTape, Notify, Spills, Store,
        StoreOptions, TapeEntry, TapeError, TapeStore, TapeStoreExt as _, TapeWriter,
    },
};

use super::each_engine;

const NOW: Millis = Millis(1_733_000_000_000);

pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) fn id(name: &str) -> SessionId {
    name.parse().unwrap()
}

pub(crate) fn entry(seq: u64) -> TapeEntry {
    let data = RawValue::from_string(format!(r#"{{"text":"entry {seq}"}}"#)).unwrap();
    TapeEntry::new(Seq(seq), Millis(1_732_000_000_000 + seq), "note", data)
}

pub(crate) fn entries(seqs: std::ops::RangeInclusive<u64>) -> Vec<TapeEntry> {
    seqs.map(entry).collect()
}

pub(crate) type Told = Result<Seq, TapeError>;

/// A notify and what it received.
pub(crate) fn listener() -> (Notify, mpsc::Receiver<Told>) {
    let (tell, told) = mpsc::channel::<Told>();
    (Arc::new(move |result| drop(tell.send(result))), told)
}

pub(crate) fn deaf() -> Notify {
    Arc::new(|_| {})
}

/// A tape whose appends are waited for.
pub(crate) struct Tape {
    pub(crate) tape: Box<dyn TapeWriter>,
    pub(crate) told: mpsc::Receiver<Told>,
}

impl Tape {
    pub(crate) fn create(store: &dyn TapeStore, name: &str) -> Tape {
        let (notify, told) = listener();
        Tape { tape: store.create(&id(name), notify).unwrap(), told }
    }

    pub(crate) fn load(store: &dyn TapeStore, name: &str) -> (Tape, Vec<TapeEntry>) {
        let (notify, told) = listener();
        let loaded: LoadedTape = store.load(&id(name), notify).unwrap();
        assert_eq!((loaded.repair, loaded.read_only, loaded.rebooted), (None, None, false));
        (Tape { tape: loaded.tape, told }, loaded.entries)
    }

    pub(crate) fn append(&mut self, entries: &[TapeEntry]) -> Told {
        let appended = self.tape.append(entries);
        self.wait(appended)
    }

    pub(crate) fn anchor(&mut self, name: &str, seq: u64) -> Told {
        let appended = self.tape.begin_anchor(name, &entry(seq));
        self.wait(appended)
    }

    fn wait(&self, appended: Appended) -> Told {
        match appended {
            Appended::Now(result) => result,
            Appended::Later => self.told.recv_timeout(LONG).unwrap(),
        }
    }
}

/// Appends of one to three entries, with anchors at 6 and 11; 14 entries in all.
pub(crate) fn talked(store: &dyn TapeStore, name: &str) -> Tape {
    let mut tape = Tape::create(store, name);
    for append in [entries(1..=1), entries(2..=4), entries(5..=5)] {
        tape.append(&append).unwrap();
    }
    assert_eq!(tape.anchor("phase-1", 6).unwrap(), Seq(6));
    tape.append(&entries(7..=8)).unwrap();
    tape.append(&entries(9..=10)).unwrap();
    tape.anchor("phase 2", 11).unwrap();
    tape.append(&entries(12..=14)).unwrap();
    tape
}

#[test]
fn what_was_appended_is_read_and_loaded() {
    each_engine(|engine, store| {
        let tape = talked(store, "s");
        assert_eq!(tape.tape.last(), Seq(14), "{engine}");
        for after in 0..=14 {
            assert_eq!(store.read(&id("s"), Seq(after)).unwrap(), entries(after + 1..=14), "{engine}");
        }
        drop(tape);
        let (mut tape, said) = Tape::load(store, "s");
        assert_eq!(said, entries(11..=14), "{engine}");
        assert_eq!(tape.append(&entries(15..=15)).unwrap(), Seq(15));
        assert_eq!(tape.append(&[]).unwrap(), Seq(15));
        assert_eq!((store.sessions().unwrap(), store.exists(&id("s"))), (vec![id("s")], true));
    });
}

#[test]
fn what_does_not_follow_is_refused_and_nothing_is_taken() {
    each_engine(|engine, store| {
        let mut tape = talked(store, "s");
        let gap = tape.append(&[entry(16)]);
        assert!(matches!(gap, Err(TapeError::Gap { expected: Seq(15), got: Seq(16), .. })), "{engine}");
        let half = tape.append(&[entry(15), entry(17)]);
        assert!(matches!(half, Err(TapeError::Gap { .. })), "{engine}");
        for taken in ["phase-1", "phase 2", "session-start"] {
            assert!(matches!(tape.anchor(taken, 15), Err(TapeError::AnchorExists { .. })), "{engine}: {taken}");
        }
        let mut large = entry(15);
        large.data = serde_json::value::to_raw_value(&"x".repeat(LINE_BYTES_MAX)).unwrap();
        assert!(matches!(tape.append(&[large]), Err(TapeError::TooLarge { .. })), "{engine}");
        assert_eq!(tape.append(&entries(15..=16)).unwrap(), Seq(16));
        assert_eq!(store.read(&id("s"), Seq(0)).unwrap(), entries(1..=16), "{engine}");
    });
}

/// S-18: the tape as it was at any entry, and from one anchor to another.
#[test]
fn a_tape_is_read_at_any_entry_and_between_anchors() {
    each_engine(|engine, store| {
        let _tape = talked(store, "s");
        let firsts: Vec<_> =
            store.anchors(&id("s")).unwrap().into_iter().map(|a| (a.number, a.name, a.first)).collect();
        let expected = [(1, "session-start", 1), (2, "phase-1", 6), (3, "phase-2", 11)];
        assert_eq!(firsts, expected.map(|(number, name, first)| (number, name.to_owned(), Seq(first))), "{engine}");
        for seq in 1..=14 {
            let read = store.read_to(&id("s"), Seq(seq)).unwrap();
            assert_eq!(read.entries, entries(read.anchor.first.0..=seq), "{engine}");
            assert_eq!(read.ends_append, [1, 4, 5, 6, 8, 10, 11, 14].contains(&seq), "{engine} {seq}");
        }
        let beyond = store.read_to(&id("s"), Seq(15)).unwrap_err().to_string();
        assert_eq!(beyond, "session s has no entry 15: its last is 14", "{engine}");
        let between = |from, to| store.between_anchors(&id("s"), from, to).unwrap();
        assert_eq!(between("session-start", "002_phase-1"), entries(1..=10), "{engine}");
        assert_eq!(between("phase-2", "phase-2"), entries(11..=14), "{engine}");
        assert_eq!(between("phase-2", "phase-1"), [], "{engine}");
        assert!(matches!(store.between_anchors(&id("s"), "phase-1", "none"), Err(TapeError::NoAnchor { .. })));
    });
}

/// Promise 7
#[test]
fn a_session_has_one_writer_at_a_time() {
    each_engine(|engine, store| {
        let tape = talked(store, "s");
        assert!(matches!(store.load(&id("s"), deaf()), Err(TapeError::Claimed { .. })), "{engine}");
        assert!(matches!(store.create(&id("s"), deaf()), Err(TapeError::Exists { .. })), "{engine}");
        assert!(matches!(store.delete(&id("s")), Err(TapeError::Claimed { .. })), "{engine}");
        drop(tape);
        assert!(matches!(store.create(&id("s"), deaf()), Err(TapeError::Exists { .. })), "{engine}");
        drop(Tape::load(store, "s"));
        assert!(matches!(store.load(&id("none"), deaf()), Err(TapeError::Missing { .. })), "{engine}");
        drop(Tape::create(store, "empty"));
        drop(Tape::create(store, "empty"));
    });
}

#[test]
fn a_fork_has_what_its_parent_had_and_goes_on_alone() {
    each_engine(|engine, store| {
        let mut parent = talked(store, "p");
        for at in [1, 4, 5, 6, 8, 10, 11, 14] {
            let name = format!("f{at}");
            let forked = store.fork(&id("p"), Some(Seq(at)), &id(&name), NOW).unwrap();
            assert_eq!((&forked.parent, forked.seq, forked.depth), (&id("p"), Seq(at), 1), "{engine}");
            let (mut tape, said) = Tape::load(store, &name);
            let before = store.read_to(&id("p"), Seq(at)).unwrap();
            assert_eq!(said[..said.len() - 1], before.entries, "{engine} {at}");
            assert_eq!((said.last().unwrap().seq, said.last().unwrap().kind.as_str()), (Seq(at + 1), "forked"));
            tape.append(&entries(at + 2..=at + 3)).unwrap();
            let own = store.read(&id(&name), Seq(at + 1)).unwrap();
            assert_eq!(own, entries(at + 2..=at + 3), "{engine}");
            let last = store.anchors(&id(&name)).unwrap().last().unwrap().number;
            assert_eq!(last, before.anchor.number, "{engine}");
            tape.anchor("own", at + 4).unwrap();
            let newest = store.anchors(&id(&name)).unwrap().pop().unwrap();
            assert_eq!((newest.number, newest.first), (last + 2, Seq(at + 4)), "{engine}");
            drop(tape);
            assert_eq!(Tape::load(store, &name).1, entries(at + 4..=at + 4), "{engine}");
        }
        parent.append(&entries(15..=15)).unwrap();
        assert_eq!(store.read(&id("p"), Seq(0)).unwrap(), entries(1..=15), "{engine}");
        let inside = store.fork(&id("p"), Some(Seq(3)), &id("f"), NOW).unwrap_err().to_string();
        assert_eq!(inside, "entry 3 of session p is in the middle of an append: take 4, or 1 before it", "{engine}");
        assert!(
            matches!(store.fork(&id("p"), Some(Seq(16)), &id("f"), NOW), Err(TapeError::NoEntry { .. })),
            "{engine}"
        );
        assert!(matches!(store.fork(&id("p"), None, &id("f1"), NOW), Err(TapeError::Exists { .. })), "{engine}");
        // From before the first fork: of the first parent.
        let early = store.fork(&id("f8"), Some(Seq(4)), &id("early"), NOW).unwrap();
        assert_eq!((early.parent, early.depth), (id("p"), 1), "{engine}");
    });
}

#[test]
fn forks_of_forks_have_a_bound() {
    each_engine(|engine, store| {
        Tape::create(store, "f0").append(&entries(1..=1)).unwrap();
        for n in 1..=FORK_DEPTH_MAX {
            store.fork(&id(&format!("f{}", n - 1)), None, &id(&format!("f{n}")), NOW).unwrap();
        }
        let last = id(&format!("f{FORK_DEPTH_MAX}"));
        assert_eq!(store.read(&last, Seq(0)).unwrap().len() as u32, FORK_DEPTH_MAX + 1, "{engine}");
        assert!(matches!(store.fork(&last, None, &id("more"), NOW), Err(TapeError::TooDeep { .. })), "{engine}");
    });
}

#[test]
fn a_deleted_session_is_there_for_its_forks_alone_and_goes_with_the_last() {
    each_engine(|engine, store| {
        drop(talked(store, "p"));
        store.fork(&id("p"), Some(Seq(8)), &id("f"), NOW).unwrap();
        store.mark_open(&id("p")).unwrap();
        // A mark may wait for a slow disk.
        assert!(store.settle(LONG), "{engine}");
        assert_eq!(store.open_sessions().unwrap(), [id("p")], "{engine}");
        assert!(matches!(store.delete(&id("p")), Err(TapeError::Unfinished { .. })), "{engine}");
        store.mark_closed(&id("p")).unwrap();
        assert!(store.settle(LONG), "{engine}");
        assert_eq!(store.delete(&id("p")).unwrap(), Deleted::Hidden, "{engine}");
        assert!(!store.exists(&id("p")) && store.sessions().unwrap() == [id("f")], "{engine}");
        assert!(matches!(store.read(&id("p"), Seq(0)), Err(TapeError::Missing { .. })), "{engine}");
        assert!(matches!(store.create(&id("p"), deaf()), Err(TapeError::Exists { .. })), "{engine}");
        assert_eq!(store.read(&id("f"), Seq(0)).unwrap().len(), 9, "{engine}");
        assert_eq!(store.delete(&id("f")).unwrap(), Deleted::Gone, "{engine}");
        drop(Tape::create(store, "p"));
    });
}

/// What is noted of sessions, and who has them, is the engine's to remember: it outlives the process that noted it.
#[test]
fn sessions_are_listed_marked_and_found_again() {
    each_engine(|engine, store| {
        let tape = talked(store, "s");
        drop(Tape::create(store, "empty"));
        assert!(store.settle(LONG));
        let [empty, listed] = &store.list().unwrap()[..] else { panic!("{engine}: two sessions") };
        assert_eq!((&empty.id, empty.seq, empty.last), (&id("empty"), Seq(0), None), "{engine}");
        let times = (entry(1).time, entry(14).time);
        assert_eq!((&listed.id, listed.seq), (&id("s"), Seq(14)), "{engine}");
        assert_eq!((listed.created, listed.last), (Some(times.0), Some(times.1)), "{engine}");
        assert!(listed.bytes > 14 * 100, "{engine}: {}", listed.bytes);
        assert_eq!(store.claimed_sessions().unwrap(), [id("s")], "{engine}");
        drop(tape);
        assert!(store.settle(LONG));
        assert_eq!(store.claimed_sessions().unwrap(), [], "{engine}");
        // Also of a session that is not there: it may be what made it go.
        store.park(&id("t"), NOW, "why not").unwrap();
        store.park(&id("s"), NOW, "boom").unwrap();
        store.park(&id("s"), NOW, "boom again").unwrap();
        let parked = vec![(id("s"), "boom again".to_owned()), (id("t"), "why not".to_owned())];
        assert_eq!(store.parked_sessions().unwrap(), parked, "{engine}");
        store.protect(&id("s")).unwrap();
        assert!(matches!(store.protect(&id("none")), Err(TapeError::Missing { .. })), "{engine}");
        store.mark_open(&id("s")).unwrap();
        assert!(store.settle(LONG), "{engine}");
        let marks = (store.protected_sessions().unwrap(), store.open_sessions().unwrap());
        assert_eq!(marks, (vec![id("s")], vec![id("s")]), "{engine}");
        assert!(matches!(store.delete(&id("s")), Err(TapeError::Unfinished { .. })), "{engine}");
        store.mark_closed(&id("s")).unwrap();
        assert!(store.settle(LONG), "{engine}");
        // Neither while it is parked, nor while it is protected, nor after it was used.
        assert!(!store.delete_unused(&id("s"), Seq(14)).unwrap(), "{engine}");
        store.unpark(&id("s")).unwrap();
        assert!(!store.delete_unused(&id("s"), Seq(14)).unwrap(), "{engine}");
        store.unprotect(&id("s")).unwrap();
        assert!(!store.delete_unused(&id("s"), Seq(13)).unwrap(), "{engine}");
        let gone_on = store.delete_unless_gone_on(&id("s"), Seq(13));
        assert!(matches!(gone_on, Err(TapeError::GoneOn { last: Seq(14), .. })), "{engine}");
        store.protect(&id("s")).unwrap();
        store.park(&id("s"), NOW, "boom").unwrap();
        assert_eq!(store.delete_unless_gone_on(&id("s"), Seq(14)).unwrap(), Deleted::Gone, "{engine}");
        let left = (store.protected_sessions().unwrap(), store.parked_sessions().unwrap().len());
        assert_eq!(left, (vec![], 1), "{engine}: its marks went with it");
        drop(talked(store, "s"));
        assert!(store.settle(LONG) && store.delete_unused(&id("s"), Seq(14)).unwrap(), "{engine}");
    });
}

/// Whatever keeps a tape, an export of it has the same bytes; and that of a fork can be read where it comes in.
#[test]
fn a_session_goes_out_of_every_engine_in_the_same_bytes() {
    let exported = |store: &dyn TapeStore, name: &str| {
        let mut file = Vec::new();
        store.export(&id(name), Spills::Left, &mut file).unwrap();
        file
    };
    let in_files = |folder: &tempfile::TempDir| Store::open(folder.path(), StoreOptions::default()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let files = in_files(&folder);
    drop(talked(&files, "s"));
    assert!(files.settle(LONG));
    let expected = exported(&files, "s");
    each_engine(|engine, store| {
        drop(talked(store, "s"));
        assert!(store.settle(LONG));
        assert!(exported(store, "s") == expected, "{engine}");
        store.fork(&id("s"), Some(Seq(10)), &id("f"), NOW).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let there = in_files(&folder);
        there.import(&mut &exported(store, "f")[..], &ImportOptions::as_it_was()).unwrap();
        assert_eq!(there.read(&id("f"), Seq(0)).unwrap(), store.read(&id("f"), Seq(0)).unwrap(), "{engine}");
        assert_eq!(exported(&there, "f"), exported(store, "f"), "{engine}");
        let missing = store.export(&id("none"), Spills::Left, &mut Vec::new());
        assert!(matches!(missing, Err(TapeError::Missing { .. })), "{engine}");
    });
}

/// A tape is released after what waits for the disk; the notified caller can have it, and so can others.
#[test]
fn who_gives_a_session_back_is_told_when_others_can_have_it() {
    each_engine(|engine, store| {
        let (tell, told) = mpsc::channel();
        talked(store, "s").tape.give_back(Box::new(move || tell.send(()).unwrap()));
        told.recv_timeout(LONG).unwrap();
        assert_eq!(store.claimed_sessions().unwrap(), [], "{engine}");
        drop(Tape::load(store, "s"));
    });
}

/// Which sessions continue from which, and whose entries are whose.
#[test]
fn where_forks_come_from_is_known() {
    each_engine(|engine, store| {
        drop(talked(store, "s"));
        assert!(store.settle(LONG));
        store.fork(&id("s"), Some(Seq(8)), &id("f"), NOW).unwrap();
        store.fork(&id("f"), None, &id("g"), NOW).unwrap();
        assert_eq!(store.forked_from(&id("s")).unwrap(), None, "{engine}");
        let from = store.forked_from(&id("g")).unwrap().unwrap();
        assert_eq!((from.parent, from.seq), (id("f"), Seq(9)), "{engine}");
        assert_eq!((store.forks_of(&id("s")).unwrap(), store.forks_of(&id("g")).unwrap()), (vec![id("f")], vec![]));
        let has = |session, other, seq| store.has_entry_of(&id(session), &id(other), Seq(seq)).unwrap();
        assert!(has("g", "s", 8) && !has("g", "s", 9) && has("g", "f", 9) && !has("g", "f", 10), "{engine}");
        assert!(!has("s", "f", 9) && has("s", "s", 14), "{engine}");
        assert!(matches!(store.has_entry_of(&id("none"), &id("s"), Seq(1)), Err(TapeError::Missing { .. })));
        assert!(matches!(store.forked_from(&id("none")), Err(TapeError::Missing { .. })), "{engine}");
        // Also through one that is hidden by now.
        store.delete(&id("f")).unwrap();
        assert!(has("g", "s", 8), "{engine}");
        assert!(!store.delete_unused(&id("s"), Seq(14)).unwrap(), "{engine}: a fork goes on from it");
    });
}
