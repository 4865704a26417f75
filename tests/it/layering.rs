//! Imports point down, and the walls stand: read from the sources themselves.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// The layers, lowest first. A module may use its own layer and those below.
const LAYERS: [&[&str]; 5] = [
    &["fault", "ids", "lock", "message", "usage"],
    // `event` is of the contracts, but it shows what the core decided, so it stands with the core.
    &["model", "tool", "tools", "permission", "tape", "process", "context"],
    &["session", "prompt", "event", "hook", "agent"],
    &["supervisor", "actors", "error", "replay", "restore", "listing", "sweep"],
    &["runtime", "handle", "cli", "main"],
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

/// Every source file with the top module it belongs to and its code lines: no comments, no tests.
fn code() -> Vec<(String, PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let is_test = |path: &Path| {
        path.components().any(|part| matches!(part.as_os_str().to_str(), Some("tests" | "tests.rs" | "lab.rs")))
    };
    let read = |path: PathBuf| {
        let relative = path.strip_prefix(&root).unwrap().to_path_buf();
        let first = relative.components().next().unwrap().as_os_str().to_str().unwrap();
        let module = first.trim_end_matches(".rs").to_owned();
        let text = fs::read_to_string(&path).unwrap();
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap().to_owned();
        let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        (module, relative, lines.collect::<Vec<_>>().join("\n"))
    };
    files.into_iter().filter(|path| !is_test(path)).map(read).collect()
}

/// The top modules that a piece of code names behind `crate::`, also inside braces.
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

/// S-15: Design §7: imports point down only.
#[test]
fn imports_point_down() {
    let level: BTreeMap<&str, usize> =
        LAYERS.iter().enumerate().flat_map(|(level, names)| names.iter().map(move |name| (*name, level))).collect();
    let mut wrong = Vec::new();
    for (module, path, code) in code() {
        if module == "lib" {
            continue;
        }
        let here =
            level.get(module.as_str()).unwrap_or_else(|| panic!("{module} stands in no layer: add it to LAYERS"));
        for name in named(&code) {
            if let Some(there) = level.get(name.as_str())
                && there > here
            {
                wrong.push(format!("{} uses {name}", path.display()));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// Design §7: each outside crate stays behind its wall.
#[test]
fn outside_crates_stay_behind_their_walls() {
    let walls: [(&str, &[&str]); 4] = [
        ("ractor::", &["actors", "supervisor"]),
        ("reqwest::", &["model"]),
        ("rusqlite::", &["tape"]),
        ("clap::", &["main", "cli"]),
    ];
    let mut wrong = Vec::new();
    for (module, path, code) in code() {
        for (name, rooms) in walls {
            if code.contains(name) && !rooms.contains(&module.as_str()) {
                wrong.push(format!("{} uses {name}", path.display()));
            }
        }
        if module == "session" && (code.contains("tokio::") || code.contains("std::time::SystemTime")) {
            wrong.push(format!("{} is not pure", path.display()));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// S-14: the index speaks SQL to SQLite itself; nothing that maps objects to tables is among what is built.
#[test]
fn the_index_speaks_sql_and_nothing_maps_objects_to_tables() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let lock = fs::read_to_string(root.join("Cargo.lock")).unwrap();
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
    for (module, path, code) in code() {
        if matches!(module.as_str(), "main" | "cli") {
            continue;
        }
        wrong.extend(
            reads.iter().filter(|read| code.contains(**read)).map(|read| format!("{} uses {read}", path.display())),
        );
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// One `impl ractor::Actor` in the crate, and no file that has outgrown its reader.
#[test]
fn there_is_one_actor_and_no_file_too_long_to_hold() {
    let all = code();
    let actors: usize = all.iter().map(|(_, _, code)| code.matches("Actor for Shell").count()).sum();
    let others: usize = all.iter().map(|(_, _, code)| code.matches("ractor::Actor for").count()).sum();
    assert!(actors + others <= 2 && actors >= 1, "{actors} {others}");
    let long: Vec<_> = all.iter().filter(|(_, _, code)| code.lines().count() > 800).map(|(_, path, _)| path).collect();
    assert_eq!(long, Vec::<&PathBuf>::new());
}
