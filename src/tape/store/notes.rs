//! Notes of deleted sessions that the index may still have words of: what `Store::scrub` has to take out.
//!
//! A deletion writes the session's name before it takes the session away and again afterwards, because a scrub that is under way
//! may have taken the first note. A change must keep: the note goes only when the index is known to have nothing of the session,
//! and after a crash at any point it is still there. There is no note where there is no index. A full disk drops the note,
//! because the deletion must go on; a warning in the log says so.
//!
//! ```text
//! deleted/index         the names of what was deleted since the newest scrub began
//! deleted/index.taken   the names that a scrub is taking out, or was taking out when it died
//! ```

use std::{io::Write as _, os::unix::fs::OpenOptionsExt as _, path::PathBuf};

use crate::{
    tape::{
        TapeError,
        layout::{Layout, make_folder},
    },
    words::ids::SessionId,
};

const NOTE: &str = "index";
const TAKEN: &str = "index.taken";

fn note(layout: &Layout) -> PathBuf {
    layout.deleted().join(NOTE)
}

#[cfg(feature = "sqlite")]
fn taken(layout: &Layout) -> PathBuf {
    layout.deleted().join(TAKEN)
}

/// Whether a name in `deleted/` is a note, and not a session that is being removed. A session may be called `index`; the name of
/// its removed folder ends with a long number.
pub(super) fn is_note(name: &str) -> bool {
    name == NOTE || name == TAKEN
}

/// Notes that the index may have words of a session. Does nothing where there is no index.
pub(super) fn put(layout: &Layout, session: &SessionId) {
    if !layout.root.join("index.db").exists() {
        return;
    }
    let made = make_folder(&layout.deleted()).and_then(|()| {
        let path = note(layout);
        let opened = std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(&path);
        let written = opened.and_then(|mut file| file.write_all(format!("{session}\n").as_bytes()));
        written.map_err(TapeError::io("write", path))
    });
    // A full disk has no room for the note. A search finds nothing of the session all the same; its words stay until another note.
    if let Err(error) = made {
        tracing::warn!(%session, %error, "what was deleted stays in the index for now");
    }
}

/// Whether there is something to scrub.
#[cfg(feature = "sqlite")]
pub(in crate::tape) fn is_due(layout: &Layout) -> bool {
    note(layout).exists() || taken(layout).exists()
}

/// Takes the noted names for a scrub. The caller holds the lock of the index, so there is one scrub at a time.
#[cfg(feature = "sqlite")]
pub(in crate::tape) fn take(layout: &Layout) -> Result<Vec<String>, TapeError> {
    let (note, taken) = (note(layout), taken(layout));
    // A scrub that died left its `taken` file: its names are done first.
    if !taken.exists() {
        match std::fs::rename(&note, &taken) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(TapeError::io("take", &note)(error))?,
            _ => {}
        }
    }
    let text = crate::tape::layout::read_text(&taken).unwrap_or_default();
    Ok(text.lines().map(str::to_owned).collect())
}

/// Forgets the names that were taken: the index has nothing of these sessions any more.
#[cfg(feature = "sqlite")]
pub(in crate::tape) fn done(layout: &Layout) -> Result<(), TapeError> {
    crate::tape::layout::remove_file(&taken(layout))
}
