#![allow(clippy::unwrap_used, clippy::panic)]

use std::os::unix::fs::{MetadataExt as _, PermissionsExt};

use serde_json::json;

use crate::tools::lab::{Lab, as_nobody};

fn write(lab: &Lab, path: &str, content: &str) -> String {
    lab.ok("write", json!({"path": path, "content": content}))
}

#[test]
fn bdd_write_001_a_new_file() {
    let lab = Lab::new();
    assert_eq!(write(&lab, "new.txt", "hello world"), "Created: new.txt (11 bytes)");
    assert_eq!(lab.content("new.txt"), "hello world");
}

#[test]
fn bdd_write_002_what_was_there_is_replaced() {
    let lab = Lab::new();
    lab.put("old.txt", "a much longer text than the new one");
    assert_eq!(write(&lab, "old.txt", "new"), "Wrote: old.txt (3 bytes)");
    assert_eq!(lab.content("old.txt"), "new");
}

/// What `read` does not show of a file is not lost when the file is overwritten, and both say so.
#[test]
fn what_read_does_not_show_of_a_file_stays() {
    let lab = Lab::new();
    lab.put("crlf.txt", "\u{feff}one\r\ntwo\r\n");
    let shown = lab.ok("read", json!({"path": "crlf.txt"}));
    assert!(shown.contains("byte order mark") && shown.contains("CRLF"), "{shown}");
    assert_eq!(write(&lab, "crlf.txt", "1\n2\n"), "Wrote: crlf.txt (9 bytes; kept: BOM, CRLF)");
    assert_eq!(lab.content("crlf.txt"), "\u{feff}1\r\n2\r\n");
    let utf_16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    lab.put("wide.txt", utf_16("\u{feff}gr\u{f6}\u{df}e\n"));
    assert!(lab.ok("read", json!({"path": "wide.txt"})).contains("[The file is encoded in UTF-16LE.]"));
    assert_eq!(write(&lab, "wide.txt", "好\n"), "Wrote: wide.txt (6 bytes; kept: UTF-16LE)");
    assert_eq!(lab.bytes("wide.txt"), utf_16("\u{feff}好\n"));
    assert_eq!(lab.ok("read", json!({"path": "wide.txt"})).lines().next(), Some("     1\t好"));
    lab.put("latin.txt", b"caf\xe9\r\n");
    let wrote = write(&lab, "latin.txt", "好\n");
    assert_eq!(wrote, "Wrote: latin.txt (5 bytes; now UTF-8: the text cannot be had in windows-1252, as the file was)");
    assert_eq!(lab.content("latin.txt"), "好\r\n");
    // A new file has no form to keep.
    assert_eq!(write(&lab, "new.txt", "a\n"), "Created: new.txt (2 bytes)");
}

/// F-13, BDD-WRITE-003
#[test]
fn bdd_write_003_parents_are_made() {
    let lab = Lab::new();
    write(&lab, "nested/deep/dir/test.txt", "deep write");
    assert_eq!(lab.content("nested/deep/dir/test.txt"), "deep write");
}

/// F-14, BDD-WRITE-004
#[test]
fn bdd_write_004_nothing_is_an_empty_file() {
    let lab = Lab::new();
    write(&lab, "empty.txt", "");
    assert_eq!(lab.bytes("empty.txt"), b"");
}

#[test]
fn bdd_write_005_any_text_comes_back() {
    let lab = Lab::new();
    write(&lab, "你好.txt", "你好世界 🎉\r\n");
    assert_eq!(lab.content("你好.txt"), "你好世界 🎉\r\n");
}

#[test]
fn bdd_write_006_a_directory() {
    let lab = Lab::new();
    lab.put("d/x", "");
    assert!(lab.error("write", json!({"path": "d", "content": "x"})).contains("Is a directory"));
    let error = lab.error("write", json!({"path": "d/x/y", "content": "x"}));
    assert!(error.contains("Not a directory"), "{error}");
}

/// F-14, BDD-WRITE-007: as a user whom modes stop.
#[test]
fn bdd_write_007_no_permission() {
    let lab = Lab::new();
    lab.put("d/x", "");
    std::fs::set_permissions(lab.path("d"), PermissionsExt::from_mode(0o555)).unwrap();
    let error = as_nobody(&lab, || lab.error("write", json!({"path": "d/y", "content": "x"})));
    assert!(error.contains("denied"), "{error}");
    assert!(!lab.path("d/y").exists());
}

/// F-13, BDD-WRITE-009, 011
#[test]
fn bdd_write_009_011_the_count_is_of_bytes() {
    let lab = Lab::new();
    for (content, bytes) in [("12345", 5), ("你好", 6)] {
        let result = lab.call("write", json!({"path": "f", "content": content}));
        assert_eq!(result.details["bytes_written"], bytes);
    }
}

#[test]
fn bdd_write_010_through_a_symlink() {
    let lab = Lab::new();
    lab.put("real.txt", "before");
    lab.link("real.txt", "link.txt");
    write(&lab, "link.txt", "via symlink");
    assert_eq!(lab.content("real.txt"), "via symlink");
    assert!(std::fs::symlink_metadata(lab.path("link.txt")).unwrap().is_symlink());
}

/// TOOLRES-104
#[test]
fn bdd_toolres_104_both_channels() {
    let result = Lab::new().call("write", json!({"file_path": "f", "content": "written"}));
    assert!(result.content.contains('f'));
    assert_eq!(result.details, json!({"path": "f", "bytes_written": 7, "created": true, "atomic": true}));
}

/// F-14 (J.4 3.2)
#[test]
fn traversal_is_refused() {
    let lab = Lab::new();
    let error = lab.error("write", json!({"path": "../../etc/crontab", "content": "x"}));
    assert!(error.contains("traversal"), "{error}");
    lab.error("write", json!({"path": "../beside", "content": "x"}));
    assert!(!lab.outside().join("beside").exists());
}

/// F08, nasty case 3: the mode stays, the inode is new (so a reader saw the old or the new content), and nothing is left over.
#[test]
fn nasty_03_a_write_replaces_the_file_in_one_step() {
    let lab = Lab::new();
    lab.put("run.sh", "old");
    std::fs::set_permissions(lab.path("run.sh"), PermissionsExt::from_mode(0o751)).unwrap();
    let before = std::fs::metadata(lab.path("run.sh")).unwrap();
    write(&lab, "run.sh", "new");
    let after = std::fs::metadata(lab.path("run.sh")).unwrap();
    assert_eq!(after.mode() & 0o777, 0o751);
    assert_ne!(before.ino(), after.ino());
    assert_eq!(std::fs::read_dir(lab.path("")).unwrap().count(), 1);
}

/// pi c9a20a3a: a leading `@` is dropped, but not from the name of a folder or file that is there; Unicode spaces likewise.
#[test]
fn a_name_that_is_there_is_not_tidied() {
    let lab = Lab::new();
    lab.put("@types/a.ts", "old");
    lab.put("a\u{a0}b", "old");
    lab.ok("write", json!({"path": "@types/a.ts", "content": "new"}));
    lab.ok("write", json!({"path": "@types/b.ts", "content": "new"}));
    lab.ok("edit", json!({"path": "a\u{a0}b", "old_string": "old", "new_string": "new"}));
    lab.ok("write", json!({"path": "@notes.txt", "content": "new"}));
    lab.ok("write", json!({"path": "c\u{a0}d", "content": "new"}));
    let content = |name: &str| lab.content(name);
    assert_eq!([content("@types/a.ts"), content("@types/b.ts"), content("a\u{a0}b")], ["new", "new", "new"]);
    assert_eq!([content("notes.txt"), content("c d")], ["new", "new"]);
    assert!(!lab.path("types").exists() && !lab.path("a b").exists());
}

/// A mark in place of a secret is refused also without a hook that takes secrets out now: a session that had one may be resumed
/// without it.
#[test]
fn a_mark_is_not_written_whatever_hooks_there_are() {
    let lab = Lab::new();
    lab.put(".env", "KEY=sk-1\n");
    lab.put("about.md", "A mark is [redacted: secret].\n");
    for (tool, input) in [
        ("write", json!({"path": ".env", "content": "KEY=[redacted: OpenAI key]\n"})),
        ("edit", json!({"path": ".env", "old_string": "sk-1", "new_string": "[redacted: OpenAI key]"})),
    ] {
        let refused = lab.error(tool, input);
        assert!(refused.contains("[redacted: OpenAI key] stands for a secret"), "{refused}");
    }
    assert_eq!(lab.content(".env"), "KEY=sk-1\n");
    write(&lab, "about.md", "One mark is [redacted: secret].\n");
}
