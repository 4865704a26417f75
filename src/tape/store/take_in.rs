//! A whole session that comes from elsewhere: [`TapeStore::take_in`](crate::tape::TapeStore::take_in) over files.
//!
//! ```text
//! importing/<id>   each file written and synced, with the mark `imported` and the large outputs ─► one rename ─► sessions/<session>
//! ```
//!
//! The rename replaces nothing. So after any error, and after a crash at any point, either the whole session exists or nothing of
//! it; the next import removes what a killed one left. A change must keep that everything is synced before the rename, above all the
//! mark: a session without it would keep powers that were taken from it. Waits for another import without a limit.

use std::{
    fs::File,
    io::{BufWriter, Write as _},
    path::{Path, PathBuf},
};

use super::Store;
use crate::{
    tape::{
        Mark, TapeError, TapePiece,
        import::{is_anchor_name, is_spill_name},
        layout::{make_folder, make_new_folder, names_in, new_file, open_or_make, sync_folder},
        line::{Chain, encode_lines},
    },
    words::ids::SessionId,
};

impl Store {
    pub(super) fn write_whole(
        &self,
        session: &SessionId,
        pieces: &mut dyn Iterator<Item = Result<TapePiece, TapeError>>,
    ) -> Result<(), TapeError> {
        self.inner.must_write()?;
        let exists = || TapeError::Exists { session: session.clone() };
        let to = self.layout().session(session);
        if to.exists() {
            return Err(exists());
        }
        let staging = Staging::new(self)?;
        fault!(self.faults(), "tape.import.begun", session.as_str());
        write(&staging.folder, session, pieces)?;
        fault!(self.faults(), "tape.import.written", session.as_str());
        let flags = rustix::fs::RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(rustix::fs::CWD, &staging.folder, rustix::fs::CWD, &to, flags) {
            Err(rustix::io::Errno::EXIST | rustix::io::Errno::NOTEMPTY) => return Err(exists()),
            moved => moved.map_err(|error| TapeError::io("make", &to)(error.into()))?,
        }
        self.inner.writer.files.changed.note(session);
        sync_folder(&self.layout().sessions())?;
        fault!(self.faults(), "tape.import.done", session.as_str());
        Ok(())
    }
}

/// Writes the files of a session into its folder, and syncs all of them.
fn write(
    folder: &Path,
    session: &SessionId,
    pieces: &mut dyn Iterator<Item = Result<TapePiece, TapeError>>,
) -> Result<(), TapeError> {
    let (anchors, spills) = (folder.join("anchors"), folder.join("spill"));
    make_folder(&anchors)?;
    let mut chain: Option<Chain> = None;
    let mut file: Option<Growing> = None;
    for piece in pieces {
        match piece? {
            TapePiece::Append { part, entries } => {
                if chain.as_ref().is_none_or(|chain| *chain.anchor != *part) {
                    let at = anchors.join(Some(&part).filter(|part| is_anchor_name(part)).ok_or_else(not_plain)?);
                    make_new_folder(&at).map_err(TapeError::io("make", &at))?;
                    Growing::next(&mut file, Some(at.join("entries.jsonl")))?;
                    let start = || Chain::start(session, &part);
                    chain = Some(chain.map_or_else(start, |chain| chain.in_file(&part)));
                }
                if let (Some(chain), Some(file)) = (&mut chain, &mut file) {
                    file.write(&encode_lines(chain, &entries)?)?;
                }
            }
            TapePiece::Mark { mark: Mark::Imported, about } => {
                Growing::next(&mut file, Some(folder.join("imported")))?;
                file.as_mut().map_or(Ok(()), |file| file.write(about.as_bytes()))?;
            }
            TapePiece::Mark { mark, .. } => {
                return Err(TapeError::engine(format!("the mark {mark:?} does not come with a tape")));
            }
            TapePiece::Spill { name, bytes } => {
                let path = spills.join(Some(name).filter(|name| is_spill_name(name)).ok_or_else(not_plain)?);
                if file.as_ref().is_none_or(|file| file.path != path) {
                    make_folder(&spills)?;
                    Growing::next(&mut file, Some(path))?;
                }
                file.as_mut().map_or(Ok(()), |file| file.write(&bytes))?;
            }
        }
    }
    Growing::next(&mut file, None)?;
    sync_folder(&anchors)?;
    sync_folder(folder)
}

fn not_plain() -> TapeError {
    TapeError::engine("a name that comes in is not plain")
}

/// The file that is being written.
struct Growing {
    path: PathBuf,
    out: BufWriter<File>,
}

impl Growing {
    /// Ends a file, which is synced with its folder then, and begins another one.
    fn next(file: &mut Option<Growing>, path: Option<PathBuf>) -> Result<(), TapeError> {
        if let Some(Growing { path, out }) = file.take() {
            let done = out.into_inner().map_err(|error| TapeError::io("write", &path)(error.into_error()))?;
            done.sync_all().map_err(TapeError::io("sync", &path))?;
            path.parent().map_or(Ok(()), sync_folder)?;
        }
        if let Some(path) = path {
            let out = BufWriter::new(new_file(&path).map_err(TapeError::io("make", &path))?);
            *file = Some(Growing { path, out });
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), TapeError> {
        self.out.write_all(bytes).map_err(TapeError::io("write", &self.path))
    }
}

/// The folder under `importing/` that a session is written into. Dropping this removes it, unless the session moved to its place.
struct Staging {
    folder: PathBuf,
    /// Held while the import runs. There is one import at a time, so everything else in `importing/` was left by a killed one.
    _lock: File,
}

impl Staging {
    fn new(store: &Store) -> Result<Staging, TapeError> {
        let importing = store.layout().root.join("importing");
        make_folder(&importing)?;
        let path = importing.join("lock");
        let lock = open_or_make(&path).map_err(TapeError::io("open", &path))?;
        lock.lock().map_err(TapeError::io("lock", &path))?;
        for left in names_in(&importing)?.iter().filter(|name| *name != "lock") {
            let left = importing.join(left);
            std::fs::remove_dir_all(&left).map_err(TapeError::io("remove", left))?;
        }
        let folder = importing.join(crate::words::ids::new_uuid().simple().to_string());
        make_new_folder(&folder).map_err(TapeError::io("make", &folder))?;
        Ok(Staging { folder, _lock: lock })
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // The folder may have moved to its place. If it cannot be removed now, the next import removes it.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
