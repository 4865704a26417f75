//! Reads the public futures out of the sources, and the rows out of `docs/CANCELLATION.md`.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use super::matrix::Word;

/// A row of the table: a function, and what its dropped future takes back.
pub(super) struct Row {
    pub(super) function: String,
    pub(super) word: Word,
}

const WORDS: [(&str, Word); 4] = [
    ("`read`", Word::Read),
    ("`handed over`", Word::HandedOver),
    ("`begun`", Word::Begun),
    ("`taken back`", Word::TakenBack),
];

/// The rows of the tables below a heading, cell by cell.
fn cells(heading: &str) -> Vec<Vec<String>> {
    let page = fs::read_to_string(root().join("docs/CANCELLATION.md")).unwrap();
    let below = page.split_once(&format!("\n## {heading}\n")).unwrap().1;
    let section = below.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| row.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect()).collect()
}

fn name(cell: &str) -> String {
    cell.trim_matches('`').to_owned()
}

pub(super) fn rows() -> Vec<Row> {
    let row = |cells: Vec<String>| {
        let [function, word, effect, then] = &cells[..] else { panic!("a row has four cells: {cells:?}") };
        let found = WORDS.iter().find(|(name, _)| word == name);
        let (_, word) = found.unwrap_or_else(|| panic!("{word} is no word of the table"));
        assert!(!effect.is_empty() && !then.is_empty(), "{function} says what happens, and what comes next");
        Row { function: name(function), word: *word }
    };
    cells("The table").into_iter().map(row).collect()
}

pub(super) fn rows_of_hosts() -> BTreeSet<String> {
    cells("Futures that a host gives").iter().map(|cells| name(&cells[0])).collect()
}

/// The public functions that give a future. The lint `unreachable_pub` sees to it that what is `pub` can be reached.
pub(super) fn functions() -> Vec<String> {
    let mut found: Vec<String> = read().into_iter().filter(|of| !of.is_of_a_trait).map(|of| of.name).collect();
    found.sort();
    found.dedup();
    found
}

/// The functions of public traits that give a future: a host writes them, and the runtime calls and drops them.
pub(super) fn of_hosts() -> BTreeSet<String> {
    read().into_iter().filter(|of| of.is_of_a_trait).map(|of| of.name).collect()
}

struct Found {
    name: String,
    is_of_a_trait: bool,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read() -> Vec<Found> {
    let mut files = Vec::new();
    sources(&root().join("src"), &mut files);
    files.iter().flat_map(|file| of_file(file)).collect()
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => sources(&path, found),
            false if path.ends_with("tests.rs") || path.ends_with("lab.rs") => {}
            false => found.push(path),
        }
    }
}

/// The functions of a file, by the `impl` or `trait` that they stand in: the sources are formatted, so items begin at the margin.
fn of_file(file: &Path) -> Vec<Found> {
    let text = fs::read_to_string(file).unwrap();
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let room = file.strip_prefix(root().join("src")).unwrap().components().next().unwrap();
    let room = room.as_os_str().to_str().unwrap().trim_end_matches(".rs").to_owned();
    let (mut of, mut is_public_trait, mut found) = (room.clone(), false, Vec::new());
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line == "}" {
            (of, is_public_trait) = (room.clone(), false);
        }
        if line.starts_with("impl") || line.starts_with("pub trait ") {
            of = subject(line);
            is_public_trait = line.starts_with("pub trait ");
        }
        let code = line.trim_start();
        let Some((before, after)) = code.split_once("fn ").filter(|(before, _)| is_head(before)) else { continue };
        let mut signature = line.to_owned();
        while !signature.contains('{') && !signature.contains(';') {
            let Some(next) = lines.next() else { break };
            signature.push(' ');
            signature.push_str(next);
        }
        let function: String = after.chars().take_while(|at| at.is_alphanumeric() || *at == '_').collect();
        // The last one: an argument may be a function with a result of its own.
        let signature = signature.split(" where ").next().unwrap();
        let result = signature.rsplit_once(") -> ").map_or("", |(_, result)| result);
        let gives = before.contains("async") || result.contains("impl Future") || result.contains("BoxFuture");
        let is_of_a_stream = line.starts_with("    ") && function == "poll_next" && text.contains(" Stream for ");
        let is_public = before.starts_with("pub ") || is_public_trait;
        if (gives && is_public) || is_of_a_stream {
            found.push(Found { name: format!("{of}::{function}"), is_of_a_trait: is_public_trait });
        }
    }
    found
}

/// Whether this stands before the `fn` of a function.
fn is_head(before: &str) -> bool {
    before.split_whitespace().all(|word| matches!(word, "pub" | "async" | "const" | "unsafe"))
}

/// The type of an `impl`, or the trait.
fn subject(line: &str) -> String {
    let line = line.split(" for ").last().unwrap();
    let line = line.trim_start_matches("pub trait ").trim_start_matches("impl");
    let line = if let Some(generic) = line.strip_prefix('<') { generic.split_once('>').unwrap().1 } else { line };
    line.trim().chars().take_while(|at| at.is_alphanumeric() || *at == '_').collect()
}
