#![allow(clippy::unwrap_used, clippy::panic)]

use std::os::unix::fs::PermissionsExt as _;

use super::*;
use crate::{
    tool::{FileChange, FileState},
    words::ids::Seq,
};

fn limits(file_bytes_max: u64, session_bytes_max: u64) -> Vaults {
    Vaults::new(KeepLimits { file_bytes_max, session_bytes_max })
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Z-03: a content is kept once, private, under its hash, and comes back as it was.
#[test]
fn a_content_is_kept_once_and_private() {
    let store = tempfile::tempdir().unwrap();
    let folder = store.path().join("s/files");
    std::fs::create_dir(store.path().join("s")).unwrap();
    let vault = Vaults::default().at(Some(&folder));
    let contents: [&[u8]; 3] = [b"", b"one\r\n", &[0xff, 0, 0xfe]];
    for content in contents {
        let image = vault.keep(content, 0o640);
        assert_eq!((image.mode, image.bytes, image.not_kept), (0o640, content.len() as u64, None));
        let hash = image.hash.unwrap();
        assert_eq!(hash, blake3::hash(content).to_hex().as_str());
        assert_eq!(vault.read(&hash).unwrap(), content);
        assert_eq!(vault.keep(content, 0o600).hash.as_deref(), Some(hash.as_str()));
        let mode = std::fs::metadata(folder.join(&hash)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    assert_eq!(names(&folder).len(), 3);
    assert_eq!(std::fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
}

/// What is beyond a limit is said, also after the folder is opened again; existing content costs nothing.
#[test]
fn what_could_not_be_kept_is_said() {
    let store = tempfile::tempdir().unwrap();
    let vault = limits(4, 10).at(Some(store.path()));
    let why = |content: &[u8]| vault.keep(content, 0o600).not_kept;
    assert_eq!(why(b"1234"), None);
    assert_eq!(why(b"12345").unwrap(), "it is larger than 4B");
    assert_eq!(why(b"5678"), None);
    assert_eq!(why(b"abcd").unwrap(), "the session keeps as much as it may, 10B");
    assert_eq!((why(b"1234"), why(b"ab")), (None, None));
    std::fs::write(store.path().join(".new-left"), "of a crash").unwrap();
    let anew = limits(4, 10).at(Some(store.path()));
    assert!(anew.keep(b"x", 0o600).not_kept.unwrap().contains("as much as it may"));
    assert!(!names(store.path()).contains(&".new-left".to_owned()));
    assert_eq!(
        limits(4, 0).at(Some(&store.path().join("none"))).keep(b"", 0o600).not_kept,
        None,
        "nothing takes nothing"
    );
}

/// A folder that takes no file does not cause a failure.
#[test]
fn a_folder_that_cannot_be_made_is_said() {
    let store = tempfile::tempdir().unwrap();
    std::fs::write(store.path().join("files"), "in the way").unwrap();
    let vault = Vaults::default().at(Some(&store.path().join("files")));
    let image = vault.keep(b"x", 0o600);
    assert!(image.not_kept.unwrap().starts_with("it could not be kept: "));
    assert!(vault.read(&image.hash.unwrap()).is_err());
}

/// A content is what its name says, or it is not given: also where a tape names a path.
#[test]
fn a_damaged_content_and_a_path_are_refused() {
    let store = tempfile::tempdir().unwrap();
    let vault = Vaults::default().at(Some(&store.path().join("files")));
    let hash = vault.keep(b"right", 0o600).hash.unwrap();
    std::fs::write(store.path().join("files").join(&hash), b"wrong").unwrap();
    assert!(matches!(vault.read(&hash), Err(Unreadable::Damaged)));
    // Keeping the content once more mends it, and takes no room beside what is there.
    let full = limits(5, 5).at(Some(&store.path().join("files")));
    assert_eq!(full.keep(b"right", 0o600).not_kept, None);
    assert_eq!(vault.read(&hash).unwrap(), b"right");
    std::fs::write(store.path().join("secret"), "x").unwrap();
    assert!(matches!(vault.read("../secret"), Err(Unreadable::Missing)));
    assert!(!vault.has("../secret") && vault.has(&hash));
}

/// Notes survive a line that was cut off, and one that was taken back is gone.
#[test]
fn notes_are_read_past_a_torn_line() {
    let store = tempfile::tempdir().unwrap();
    let vault = Vaults::default().at(Some(store.path()));
    let note = |seq, path: &str| Note {
        seq: Seq(seq),
        restore: None,
        change: FileChange { path: path.into(), before: FileState::Absent, after: FileState::Absent },
        not_made: false,
    };
    assert_eq!(vault.notes().unwrap(), []);
    vault.note(&note(1, "a")).unwrap();
    let mut file = OpenOptions::new().append(true).open(notes::file_of(store.path())).unwrap();
    file.write_all(br#"{"seq":2,"path":"to"#).unwrap();
    vault.note(&note(3, "b")).unwrap();
    vault.note(&note(3, "c")).unwrap();
    vault.note(&Note { not_made: true, ..note(3, "b") }).unwrap();
    assert_eq!(vault.notes().unwrap(), [note(1, "a"), note(3, "c")]);
    let mode = std::fs::metadata(notes::file_of(store.path())).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// A new session under the id of a deleted one has the whole room, for any first change.
#[test]
fn what_a_deleted_session_kept_does_not_count_for_the_next() {
    let store = tempfile::tempdir().unwrap();
    let folder = store.path().join("files");
    let vault = limits(4, 4).at(Some(&folder));
    let change = FileChange { path: "f".into(), before: FileState::Absent, after: FileState::Absent };
    let note = Note { seq: Seq(1), restore: None, change, not_made: false };
    for begins_with_a_note in [false, true] {
        assert_eq!(vault.keep(b"full", 0o600).not_kept, None);
        assert!(vault.keep(b"more", 0o600).not_kept.is_some());
        std::fs::remove_dir_all(&folder).unwrap();
        if begins_with_a_note {
            vault.note(&note).unwrap();
        }
        assert_eq!(vault.keep(b"more", 0o600).not_kept, None);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

/// Finding: a call that outlived the deletion of its session made the session's folder again.
#[test]
fn what_is_kept_makes_no_folder_of_a_session_that_is_gone() {
    let store = tempfile::tempdir().unwrap();
    let folder = store.path().join("gone/files");
    let vault = Vaults::default().at(Some(&folder));
    let image = vault.keep(b"content", 0o600);
    assert!(image.not_kept.is_some_and(|why| why.starts_with("it could not be kept: ")));
    let change = FileChange { path: "f".into(), before: FileState::Absent, after: FileState::Absent };
    assert!(vault.note(&Note { seq: Seq(1), restore: None, change, not_made: false }).is_err());
    assert!(names(store.path()).is_empty());
}
