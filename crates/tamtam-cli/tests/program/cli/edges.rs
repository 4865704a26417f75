//! `docs/EDGES.md`, and the rows of the checklist in `docs/SECURITY.md`: each test that they name exists, and each
//! command that they show ends as stated.

use std::{collections::BTreeSet, path::Path, process::Stdio};

use super::lab::Lab;

const PAGE: &str = include_str!("../../../../../docs/EDGES.md");
const SECURITY: &str = include_str!("../../../../../docs/SECURITY.md");

/// The cells of the rows of a table, whose first line begins so.
fn table<const N: usize>(page: &str, begins: &str) -> Vec<[String; N]> {
    let rows = page.lines().skip_while(|line| !line.starts_with(begins)).skip(2);
    let cells = rows.take_while(|line| line.starts_with('|')).map(|line| {
        let cells = line.replace("\\|", "\u{0}");
        let cells = cells.strip_prefix('|').and_then(|cells| cells.strip_suffix('|')).unwrap().split('|');
        let cells: Vec<_> = cells.map(|cell| cell.trim().replace('\u{0}', "|")).collect();
        cells.try_into().unwrap_or_else(|cells| panic!("{cells:?}"))
    });
    cells.collect()
}

/// A cell that is code, or empty.
fn code(cell: &str) -> String {
    cell.trim_matches('`').to_owned()
}

/// What happens, the test, the command, its exit code, and a part of what it prints.
fn rows() -> Vec<[String; 5]> {
    let mut rows = table::<5>(PAGE, "| what happens now |");
    rows.iter_mut().flatten().for_each(|cell| *cell = code(cell));
    rows
}

/// The rows of the checklist: its id, what is attempted, what holds, the tests, a command, its exit code, and a part of what it prints.
fn checklist() -> Vec<[String; 7]> {
    table(SECURITY, "| row | attack |")
}

fn functions(folder: &Path, into: &mut BTreeSet<String>) {
    for item in std::fs::read_dir(folder).unwrap() {
        let path = item.unwrap().path();
        if path.is_dir() {
            functions(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(path).unwrap();
            let names = text.lines().filter_map(|line| line.trim().strip_prefix("async ").or(Some(line.trim())));
            let names = names.filter_map(|line| line.strip_prefix("fn ")?.split('(').next().map(str::to_owned));
            into.extend(names);
        }
    }
}

fn all_functions() -> BTreeSet<String> {
    let mut there = BTreeSet::new();
    ["src", "tests", "../../src", "../../tests/it"]
        .into_iter()
        .for_each(|folder| functions(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut there));
    there
}

/// Of the checklist of reliability: the rows on permission, files, shell, secrets and the trust in configuration.
#[test]
fn each_row_of_the_checklist_has_a_test_that_is_there_or_a_reason() {
    let there = all_functions();
    let rows = checklist();
    let of = |letter: char, last: usize| (1..=last).map(move |n| format!("{letter}{n:02}"));
    let expected: Vec<_> =
        of('P', 19).chain(of('F', 10)).chain(of('H', 9)).chain(of('K', 6)).chain(of('C', 7)).collect();
    assert_eq!(rows.iter().map(|row| row[0].clone()).collect::<Vec<_>>(), expected);
    for [row, _, holds, tests, ..] in &rows {
        let named: Vec<_> = tests.split(", ").filter(|test| !test.is_empty()).map(code).collect();
        assert!(named.iter().all(|test| there.contains(test)), "{row}: of {named:?} one is not there");
        assert!(!named.is_empty() || holds.contains("No test: "), "{row} has neither a test nor a reason");
    }
}

#[test]
fn each_test_of_the_page_is_there() {
    let there = all_functions();
    let rows = rows();
    assert!(rows.len() > 50, "{}", rows.len());
    for [what, test, command, ..] in &rows {
        assert!(there.contains(test) || (test.is_empty() && !command.is_empty()), "{what}: no test {test:?}");
    }
}

#[test]
fn each_command_of_the_pages_ends_as_it_says() {
    let of_checklist = checklist()
        .into_iter()
        .map(|[row, _, _, test, command, exit, says]| [row, test, code(&command), exit, code(&says)]);
    let shown = rows().into_iter().chain(of_checklist);
    let shown: Vec<_> = shown.filter(|[_, _, command, exit, _]| !command.is_empty() && !exit.is_empty()).collect();
    assert!(shown.len() > 25, "{}", shown.len());
    let mut failed = Vec::new();
    for [what, _, command, exit, says] in shown {
        let lab = Lab::new();
        for (at, _) in PAGE.match_indices("```json ") {
            let (name, text) = PAGE[at + "```json ".len()..].split_once('\n').unwrap();
            std::fs::write(lab.path("work").join(name), text.split("```").next().unwrap()).unwrap();
        }
        let tamtam = Path::new(env!("CARGO_BIN_EXE_tamtam")).parent().unwrap();
        let path = format!("{}:{}", tamtam.display(), std::env::var("PATH").unwrap());
        let mut shell = lab.command(&[]);
        let environment: Vec<_> =
            shell.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned()))).collect();
        shell = std::process::Command::new("bash");
        shell
            .args(["-c", &format!("exec 2>&1; {command}")])
            .current_dir(lab.path("work"))
            .env_clear()
            .envs(environment);
        shell.env("PATH", path).stdin(Stdio::null());
        let ended = shell.output().unwrap();
        // The lab would replay what is left; some of it is no tape.
        let _ = std::fs::remove_dir_all(lab.path("work/store"));
        let printed = String::from_utf8_lossy(&ended.stdout);
        if ended.status.code().map(|code| code.to_string()) != Some(exit) || !printed.contains(&says) {
            failed.push(format!("{what}: {:?}, and printed {printed}", ended.status));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}
