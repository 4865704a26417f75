//! Lists the entries near the top of a folder. The environment of a new session may show them to the model (`prompt/files.rs`).
//!
//! The walk (`walk.rs`) follows no link, leaves out what git ignores, and ends after a bounded number of entries. Names are
//! returned as they are: a name may hold a line break, so a caller must escape it before it is shown. A change must keep that a
//! long list is cut by depth, so that one large folder does not crowd out its neighbours.

use std::path::Path;

use crate::{
    tool::workspace::{FileKind, Workspace, WorkspaceError},
    tools::walk::{Rules, Step, walk},
};

/// How many entries are read: of a larger folder only the first ones of the walk.
const LOOKED_AT_MAX: usize = 20_000;

/// The entries of a folder and below it.
pub(crate) struct Listing {
    /// Their paths from the folder, sorted; the path of a folder ends in `/`. Bytes that are not UTF-8 are replaced.
    pub(crate) entries: Vec<String>,
    /// Whether more were found than are listed, or the walk met [`LOOKED_AT_MAX`] entries and more. A walk that `stop` ended, and a
    /// folder that could not be read, do not count.
    pub(crate) more: bool,
}

/// At most `most` entries of a folder and below it: those near the top. The walk ends early once `stop` answers true; the entries
/// that it found are given.
pub(crate) fn listing(folder: &Path, most: usize, stop: &dyn Fn() -> bool) -> Result<Listing, WorkspaceError> {
    let workspace = Workspace::open(folder)?;
    let rules = Rules { obey_ignore: true, asked_for: &|_| false, left_out: &|_, _| false };
    let (mut found, mut more) = (Vec::new(), false);
    walk(&workspace, workspace.open_dir(&workspace.resolve(".")?)?, &rules, stop, |entry| {
        if found.len() == LOOKED_AT_MAX {
            more = true;
            return Step::Stop;
        }
        let slash = if entry.kind == FileKind::Directory { "/" } else { "" };
        found.push((entry.path.components().count(), format!("{}{slash}", entry.path.display())));
        Step::On
    })?;
    found.sort_unstable();
    more |= found.len() > most;
    found.truncate(most);
    let mut entries: Vec<String> = found.into_iter().map(|(_, path)| path).collect();
    entries.sort_unstable();
    Ok(Listing { entries, more })
}
