//! The upkeep of a store's folder: its layout version, its reserves (files that keep room on a full disk), and what dead owners
//! left. An owner is one store that is open for writing; it is dead when its lock file is free.
//!
//! Opening to write ([`become_owner`]) makes this store an owner and finishes what dead owners left: it replays their commit logs
//! and empties the folders of erased sessions. If another store is replaying them for 10 s, the logs are left to that store. A
//! leftover that cannot be finished is reported and kept for the next time; the store still opens.
//!
//! A change must keep this order: version checked → `owners/` locked → reserves of dead owners removed, so that a store which died
//! on a full disk can be opened → own lock file made → dead logs replayed. [`bury`] needs the lock on `owners/`, and must leave a
//! dead owner's lock file until its log is gone: the file says who the owner was. All of it may block.

use std::{
    io::{self, Read as _, Write as _},
    path::Path,
};

use super::{StoreOptions, StoreReport, erase::finish_erasures};
use crate::tape::{
    Durability, TapeError,
    commit::{self, Replayed},
    disk::{Disk, within_limit},
    layout::{
        Layout, folders_above, make_folder, names_in, new_file, open_or_make, read_text, remove_file, sync_folder,
    },
    owner::{Owner, is_alive, lock_burials, owner_names},
};

/// The size of the `spare`: room for a store that opens on a full disk after this owner's death (a lock file, a folder, names).
const SPARE_BYTES_MAX: u64 = 16 * 1024;

/// The layout version of the folder that is written, and the newest that is understood.
const LAYOUT_VERSION: u64 = 1;

/// Makes this store an owner, and finishes what dead owners left undone. A leftover that cannot be finished is added to `report`
/// and kept for the next time.
pub(in crate::tape) fn become_owner(
    disk: &dyn Disk,
    layout: &Layout,
    options: &StoreOptions,
    report: &mut StoreReport,
) -> Result<Owner, TapeError> {
    // First, so that nothing is made in the folder of a later version.
    check_version(layout, false)?;
    let above = folders_above(&layout.root);
    for folder in [layout.sessions(), layout.open(), layout.owners(), layout.commit()] {
        make_folder(&folder)?;
    }
    check_version(layout, true)?;
    if options.durability == Durability::Power {
        // Without these syncs, a loss of power may take the folders, and with them the files that are synced in them.
        sync_folder(&layout.root)?;
        above.iter().try_for_each(|folder| sync_folder(folder))?;
    }
    fault!(options.faults, "tape.open.folders", "store");
    // Waits for another store that is burying: its sessions are replayed and marked when this store is open.
    let burials = lock_burials(layout)?;
    if burials.is_some() {
        report.undone.extend(remove_drafts(layout).err());
    }
    let names = if burials.is_some() { owner_names(layout)? } else { Vec::new() };
    let mut dead = Vec::new();
    for name in names {
        match is_alive(layout, &name) {
            Ok(true) => {}
            Ok(false) => dead.push(name),
            Err(error) => report.undone.push(error),
        }
    }
    // First, so that a full disk has room for this owner's lock file: the reserves were kept for that.
    for name in &dead {
        report.undone.extend(remove_reserves(layout, name).err());
    }
    let owner = Owner::new(layout, options.durability)?;
    note_opener(layout, &owner.identity.owner);
    for name in dead {
        fault!(options.faults, "tape.open.dead_owner", "store");
        match bury(disk, layout, &name) {
            Ok(replayed) => {
                report.dead_owners += usize::from(replayed.failed.is_empty());
                report.replayed.extend(replayed.sessions);
                report.undone.extend(replayed.failed.into_iter().map(|(_, error)| error));
            }
            Err(error) => report.undone.push(error),
        }
    }
    drop(burials);
    report.undone.extend(finish_erasures(layout));
    report.has_reserve = make_reserve(layout, &owner.identity.owner, options.reserve_bytes).is_ok();
    Ok(owner)
}

/// Leaves the name of this owner for those that are open already: what they know of the sessions is no longer all. Before this owner
/// can claim a session. On a full disk the file is at least another one than before.
fn note_opener(layout: &Layout, owner: &str) {
    let noted = open_or_make(&layout.opened()).and_then(|mut file| {
        file.set_len(0)?;
        file.write_all(owner.as_bytes())
    });
    if noted.is_err() {
        let _ = remove_file(&layout.opened());
    }
}

/// Removes lock files that never got their name, because their makers died. The caller holds the lock on `owners/`. A live maker of
/// such a file holds that lock too (unless it waited 10 s for the lock in vain), so no live maker's file is removed.
fn remove_drafts(layout: &Layout) -> Result<(), TapeError> {
    let drafts = names_in(&layout.owners())?.into_iter().filter(|name| !name.contains('.'));
    drafts.map(|name| layout.owners().join(name)).try_for_each(|draft| remove_file(&draft))
}

/// Finishes what a dead owner left undone. The caller holds the lock of [`lock_burials`]. The owner's lock file stays as long as
/// its log: it says who the owner was.
pub(in crate::tape) fn bury(disk: &dyn Disk, layout: &Layout, name: &str) -> Result<Replayed, TapeError> {
    remove_reserves(layout, name)?;
    let replayed = commit::replay(disk, layout, name)?;
    remove_file(&layout.commit_log(name).with_extension("new"))?;
    if replayed.failed.is_empty() {
        let is_its_own = |left: &String| left.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
        let left = names_in(&layout.owners())?.into_iter().filter(is_its_own);
        left.map(|left| layout.owners().join(left)).try_for_each(|left| remove_file(&left))?;
    }
    Ok(replayed)
}

/// Reserves room on the disk, if it is missing: the reserve, to end open work on a full disk; and the smaller `spare`, which
/// stays for as long as this owner lives. A store that finishes what this owner left frees both first.
pub(in crate::tape) fn make_reserve(layout: &Layout, owner: &str, bytes: u64) -> Result<(), TapeError> {
    // On a disk that is nearly full, a smaller spare is enough to open a store.
    let sizes = [SPARE_BYTES_MAX, SPARE_BYTES_MAX / 2, SPARE_BYTES_MAX / 4].map(|size| size.min(bytes));
    let _ = sizes.into_iter().any(|bytes| keep_room(&layout.spare(owner), bytes).is_ok());
    keep_room(&layout.reserve(owner), bytes)
}

/// Removes the reserve and the spare of an owner.
pub(in crate::tape) fn remove_reserves(layout: &Layout, owner: &str) -> Result<(), TapeError> {
    remove_file(&layout.reserve(owner)).and(remove_file(&layout.spare(owner)))
}

fn keep_room(path: &Path, bytes: u64) -> Result<(), TapeError> {
    if bytes == 0 || path.exists() {
        return Ok(());
    }
    let make = || -> io::Result<()> {
        within_limit(bytes)?;
        io::copy(&mut io::repeat(0).take(bytes), &mut new_file(path)?).map(drop)
    };
    make().map_err(|error| {
        let _ = std::fs::remove_file(path);
        TapeError::io("reserve room in", path)(error)
    })
}

/// Refuses the folder of a later version; with `make`, writes the version into a folder that has none.
pub(in crate::tape) fn check_version(layout: &Layout, make: bool) -> Result<(), TapeError> {
    let file = layout.root.join("version");
    let text = match read_text(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if make {
                let made =
                    open_or_make(&file).and_then(|mut new| new.write_all(format!("{LAYOUT_VERSION}\n").as_bytes()));
                made.map_err(TapeError::io("make", &file))?;
            }
            return Ok(());
        }
        Err(error) => return Err(TapeError::io("read", &file)(error)),
    };
    match text.trim().parse() {
        Ok(found) if found > LAYOUT_VERSION => Err(TapeError::Newer { file, found, known: LAYOUT_VERSION }),
        // An unreadable number must not prevent opening: each line has its own version.
        _ => Ok(()),
    }
}
