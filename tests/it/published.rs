//! What is covered is published, row by row, and not promised as a number.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

const SCENARIOS: &str = include_str!("../../docs/SCENARIOS.md");

fn rows(list: &str) -> BTreeSet<&str> {
    list.lines().skip(1).filter_map(|line| line.split('\t').next()).collect()
}

/// C-20, AB-02: the pages that a run writes name every row of the lists once, and say of how many.
#[test]
fn every_row_stands_on_its_page_and_the_count_is_that_of_the_run() {
    let lists = [
        (include_str!("../coverage/scenarios.tsv"), SCENARIOS, "scenarios"),
        (include_str!("../coverage/checklist.tsv"), include_str!("../../docs/COVERAGE.md"), "rows"),
    ];
    for (list, page, what) in lists {
        let told: Vec<&str> = page
            .lines()
            .filter_map(|line| line.strip_prefix("| ")?.split(" | ").next())
            .filter(|id| id.contains('-'))
            .collect();
        let all = rows(list);
        assert_eq!(told.len(), all.len(), "{what}");
        assert_eq!(told.into_iter().collect::<BTreeSet<_>>(), all, "{what}");
        let covered = page.lines().filter(|line| line.contains(" | `") || line.contains(" | bdd ")).count();
        assert!(page.contains(&format!("\n{covered} of {} {what} are covered.\n", all.len())), "{covered} {what}");
    }
}

/// The scenarios that a test of the last run showed.
fn covered() -> BTreeSet<&'static str> {
    let shown = SCENARIOS.lines().filter(|line| line.contains(" | `") || line.contains(" | bdd "));
    shown.filter_map(|line| line.strip_prefix("| ")?.split(" | ").next()).collect()
}

/// F-27, G-09, S-17, AB-03: the groups of scenarios that the design counts are shown, each of them at least that often: those of
/// each tool, of truncation, of the tape, and those that were added to it later.
#[test]
fn each_counted_group_of_scenarios_is_shown() {
    let covered = covered();
    let count = |head: &str| covered.iter().filter(|id| id.rsplit_once('-').is_some_and(|(of, _)| of == head)).count();
    for (head, at_least) in [
        ("BDD-EDIT", 23),
        ("BDD-READ", 17),
        ("BDD-BASH", 14),
        ("BDD-GREP", 10),
        ("BDD-WRITE", 7),
        ("BDD-LS", 6),
        ("BDD-FIND", 6),
        ("BDD-TRC", 14),
        ("BDD-TAPE", 34),
    ] {
        assert!(count(head) >= at_least, "{head}: {} of {at_least}", count(head));
    }
    let ranges = [
        ("BDD-AGENT", 31..=37),
        ("BDD-COMPACT", 15..=20),
        ("BDD-EDIT", 17..=22),
        ("BDD-FIND", 8..=8),
        ("BDD-BASH", 15..=16),
        ("BDD-TRC", 1..=14),
    ];
    let named = ranges.into_iter().flat_map(|(head, range)| range.map(move |n| format!("{head}-{n:03}")));
    let missing: Vec<_> = named.filter(|id| !covered.contains(id.as_str())).collect();
    assert_eq!(missing, Vec::<String>::new());
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// AB-04: what every change must pass makes an error of each warning, in every target and with every feature.
#[test]
fn warnings_are_errors() {
    let gate = fs::read_to_string(root().join(".ci/run")).unwrap();
    let lints = gate.lines().find(|line| line.starts_with("cargo clippy")).expect("the gate runs the lints");
    for wanted in ["--all-targets", "--all-features", "-- -D warnings"] {
        assert!(lints.contains(wanted), "{lints}");
    }
    assert!(gate.contains("set -euo pipefail"), "a failure ends the gate");
}

/// AB-09: scenarios stand in `bdd/`, a file for each area, each tells what is given, done and seen; those of the design carry
/// their ids, and no other ids are made up.
#[test]
fn scenarios_are_given_when_then_under_an_id() {
    let mut known = rows(include_str!("../coverage/scenarios.tsv"));
    known.extend(rows(include_str!("../coverage/checklist.tsv")));
    let (mut ids, mut files) = (BTreeSet::new(), 0);
    for file in fs::read_dir(root().join("bdd/features")).unwrap() {
        let (name, text) = (file.as_ref().unwrap().file_name(), fs::read_to_string(file.unwrap().path()).unwrap());
        files += 1;
        assert!(text.starts_with("Feature: "), "{name:?}");
        let mut steps: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let mut scenario = "";
        for line in text.lines().map(str::trim) {
            if line.starts_with('@') {
                for tag in line.split_whitespace().map(|tag| tag.trim_start_matches('@')) {
                    assert!(known.contains(tag), "{name:?}: no such id: {tag}");
                    ids.insert(tag.to_owned());
                }
            } else if line.starts_with("Scenario") {
                scenario = line;
                assert!(steps.insert(scenario, BTreeSet::new()).is_none(), "{name:?}: {line} stands there twice");
            } else if let Some(word) = ["Given", "When", "Then"].iter().find(|word| line.starts_with(**word)) {
                steps.entry(scenario).or_default().insert(word);
            }
        }
        for (scenario, words) in steps {
            assert_eq!(words.len(), 3, "{name:?}: {scenario} has only {words:?}");
        }
    }
    let of_the_design = ids.iter().filter(|id| id.starts_with("BDD-")).count();
    assert!(files >= 6 && of_the_design > 80, "{files} files with {of_the_design} ids");
}
