//! The corpus of attempts to get past the rules, each one really run: where the kernel holds the sandbox, none of them leaves a
//! trace outside of the workspace.
//!
//! `TAMTAM_SANDBOX_CORPUS=1 cargo test --lib sandbox::corpus -- --nocapture` runs all of them in place of every
//! fifth.

use serde::Deserialize;

use super::*;

/// Of an ordinary run.
const EVERY: usize = 10;
/// For attempts that wait for ever.
const SECONDS: u64 = 1;

#[derive(Deserialize)]
struct Attempt {
    command: String,
    expected: crate::permission::Action,
}

/// The distinct commands that the rules do not allow.
fn attempts() -> Vec<String> {
    let lines = include_str!("../../../../permission/shell/corpus/bypasses.jsonl");
    let attempts = lines.lines().map(|line| serde_json::from_str::<Attempt>(line).unwrap());
    let mut commands: Vec<_> =
        attempts.filter(|one| one.expected != crate::permission::Action::Allow).map(|one| one.command).collect();
    commands.sort();
    commands.dedup();
    commands
}

/// A scene for one attempt: a repository with some files, and the canary's folder beside it.
fn stage(sandbox: Sandbox) -> Scene {
    let scene = confined(sandbox);
    for (name, text) in [("f", "hi\n"), ("a", "ls\n"), ("g", "x\n"), ("sub/f", "hi\n"), ("Makefile", "x:\n\ttrue\n")] {
        fs::create_dir_all(scene.path("sub")).unwrap();
        fs::write(scene.path(name), text).unwrap();
    }
    fs::create_dir(scene.outside("dir")).unwrap();
    for (name, text) in [
        ("cp.sh", "#!/bin/sh\ntouch MARKER\ncat\n"),
        ("yes", "y\ny\n"),
        ("attr", "* filter=a\n"),
        ("attrd", "* diff=a\n"),
    ] {
        let path = scene.outside("dir").join(name);
        fs::write(&path, text.replace("MARKER", &scene.outside("marker").display().to_string())).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    scene
}

/// The attempt with the canary's folder in place of `/outside`, also where it is written in base64.
fn aimed(command: &str, scene: &Scene) -> String {
    use base64::Engine as _;
    let outside = scene.folder.path().join("outside").display().to_string();
    let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let hidden = encode(&format!("touch {outside}/marker\n"));
    command.replace("dG91Y2ggL291dHNpZGUvbWFya2Vy", &hidden).replace("/outside", &outside)
}

/// What is in the scene beside its workspace.
fn beside(scene: &Scene) -> BTreeMap<PathBuf, Option<String>> {
    let mut found = all(scene.folder.path());
    found.retain(|path, _| !path.starts_with(scene.path("")) && !path.starts_with(scene.folder.path().join("spill")));
    found
}

async fn run(scene: &Scene, command: &str) -> (bool, ToolResult) {
    let before = beside(scene);
    let repository = "git init -q . && git -c user.name=a -c user.email=a@a commit -qm a --allow-empty";
    assert_eq!(scene.bash(repository).await.details["exit_code"], 0);
    let result = scene.call(json!({ "command": aimed(command, scene), "timeout": SECONDS })).await;
    (beside(scene) != before, result)
}

/// Must show 1 of the issue: with the sandbox on, each attempt is really run, and no marker appears outside.
#[test]
fn no_attempt_of_the_corpus_leaves_a_trace_outside() {
    as_nobody(|| {
        block_on(async {
            if !is_held().await {
                return;
            }
            let (all, every) =
                (attempts(), if std::env::var_os("TAMTAM_SANDBOX_CORPUS").is_some() { 1 } else { EVERY });
            let (mut ran, mut escaped, mut would) = (0, Vec::new(), 0);
            for command in all.iter().step_by(every) {
                let scene = stage(Sandbox::required());
                let (traced, result) = run(&scene, command).await;
                ran += 1;
                if traced {
                    escaped.push(format!("{command:?}: {}", result.content));
                }
                assert!(!result.is_error(), "{command:?} was not run: {}", result.content);
                scene.is_clean();
                // The control: the same attempts leave their mark without a sandbox. Only those that do no harm then.
                if command.contains("touch /outside/marker") && !command.contains("rm ") {
                    would += usize::from(run(&stage(Sandbox::off()), command).await.0);
                }
            }
            println!(
                "{ran} of {} attempts run, {} left a trace; {would} leave one without a sandbox",
                all.len(),
                escaped.len()
            );
            assert!(all.len() >= 600 && would * 5 >= ran, "{} {would}", all.len());
            assert_eq!(escaped, Vec::<String>::new());
        });
    });
}
