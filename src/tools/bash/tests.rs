#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    sync::{Arc, Mutex},
};

use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    process::{Processes, Whose, sweep::sweep},
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
        (&json!("echo hello"), &json!("hello\n"), &Value::Null)
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

/// BDD-BASH-005, FT-11
#[tokio::test]
async fn bdd_bash_005_a_timeout_is_a_result_with_what_was_written() {
    let scene = scene();
    let result = scene.call(json!({ "command": "echo first; tail -f /dev/null", "timeout": 1 })).await;
    assert_eq!(result.content, "first\n\nCommand timed out after 1 seconds");
    assert_eq!((&result.details["timed_out"], &result.details["exit_code"]), (&json!(true), &Value::Null));
    assert!(!result.is_error());
    let result = scene.call(json!({ "command": "tail -f /dev/null", "timeout": "1" })).await;
    assert_eq!(result.content, "Command timed out after 1 seconds");
    scene.is_clean();
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

/// BDD-BASH-007, FT-12, FT-13, FT-23: what cannot be asked for.
#[tokio::test]
async fn bdd_bash_007_bad_arguments_are_errors_that_name_the_field() {
    let scene = scene();
    for (arguments, expected) in [
        (json!({ "command": "" }), "cannot be empty"),
        (json!({ "command": null }), "command is required"),
        (json!({}), "command is required"),
        (Value::Null, "command is required"),
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
    assert_eq!(scene.bash.limit(&json!({ "command": "true", "timeout": 3600 })), Duration::from_secs(3610));
}

/// BDD-BASH-008, FT-10: together for the model, apart in the details.
#[tokio::test]
async fn bdd_bash_008_both_streams_come_in_order_and_are_kept_apart() {
    let scene = scene();
    let result = scene.bash("echo out; sleep 0.1; echo err >&2; sleep 0.1; echo more").await;
    assert_eq!(result.content, "out\nerr\nmore");
    assert_eq!((&result.details["stdout"], &result.details["stderr"]), (&json!("out\nmore\n"), &json!("err\n")));
    assert_eq!((number(&result.details["stdout_bytes"]), number(&result.details["stderr_bytes"])), (9, 4));
}

/// BDD-BASH-012, F-23: the environment that was handed in.
#[tokio::test]
async fn bdd_bash_012_the_environment_is_the_one_that_was_handed_in() {
    scene().says("echo $HOME", "/home/somebody").await;
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

/// BDD-BASH-013, F-23
#[tokio::test]
async fn bdd_bash_013_an_unknown_command_ends_with_127() {
    let result = scene().bash("nonexistent_command_xyz_123").await;
    assert_eq!(
        result.content,
        "bash: line 1: nonexistent_command_xyz_123: command not found\n\nCommand exited with code 127"
    );
}

/// BDD-BASH-015 (both meanings), BDD-BASH-021, BASH-ERR-002, F-25, FT-4: too many lines.
#[tokio::test]
async fn bdd_bash_015_too_many_lines_keep_the_last_ones_and_a_file() {
    let scene = scene();
    for (lines, omitted) in [(3000, 1000), (2500, 500), (5000, 3000)] {
        let result = scene.bash(&format!("seq 1 {lines}")).await;
        let (notice, shown) = result.content.split_once('\n').unwrap();
        assert!(notice.contains(&format!("{omitted} lines omitted")), "{notice}");
        let expected: Vec<_> = (omitted + 1..=lines).map(|n| n.to_string()).collect();
        assert_eq!(shown, expected.join("\n"), "the last lines, in order");
        assert_eq!(result.details["truncated"], true);
        let file = result.details["temp_file"].as_str().unwrap();
        assert!(notice.contains(file));
        assert_eq!(fs::read_to_string(file).unwrap().lines().count(), lines);
    }
    let result = scene.bash("seq 1 2000").await;
    assert!(result.content.starts_with("1\n2\n") && result.content.ends_with("\n2000"));
    assert_eq!((&result.details["truncated"], &result.details["temp_file"]), (&json!(false), &Value::Null));
}

/// BDD-BASH-016 (both meanings), BDD-TRC-014, F-24, F-25, H04: too many bytes.
#[tokio::test]
async fn bdd_bash_016_too_many_bytes_keep_the_end_and_a_file_with_everything() {
    let scene = scene();
    for (last, bytes) in [(50_000_usize, 288_894_u64), (20_000, 108_894)] {
        let result = scene.bash(&format!("seq 1 {last}")).await;
        let notice = result.content.lines().next().unwrap();
        assert!(
            notice.contains(&format!("original {bytes} bytes")) && notice.contains(&format!("of {last} lines")),
            "{notice}"
        );
        assert!(result.content.ends_with(&format!("\n{}\n{last}", last - 1)));
        assert!(result.content.len() < 52_000);
        let file = result.details["temp_file"].as_str().unwrap();
        assert!(notice.contains(file));
        let whole: String = (1..=last).map(|n| format!("{n}\n")).collect();
        assert_eq!(fs::read_to_string(file).unwrap(), whole);
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(number(&result.details["truncation"]["total_bytes"]), bytes);
    }
}

/// BDD-BASH-017, BASH-ERR-005: characters that are split between reads, and at the cut.
#[tokio::test]
async fn bdd_bash_017_characters_are_never_torn() {
    let scene = scene();
    scene.says("echo 中文测试输出", "中文测试输出").await;
    scene.says(r"printf '\xe4\xbd'; sleep 0.1; printf '\xa0\n'", "你").await;
    let torn = scene.bash(r"printf '\xe4\xbd'; sleep 0.1; echo x >&2; sleep 0.1; printf '\xa0\n'").await;
    assert!(torn.content.contains('你') && !torn.content.contains('\u{fffd}'), "{}", torn.content);
    for command in
        ["yes 你好世界 | head -c 30000", "yes 你好世界 | head -n 20000", "yes 你 | head -c 299999 | tr -d '\\n'"]
    {
        let result = scene.bash(command).await;
        let shown = result.content.trim_end_matches('\u{fffd}');
        assert!(shown.contains('你') && !shown.contains('\u{fffd}'), "{command}");
    }
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

/// BDD-BASH-019, BASH-ERR-004
#[tokio::test]
async fn bdd_bash_019_a_timeout_leaves_no_process() {
    let scene = scene();
    let result =
        scene.call(json!({ "command": "sleep 999 & echo $! > a; sleep 999 & echo $! > b; wait", "timeout": 1 })).await;
    assert_eq!(result.details["timed_out"], true);
    assert!(is_gone(&scene.path("a")) && is_gone(&scene.path("b")));
    scene.is_clean();
}

/// BASH-ERR-001, BASH-ERR-003, H04: bytes that are no text.
#[tokio::test]
async fn bash_err_001_binary_output_does_no_harm() {
    let scene = scene();
    let result = scene.bash("head -c 100 /bin/ls").await;
    assert!(!result.is_error() && result.content.contains("ELF"));
    let result = scene.bash("head -c 300000 /dev/urandom; echo; echo end").await;
    assert!(result.content.ends_with("\nend") && result.content.len() < 52_000);
    assert_eq!(number(&result.details["truncation"]["total_bytes"]), 300_005);
    let result = scene.bash(r"printf '\033[31mred\033[0m normal\n'").await;
    assert!(result.content.contains("red") && result.content.contains("normal"));
}

/// F-23: the signal is named.
#[tokio::test]
async fn a_signal_is_named() {
    let scene = scene();
    let result = scene.bash("kill -KILL $$").await;
    assert_eq!(result.content, "Command was ended by signal SIGKILL (9)");
    assert_eq!((&result.details["signal"], &result.details["exit_code"]), (&json!("SIGKILL"), &Value::Null));
    let result = scene.bash("bash -c 'kill -SEGV $$' 2>/dev/null; exit $?").await;
    assert!(result.content.contains("code 139") && result.content.contains("SIGSEGV"), "{}", result.content);
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

/// H01: the command ended, so the call does, and what it left running is killed.
#[tokio::test]
async fn h01_a_background_child_does_not_hold_up_the_call_and_does_not_outlive_it() {
    let scene = scene();
    let result = scene.bash("sleep 999 & echo $! > pid; echo ok").await;
    assert_eq!(result.content, "ok");
    assert_eq!(result.details["exit_code"], 0);
    assert!(number(&result.details["duration_ms"]) < 5_000);
    assert!(is_gone(&scene.path("pid")));
    // What it writes while it may is kept.
    let late = scene.bash("(sleep 0.05; echo late) & echo first").await;
    assert_eq!(late.content, "first\nlate");
    scene.is_clean();
}

/// The ways of getting away from a shell. Each leaves its process id in the file `pid`.
const ESCAPES: &[&str] = &[
    "setsid bash -c 'echo $$ > pid; exec sleep 999' &",
    "setsid setsid bash -c 'echo $$ > pid; exec sleep 999' & disown",
    "(setsid bash -c '(echo $BASHPID > pid; exec sleep 999) &' &)",
    "nohup bash -c 'echo $$ > pid; exec sleep 999' >/dev/null 2>&1 &",
    "setsid bash -c 'trap \"\" TERM HUP INT; echo $$ > pid; while :; do sleep 1; done' >/dev/null 2>&1 &",
    "env -i setsid bash -c 'echo $$ > pid; exec sleep 999' >/dev/null 2>&1 &",
    "env -i setsid bash -c '(echo $BASHPID > pid; exec -c sleep 999) & exit' >/dev/null 2>&1 &",
    "cd / && setsid bash -c \"cd '$OLDPWD'; echo \\$\\$ > pid; cd /; exec sleep 999\" </dev/null >/dev/null 2>&1 &",
    "python3 -c 'import os,time\nif os.fork()==0:\n os.setsid()\n if os.fork()==0:\n  open(\"pid\",\"w\").write(str(os.getpid()))\n  [os.close(n) for n in range(3)]\n  time.sleep(999)\n os._exit(0)'",
    "bash -c 'echo $$ > pid; kill -STOP $$' &",
];

/// H02, promise 10, issue 2 "must show" 6, nasty case 7: nothing is left after a plain end, a timeout, an abort and a drop.
#[tokio::test]
async fn h02_nothing_gets_away() {
    let until_pid = "\nwhile [ ! -s pid ]; do sleep 0.01; done\n";
    for escape in ESCAPES {
        for how in ["end", "timeout", "abort", "drop"] {
            let scene = scene();
            let pid = scene.path("pid");
            let wait = if how == "end" { "" } else { "touch ready; sleep 999" };
            let command = json!({ "command": format!("{escape}{until_pid}{wait}"), "timeout": if how == "timeout" { 1 } else { 20 } });
            let context = scene.context();
            let ready = async {
                while !scene.path("ready").exists() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            match how {
                "abort" => {
                    let abort = async {
                        ready.await;
                        scene.cancel.cancel();
                    };
                    let (result, ()) = tokio::join!(scene.bash.run(command, &context), abort);
                    assert_eq!(result.details["aborted"], true);
                }
                "drop" => {
                    let call = scene.bash.run(command, &context);
                    tokio::select! { _ = call => panic!("it ended"), () = ready => {} }
                }
                _ => {
                    let result = scene.bash.run(command, &context).await;
                    assert_eq!(result.details["timed_out"], how == "timeout", "{escape}: {}", result.content);
                    assert_eq!(result.details["left"], json!([]));
                }
            }
            assert!(is_gone(&pid), "{how}: {escape}");
            scene.is_clean();
        }
    }
}

/// H06: stopped, 126, 127; a timeout still works on what is stopped.
#[tokio::test]
async fn h06_every_kind_of_end_is_reported_truly() {
    let scene = scene();
    let stopped = scene.call(json!({ "command": "kill -STOP $$", "timeout": 1 })).await;
    assert_eq!(stopped.details["timed_out"], true);
    fs::write(scene.path("plain"), "").unwrap();
    fs::set_permissions(scene.path("plain"), fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(scene.bash("./plain").await.details["exit_code"], 126);
    assert_eq!(scene.bash("./none").await.details["exit_code"], 127);
    assert_eq!(scene.bash("if then").await.details["exit_code"], 2);
    assert_eq!(scene.bash("kill -TERM $$").await.details["signal"], "SIGTERM");
    scene.is_clean();
}

/// H07, scaled: no zombie and no handle stays behind.
#[tokio::test]
async fn h07_many_commands_leave_no_zombie_and_no_handle() {
    let scene = scene();
    scene.says("echo warm", "warm").await;
    let handles = || fs::read_dir("/proc/self/fd").unwrap().count();
    let before = handles();
    for _ in 0..60 {
        scene.says("echo x | cat", "x").await;
    }
    assert!(handles() <= before + 1, "{before} then {}", handles());
    let children = fs::read_to_string(format!("/proc/self/task/{}/children", std::process::id())).unwrap_or_default();
    assert_eq!(children.trim(), "");
}

/// H04, nasty case 8: a flood costs no memory and no time beyond the limit; the file stops at its cap; the end is kept.
#[tokio::test]
async fn h04_a_flood_is_bounded() {
    let scene = scene_with(|options| options.spill_bytes_max = 1024 * 1024);
    let result = scene.bash("yes | head -c 50000000; echo end").await;
    assert!(result.content.ends_with("y\nend"));
    assert_eq!(number(&result.details["truncation"]["total_bytes"]), 50_000_004);
    assert_eq!(fs::metadata(result.details["temp_file"].as_str().unwrap()).unwrap().len(), 1024 * 1024);
    assert!(result.content.contains("the file is full"));
    let result = scene.call(json!({ "command": "cat /dev/zero", "timeout": 1 })).await;
    assert_eq!(result.details["timed_out"], true);
    assert!(number(&result.details["duration_ms"]) < 6_000);
    // A flood from a child that outlives the command.
    let result = scene.bash("yes & echo done").await;
    assert_eq!(result.details["exit_code"], 0);
    scene.is_clean();
}

/// Nasty case 8: where the file cannot be written, the end is still there.
#[tokio::test]
async fn an_output_that_cannot_be_kept_is_still_shown() {
    let scene = scene();
    fs::write(scene.folder.path().join("spill"), "in the way").unwrap();
    let result = scene.bash("seq 1 50000").await;
    assert!(result.content.ends_with("\n50000") && result.content.contains("could not be kept"));
    assert!(result.details["temp_file_error"].is_string());
}

/// H08: a fork bomb and a memory hog. The limit of processes binds no root, so there the bomb runs as another user.
#[tokio::test]
async fn h08_a_bomb_and_a_hog_are_contained() {
    let scene = scene_with(|options| {
        options.memory_bytes_max = Some(300 * 1024 * 1024);
        options.processes_max = Some(200);
    });
    let result = scene.bash("python3 -c 'x = bytearray(10**9)'").await;
    assert_eq!(result.details["exit_code"], 1);
    assert!(result.content.contains("MemoryError"), "{}", result.content);
    let bomb = "b() { b | b & }; b; sleep 999";
    let command = match rustix::process::geteuid().is_root() {
        true => format!("setpriv --reuid 65534 --clear-groups bash -c '{bomb}' 2>/dev/null"),
        false => format!("{bomb} 2>/dev/null"),
    };
    let result = scene.call(json!({ "command": command, "timeout": 1 })).await;
    assert_eq!(result.details["left"], json!([]));
    scene.is_clean();
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

/// Already aborted: nothing is started.
#[tokio::test]
async fn an_aborted_call_starts_nothing_and_a_running_one_says_what_is_known() {
    let scene = scene();
    scene.cancel.cancel();
    let result = scene.bash("touch started").await;
    assert_eq!(result.error, Some(ErrorReason::Aborted));
    assert!(result.content.contains("Operation aborted") && !scene.path("started").exists());

    let scene = self::scene();
    let context = scene.context();
    let abort = async {
        while !scene.path("ready").exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        scene.cancel.cancel();
    };
    let command =
        json!({ "command": "trap 'echo tidy; exit' TERM; echo begun; touch ready; while :; do sleep 0.05; done" });
    let (result, ()) = tokio::join!(scene.bash.run(command, &context), abort);
    assert_eq!(result.error, Some(ErrorReason::Aborted));
    // The shell says on its other stream that its `sleep` was terminated: before or after, for the two are read side by side.
    let told = &result.content;
    assert!(told.starts_with("begun\n") && told.contains("tidy\n") && told.ends_with("\n\nCommand aborted"), "{told}");
    scene.is_clean();
}

/// pi #44: what runs long shows how far it is.
#[tokio::test]
async fn a_running_command_shows_the_end_of_its_output() {
    let scene = scene();
    let mut context = scene.context();
    let reports = Arc::new(Mutex::new(Vec::new()));
    let sink = reports.clone();
    context.progress = Progress::new(move |_, metadata| sink.lock().unwrap().push(metadata));
    scene.bash.run(json!({ "command": "for i in 1 2 3 4; do echo line $i; sleep 0.12; done" }), &context).await;
    let reports = reports.lock().unwrap();
    assert!(reports.len() >= 2, "{reports:?}");
    let last = reports.last().unwrap()["tail"].as_str().unwrap();
    assert!(last.contains("line 1\nline 2"), "{last}");
}

/// What the rules judge is the command itself; a call is never repeated and never runs beside another.
#[test]
fn the_tool_says_what_it_is() {
    let bash = Bash::new(BashOptions::new(environment()));
    assert_eq!(bash.access(&json!({ "command": "rm -rf x" })), [Access::new("bash", "rm -rf x")]);
    assert_eq!((bash.effect(), bash.parallel(), bash.name()), (crate::tool::Effect::Once, false, "bash"));
    assert_eq!(bash.schema()["required"], json!(["command"]));
}

/// Two calls at once do not end each other's processes.
#[tokio::test]
async fn calls_leave_each_other_alone() {
    let scene = scene();
    let (long, short) =
        tokio::join!(scene.bash("setsid sleep 0.6; echo done"), scene.bash("setsid sleep 999 & echo short"));
    assert_eq!((long.content.as_str(), short.content.as_str()), ("done", "short"));
    scene.is_clean();
}
