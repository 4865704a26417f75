//! `docs/EDGES.md`: each test that it names is there, and each command that it shows ends as it says.

use std::{collections::BTreeSet, path::Path, process::Stdio};

use super::lab::Lab;

const PAGE: &str = include_str!("../../../docs/EDGES.md");

/// What happens, the test, the command, its exit code, and a part of what it prints.
fn rows() -> Vec<[String; 5]> {
    let rows = PAGE.lines().filter(|line| line.starts_with("| ")).skip(1);
    let cells = rows.map(|line| {
        let cells = line.replace("\\|", "\u{0}");
        let cells: Vec<_> = cells.trim_matches('|').split('|').map(|cell| cell.trim().replace('\u{0}', "|")).collect();
        let plain = cells.into_iter().map(|cell| cell.trim_matches('`').to_owned());
        plain.collect::<Vec<_>>().try_into().unwrap_or_else(|cells| panic!("{cells:?}"))
    });
    cells.collect()
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

#[test]
fn each_test_of_the_page_is_there() {
    let mut there = BTreeSet::new();
    ["src", "tests"]
        .into_iter()
        .for_each(|folder| functions(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut there));
    let rows = rows();
    assert!(rows.len() > 50, "{}", rows.len());
    for [what, test, command, ..] in &rows {
        assert!(there.contains(test) || (test.is_empty() && !command.is_empty()), "{what}: no test {test:?}");
    }
}

#[test]
fn each_command_of_the_page_ends_as_it_says() {
    let shown: Vec<_> =
        rows().into_iter().filter(|[_, _, command, exit, _]| !command.is_empty() && !exit.is_empty()).collect();
    assert!(shown.len() > 15, "{}", shown.len());
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
