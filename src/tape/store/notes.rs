//! Notes that the index may still have something of what is being deleted: made before a deletion takes a session away, and gone
//! when the index is known to have nothing of it.
//!
//! ```text
//! deleted/index               whoever opens the store next, or sweeps, is to look for it
//! deleted/index-<owner>-<n>   this owner is at it
//! ```
//!
//! Each deletion has a note of its own, so nobody takes away the note of another who is not done. One whose owner died is
//! anybody's.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::ids::SessionId;
use crate::tape::{
    layout::{Layout, make_folder, names_in, open_or_make},
    owner::is_alive,
};

/// What is to be forgotten.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "sqlite"), allow(dead_code, reason = "only the index asks"))]
pub(in crate::tape) enum Which<'s> {
    /// These sessions, whether they were made anew or not: what is there is read again.
    These(&'s [SessionId]),
    /// All that have no folder any more.
    AllGone,
}

/// How long it may take.
#[cfg_attr(not(feature = "sqlite"), allow(dead_code, reason = "only the index asks"))]
pub(in crate::tape) struct Patience<'s> {
    /// To take out rows.
    pub(in crate::tape) rows: Duration,
    /// To take what is left of the words out of the file.
    pub(in crate::tape) merge: Duration,
    /// Asked now and then.
    pub(in crate::tape) stop: &'s dyn Fn() -> bool,
}

/// How far it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "sqlite"), allow(dead_code, reason = "only the index says"))]
pub(in crate::tape) enum Forgotten {
    /// All rows are out: texts, titles, and what a search goes by.
    Rows,
    /// So are the words, out of the search table's file.
    Words,
}

const ANYBODYS: &str = "index";

/// A note that is ours. Where it is dropped without a word, it stays until this owner is gone.
#[derive(Debug)]
pub(super) struct Note {
    path: PathBuf,
}

impl Note {
    /// `None` where there is no index, or no room for a note.
    pub(super) fn make(layout: &Layout, owner: &str) -> Option<Note> {
        if !layout.root.join("index.db").exists() {
            return None;
        }
        let note = Note::of(&layout.deleted(), owner);
        let made = make_folder(&layout.deleted()).is_ok() && open_or_make(&note.path).is_ok();
        made.then_some(note)
    }

    /// Makes those notes ours that are anybody's.
    pub(super) fn take(layout: &Layout, owner: &str) -> Option<Note> {
        let (folder, mut taken) = (layout.deleted(), None);
        for name in names_in(&folder).unwrap_or_default() {
            let is_due = match name.strip_prefix(ANYBODYS) {
                Some("") => true,
                Some(of) => owner_in(of).is_some_and(|of| of != owner && !is_alive(layout, of)),
                None => false,
            };
            let note = Note::of(&folder, owner);
            if is_due && fs::rename(folder.join(name), &note.path).is_ok() {
                // The ones before say the same.
                taken.replace(note).into_iter().for_each(Note::done);
            }
        }
        taken
    }

    fn of(folder: &Path, owner: &str) -> Note {
        Note { path: folder.join(format!("{ANYBODYS}-{owner}-{}", uuid::Uuid::now_v7().simple())) }
    }

    /// The index has nothing of it any more.
    pub(super) fn done(self) {
        // One too many costs the next start a look.
        let _ = fs::remove_file(&self.path);
    }

    /// It is left to whoever opens the store next, or sweeps.
    pub(super) fn leave(self) {
        let _ = fs::rename(&self.path, self.path.with_file_name(ANYBODYS));
    }
}

/// The owner in `-<owner>-<n>`.
fn owner_in(name: &str) -> Option<&str> {
    name.strip_prefix('-')?.rsplit_once('-').map(|(owner, _)| owner)
}
