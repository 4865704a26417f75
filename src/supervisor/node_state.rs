//! The state of one node of the tree, readable without asking the node.
//!
//! It belongs to a child's place in its supervisor and not to one incarnation: it outlives crashes and counts them.
//! Writing never waits for a reader for longer than a few copies take, so a stuck or flooded actor stays visible.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, MutexGuard, OnceLock, Weak},
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
        planner::ChildView,
        registry::Shelf,
        trace::{DETAIL_CHARS_MAX, EVENTS_KEPT, Happened, HappenedKind},
    },
    words::ids::Millis,
};

/// What a node says about itself. Nothing here is taken back by a reader.
pub struct NodeState {
    pub(super) key: u64,
    pub(super) id: Arc<str>,
    pub(super) path: Arc<str>,
    pub(super) kind: &'static str,
    /// Who supervises it, or what it works for; never changes.
    pub(crate) owner: Option<u64>,
    pub(crate) place: Place,
    pub(super) shelf: Weak<Shelf>,
    /// Where it is a supervisor: how to ask it things.
    pub(super) admin: OnceLock<SupervisorHandle>,
    pub(super) words: Lock<Words>,
}

/// The part of a node that changes.
///
/// What it did last stays when its incarnation ends, to be read after that.
#[derive(Default)]
pub(crate) struct Words {
    pub(super) status: Status,
    pub(super) phase: Option<&'static str>,
    pub(super) doing: Option<(String, Instant)>,
    pub(super) in_hand: Option<(&'static str, Instant)>,
    pub(super) started_at: Option<(Millis, Instant)>,
    pub(super) last_exit: Option<(ExitReason, Instant)>,
    pub(super) payload: NodePayload,
    /// Under which node it is shown, where that is not its owner.
    pub(super) shown_under: Option<u64>,
    /// Its ring keeps what is said, too.
    pub(super) in_full: bool,
    pub(super) ring: Ring,
    pub(super) handled: u64,
    /// What it says waits.
    waiting: usize,
    /// What others have put in, and it has not answered.
    inbox: usize,
    pub(super) depth_peak: u64,
    pub(super) rejected: u64,
    pub(super) incarnation: u64,
    pub(super) generation: u64,
    pub(super) restarts: u64,
    pub(super) restarts_in_window: u64,
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

    /// Which incarnation it is in: 1 for the first.
    #[must_use]
    pub fn incarnation(&self) -> u64 {
        self.words().incarnation
    }

    /// How it ended the last time, if it ever did.
    #[must_use]
    pub fn last_exit(&self) -> Option<ExitReason> {
        self.words().last_exit.as_ref().map(|(reason, _)| reason.clone())
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
        self.words().set_depth(depth, None);
    }

    /// Says that its queue was full and something was turned away.
    pub fn rejected(&self) {
        self.words().rejected += 1;
    }

    /// Puts something of its owner on the node, in place of what was there.
    pub fn put(&self, payload: impl Payload) {
        self.words().payload.put(payload);
    }

    /// Shows it under another node from now on, without changing who supervises it. Where that node goes, it is shown under
    /// its supervisor again.
    pub fn show_under(&self, parent: &NodeState) {
        self.words().shown_under = Some(parent.key);
    }

    // ---- for the shell, the driver and sessions ---------------------------------------------------------------------

    /// It takes something in hand; `detail` is asked for only where the node is traced in full.
    pub(crate) fn take_up(&self, what: &'static str, number: Option<u64>, detail: impl FnOnce() -> Option<String>) {
        let now = Instant::now();
        let mut words = self.words();
        let detail = if words.in_full { detail() } else { None };
        words.in_hand = Some((what, now));
        words.ring.push(now, HappenedKind::Message, what, number, detail);
    }

    /// It has work in hand, and will say of each piece what it is.
    pub(crate) fn begin_untold(&self, what: &'static str) {
        self.words().in_hand = Some((what, Instant::now()));
    }

    pub(crate) fn finish(&self) {
        let mut words = self.words();
        words.handled += 1;
        words.in_hand = None;
    }

    /// What it has in hand, and for how long.
    pub(crate) fn in_hand(&self) -> Option<(&'static str, Duration)> {
        self.words().in_hand.map(|(what, since)| (what, since.elapsed()))
    }

    /// Others have put so much into its queue that it has not answered. Says so for it, because it may be stuck.
    pub(crate) fn inbox(&self, depth: usize) {
        self.words().set_depth(None, depth);
    }

    /// All that it has to say about itself after a piece of work. `put` may change what its owner has on the node.
    pub(crate) fn present(&self, presented: Presented, put: impl FnOnce(&mut NodePayload)) {
        let Presented { phase, doing, number, waiting } = presented;
        let mut words = self.words();
        words.set_depth(waiting, None);
        if words.phase != Some(phase) {
            words.phase = Some(phase);
            words.ring.push(Instant::now(), HappenedKind::Change, phase, number, None);
        }
        words.set_doing(doing);
        put(&mut words.payload);
    }

    pub(crate) fn set_status(&self, status: Status) {
        self.words().set_status(status);
    }

    pub(crate) fn born(&self, incarnation: u64, generation: u64) {
        let mut words = self.words();
        (words.incarnation, words.generation) = (incarnation, generation);
        words.started_at = Some((Millis::now(), Instant::now()));
        (words.in_hand, words.doing, words.phase) = (None, None, None);
        words.set_status(Status::Starting);
    }

    /// Its incarnation is over. What it said last is kept for whoever looks after that.
    pub(crate) fn died(&self, reason: &ExitReason) {
        self.words().last_exit = Some((reason.clone(), Instant::now()));
    }

    /// What its supervisor knows of it.
    pub(crate) fn judged(&self, view: ChildView) {
        let mut words = self.words();
        (words.restarts, words.restarts_in_window) = (view.restarts, u64::from(view.in_window));
        if !view.status.is_alive() {
            // A start that led to nothing is no incarnation to show, either.
            (words.in_hand, words.started_at) = (None, None);
        }
        words.set_status(view.status);
    }

    /// Says how to ask this supervisor things.
    pub(crate) fn set_admin(&self, handle: SupervisorHandle) {
        // The handle is the same in every incarnation.
        let _ = self.admin.set(handle);
    }

    pub(crate) fn admin(&self) -> Option<&SupervisorHandle> {
        self.admin.get()
    }

    pub(crate) fn words(&self) -> MutexGuard<'_, Words> {
        // A panic while the lock is held leaves every field whole: each is set by one assignment.
        self.words.lock()
    }
}

impl Words {
    /// What waits in its queue.
    pub(super) fn depth(&self) -> u64 {
        (self.waiting + self.inbox) as u64
    }

    fn set_depth(&mut self, waiting: impl Into<Option<usize>>, inbox: impl Into<Option<usize>>) {
        self.waiting = waiting.into().unwrap_or(self.waiting);
        self.inbox = inbox.into().unwrap_or(self.inbox);
        self.depth_peak = self.depth_peak.max(self.depth());
    }

    fn set_doing(&mut self, doing: Option<String>) {
        if self.doing.as_ref().map(|(before, _)| before) != doing.as_ref() {
            self.doing = doing.map(|what| (what, Instant::now()));
        }
    }

    fn set_status(&mut self, status: Status) {
        if self.status != status {
            self.status = status;
            self.ring.push(Instant::now(), HappenedKind::Change, status.as_str(), None, None);
        }
    }
}

/// The last things that happened to it, and when.
#[derive(Debug, Default)]
pub(super) struct Ring(pub(super) VecDeque<(Instant, Happened)>);

impl Ring {
    fn push(
        &mut self,
        at: Instant,
        kind: HappenedKind,
        what: &'static str,
        number: Option<u64>,
        detail: Option<String>,
    ) {
        if self.0.len() == EVENTS_KEPT {
            self.0.pop_front();
        }
        let detail = detail.map(|text| text.chars().take(DETAIL_CHARS_MAX).collect());
        self.0.push_back((at, Happened { ago_ms: 0, kind, what, number, detail }));
    }
}

impl fmt::Debug for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeState").field("path", &self.path).field("status", &self.status()).finish_non_exhaustive()
    }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
