#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Barrier;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{
    tool::ToolResult,
    tools::lab::{Lab, as_nobody, lines, png},
};

fn lab(content: impl AsRef<[u8]>) -> Lab {
    let lab = Lab::new();
    lab.put("f.txt", content);
    lab
}

fn replace(lab: &Lab, old: &str, new: &str) -> ToolResult {
    lab.call("edit", json!({"path": "f.txt", "old_string": old, "new_string": new}))
}

fn edited(content: &str, old: &str, new: &str) -> String {
    let lab = lab(content);
    let result = replace(&lab, old, new);
    assert!(!result.is_error(), "{}", result.content);
    lab.content("f.txt")
}

/// The error of an edit, which must have changed nothing.
fn refused(content: impl AsRef<[u8]>, old: &str, new: &str) -> String {
    let lab = lab(&content);
    let result = replace(&lab, old, new);
    assert!(result.is_error(), "{}", result.content);
    assert_eq!(lab.bytes("f.txt"), content.as_ref());
    result.content
}

fn all(lab: &Lab, old: &str, new: &str) -> Value {
    let result = lab.call("edit", json!({"path": "f.txt", "old_string": old, "new_string": new, "replace_all": true}));
    assert!(!result.is_error(), "{}", result.content);
    result.details
}

/// F-15, BDD-EDIT-001
#[test]
fn bdd_edit_001_one_text_for_another() {
    assert_eq!(edited("Hello, world!", "world", "testing"), "Hello, testing!");
}

#[test]
fn bdd_edit_002_007_no_match() {
    for old in ["absent", "nothing of the kind"] {
        assert!(refused("Hello, world!", old, "x").starts_with("Could not find the exact text"));
    }
}

/// F-16: without a hit, the error names the lines that are like it.
#[test]
fn no_match_names_similar_lines() {
    let error = refused("alpha\nlet value = compute(1, 2);\n", "let value = compute(1,  3);", "x");
    assert!(error.ends_with("Similar lines in the file:\n  line 2: let value = compute(1, 2);"), "{error}");
}

/// F-15, F-16, BDD-EDIT-003: where there are several, the error names the line of each.
#[test]
fn bdd_edit_003_several_matches() {
    assert!(
        refused("foo bar foo baz foo", "foo", "x").starts_with("Found 3 occurrences of old_string (lines 1, 1, 1)")
    );
    let error = refused("foo\n\nbar\nfoo\n", "foo", "x");
    assert!(error.contains("Found 2 occurrences of old_string (lines 1, 4). It must be unique"), "{error}");
}

#[test]
fn bdd_edit_004_replace_all() {
    let lab = lab("foo bar foo baz foo");
    all(&lab, "foo", "qux");
    assert_eq!(lab.content("f.txt"), "qux bar qux baz qux");
}

#[test]
fn bdd_edit_005_trailing_blanks() {
    assert_eq!(edited("line one   \nline two\n", "line one\nline two", "replaced"), "replaced\n");
}

#[test]
fn bdd_edit_006_an_exact_match_is_used() {
    let lab = lab("hello world ‘x’  \n");
    let result = replace(&lab, "hello", "goodbye");
    assert_eq!((lab.content("f.txt").as_str(), &result.details["fuzzy"]), ("goodbye world ‘x’  \n", &json!(false)));
}

#[test]
fn bdd_edit_008_an_empty_old_text() {
    assert!(refused("x", "", "y").contains("cannot be empty"));
    assert!(refused("", "", "y").contains("cannot be empty"));
    assert!(refused("", "x", "y").contains("Could not find"));
}

/// F-18, BDD-EDIT-009: old and new text that are equal are an error.
#[test]
fn bdd_edit_009_nothing_to_change() {
    let error = refused("same", "same", "same");
    assert!(error.contains("identical") && error.contains("No changes made"));
    // J.1 4.3: nothing changes although the texts differ.
    let error = refused("‘a’", "'a'", "‘a’");
    assert!(error.contains("identical") && error.contains("No changes made"));
}

#[test]
fn bdd_edit_010_a_directory() {
    let lab = Lab::new();
    lab.put("d/x", "");
    assert!(lab.error("edit", json!({"path": "d", "old_string": "a", "new_string": "b"})).contains("directory"));
}

#[test]
fn bdd_edit_011_a_missing_file() {
    let error = Lab::new().error("edit", json!({"path": "x", "old_string": "a", "new_string": "b"}));
    assert_eq!(error, "File not found: x: No such file or directory (ENOENT)");
}

/// BDD-EDIT-012: as a user whom modes stop.
#[test]
fn bdd_edit_012_a_read_only_file() {
    let lab = lab("x");
    std::fs::set_permissions(lab.path("f.txt"), std::os::unix::fs::PermissionsExt::from_mode(0o444)).unwrap();
    let error = as_nobody(&lab, || replace(&lab, "x", "y").content);
    assert!(error.contains("Read-only"), "{error}");
    assert_eq!(lab.content("f.txt"), "x");
}

#[test]
fn bdd_edit_013_several_lines() {
    let after = edited("line1\nline2\nline3\nline4", "line2\nline3", "replaced2\nreplaced3");
    assert_eq!(after, "line1\nreplaced2\nreplaced3\nline4");
}

/// F-18, BDD-EDIT-014, BDD-EDIT-015: the result says how many places were changed.
#[test]
fn bdd_edit_014_015_replacements_are_counted() {
    assert_eq!(replace(&lab("a b"), "b", "c").details["replacements"], 1);
    assert_eq!(all(&lab("aa bb aa cc aa"), "aa", "x")["replacements"], 3);
}

#[test]
fn bdd_edit_016_cjk() {
    assert_eq!(edited("你好世界", "世界", "Elixir"), "你好Elixir");
}

/// F-17, F-19, F-26, BDD-EDIT-017, BDD-EDIT-018, FILE-ERR-002: a file with CRLF has CRLF afterwards, also in what is new.
#[test]
fn bdd_edit_017_018_file_err_002_crlf_is_kept() {
    assert_eq!(edited("line1\r\nline2\r\nline3\r\n", "line2", "replaced"), "line1\r\nreplaced\r\nline3\r\n");
    assert_eq!(edited("a\r\nb\r\n", "a\nb", "x\ny\nz"), "x\r\ny\r\nz\r\n");
    assert_eq!(edited("hello\r\nthere\r\n", "hello", "hi"), "hi\r\nthere\r\n");
}

/// F-17, BDD-EDIT-019: a file with LF has LF afterwards, for any line ends of the new text.
#[test]
fn bdd_edit_019_lf_never_gains_cr() {
    assert_eq!(edited("a\nb\n", "a", "x\r\ny"), "x\ny\nb\n");
}

#[test]
fn bdd_edit_020_lf_text_in_a_crlf_file() {
    assert_eq!(edited("hello\r\nworld\r\n", "hello\nworld", "goodbye\nplanet"), "goodbye\r\nplanet\r\n");
}

/// F-26, BDD-EDIT-020
#[test]
fn bdd_edit_020_seed_copies_in_both_endings_are_two() {
    assert!(refused("hello\r\nworld\r\nhello\nworld\n", "hello\nworld", "x").contains("Found 2 occurrences"));
}

/// F-18, F-19, F-26, BDD-EDIT-021, FILE-ERR-003: the mark stays the first three bytes.
#[test]
fn bdd_edit_021_file_err_003_bom_and_crlf() {
    assert_eq!(edited("\u{feff}line1\r\nline2\r\n", "line1", "first"), "\u{feff}first\r\nline2\r\n");
    assert_eq!(edited("\u{feff}hello", "hello", "hi"), "\u{feff}hi");
}

/// F-19, F-20, F-26, BDD-EDIT-022
#[test]
fn bdd_edit_022_the_first_changed_line_is_the_real_one() {
    for (count, line) in [(100, 50), (500, 338)] {
        let lab = lab(lines(count, 20));
        let result = replace(&lab, &format!("line {line}x"), &format!("line {line}y"));
        assert_eq!(result.details["diff"]["first_changed_line"], line);
        let diff = result.details["diff"]["content"].as_str().unwrap().to_owned();
        assert!(diff.starts_with(&format!("@@ -{0},9 +{0},9 @@\n line {0}", line - 4)), "{diff}");
    }
}

#[test]
fn bdd_edit_023_a_large_file() {
    let lab = lab(lines(50_000, 80));
    assert!(!replace(&lab, "line 25000x", "line 25000y").is_error());
    let most = lab_of(10 * 1024 * 1024);
    assert!(!replace(&most, "aab", "x").is_error());
    let more = lab_of(10 * 1024 * 1024 + 1);
    assert_eq!(replace(&more, "aab", "x").content, "File too large (10.1 MB). Maximum is 10 MB.");
}

fn lab_of(bytes: usize) -> Lab {
    let mut content = vec![b'a'; bytes];
    content[bytes - 1] = b'b';
    lab(content)
}

/// BDD-EDIT-024: of fifty edits that begin at the same moment, through every spelling of one file, none is lost.
///
/// F09, nasty case 2.
#[test]
fn bdd_edit_024_concurrent_edits_all_survive() {
    const EDITS: usize = 50;
    let lab = Lab::new();
    let before: String = (0..EDITS).map(|n| format!("<{n}>\n")).collect();
    lab.put("d/f.txt", &before);
    lab.link("f.txt", "d/link.txt");
    for names in [&["d/f.txt", "d/../d/f.txt", "d/link.txt"][..], &["d/f.txt", "d/hard.txt", "d/link.txt"]] {
        lab.put("d/f.txt", &before);
        if names.contains(&"d/hard.txt") {
            std::fs::hard_link(lab.path("d/f.txt"), lab.path("d/hard.txt")).unwrap();
        }
        let start = Barrier::new(EDITS);
        std::thread::scope(|scope| {
            for n in 0..EDITS {
                let (lab, start, name) = (&lab, &start, names[n % names.len()]);
                scope.spawn(move || {
                    start.wait();
                    lab.ok(
                        "edit",
                        json!({"path": name, "old_string": format!("<{n}>"), "new_string": format!("done {n}")}),
                    )
                });
            }
        });
        let after: String = (0..EDITS).map(|n| format!("done {n}\n")).collect();
        assert_eq!(lab.content("d/f.txt"), after);
        if names.contains(&"d/hard.txt") {
            assert_eq!(lab.content("d/hard.txt"), after, "both names are still one file");
        }
    }
}

#[test]
fn bdd_edit_025_a_binary_file() {
    let error = refused(png(), "PNG", "GIF");
    assert!(error.contains("Binary file"), "{error}");
    assert!(refused(b"a\0b", "a", "x").contains("Binary file"));
    assert!(refused(b"\xff\xfe\0\0a\0\0\0", "a", "x").contains("Binary file"), "UTF-32");
    assert!(refused(b"\xff\xfea\0b", "a", "x").contains("UTF-16LE and damaged"));
}

/// F-18, BDD-EDIT-026: a path that leads out of the workspace is refused, and what lies there stays as it is.
#[test]
fn bdd_edit_026_traversal() {
    let error = Lab::new().error("edit", json!({"path": "../../etc/passwd", "old_string": "a", "new_string": "b"}));
    assert!(error.contains("traversal"), "{error}");
    let lab = Lab::new();
    let outside = lab.outside().join("outside.txt");
    std::fs::write(&outside, "a").unwrap();
    lab.link("../outside.txt", "link");
    for path in ["../outside.txt", "link"] {
        let error = lab.error("edit", json!({"path": path, "old_string": "a", "new_string": "b"}));
        assert!(error.contains("traversal"), "{path}: {error}");
    }
    assert_eq!(std::fs::read_to_string(outside).unwrap(), "a");
}

/// F-18: both texts are plain: what means something in a pattern or in a replacement means nothing here.
#[test]
fn f_18_both_texts_are_literal() {
    assert_eq!(edited("a.b(c)", ".b(c", "$& $1 \\0"), "a$& $1 \\0)");
    assert_eq!(edited("x [a-z]+ \\d* ^$", "[a-z]+ \\d* ^$", "*"), "x *");
    assert!(refused("abc", "a.c", "x").contains("Could not find"));
}

/// EDITDIFF-003: a diff whose hunks change, add and remove lines, from the first line on, is applied whole; a second time it is
/// refused, and changes nothing.
///
/// EDITDIFF-001, EDITDIFF-002: a hunk of one change, also behind lines that look like a diff's own.
#[test]
fn editdiff_001_002_003_a_diff_is_applied() {
    for (before, diff, after) in [
        ("aaa\nbbb\nccc\nddd\n", "@@ -1,4 +1,4 @@\n aaa\n-bbb\n+BBB\n ccc\n ddd\n", "aaa\nBBB\nccc\nddd\n"),
        (
            "header\n---\nalpha\nbeta\ngamma\n",
            "@@ -3,3 +3,3 @@\n alpha\n-beta\n+BETA\n gamma\n",
            "header\n---\nalpha\nBETA\ngamma\n",
        ),
        ("foo\nbar\nbaz\n", "@@ -1,3 +1,3 @@\n foo\n-bar\n+BAR\n baz\n", "foo\nBAR\nbaz\n"),
    ] {
        let lab = lab(before);
        let result = lab.call("edit", json!({"path": "f.txt", "mode": "diff", "diff": diff}));
        assert_eq!(result.content, "Edited: f.txt (2 replacements, diff mode)");
        assert_eq!((&result.details["mode"], &result.details["replacements"]), (&json!("diff"), &json!(2)));
        assert_eq!(lab.content("f.txt"), after);
        let again = lab.call("edit", json!({"path": "f.txt", "diff": diff}));
        assert!(again.is_error() && lab.content("f.txt") == after, "{}", again.content);
    }
    let mixed = self::lab("one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n");
    let diff = "@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n@@ -5,4 +5,4 @@\n five\n+and a half\n six\n-seven\n eight\n";
    let after = "one\nTWO\nthree\nfour\nfive\nand a half\nsix\neight\n";
    assert_eq!(mixed.call("edit", json!({"path": "f.txt", "mode": "diff", "diff": diff})).details["replacements"], 4);
    assert_eq!(mixed.content("f.txt"), after);
    assert!(mixed.call("edit", json!({"path": "f.txt", "mode": "diff", "diff": diff})).is_error());
    assert_eq!(mixed.content("f.txt"), after);
    let lab = lab("a\n");
    let error = lab.error("edit", json!({"path": "f.txt", "mode": "diff", "diff": "@@ -1 +1 @@\n-a\n+a\n"}));
    assert!(error.starts_with("No changes applied from diff"));
    assert!(lab.error("edit", json!({"path": "f.txt", "mode": "diff"})).contains("`diff`"));
    assert!(lab.error("edit", json!({"path": "f.txt", "mode": "sed"})).contains("`mode`"));
    assert!(lab.error("edit", json!({"path": "f.txt", "old_string": "a"})).contains("`new_string`"));
}

/// F-20, TOOLRES-101
#[test]
fn bdd_toolres_101_both_channels() {
    let lab = lab("a\nb\n");
    let result = lab.call("edit_file", json!({"file_path": "f.txt", "oldText": "b", "newText": "c"}));
    assert_eq!(result.content, "Edited: f.txt (1 replacement)");
    let diff = json!({"content": "@@ -1,2 +1,2 @@\n a\n-b\n+c\n", "first_changed_line": 2});
    let details = json!({"path": "f.txt", "replacements": 1, "mode": "replace", "fuzzy": false, "diff": diff});
    assert_eq!(result.details, details);
}

/// Section 5.4: a replacement that matches again does not repeat for ever.
#[test]
fn replace_all_ends_when_the_new_text_matches_too() {
    let lab = lab("‘a’ ‘a’\n");
    assert_eq!(all(&lab, "'a'", "“'a'”")["replacements"], 2);
    assert_eq!(lab.content("f.txt"), "“'a'” “'a'”\n");
}

/// F07, F-26, section 5.1 and 5.2: what is not in the region stays as it is, byte by byte.
#[test]
fn a_fuzzy_edit_leaves_other_lines_alone() {
    let before = b"\xe2\x80\x98q\xe2\x80\x99  \r\n\xff\xfe\n\xef\xbc\xa1 tail\t\nsay \xe2\x80\x9chi\xe2\x80\x9d";
    let lab = lab(before);
    let result = replace(&lab, "say \"hi\"", "bye");
    assert!(result.content.contains("folding"), "{}", result.content);
    let after = [&before[..before.len() - 12], b"bye"].concat();
    assert_eq!(lab.bytes("f.txt"), after);
}

/// FT-16, nasty case 6: a file in another encoding stays in it, mark and line ends included, and only the region changes.
#[test]
fn nasty_06_another_encoding_is_kept() {
    let text = "\u{feff}größe\r\nzwei 😀\r\n";
    for unit in [u16::to_le_bytes as fn(u16) -> [u8; 2], u16::to_be_bytes] {
        let encoded = |text: &str| text.encode_utf16().flat_map(unit).collect::<Vec<u8>>();
        let lab = lab(encoded(text));
        let result = replace(&lab, "größe\nzwei", "GRÖSSE\nZWEI");
        assert!(!result.is_error(), "{}", result.content);
        assert!(result.details["encoding"].as_str().unwrap().starts_with("UTF-16"));
        assert_eq!(lab.bytes("f.txt"), encoded("\u{feff}GRÖSSE\r\nZWEI 😀\r\n"));
    }
    let lab = lab(b"Gr\xf6\xdfe: 5\x80\n\xe9t\xe9\n");
    assert!(!replace(&lab, "Größe: 5€", "Weite: 7€").is_error());
    assert_eq!(lab.bytes("f.txt"), b"Weite: 7\x80\n\xe9t\xe9\n");
    let error = replace(&lab, "été", "夏");
    assert!(error.content.contains("windows-1252, which has no '夏'"), "{}", error.content);
    assert_eq!(lab.bytes("f.txt"), b"Weite: 7\x80\n\xe9t\xe9\n");
}

/// Pieces of which any file can be made: every line end, marks, several scripts, and bytes that are not text.
fn pieces() -> impl Strategy<Value = Vec<&'static [u8]>> {
    let text = "a|b|ab| |\t|\n|\n|\r\n|\r\n|\r|é|e\u{301}|你好|‘|\u{2028}|\u{feff}|😀";
    let pieces = text.split('|').map(str::as_bytes).chain([&b"\xff"[..], b"\xe2\x80", b"\xc0\xaf"]);
    proptest::collection::vec(proptest::sample::select(pieces.collect::<Vec<_>>()), 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// F-15, F-17, F07: any file, any region that occurs once: its bytes are exchanged, and no other byte is.
    #[test]
    fn an_edit_exchanges_its_region_and_nothing_else(
        pieces in pieces(),
        bom: bool,
        from in 0usize..40,
        length in 1usize..12,
        new in "[xyz ]{0,5}",
    ) {
        let from = from % pieces.len();
        let to = (from + length).min(pieces.len());
        let mark: &[u8] = if bom { b"\xef\xbb\xbf" } else { b"" };
        let before = [mark, &pieces[..from].concat()].concat();
        let (region, after) = (pieces[from..to].concat(), pieces[to..].concat());
        let file = [before.clone(), region.clone(), after.clone()].concat();
        // A text is what a model can write; half of a CRLF is not, nor is a mark at its beginning.
        let Ok(old) = String::from_utf8(region.clone()) else { return Ok(()) };
        let splits = |left: &[u8], right: &[u8]| left.ends_with(b"\r") && right.starts_with(b"\n");
        prop_assume!(!splits(&before, &region) && !splits(&region, &after) && !old.starts_with('\u{feff}'));
        let folded = String::from_utf8_lossy(&file).replace("\r\n", "\n");
        let old = old.replace("\r\n", "\n");
        // A model that writes either cannot distinguish CR CR LF from CR LF.
        prop_assume!(!old.contains("\r\n"));
        // Also those that overlap: of two places that could be meant, the model does not say which.
        let places = folded.char_indices().filter(|(at, _)| folded[*at..].starts_with(&old)).count();
        prop_assume!(places == 1 && old != new);
        let lab = lab(&file);
        let result = replace(&lab, &old, &new);
        prop_assert!(!result.is_error(), "{}", result.content);
        let expected = [before, new.into_bytes(), after].concat();
        prop_assert_eq!(lab.bytes("f.txt"), expected);
    }
}
