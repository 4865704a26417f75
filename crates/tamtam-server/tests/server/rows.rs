//! A stream of a session that this node has not: it looks at the rows, at the cost of a look.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use serde_json::Value;
use tamtam::{
    Delivery, Message, MessageId, Runtime, Seq, SessionId, SessionOptions,
    model::{BoxFuture, Scripted},
    tape::{
        Anchor, LoadedTape, Mark, MemoryStore, Notify, Position, SessionSummary, SoundEnd, TapeEntry, TapeError,
        TapeStore, TapeWriter,
    },
};
use tamtam_server::{Bound, MessageStage, Nodes, Problem, Server, ServerOptions, serve_beside};

use crate::client::Client;

/// Memory that counts, and that can be away for a while.
#[derive(Debug, Default)]
struct Rows {
    tapes: MemoryStore,
    /// How often the end of a tape was asked for, and entries were read.
    ends: AtomicUsize,
    reads: AtomicUsize,
    /// Whether the next read of a further page fails.
    breaks: AtomicBool,
    /// Whether a question for the end gets no answer; how many wait for one, and the most that did.
    is_away: AtomicBool,
    waiting: AtomicUsize,
    waited_max: AtomicUsize,
}

impl TapeStore for Rows {
    fn begin(
        &self,
        id: &SessionId,
        after: Option<&Position>,
        notify: Notify,
    ) -> Result<Box<dyn TapeWriter>, TapeError> {
        self.tapes.begin(id, after, notify)
    }
    fn claim(&self, id: &SessionId, notify: Notify) -> Result<LoadedTape, TapeError> {
        self.tapes.claim(id, notify)
    }
    fn range(&self, id: &SessionId, from: Seq, through: Seq) -> Result<Vec<TapeEntry>, TapeError> {
        self.reads.fetch_add(1, SeqCst);
        if from > Seq(100) && self.breaks.swap(false, SeqCst) {
            return Err(TapeError::engine("the database is away"));
        }
        self.tapes.range(id, from, through)
    }
    fn position(&self, id: &SessionId, seq: Seq) -> Result<Option<Position>, TapeError> {
        self.tapes.position(id, seq)
    }
    fn parts(&self, id: &SessionId) -> Result<Vec<Anchor>, TapeError> {
        self.tapes.parts(id)
    }
    fn names(&self) -> Result<Vec<SessionId>, TapeError> {
        self.tapes.names()
    }
    fn summary(&self, id: &SessionId) -> Result<SessionSummary, TapeError> {
        self.ends.fetch_add(1, SeqCst);
        self.waited_max.fetch_max(self.waiting.fetch_add(1, SeqCst) + 1, SeqCst);
        while self.is_away.load(SeqCst) {
            std::thread::sleep(Duration::from_millis(2));
        }
        self.waiting.fetch_sub(1, SeqCst);
        self.tapes.summary(id)
    }
    fn sound_end(&self, id: &SessionId) -> Result<SoundEnd, TapeError> {
        self.tapes.sound_end(id)
    }
    fn erase(&self, id: &SessionId, last: Option<Seq>, unless: &[Mark]) -> Result<Option<Mark>, TapeError> {
        self.tapes.erase(id, last, unless)
    }
    fn mark(&self, id: &SessionId, mark: Mark, about: &str) -> Result<(), TapeError> {
        self.tapes.mark(id, mark, about)
    }
    fn unmark(&self, id: &SessionId, mark: Mark, about: &str) -> Result<(), TapeError> {
        self.tapes.unmark(id, mark, about)
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

/// Other nodes, of which nothing is asked here.
struct Others;

impl Nodes for Others {
    fn send<'a>(&'a self, _: &'a SessionId, _: Message, _: Delivery) -> BoxFuture<'a, Result<(), Problem>> {
        panic!("nothing is sent")
    }
    fn abort<'a>(&'a self, _: &'a SessionId, _: Option<Seq>, _: String) -> BoxFuture<'a, Result<bool, Problem>> {
        panic!("nothing is aborted")
    }
    fn progress<'a>(&'a self, _: &'a SessionId, _: &'a MessageId) -> BoxFuture<'a, Result<MessageStage, Problem>> {
        panic!("no message is followed")
    }
    fn tree(&self) -> BoxFuture<'_, Result<(Value, String), Problem>> {
        panic!("no node is shown")
    }
}

/// A server over these rows, with the session `s` of some 600 entries, asleep.
async fn served() -> (Arc<Rows>, Runtime, Client, Seq) {
    let rows = Arc::new(Rows::default());
    let model = Arc::new(Scripted::new([]));
    let runtime = Runtime::builder().tapes(rows.clone()).model(model).start().await.unwrap();
    let session = runtime.create(SessionOptions::new(".").id("s".parse().unwrap())).await.unwrap();
    for _ in 0..300 {
        session.pause().await.unwrap();
        session.resume().await.unwrap();
    }
    runtime.passivate(session.id()).await.unwrap();
    let last = session.last_entry().await.unwrap();
    let server = Server::new(runtime.clone()).with(ServerOptions::default()).nodes(Arc::new(Others));
    let bound = Bound::tcp("127.0.0.1:0".parse().unwrap(), &server).await.unwrap();
    let client = Client { at: bound.address().unwrap().into() };
    tokio::spawn(serve_beside(server, bound, std::future::pending()));
    (rows, runtime, client, last)
}

/// Waits until that is so.
async fn comes_true(is_so: impl Fn() -> bool) {
    while !is_so() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// A further page of the past cannot be read once: the stream goes on, and has each event once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_could_not_be_read_is_read_by_the_next_look() {
    let (rows, runtime, client, last) = served().await;
    rows.breaks.store(true, SeqCst);
    let mut events = client.events("/v1/sessions/s/events?after=0", "").await;
    let mut told = Vec::new();
    while !events.last.starts_with(&format!("{last}.")) {
        let frame = events.next().await.unwrap();
        assert_eq!(frame.event, "", "{:?}", frame.data);
        told.push(frame.id);
    }
    assert!(!rows.breaks.load(SeqCst), "a page could not be read");
    let once: BTreeSet<&String> = told.iter().collect();
    assert!(once.len() == told.len() && told.len() >= 600, "{told:?}");
    // With the runtime the stream ends all the same.
    assert!(runtime.shutdown().await.is_empty());
    assert!(events.until("ended").await["why"].to_string().contains("down"));
}

/// Looks that find nothing new read no tape.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_look_asks_for_the_end_of_the_tape_alone() {
    let (rows, runtime, client, _) = served().await;
    let _events = client.events("/v1/sessions/s/events", "").await;
    let first = rows.ends.load(SeqCst);
    comes_true(|| rows.ends.load(SeqCst) > first).await;
    let (ends, reads) = (rows.ends.load(SeqCst), rows.reads.load(SeqCst));
    comes_true(|| rows.ends.load(SeqCst) >= ends + 3).await;
    assert_eq!(rows.reads.load(SeqCst), reads);
    assert!(runtime.shutdown().await.is_empty());
}

/// While the store gives no answer, the looks of many streams hold few threads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn looks_that_get_no_answer_hold_few_threads() {
    let (rows, runtime, client, _) = served().await;
    let mut streams = Vec::new();
    for _ in 0..24 {
        streams.push(client.events("/v1/sessions/s/events", "").await);
    }
    rows.is_away.store(true, SeqCst);
    comes_true(|| rows.waiting.load(SeqCst) >= 8).await;
    // All streams want to look by now.
    tokio::time::sleep(Duration::from_secs(1)).await;
    rows.is_away.store(false, SeqCst);
    let ends = rows.ends.load(SeqCst);
    comes_true(|| rows.ends.load(SeqCst) >= ends + 24).await;
    assert_eq!(rows.waited_max.load(SeqCst), 8);
    assert!(runtime.shutdown().await.is_empty());
}
