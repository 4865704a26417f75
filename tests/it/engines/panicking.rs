//! An engine that panics in a method. The error names the method, and says: the tape store failed, and the runtime is
//! not shutting down.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use tamtam::{
    OpenError, Outcome, Runtime, SendError, Seq, SessionId, SessionOptions,
    model::{Reply, Scripted},
    runtime::{DeleteError, Kind, StartError},
    tape::{
        Anchor, FoundEntry, LoadedTape, Mark, MemoryStore, Notify, Position, SessionSummary, SoundEnd, TapeEntry,
        TapeError, TapeStore, TapeWriter, UnreadTape, WantedWords,
    },
};

/// Memory whose methods panic on demand.
#[derive(Debug, Default)]
struct Panics {
    tapes: MemoryStore,
    at: Mutex<&'static str>,
}

impl Panics {
    fn set(&self, method: &'static str) {
        *self.at.lock().unwrap() = method;
    }

    fn enter(&self, method: &str) {
        let at = *self.at.lock().unwrap();
        assert!(at != method, "the pool of connections is gone");
    }
}

impl TapeStore for Panics {
    fn begin(
        &self,
        session: &SessionId,
        after: Option<&Position>,
        notify: Notify,
    ) -> Result<Box<dyn TapeWriter>, TapeError> {
        self.enter("begin");
        self.tapes.begin(session, after, notify)
    }
    fn claim(&self, session: &SessionId, notify: Notify) -> Result<LoadedTape, TapeError> {
        self.enter("claim");
        self.tapes.claim(session, notify)
    }
    fn range(&self, session: &SessionId, from: Seq, through: Seq) -> Result<Vec<TapeEntry>, TapeError> {
        self.enter("range");
        self.tapes.range(session, from, through)
    }
    fn position(&self, session: &SessionId, seq: Seq) -> Result<Option<Position>, TapeError> {
        self.enter("position");
        self.tapes.position(session, seq)
    }
    fn parts(&self, session: &SessionId) -> Result<Vec<Anchor>, TapeError> {
        self.enter("parts");
        self.tapes.parts(session)
    }
    fn names(&self) -> Result<Vec<SessionId>, TapeError> {
        self.enter("names");
        self.tapes.names()
    }
    fn summary(&self, session: &SessionId) -> Result<SessionSummary, TapeError> {
        self.enter("summary");
        self.tapes.summary(session)
    }
    fn summaries(&self) -> Result<Vec<SessionSummary>, TapeError> {
        self.enter("summaries");
        self.names()?.iter().map(|session| self.summary(session)).collect()
    }
    fn unread_words(&self, _: Option<&SessionId>, _: usize) -> Result<Vec<UnreadTape>, TapeError> {
        self.enter("unread_words");
        Ok(Vec::new())
    }
    fn find_words(&self, _: &WantedWords) -> Result<Vec<FoundEntry>, TapeError> {
        self.enter("find_words");
        Ok(Vec::new())
    }
    fn sound_end(&self, session: &SessionId) -> Result<SoundEnd, TapeError> {
        self.enter("sound_end");
        self.tapes.sound_end(session)
    }
    fn erase(&self, session: &SessionId, last: Option<Seq>, unless: &[Mark]) -> Result<Option<Mark>, TapeError> {
        self.enter("erase");
        self.tapes.erase(session, last, unless)
    }
    fn mark(&self, session: &SessionId, mark: Mark, about: &str) -> Result<(), TapeError> {
        self.enter("mark");
        self.tapes.mark(session, mark, about)
    }
    fn unmark(&self, session: &SessionId, mark: Mark, about: &str) -> Result<(), TapeError> {
        self.enter("unmark");
        self.tapes.unmark(session, mark, about)
    }
    fn marks(&self, mark: Mark, of: Option<&SessionId>) -> Result<Vec<(SessionId, String)>, TapeError> {
        self.enter("marks");
        self.tapes.marks(mark, of)
    }
    fn settle(&self, limit: Duration) -> bool {
        self.enter("settle");
        self.tapes.settle(limit)
    }
    fn folder(&self, of: Option<&SessionId>) -> Option<PathBuf> {
        self.enter("folder");
        self.tapes.folder(of)
    }
}

/// Seen with a host's engine: a panic in `range`, `names`, `summary` or `marks` was told as "the runtime is shutting down and opens
/// no sessions", which a host may take for final.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_of_an_engine_is_a_storage_failure_that_names_the_method() {
    let (engine, folder) = (Arc::new(Panics::default()), tempfile::tempdir().unwrap());
    let start = || {
        let model = Arc::new(Scripted::from_fn(|_| Reply::text("Fine.")));
        Runtime::builder().tapes(engine.clone()).model(model).start()
    };
    let runtime = start().await.unwrap();
    let session = runtime.create(SessionOptions::new(folder.path())).await.unwrap();
    let told = session.prompt("Go.").await.unwrap().seq;
    session.wait().await.unwrap();
    let id = session.id().clone();
    runtime.passivate(&id).await.unwrap();

    let held = |method: &'static str, error: String, kind: Kind| {
        engine.set("");
        assert_eq!(kind, Kind::Storage, "{method}: {error}");
        assert!(error.contains(&format!("`{method}` panicked: the pool of connections is gone")), "{method}: {error}");
    };
    let opened = |method: &'static str, error: OpenError| held(method, error.to_string(), error.kind());

    // One session that panics is listed as one that cannot be read.
    let listed = runtime.list().await.unwrap();
    engine.set("summaries");
    assert_eq!(runtime.list().await.unwrap(), listed);
    engine.set("summary");
    assert_eq!(runtime.list().await.unwrap(), [SessionSummary::unread(id.clone())]);
    engine.set("names");
    opened("names", runtime.list().await.unwrap_err());
    #[cfg(feature = "sqlite")]
    {
        use tamtam::tape::{Behind, Query};
        engine.set("find_words");
        opened("find_words", runtime.search(Query::new("fine")).await.unwrap_err());
        // What is in is searched.
        engine.set("unread_words");
        assert_eq!(runtime.search(Query::new("fine")).await.unwrap().behind, Behind::Sessions(1));
    }
    engine.set("range");
    opened("range", session.events_after(Seq::ZERO).await.map(drop).unwrap_err());
    engine.set("summary");
    opened("summary", runtime.exists(&id).await.unwrap_err());
    engine.set("position");
    let error = runtime.session(&id).fork(told).await.map(drop).unwrap_err();
    held("position", error.to_string(), error.kind());
    engine.set("begin");
    opened("begin", runtime.create(SessionOptions::new(folder.path())).await.map(drop).unwrap_err());
    engine.set("claim");
    opened("claim", runtime.open(&id).await.map(drop).unwrap_err());
    engine.set("claim");
    let SendError::Unavailable(error) = session.prompt("Go.").await.map(drop).unwrap_err() else { panic!("no send") };
    opened("claim", *error);
    engine.set("mark");
    opened("mark", runtime.protect(&id).await.unwrap_err());
    engine.set("erase");
    let DeleteError::Open(error) = runtime.delete(&id).await.map(drop).unwrap_err() else { panic!("not deleted") };
    opened("erase", error);

    // The mark of an open turn is put in the actor's own thread: that is an answer too, and crashes nothing.
    let session = runtime.open(&id).await.unwrap();
    engine.set("mark");
    let error = session.prompt("Go.").await.map(drop).unwrap_err();
    held("mark", error.to_string(), error.kind());
    assert!(runtime.crashes().is_empty(), "{:?}", runtime.crashes());
    assert_eq!(session.prompt("Go.").await.unwrap().wait().await.unwrap().outcome, Outcome::Done);
    // Nobody knows whether everything was written, so the runtime does not say so; and it ends.
    engine.set("settle");
    drop(runtime.shutdown().await);

    engine.set("marks");
    let Err(StartError::Store(error)) = start().await.map(drop) else { panic!("it started") };
    held("marks", error.to_string(), error.kind());
    drop(start().await.unwrap().shutdown().await);
}
