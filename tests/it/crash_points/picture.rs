//! The disk as a `kill -9` at some moment leaves it.

use std::{fs, path::Path};

use super::world::{Outside, World};

use crate::support::taped;

/// A store as a `kill -9` at that moment leaves it, and what was outside then.
pub(crate) struct Picture {
    pub(crate) place: String,
    pub(crate) folder: taped::Folder,
    pub(crate) outside: Outside,
}

/// Copies what the kernel has of the store. What others write meanwhile may be there or not, as with a real kill.
pub(crate) fn picture(place: &str, store: &Path, world: &World) -> Picture {
    let outside = {
        let now = world.look();
        Outside {
            ran: now.ran.clone(),
            ran_as: now.ran_as.clone(),
            failed: now.failed.clone(),
            acked: now.acked.clone(),
            requests: now.requests.clone(),
            ..Outside::default()
        }
    };
    let folder = taped::folder();
    copy(store, &folder.path().join("store"));
    Picture { place: place.to_owned(), folder, outside }
}

/// Copies a store.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    let Ok(entries) = fs::read_dir(from) else { return };
    for entry in entries.flatten() {
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy(&path, &target);
        } else if let Ok(mut bytes) = fs::read(&path) {
            if path.extension().is_some_and(|extension| extension == "log") {
                // The room that the commit log keeps says nothing, and is large.
                bytes.truncate(bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1));
            }
            fs::write(target, bytes).unwrap();
        }
    }
}
