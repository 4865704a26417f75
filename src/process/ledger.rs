//! The ledger of owners: one file for each owner that has had processes, in a folder that all hosts of a store share.
//!
//! An owner holds a lock on its file for as long as it lives, so a file with a free lock belongs to a dead owner, however it
//! died. The next host that starts on the store kills the processes that carry the dead owner's tag, and removes the file, unless
//! some could not be killed. A change must keep the order of a file's making: the lock first, its final name second, or another
//! host would take a living owner for a dead one. A file stays empty, so that it needs no room on a full disk.

use std::{
    fs::{DirBuilder, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use crate::process::{
    Owner, Swept,
    sweep::{Whose, sweep},
};

/// An owner's file and the lock on it. A drop frees the lock and leaves the file, as if the owner had died.
#[derive(Debug)]
pub(super) struct Ledger {
    path: PathBuf,
    _lock: File,
}

impl Ledger {
    /// Enters an owner into the ledger. Blocks on the disk.
    pub(super) fn enter(folder: &Path, owner: Owner) -> io::Result<Ledger> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        // The file gets its name after its lock, so that no other host takes it for the file of a dead owner.
        let draft = folder.join(format!(".new-{owner}"));
        let path = folder.join(owner.to_string());
        let enter = || {
            let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
            file.try_lock()?;
            std::fs::rename(&draft, &path).map(|()| file)
        };
        let lock = enter().inspect_err(|_| drop(std::fs::remove_file(&draft)))?;
        Ok(Ledger { path, _lock: lock })
    }

    /// Strikes the owner out of the ledger. Call this when none of its processes is left.
    pub(super) fn strike(self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Kills the processes that dead owners left running, and strikes those owners out. Blocks.
///
/// Returns the number of processes that it killed, and the ids of those that it could not kill; the owners of the latter stay
/// in the ledger. A folder that does not exist has no owners.
pub(crate) fn sweep_dead(folder: &Path) -> io::Result<Swept> {
    let names = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Swept::default()),
        names => names?,
    };
    let mut all = Swept::default();
    for name in names {
        let path = name?.path();
        let owner = path.file_name().and_then(|name| Owner::parse(name.to_str()?));
        let Some(owner) = owner else { continue };
        let lock = match File::open(&path) {
            // Another host struck the owner out meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            file => file?,
        };
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => continue,
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let swept = sweep(&Whose::Owner(owner));
        all.killed += swept.killed;
        if swept.left.is_empty() {
            let _ = std::fs::remove_file(&path);
        }
        all.left.extend(swept.left);
    }
    Ok(all)
}
