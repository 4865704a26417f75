//! Killing everything that carries a mark, until a look at the process table finds nothing.

use std::{
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

/// Whose processes are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Those of one call.
    Call(Mark),
    /// Those of all calls of an owner.
    Owner(Owner),
}

impl Whose {
    pub(super) fn in_variable(&self, value: &str) -> bool {
        match self {
            Whose::Call(mark) => mark.in_variable(value),
            Whose::Owner(owner) => owner.in_variable(value),
        }
    }

    pub(super) fn in_limit(&self, bytes: u64) -> bool {
        match self {
            Whose::Call(mark) => mark.in_limit(bytes),
            Whose::Owner(owner) => owner.in_limit(bytes),
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
    sweep_with(whose, &[])
}

/// The same, with processes that are known to belong to it although they may carry no mark any more.
pub(super) fn sweep_with(whose: &Whose, known: &[Entry]) -> Swept {
    let until = Instant::now() + SWEEP_MAX;
    let mut killed: Vec<(i32, u64)> = Vec::new();
    let mut clean = 0;
    // Once something was found, one clean look is not proof enough: a child may have been started behind the look's back.
    while clean < 1 + usize::from(!killed.is_empty()) {
        let found = look(whose, known);
        clean = if found.is_empty() { clean + 1 } else { 0 };
        for entry in &found {
            if kill(entry, whose, known) && !killed.contains(&(entry.pid, entry.started)) {
                killed.push((entry.pid, entry.started));
            }
        }
        if !found.is_empty() {
            if Instant::now() >= until {
                let left = look(whose, known).iter().map(|entry| entry.pid).collect();
                return Swept { killed: killed.len(), left };
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
    Swept { killed: killed.len(), left: Vec::new() }
}

/// All live processes that carry the mark, or are known.
fn look(whose: &Whose, known: &[Entry]) -> Vec<Entry> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let mut live = table::live();
    live.retain(|entry| entry.pid != own && belongs(entry, whose, known));
    live
}

fn belongs(entry: &Entry, whose: &Whose, known: &[Entry]) -> bool {
    known.iter().any(|known| (known.pid, known.started) == (entry.pid, entry.started))
        || table::carries(entry.pid, whose)
}

/// Kills that very process, and no other that got its number meanwhile.
#[cfg(target_os = "linux")]
fn kill(entry: &Entry, whose: &Whose, known: &[Entry]) -> bool {
    use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};
    let Some(pid) = Pid::from_raw(entry.pid) else { return false };
    match pidfd_open(pid, PidfdFlags::empty()) {
        // The handle was taken before this look, so it is of the process that the look saw, or of none.
        Ok(handle) => {
            let same = table::entry(entry.pid).is_some_and(|now| now.started == entry.started);
            same && belongs(entry, whose, known) && pidfd_send_signal(handle, Signal::KILL).is_ok()
        }
        Err(rustix::io::Errno::SRCH) => false,
        // A kernel or a sandbox without such handles.
        Err(_) => rustix::process::kill_process(pid, Signal::KILL).is_ok(),
    }
}

#[cfg(not(target_os = "linux"))]
fn kill(entry: &Entry, _: &Whose, _: &[Entry]) -> bool {
    Pid::from_raw(entry.pid).is_some_and(|pid| rustix::process::kill_process(pid, Signal::KILL).is_ok())
}

/// The process with this id, its group, its session, and all that descend from it, as they are now.
///
/// Only meaningful while somebody holds the id, which is until it was waited for.
pub(super) fn family(leader: i32) -> Vec<Entry> {
    let live = table::live();
    let mut family: Vec<Entry> = Vec::new();
    let is_in = |entry: &Entry| entry.pid == leader || entry.group == leader || entry.session == leader;
    family.extend(live.iter().filter(|entry| is_in(entry)));
    let mut next = 0;
    while let Some(parent) = family.get(next).map(|entry| entry.pid) {
        let children = live.iter().filter(|entry| entry.parent == parent);
        let new: Vec<_> = children.filter(|entry| !family.contains(entry)).copied().collect();
        family.extend(new);
        next += 1;
    }
    family
}
