//! The cases of OTP's and Elixir's own supervisor suites: each of the 86 rows has its test, and one that a reader finds.

use std::{collections::BTreeMap, fs, path::Path};

/// The tests of the sources whose names begin like this, by the number that follows, with the file they stand in.
fn numbered(prefix: &str) -> BTreeMap<u32, Vec<(String, String)>> {
    let mut rows: BTreeMap<u32, Vec<(String, String)>> = BTreeMap::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src/supervisor")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let mut is_test = false;
            for line in text.lines() {
                let name = line.trim_start_matches("async ").strip_prefix("fn ").unwrap_or_default();
                let number = name.strip_prefix(prefix).and_then(|rest| rest.split('_').next());
                if let Some(number) = number {
                    assert!(is_test, "{line} in {} is no test", path.display());
                    let test = (name.to_owned(), path.display().to_string());
                    rows.entry(number.parse().unwrap()).or_default().push(test);
                }
                is_test = line.starts_with("#[test]") || line.starts_with("#[tokio::test");
            }
        }
    }
    rows
}

fn rows() -> BTreeMap<u32, Vec<(String, String)>> {
    numbered("otp_")
}

/// Those of supervision's invariants that are the supervisor's own.
#[test]
fn each_invariant_of_the_supervisor_has_a_test_of_its_name() {
    let invariants = numbered("invariant_");
    let missing: Vec<u32> = (1..=15).chain(26..=28).filter(|number| !invariants.contains_key(number)).collect();
    assert_eq!(missing, Vec::<u32>::new(), "invariants without a test");
}

#[test]
fn each_of_the_86_rows_has_exactly_one_test_of_its_name() {
    let rows = rows();
    let missing: Vec<u32> = (1..=86).filter(|row| !rows.contains_key(row)).collect();
    assert_eq!(missing, Vec::<u32>::new(), "rows without a test");
    let strange: Vec<&u32> = rows.keys().filter(|row| !(1..=86).contains(*row)).collect();
    assert_eq!(strange, Vec::<&u32>::new(), "tests of rows that there are not");
    let twice: Vec<_> = rows.values().filter(|tests| tests.len() > 1).collect();
    assert_eq!(twice, Vec::<&Vec<_>>::new(), "rows with more than one test");
}

/// Live changes are known to the planner only; every other row runs through the real supervisor with real children.
#[test]
fn only_the_rows_of_live_changes_are_shown_by_the_planner_alone() {
    let alone: Vec<u32> =
        rows().into_iter().filter(|(_, tests)| tests[0].1.contains("planner")).map(|(row, _)| row).collect();
    assert_eq!(alone, [62, 72]);
}
