//! A host's own engine: the plainest one ([`Plain`]), written by a thread, so that each append is answered later. On
//! demand it refuses, takes only small rows, writes nothing for a while, cannot read a session, or releases sessions
//! late.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use tamtam::{
    Millis, Seq, SessionId,
    tape::{
        Anchor, Appended, Deleted, GivenBack, Holder, LoadedTape, Mark, Notify, Position, SessionSummary, TapeEntry,
        TapeError, TapeStore, TapeStoreExt as _, TapeWriter,
    },
};

use super::plain::Plain;

/// A clone is the same engine.
#[derive(Clone, Debug)]
pub(super) struct Own {
    plain: Plain,
    refuses: Arc<AtomicBool>,
    /// Appends that were refused.
    pub(super) refused: Arc<AtomicUsize>,
    /// Appends that nobody was told of yet.
    pub(super) outstanding: Arc<AtomicUsize>,
    /// It panics at the next append of an entry of this kind, once.
    panics_at: Arc<Mutex<Option<&'static str>>>,
    /// The most bytes of one entry; 0 for no such bound.
    pub(super) row_max: Arc<AtomicUsize>,
    /// How often somebody tried to load the session that cannot be read.
    pub(super) reads: Arc<AtomicUsize>,
    /// A fork that is made just before the mark of one is taken away, once.
    made_late: Arc<Mutex<Option<SessionId>>>,
    /// Another process has claimed this session when it is next to be erased, once.
    claimed_once: Arc<Mutex<Option<SessionId>>>,
    standing: Arc<SessionStatus>,
    is_late: Arc<AtomicBool>,
    /// What keeps the threads of handles that are gone from giving their sessions back.
    leaving: Arc<Mutex<Vec<mpsc::Sender<Job>>>>,
}

#[derive(Debug, Default)]
struct SessionStatus {
    inner: Mutex<Inner>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    /// Nothing is written just now.
    held: bool,
    /// It cannot be read just now.
    away: Option<SessionId>,
    /// Their writers were dropped, and are not through with what was appended.
    closing: BTreeSet<SessionId>,
}

impl Own {
    pub(super) fn new() -> Own {
        Own {
            plain: Plain::default(),
            refuses: Arc::default(),
            refused: Arc::default(),
            panics_at: Arc::default(),
            outstanding: Arc::default(),
            row_max: Arc::default(),
            reads: Arc::default(),
            made_late: Arc::default(),
            claimed_once: Arc::default(),
            standing: Arc::default(),
            is_late: Arc::default(),
            leaving: Arc::default(),
        }
    }

    /// The next append of an entry of that kind panics, and takes nothing.
    pub(super) fn panic_at(&self, kind: &'static str) {
        *self.panics_at.lock().unwrap() = Some(kind);
    }

    /// From now on the session of a handle that is gone is given back when it is waited for, and no earlier.
    pub(super) fn give_back_late(&self) {
        self.is_late.store(true, Ordering::SeqCst);
    }

    /// Gives back what was kept by then.
    pub(super) fn give_back(&self) {
        self.leaving.lock().unwrap().clear();
    }

    /// Whether the handle of a session is gone, and the session not given back yet.
    pub(super) fn is_leaving(&self, session: &SessionId) -> bool {
        self.standing.inner.lock().unwrap().closing.contains(session)
    }

    /// From now on nothing is written, or all that waits.
    pub(super) fn hold(&self, hold: bool) {
        self.standing.inner.lock().unwrap().held = hold;
        self.standing.moved.notify_all();
    }

    /// From now on it cannot load that session.
    pub(super) fn keep_away(&self, session: Option<&str>) {
        self.standing.inner.lock().unwrap().away = session.map(|session| session.parse().unwrap());
    }

    fn wait_while(&self, until: Instant, holds: impl Fn(&Inner) -> bool) -> bool {
        let (inner, left) = (self.standing.inner.lock().unwrap(), until.saturating_duration_since(Instant::now()));
        !self.standing.moved.wait_timeout_while(inner, left, |inner| holds(inner)).unwrap().1.timed_out()
    }

    /// A session whose writer was dropped is given back behind its last append.
    fn wait_until_given_back(&self, session: &SessionId) {
        let until = Instant::now() + Duration::from_secs(60);
        assert!(self.wait_while(until, |inner| inner.closing.contains(session)));
    }

    fn refusal(&self, entries: &[TapeEntry]) -> Option<TapeError> {
        if self.refuses.load(Ordering::SeqCst) {
            return Some(TapeError::engine("the database is away"));
        }
        let max = self.row_max.load(Ordering::SeqCst);
        let bytes = entries.iter().map(|entry| entry.data.get().len()).max().unwrap_or(0);
        (max > 0 && bytes > max).then_some(TapeError::TooLarge { bytes, max })
    }

    /// From now on it takes nothing, or takes all again.
    pub(super) fn refuse(&self, refuse: bool) {
        self.refuses.store(refuse, Ordering::SeqCst);
    }

    fn writer(&self, session: SessionId, mut writer: Box<dyn TapeWriter>, notify: Notify) -> Box<dyn TapeWriter> {
        let (queue, jobs) = mpsc::channel::<Job>();
        let (last, then) = (writer.last(), Then::default());
        let (own, id, tell) = (self.clone(), session.clone(), then.clone());
        std::thread::spawn(move || {
            for Job { anchor, entries } in jobs {
                own.wait_while(Instant::now() + Duration::from_secs(60), |inner| inner.held);
                let result = match (own.refusal(&entries), anchor) {
                    (Some(error), _) => {
                        own.refused.fetch_add(1, Ordering::SeqCst);
                        Err(error)
                    }
                    (None, Some(name)) => at_once(writer.begin_anchor(&name, &entries[0])),
                    (None, None) => at_once(writer.append(&entries)),
                };
                own.outstanding.fetch_sub(1, Ordering::SeqCst);
                notify(result);
            }
            drop(writer);
            own.standing.inner.lock().unwrap().closing.remove(&id);
            own.standing.moved.notify_all();
            if let Some(then) = tell.0.lock().unwrap().take() {
                then();
            }
        });
        Box::new(OwnWriter { own: self.clone(), session, queue: Some(queue), last, then })
    }
}

fn at_once(appended: Appended) -> Result<Seq, TapeError> {
    match appended {
        Appended::Now(result) => result,
        Appended::Later => panic!("memory answers at once"),
    }
}

struct Job {
    anchor: Option<String>,
    entries: Vec<TapeEntry>,
}

/// Who is told when a session was given back.
#[derive(Clone, Default)]
struct Then(Arc<Mutex<Option<GivenBack>>>);

impl fmt::Debug for Then {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Then").finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct OwnWriter {
    own: Own,
    session: SessionId,
    queue: Option<mpsc::Sender<Job>>,
    last: Seq,
    then: Then,
}

impl OwnWriter {
    fn push(&mut self, anchor: Option<String>, entries: Vec<TapeEntry>) -> Appended {
        self.own.outstanding.fetch_add(1, Ordering::SeqCst);
        self.queue.as_ref().unwrap().send(Job { anchor, entries }).unwrap();
        Appended::Later
    }
}

impl TapeWriter for OwnWriter {
    fn last(&self) -> Seq {
        self.last
    }

    fn append(&mut self, entries: &[TapeEntry]) -> Appended {
        let is_it = |kind: &mut &'static str| entries.iter().any(|entry| entry.kind == *kind);
        let panics = self.own.panics_at.lock().unwrap().take_if(is_it);
        if panics.is_some() {
            panic!("the connection broke");
        }
        self.push(None, entries.to_vec())
    }

    fn begin_anchor(&mut self, name: &str, first: &TapeEntry) -> Appended {
        self.push(Some(name.to_owned()), vec![first.clone()])
    }

    fn give_back(self: Box<Self>, then: GivenBack) {
        // Told by the thread, which learns of it when this is dropped.
        *self.then.0.lock().unwrap() = Some(then);
    }
}

impl Drop for OwnWriter {
    fn drop(&mut self) {
        // Given back behind the last append, by the thread. Whoever drops it may not wait.
        self.own.standing.inner.lock().unwrap().closing.insert(self.session.clone());
        let queue = self.queue.take();
        if self.own.is_late.load(Ordering::SeqCst) {
            self.own.leaving.lock().unwrap().extend(queue);
        }
    }
}

impl TapeStore for Own {
    fn begin(
        &self,
        session: &SessionId,
        after: Option<&Position>,
        notify: Notify,
    ) -> Result<Box<dyn TapeWriter>, TapeError> {
        self.wait_until_given_back(session);
        Ok(self.writer(session.clone(), self.plain.begin(session, after, Arc::new(|_| {}))?, notify))
    }

    fn claim(&self, session: &SessionId, notify: Notify) -> Result<LoadedTape, TapeError> {
        if self.standing.inner.lock().unwrap().away.as_ref() == Some(session) {
            self.reads.fetch_add(1, Ordering::SeqCst);
            return Err(TapeError::engine("the database is away"));
        }
        self.wait_until_given_back(session);
        let mut loaded = self.plain.claim(session, Arc::new(|_| {}))?;
        loaded.tape = self.writer(session.clone(), loaded.tape, notify);
        Ok(loaded)
    }

    fn range(&self, session: &SessionId, from: Seq, through: Seq) -> Result<Vec<TapeEntry>, TapeError> {
        self.plain.range(session, from, through)
    }

    fn position(&self, session: &SessionId, seq: Seq) -> Result<Option<Position>, TapeError> {
        self.plain.position(session, seq)
    }

    fn parts(&self, session: &SessionId) -> Result<Vec<Anchor>, TapeError> {
        self.plain.parts(session)
    }

    fn names(&self) -> Result<Vec<SessionId>, TapeError> {
        self.plain.names()
    }

    fn summary(&self, session: &SessionId) -> Result<SessionSummary, TapeError> {
        self.plain.summary(session)
    }

    fn erase(&self, session: &SessionId, last: Option<Seq>, unless: &[Mark]) -> Result<Option<Mark>, TapeError> {
        self.wait_until_given_back(session);
        match self.claimed_once.lock().unwrap().take_if(|claimed_once| claimed_once == session) {
            Some(session) => Err(TapeError::Claimed { session, by: Holder::new("another", 1, "here") }),
            None => self.plain.erase(session, last, unless),
        }
    }

    fn mark(&self, session: &SessionId, mark: Mark, about: &str) -> Result<(), TapeError> {
        self.plain.mark(session, mark, about)
    }

    fn unmark(&self, session: &SessionId, mark: Mark, about: &str) -> Result<(), TapeError> {
        if let Some(fork) = self.made_late.lock().unwrap().take_if(|_| mark == Mark::Fork) {
            self.plain.fork(session, None, &fork, Millis(2))?;
        }
        self.plain.unmark(session, mark, about)
    }

    fn marks(&self, mark: Mark, of: Option<&SessionId>) -> Result<Vec<(SessionId, String)>, TapeError> {
        self.plain.marks(mark, of)
    }

    fn settle(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        while self.outstanding.load(Ordering::SeqCst) > 0 {
            if Instant::now() >= until {
                return false;
            }
            std::thread::yield_now();
        }
        self.give_back();
        self.wait_while(until, |inner| !inner.closing.is_empty())
    }
}

/// An engine with a session of one entry, and a name for a fork of it.
fn with_a_parent() -> (Own, SessionId, SessionId) {
    let own = Own::new();
    let [parent, fork]: [SessionId; 2] = ["parent", "fork"].map(|name| name.parse().unwrap());
    let mut tape = own.create(&parent, Arc::new(|_| {})).unwrap();
    let data = serde_json::value::to_raw_value("said before").unwrap();
    let (seq, time, kind) = (Seq(1), Millis(1), "said".to_owned());
    let first = TapeEntry::new(seq, time, kind, data);
    let _ = tape.append(&[first]);
    drop(tape);
    assert!(own.settle(Duration::from_secs(60)));
    (own, parent, fork)
}

/// A stale mark of a fork is taken away in the moment in which a fork of that name is made: what it goes on from is hidden for it, and
/// not erased.
#[test]
fn a_fork_that_is_made_while_its_old_mark_is_taken_away_keeps_what_it_goes_on_from() {
    let (own, parent, fork) = with_a_parent();
    own.mark(&parent, Mark::Fork, fork.as_str()).unwrap();
    *own.made_late.lock().unwrap() = Some(fork.clone());

    assert_eq!(own.delete(&parent).unwrap(), Deleted::Hidden);
    assert_eq!(own.forks_of(&parent).unwrap(), std::slice::from_ref(&fork));
    let said = own.read(&fork, Seq::ZERO).unwrap();
    assert!(said[0].data.get().contains("said before"));
}

/// Somebody looks at a hidden session in the moment in which its last fork is deleted: it goes all the same.
#[test]
fn a_hidden_session_that_somebody_looks_at_goes_with_its_last_fork() {
    let (own, parent, fork) = with_a_parent();
    own.fork(&parent, None, &fork, Millis(2)).unwrap();
    assert_eq!(own.delete(&parent).unwrap(), Deleted::Hidden);
    *own.claimed_once.lock().unwrap() = Some(parent);

    assert_eq!(own.delete(&fork).unwrap(), Deleted::Gone);
    assert_eq!(own.names().unwrap(), []);
}
