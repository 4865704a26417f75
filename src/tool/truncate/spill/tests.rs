#![allow(clippy::unwrap_used, clippy::panic)]

use std::{collections::BTreeSet, time::Duration};

use super::*;

/// An output of one piece.
fn spill_text(folder: &Path, id: &str, text: &str) -> io::Result<SpillFile> {
    let mut spill = Spill::create(folder, id, SPILL_BYTES_MAX)?;
    spill.write(text.as_bytes())?;
    Ok(spill.finish())
}

/// C-01, G-02, nasty case 15: private, exclusive, unguessable, and no planted link is followed.
#[cfg(unix)]
#[test]
fn a_spill_file_is_private_and_never_an_old_one() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("spill");
    let first = spill_text(&inside, "call:id/with-special_chars.123", "one").unwrap();
    let second = spill_text(&inside, "call:id/with-special_chars.123", "two").unwrap();
    assert_ne!(first.path, second.path);
    assert_eq!(std::fs::read(&first.path).unwrap(), b"one");
    assert_eq!(std::fs::metadata(&first.path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::metadata(&inside).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(first.path.parent().unwrap(), inside, "the id cannot leave the folder");
}

#[test]
fn a_spill_file_stops_at_its_cap_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let mut spill = Spill::create(folder.path(), "call", 10).unwrap();
    for _ in 0..3 {
        spill.write(b"abcdef").unwrap();
    }
    let file = spill.finish();
    assert_eq!((file.bytes, file.dropped), (10, 8));
    assert_eq!(std::fs::read(&file.path).unwrap(), b"abcdefabcd");
    assert!(file.notice().contains("8 bytes"), "{}", file.notice());
}

/// A folder with files of one byte each, written one after another.
fn folder_of(files: usize) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for nth in 0..files {
        spill_text(folder.path(), &format!("call-{nth}"), "x").unwrap();
    }
    folder
}

const SECOND: Duration = Duration::from_secs(1);

/// C-01: what is older than 7 days goes.
#[test]
fn old_spill_files_go_and_new_ones_stay() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(list_spills(&folder.path().join("none")).unwrap(), []);
    spill_text(folder.path(), "a", "12345").unwrap();
    std::fs::write(folder.path().join("note.txt"), "not ours").unwrap();
    let spills = list_spills(folder.path()).unwrap();
    assert_eq!(spills.len(), 1);
    let written = spills[0].modified;
    assert_eq!(SPILL_KEEP, 7 * 24 * 3_600 * SECOND);
    assert!(expired(&spills, written + SPILL_KEEP, RETENTION).is_empty());
    assert_eq!(expired(&spills, written + SPILL_KEEP + SECOND, RETENTION).len(), 1);
    let small = Retention { bytes_max: 5, ..RETENTION };
    assert!(expired(&spills, written - SECOND, small).is_empty(), "the future is not old");
    assert_eq!(tidy_spills(folder.path(), written, Retention { bytes_max: 4, ..RETENTION }).unwrap(), 1);
    assert_eq!(tidy_spills(folder.path(), written, Retention { bytes_max: 4, ..RETENTION }).unwrap(), 0);
    assert!(folder.path().join("note.txt").exists());
}

/// Nasty case 15: by count, the oldest first.
#[test]
fn too_many_spill_files_lose_the_oldest() {
    let folder = folder_of(5);
    let before = list_spills(folder.path()).unwrap();
    let few = Retention { files_max: 3, ..RETENTION };
    assert_eq!(tidy_spills(folder.path(), before[4].modified, few).unwrap(), 2);
    assert_eq!(list_spills(folder.path()).unwrap(), before[2..]);
}

/// Nasty case 15: ten thousand outputs leave no more files than are kept, automatically. Scaled to one round more than are kept.
#[test]
fn making_spill_files_tidies_up() {
    let files = RETENTION.files_max + 20;
    let folder = folder_of(files);
    // The one that tidied up last was made after it did so.
    assert_eq!(list_spills(folder.path()).unwrap().len(), RETENTION.files_max + 1);
}

/// Nasty case 15: a call that was cut off leaves no unknown file.
#[test]
fn a_spill_file_that_nobody_was_told_of_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let mut spill = Spill::create(folder.path(), "call", 10).unwrap();
    spill.write(b"half").unwrap();
    assert_eq!(list_spills(folder.path()).unwrap().len(), 1);
    drop(spill);
    assert_eq!(list_spills(folder.path()).unwrap(), []);
}

/// Nasty case 15: two runtimes with the same call ids, in one folder, at the same time; and a planted link.
#[test]
fn names_never_meet_and_no_link_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let outside = folder.path().join("outside");
    std::fs::write(&outside, "untouched").unwrap();
    let spills = folder.path().join("spill");
    std::fs::create_dir(&spills).unwrap();
    std::os::unix::fs::symlink(&outside, spills.join("call_1.log")).unwrap();
    let made: Vec<_> = std::thread::scope(|scope| {
        let make = || (0..50).map(|_| spill_text(&spills, "call_1", "mine").unwrap().path).collect::<Vec<_>>();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(make)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(made.iter().collect::<BTreeSet<_>>().len(), 200);
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "untouched");
    assert!(spills.join("call_1.log").is_symlink(), "a link is not ours to remove");
}

/// Finding: a call that outlived the deletion of its session made the session's folder again, and so a session without entries.
#[test]
fn a_spill_file_makes_no_folder_of_a_session_that_is_gone() {
    let store = tempfile::tempdir().unwrap();
    assert!(spill_text(&store.path().join("gone/spill"), "call_1", "x").is_err());
    assert_eq!(std::fs::read_dir(store.path()).unwrap().count(), 0);
}
