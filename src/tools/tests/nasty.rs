//! The nasty cases that concern files, paths and searches, each by its number. Sizes that would need minutes or a separate disk
//! are scaled down, and say so. Cases 7, 8 and 15 are about commands; 13 is in `stale`.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    os::unix::{fs::PermissionsExt, net::UnixListener},
    sync::Barrier,
};

use serde_json::json;

use crate::tools::lab::{Lab, as_nobody, entries, lines};

/// A write and an edit of one file at once: one after the other, in either order, and never a mixture.
#[test]
fn nasty_02_a_write_and_an_edit_at_once_are_one_after_the_other() {
    for _ in 0..50 {
        let lab = Lab::new();
        lab.put("a/f", "old text\n");
        lab.link("a", "b");
        let start = Barrier::new(2);
        let edited = std::thread::scope(|scope| {
            scope.spawn(|| {
                start.wait();
                lab.ok("write", json!({"path": "b/../b/f", "content": "the old text, written\n"}));
            });
            let edit = scope.spawn(|| {
                start.wait();
                lab.call("edit", json!({"path": "a/f", "old_string": "old text", "new_string": "new text"}))
            });
            !edit.join().unwrap().is_error()
        });
        assert!(edited, "the text stands in both");
        let after = lab.content("a/f");
        assert!(after == "the old text, written\n" || after == "the new text, written\n", "{after}");
    }
}

/// The folder takes no new file, so the old one cannot be replaced: it is written in place, and keeps what it was.
#[test]
fn nasty_03_a_file_in_a_folder_that_takes_no_file_is_written_in_place() {
    use std::os::unix::fs::MetadataExt as _;
    let lab = Lab::new();
    lab.put("d/f", "a longer old content\n");
    std::fs::hard_link(lab.path("d/f"), lab.path("d/other")).unwrap();
    lab.put("d/single", "old\n");
    let inode = |name: &str| std::fs::metadata(lab.path(name)).unwrap().ino();
    let before = inode("d/single");
    let result = as_nobody(&lab, || {
        std::fs::set_permissions(lab.path("d"), PermissionsExt::from_mode(0o555)).unwrap();
        let results = ["d/f", "d/single"].map(|path| lab.call("write", json!({"path": path, "content": "new\n"})));
        std::fs::set_permissions(lab.path("d"), PermissionsExt::from_mode(0o755)).unwrap();
        results
    });
    for result in result {
        assert_eq!(result.details["atomic"], false, "{}", result.content);
    }
    assert_eq!(
        (lab.content("d/f").as_str(), lab.content("d/other").as_str()),
        ("new\n", "new\n"),
        "both names are one"
    );
    assert_eq!((lab.content("d/single").as_str(), inode("d/single")), ("new\n", before));
    assert_eq!(entries(&lab.path("d")), ["f", "other", "single"], "nothing is left over");
}

/// Sockets, pipes and devices answer at once; a file of `/proc` that says it is empty is read.
#[test]
fn nasty_04_what_is_no_file_is_refused_and_proc_is_read() {
    let lab = Lab::new();
    lab.put("a.txt", "needle\n");
    let _socket = UnixListener::bind(lab.path("socket")).unwrap();
    for (tool, arguments) in [
        ("read", json!({"path": "socket"})),
        ("edit", json!({"path": "socket", "old_string": "a", "new_string": "b"})),
        ("write", json!({"path": "socket", "content": "x"})),
        ("grep", json!({"path": "socket", "pattern": "x"})),
    ] {
        let error = lab.error(tool, arguments);
        assert!(error.contains("not a regular file (socket)"), "{tool}: {error}");
    }
    assert_eq!(lab.ok("grep", json!({"pattern": "needle"})), "a.txt:1: needle");
    if !cfg!(target_os = "linux") {
        return;
    }
    let mut context = lab.context();
    let own = format!("/proc/{}", std::process::id());
    context.external = ["/dev/zero".into(), "/dev/tty".into(), own.clone().into()].into_iter().collect();
    for device in ["/dev/zero", "/dev/tty"] {
        let result = lab.call_in("read", json!({ "path": device }), &context);
        assert!(result.is_error() && !result.content.contains("traversal"), "{}", result.content);
    }
    let status = lab.call_in("read", json!({"path": format!("{own}/status"), "limit": 1}), &context);
    assert!(status.content.starts_with("     1\tName:"), "{}", status.content);
    for link in ["root/etc/passwd", "cwd", "exe", "fd/0"] {
        assert!(lab.call_in("read", json!({"path": format!("{own}/{link}")}), &context).is_error(), "{link}");
    }
}

/// Scaled: a line of 64 MiB instead of 2 GiB; the bench `tools` takes the whole size and measures the memory.
#[test]
fn nasty_05_one_line_of_64_mib() {
    let lab = Lab::new();
    lab.put("f", "needle ".repeat(64 * 1024 * 1024 / 7));
    let read = lab.ok("read", json!({"path": "f"}));
    assert!(read.len() < 2_200 && read.contains("chars truncated]"), "{}", read.len());
    let found = lab.ok("grep", json!({"path": "f", "pattern": "needle"}));
    assert!(found.starts_with("f:1: needle needle") && found.len() < 700, "{}", found.len());
    let error = lab.error("edit", json!({"path": "f", "old_string": "needle", "new_string": "x"}));
    assert!(error.starts_with("File too large"), "{error}");
}

/// An edit of a plain line in a file that is not UTF-8: every other byte stays. What is not certain is refused.
#[test]
fn nasty_06_a_file_in_another_encoding_is_edited_byte_by_byte_or_refused() {
    let lab = Lab::new();
    let latin: &[u8] = b"Gr\xfc\xdfe\r\nplain line\r\n\xe9t\xe9 \xc0\xaf \xed\xa0\x80\n";
    lab.put("latin", latin);
    lab.ok("edit", json!({"path": "latin", "old_string": "plain line", "new_string": "PLAIN\nLINES"}));
    let expected = [&latin[..7], b"PLAIN\r\nLINES", &latin[17..]].concat();
    assert_eq!(lab.bytes("latin"), expected);
    // A NUL after the part that is read, and overlong forms, come out as valid text.
    let late = [vec![b'\n'; 8_192], b"\0 \xc0\xaf end\n".to_vec()].concat();
    lab.put("late", &late);
    assert!(lab.ok("read", json!({"path": "late", "offset": 8_193})).starts_with("  8193\t\u{2400} "));
    lab.ok("edit", json!({"path": "late", "old_string": "end", "new_string": "END"}));
    assert!(lab.bytes("late").ends_with(b"\0 \xc0\xaf END\n"));
}

/// Every kind of line end in one file: only LF counts, and only the edited line changes.
#[test]
fn nasty_09_mixed_line_endings() {
    let lab = Lab::new();
    let before = "crlf\r\nlf\ncr\ralone\u{2028}ls\u{85}nel\u{b}vt\u{c}ff\nlast without end";
    lab.put("f", before);
    let shown = lab.ok("read", json!({"path": "f"}));
    assert_eq!(shown.matches('\t').count(), 4, "{shown:?}");
    for (old, new) in [("crlf", "C"), ("lf\ncr", "L\nR"), ("alone", "A\nB"), ("last", "L")] {
        lab.put("f", before);
        lab.ok("edit", json!({"path": "f", "old_string": old, "new_string": new}));
        // The only places that match are the ones that were named, so a plain replacement is the model.
        let expected = match old {
            "lf\ncr" => before.replacen("\nlf\ncr", "\nL\nR", 1),
            _ => before.replacen(old, new, 1),
        };
        assert_eq!(lab.content("f"), expected, "{old}");
    }
    lab.put("f", "a\r\nb\nc\r\n");
    lab.ok("edit", json!({"path": "f", "old_string": "a\nb\nc", "new_string": "1\n2\n3"}));
    assert_eq!(lab.content("f"), "1\r\n2\n3\r\n", "each line takes the ending of the one it replaces");
}

/// Fuzzy matches touch whole characters or nothing, always end, and are refused where they are not one place.
#[test]
fn nasty_10_fuzzy_matches_are_exact_about_what_they_touch() {
    let lab = Lab::new();
    let refused = |file: &str, old: &str| {
        lab.put("f", file);
        let error = lab.error("edit", json!({"path": "f", "old_string": old, "new_string": "x"}));
        assert_eq!(lab.content("f"), file);
        error
    };
    assert!(refused("of\u{fb01}ce", "off").contains("Could not find"), "half a ligature is no place");
    assert!(refused("\u{bd} cup", "1").contains("Could not find"), "nor is half of one half");
    assert!(refused("’cafe\u{301}", "'cafe").contains("Could not find"), "nor is a letter without its accent");
    assert!(refused("‘a’ and ‘a’", "'a'").contains("Found 2 occurrences"));
    assert!(refused("text", "\u{feff}").contains("cannot be empty"));
    assert!(refused("text", " \u{a0} ").contains("Could not find"), "what folds to nothing stands nowhere");
    lab.put("f", "x‘a’y‘a’\u{200d}z\n");
    let all = json!({"path": "f", "old_string": "'a'", "new_string": "'a' 'a'", "replace_all": true});
    let result = lab.call("edit", all);
    assert_eq!(lab.content("f"), "x'a' 'a'y'a' 'a'\u{200d}z\n");
    let diff = result.details["diff"]["content"].as_str().unwrap();
    assert!(diff.contains("-x‘a’y‘a’\u{200d}z"), "the diff shows what stood there: {diff}");
}

/// A name as long as names can be, alone and below others, is listed, found, searched, read and edited.
#[test]
fn nasty_11_a_name_of_255_bytes() {
    let lab = Lab::new();
    let name = "好".repeat(85);
    lab.put(&format!("{name}/{name}"), "needle\n");
    let found = lab.ok("find", json!({"pattern": "**/*"}));
    let found: std::collections::BTreeSet<_> = found.lines().collect();
    assert_eq!(found, [&*format!("{name}/"), &*format!("{name}/{name}")].into());
    let path = lab.ok("grep", json!({"pattern": "needle", "output_mode": "files_with_matches"}));
    assert_eq!(lab.ok("read", json!({ "path": path })), "     1\tneedle");
    lab.ok("edit", json!({"path": path, "old_string": "needle", "new_string": "thread"}));
    assert_eq!(lab.content(&path), "thread\n");
    let error = lab.error("write", json!({"path": "x".repeat(256), "content": ""}));
    assert!(error.contains("too long"), "{error}");
    let error = lab.error("read", json!({"path": "x/".repeat(3_000)}));
    assert!(error.contains("longer than 4096 bytes"), "{error}");
}

/// Globs and patterns that begin with a dash are not options, and many stars take no time.
#[test]
fn nasty_12_patterns_are_only_patterns() {
    let lab = Lab::new();
    lab.put("-rf", "--pre=touch x\n");
    lab.put(&"a".repeat(200), "y\n");
    assert_eq!(lab.ok("find", json!({"pattern": "-*"})), "-rf");
    assert_eq!(lab.ok("grep", json!({"pattern": "--pre=touch x", "glob": "-*"})), "-rf:1: --pre=touch x");
    let stars = format!("{}b", "*a".repeat(800));
    assert_eq!(lab.ok("find", json!({ "pattern": stars })), "No files found matching pattern");
    assert_eq!(lab.ok("grep", json!({"pattern": "y", "glob": stars})), "No matches found");
    assert!(lab.error("find", json!({"pattern": "{a,".repeat(100)})).contains("glob pattern"));
    assert!(lab.error("read", json!({"path": "a\u{0}b"})).contains("NUL"));
    assert_eq!(entries(&lab.path("")).len(), 2, "nothing was run");
}

/// Scaled: 20,000 entries instead of 1,000,000. Links in circles, folders too deep and closed ones, equal time stamps.
#[test]
fn nasty_14_trees_that_explode() {
    let lab = Lab::new();
    lab.put("a/f", "needle\n");
    lab.link("..", "a/loop");
    lab.link("a", "again");
    lab.link("a", "once more");
    assert_eq!(lab.ok("grep", json!({"pattern": "needle"})), "a/f:1: needle", "no circle is walked");

    let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    std::fs::create_dir(lab.path("many")).unwrap();
    for n in 0..20_000 {
        let file = std::fs::File::create(lab.path(&format!("many/{n:05}"))).unwrap();
        if n < 300 {
            file.set_modified(time).unwrap();
        }
    }
    let listed = lab.call("ls", json!({"path": "many"}));
    assert_eq!((&listed.details["total"], listed.content.lines().count()), (&json!(20_000), 1_001));
    let found = lab.call("find", json!({"pattern": "many/0000?"}));
    let expected: Vec<_> = (0..10).map(|n| format!("many/{n:05}")).collect();
    assert_eq!(found.content, expected.join("\n"), "equal times are in the order of their names");

    let mut deep = String::from("deep");
    for _ in 0..140 {
        deep.push_str("/d");
    }
    lab.put(&format!("{deep}/f"), "needle\n");
    let found = lab.ok("find", json!({"pattern": "f"}));
    assert!(found.contains("a/f") && found.contains("folders more than 128 deep were left out]"), "{found}");

    lab.put("closed/f", "needle\n");
    let found = as_nobody(&lab, || {
        std::fs::set_permissions(lab.path("closed"), PermissionsExt::from_mode(0o000)).unwrap();
        let found = lab.ok("grep", json!({"pattern": "needle", "path": "."}));
        std::fs::set_permissions(lab.path("closed"), PermissionsExt::from_mode(0o755)).unwrap();
        found
    });
    assert!(found.starts_with("a/f:1: needle") && found.contains("1 folders could not be read"), "{found}");
}

/// Files that come and go while a tree is walked disturb nothing.
#[test]
fn nasty_14_a_tree_that_changes_while_it_is_walked() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let lab = Lab::new();
    for n in 0..50 {
        lab.put(&format!("d{n}/f"), lines(3, 10));
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for n in 0..50 {
                    let _ = std::fs::remove_dir_all(lab.path(&format!("d{n}")));
                    lab.put(&format!("d{n}/f"), "line 1\n");
                }
            }
        });
        for _ in 0..30 {
            lab.ok("grep", json!({"pattern": "line 1"}));
            lab.ok("find", json!({"pattern": "f"}));
            lab.ok("ls", json!({}));
        }
        done.store(true, Ordering::Relaxed);
    });
}
