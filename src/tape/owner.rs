//! Who may write: one lock file per open store, one claim file per session.
//!
//! A store that is open for writing is an *owner*: it holds a lock on `owners/<owner>.lock` for as long as it lives, and
//! the system gives that lock back however the process ends. A session's `claim` names its owner.
//! A claim is stale when its owner's lock is free. Who takes over a stale claim holds the dead owner's lock while doing so,
//! so that two cannot take it over at once, and replays the dead owner's commit log first.

use std::{
    fs::{File, TryLockError},
    io::{self, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::Serialize;

use super::{
    Durability, Holder, TapeError,
    layout::{Layout, names_in, new_file, open_or_make, remove_file},
};
use crate::words::ids::SessionId;

/// How long somebody may be at what a dead owner left before its sessions are called in use.
pub(super) const BURIAL_WAIT: Duration = Duration::from_secs(10);

/// How often it is looked whether that is done.
pub(super) const BURIAL_LOOK: Duration = Duration::from_millis(5);

/// This store as an owner. Its lock is given back when this is dropped.
#[derive(Debug)]
pub(super) struct Owner {
    pub(super) identity: Identity,
    /// Holds the lock by being open.
    _lock: File,
    path: PathBuf,
}

/// What a claim, a lock file and a `writer` file say: one JSON object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Identity {
    pub(super) owner: String,
    pub(super) pid: u32,
    pub(super) host: String,
    /// Which start of the machine; absent where the system does not say.
    pub(super) boot: Option<String>,
    pub(super) durability: Durability,
    /// In which namespace the process has its number; absent where the system does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pids: Option<String>,
}

impl Identity {
    fn of_this_process(durability: Durability) -> Identity {
        let pid = std::process::id();
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok().map(|id| id.trim().to_owned());
        let pids =
            std::fs::read_link("/proc/self/ns/pid").ok().and_then(|link| link.into_os_string().into_string().ok());
        Identity { owner: format!("{pid}-{}", uuid::Uuid::now_v7().simple()), pid, host, boot, durability, pids }
    }

    /// A file that a power cut emptied names nobody, and nobody is never alive. Of one that a later version wrote the name is
    /// read all the same: its owner must not be taken for dead.
    fn parse(text: &str) -> Identity {
        let value: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
        let said = |field: &str| value.get(field).and_then(serde_json::Value::as_str).map(str::to_owned);
        let is_name = |name: &String| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        let Some(owner) = said("owner").filter(is_name) else {
            let durability = Durability::Process;
            return Identity {
                owner: "nobody".into(),
                pid: 0,
                host: String::new(),
                boot: None,
                durability,
                pids: None,
            };
        };
        let pid = value.get("pid").and_then(serde_json::Value::as_u64).and_then(|pid| pid.try_into().ok());
        let durability = value.get("durability").and_then(|word| serde_json::from_value(word.clone()).ok());
        Identity {
            owner,
            pid: pid.unwrap_or_default(),
            host: said("host").unwrap_or_default(),
            boot: said("boot"),
            durability: durability.unwrap_or_default(),
            pids: said("pids"),
        }
    }

    fn read(path: &Path) -> Result<Option<Identity>, TapeError> {
        match std::fs::read_to_string(path) {
            Ok(text) => Ok(Some(Identity::parse(&text))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(Some(Identity::parse(""))),
            Err(error) => Err(TapeError::io("read", path)(error)),
        }
    }

    /// Whether its process is certainly gone: of this machine, and from before its last start or not there any more. Who holds
    /// its lock all the same is at what it left. Of another machine nothing is known, nor of a container that counts its
    /// processes by itself.
    fn is_gone(&self) -> bool {
        let us = Identity::of_this_process(self.durability);
        let is_there = || {
            let pid = i32::try_from(self.pid).ok().and_then(rustix::process::Pid::from_raw);
            pid.is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
        };
        let earlier = self.boot.is_some() && us.boot.is_some() && self.boot != us.boot;
        let may_look = self.pids.is_none() || us.pids.is_none() || self.pids == us.pids;
        self.host == us.host && (earlier || (may_look && !is_there()))
    }

    fn line(&self) -> String {
        let mut line = serde_json::to_string(self).expect("plain fields are JSON");
        line.push('\n');
        line
    }

    pub(super) fn holder(self) -> Holder {
        Holder { owner: self.owner, pid: self.pid, host: self.host }
    }
}

impl Owner {
    /// Becomes an owner.
    pub(super) fn new(layout: &Layout, durability: Durability) -> Result<Owner, TapeError> {
        let identity = Identity::of_this_process(durability);
        let path = layout.lock(&identity.owner);
        // Locked before it has its name: another store that opens now would find it free, take its owner for dead, and delete
        // it. Without an ending it is the name of no owner.
        let draft = layout.owners().join(&identity.owner);
        let made = || {
            let mut lock = new_file(&draft)?;
            lock.try_lock()?;
            lock.write_all(identity.line().as_bytes())?;
            std::fs::rename(&draft, &path).map(|()| lock)
        };
        let made = made().map_err(TapeError::io("make", &path));
        if made.is_err() {
            let _ = remove_file(&draft);
        }
        made.map(|lock| Owner { identity, _lock: lock, path })
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // While it is still locked: who opened it before sees that it has no name any more, and looks again.
        let _ = remove_file(&self.path);
    }
}

/// Whether an owner lives. A look: nothing is made, taken over or kept locked.
pub(super) fn is_alive(layout: &Layout, owner: &str) -> bool {
    let Ok(lock) = File::open(layout.lock(owner)) else { return false };
    // Shared, and given back with the file. Who finds it locked at the same moment sees that its process is gone, and looks
    // again; one of another machine may be taken for alive for that moment.
    matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock))
}

/// Whether an owner whose lock is held is dead, and somebody is at what it left.
pub(super) fn is_being_buried(layout: &Layout, owner: &str) -> bool {
    matches!(Identity::read(&layout.lock(owner)), Ok(Some(identity)) if identity.owner == owner && identity.is_gone())
}

/// A dead owner's lock, held by us.
#[derive(Debug)]
pub(super) struct DeadOwner {
    _lock: File,
    path: PathBuf,
    /// Its commit log. While that is there, so is the lock file: it says who that was.
    log: PathBuf,
}

impl DeadOwner {
    /// The lock of an owner that is dead; `None` where it lives.
    pub(super) fn lock(layout: &Layout, owner: &str) -> Result<Option<DeadOwner>, TapeError> {
        DeadOwner::lock_at(layout.lock(owner), layout.commit_log(owner), open_or_make)
    }

    fn lock_at(
        path: PathBuf,
        log: PathBuf,
        mut open: impl FnMut(&Path) -> io::Result<File>,
    ) -> Result<Option<DeadOwner>, TapeError> {
        loop {
            let lock = open(&path).map_err(TapeError::io("open", &path))?;
            match lock.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(TapeError::io("lock", &path)(error)),
            }
            // Its owner may have ended after this was opened: then the name is gone, or another's. Claims have links to it, so
            // that it still has a name somewhere says nothing.
            let locked = lock.metadata().map_err(TapeError::io("look at", &path))?;
            let named = match std::fs::metadata(&path) {
                Ok(named) => (named.dev(), named.ino()) == (locked.dev(), locked.ino()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => false,
                Err(error) => return Err(TapeError::io("look at", &path)(error)),
            };
            if named {
                return Ok(Some(DeadOwner { _lock: lock, path, log }));
            }
        }
    }

    /// The owners that left something behind: a lock file, a reserve or a commit log.
    pub(super) fn names(layout: &Layout) -> Result<Vec<String>, TapeError> {
        let mut names: Vec<String> = [layout.owners(), layout.commit()]
            .iter()
            .map(|folder| names_in(folder))
            .collect::<Result<Vec<_>, _>>()?
            .into_iter()
            .flatten()
            .filter_map(|name| name.split_once('.').map(|(owner, _)| owner.to_owned()))
            .collect();
        names.sort();
        names.dedup();
        Ok(names)
    }
}

impl Drop for DeadOwner {
    fn drop(&mut self) {
        if !self.log.exists() {
            let _ = remove_file(&self.path);
        }
    }
}

/// The right to write one session. It ends with [`Claim::release`] and not before, so that a claim whose session could
/// not be brought to the disk stays, and is replayed when its owner is dead.
#[derive(Debug)]
pub(super) struct Claim {
    path: PathBuf,
    /// Who wrote the session before.
    pub(super) before: Option<Identity>,
}

impl Claim {
    /// Claims a session whose folder exists. `replay` is called with the name of a dead owner before its claim is taken over.
    pub(super) fn take(
        layout: &Layout,
        owner: &Owner,
        session: &SessionId,
        replay: impl FnMut(&str) -> Result<(), TapeError>,
    ) -> Result<Claim, TapeError> {
        let (path, writer) = (layout.claim(session), layout.writer(session));
        let before = Identity::read(&writer)?;
        secure(layout, owner, session, replay)?;
        // Who wrote last stays known after the claim is gone.
        if before.as_ref() != Some(&owner.identity) {
            put(owner, &draft(layout, owner, session), &writer, |from, to| std::fs::rename(from, to)).inspect_err(
                |_| {
                    // Nobody has it then, so nobody shall be told that we do.
                    let _ = remove_file(&path);
                },
            )?;
            // Whoever was killed over the same left what it had begun, and had this session before us.
            remove_drafts(layout, owner, session);
        }
        Ok(Claim { path, before })
    }

    /// The owner that a session's claim names, alive or dead.
    pub(super) fn owner_of(layout: &Layout, session: &SessionId) -> Result<Option<String>, TapeError> {
        Ok(Identity::read(&layout.claim(session))?.map(|identity| identity.owner))
    }

    /// Whether the session is still claimed by one that is dead: somebody else is about to take it over, or to replay its log.
    pub(super) fn is_of_the_dead(layout: &Layout, session: &SessionId) -> bool {
        matches!(Identity::read(&layout.claim(session)), Ok(Some(holder)) if holder.is_gone())
    }

    /// Gives the session back.
    pub(super) fn release(self) {
        let _ = remove_file(&self.path);
    }
}

/// What such a file's name begins with; the rest is its owner's.
const DRAFT: &str = "claim.";

/// Where a file is made that gets its right name when it is whole.
fn draft(layout: &Layout, owner: &Owner, session: &SessionId) -> PathBuf {
    layout.session(session).join(format!("{DRAFT}{}", owner.identity.owner))
}

/// Removes what others had begun to make when they died. What is in nobody's way may stay another time.
fn remove_drafts(layout: &Layout, owner: &Owner, session: &SessionId) {
    let folder = layout.session(session);
    for name in names_in(&folder).unwrap_or_default() {
        let of = name.strip_prefix(DRAFT);
        if of.is_some_and(|other| other != owner.identity.owner && !is_alive(layout, other)) {
            let _ = remove_file(&folder.join(&name));
        }
    }
}

/// Makes a file that says who we are and gives it to `name`, which puts it in its place.
///
/// The file is another name of our lock file, which says so already: a file of its own costs a file system many times as much,
/// and is made only where the lock file can have no further name.
fn put(
    owner: &Owner,
    draft: &Path,
    place: &Path,
    name: impl FnOnce(&Path, &Path) -> io::Result<()>,
) -> Result<(), TapeError> {
    let made = || {
        // What is there by this name is what an earlier attempt of ours left.
        let linked = match std::fs::hard_link(&owner.path, draft) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                std::fs::remove_file(draft).and_then(|()| std::fs::hard_link(&owner.path, draft))
            }
            linked => linked,
        };
        linked.or_else(|_| new_file(draft)?.write_all(owner.identity.line().as_bytes()))?;
        name(draft, place)
    };
    let made = made().map_err(TapeError::io("make", place));
    // Of two names of one file a rename leaves both.
    let removed = remove_file(draft);
    made.and(removed)
}

/// Puts our name in the place of the session's claim.
fn secure(
    layout: &Layout,
    owner: &Owner,
    session: &SessionId,
    mut replay: impl FnMut(&str) -> Result<(), TapeError>,
) -> Result<(), TapeError> {
    let (path, draft) = (layout.claim(session), draft(layout, owner, session));
    loop {
        // A link appears with its content or not at all, and never in the place of another.
        if std::fs::hard_link(&owner.path, &path).is_ok() {
            return Ok(());
        }
        let Some(holder) = Identity::read(&path)? else {
            // Nobody's, and still no link: perhaps the lock file has as many names as it can have.
            match put(owner, &draft, &path, |from, to| std::fs::hard_link(from, to)) {
                Err(TapeError::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => continue,
                put => return put,
            }
        };
        if holder.owner == owner.identity.owner {
            return Ok(());
        }
        let Some(_dead) = DeadOwner::lock(layout, &holder.owner)? else {
            return Err(TapeError::Claimed { session: session.clone(), by: holder.holder() });
        };
        fault!(layout.faults, "tape.claim.stale", session.as_str());
        // Another may have taken it over before we had the lock.
        if Identity::read(&path)?.as_ref() == Some(&holder) {
            replay(&holder.owner)?;
            fault!(layout.faults, "tape.claim.replayed", session.as_str());
            return put(owner, &draft, &path, |from, to| std::fs::rename(from, to));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Promise 7: the lock of a file that lost its name between being opened and being locked says nothing: who has the file of
    /// that name now has the owner.
    #[test]
    fn a_lock_file_that_was_replaced_before_it_was_locked_is_nobodys() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("owner.lock");
        let mut others = None;
        let locked = DeadOwner::lock_at(path.clone(), folder.path().join("none"), |path| {
            let opened = open_or_make(path);
            if others.is_none() {
                std::fs::remove_file(path)?;
                let file = new_file(path)?;
                file.try_lock()?;
                others = Some(file);
            }
            opened
        });
        assert!(locked.unwrap().is_none());
        drop(others);
        let locked = DeadOwner::lock_at(path.clone(), folder.path().join("none"), open_or_make).unwrap();
        assert!(locked.is_some());
        drop(locked);
        assert!(!path.exists(), "what was left is done, so nothing of it stays");
    }

    /// The same number is another process in another container: nothing is known of it, and nobody waits for what it might do.
    #[test]
    fn a_process_that_is_numbered_elsewhere_is_not_called_gone() {
        let us = Identity::of_this_process(Durability::Process);
        assert_eq!(Identity::parse(&us.line()), us);
        assert!(us.pids.is_some());
        let dead = Identity { pid: u32::MAX / 2, ..us.clone() };
        let known = [us.pids.clone(), None, Some("pid:[7]".to_owned())];
        assert_eq!(known.map(|pids| Identity { pids, ..dead.clone() }.is_gone()), [true, true, false]);
        assert!(!us.is_gone());
        let earlier = Identity { pids: Some("pid:[7]".to_owned()), boot: Some("earlier".to_owned()), ..dead };
        assert!(earlier.is_gone());
    }
}
