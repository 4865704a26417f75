//! The corpus of harmless commands, each one really run in a small project, as it is and confined: none fails because it is confined.

use serde_json::Value;

use super::*;
use crate::permission::{Action, Globs, Profile, decide, seen_from, with_parts};

/// Commands of which the output, or how they end, depends on the moment or on the process.
const WAITS: &[&str] = &["tail -f log.txt"];

/// A small project with a history, and the files that the commands name.
async fn project() -> Scene {
    let scene = scene_with(|options| {
        // With the programs of this machine: some commands ask for the versions of compilers.
        let path = std::env::var_os("PATH").unwrap();
        options.environment.retain(|(name, _)| name != "PATH");
        options.environment.push(("PATH".into(), path));
    });
    for folder in ["src", "tests/it", "docs", "crates/core", "target", "dir1", "dir2", "old_src", "my folder"] {
        fs::create_dir_all(scene.path(folder)).unwrap();
    }
    for name in [
        "src/main.rs",
        "src/lib.rs",
        "src/foo.rs",
        "tests/it/main.rs",
        "README.md",
        "CHANGELOG.md",
        "docs/a.md",
        "Cargo.toml",
        "Cargo.lock",
        ".gitignore",
        "build.log",
        "log.txt",
        "config.ini",
        "file.txt",
        "f.txt",
        "f.csv",
        "data.txt",
        "data.csv",
        "nums.txt",
        "names.txt",
        "sorted.txt",
        "a.txt",
        "b.txt",
        "old.rs",
        "new.rs",
        "a.bin",
        "b.bin",
        "file.bin",
        "data.bin",
        "words.txt",
        "bar.txt",
        "scripts.txt",
        "file with spaces.txt",
        "crates/core/Cargo.toml",
        "Makefile",
        "dir1/x",
        "dir2/x",
    ] {
        fs::write(scene.path(name), "foo 1\nfn main() {}\nTODO needle,2\n").unwrap();
    }
    fs::write(scene.path("package.json"), r#"{"name":"x","dependencies":{"a":"1"}}"#).unwrap();
    fs::write(scene.path("data.json"), r#"[{"id":3}]"#).unwrap();
    fs::copy("/bin/true", scene.path("target/app")).unwrap();
    let history = "git init -q -b main . && git config user.name a && git config user.email a@b && git remote add origin http://127.0.0.1:9/x \
                   && for n in 1 2 3 4; do echo $n >> src/lib.rs; git add -A; git commit -qm \"fix $n\"; done; git tag v1.0; echo x >> src/lib.rs";
    assert_eq!(scene.bash(history).await.details["exit_code"], 0);
    scene
}

fn commands() -> Vec<String> {
    let lines = include_str!("../../../../permission/shell/corpus/harmless.jsonl").lines();
    let command = |line: &str| serde_json::from_str::<Value>(line).unwrap()["command"].as_str().unwrap().to_owned();
    lines.map(command).collect()
}

/// How a command ended: its exit code, or nothing where it did not end.
fn code(result: &ToolResult) -> Option<i64> {
    result.details["exit_code"].as_i64()
}

/// Must show 2 of the guards: of the harmless commands at most one in twenty is asked about, before it runs or because the kernel
/// refused it something, and none fails because it is confined.
#[tokio::test]
async fn no_harmless_command_fails_because_it_is_confined() {
    let scene = project().await;
    if !can_hold(&scene).await {
        return;
    }
    let workspace = scene.path("").display().to_string();
    let (rules, commands) = (Profile::Readonly.ruleset(), commands());
    let (mut asked, mut broken, mut ran) = (Vec::new(), Vec::new(), 0);
    for command in &commands {
        if WAITS.contains(&command.as_str()) {
            continue;
        }
        let line = Access::command(command, "", true);
        let verdict = decide(&[&rules], &seen_from(&workspace, &[], with_parts(vec![line])), &Globs::default());
        if verdict.judgement.action != Action::Allow {
            asked.push(command.as_str());
            continue;
        }
        assert!(verdict.confined, "{command}");
        let held = runs(&scene, &[], &[], command).await;
        ran += 1;
        // As it is, it may fail as well: a program is missing here, or a file.
        if code(&held) == Some(0) || code(&held) == code(&scene.bash(command).await) {
            continue;
        }
        match held.content.contains("ran confined") {
            true => asked.push(command),
            false => broken.push(format!("{command}: {:?} {}", code(&held), held.content)),
        }
    }
    println!("{ran} of {} harmless commands ran confined; asked about: {asked:?}", commands.len());
    assert_eq!(broken, Vec::<String>::new());
    assert!(asked.len() * 20 <= commands.len(), "{} asked: {asked:?}", asked.len());
}
