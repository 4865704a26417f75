//! That the index may still have something of what was deleted: a note of its name, made before a deletion takes a session away and
//! once more behind that, and gone when the index is known to have nothing of it.
//!
//! ```text
//! deleted/index         the names of what was deleted since the newest scrub began
//! deleted/index.taken   those that a scrub is at, or was when it died
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

/// Whether a name in that folder is no session's. A session may be called `index`; what is removed of it ends with a long number.
pub(super) fn is_note(name: &str) -> bool {
    name == NOTE || name == TAKEN
}

/// Notes that the index may have something of it. Nothing where there is no index.
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
    // There is no room for it on a full disk. A search finds nothing of it all the same; its words stay until another note.
    if let Err(error) = made {
        tracing::warn!(%session, %error, "what was deleted stays in the index for now");
    }
}

/// Whether there is something to scrub.
#[cfg(feature = "sqlite")]
pub(in crate::tape) fn is_due(layout: &Layout) -> bool {
    note(layout).exists() || taken(layout).exists()
}

/// What was deleted, as far as it was noted. One scrubs at a time.
#[cfg(feature = "sqlite")]
pub(in crate::tape) fn take(layout: &Layout) -> Result<Vec<String>, TapeError> {
    let (note, taken) = (note(layout), taken(layout));
    // Whoever died at it left the one; then that is done first.
    if !taken.exists() {
        match std::fs::rename(&note, &taken) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(TapeError::io("take", &note)(error))?,
            _ => {}
        }
    }
    let text = std::fs::read_to_string(&taken).unwrap_or_default();
    Ok(text.lines().map(str::to_owned).collect())
}

/// The index has nothing of that any more.
#[cfg(feature = "sqlite")]
pub(in crate::tape) fn done(layout: &Layout) -> Result<(), TapeError> {
    crate::tape::layout::remove_file(&taken(layout))
}
