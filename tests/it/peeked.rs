//! What is known of a session without waking it: one session as a list shows it, its state, and its past events page by page.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use tamtam::{
    Millis, Runtime, Seq, SessionId, SessionOptions,
    model::{Reply, Scripted},
    ops::{ListedSession, SessionQuery},
    runtime::Kind,
    session::{ForkOptions, Labels, Next, Record},
    tape::{
        Anchor, LoadedTape, Mark, MemoryStore, Notify, Position, SessionStatus, SessionSummary, SoundEnd, Spills,
        TapeEntry, TapeError, TapeStore, TapeStoreExt as _, TapeWriter,
    },
};
use tokio::time::timeout;

use crate::support::taped;

/// Far longer than anything here takes.
const LIMIT: Duration = Duration::from_secs(60);

/// Memory that notes whose entries are read, and how many at a time.
#[derive(Debug, Default)]
struct Watched {
    tapes: MemoryStore,
    reads: Mutex<Vec<(SessionId, usize)>>,
    /// What is done once behind a read.
    then: Mutex<Option<fn(&MemoryStore)>>,
}

impl Watched {
    fn taken(&self) -> Vec<(SessionId, usize)> {
        std::mem::take(&mut self.reads.lock().unwrap())
    }
}

impl TapeStore for Watched {
    fn begin(
        &self,
        session: &SessionId,
        after: Option<&Position>,
        notify: Notify,
    ) -> Result<Box<dyn TapeWriter>, TapeError> {
        self.tapes.begin(session, after, notify)
    }
    fn claim(&self, session: &SessionId, notify: Notify) -> Result<LoadedTape, TapeError> {
        self.tapes.claim(session, notify)
    }
    fn range(&self, session: &SessionId, from: Seq, through: Seq) -> Result<Vec<TapeEntry>, TapeError> {
        let read = self.tapes.range(session, from, through)?;
        self.reads.lock().unwrap().push((session.clone(), read.len()));
        if let Some(then) = self.then.lock().unwrap().take() {
            then(&self.tapes);
        }
        Ok(read)
    }
    fn position(&self, session: &SessionId, seq: Seq) -> Result<Option<Position>, TapeError> {
        self.tapes.position(session, seq)
    }
    fn parts(&self, session: &SessionId) -> Result<Vec<Anchor>, TapeError> {
        self.tapes.parts(session)
    }
    fn names(&self) -> Result<Vec<SessionId>, TapeError> {
        self.tapes.names()
    }
    fn summary(&self, session: &SessionId) -> Result<SessionSummary, TapeError> {
        self.tapes.summary(session)
    }
    fn sound_end(&self, session: &SessionId) -> Result<SoundEnd, TapeError> {
        self.tapes.sound_end(session)
    }
    fn erase(&self, session: &SessionId, last: Option<Seq>, unless: &[Mark]) -> Result<Option<Mark>, TapeError> {
        self.tapes.erase(session, last, unless)
    }
    fn mark(&self, session: &SessionId, mark: Mark, about: &str) -> Result<(), TapeError> {
        self.tapes.mark(session, mark, about)
    }
    fn unmark(&self, session: &SessionId, mark: Mark, about: &str) -> Result<(), TapeError> {
        self.tapes.unmark(session, mark, about)
    }
    fn marks(&self, mark: Mark, of: Option<&SessionId>) -> Result<Vec<(SessionId, String)>, TapeError> {
        self.tapes.marks(mark, of)
    }
    fn settle(&self, limit: Duration) -> bool {
        self.tapes.settle(limit)
    }
    fn folder(&self, of: Option<&SessionId>) -> Option<PathBuf> {
        self.tapes.folder(of)
    }
}

fn id(name: &str) -> SessionId {
    name.parse().unwrap()
}

fn model() -> Arc<Scripted> {
    Arc::new(Scripted::from_fn(|_| Reply::text("Hello.")))
}

/// What is found of one session is what the list shows of it: asleep, awake, parked, a fork. Nobody is woken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_session_is_found_as_the_list_shows_it_and_sleeps_on() {
    let folder = taped::folder();
    let runtime = Runtime::builder().store(folder.path().join("store")).model(model()).start().await.unwrap();
    for name in ["asleep", "awake", "parked", "deleted"] {
        let labels = Labels::new([("tenant", name)]).unwrap();
        let options = SessionOptions::new(folder.path()).id(id(name)).labels(labels);
        let session = runtime.create(options).await.unwrap();
        session.prompt(format!("Hello, {name}.")).await.unwrap().wait().await.unwrap();
        session.wait().await.unwrap();
    }
    let mut named = ForkOptions::default();
    named.id = Some(id("fork"));
    runtime.session(&id("asleep")).fork(named).await.unwrap();
    runtime.operate().park("parked").await.unwrap();
    runtime.delete(&id("deleted")).await.unwrap();
    for name in ["asleep", "fork"] {
        runtime.passivate(&id(name)).await.unwrap();
    }
    let listed = runtime.sessions(SessionQuery::default()).await.unwrap().sessions;
    assert_eq!(listed.len(), 4);
    for wanted in &listed {
        let found = runtime.find(&wanted.session).await.unwrap().unwrap();
        // Without an index children are not counted by either.
        assert_eq!(&found, wanted);
    }
    let status = |name: &str| listed.iter().find(|listed| listed.session == id(name)).map(|listed| listed.status);
    assert_eq!(status("parked"), Some(SessionStatus::Parked));
    assert_eq!((status("asleep"), status("awake")), (Some(SessionStatus::Passive), Some(SessionStatus::Live)));
    for missing in ["deleted", "never", "aslee"] {
        assert_eq!(runtime.find(&id(missing)).await.unwrap(), None, "{missing}");
    }
    let awake = runtime.awake();
    assert!(!awake.contains(&id("asleep")) && !awake.contains(&id("fork")), "nobody was woken: {awake:?}");
    assert!(runtime.shutdown().await.is_empty());
}

/// The newest entry counts at once: a title that was just set is found, however often one looks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_just_recorded_is_found() {
    let folder = taped::folder();
    let runtime = Runtime::builder().store(folder.path().join("store")).model(model()).start().await.unwrap();
    let session = runtime.create(SessionOptions::new(folder.path())).await.unwrap();
    for n in 0..20 {
        session.set_title(Some(format!("title {n}"))).await.unwrap();
        let found = runtime.find(session.id()).await.unwrap().unwrap();
        let seq = session.peek().await.unwrap().seq;
        assert_eq!((found.title, found.seq), (Some(format!("title {n}")), seq));
    }
    assert!(runtime.shutdown().await.is_empty());
}

/// However many sessions there are, a look at one reads the tape of that one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_look_at_one_session_reads_no_other_tape() {
    let engine = Arc::new(Watched::default());
    let runtime = Runtime::builder().tapes(engine.clone()).model(model()).start().await.unwrap();
    for n in 0..50 {
        let session = runtime.create(SessionOptions::new(".").id(id(&format!("s{n}")))).await.unwrap();
        session.prompt("Hello.").await.unwrap().wait().await.unwrap();
        session.wait().await.unwrap();
        runtime.passivate(session.id()).await.unwrap();
    }
    drop(engine.taken());
    let found: Option<ListedSession> = runtime.find(&id("s7")).await.unwrap();
    assert_eq!(found.unwrap().requests, Some(1));
    let seq = runtime.session(&id("s8")).peek().await.unwrap().seq;
    let read: BTreeSet<_> = engine.taken().into_iter().map(|(session, _)| session).collect();
    assert_eq!(read, BTreeSet::from([id("s7"), id("s8")]));
    assert!(runtime.awake().is_empty(), "nobody was woken");
    assert_eq!(runtime.session(&id("s8")).last_entry().await.unwrap(), seq);
    assert_eq!(engine.taken(), [], "of the last entry alone no tape is read");
    assert_eq!(runtime.session(&id("s8")).state().await.unwrap().seq, seq);
    assert!(runtime.session(&id("s8")).is_awake());
    drop(engine.taken());
    assert_eq!(runtime.session(&id("s8")).peek().await.unwrap().seq, seq);
    assert_eq!(runtime.session(&id("s8")).last_entry().await.unwrap(), seq);
    assert_eq!(engine.taken(), [], "the state of a session that is awake is published");
    let missing = runtime.session(&id("never")).peek().await.unwrap_err();
    assert_eq!(missing.kind(), Kind::NotFound);
    // A deleted one stays while it has a fork.
    runtime.session(&id("s9")).fork(ForkOptions::default()).await.unwrap();
    runtime.delete(&id("s9")).await.unwrap();
    for missing in ["never", "s9"] {
        let missing = runtime.session(&id(missing)).last_entry().await.unwrap_err();
        assert_eq!(missing.kind(), Kind::NotFound);
    }
    assert!(runtime.shutdown().await.is_empty());
}

/// A reader of a long past who stops in the middle misses no durable event, although far more come meanwhile than a ring holds; and
/// at no time more than a page is read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_reader_of_a_long_past_misses_no_durable_event_and_costs_a_page() {
    const PAGE: usize = 256;
    let engine = Arc::new(Watched::default());
    let runtime = Runtime::builder().tapes(engine.clone()).model(model()).start().await.unwrap();
    let session = runtime.create(SessionOptions::new(".")).await.unwrap();
    let pauses = async |times: usize| {
        for _ in 0..times {
            session.pause().await.unwrap();
            session.resume().await.unwrap();
        }
    };
    pauses(300).await;
    drop(engine.taken());
    let mut events = session.events_after(Seq(0)).await.unwrap();
    let begun: usize = engine.taken().iter().map(|(_, entries)| entries).sum();
    assert!(begun <= 2 * PAGE, "{begun} entries were read before anybody asked for an event");
    let mut one = async || match timeout(LIMIT, events.next()).await.unwrap() {
        Some(Next::Event(event)) => event.id.seq,
        other => panic!("{other:?}"),
    };
    let mut read = vec![one().await];
    // More than the 4,096 events of a ring.
    pauses(2_100).await;
    // An anchor has no event.
    let entries = session.entries().await.unwrap();
    let wanted: Vec<_> = entries.iter().filter(|entry| !matches!(entry.record, Record::State(_))).collect();
    let wanted: Vec<_> = wanted.into_iter().map(|entry| entry.seq).collect();
    drop(engine.taken());
    while read.len() < wanted.len() {
        read.push(one().await);
    }
    assert_eq!((wanted.len(), read), (4_800, wanted));
    let last = session.peek().await.unwrap().seq;
    pauses(1).await;
    assert_eq!((one().await, one().await), (last.next(), last.next().next()), "and then what is live");
    let largest = engine.taken().into_iter().map(|(_, entries)| entries).max();
    assert_eq!(largest, Some(PAGE));
    assert!(runtime.shutdown().await.is_empty());
}

/// A session of two entries.
fn make(tapes: &MemoryStore, text: &str) {
    let mut tape = tapes.create(&id("s"), Arc::new(|_| {})).unwrap();
    let data = serde_json::value::to_raw_value(text).unwrap();
    let entries = [1, 2].map(|seq| TapeEntry::new(Seq(seq), Millis(seq), "note", data.clone()));
    let _ = tape.append(&entries);
    assert!(tapes.settle(LIMIT));
}

/// What is gone is not backed up: the session was deleted behind the read of its entries, and another one has its name and length.
#[test]
fn an_export_of_a_session_that_another_one_replaced_fails() {
    let engine = Watched::default();
    make(&engine.tapes, "secret");
    *engine.then.lock().unwrap() = Some(|tapes| {
        tapes.delete(&id("s")).unwrap();
        make(tapes, "other");
    });
    let gone = engine.export(&id("s"), Spills::Left, &mut Vec::new());
    assert!(matches!(gone, Err(TapeError::Missing { .. })), "{gone:?}");
    assert_eq!(engine.taken().len(), 1, "it was read");
    assert_eq!(engine.export(&id("s"), Spills::Left, &mut Vec::new()).unwrap().last, Seq(2));
}
