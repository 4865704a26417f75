//! The state of one node of the tree, readable without asking the node.
//!
//! It belongs to a child's place in its supervisor and not to one incarnation: it outlives crashes and counts them.
//! Writing never waits for a reader for longer than a few copies take, so a stuck or flooded actor stays visible.

use std::{
    collections::VecDeque,
    fmt,
    sync::{
        Arc, MutexGuard, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::time::Instant;

pub(crate) use crate::supervisor::{shown::Shown, status::Status};
use crate::{
    lock::Lock,
    supervisor::{
        exit::ExitReason,
        handle::SupervisorHandle,
        payload::{NodePayload, Payload},
        registry::Shelf,
        trace::{DETAIL_CHARS_MAX, EVENTS_KEPT, HappenedKind},
    },
    words::ids::Millis,
};

/// What a node says about itself.
///
/// Counters are plain stores of the owner; nothing here is taken back by a reader.
pub struct NodeState {
    key: u64,
    id: Arc<str>,
    path: Arc<str>,
    kind: &'static str,
    /// Who supervises it, or what it works for; never changes.
    owner: Option<u64>,
    place: Place,
    /// Under which node it is shown, where that is not its owner; 0 for none.
    shown_under: AtomicU64,
    shelf: Weak<Shelf>,
    /// Where it is a supervisor: how to ask it things.
    admin: OnceLock<SupervisorHandle>,
    pub(super) in_full: AtomicBool,
    handled: AtomicU64,
    /// What it says waits.
    waiting: AtomicU64,
    /// What others have put in, and it has not answered.
    inbox: AtomicU64,
    depth_peak: AtomicU64,
    rejected: AtomicU64,
    incarnation: AtomicU64,
    generation: AtomicU64,
    restarts: AtomicU64,
    restarts_in_window: AtomicU64,
    words: Lock<Words>,
}

/// The part of a node that is not a number.
///
/// What it did last stays when its incarnation ends, to be read after that.
#[derive(Default)]
pub(crate) struct Words {
    pub(crate) status: Status,
    pub(crate) phase: Option<&'static str>,
    pub(crate) doing: Option<(String, Instant)>,
    pub(crate) in_hand: Option<(&'static str, Instant)>,
    pub(crate) started_at: Option<(Millis, Instant)>,
    pub(crate) last_exit: Option<(ExitReason, Instant)>,
    pub(crate) payload: NodePayload,
    pub(super) ring: Ring,
}

/// How a node stands in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Under a supervisor, or as the root.
    Process,
    /// A task of its owner, whom it does not outlive.
    Task,
}

/// What a node presents of itself in one go.
#[derive(Clone, Debug, Default)]
pub(crate) struct Presented {
    /// One word for what it does.
    pub(crate) phase: &'static str,
    /// The same in a few words; `None` while it does nothing in particular.
    pub(crate) doing: Option<String>,
    /// What the phase is about, where that has a number: the turn.
    pub(crate) number: Option<u64>,
    pub(crate) waiting: usize,
}

impl NodeState {
    pub(crate) fn new(
        key: u64,
        owner: Option<u64>,
        place: Place,
        id: Arc<str>,
        path: Arc<str>,
        kind: &'static str,
        shelf: Weak<Shelf>,
    ) -> NodeState {
        NodeState {
            key,
            id,
            path,
            kind,
            owner,
            place,
            shown_under: AtomicU64::new(0),
            shelf,
            admin: OnceLock::new(),
            in_full: AtomicBool::new(false),
            handled: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            inbox: AtomicU64::new(0),
            depth_peak: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            incarnation: AtomicU64::new(0),
            generation: AtomicU64::new(0),
            restarts: AtomicU64::new(0),
            restarts_in_window: AtomicU64::new(0),
            words: Lock::default(),
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

    /// Which incarnation it is in: 1 for the first.
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
        self.words().last_exit.as_ref().map(|(reason, _)| reason.clone())
    }

    /// How long the message in its hand has been there; `None` while it waits for one.
    #[must_use]
    pub fn busy_for(&self) -> Option<Duration> {
        self.words().in_hand.map(|(_, since)| since.elapsed())
    }

    /// Says what it does now; the clock starts anew unless it is the same as before.
    pub fn doing(&self, what: impl Into<String>) {
        self.words().set_doing(Some(what.into()));
    }

    /// Says that it does nothing in particular.
    pub fn idle(&self) {
        self.words().set_doing(None);
    }

    /// Says how much waits in its queue.
    pub fn queue(&self, depth: usize) {
        self.waiting.store(depth as u64, Relaxed);
        self.mark_peak();
    }

    /// Says that its queue was full and something was turned away.
    pub fn rejected(&self) {
        self.rejected.fetch_add(1, Relaxed);
    }

    /// Puts something of its owner on the node, in place of what was there.
    pub fn put(&self, payload: impl Payload) {
        self.words().payload.put(payload);
    }

    /// Shows it under another node from now on, without changing who supervises it. Where that node goes, it is shown under
    /// its supervisor again.
    pub fn show_under(&self, parent: &NodeState) {
        self.shown_under.store(parent.key, Relaxed);
    }

    // ---- for the shell, the driver and sessions ---------------------------------------------------------------------

    /// It takes a message in hand.
    pub(crate) fn begin(&self, what: &'static str) {
        self.take_up(what, None, || None);
    }

    /// It takes something in hand; `detail` is asked for only where the node is traced in full.
    pub(crate) fn take_up(&self, what: &'static str, number: Option<u64>, detail: impl FnOnce() -> Option<String>) {
        let detail = if self.in_full.load(Relaxed) { detail() } else { None };
        let now = Instant::now();
        let mut words = self.words();
        words.in_hand = Some((what, now));
        words.ring.message(now, what, number, detail);
    }

    /// It has work in hand, and will say of each piece what it is.
    pub(crate) fn begin_untold(&self, what: &'static str) {
        self.words().in_hand = Some((what, Instant::now()));
    }

    pub(crate) fn finish(&self) {
        self.handled.fetch_add(1, Relaxed);
        self.words().in_hand = None;
    }

    /// What it has in hand, and for how long.
    pub(crate) fn in_hand(&self) -> Option<(&'static str, Duration)> {
        self.words().in_hand.map(|(what, since)| (what, since.elapsed()))
    }

    /// Others have put so much into its queue that it has not answered. Says so for it, because it may be stuck.
    pub(crate) fn inbox(&self, depth: usize) {
        self.inbox.store(depth as u64, Relaxed);
        self.mark_peak();
    }

    fn mark_peak(&self) {
        self.depth_peak.fetch_max(self.depth(), Relaxed);
    }

    fn depth(&self) -> u64 {
        self.waiting.load(Relaxed).saturating_add(self.inbox.load(Relaxed))
    }

    /// All that it has to say about itself after a piece of work. `put` may change what its owner has on the node.
    pub(crate) fn present(&self, presented: Presented, put: impl FnOnce(&mut NodePayload)) {
        let Presented { phase, doing, number, waiting } = presented;
        self.queue(waiting);
        let mut words = self.words();
        if words.phase != Some(phase) {
            words.phase = Some(phase);
            words.ring.change(phase, number);
        }
        words.set_doing(doing);
        put(&mut words.payload);
    }

    pub(crate) fn set_status(&self, status: Status) {
        self.words().set_status(status);
    }

    pub(crate) fn born(&self, incarnation: u64, generation: u64) {
        self.incarnation.store(incarnation, Relaxed);
        self.generation.store(generation, Relaxed);
        let mut words = self.words();
        words.started_at = Some((Millis::now(), Instant::now()));
        (words.in_hand, words.doing, words.phase) = (None, None, None);
        words.set_status(Status::Starting);
    }

    /// Its incarnation is over. What it said last is kept for whoever looks after that.
    pub(crate) fn died(&self, reason: &ExitReason) {
        let mut words = self.words();
        words.last_exit = Some((reason.clone(), Instant::now()));
        words.in_hand = None;
        words.started_at = None;
    }

    pub(crate) fn set_restarts(&self, total: u64, in_window: u32) {
        self.restarts.store(total, Relaxed);
        self.restarts_in_window.store(u64::from(in_window), Relaxed);
    }

    /// Says how to ask this supervisor things.
    pub(crate) fn set_admin(&self, handle: SupervisorHandle) {
        // The handle is the same in every incarnation.
        let _ = self.admin.set(handle);
    }

    pub(crate) fn admin(&self) -> Option<&SupervisorHandle> {
        self.admin.get()
    }

    /// Who supervises it, or what it works for.
    pub(crate) fn owner(&self) -> Option<u64> {
        self.owner
    }

    /// Under which node it is to be shown, where that is not its owner.
    pub(crate) fn shown_under(&self) -> Option<u64> {
        Some(self.shown_under.load(Relaxed)).filter(|key| *key != 0)
    }

    pub(crate) fn place(&self) -> Place {
        self.place
    }

    pub(crate) fn numbers(&self) -> Numbers {
        Numbers {
            handled: self.handled.load(Relaxed),
            depth: self.depth(),
            depth_peak: self.depth_peak.load(Relaxed),
            rejected: self.rejected.load(Relaxed),
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
        self.words.lock()
    }
}

impl Words {
    fn set_doing(&mut self, doing: Option<String>) {
        if self.doing.as_ref().map(|(before, _)| before) != doing.as_ref() {
            self.doing = doing.map(|what| (what, Instant::now()));
        }
    }

    fn set_status(&mut self, status: Status) {
        if self.status != status {
            self.status = status;
            self.ring.change(status.as_str(), None);
        }
    }
}

/// The last things that happened to it.
#[derive(Debug, Default)]
pub(super) struct Ring(pub(super) VecDeque<Kept>);

#[derive(Debug)]
pub(super) struct Kept {
    pub(super) at: Instant,
    pub(super) kind: HappenedKind,
    pub(super) what: &'static str,
    pub(super) number: Option<u64>,
    pub(super) detail: Option<Box<str>>,
}

impl Ring {
    fn message(&mut self, at: Instant, what: &'static str, number: Option<u64>, detail: Option<String>) {
        let detail = detail.map(|text| text.chars().take(DETAIL_CHARS_MAX).collect::<String>().into_boxed_str());
        self.push(Kept { at, kind: HappenedKind::Message, what, number, detail });
    }

    fn change(&mut self, what: &'static str, number: Option<u64>) {
        self.push(Kept { at: Instant::now(), kind: HappenedKind::Change, what, number, detail: None });
    }

    fn push(&mut self, kept: Kept) {
        if self.0.len() == EVENTS_KEPT {
            self.0.pop_front();
        }
        self.0.push_back(kept);
    }
}

impl fmt::Debug for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeState").field("path", &self.path).field("status", &self.status()).finish_non_exhaustive()
    }
}

/// The numbers of a node at one moment.
pub(crate) struct Numbers {
    pub(crate) handled: u64,
    pub(crate) depth: u64,
    pub(crate) depth_peak: u64,
    pub(crate) rejected: u64,
    pub(crate) incarnation: u64,
    pub(crate) generation: u64,
    pub(crate) restarts: u64,
    pub(crate) restarts_in_window: u64,
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
