//! The state of one node of the tree, readable without asking the node, so that a stuck or flooded actor stays visible.
//!
//! The state belongs to a child's place in its supervisor and not to one incarnation (one start of the child): it outlives crashes
//! and counts them. The node of a worker (a task of an actor) lives as long as the task. The actor, the code that runs it
//! (`shell.rs`), its supervisor, senders (the depth of its inbox) and operators (whether its trace keeps content) write the state;
//! the tree, traces and crash reports read it.
//!
//! One small mutex guards what changes. A change must hold that mutex only for a few copies, and take no other lock under it. The
//! closures given to `take_up` and `present` run under it, as does the drop of a payload that is replaced: they must be quick and
//! must not touch the node.

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

/// The state of one node. Reading it changes nothing.
pub struct NodeState {
    pub(super) key: u64,
    pub(super) id: Arc<str>,
    pub(super) path: Arc<str>,
    pub(super) kind: &'static str,
    /// The key of its supervisor, or of the actor that it works for; never changes.
    pub(crate) owner: Option<u64>,
    pub(crate) role: Role,
    /// The registry's list that holds the node.
    pub(super) shelf: Weak<Shelf>,
    /// The handle for questions, if the node is a supervisor.
    pub(super) admin: OnceLock<SupervisorHandle>,
    pub(super) words: Lock<Words>,
}

/// The part of a node that changes.
///
/// After the end of an incarnation, its last phase, text and payload can be read until the next one is born; the payload stays
/// until another one is put.
#[derive(Default)]
pub(crate) struct Words {
    pub(super) status: Status,
    /// One word for what it does.
    pub(super) phase: Option<&'static str>,
    /// What it does, in a few words, and since when.
    pub(super) doing: Option<(String, Instant)>,
    /// The kind of message that is being handled, and since when.
    pub(super) in_hand: Option<(&'static str, Instant)>,
    pub(super) started_at: Option<(Millis, Instant)>,
    pub(super) last_exit: Option<(ExitReason, Instant)>,
    pub(super) payload: NodePayload,
    /// The key of the node under which it is shown, if that is not its owner.
    pub(super) shown_under: Option<u64>,
    /// Whether its ring keeps content as well.
    pub(super) in_full: bool,
    pub(super) ring: Ring,
    /// How many messages it has handled, in all incarnations.
    pub(super) handled: u64,
    /// How much waits, by its own count.
    waiting: usize,
    /// How much others have put in that it has not answered.
    inbox: usize,
    pub(super) depth_peak: u64,
    pub(super) rejected: u64,
    pub(super) incarnation: u64,
    pub(super) generation: u64,
    pub(super) restarts: u64,
    pub(super) restarts_in_window: u64,
}

/// The state of a node in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Under a supervisor, or as the root.
    Process,
    /// A task of its owner.
    Task,
}

/// The facts that a node shows about itself after a piece of work.
#[derive(Clone, Debug, Default)]
pub(crate) struct Presented {
    /// One word for what it does.
    pub(crate) phase: &'static str,
    /// The same in a few words; `None` while it does nothing in particular.
    pub(crate) doing: Option<String>,
    /// The number of the phase's subject, if any: the turn.
    pub(crate) number: Option<u64>,
    pub(crate) waiting: usize,
}

impl NodeState {
    /// The key of the node: unique within its runtime, for as long as the node exists.
    #[must_use]
    pub fn key(&self) -> u64 {
        self.key
    }

    /// The node's id. Among the children of one supervisor it is unique.
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

    /// Its status.
    #[must_use]
    pub fn status(&self) -> Status {
        self.words().status
    }

    /// Which incarnation it is in: 1 for the first, 0 before it.
    #[must_use]
    pub fn incarnation(&self) -> u64 {
        self.words().incarnation
    }

    /// How it ended the last time, if it ever did.
    #[must_use]
    pub fn last_exit(&self) -> Option<ExitReason> {
        self.words().last_exit.as_ref().map(|(reason, _)| reason.clone())
    }

    /// Sets what it does now. The time of doing it restarts, unless the text is the same as before.
    pub fn doing(&self, what: impl Into<String>) {
        self.words().set_doing(Some(what.into()));
    }

    /// Says that it does nothing in particular.
    pub fn idle(&self) {
        self.words().set_doing(None);
    }

    /// Sets how much waits in its queue.
    pub fn queue(&self, depth: usize) {
        self.words().set_depth(depth, None);
    }

    /// Counts one more input that was refused because its queue was full.
    pub fn rejected(&self) {
        self.words().rejected += 1;
    }

    /// Puts a payload on the node, replacing the previous one.
    pub fn put(&self, payload: impl Payload) {
        self.words().payload.put(payload);
    }

    /// Shows it under another node from now on, without changing who supervises it. When that node is gone, it is shown under its
    /// supervisor again.
    pub(crate) fn show_under(&self, parent: &NodeState) {
        self.words().shown_under = Some(parent.key);
    }

    // ---- for the shell, the driver and sessions ---------------------------------------------------------------------

    /// Notes that it begins a piece of work. `detail` is called only if the node is traced in full, and under the lock.
    pub(crate) fn take_up(&self, what: &'static str, number: Option<u64>, detail: impl FnOnce() -> Option<String>) {
        let now = Instant::now();
        let mut words = self.words();
        let detail = if words.in_full { detail() } else { None };
        words.in_hand = Some((what, now));
        words.ring.push(now, HappenedKind::Message, what, number, detail);
    }

    /// Notes that it has work, and will name each piece itself.
    pub(crate) fn begin_untold(&self, what: &'static str) {
        self.words().in_hand = Some((what, Instant::now()));
    }

    pub(crate) fn finish(&self) {
        let mut words = self.words();
        words.handled += 1;
        words.in_hand = None;
    }

    /// Notes a sign of life of work that has no messages: a piece of an answer, a report of progress.
    pub(crate) fn lives(&self) {
        let mut words = self.words();
        words.handled = words.handled.saturating_add(1);
    }

    /// What it is doing, and for how long.
    pub(crate) fn in_hand(&self) -> Option<(&'static str, Duration)> {
        self.words().in_hand.map(|(what, since)| (what, since.elapsed()))
    }

    /// Sets how much others have put into its queue that it has not answered. Senders set it too, because the actor may be stuck.
    pub(crate) fn inbox(&self, depth: usize) {
        self.words().set_depth(None, depth);
    }

    /// Sets the facts that it shows after a piece of work. `put` may change its payload, and runs under the lock.
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

    /// Notes the end of an incarnation. The last phase, text and payload are kept for later readers.
    pub(crate) fn died(&self, reason: &ExitReason) {
        self.words().last_exit = Some((reason.clone(), Instant::now()));
    }

    /// Takes over its supervisor's view of it.
    pub(crate) fn judged(&self, view: ChildView) {
        let mut words = self.words();
        (words.restarts, words.restarts_in_window) = (view.restarts, u64::from(view.in_window));
        if !view.status.is_alive() {
            // Also after a start that failed: it gave no incarnation to show.
            (words.in_hand, words.started_at) = (None, None);
        }
        words.set_status(view.status);
    }

    /// Sets the handle for questions to this supervisor.
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
    /// How much waits in its queue.
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

/// The last events of a node, each with its time.
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
