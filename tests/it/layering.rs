//! Imports point down, and the walls hold: read from the sources themselves.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// The rooms, lowest first. A room may use those before it and none behind it, so no two use each other.
const ROOMS: [&str; 22] = [
    "fault",
    "lock",
    "words", // words
    "process",
    "model",
    "tool",
    "permission",
    "task",
    "tape",
    "tools", // contracts
    "kernel",
    "event",
    "prompt",
    "hook",
    "agent", // what decides, and what is shown of it
    "supervisor",
    "error",
    "ops",
    "actor", // processes
    "session",
    "runtime",
    "lib", // doors
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The crates beside the library.
fn crates() -> Vec<PathBuf> {
    fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// Every source file of the library with its room and its code lines: no comments, no tests.
fn code() -> Vec<(String, PathBuf, String)> {
    code_in(root().join("src"))
}

/// The same of the library and of all other crates.
fn all_code() -> Vec<(String, PathBuf, String)> {
    code().into_iter().chain(crates().into_iter().flat_map(|path| code_in(path.join("src")))).collect()
}

fn code_in(root: PathBuf) -> Vec<(String, PathBuf, String)> {
    let mut files = Vec::new();
    sources(&root, &mut files);
    let is_test = |path: &Path| {
        path.components().any(|part| matches!(part.as_os_str().to_str(), Some("tests" | "tests.rs" | "lab.rs")))
    };
    let read = |path: PathBuf| {
        let relative = path.strip_prefix(&root).unwrap().to_path_buf();
        let first = relative.components().next().unwrap().as_os_str().to_str().unwrap();
        let room = first.trim_end_matches(".rs").to_owned();
        let text = fs::read_to_string(&path).unwrap();
        let text = text.split("\nmod tests {").next().unwrap().to_owned();
        let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        (room, relative, lines.collect::<Vec<_>>().join("\n"))
    };
    files.into_iter().filter(|path| !is_test(path)).map(read).collect()
}

/// The rooms, and other names of the root, that a piece of code names behind `crate::`, also inside braces.
fn named(code: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        if let Some(group) = rest.strip_prefix('{') {
            let mut depth = 1;
            let mut item = String::new();
            for c in group.chars() {
                match c {
                    '{' => depth += 1,
                    '}' => depth -= 1,
                    _ => {}
                }
                if depth == 0 || (depth == 1 && c == ',') {
                    names.push(item.trim().split("::").next().unwrap_or_default().trim().to_owned());
                    item.clear();
                    if depth == 0 {
                        break;
                    }
                } else {
                    item.push(c);
                }
            }
        } else {
            let name: String = rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
            names.push(name);
        }
    }
    names
}

/// The imports of a piece of code that do not point down, and the names that it takes from the root of the crate, where nobody
/// sees from which room they come.
fn upward(room: &str, code: &str) -> Vec<String> {
    let place = |name: &str| ROOMS.iter().position(|room| *room == name);
    let here = place(room).unwrap_or_else(|| panic!("{room} stands in no place: add it to ROOMS"));
    let is_down = |name: &String| name.is_empty() || place(name).is_some_and(|there| there <= here);
    if room == "lib" { Vec::new() } else { named(code).into_iter().filter(|name| !is_down(name)).collect() }
}

/// S-15: Design §7: imports point down only, room by room.
#[test]
fn imports_point_down() {
    let mut wrong = BTreeSet::new();
    for (room, path, code) in code() {
        wrong.extend(upward(&room, &code).into_iter().map(|name| format!("{} uses {name}", path.display())));
    }
    assert_eq!(wrong, BTreeSet::new());
}

/// S-15: an arrow that points up is found, in each form that an import has, and so is the second half of a circle.
#[test]
fn an_import_that_points_up_is_found() {
    let tape_uses = |code: &str| upward("tape", code);
    assert_eq!(tape_uses("use crate::runtime::Runtime;"), ["runtime"]);
    assert_eq!(tape_uses("use crate::{\n    words::ids::Seq,\n    session::{Session, fork_at},\n};"), ["session"]);
    assert_eq!(tape_uses("fn f() -> crate::kernel::State {}"), ["kernel"]);
    assert_eq!(tape_uses("use crate::Session;"), ["Session"]);
    assert_eq!(tape_uses("use crate::{lock::Lock, tape::Store, words};"), [""; 0]);
    assert_eq!(upward("session", "use crate::runtime::X;"), ["runtime"]);
    assert_eq!(upward("runtime", "use crate::session::X;"), [""; 0]);
}

/// S-15: the face of the crate stays small: ten public modules, three inside of them, and twenty names at the root.
#[test]
fn the_face_of_the_crate_is_small() {
    let mut modules = BTreeSet::new();
    for (room, path, code) in code() {
        let names = code.lines().filter_map(|line| line.trim().strip_prefix("pub mod ")?.split([' ', ';']).next());
        modules.extend(
            names.map(|name| if room == "lib" { name.to_owned() } else { format!("{}: {name}", path.display()) }),
        );
    }
    let inside = ["ops.rs: replay", "tool.rs: truncate", "tools.rs: process"];
    let rooms = ["hook", "model", "ops", "permission", "runtime", "session", "supervisor", "tape", "tool", "tools"];
    assert_eq!(modules, inside.into_iter().chain(rooms).map(str::to_owned).collect());
    let lib = fs::read_to_string(root().join("src/lib.rs")).unwrap();
    let listed = lib.lines().filter_map(|line| line.strip_prefix("pub use ")?.rsplit_once("::"));
    let names = listed.map(|(_, names)| names.trim_end_matches(';').trim_matches(['{', '}']).split(',').count());
    assert!(names.sum::<usize>() <= 20);
}

/// Design §7: each outside crate stays behind its wall.
#[test]
fn outside_crates_stay_behind_their_walls() {
    let walls: [(&str, &[&str]); 8] = [
        ("ractor::", &["supervisor/shell.rs"]),
        ("reqwest::", &["model/"]),
        ("rusqlite::", &["tape/index"]),
        ("clap::", &[]),
        ("jsonc_parser::", &["permission/file/document"]),
        ("landlock::", &["process/sandbox"]),
        ("seccompiler::", &["process/sandbox"]),
        ("libc::", &["process/sandbox"]),
    ];
    let mut wrong = Vec::new();
    for (room, path, code) in code() {
        for (name, rooms) in walls {
            if code.contains(name) && !rooms.iter().any(|room| path.to_str().unwrap().starts_with(room)) {
                wrong.push(format!("{} uses {name}", path.display()));
            }
        }
        if room == "kernel" && (code.contains("tokio::") || code.contains("std::time::SystemTime")) {
            wrong.push(format!("{} is not pure", path.display()));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// The crates that only the library may name: others reach what they do through its public API.
const OURS_ALONE: [&str; 3] = ["ractor", "reqwest", "rusqlite"];

/// What a crate names that it may not, in its manifest or in its code.
fn named_past_the_library(manifest: &str, code: &str) -> Vec<&'static str> {
    let depends = |name: &str| {
        let lines = manifest.split("[dev-dependencies]").next().unwrap_or_default().lines();
        lines.map(str::trim_start).any(|line| line.split(['=', ' ', '.']).next() == Some(name))
    };
    let names = |name: &str| code.contains(&format!("{name}::"));
    OURS_ALONE.into_iter().filter(|name| depends(name) || names(name)).collect()
}

/// S-15: the crates beside the library have its public API alone, and leave what it is made of to it.
#[test]
fn other_crates_use_the_public_api_alone() {
    let crates = crates();
    assert!(crates.iter().any(|path| path.ends_with("tamtam-cli")));
    for path in crates {
        let manifest = fs::read_to_string(path.join("Cargo.toml")).unwrap();
        for (_, file, code) in code_in(path.join("src")) {
            let wrong = named_past_the_library(&manifest, &code);
            assert!(wrong.is_empty(), "{}: {} names {wrong:?}", path.display(), file.display());
            // A file of the library that is built into another crate would be its inside.
            assert!(!code.contains("#[path"), "{}: {}", path.display(), file.display());
        }
    }
}

/// S-15: a crate that names what is the library's is found.
#[test]
fn a_crate_that_goes_past_the_library_is_found() {
    let tests = "[dependencies]\nclap = \"4\"\n[dev-dependencies]\nreqwest = \"0.12\"";
    assert_eq!(named_past_the_library(tests, "use tamtam::Runtime;"), [""; 0]);
    assert_eq!(named_past_the_library("[dependencies]\nreqwest = { version = \"0.12\" }", ""), ["reqwest"]);
    assert_eq!(named_past_the_library("[dependencies]\nractor.workspace = true", ""), ["ractor"]);
    assert_eq!(named_past_the_library(tests, "fn f() -> rusqlite::Connection {}"), ["rusqlite"]);
}

/// S-14: the index speaks SQL to SQLite itself; nothing that maps objects to tables is among what is built.
#[test]
fn the_index_speaks_sql_and_nothing_maps_objects_to_tables() {
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let built: Vec<&str> = lock.lines().filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"')).collect();
    assert!(built.contains(&"rusqlite"));
    for mapper in ["diesel", "sea-orm", "sqlx", "toasty", "ormlite", "rbatis", "welds"] {
        assert!(!built.contains(&mapper), "{mapper}");
    }
    let sql = code().into_iter().filter(|(_, path, _)| path.starts_with("tape/index"));
    let sql: String = sql.map(|(_, _, code)| code).collect();
    for statement in ["create table", "insert into", "select "] {
        assert!(sql.contains(statement), "{statement}");
    }
}

/// Promise 13: the library reads no environment variable, home or current directory; the binary does and hands them in.
#[test]
fn the_library_reads_no_environment() {
    // Splitting a `PATH` that was handed in reads nothing.
    let reads = ["env::var", "env::vars", "env::args", "env::current_dir", "env::temp_dir", "home_dir("];
    let mut wrong = Vec::new();
    for (_, path, code) in code() {
        wrong.extend(
            reads.iter().filter(|read| code.contains(**read)).map(|read| format!("{} uses {read}", path.display())),
        );
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// AUTH-ERR-002: no code changes the environment, so reading a key leaves it as it was.
#[test]
fn nothing_changes_the_environment() {
    let changes = |code: &str| code.contains("set_var") || code.contains("remove_var");
    let wrong: Vec<_> = all_code().into_iter().filter(|(.., code)| changes(code)).map(|(_, path, _)| path).collect();
    assert_eq!(wrong, Vec::<PathBuf>::new());
}

/// One `impl ractor::Actor` in the crate, and no file that has outgrown its reader.
#[test]
fn there_is_one_actor_and_no_file_too_long_to_hold() {
    let all = all_code();
    let actors: usize = all.iter().map(|(_, _, code)| code.matches("Actor for Shell").count()).sum();
    let others: usize = all.iter().map(|(_, _, code)| code.matches("ractor::Actor for").count()).sum();
    assert!(actors + others <= 2 && actors >= 1, "{actors} {others}");
    let long: Vec<_> = all.iter().filter(|(_, _, code)| code.lines().count() > 800).map(|(_, path, _)| path).collect();
    assert_eq!(long, Vec::<&PathBuf>::new());
}
