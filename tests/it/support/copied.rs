//! The disk as a `kill -9` at some moment leaves it.

use std::{fs, path::Path};

/// Copies what the kernel has of a store. What others write meanwhile may be there or not, as with a real kill.
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
