#![allow(clippy::unwrap_used, clippy::panic)]

mod ends;
mod held;
mod nasty;
mod output;
mod sandbox;

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    sync::{Arc, Mutex},
};

use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    process::{Processes, Whose, sweep},
    tool::Progress,
};

/// A workspace with a tool in it.
struct Scene {
    folder: TempDir,
    bash: Bash,
    processes: Processes,
    cancel: CancellationToken,
}

fn environment() -> Vec<(OsString, OsString)> {
    [
        ("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"),
        ("HOME", "/home/somebody"),
        ("LANG", "C.UTF-8"),
    ]
    .map(|(name, value)| (name.into(), value.into()))
    .to_vec()
}

fn scene() -> Scene {
    scene_with(|_| ())
}

fn scene_with(change: impl FnOnce(&mut BashOptions)) -> Scene {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("ws")).unwrap();
    let mut options = BashOptions::new(environment());
    change(&mut options);
    Scene { folder, bash: Bash::new(options), processes: Processes::unwatched(), cancel: CancellationToken::new() }
}

impl Scene {
    fn context(&self) -> ToolContext {
        let mut context = ToolContext::detached(self.folder.path().join("ws"), self.folder.path().join("spill"));
        context.cancel = self.cancel.clone();
        context.processes = self.processes.clone();
        context
    }

    async fn call(&self, arguments: Value) -> ToolResult {
        self.bash.run(arguments, &self.context()).await
    }

    async fn bash(&self, command: &str) -> ToolResult {
        self.call(json!({ "command": command })).await
    }

    /// The command succeeded and wrote exactly this.
    async fn says(&self, command: &str, expected: &str) {
        let result = self.bash(command).await;
        assert_eq!(result.content, expected, "{command}");
        assert_eq!(result.details["exit_code"], 0);
        assert!(!result.is_error());
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("ws").join(name)
    }

    /// Nothing of any call is left.
    fn is_clean(&self) {
        assert_eq!(sweep(&Whose::Owner(self.processes.owner())), crate::process::Swept::default());
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        drop(sweep(&Whose::Owner(self.processes.owner())));
    }
}

/// Whether the process whose id a command wrote to a file is gone.
fn is_gone(pid: &Path) -> bool {
    let pid = fs::read_to_string(pid).unwrap();
    // A dead one that its new parent has not waited for yet is gone too.
    match fs::read_to_string(format!("/proc/{}/stat", pid.trim())) {
        Ok(stat) => stat[stat.rfind(')').unwrap()..].starts_with(") Z"),
        Err(_) => true,
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

/// BDD-BASH-001, BDD-BASH-014, TOOLRES-102
#[tokio::test]
async fn bdd_bash_001_a_command_runs_and_its_output_comes_back() {
    let scene = scene();
    let result = scene.bash("echo hello").await;
    assert_eq!(result.content, "hello");
    let details = &result.details;
    assert_eq!(
        (&details["exit_code"], &details["timed_out"], &details["truncated"]),
        (&json!(0), &json!(false), &json!(false))
    );
    assert_eq!(
        (&details["command"], &details["stdout"], &details["temp_file"]),
        (&json!("echo hello"), &Value::Null, &Value::Null)
    );
    assert!(!result.is_error());
    scene.is_clean();
}

/// BDD-BASH-002, FT-11
#[tokio::test]
async fn bdd_bash_002_a_failing_command_is_a_result() {
    let scene = scene();
    let result = scene.bash("echo before; exit 3").await;
    assert_eq!(result.content, "before\n\nCommand exited with code 3");
    assert!(!result.is_error());
    assert_eq!(scene.bash("exit 1").await.content, "Command exited with code 1");
}

/// BDD-BASH-003, 004, 010, 011, 020, 022
#[tokio::test]
async fn bdd_bash_003_it_is_a_real_bash() {
    let scene = scene();
    scene.says("TEST_VAR=hello; echo $TEST_VAR", "hello").await;
    scene.says("printf 'one\\ntwo\\nthree\\n'", "one\ntwo\nthree").await;
    scene.says("[[ -f /etc/hosts ]] && echo yes", "yes").await;
    scene.says("echo hello | tr h H", "Hello").await;
    scene.says("yes | head -5", "y\ny\ny\ny\ny").await;
    scene.says(r#"echo 'hello "world"'"#, "hello \"world\"").await;
    scene.says("   ", "(no output)").await;
    scene.says("cat <<END\nhere\nEND", "here").await;
    scene.says("echo $0 $# $-", "bash 0 hBc").await;
}

/// BDD-BASH-006, BDD-BASH-009, BDD-BASH-023, F01, F03
#[tokio::test]
async fn bdd_bash_006_the_folder_is_one_inside_the_workspace() {
    let scene = scene();
    fs::create_dir(scene.path("sub")).unwrap();
    fs::write(scene.path("sub/marker.txt"), "found").unwrap();
    fs::write(scene.path("marker.txt"), "found it").unwrap();
    std::os::unix::fs::symlink("sub", scene.path("inside")).unwrap();
    std::os::unix::fs::symlink("/tmp", scene.path("outside")).unwrap();
    let cat = |cwd: &str| scene.call(json!({ "command": "cat marker.txt", "cwd": cwd }));
    for (cwd, expected) in
        [("", "found it"), (".", "found it"), ("sub", "found"), ("inside", "found"), ("sub/../sub", "found")]
    {
        assert_eq!(cat(cwd).await.content, expected, "{cwd}");
    }
    let absolute = scene.path("sub");
    assert_eq!(cat(absolute.to_str().unwrap()).await.content, "found");
    let pwd = scene.call(json!({ "command": "pwd; echo $PWD", "cwd": "sub" })).await;
    let real = absolute.canonicalize().unwrap().display().to_string();
    assert_eq!(pwd.content, format!("{real}\n{real}"));
    for (cwd, expected) in [
        ("does/not/exist", "ENOENT"),
        ("marker.txt", "Not a directory"),
        ("/this/directory/does/not/exist", "outside the workspace"),
        ("..", "outside the workspace"),
        ("outside", "outside the workspace"),
        ("~", "outside the workspace"),
    ] {
        let result = cat(cwd).await;
        assert!(result.is_error() && result.content.contains(expected), "{cwd}: {}", result.content);
    }
}

/// BDD-BASH-007, F-23, FT-12, FT-13, FT-23: what cannot be asked for: an empty command among it.
#[tokio::test]
async fn bdd_bash_007_bad_arguments_are_errors_that_name_the_field() {
    let scene = scene();
    for (arguments, expected) in [
        (json!({ "command": "" }), "cannot be empty"),
        (json!({ "command": null }), "command is required"),
        (json!({}), "command is required"),
        (json!({ "command": 42 }), "`command`"),
        (json!({ "command": ["ls"] }), "`command`"),
        (json!({ "command": "a\0b" }), "NUL"),
        (json!({ "command": "x".repeat(200_000) }), "too long"),
        (json!({ "command": "true", "timeout": 0 }), "`timeout`"),
        (json!({ "command": "true", "timeout": 3601 }), "`timeout`"),
        (json!({ "command": "true", "timeout": -1 }), "`timeout`"),
        (json!({ "command": "true", "timeout": 1.5 }), "`timeout`"),
        (json!({ "command": "true", "timeout": "soon" }), "`timeout`"),
        (json!({ "command": "true", "cwd": 42 }), "`cwd`"),
        (json!([]), "bad arguments"),
        (json!("ls"), "bad arguments"),
    ] {
        let result = scene.call(arguments).await;
        assert!(result.is_error() && result.content.contains(expected), "{expected}: {}", result.content);
    }
    for timeout in [json!(1), json!(3600), json!("42"), json!(5.0), Value::Null] {
        assert_eq!(scene.call(json!({ "command": "true", "timeout": timeout })).await.details["exit_code"], 0);
    }
    assert_eq!(
        scene.bash.limit(&json!({ "command": "true", "timeout": 3600 })),
        Duration::from_secs(if scene.bash.sandbox.level.holds() { 7_220 } else { 3_610 })
    );
}

/// BDD-BASH-012, F-23: a command inherits the environment that was handed in.
#[tokio::test]
async fn bdd_bash_012_the_environment_is_the_one_that_was_handed_in() {
    scene().says("echo $HOME", "/home/somebody").await;
    let scene = scene_with(|options| options.environment.push(("OF_THE_HOST".into(), "here".into())));
    scene.says("bash -c 'echo $OF_THE_HOST'", "here").await;
}

/// A library host that hands in no environment has a shell that works: programs are found, text is UTF-8, no home is made up.
#[tokio::test]
async fn without_an_environment_commands_find_programs_and_no_home() {
    let scene = scene();
    let bash = Bash::new(BashOptions::new([]));
    let command = json!({ "command": "env | grep -c ^PATH=; python3 -c 'print(\"é\")'; echo \"[$HOME]\"" });
    let result = bash.run(command, &scene.context()).await;
    assert_eq!(result.content, "1\né\n[]");
}

/// BDD-BASH-013, F-23: 127, and what the shell says of it.
#[tokio::test]
async fn bdd_bash_013_an_unknown_command_ends_with_127() {
    let result = scene().bash("nonexistent_command_xyz_123").await;
    assert_eq!(
        result.content,
        "bash: line 1: nonexistent_command_xyz_123: command not found\n\nCommand exited with code 127"
    );
}

/// BDD-BASH-018, FT-12, H05: standard input is empty, so what reads it ends at once.
#[tokio::test]
async fn bdd_bash_018_what_reads_its_input_finds_none_and_ends() {
    let scene = scene();
    scene.says("cat", "(no output)").await;
    scene.says("read -r line; echo got:$line", "got:").await;
    for command in [
        "head -1",
        "python3 -c 'input()'",
        "sort",
        "bash",
        "read -p password: x < /dev/tty",
        "cat > /dev/tty",
        "git init -q . && git -c user.name=a -c user.email=a@b commit --allow-empty",
        "git -c core.askPass= ls-remote http://127.0.0.1:9/none",
        "ssh -o ConnectTimeout=1 -p 9 nobody@127.0.0.1",
        "less /etc/hosts > /dev/null",
    ] {
        let result = scene.call(json!({ "command": command, "timeout": 10 })).await;
        assert_eq!(result.details["timed_out"], false, "{command}: {}", result.content);
    }
    scene.is_clean();
}

/// J.2 1.4, J.2 2.3
#[tokio::test]
async fn a_prefix_comes_first_and_a_missing_shell_is_an_error() {
    let scene = scene_with(|options| options.prefix = Some("echo prefix".into()));
    scene.says("echo command", "prefix\ncommand").await;
    let scene = scene_with(|options| options.shell = Some("/no/such/shell".into()));
    let result = scene.bash("true").await;
    assert!(result.is_error() && result.content.contains("ENOENT"), "{}", result.content);
}

/// H09: canaries of all kinds.
#[tokio::test]
async fn h09_no_secret_is_handed_on() {
    let canaries = [
        ("OPENAI_API_KEY", "c"),
        ("OPENAI_BASE_URL", "c"),
        ("ANTHROPIC_AUTH", "c"),
        ("AWS_PROFILE", "c"),
        ("GITHUB_TOKEN", "c"),
        ("my_secret", "c"),
        ("DB_PASSWORD", "c"),
        ("GOOGLE_APPLICATION_CREDENTIALS", "c"),
        ("GIT_DIR", "c"),
        ("LD_PRELOAD", "c"),
        ("BASH_ENV", "c"),
        ("BASH_FUNC_ls%%", "() { echo c; }"),
        ("DATABASE_URL", "postgres://user:canary@host/db"),
        ("TAMTAM_HOME", "c"),
    ];
    let with_canaries = |options: &mut BashOptions| {
        options.environment.extend(canaries.map(|(name, value)| (name.into(), value.into())));
        options.environment.push(("PLAIN_URL".into(), "http://host/x@y:z".into()));
    };
    let scene = scene_with(with_canaries);
    let result = scene.bash("env").await;
    for (name, _) in canaries {
        assert!(!result.content.contains(&format!("{name}=")), "{name}");
    }
    for name in ["PATH=", "HOME=", "LANG=", "PLAIN_URL=", "GIT_TERMINAL_PROMPT=0", "TAMTAM_CALL="] {
        assert!(result.content.contains(name), "{name}");
    }
    let scene = scene_with(|options| {
        with_canaries(options);
        options.allow = Some(vec!["PATH".into(), "GITHUB_TOKEN".into()]);
    });
    let result = scene.bash("env").await;
    assert!(
        result.content.contains("GITHUB_TOKEN=c")
            && !result.content.contains("HOME=")
            && !result.content.contains("PLAIN")
    );
}

/// What the rules judge is the command itself; a call is never repeated and never runs beside another.
#[test]
fn the_tool_says_what_it_is() {
    let bash = Bash::new(BashOptions::new(environment()));
    assert_eq!(
        bash.access(&json!({ "command": "rm -rf x" })),
        [Access::command("rm -rf x", "", bash.sandbox.level.holds())]
    );
    assert_eq!((bash.effect(), bash.parallel(), bash.name()), (crate::tool::Effect::Once, false, "bash"));
    assert_eq!(bash.schema()["required"], json!(["command"]));
}
