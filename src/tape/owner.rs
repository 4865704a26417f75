//! Who may write a session: one lock file for each store that is open for writing, one claim file for each session that it writes.
//!
//! A store that is open for writing is an *owner*: it holds a lock (`flock`) on `owners/<owner>.lock` for as long as it lives,
//! and the system releases that lock on any end of the process. A session's `claim` names its owner. A claim is stale when its
//! owner's lock is free: a dead owner never comes back. At most one live owner has a session's claim at a time, across processes.
//!
//! A change must keep: an owner's lock is held for as long as one of its claims is in use, also if its store was closed meanwhile
//! ([`Claim`] holds the [`Owner`]), or another store could take the claim over; a lock file is locked before it has its name, or it
//! would be found free; a new claim appears whole, by a link that replaces nothing; a stale claim is replaced under the lock on the
//! folder `owners/`, after the dead owner's commit log was replayed, or a later replay could write over new lines; that lock and
//! the one on `sessions/` (`store/erase.rs`) are never held together. The words of the files are a stored format: read what a later
//! version wrote. Taking a claim may wait ten seconds for `owners/`; a look ([`is_alive`]) must not wait.

use std::{
    fs::{File, TryLockError},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use serde::Serialize;

use super::{
    Durability, Holder, TapeError,
    layout::{Layout, lock_within, names_in, new_file, read_text, remove_file},
    read::open_if_there,
};
use crate::words::ids::SessionId;

/// How long to wait for another store that takes over what dead owners left. After that, the sessions count as in use.
const BURIAL_WAIT: Duration = Duration::from_secs(10);

/// This store as an owner. Dropping it releases its lock.
#[derive(Debug)]
pub(super) struct Owner {
    pub(super) identity: Identity,
    /// The open lock file. The system holds the lock for as long as it is open.
    _lock: File,
    /// The lock file; claims are further names of it.
    path: PathBuf,
}

/// What a claim, a lock file and a `writer` file hold: one JSON object. Stored format.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Identity {
    pub(super) owner: String,
    pub(super) pid: u32,
    pub(super) host: String,
    /// The id of this start of the machine; absent if the system does not say.
    pub(super) boot: Option<String>,
    pub(super) durability: Durability,
    /// The namespace of `pid`; absent if the system does not say.
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
        Identity {
            owner: format!("{pid}-{}", crate::words::ids::new_uuid().simple()),
            pid,
            host,
            boot,
            durability,
            pids,
        }
    }

    /// Reads such a file. A file that a power cut emptied names the owner `nobody`, which is never alive. Unknown and missing
    /// fields are accepted: the name in a file of a later version must be read, or a live owner would be taken for dead.
    fn parse(text: &str) -> Identity {
        let value: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
        let said = |field: &str| value.get(field).and_then(serde_json::Value::as_str).map(str::to_owned);
        let is_name = |name: &String| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        let Some(owner) = said("owner").filter(is_name) else {
            return Identity { owner: "nobody".into(), ..Identity::default() };
        };
        let field = |field: &str| value.get(field).cloned().unwrap_or_default();
        Identity {
            owner,
            pid: serde_json::from_value(field("pid")).unwrap_or_default(),
            host: said("host").unwrap_or_default(),
            boot: said("boot"),
            durability: serde_json::from_value(field("durability")).unwrap_or_default(),
            pids: said("pids"),
        }
    }

    fn read(path: &Path) -> Result<Option<Identity>, TapeError> {
        match read_text(path) {
            Ok(text) => Ok(Some(Identity::parse(&text))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(Some(Identity::parse(""))),
            Err(error) => Err(TapeError::io("read", path)(error)),
        }
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
    /// Becomes an owner: makes the lock file, and keeps it locked.
    pub(super) fn new(layout: &Layout, durability: Durability) -> Result<Owner, TapeError> {
        let identity = Identity::of_this_process(durability);
        let path = layout.lock(&identity.owner);
        // Lock the file before it has its name. Else a store that opens at this moment would find it free, take its owner for
        // dead, and delete it. A name without an ending is not an owner's.
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
        // Remove the name while the file is still locked, so that no store finds it there and free.
        let _ = remove_file(&self.path);
    }
}

/// Whether an owner lives. Makes nothing, takes nothing over, does not wait, and keeps no lock.
pub(super) fn is_alive(layout: &Layout, owner: &str) -> Result<bool, TapeError> {
    let path = layout.lock(owner);
    let Some(lock) = open_if_there(&path)? else { return Ok(false) };
    // A shared lock, so that two looks at once see the same. It goes with the file.
    match lock.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(TapeError::io("lock", path)(error)),
    }
}

/// Locks `owners/`: until the file is dropped, no other store takes over what dead owners left. Waits 10 s at most; `None` after
/// that.
pub(super) fn lock_burials(layout: &Layout) -> Result<Option<File>, TapeError> {
    let path = layout.owners();
    let folder = File::open(&path).map_err(TapeError::io("open", &path))?;
    Ok(lock_within(&folder, BURIAL_WAIT).map_err(TapeError::io("lock", &path))?.then_some(folder))
}

/// The owners that have a file in `owners/` or `commit/`, alive or dead.
pub(super) fn owner_names(layout: &Layout) -> Result<Vec<String>, TapeError> {
    let names = names_in(&layout.owners())?.into_iter().chain(names_in(&layout.commit())?);
    let mut names: Vec<String> =
        names.filter_map(|name| name.split_once('.').map(|(owner, _)| owner.to_owned())).collect();
    names.sort();
    names.dedup();
    Ok(names)
}

/// The right to write one session. Only [`Claim::release`] ends it; a drop does not. So the claim of a session that could not be
/// synced stays, and the commit log is replayed when this owner is dead.
#[derive(Debug)]
pub(super) struct Claim {
    path: PathBuf,
    /// Alive for as long as the claim is in use.
    _owner: Arc<Owner>,
    /// The owner that wrote the session last; absent if there was none.
    pub(super) before: Option<Identity>,
}

impl Claim {
    /// Claims a session whose folder exists; [`TapeError::Claimed`] if a live owner has it. `replay` is called with the name of a
    /// dead owner before its claim is taken over.
    pub(super) fn take(
        layout: &Layout,
        owner: &Arc<Owner>,
        session: &SessionId,
        replay: impl FnMut(&str) -> Result<(), TapeError>,
    ) -> Result<Claim, TapeError> {
        let (path, writer) = (layout.claim(session), layout.writer(session));
        let before = Identity::read(&writer)?;
        secure(layout, owner, session, replay)?;
        // `writer` stays when the claim goes, and tells the next owner who wrote last.
        if before.as_ref() != Some(&owner.identity) {
            put(layout, owner, &writer, |from, to| std::fs::rename(from, to)).inspect_err(|_| {
                // The claim was not taken: remove its file, or others would see that this owner has the session.
                let _ = remove_file(&path);
            })?;
        }
        Ok(Claim { path, _owner: Arc::clone(owner), before })
    }

    /// The owner that a session's claim names, alive or dead.
    pub(super) fn owner_of(layout: &Layout, session: &SessionId) -> Result<Option<String>, TapeError> {
        Ok(Identity::read(&layout.claim(session))?.map(|identity| identity.owner))
    }

    /// Releases the session: removes the claim's file, without waiting.
    pub(super) fn release(self) {
        let _ = remove_file(&self.path);
    }
}

/// Makes a file with this owner's identity and passes it to `name`, which puts it in `place`. After a crash in between, the draft
/// goes with everything else that this owner left.
///
/// The file is a further name (hard link) of the lock file, which has the identity already: a separate file costs the file system
/// many times as much, and is made only if the lock file can have no further name.
fn put(
    layout: &Layout,
    owner: &Owner,
    place: &Path,
    name: impl FnOnce(&Path, &Path) -> io::Result<()>,
) -> Result<(), TapeError> {
    let draft = layout.owners().join(format!("{}.{}", owner.identity.owner, crate::words::ids::new_uuid().simple()));
    let made = || {
        let linked = std::fs::hard_link(&owner.path, &draft);
        linked.or_else(|_| new_file(&draft)?.write_all(owner.identity.line().as_bytes()))?;
        name(&draft, place)
    };
    let made = made().map_err(TapeError::io("make", place));
    // A rename of one name of a file onto another name of the same file leaves both.
    made.and(remove_file(&draft))
}

/// Puts this owner's name in the session's claim; takes over the claim of a dead owner after `replay`.
fn secure(
    layout: &Layout,
    owner: &Owner,
    session: &SessionId,
    mut replay: impl FnMut(&str) -> Result<(), TapeError>,
) -> Result<(), TapeError> {
    let path = layout.claim(session);
    loop {
        // A hard link appears with its content or not at all, and never replaces a file.
        if std::fs::hard_link(&owner.path, &path).is_ok() {
            return Ok(());
        }
        let Some(holder) = Identity::read(&path)? else {
            // There is no claim, and the link still failed: the lock file may have as many names as it can have.
            match put(layout, owner, &path, |from, to| std::fs::hard_link(from, to)) {
                Err(TapeError::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => continue,
                put => return put,
            }
        };
        if holder.owner == owner.identity.owner {
            return Ok(());
        }
        let burials = if is_alive(layout, &holder.owner)? { None } else { lock_burials(layout)? };
        let Some(_burials) = burials else {
            return Err(TapeError::Claimed { session: session.clone(), by: holder.holder() });
        };
        fault!(layout.faults, "tape.claim.stale", session.as_str());
        // Another owner may have taken the claim over before this one had the lock on `owners/`.
        if Identity::read(&path)?.as_ref() == Some(&holder) {
            replay(&holder.owner)?;
            fault!(layout.faults, "tape.claim.replayed", session.as_str());
            return put(layout, owner, &path, |from, to| std::fs::rename(from, to));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::tape::layout::make_folder;

    /// Promise 7: who comes while another takes over what a dead owner left waits for that, and finds it taken.
    #[test]
    fn what_a_dead_owner_had_is_taken_over_once() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout {
            root: folder.path().into(),
            #[cfg(feature = "fault-injection")]
            faults: crate::fault::Faults::default(),
        };
        let session: SessionId = "s".parse().unwrap();
        [layout.owners(), layout.session(&session)].iter().for_each(|path| make_folder(path).unwrap());
        let [one, two] = [(); 2].map(|()| Arc::new(Owner::new(&layout, Durability::Process).unwrap()));
        std::fs::write(layout.claim(&session), r#"{"owner":"1-dead"}"#).unwrap();
        std::thread::scope(|scope| {
            let (tell, told) = std::sync::mpsc::channel();
            let (layout, session, two) = (&layout, &session, &two);
            let first = Claim::take(layout, &one, session, |dead| {
                assert_eq!(dead, "1-dead");
                let tell = tell.clone();
                scope.spawn(move || drop(tell.send(Claim::take(layout, two, session, |_| Ok(())))));
                assert!(told.recv_timeout(Duration::from_millis(50)).is_err(), "it waits");
                Ok(())
            });
            first.unwrap();
        });
        assert_eq!(Claim::owner_of(&layout, &session).unwrap().as_ref(), Some(&one.identity.owner));
    }
}
