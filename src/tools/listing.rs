//! The entries near the top of a folder, for those who are told of a workspace before they look.

use std::path::Path;

use crate::{
    tool::workspace::{FileKind, Workspace, WorkspaceError},
    tools::walk::{Rules, Step, walk},
};

/// How many entries are looked at: of a larger folder the first ones of a walk count.
const LOOKED_AT_MAX: usize = 20_000;

/// The entries of a folder and below it.
pub(crate) struct Listing {
    /// Their paths, sorted; a folder's ends in `/`.
    pub(crate) entries: Vec<String>,
    /// Whether there are more.
    pub(crate) more: bool,
}

/// At most `most` entries of a folder: those near the top, as `find` shows them. The walk also ends once `stop` answers true.
pub(crate) fn listing(folder: &Path, most: usize, stop: &dyn Fn() -> bool) -> Result<Listing, WorkspaceError> {
    let workspace = Workspace::open(folder)?;
    let rules = Rules { obey_ignore: true, asked_for: &|_| false, left_out: &|_, _| false };
    let (mut found, mut more) = (Vec::new(), false);
    walk(&workspace, &workspace.resolve(".")?, &rules, stop, |entry| {
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
