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
    let lines =
        |program: &str| gate.lines().filter(|line| line.contains(program)).map(str::to_owned).collect::<Vec<_>>();
    let (lints, docs) = (lines("cargo clippy"), lines("cargo doc"));
    assert!(lints.iter().all(|line| line.ends_with("-- -D warnings")), "{lints:?}");
    assert!(docs.iter().all(|line| line.starts_with("RUSTDOCFLAGS=\"-D warnings\"")), "{docs:?}");
    for lines in [lints, docs] {
        assert!(lines.iter().any(|line| line.contains("--all-features")));
    }
    let features = fs::read_to_string(root().join("tests/features.sh")).unwrap();
    assert!(features.contains("grep -qE '^(warning|error)'"), "each feature alone, and none");
    assert!(
        gate.contains("cargo clippy --workspace --all-targets --all-features -- "),
        "tests, benches and every feature at once"
    );
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

/// AB-08: nothing that is built changes by itself: each dependency is asked for by version, the lock file names one version and a
/// checksum of each, from a registry and nowhere else; and so does that of the mock server.
#[test]
fn what_is_built_is_pinned() {
    let crates = fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path());
    let manifests: String = std::iter::once(root().to_path_buf())
        .chain(crates)
        .map(|path| fs::read_to_string(path.join("Cargo.toml")).unwrap())
        .collect();
    let mut asked = 0;
    let mut section = "";
    for line in manifests.lines().filter(|line| !line.starts_with('#')) {
        if line.starts_with('[') {
            section = line;
        } else if section.contains("dependencies")
            && let Some((name, wanted)) = line.split_once(" = ")
            // The library and the crates of the workspace, which are published with it.
            && !(wanted.starts_with("{ path = \"../") && wanted.contains("\", version = \""))
        {
            asked += 1;
            let version = wanted.strip_prefix("{ version = ").unwrap_or(wanted).split('"').nth(1).unwrap();
            assert!(version.starts_with(|c: char| c.is_ascii_digit() || "~>=".contains(c)), "{name}: {wanted}");
            assert!(!wanted.contains("git =") && !wanted.contains("path ="), "{name}: {wanted}");
        }
    }
    assert!(asked > 30, "{asked} dependencies");

    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let packages: Vec<_> = lock.split("[[package]]").skip(1).filter(|one| !one.contains("name = \"tamtam")).collect();
    assert!(packages.len() > 100);
    for package in packages {
        assert!(package.contains("source = \"registry+") && package.contains("checksum = \""), "{package}");
    }
    let lock = fs::read_to_string(root().join("tests/aimock/package-lock.json")).unwrap();
    let lock: serde_json::Value = serde_json::from_str(&lock).unwrap();
    let packages = lock["packages"].as_object().unwrap().iter().filter(|(path, _)| !path.is_empty());
    for (path, package) in packages {
        assert!(package["version"].is_string() && package["integrity"].is_string(), "{path}");
    }
}

/// A mutation whose lines are gone breaks nothing, and its run would end before the others.
#[test]
fn each_mutation_finds_the_code_that_it_breaks() {
    let mut lost = Vec::new();
    let mutations = fs::read_dir(root().join("tests/mutations")).unwrap().map(|file| file.unwrap().path());
    for path in mutations.chain([root().join("tests/slow_disk.patch")]) {
        if path.extension().is_none_or(|extension| extension != "patch") {
            continue;
        }
        let (patch, mut code) = (fs::read_to_string(&path).unwrap(), String::new());
        let hunks: Vec<&str> = patch.split("\n@@ ").collect();
        for (at, hunk) in hunks.iter().enumerate() {
            let (mut block, mut next) = (String::new(), None);
            for line in hunk.lines().skip(usize::from(at > 0)) {
                match line.split_at_checked(1) {
                    Some(("-", name)) if line.starts_with("--- a/") => {
                        next = Some(fs::read_to_string(root().join(name.trim_start_matches("-- a/"))).unwrap());
                    }
                    Some((" " | "-", old)) => block.extend([old, "\n"]),
                    None => block.push('\n'),
                    _ => {}
                }
            }
            if at > 0 && !code.contains(&block) {
                lost.push(format!("{}: hunk {at}", path.display()));
            }
            // The head of the next file is behind the last lines of this one.
            code = next.unwrap_or(code);
        }
    }
    assert!(lost.is_empty(), "{lost:#?}");
}
