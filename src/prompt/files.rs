//! The list of the workspace's files for a new session: a provider of the environment that a host may add.
//!
//! The walk is that of the tools (`tools/walk.rs`): it follows no link, and obeys `.gitignore`. It runs on a blocking thread, and
//! ends when its future is dropped. A change must keep the list bounded, because every request has it, and each name on its own
//! line, because strangers may choose names.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{EnvironmentProvider, Place, Section, text::on_one_line};
use crate::{
    kernel::Layer,
    model::BoxFuture,
    tools::{Listing, listing},
};

/// Tells a session which files and folders there are: by default 200 of them, those near the top of the workspace, without those
/// that git ignores.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct FileTree {
    /// The most entries in the list.
    pub entries_max: usize,
}

impl Default for FileTree {
    fn default() -> FileTree {
        FileTree { entries_max: 200 }
    }
}

impl EnvironmentProvider for FileTree {
    fn name(&self) -> &str {
        "files"
    }

    fn sections<'a>(&'a self, place: &'a Place) -> BoxFuture<'a, Result<Vec<Section>, String>> {
        let (workspace, most) = (place.workspace.clone(), self.entries_max);
        Box::pin(async move {
            // The thread ends with the future: no walk of a huge folder is left behind.
            let gone = StopOnDrop::default();
            let stop = gone.0.clone();
            let walked = move || tree(&workspace, most, &|| stop.load(Ordering::Relaxed));
            tokio::task::spawn_blocking(walked).await.map_err(|error| error.to_string())?
        })
    }
}

/// Tells a walk to stop when the future that waits for it is dropped.
#[derive(Default)]
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn tree(workspace: &Path, most: usize, stop: &dyn Fn() -> bool) -> Result<Vec<Section>, String> {
    let Listing { entries, more } = listing(workspace, most, stop).map_err(|error| error.to_string())?;
    if entries.is_empty() {
        return Ok(Vec::new());
    }
    let mut text = "<files>\n".to_owned();
    for name in &entries {
        text.extend([on_one_line(name).as_str(), "\n"]);
    }
    if more {
        text.push_str("[there are more: these are the ones near the top]\n");
    }
    text.push_str("</files>");
    let note = more.then(|| format!("cut at {most} entries"));
    Ok(vec![Section { note, ..Section::new(Layer::Environment, "files", text) }])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn told(folder: &Path, most: usize) -> String {
        tree(folder, most, &|| false).unwrap().pop().map(|section| section.text).unwrap_or_default()
    }

    /// P-03: the files are sorted, without those that git ignores; if there are too many, those near the top are listed and the
    /// rest is mentioned.
    #[test]
    fn the_files_near_the_top_are_told_and_the_cut_is_marked() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(told(folder.path(), 200), "");
        for name in ["a/deep/er/x.rs", "a/b.rs", "z.rs", "junk/o.o", "line\nbreak"] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        std::fs::write(folder.path().join(".gitignore"), "junk/\n").unwrap();
        let whole =
            "<files>\n.gitignore\na/\na/b.rs\na/deep/\na/deep/er/\na/deep/er/x.rs\nline\u{fffd}break\nz.rs\n</files>";
        assert_eq!(told(folder.path(), 200), whole);
        let top = "<files>\n.gitignore\na/\nline\u{fffd}break\nz.rs\n[there are more: these are the ones near the top]\n</files>";
        assert_eq!(told(folder.path(), 4), top);
    }
}
