//! Which owners have had processes: one file each in a folder that they share, locked for as long as the owner lives.
//!
//! A file is empty, so that it takes no room where a full disk has none.
//! A file whose lock is free is of an owner that is dead, however it died. Whoever starts next kills what still carries that
//! owner's mark, and removes the file.

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

/// An owner's file. Dropped, the lock goes and the file stays, as if the owner had died.
#[derive(Debug)]
pub(super) struct Ledger {
    path: PathBuf,
    _lock: File,
}

impl Ledger {
    /// Enters an owner. Blocks on the disk.
    pub(super) fn enter(folder: &Path, owner: Owner) -> io::Result<Ledger> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        // It appears under its name when it is locked, so that nobody takes it for a dead owner's.
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

    /// Strikes the owner out: nothing of it is left.
    pub(super) fn strike(self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Kills what dead owners left running, and strikes them out. Blocks.
///
/// Gives the number of processes that it killed, and the ids of those that would not go; their owners stay entered.
/// A folder that is not there has no owners.
pub fn sweep_dead(folder: &Path) -> io::Result<Swept> {
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
            // Somebody else struck it out.
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
