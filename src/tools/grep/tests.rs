#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::json;

use crate::tools::lab::{
    Lab, lines, png,
    tree::{self, Tree},
};

fn lab(files: &[(&str, &str)]) -> Lab {
    let lab = Lab::new();
    for (name, content) in files {
        lab.put(name, content);
    }
    lab
}

fn grep(lab: &Lab, pattern: &str) -> String {
    lab.ok("grep", json!({ "pattern": pattern }))
}

/// F-10, BDD-GREP-001
#[test]
fn bdd_grep_001_one_file() {
    let lab = lab(&[("file.txt", "a\nb\nhello world\n")]);
    assert_eq!(lab.ok("grep", json!({"pattern": "hello", "path": "file.txt"})), "file.txt:3: hello world");
}

/// F-11, BDD-GREP-002
#[test]
fn bdd_grep_002_hits_of_one_file_stand_together() {
    let lab = lab(&[("a.txt", "test 1\nx\ntest 2\n"), ("b.txt", "x\n"), ("d/c.txt", "test 3\n")]);
    assert_eq!(grep(&lab, "test"), "a.txt:1: test 1\na.txt:3: test 2\nd/c.txt:1: test 3");
}

#[test]
fn bdd_grep_003_no_match() {
    assert_eq!(grep(&lab(&[("a", "x")]), "absent"), "No matches found");
}

#[test]
fn bdd_grep_004_a_regular_expression() {
    let lab = lab(&[("a", "hello123\nhello456\nworld\n")]);
    assert_eq!(grep(&lab, "hello[0-9]+$"), "a:1: hello123\na:2: hello456");
}

/// F-11, BDD-GREP-005
#[test]
fn bdd_grep_005_plain_text() {
    let lab = lab(&[("a", "fooXbar(\nfoo.bar(baz)\n")]);
    assert_eq!(lab.ok("grep", json!({"pattern": "foo.bar(", "fixed_strings": true})), "a:2: foo.bar(baz)");
    let error = lab.error("grep", json!({"pattern": "foo.bar("}));
    assert!(error.starts_with("Invalid regular expression: ") && error.contains("fixed_strings"), "{error}");
}

#[test]
fn bdd_grep_006_without_regard_to_case() {
    let lab = lab(&[("a", "Hello World\n")]);
    assert_eq!(lab.ok("grep", json!({"pattern": "HELLO", "ignoreCase": true})), "a:1: Hello World");
    assert_eq!(grep(&lab, "HELLO"), "No matches found");
}

/// F-10, BDD-GREP-007
#[test]
fn bdd_grep_007_lines_around_a_match() {
    let lab = lab(&[("a", "line1\nline2\ntarget\nline4\nline5\n")]);
    let with = |arguments: serde_json::Value| {
        let mut all = json!({"pattern": "target"});
        all.as_object_mut().unwrap().extend(arguments.as_object().unwrap().clone());
        lab.ok("grep", all)
    };
    assert_eq!(with(json!({"context": 1})), "a-2- line2\na:3: target\na-4- line4");
    assert_eq!(with(json!({"-B": 2})), "a-1- line1\na-2- line2\na:3: target");
    assert_eq!(with(json!({"after": "1"})), "a:3: target\na-4- line4");
    assert_eq!(with(json!({"-C": 1, "-A": 2})), "a-2- line2\na:3: target\na-4- line4\na-5- line5");
}

#[test]
fn groups_of_lines_are_told_apart_and_not_repeated() {
    let lab = lab(&[("a", "x\nhit\ny\nhit\nz\n1\n2\nhit\n"), ("b", "hit\n")]);
    let found = lab.ok("grep", json!({"pattern": "hit", "context": 1}));
    assert_eq!(found, "a-1- x\na:2: hit\na-3- y\na:4: hit\na-5- z\n--\na-7- 2\na:8: hit\n--\nb:1: hit");
}

/// F-10, BDD-GREP-008
#[test]
fn bdd_grep_008_only_the_files() {
    let lab = lab(&[("match.txt", "hit\nhit\n"), ("other.txt", "x")]);
    assert_eq!(lab.ok("grep", json!({"pattern": "hit", "output_mode": "files_with_matches"})), "match.txt");
}

/// F-10, BDD-GREP-009
#[test]
fn bdd_grep_009_a_glob() {
    let lab = lab(&[("code.ex", "hit"), ("code.js", "hit"), ("lib/more.ex", "hit")]);
    assert_eq!(lab.ok("grep", json!({"pattern": "hit", "glob": "*.ex"})), "code.ex:1: hit\nlib/more.ex:1: hit");
}

/// F-11, BDD-GREP-010
#[test]
fn bdd_grep_010_binary_files_are_skipped() {
    let lab = lab(&[("a.txt", "PNG\n")]);
    lab.put("b.png", png());
    assert_eq!(grep(&lab, "PNG"), "a.txt:1: PNG");
    assert_eq!(
        lab.ok("grep", json!({"pattern": "PNG", "path": "b.png"})),
        "No matches found\n[1 binary files skipped]"
    );
}

#[test]
fn bdd_grep_011_a_missing_path() {
    assert!(Lab::new().error("grep", json!({"pattern": "x", "path": "nope"})).contains("ENOENT"));
}

/// F-10, BDD-GREP-012
#[test]
fn bdd_grep_012_counts() {
    let lab = lab(&[("a.txt", "hit hit\nhit\n"), ("b.txt", "hit\n"), ("c.txt", "x")]);
    let result = lab.call("grep", json!({"pattern": "hit", "output_mode": "count"}));
    assert_eq!((result.content.as_str(), &result.details["total"]), ("a.txt:2\nb.txt:1", &json!(2)));
}

/// J.5 2.1, and the other side: exactly as many matches as the limit are not cut.
#[test]
fn the_limit_of_matches_is_said_only_where_there_is_more() {
    let lab = lab(&[("a", "x\nhit 1\ny\nhit 2\n"), ("b", "hit 3\n")]);
    let found = lab.ok("grep", json!({"pattern": "hit", "limit": 1, "context": 1}));
    assert_eq!(
        found,
        "a-1- x\na:2: hit 1\na-3- y\n[1 matches limit reached. Use limit=2 for more, or refine pattern, or narrow path or glob]"
    );
    let result = lab.call("grep", json!({"pattern": "hit", "limit": 3}));
    assert_eq!((&result.details["truncated"], &result.details["total"]), (&json!(false), &json!(3)));
    let many = Lab::new();
    many.put("a", lines(500, 10));
    let found = grep(&many, "line");
    assert!(
        found.ends_with("a:100: line 100xx\n[100 matches limit reached. Use limit=200 for more, or refine pattern, or narrow path or glob]")
    );
    let files = lab.ok("grep", json!({"pattern": "hit", "limit": 1, "output_mode": "files_with_matches"}));
    assert!(files.starts_with("a\n[1 files limit reached"), "{files}");
}

/// F-11 (J.5 3.1)
#[test]
fn the_output_is_at_most_50_kb() {
    let lab = Lab::new();
    lab.put("a", lines(500, 450));
    let found = lab.ok("grep", json!({"pattern": "line", "limit": 500}));
    assert!(
        found.len() < 51_300
            && found.contains("\n[50.0KB limit reached after ")
            && found.ends_with("narrow path or glob]")
    );
}

/// Lines around a match never take its own place.
#[test]
fn many_long_lines_before_a_match_leave_room_for_it() {
    let lab = Lab::new();
    lab.put("a", format!("{}needle\n", lines(150, 600)));
    let found = lab.call("grep", json!({"pattern": "needle", "context": 100}));
    assert_eq!(found.details["total"], 1);
    let shown: Vec<_> = found.content.lines().collect();
    assert!(found.content.len() < 51_400 && shown[0].starts_with("a-5") && shown.contains(&"a:151: needle"));
    assert_eq!(shown[shown.len() - 2], "a:151: needle");
}

/// F-12
#[test]
fn long_lines_are_cut_at_500_characters() {
    let lab = Lab::new();
    lab.put("a", format!("{}\n{}\n", "好".repeat(500), "x".repeat(501)));
    let found = grep(&lab, "好|x");
    let notice = "[Some lines truncated to 500 chars. Use read tool to see full lines]";
    let expected = format!("a:1: {}\na:2: {}... [truncated]\n{notice}", "好".repeat(500), "x".repeat(500));
    assert_eq!(found, expected);
}

/// Nasty case 5: a line of many MiB is searched in bounded memory, and the lines after it keep their numbers.
#[test]
fn nasty_05_a_huge_line_does_not_stop_the_search() {
    let lab = Lab::new();
    lab.put("a", format!("first{}\nneedle\n", "x".repeat(5 * 1024 * 1024)));
    assert!(grep(&lab, "first").starts_with("a:1: firstxxx"));
    assert_eq!(grep(&lab, "needle"), "a:2: needle");
}

/// Nasty case 6
#[test]
fn nasty_06_other_encodings_are_searched_too() {
    let lab = Lab::new();
    lab.put(
        "a",
        "größe\r\n".encode_utf16().fold(b"\xff\xfe".to_vec(), |all, unit| [all, unit.to_le_bytes().to_vec()].concat()),
    );
    lab.put("b", [&b"gr\xf6\xdfe "[..], "größe\n".as_bytes()].concat());
    lab.put("c", "\u{feff}größe\r\n");
    assert_eq!(grep(&lab, "größe$"), "a:1: größe\nb:1: gr\u{fffd}\u{fffd}e größe\nc:1: größe");
    assert_eq!(grep(&lab, "^größe"), "a:1: größe\nc:1: größe");
}

/// Section 5.3 and nasty case 12: a pattern that looks like an option is a pattern.
#[test]
fn nasty_12_a_leading_dash_is_part_of_the_pattern() {
    let lab = lab(&[("a", "run --pre=prog -e x\n")]);
    for pattern in ["--pre=prog", "-e", "-"] {
        assert_eq!(grep(&lab, pattern), "a:1: run --pre=prog -e x");
    }
}

/// F10, nasty case 12: neither a pattern that backtracks elsewhere nor one that grows without end takes long.
#[test]
fn nasty_12_hostile_patterns_are_quick_or_refused() {
    let lab = lab(&[("a", &"a".repeat(50_000))]);
    assert_eq!(grep(&lab, "(a+)+$").lines().count(), 2);
    assert!(lab.error("grep", json!({"pattern": "((a{1000}){1000}){1000}"})).contains("Invalid regular expression"));
    for bad in ["a\nb", "", "(", "*"] {
        lab.error("grep", json!({ "pattern": bad }));
    }
    assert!(lab.error("grep", json!({"pattern": "a", "output_mode": "json"})).contains("`output_mode`"));
}

/// What find leaves out is not searched either, and a file that is named is.
#[test]
fn ignored_files_are_searched_only_when_asked_for() {
    let lab = lab(&[("a.log", "hit"), (".git/config", "hit"), ("node_modules/m.js", "hit"), (".hidden", "hit")]);
    lab.put(".gitignore", "*.log\n");
    assert_eq!(grep(&lab, "hit"), ".hidden:1: hit");
    assert_eq!(lab.ok("grep", json!({"pattern": "hit", "path": "a.log"})), "a.log:1: hit");
    assert_eq!(lab.ok("grep", json!({"pattern": "hit", "include_ignored": true})).lines().count(), 4);
}

/// TOOLRES-105
#[test]
fn bdd_toolres_105_both_channels() {
    let lab = lab(&[("a.txt", "alpha\nbeta\n")]);
    let result = lab.call("grep", json!({"pattern": "beta"}));
    assert_eq!(
        result.details,
        json!({
            "matches": [{"file": "a.txt", "line_number": 2, "line": "beta"}],
            "total": 1,
            "truncated": false,
            "match_limit_reached": false,
            "lines_truncated": false,
        })
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    /// F-10, F-09: the lines that git finds in what it does not ignore, no more and no fewer.
    #[test]
    fn grep_finds_what_git_grep_finds(
        tree in tree::any(),
        pattern in proptest::sample::select(vec!["a", "^b", "ab|ba", "a{2}", "b$", "[^a]"]),
    ) {
        let lab = Lab::new();
        tree.plant(&lab);
        let said = Tree::git(&lab, &["grep", "--untracked", "-n", "-I", "-E", "--no-color", "-e", pattern, "--", "."]);
        let expected: BTreeSet<String> = said.lines().map(str::to_owned).collect();
        let found = lab.call("grep", json!({"pattern": pattern, "limit": 1000}));
        let matches = found.details["matches"].as_array().unwrap().iter();
        let found: BTreeSet<String> = matches
            .map(|one| format!("{}:{}:{}", one["file"].as_str().unwrap(), one["line_number"], one["line"].as_str().unwrap()))
            .collect();
        prop_assert_eq!(found, expected);
    }
}
