//! [`StoreOutputs`]: the large outputs of an engine that keeps them itself, and the folder of this runtime for copies of them.
//!
//! ```text
//! <copies>/lock          held while a runtime begins
//! <copies>/<id>          the folder of a runtime, with one folder for each call that uses outputs
//! <copies>/<id>.lock     held as long as that runtime lives
//! ```
//!
//! The folder is made with the first use, and removed with the runtime; what a killed one left is removed by the next one that
//! begins beneath the same folder. A change must keep that it removes the folder of no runtime that lives.

use std::{
    fs::{File, TryLockError},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    lock::Lock,
    tape::TapeStore,
    tool::{OutputStore, truncate::private_folder},
    words::ids::{SessionId, new_uuid},
};

/// An engine that keeps large outputs, for the calls of a runtime.
#[derive(Debug)]
pub(crate) struct StoreOutputs {
    engine: Arc<dyn TapeStore>,
    copies: PathBuf,
    folder: Lock<Option<Folder>>,
}

/// The folder of this runtime, and what shows others that it lives.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    alive: PathBuf,
    _lock: File,
}

impl StoreOutputs {
    /// `None` if the engine keeps no outputs.
    pub(crate) fn of(engine: &Arc<dyn TapeStore>) -> Option<StoreOutputs> {
        let copies = engine.output_copies()?;
        Some(StoreOutputs { engine: engine.clone(), copies, folder: Lock::default() })
    }
}

impl OutputStore for StoreOutputs {
    fn copies(&self) -> io::Result<PathBuf> {
        let mut folder = self.folder.lock();
        if let Some(folder) = &*folder {
            return Ok(folder.path.clone());
        }
        let made = Folder::begin(&self.copies).map_err(|error| {
            let why = format!("failed to make a folder in {}: {error}", self.copies.display());
            io::Error::new(error.kind(), why)
        })?;
        Ok(folder.insert(made).path.clone())
    }

    fn put(&self, session: &SessionId, name: &str, file: &File) -> io::Result<()> {
        self.engine.put_output(session, name, file).map_err(io::Error::other)
    }

    fn get(&self, session: &SessionId, name: &str, to: &mut dyn Write) -> io::Result<bool> {
        self.engine.get_output(session, name, to).map_err(io::Error::other)
    }

    fn names(&self, session: &SessionId) -> io::Result<Vec<String>> {
        let outputs = self.engine.outputs(session).map_err(io::Error::other)?;
        Ok(outputs.into_iter().map(|(name, _)| name).collect())
    }
}

impl Folder {
    fn begin(copies: &Path) -> io::Result<Folder> {
        private_folder(copies)?;
        let beginning = File::create(copies.join("lock"))?;
        beginning.lock()?;
        for entry in std::fs::read_dir(copies)? {
            let alive = entry?.path();
            if alive.extension().is_some_and(|end| end == "lock") {
                // What cannot be removed, such as another user's, stays: it is nobody's reason to keep no outputs.
                if let Err(error) = remove_dead(&alive) {
                    tracing::warn!(%error, folder = %alive.display(), "copies of a dead runtime stay");
                }
            }
        }
        let path = copies.join(new_uuid().simple().to_string());
        let alive = path.with_extension("lock");
        let lock = File::create_new(&alive)?;
        lock.lock()?;
        private_folder(&path)?;
        Ok(Folder { path, alive, _lock: lock })
    }
}

/// Removes the folder of a runtime that does not live.
fn remove_dead(alive: &Path) -> io::Result<()> {
    let lock = match File::open(alive) {
        // Its runtime ended meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    match lock.try_lock() {
        Ok(()) => remove(&alive.with_extension(""), alive),
        Err(TryLockError::WouldBlock) => Ok(()),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// The lock goes last, so that a folder is never without one.
fn remove(folder: &Path, alive: &Path) -> io::Result<()> {
    for removed in [std::fs::remove_dir_all(folder), std::fs::remove_file(alive)] {
        match removed {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed?,
        }
    }
    Ok(())
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = remove(&self.path, &self.alive);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn folders(copies: &Path) -> usize {
        std::fs::read_dir(copies).unwrap().filter(|entry| entry.as_ref().unwrap().path().is_dir()).count()
    }

    /// A killed runtime leaves its folder without a holder of its lock.
    #[test]
    fn what_a_killed_runtime_left_goes_and_what_lives_stays() {
        let folder = tempfile::tempdir().unwrap();
        let copies = folder.path().join("copies");
        let (alive, dead) = (Folder::begin(&copies).unwrap(), Folder::begin(&copies).unwrap());
        assert_eq!(folders(&copies), 2);
        std::fs::write(dead.path.join("x.log"), "much").unwrap();
        let (path, lock) = (dead.path.clone(), dead.alive.clone());
        let Folder { _lock: held, .. } = &dead;
        held.unlock().unwrap();
        let next = Folder::begin(&copies).unwrap();
        assert!(!path.exists() && !lock.exists());
        assert!(alive.path.exists() && next.path.exists());
        drop((alive, dead, next));
        assert_eq!(folders(&copies), 0);
    }
}
