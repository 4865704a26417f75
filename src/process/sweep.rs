//! Killing everything that carries a mark, until a look at the process table finds none.
//!
//! One look serves any number of targets, so that a thousand calls that end at once do not look a thousand times. A process
//! is only ever killed by a handle of its own, taken before its start time was compared with the look's: never by a number
//! that may be another's by now.

use std::{
    collections::HashSet,
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal};

use crate::process::{
    Mark, Owner,
    table::{self, Entry},
};

/// How long a sweep may take.
pub const SWEEP_MAX: Duration = Duration::from_secs(1);

/// How long the killed are given to be gone before the next look.
const PAUSE: Duration = Duration::from_millis(2);

/// Whose processes are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Those of one call.
    Call(Mark),
    /// Those of all calls of an owner.
    Owner(Owner),
}

impl Whose {
    /// Whether a process belongs here that carries these marks and this limit of the file size.
    ///
    /// Its environment tells exactly. Where that was emptied or made up, its limit tells, which has room for a part of a mark only:
    /// of a process that names another call of the same owner it tells nothing.
    fn carries(&self, marks: &[Mark], limit: Option<u64>) -> bool {
        match self {
            Whose::Owner(owner) => {
                marks.iter().any(|mark| mark.owner() == *owner) || limit.is_some_and(|limit| owner.in_limit(limit))
            }
            Whose::Call(call) => {
                let by_limit = || limit.is_some_and(|limit| call.in_limit(limit));
                marks.contains(call) || (by_limit() && marks.iter().all(|mark| mark.owner() != call.owner()))
            }
        }
    }
}

/// What a sweep did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// How many processes it killed.
    pub killed: usize,
    /// The ids of those that would not go: another user's, or stuck in the kernel.
    pub left: Vec<i32>,
}

/// Kills everything that carries the mark. Blocks, for at most [`SWEEP_MAX`] and one look.
///
/// Does nothing on systems without `/proc`.
#[must_use]
pub fn sweep(whose: &Whose) -> Swept {
    Sweep::new(Target::new(*whose)).run()
}

/// What a look is for.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) whose: Whose,
    /// The first process of a call, while nobody has waited for it: so long its number is its own.
    pub(super) leader: Option<i32>,
    /// Processes that belong to it although they may carry no mark any more.
    pub(super) known: Vec<Entry>,
    /// The start of its first process: what is older belongs to somebody else.
    pub(super) since: u64,
}

impl Target {
    pub(super) fn new(whose: Whose) -> Target {
        Target { whose, leader: None, known: Vec::new(), since: 0 }
    }
}

/// One target that is being killed, from look to look.
#[derive(Debug)]
pub(super) struct Sweep {
    pub(super) target: Target,
    until: Instant,
    clean: usize,
    killed: HashSet<(i32, u64)>,
}

impl Sweep {
    pub(super) fn new(target: Target) -> Sweep {
        Sweep { target, until: Instant::now() + SWEEP_MAX, clean: 0, killed: HashSet::new() }
    }

    /// Takes what a look found: kills it, and says what was done once there is nothing more to do.
    pub(super) fn take(&mut self, found: &[Entry]) -> Option<Swept> {
        if found.is_empty() {
            self.clean += 1;
            // Where something was found, one clean look proves little: a child may have been started behind the look's back.
            let is_done = self.clean > usize::from(!self.killed.is_empty());
            return is_done.then(|| Swept { killed: self.killed.len(), left: Vec::new() });
        }
        self.clean = 0;
        for entry in found {
            if kill(entry) {
                self.killed.insert((entry.pid, entry.started));
            }
        }
        if Instant::now() < self.until {
            return None;
        }
        let left = look(&[&self.target]).concat().iter().map(|entry| entry.pid).collect();
        Some(Swept { killed: self.killed.len(), left })
    }

    /// Does all of it on this thread.
    pub(super) fn run(mut self) -> Swept {
        loop {
            let found = look(&[&self.target]).concat();
            if let Some(swept) = self.take(&found) {
                return swept;
            }
            pause(&found);
        }
    }
}

/// Waits a little where something was found, for it does not vanish at once.
pub(super) fn pause(found: &[Entry]) {
    if !found.is_empty() {
        thread::sleep(PAUSE);
    }
}

/// The live processes of each target, by one look at the table. Never this process itself.
pub(super) fn look(targets: &[&Target]) -> Vec<Vec<Entry>> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let since = targets.iter().map(|target| target.since).min().unwrap_or(0);
    let mut found = vec![Vec::new(); targets.len()];
    let mut live = table::live();
    live.retain(|entry| entry.pid != own);
    for entry in live.iter().filter(|entry| entry.started >= since) {
        let (marks, limit) = (table::marks(entry.pid), table::file_size_limit(entry.pid));
        for (target, found) in targets.iter().zip(&mut found) {
            if target.whose.carries(&marks, limit) {
                found.push(*entry);
            }
        }
    }
    for (target, found) in targets.iter().zip(&mut found) {
        let known = live.iter().filter(|entry| target.known.contains(entry));
        let family = target.leader.map(|leader| family(leader, &live)).unwrap_or_default();
        for entry in known.copied().chain(family) {
            if !found.contains(&entry) {
                found.push(entry);
            }
        }
    }
    found
}

/// The process with this id, its group, its session, and all that descend from it.
///
/// Only meaningful while somebody holds the id, which is until it was waited for.
fn family(leader: i32, live: &[Entry]) -> Vec<Entry> {
    let is_in = |entry: &&Entry| entry.pid == leader || entry.group == leader || entry.session == leader;
    let mut family: Vec<Entry> = live.iter().filter(is_in).copied().collect();
    let mut next = 0;
    while let Some(parent) = family.get(next).map(|entry| entry.pid) {
        let children = live.iter().filter(|entry| entry.parent == parent);
        let new: Vec<_> = children.filter(|entry| !family.contains(entry)).copied().collect();
        family.extend(new);
        next += 1;
    }
    family
}

/// Kills that very process, and no other that got its number meanwhile.
#[cfg(target_os = "linux")]
fn kill(entry: &Entry) -> bool {
    use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};
    let Some(pid) = Pid::from_raw(entry.pid) else { return false };
    let is_same = || table::entry(entry.pid).is_some_and(|now| now.started == entry.started);
    match pidfd_open(pid, PidfdFlags::empty()) {
        // The handle was taken before this look, so it is of the process that the look saw, or of none.
        Ok(handle) => is_same() && pidfd_send_signal(handle, Signal::KILL).is_ok(),
        Err(rustix::io::Errno::SRCH) => false,
        // A kernel or a sandbox without such handles.
        Err(_) => is_same() && rustix::process::kill_process(pid, Signal::KILL).is_ok(),
    }
}

#[cfg(not(target_os = "linux"))]
fn kill(entry: &Entry) -> bool {
    Pid::from_raw(entry.pid).is_some_and(|pid| rustix::process::kill_process(pid, Signal::KILL).is_ok())
}
