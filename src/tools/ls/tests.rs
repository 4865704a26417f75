#![allow(clippy::unwrap_used, clippy::panic)]

use serde_json::json;

use crate::tools::lab::Lab;

fn names(listing: &str) -> Vec<&str> {
    listing.lines().map(|line| &line[11..]).collect()
}

#[test]
fn bdd_ls_001_files_and_folders() {
    let lab = Lab::new();
    lab.put("file.txt", "x");
    lab.put("subdir/a", "");
    assert_eq!(lab.ok("ls", json!({"path": "."})), "         - subdir/\n        1B file.txt");
}

/// F-07, BDD-LS-002
#[test]
fn bdd_ls_002_an_empty_folder() {
    let lab = Lab::new();
    assert_eq!(lab.ok("ls", json!({})), "(empty directory)");
}

/// F-06: folders and files, in their order.
/// BDD-LS-003: the whole list is asserted: folders first, then files by name, without regard to case.
#[test]
fn bdd_ls_003_directories_first_then_by_name() {
    let lab = Lab::new();
    for name in ["Zebra", "apple", "Banana", ".hid", "src/x", "Doc/x"] {
        lab.put(name, "");
    }
    assert_eq!(names(&lab.ok("ls", json!({}))), ["Doc/", "src/", ".hid", "apple", "Banana", "Zebra"]);
}

/// F-07, BDD-LS-004
#[test]
fn bdd_ls_004_a_file() {
    let lab = Lab::new();
    lab.put("f", "");
    assert!(lab.error("ls", json!({"path": "f"})).contains("Not a directory"));
}

/// F-07, BDD-LS-005
#[test]
fn bdd_ls_005_a_missing_folder() {
    assert!(Lab::new().error("ls", json!({"path": "x"})).contains("ENOENT"));
}

#[test]
fn bdd_ls_006_hidden_files() {
    let lab = Lab::new();
    lab.put(".hidden", "");
    lab.put("visible", "");
    assert_eq!(names(&lab.ok("ls", json!({}))), [".hidden", "visible"]);
}

#[test]
fn bdd_ls_007_sizes() {
    let lab = Lab::new();
    for (name, bytes) in [("a", 3), ("b", 2_000), ("c", 1_500_000)] {
        lab.put(name, vec![b'x'; bytes]);
    }
    assert_eq!(lab.ok("ls", json!({})), "        3B a\n        1K b\n        1M c");
}

#[test]
fn bdd_ls_008_another_folder() {
    let lab = Lab::new();
    lab.put("sub/nested.txt", "");
    assert_eq!(names(&lab.ok("list_directory", json!({"path": "sub"}))), ["nested.txt"]);
}

/// F-06, BDD-LS-009
#[test]
fn bdd_ls_009_symlinks() {
    let lab = Lab::new();
    lab.put("d/x", "");
    lab.link("real.txt", "link.txt");
    lab.link("d", "to_d");
    let result = lab.call("ls", json!({}));
    assert_eq!(names(&result.content), ["d/", "link.txt@", "to_d@"]);
    let types: Vec<_> = result.details["entries"].as_array().unwrap().iter().map(|one| one["type"].clone()).collect();
    assert_eq!(types, ["directory", "symbolic link", "symbolic link"]);
}

/// F-07, FT-8, J.7 2.3
#[test]
fn more_than_1000_entries_are_cut_with_a_notice() {
    let lab = Lab::new();
    for n in 0..1_001 {
        lab.put(&format!("f{n:04}"), "");
    }
    let result = lab.call("ls", json!({}));
    assert!(result.content.ends_with("\n[Showing 1000 of 1001 entries. Use find with a pattern to see others.]"));
    assert_eq!((&result.details["total"], &result.details["truncated"]), (&json!(1_001), &json!(true)));
    std::fs::remove_file(lab.path("f0000")).unwrap();
    assert_eq!(lab.call("ls", json!({})).details["truncated"], false);
}

#[test]
fn details_tell_the_time_in_utc() {
    let lab = Lab::new();
    lab.put("a", "x");
    std::fs::File::open(lab.path("a")).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    let result = lab.call("ls", json!({}));
    let entry = json!({"name": "a", "type": "file", "size": 1, "mtime": "1970-01-01 00:00:00"});
    assert_eq!(result.details["entries"], json!([entry]));
}
