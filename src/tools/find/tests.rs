#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::json;

use crate::tools::lab::{
    Lab,
    tree::{self, Tree},
};

fn lab(files: &[&str]) -> Lab {
    let lab = Lab::new();
    for file in files {
        lab.put(file, "");
    }
    lab
}

fn find(lab: &Lab, pattern: &str) -> BTreeSet<String> {
    let found = lab.ok("find", json!({"pattern": pattern, "limit": 1000}));
    let is_path = |line: &&str| *line != "No files found matching pattern" && !line.starts_with('[');
    found.lines().filter(is_path).map(str::to_owned).collect()
}

fn set<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.into_iter().map(str::to_owned).collect()
}

#[test]
fn bdd_find_001_hidden_files() {
    assert_eq!(
        find(&lab(&[".secret/hidden.txt", "visible.txt"]), "**/*.txt"),
        set([".secret/hidden.txt", "visible.txt"])
    );
}

#[test]
fn bdd_find_002_009_at_every_depth() {
    let lab = lab(&["a/b/deep.ex", "top.ex", "a/b/c/d/deep.txt"]);
    assert_eq!(find(&lab, "**/*.ex"), set(["a/b/deep.ex", "top.ex"]));
    assert_eq!(find(&lab, "*.ex"), set(["a/b/deep.ex", "top.ex"]));
    assert_eq!(find(&lab, "deep.txt"), set(["a/b/c/d/deep.txt"]));
    assert_eq!(find(&lab, "a/*"), set(["a/b/"]));
}

/// F-08, BDD-FIND-003
#[test]
fn bdd_find_003_nothing() {
    assert_eq!(lab(&["a.txt"]).ok("find", json!({"pattern": "*.xyz"})), "No files found matching pattern");
}

#[test]
fn bdd_find_004_exclude() {
    let lab = lab(&["keep.txt", "a.log", "logs/b.txt"]);
    let found = lab.ok("find", json!({"pattern": "**/*", "exclude": "*.log"}));
    assert!(found.contains("keep.txt") && !found.contains("a.log"));
    let found = lab.ok("find", json!({"pattern": "**/*.txt", "exclude": "logs"}));
    assert_eq!(found, "keep.txt", "what is excluded is not searched");
}

/// F-08, BDD-FIND-005
#[test]
fn bdd_find_005_the_newest_come_first_and_the_rest_is_counted() {
    let lab = lab(&["old.txt", "new.txt", "mid.txt"]);
    for (name, seconds) in [("old.txt", 300), ("mid.txt", 200), ("new.txt", 100)] {
        lab.age(name, seconds);
    }
    let result = lab.call("find", json!({"pattern": "*.txt", "limit": 2}));
    assert_eq!(
        result.content,
        "new.txt\nmid.txt\n[Showing 2 of 3 files. Use limit=4 for more, or refine the pattern.]"
    );
    assert_eq!(result.details, json!({"files": ["new.txt", "mid.txt"], "total": 3, "truncated": true}));
    assert_eq!(lab.ok("find", json!({"pattern": "*.txt"})), "new.txt\nmid.txt\nold.txt");
}

/// F-08, C-07, FT-9
#[test]
fn the_limit_is_200_and_at_most_1000() {
    let lab = Lab::new();
    for n in 0..1_001 {
        lab.put(&format!("f{n}"), "");
    }
    assert!(lab.ok("find", json!({"pattern": "f*"})).contains("[Showing 200 of 1001 files. Use limit=400 for more"));
    let found = lab.ok("find", json!({"pattern": "f*", "limit": 5_000}));
    assert!(found.ends_with("[Showing 1000 of 1001 files. Refine the pattern or search a folder further down.]"));
}

/// F-08: links are found by their own names.
/// BDD-FIND-006: a link to a file and one to a folder are listed; a file behind links that make a circle is listed once.
#[test]
fn bdd_find_006_links_are_listed_and_not_followed() {
    let lab = lab(&["real.txt", "d/inner.txt"]);
    lab.link("real.txt", "link.txt");
    lab.link("..", "d/loop");
    lab.link("d", "e");
    assert_eq!(find(&lab, "*.txt"), set(["d/inner.txt", "link.txt", "real.txt"]));
    assert_eq!(find(&lab, "loop"), set(["d/loop"]));
}

#[test]
fn bdd_find_007_a_missing_folder() {
    let lab = lab(&["f"]);
    assert!(lab.error("find", json!({"pattern": "*", "path": "x"})).contains("ENOENT"));
    assert!(lab.error("find", json!({"pattern": "*", "path": "f"})).contains("Not a directory"));
}

/// F-09, BDD-FIND-008
#[test]
fn bdd_find_008_gitignore() {
    let lab = lab(&["keep.txt", "debug.log", "build/output.js"]);
    lab.put(".gitignore", "*.log\nbuild/\n");
    assert_eq!(find(&lab, "**/*"), set([".gitignore", "keep.txt"]));
    let all = lab.ok("find", json!({"pattern": "**/*", "include_ignored": true}));
    assert!(all.contains("debug.log") && all.contains("build/output.js"));
    let below = lab.ok("find", json!({"pattern": "*", "path": "build"}));
    assert_eq!(below, "build/output.js", "a folder that is asked for is searched");
}

/// A folder that is named is looked into, however the ignore files above it say that what is in it is ignored; their other lines
/// hold there.
#[test]
fn a_named_folder_is_searched_although_it_is_ignored() {
    for line in ["scripts/*", "scripts/**", "/scripts/", "scripts", "scr*/*", "*"] {
        let lab = lab(&["scripts/x.sh", "scripts/a.log", "scripts/sub/y.sh"]);
        lab.put(".gitignore", format!("{line}\n*.log\n"));
        let below = lab.ok("find", json!({"pattern": "*.*", "path": "scripts"}));
        let below: BTreeSet<_> = below.lines().collect();
        assert_eq!(below, BTreeSet::from(["scripts/x.sh", "scripts/sub/y.sh"]), "{line}");
        assert_eq!(
            lab.ok("grep", json!({"pattern": "^", "path": "scripts"})),
            "No matches found\n[1 files or folders left out by \
            .gitignore or their name (node_modules, _build, deps, target); include_ignored searches them]",
            "{line}"
        );
    }
}

/// A search without hits says that something was not searched; one with hits does not.
#[test]
fn a_search_without_a_result_says_what_was_left_out() {
    let lab = lab(&[".git/HEAD", "scripts/x.sh", "target/a", "keep.txt"]);
    lab.put(".gitignore", "scripts/*\n");
    let notice = "[2 files or folders left out by .gitignore or their name (node_modules, _build, deps, target); \
                  include_ignored searches them]";
    let nothing = lab.ok("find", json!({"pattern": "*.sh"}));
    assert_eq!(nothing, format!("No files found matching pattern\n{notice}"));
    assert_eq!(lab.ok("grep", json!({"pattern": "x"})), format!("No matches found\n{notice}"));
    assert_eq!(lab.ok("find", json!({"pattern": "*.txt"})), "keep.txt");
    assert_eq!(lab.ok("grep", json!({"pattern": "x", "include_ignored": true})), "No matches found");
}

/// Section 1.6: a nested ignore file holds for what is beneath it, and the deepest decides.
#[test]
fn nested_ignore_files_hold_where_they_are() {
    let lab = lab(&["z.tmp", "n", "sub/a.tmp", "sub/n", "sub/deep/n", "sub/deep/keep.tmp"]);
    lab.put("sub/.gitignore", "*.tmp\n/n\n");
    lab.put("sub/deep/.gitignore", "!keep.tmp\n");
    let expected = ["n", "sub/deep/keep.tmp", "sub/deep/n", "z.tmp"];
    assert_eq!(find(&lab, "{n,*.tmp}"), set(expected));
    let below = lab.ok("find", json!({"pattern": "{n,*.tmp}", "path": "sub/deep"}));
    assert_eq!(below.lines().collect::<BTreeSet<_>>(), BTreeSet::from(["sub/deep/keep.tmp", "sub/deep/n"]));
}

/// FT-9
#[test]
fn built_things_are_left_out_unless_asked_for() {
    let lab = lab(&[
        ".git/config.x",
        "node_modules/m/a.x",
        "target/b.x",
        "deps/c.x",
        "_build/d.x",
        "src/e.x",
        "src/target.x",
    ]);
    assert_eq!(find(&lab, "*.x"), set(["src/e.x", "src/target.x"]));
    assert_eq!(find(&lab, "node_modules/**/*.x"), set(["node_modules/m/a.x"]));
    assert_eq!(lab.ok("find", json!({"pattern": "*.x", "path": "target"})), "target/b.x");
    assert_eq!(lab.ok("find", json!({"pattern": "*.x", "include_ignored": true})).lines().count(), 7);
}

/// Section 1.6: a pattern cannot lead out.
#[test]
fn a_pattern_cannot_climb() {
    assert!(lab(&["a"]).error("find", json!({"pattern": "../*"})).contains("`path`"));
    assert!(lab(&["a"]).error("find", json!({"pattern": "["})).contains("invalid glob pattern"));
    assert_eq!(find(&lab(&["-rf", "b"]), "-*"), set(["-rf"]));
}

/// Nasty case 14: a tree deeper than the walk goes is reported, not fatal.
#[test]
fn a_tree_too_deep_is_reported() {
    let lab = Lab::new();
    let deep = "d/".repeat(200);
    lab.put(&format!("{deep}x.txt"), "");
    lab.put("y.txt", "");
    let found = lab.ok("find", json!({"pattern": "*.txt"}));
    assert!(found.starts_with("y.txt\n[1 folders more than 128 deep were left out]"), "{found}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// F-09, FT-9: nested ignore files are obeyed as git obeys them.
    #[test]
    fn find_lists_what_git_lists(tree in tree::any()) {
        let lab = Lab::new();
        tree.plant(&lab);
        let listed = Tree::git(&lab, &["ls-files", "-z", "--others", "--exclude-standard"]);
        let expected: BTreeSet<String> = listed.split_terminator('\0').map(str::to_owned).collect();
        let found: BTreeSet<String> = find(&lab, "**").into_iter().filter(|path| !path.ends_with('/')).collect();
        prop_assert_eq!(found, expected);
    }
}

/// Nasty case 11: a folder with a hostile name is shown so that it can be given back.
#[test]
fn nasty_11_a_folder_in_quotes_can_be_given_back() {
    let lab = Lab::new();
    lab.put("a\nb/f", "x");
    let found = lab.ok("find", json!({"pattern": "a*"}));
    assert_eq!(found, r#""a\nb/""#);
    assert!(lab.ok("ls", json!({"path": "."})).ends_with(&format!("- {found}")));
    assert!(lab.ok("ls", json!({ "path": found })).ends_with("1B f"));
}

/// Nasty case 14: an ignore file that was made to take memory and time is not obeyed, which is said.
#[test]
fn nasty_14_an_ignore_file_without_end_is_not_obeyed() {
    let lab = Lab::new();
    lab.put(".gitignore", "a.txt\n");
    lab.put("a.txt", "");
    lab.put("sub/.gitignore", "*b*c?[xyz]*d\n".repeat(25_000));
    lab.put("sub/bcxxd", "");
    lab.put("sub/a.txt", "");
    let found = lab.ok("find", json!({"pattern": "sub/*"}));
    let mut lines: Vec<_> = found.lines().collect();
    assert_eq!(lines.pop(), Some("[1 ignore files are too large and were not obeyed]"));
    lines.sort_unstable();
    assert_eq!(lines, ["sub/.gitignore", "sub/bcxxd"], "the others hold");
}
