//! Kills every process that carries a tag, and looks at the process table again until looks find none, or its time is over.
//!
//! A target of a call also has the family of the call's first process (group, session, descendants), tag or not.
//! One look serves any number of targets, so that a thousand calls that end at once do not look a thousand times.
//! A process is killed by a handle (`pidfd`) that was opened before its start time was compared with the look's, so another
//! process that got the same id meanwhile is never hit. A change must keep that order. Only if the system has no such handles
//! is a process killed by its id, on Linux right after the same comparison. A look never finds this process itself.
//! A sweep blocks its thread, for a little more than [`SWEEP_MAX`] at most: never run one on a session's task.

use std::{
    collections::HashSet,
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal};

use crate::process::{
    Owner, Tag,
    table::{self, Entry},
};

/// How long a sweep may take.
const SWEEP_MAX: Duration = Duration::from_secs(1);

/// How long killed processes are given to be gone before the next look.
const PAUSE: Duration = Duration::from_millis(2);

/// The call or the owner whose processes are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Whose {
    /// The processes of one call.
    Call(Tag),
    /// The processes of all calls of an owner.
    Owner(Owner),
}

impl Whose {
    /// Whether a process with these tags and this file size limit (in bytes) is one of those that are meant.
    ///
    /// The environment is exact. The limit is for a process whose environment was emptied or made up. The limit has room for a
    /// part of a tag only, so it does not count for a process that names another call of the same owner.
    fn carries(&self, tags: &[Tag], limit: Option<u64>) -> bool {
        match self {
            Whose::Owner(owner) => {
                tags.iter().any(|tag| tag.owner() == *owner) || limit.is_some_and(|limit| owner.in_limit(limit))
            }
            Whose::Call(call) => {
                let by_limit = || limit.is_some_and(|limit| call.in_limit(limit));
                tags.contains(call) || (by_limit() && tags.iter().all(|tag| tag.owner() != call.owner()))
            }
        }
    }
}

/// What a sweep did.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Swept {
    /// How many processes it killed.
    pub killed: usize,
    /// The ids of processes that could not be killed: they belong to another user, or are stuck in the kernel.
    pub left: Vec<i32>,
}

/// Kills every process that carries the tag. Blocks, for a second and a few looks at most.
///
/// Does nothing on systems without `/proc`.
#[must_use]
pub fn sweep(whose: &Whose) -> Swept {
    Sweep::new(Target::new(*whose)).run()
}

/// What a look at the process table searches for.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) whose: Whose,
    /// The id of a call's first process until it has been waited for: until then no other process can have the id.
    pub(super) leader: Option<i32>,
    /// Processes that belong to the target although they may carry no tag any more.
    pub(super) known: Vec<Entry>,
    /// When the first process was started, in ticks since the machine was: an older process does not belong to the target.
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
    /// The time at which the sweep gives up.
    until: Instant,
    /// How many looks in a row have found nothing.
    clean: usize,
    /// The processes that were killed, each by its id and start time.
    killed: HashSet<(i32, u64)>,
}

impl Sweep {
    pub(super) fn new(target: Target) -> Sweep {
        Sweep { target, until: Instant::now() + SWEEP_MAX, clean: 0, killed: HashSet::new() }
    }

    /// Kills the processes that a look found. Returns the outcome once the sweep is over, and `None` if it needs another look.
    pub(super) fn take(&mut self, found: &[Entry]) -> Option<Swept> {
        if found.is_empty() {
            self.clean += 1;
            // After a kill one clean look proves little: a child may have been started behind that look's back.
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

    /// Runs the whole sweep on this thread.
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

/// Waits a little after a look that found something, because a killed process does not vanish at once.
pub(super) fn pause(found: &[Entry]) {
    if !found.is_empty() {
        thread::sleep(PAUSE);
    }
}

/// The live processes of each target, by one look at the process table. Never this process itself.
pub(super) fn look(targets: &[&Target]) -> Vec<Vec<Entry>> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let since = targets.iter().map(|target| target.since).min().unwrap_or(0);
    let mut found = vec![Vec::new(); targets.len()];
    let mut live = table::live();
    live.retain(|entry| entry.pid != own);
    for entry in live.iter().filter(|entry| entry.started >= since) {
        let (tags, limit) = (table::tags(entry.pid), table::file_size_limit(entry.pid));
        for (target, found) in targets.iter().zip(&mut found) {
            if target.whose.carries(&tags, limit) {
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
/// Meaningful only until the process was waited for: afterwards the id may belong to another process.
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

/// Kills this very process, and no other one that got its id meanwhile. Without `pidfd` a moment between look and kill remains.
#[cfg(target_os = "linux")]
fn kill(entry: &Entry) -> bool {
    use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};
    let Some(pid) = Pid::from_raw(entry.pid) else { return false };
    let is_same = || table::entry(entry.pid).is_some_and(|now| now.started == entry.started);
    match pidfd_open(pid, PidfdFlags::empty()) {
        // The handle was opened before this comparison, so it is that of the process which the look saw, or of none.
        Ok(handle) => is_same() && pidfd_send_signal(handle, Signal::KILL).is_ok(),
        Err(rustix::io::Errno::SRCH) => false,
        // The kernel or a sandbox has no such handles.
        Err(_) => is_same() && rustix::process::kill_process(pid, Signal::KILL).is_ok(),
    }
}

#[cfg(not(target_os = "linux"))]
fn kill(entry: &Entry) -> bool {
    Pid::from_raw(entry.pid).is_some_and(|pid| rustix::process::kill_process(pid, Signal::KILL).is_ok())
}
