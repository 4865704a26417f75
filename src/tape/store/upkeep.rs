//! The parts of a store that are not tapes: its version, its reserve, what dead owners left.

use std::io::{self, Write};

use crate::{
    ids::SessionId,
    tape::{
        TapeError, commit,
        disk::{Disk, within_limit},
        layout::{Layout, new_file, remove_file},
    },
};

/// The version of the folder's layout that is written, and the newest that is understood.
const LAYOUT_VERSION: u64 = 1;

/// Does what a dead owner left undone. The caller holds its lock.
pub(in crate::tape) fn bury(disk: &dyn Disk, layout: &Layout, name: &str) -> Result<Vec<SessionId>, TapeError> {
    let replayed = commit::replay(disk, layout, name)?;
    remove_file(&layout.commit_log(name).with_extension("new"))?;
    remove_file(&layout.reserve(name))?;
    Ok(replayed)
}

/// Keeps room on the disk; where it is kept already, nothing is done.
pub(in crate::tape) fn make_reserve(layout: &Layout, owner: &str, bytes: u64) -> Result<(), TapeError> {
    let path = layout.reserve(owner);
    if bytes == 0 || path.exists() {
        return Ok(());
    }
    let make = || -> io::Result<()> {
        within_limit(bytes)?;
        let file = new_file(&path)?;
        match rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes) {
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
                io::copy(&mut io::Read::take(io::repeat(0), bytes), &mut &file).map(drop)
            }
            made => made.map_err(io::Error::from),
        }
    };
    make().map_err(|error| {
        let _ = std::fs::remove_file(&path);
        TapeError::io("reserve room in", &path)(error)
    })
}

/// Refuses the folder of a later version; writes ours into a new one.
pub(in crate::tape) fn check_version(layout: &Layout, make: bool) -> Result<(), TapeError> {
    let file = layout.root.join("version");
    let text = match std::fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if make {
                let draft = layout.root.join(format!("version.{}", uuid::Uuid::now_v7().simple()));
                let made = new_file(&draft)
                    .and_then(|mut new| new.write_all(format!("{LAYOUT_VERSION}\n").as_bytes()))
                    .and_then(|()| std::fs::rename(&draft, &file));
                made.map_err(TapeError::io("make", &file))?;
            }
            return Ok(());
        }
        Err(error) => return Err(TapeError::io("read", &file)(error)),
    };
    match text.trim().parse() {
        Ok(found) if found > LAYOUT_VERSION => Err(TapeError::Newer { file, found, known: LAYOUT_VERSION }),
        // An unreadable number says nothing; the lines have their own.
        _ => Ok(()),
    }
}
