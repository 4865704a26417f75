//! A session moves between files and PostgreSQL, both ways: its lines are the same bytes, and it is there whole or not at all.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use serde_json::value::RawValue;
use tamtam::{
    Millis, Runtime, Seq, Session,
    model::{ModelLimits, Reply, Request, Scripted},
    runtime::Builder,
    tape::{
        ImportOptions, LINE_BYTES_MAX, MemoryStore, Spills, Store, StoreOptions, TapeEntry, TapeError, TapeStore,
        TapeStoreExt as _,
    },
};
use tamtam_postgres::{Postgres, PostgresOptions};

use crate::{
    engines::claims::{LONG, Tape, entries, id, talked},
    server::{shared, sql},
    sessions::harness::{Engine, Keeps, reply, say, seen},
};

#[path = "../../examples/move_sessions.rs"]
mod move_sessions;

use move_sessions::copy_all;

pub(crate) fn files(folder: &Path) -> Store {
    Store::open(folder, StoreOptions::default()).unwrap()
}

/// The files of all tapes of a store, by their paths.
fn bytes_of_files(store: &Store) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    for session in store.sessions().unwrap() {
        let anchors = store.path().join("sessions").join(session.as_str()).join("anchors");
        for anchor in std::fs::read_dir(anchors).unwrap().map(|anchor| anchor.unwrap()) {
            let name = format!("{session} {}", anchor.file_name().into_string().unwrap());
            all.insert(name, std::fs::read(anchor.path().join("entries.jsonl")).unwrap());
            // A session without an entry has an empty file.
            all.retain(|_, bytes| !bytes.is_empty());
        }
    }
    all
}

/// The same of the rows, asked past the store.
fn bytes_of_rows(options: &PostgresOptions) -> BTreeMap<String, Vec<u8>> {
    let rows = format!("select session || ' ' || anchor, line from {}.entries order by session, seq", options.schema);
    let mut all: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for row in sql(&shared().address(), &rows) {
        let (name, line) = row.split_once(" {").unwrap();
        all.entry(name.to_owned()).or_default().extend(format!("{{{line}\n").bytes());
    }
    all
}

/// All columns of all rows of tapes and of marks, and what sessions continue from.
fn rows(options: &PostgresOptions) -> Vec<String> {
    let schema = &options.schema;
    let all = format!(
        "select e::text from {schema}.entries e order by session, seq;
         select m::text from {schema}.marks m order by mark, session, fork;
         select session, first_part, after_seq, after_sum, expires from {schema}.sessions order by session"
    );
    sql(&shared().address(), &all)
}

pub(crate) fn exported(store: &dyn TapeStore, name: &str) -> Vec<u8> {
    let mut file = Vec::new();
    store.export(&id(name), Spills::Left, &mut file).unwrap();
    file
}

/// An entry as large as an entry may be: 512 bytes of its line are for what stands around the data and the kind.
fn largest(seq: u64) -> TapeEntry {
    let text = format!("\"{}\"", "x".repeat(LINE_BYTES_MAX - 512 - "note".len() - 2));
    TapeEntry::new(Seq(seq), Millis(seq), "note", RawValue::from_string(text).unwrap())
}

/// Tapes of many shapes: several parts, appends of several entries, forks of forks, texts that JSON escapes, and the longest line.
fn many(store: &dyn TapeStore) {
    drop(talked(store, "talked"));
    drop(Tape::create(store, "empty"));
    assert!(store.settle(LONG));
    for (parent, at, fork) in [("talked", 8, "early"), ("talked", 14, "late"), ("late", 15, "forked-again")] {
        store.fork(&id(parent), Some(Seq(at)), &id(fork), Millis(1)).unwrap();
    }
    let (mut late, _) = Tape::load(store, "late");
    late.append(&entries(16..=18)).unwrap();
    late.anchor("phase-3", 19).unwrap();
    drop(late);
    let mut odd = Tape::create(store, "odd");
    for (seq, text) in (1..).zip(["错误 \\u0000 \\\"\\n\\\\", "\u{2028}", "\\ud83d\\ude00 😀", "  ", ""]) {
        let data = RawValue::from_string(format!("{{\"text\" :\t\"{text}\"}}")).unwrap();
        odd.append(&[TapeEntry::new(Seq(seq), Millis(seq), "note", data)]).unwrap();
    }
    let mut larger = largest(6);
    larger.kind = "notes".to_owned();
    assert!(matches!(odd.append(&[larger]), Err(TapeError::TooLarge { .. })));
    odd.append(&[largest(6)]).unwrap();
    // A thousand appends of random sizes, over several statements of an import.
    let mut random = Tape::create(store, "random");
    let (mut seq, mut dice) = (1, 7_u64);
    while seq < 1_000 {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        match dice >> 60 {
            0 => drop(random.anchor(&format!("part-{seq}"), seq).unwrap()),
            more => drop(random.append(&entries(seq..=seq + more)).unwrap()),
        }
        seq = random.tape.last().0 + 1;
    }
}

#[test]
fn tapes_go_from_files_to_postgresql_and_back_byte_for_byte() {
    let (one, other, options) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), shared().database());
    let (from, there, back) = (files(one.path()), Postgres::open(&options).unwrap(), files(other.path()));
    many(&from);
    assert!(from.settle(LONG));
    let names = from.sessions().unwrap();
    assert_eq!(copy_all(&from, &there).unwrap(), names);
    assert_eq!(copy_all(&there, &back).unwrap(), names);
    let (first, between, last) = (bytes_of_files(&from), bytes_of_rows(&options), bytes_of_files(&back));
    assert!(between == last, "rows and files differ");
    let is_fork = |name: &str| ["early", "late", "forked-again"].iter().any(|fork| name.starts_with(fork));
    let own = |all: BTreeMap<String, Vec<u8>>| all.into_iter().filter(|(name, _)| !is_fork(name)).collect::<Vec<_>>();
    assert!(own(first) == own(last), "a tape that is no fork is not the same");
    for name in &names {
        let file = exported(&from, name.as_str());
        assert!(exported(&there, name.as_str()) == file, "{name} goes out of PostgreSQL in another way");
        assert!(exported(&back, name.as_str()) == file, "{name} came back in another way");
        assert_eq!(there.read(name, Seq(0)).unwrap(), from.read(name, Seq(0)).unwrap(), "{name}");
    }
    assert!(back.verify_all().unwrap().is_empty());
    // Again, each is there; but a session without an entry does not take its name.
    assert_eq!(copy_all(&from, &there).unwrap(), [id("empty")]);
    // What cannot be copied holds nothing up that comes behind it.
    let odd = from.path().join("sessions/odd/anchors/001_session-start/entries.jsonl");
    std::fs::write(&odd, String::from_utf8(std::fs::read(&odd).unwrap()).unwrap().replacen("note", "nope", 1)).unwrap();
    for session in ["odd", "random"] {
        there.delete(&id(session)).unwrap();
    }
    let failed = copy_all(&from, &there).unwrap_err().to_string();
    assert!(failed.contains("2 sessions were copied") && failed.contains("session odd: "), "{failed}");
    assert!(there.exists(&id("random")) && !there.exists(&id("odd")));
    // What came in goes on, also in the next part.
    let (mut random, _) = Tape::load(&there, "random");
    let next = random.tape.last().0 + 1;
    random.append(&entries(next..=next + 1)).unwrap();
    random.anchor("and-on", next + 2).unwrap();
}

#[test]
fn tapes_go_from_postgresql_to_files_and_back_row_for_row() {
    let (options, again, folder) = (shared().database(), shared().database(), tempfile::tempdir().unwrap());
    let (from, there, back) =
        (Postgres::open(&options).unwrap(), files(folder.path()), Postgres::open(&again).unwrap());
    many(&from);
    for fork in ["forked-again", "late", "early"] {
        from.delete(&id(fork)).unwrap();
    }
    assert!(from.settle(LONG));
    let names = from.sessions().unwrap();
    assert_eq!(copy_all(&from, &there).unwrap(), names);
    assert_eq!(copy_all(&there, &back).unwrap(), names);
    assert!(rows(&again) == rows(&options), "the rows are not the same");
}

/// What a claim of a session that came from an unknown file may not do is noted at once with it, in PostgreSQL too.
#[test]
fn a_file_from_anyone_brings_words_and_no_rights_here_too() {
    let (folder, options) = (tempfile::tempdir().unwrap(), shared().database());
    let (from, to) = (files(folder.path()), Postgres::open(&options).unwrap());
    drop(talked(&from, "s"));
    assert!(from.settle(LONG));
    let file = exported(&from, "s");
    let into = ImportOptions::into_workspace("/here", Millis(5)).under(id("copy"));
    let imported = to.import(&mut &file[..], &into).unwrap();
    assert_eq!((imported.last, imported.anchors), (Seq(15), 3));
    assert_eq!(to.range(&id("copy"), Seq(15), Seq(15)).unwrap()[0].kind, "imported");
    // A fork from before that entry gets one like it.
    to.fork(&id("copy"), Some(Seq(8)), &id("fork"), Millis(1)).unwrap();
    let kinds: Vec<_> = to.range(&id("fork"), Seq(9), Seq(10)).unwrap().into_iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds, ["forked", "imported"]);
}

#[test]
fn what_is_damaged_does_not_move_and_leaves_nothing() {
    let (folder, options) = (tempfile::tempdir().unwrap(), shared().database());
    let (from, to) = (files(folder.path()), Postgres::open(&options).unwrap());
    drop(talked(&from, "s"));
    assert!(from.settle(LONG));
    let file = exported(&from, "s");
    let bring_in = |file: &[u8]| to.import(&mut &file[..], &ImportOptions::as_it_was());
    for at in (0..file.len()).step_by(97) {
        let mut changed = file.clone();
        changed[at] ^= 1;
        assert!(bring_in(&changed).is_err(), "byte {at}");
        assert!(matches!(bring_in(&file[..at]), Err(TapeError::Import { .. })), "cut at {at}");
    }
    assert_eq!(to.names().unwrap(), []);
    assert_eq!(rows(&options), Vec::<String>::new());
    bring_in(&file).unwrap();
    assert!(matches!(bring_in(&file), Err(TapeError::Exists { .. })));

    let schema = &options.schema;
    sql(
        &shared().address(),
        &format!("update {schema}.entries set line = replace(line, 'entry 3', 'entry 4') where seq = 3"),
    );
    let damaged = to.export(&id("s"), Spills::Left, &mut Vec::new());
    assert!(matches!(damaged, Err(TapeError::Damaged(_))), "{damaged:?}");
}

/// Large outputs have no place in PostgreSQL, and an engine that takes no imports says so.
#[test]
fn what_has_no_place_is_refused_before_anything_is_made() {
    let (folder, options) = (tempfile::tempdir().unwrap(), shared().database());
    let (from, to) = (files(folder.path()), Postgres::open(&options).unwrap());
    drop(talked(&from, "s"));
    assert!(from.settle(LONG));
    let spills = from.spill_path(&id("s")).unwrap();
    std::fs::create_dir_all(&spills).unwrap();
    std::fs::write(spills.join("output-1.log"), "much").unwrap();
    let mut file = Vec::new();
    from.export(&id("s"), Spills::Taken, &mut file).unwrap();
    let refused = to.import(&mut &file[..], &ImportOptions::as_it_was()).unwrap_err().to_string();
    assert!(refused.contains("no place for them: export it without them"), "{refused}");
    let plain = exported(&from, "s");
    let refused = MemoryStore::new().import(&mut &plain[..], &ImportOptions::as_it_was()).unwrap_err().to_string();
    assert!(refused.contains("takes no sessions from files"), "{refused}");
    assert_eq!((to.names().unwrap(), rows(&options)), (Vec::new(), Vec::new()));
}

struct InFiles(Store);

impl Keeps for InFiles {
    fn name(&self) -> &'static str {
        "files"
    }

    fn keep(&self, builder: Builder, _: &Path) -> Builder {
        builder.tapes(Arc::new(self.0.clone()))
    }
}

/// The model of the harness, which also sums up.
fn model() -> Arc<Scripted> {
    let mut limits = ModelLimits::default();
    (limits.context, limits.output) = (8_192, 1_000);
    let answer = |request: &Request| match &*request.system == tamtam::session::SUMMARY_SYSTEM {
        true => Reply::text("## Goal\nGo on."),
        false => reply(request),
    };
    Arc::new(Scripted::from_fn(answer).with_limits(limits))
}

async fn open<K: Keeps>(engine: &Engine<K>) -> (Runtime, Session) {
    let runtime = engine.builder().model(model()).start().await.unwrap();
    let session = runtime.session(&id("s"));
    (runtime, session)
}

/// A conversation that was summed up goes on in PostgreSQL, and then in files again, with all that was said.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_goes_on_where_it_was_moved_to() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (here, there) = (Engine::of(InFiles(files(one.path()))), crate::sessions::node(&shared().database(), "there"));
    let back = Engine::of(InFiles(files(other.path())));
    let (runtime, session) = open(&here).await;
    runtime.create(here.options()).await.unwrap();
    let mut turns = 0;
    while session.state().await.unwrap().context.compactions == 0 {
        turns += 1;
        assert!(turns < 100, "it is never summed up");
        session.prompt(format!("long {turns}")).await.unwrap().wait().await.unwrap();
    }
    say(&session, "before").await;
    session.wait().await.unwrap();
    let said = seen(&session).await;
    assert!(runtime.shutdown().await.is_empty());

    assert_eq!(copy_all(&here.kept.0, &there.kept).unwrap(), [id("s")]);
    let (runtime, session) = open(&there).await;
    assert_eq!(seen(&session).await, said);
    assert_eq!(say(&session, "there").await, "re there");
    session.wait().await.unwrap();
    let said = seen(&session).await;
    assert!(runtime.shutdown().await.is_empty());

    assert_eq!(copy_all(&there.kept, &back.kept.0).unwrap(), [id("s")]);
    let (runtime, session) = open(&back).await;
    assert_eq!(seen(&session).await, said);
    assert_eq!(say(&session, "back").await, "re back");
    assert!(runtime.shutdown().await.is_empty());
}
