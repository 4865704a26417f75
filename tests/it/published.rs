//! What every change must pass, and the form of the scenarios. What is covered is published by `tests/coverage.py`, from the run.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

fn rows(list: &str) -> BTreeSet<&str> {
    list.lines().skip(1).filter_map(|line| line.split('\t').next()).collect()
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
