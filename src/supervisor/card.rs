//! What is known about one node of the tree, readable without asking the node.
//!
//! A card belongs to a child's place in its supervisor and not to one incarnation: it outlives crashes and counts them.
//! Writing never waits for a reader for longer than a few copies take, so a stuck or flooded actor stays visible.

use std::{
    collections::VecDeque,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use serde::Serialize;
use tokio::time::Instant;

use crate::{
    ids::Millis,
    supervisor::{exit::ExitReason, registry::Shelf},
};

/// How many of the last messages a card remembers.
pub(crate) const EVENTS_KEPT: usize = 16;

/// What a node is doing with its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Status {
    /// Known, but not running.
    #[default]
    Stopped,
    /// On its way up.
    Starting,
    /// Up.
    Running,
    /// Asked to stop.
    Stopping,
    /// Waiting for its restart.
    Backoff,
    /// Kept stopped after too many crashes, or by hand.
    Parked,
    /// Killed, and still there: it is in code that never awaits.
    Unkillable,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Status::Stopped => "stopped",
            Status::Starting => "starting",
            Status::Running => "running",
            Status::Stopping => "stopping",
            Status::Backoff => "back-off",
            Status::Parked => "parked",
            Status::Unkillable => "unkillable",
        })
    }
}

/// One of the last things that happened to an actor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Happened {
    /// How long ago, in milliseconds.
    pub ago_ms: u64,
    /// The kind of message.
    pub what: &'static str,
}

/// What a node says about itself.
///
/// Counters are plain stores of the owner; nothing here is taken back by a reader.
pub struct ActorCard {
    key: u64,
    id: Arc<str>,
    path: Arc<str>,
    kind: &'static str,
    shelf: Weak<Shelf>,
    handled: AtomicU64,
    depth: AtomicU64,
    depth_peak: AtomicU64,
    tokens: AtomicU64,
    tape_seq: AtomicU64,
    incarnation: AtomicU64,
    generation: AtomicU64,
    restarts: AtomicU64,
    restarts_in_window: AtomicU64,
    words: Mutex<Words>,
}

/// The part of a card that is not a number.
#[derive(Default)]
pub(crate) struct Words {
    pub(crate) parent: Option<u64>,
    pub(crate) status: Status,
    pub(crate) doing: Option<(String, Instant)>,
    pub(crate) in_hand: Option<(&'static str, Instant)>,
    pub(crate) started_at: Option<(Millis, Instant)>,
    pub(crate) last_exit: Option<ExitReason>,
    recent: VecDeque<(Instant, &'static str)>,
}

impl ActorCard {
    pub(crate) fn new(
        key: u64,
        parent: Option<u64>,
        id: Arc<str>,
        path: Arc<str>,
        kind: &'static str,
        shelf: Weak<Shelf>,
    ) -> ActorCard {
        ActorCard {
            key,
            id,
            path,
            kind,
            shelf,
            handled: AtomicU64::new(0),
            depth: AtomicU64::new(0),
            depth_peak: AtomicU64::new(0),
            tokens: AtomicU64::new(0),
            tape_seq: AtomicU64::new(0),
            incarnation: AtomicU64::new(0),
            generation: AtomicU64::new(0),
            restarts: AtomicU64::new(0),
            restarts_in_window: AtomicU64::new(0),
            words: Mutex::new(Words { parent, ..Words::default() }),
        }
    }

    /// Names the node within its runtime, for as long as the node is there.
    #[must_use]
    pub fn key(&self) -> u64 {
        self.key
    }

    /// The node's id; unique among its siblings.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The ids from the root down to this node, with slashes between them.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What kind of node it is, such as `supervisor`, `session` or `tool`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// What it is.
    #[must_use]
    pub fn status(&self) -> Status {
        self.words().status
    }

    /// How many messages it has handled, in all incarnations.
    #[must_use]
    pub fn handled(&self) -> u64 {
        self.handled.load(Relaxed)
    }

    /// Which life it is in: 1 for the first.
    #[must_use]
    pub fn incarnation(&self) -> u64 {
        self.incarnation.load(Relaxed)
    }

    /// How often it was restarted after a crash.
    #[must_use]
    pub fn restarts(&self) -> u64 {
        self.restarts.load(Relaxed)
    }

    /// How it ended the last time, if it ever did.
    #[must_use]
    pub fn last_exit(&self) -> Option<ExitReason> {
        self.words().last_exit.clone()
    }

    /// How long the message in its hand has been there; `None` while it waits for one.
    #[must_use]
    pub fn busy_for(&self) -> Option<Duration> {
        self.words().in_hand.map(|(_, since)| since.elapsed())
    }

    /// Says what it does now; the clock starts anew unless it is the same as before.
    pub fn doing(&self, what: impl Into<String>) {
        let what = what.into();
        let mut words = self.words();
        if words.doing.as_ref().is_none_or(|(before, _)| *before != what) {
            words.doing = Some((what, Instant::now()));
        }
    }

    /// Says that it does nothing in particular.
    pub fn idle(&self) {
        self.words().doing = None;
    }

    /// Says how much waits in its queue.
    pub fn queue(&self, depth: usize) {
        let depth = depth as u64;
        self.depth.store(depth, Relaxed);
        self.depth_peak.fetch_max(depth, Relaxed);
    }

    /// Says how many tokens it has used in all.
    pub fn tokens(&self, total: u64) {
        self.tokens.store(total, Relaxed);
    }

    /// Says how far its tape is.
    pub fn tape_seq(&self, seq: u64) {
        self.tape_seq.store(seq, Relaxed);
    }

    /// Shows it under another node from now on, without changing who supervises it.
    pub fn show_under(&self, parent: &ActorCard) {
        self.words().parent = Some(parent.key);
    }

    // ---- for the shell and the driver ----------------------------------------------------------------------------

    pub(crate) fn begin(&self, what: &'static str) {
        let now = Instant::now();
        let mut words = self.words();
        words.in_hand = Some((what, now));
        if words.recent.len() == EVENTS_KEPT {
            words.recent.pop_front();
        }
        words.recent.push_back((now, what));
    }

    pub(crate) fn finish(&self) {
        self.handled.fetch_add(1, Relaxed);
        self.words().in_hand = None;
    }

    pub(crate) fn set_status(&self, status: Status) {
        self.words().status = status;
    }

    pub(crate) fn born(&self, incarnation: u64, generation: u64) {
        self.incarnation.store(incarnation, Relaxed);
        self.generation.store(generation, Relaxed);
        let mut words = self.words();
        words.started_at = Some((Millis::now(), Instant::now()));
        words.status = Status::Starting;
    }

    pub(crate) fn died(&self, reason: &ExitReason) {
        let mut words = self.words();
        words.last_exit = Some(reason.clone());
        words.in_hand = None;
        words.doing = None;
        words.started_at = None;
    }

    pub(crate) fn set_restarts(&self, total: u64, in_window: u32) {
        self.restarts.store(total, Relaxed);
        self.restarts_in_window.store(u64::from(in_window), Relaxed);
    }

    pub(crate) fn recent(&self) -> Vec<Happened> {
        let words = self.words();
        words.recent.iter().map(|(at, what)| Happened { ago_ms: millis(at.elapsed()), what }).collect()
    }

    pub(crate) fn numbers(&self) -> Numbers {
        Numbers {
            handled: self.handled.load(Relaxed),
            depth: self.depth.load(Relaxed),
            depth_peak: self.depth_peak.load(Relaxed),
            tokens: self.tokens.load(Relaxed),
            tape_seq: self.tape_seq.load(Relaxed),
            incarnation: self.incarnation.load(Relaxed),
            generation: self.generation.load(Relaxed),
            restarts: self.restarts.load(Relaxed),
            restarts_in_window: self.restarts_in_window.load(Relaxed),
        }
    }

    pub(crate) fn shelf(&self) -> Weak<Shelf> {
        self.shelf.clone()
    }

    pub(crate) fn words(&self) -> MutexGuard<'_, Words> {
        // A panic while the lock is held leaves every field whole: each is set by one assignment.
        self.words.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for ActorCard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ActorCard").field("path", &self.path).field("status", &self.status()).finish_non_exhaustive()
    }
}

/// The numbers of a card at one moment.
pub(crate) struct Numbers {
    pub(crate) handled: u64,
    pub(crate) depth: u64,
    pub(crate) depth_peak: u64,
    pub(crate) tokens: u64,
    pub(crate) tape_seq: u64,
    pub(crate) incarnation: u64,
    pub(crate) generation: u64,
    pub(crate) restarts: u64,
    pub(crate) restarts_in_window: u64,
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A card that leaves the tree when this is dropped.
pub(crate) struct Shown(pub(crate) Arc<ActorCard>);

impl Drop for Shown {
    fn drop(&mut self) {
        if let Some(shelf) = self.0.shelf().upgrade() {
            shelf.remove(self.0.key);
        }
    }
}

/// The card of a worker: a task of an actor, such as one model request or one tool call.
///
/// It is in the tree until it is dropped; move it into the task's future, and it goes when the task does, however that ends.
pub struct WorkerCard(pub(crate) Shown);

impl WorkerCard {
    /// The card itself.
    #[must_use]
    pub fn card(&self) -> &Arc<ActorCard> {
        &self.0.0
    }

    /// Says what it does now.
    pub fn doing(&self, what: impl Into<String>) {
        self.0.0.doing(what);
    }
}

impl fmt::Debug for WorkerCard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.0.fmt(f)
    }
}
