//! `tamtam tool`: one call, as the model would see it, of a process that can be killed or starved in the middle of it.

#[cfg(target_os = "linux")]
use std::process::Command;

use serde_json::{Value, json};

use super::lab::Lab;

fn names(lab: &Lab) -> Vec<String> {
    let entries = std::fs::read_dir(lab.work("")).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Issue 4, must show 7: a pattern that another grep would take for an option that runs a program is only a pattern.
#[test]
fn nasty_12_a_pattern_that_looks_like_an_option_finds_text_and_runs_nothing() {
    let lab = Lab::new();
    std::fs::write(lab.work("notes"), "use --pre=touch x to run it\n").unwrap();
    let ended = lab.run(&["tool", "grep", r#"{"pattern":"--pre=touch x"}"#]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let result: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(result["content"], "notes:1: use --pre=touch x to run it");
    assert_eq!(names(&lab), ["notes"], "nothing was run");
}

/// Runs `tamtam tool write` behind a line of shell, on a file that has an old content.
#[cfg(target_os = "linux")]
fn write_behind(lab: &Lab, shell: &str, content: &str) -> std::process::Output {
    let arguments = json!({"path": "f", "content": content}).to_string();
    let mut command = Command::new("bash");
    command.args(["-c", &format!("{shell}; exec \"$0\" tool write \"$1\"")]);
    command.args([env!("CARGO_BIN_EXE_tamtam"), &arguments]).current_dir(lab.work(""));
    command.env("HOME", lab.path("home")).output().unwrap()
}

/// F08: a disk quota that is reached in the middle of a write leaves the old content, an error and nothing else.
#[cfg(target_os = "linux")]
#[test]
fn nasty_03_a_write_over_the_size_limit_leaves_the_old_content() {
    let lab = Lab::new();
    std::fs::write(lab.work("f"), "old content\n").unwrap();
    let output = write_behind(&lab, "trap '' XFSZ; ulimit -f 8", &"new ".repeat(10_000));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["is_error"], true);
    assert!(result["content"].as_str().unwrap().contains("File too large"), "{result}");
    assert_eq!(std::fs::read_to_string(lab.work("f")).unwrap(), "old content\n");
    assert_eq!(names(&lab), ["f"]);
}

/// F08: past that limit the system kills who writes, so nobody tries: neither the file nor the output of a command.
#[cfg(target_os = "linux")]
#[test]
fn nasty_03_a_write_over_the_size_limit_kills_nobody() {
    let lab = Lab::new();
    std::fs::write(lab.work("f"), "old content\n").unwrap();
    let output = write_behind(&lab, "ulimit -c 0; ulimit -f 8", &"new ".repeat(10_000));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(result["content"].as_str().unwrap().contains("File too large"), "{result}");
    assert_eq!(std::fs::read_to_string(lab.work("f")).unwrap(), "old content\n");
    assert_eq!(names(&lab), ["f"]);
    let command = json!({"command": "seq 1 20000"}).to_string();
    let output = Command::new("bash")
        .args(["-c", "ulimit -c 0; ulimit -f 8; exec \"$0\" tool bash \"$1\"", env!("CARGO_BIN_EXE_tamtam"), &command])
        .current_dir(lab.work(""))
        .env("HOME", lab.path("home"))
        .env("TMPDIR", lab.path(""))
        .output()
        .unwrap();
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let content = result["content"].as_str().unwrap();
    assert!(content.contains("The first 8.0KB of the output: ") && content.ends_with("\n20000"), "{result}");
}

/// F08: killed at any moment. What was begun may lie there, under a name that find and grep pass over; the file is whole.
#[cfg(target_os = "linux")]
#[test]
fn nasty_03_a_write_that_is_killed_leaves_the_old_content_or_the_new_one() {
    let lab = Lab::new();
    let (old, new) = ("old ".repeat(25_000), "new ".repeat(25_000));
    let arguments = json!({ "path": "f", "content": new }).to_string();
    for round in 0..20 {
        std::fs::write(lab.work("f"), &old).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tamtam"));
        command.args(["tool", "write", &arguments]).current_dir(lab.work("")).env("HOME", lab.path("home"));
        let mut writer = command.stdout(std::process::Stdio::null()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(round));
        writer.kill().unwrap();
        writer.wait().unwrap();
        let content = std::fs::read_to_string(lab.work("f")).unwrap();
        assert!(content == old || content == new, "{} bytes", content.len());
    }
    std::fs::write(lab.work(".tamtam-0123456789abcdef.tmp"), "new ").unwrap();
    assert!(names(&lab).iter().all(|name| name == "f" || (name.starts_with(".tamtam-") && name.ends_with(".tmp"))));
    let found = lab.run(&["tool", "find", r#"{"pattern":"**"}"#]);
    assert_eq!(serde_json::from_str::<Value>(&found.stdout).unwrap()["content"], "f");
}

/// F08, R8: a full disk. Needs a file system of its own, so a namespace; where there is none it shows nothing and says so.
#[cfg(target_os = "linux")]
#[test]
fn nasty_03_a_full_disk_leaves_the_old_content() {
    let lab = Lab::new();
    let mount = "mount -t tmpfs -o size=64k none .; cd .";
    let script = format!("{mount} && printf 'old content\\n' > f && \"$0\" tool write \"$1\"; cat f; ls -A");
    let arguments = json!({"path": "f", "content": "new ".repeat(25_000)}).to_string();
    let output = Command::new("unshare")
        .args(["-Urm", "bash", "-c", &format!("cd \"$PWD\"; {script}")])
        .args([env!("CARGO_BIN_EXE_tamtam"), &arguments])
        .current_dir(lab.work(""))
        .env("HOME", lab.path("home"))
        .output();
    let said =
        output.map_or_else(|error| error.to_string(), |output| String::from_utf8_lossy(&output.stdout).into_owned());
    if !said.contains("old content") {
        eprintln!("no file system of its own can be had here, so nothing is shown: {said}");
        return;
    }
    assert!(said.contains("No space left on device"), "{said}");
    assert!(said.ends_with("old content\nf\n"), "{said}");
}

/// Carries out each call with the binary, in a folder that only it knows, as `docker exec` or `ssh` would.
struct Binary(Lab);

impl tamtam::tools::RemoteExecutor for Binary {
    fn carry_out<'a>(
        &'a self,
        tool: &'a str,
        arguments: Value,
        _: &'a tamtam::tool::ToolContext,
    ) -> tamtam::model::BoxFuture<'a, tamtam::tool::ToolResult> {
        let ended = self.0.run(&["tool", tool, &arguments.to_string()]);
        Box::pin(async move {
            let result: Value = serde_json::from_str(&ended.stdout).unwrap();
            let text = result["content"].as_str().unwrap().to_owned();
            match result["is_error"] == true {
                true => tamtam::tool::ToolResult::error(text),
                false => tamtam::tool::ToolResult::ok(text).with_details(result["details"].clone()),
            }
        })
    }
}

/// Replaceable back ends: files and commands of another process, through the names, schemas and rules of this one.
#[tokio::test]
async fn the_tools_work_in_another_process() {
    let lab = Lab::new();
    std::fs::write(lab.work("there.txt"), "over there\n").unwrap();
    let folder = lab.work("");
    let tools = tamtam::tools::remote(&tamtam::tools::full(), std::sync::Arc::new(Binary(lab)));
    let context = tamtam::tool::ToolContext::detached("/nowhere".into(), "/nowhere".into());
    let call = async |name: &str, arguments: Value| tools.find(name).unwrap().run(arguments, &context).await;
    assert_eq!(call("read", json!({"path": "there.txt"})).await.content, "     1\tover there");
    let edited = call("edit", json!({"path": "there.txt", "old_string": "over", "new_string": "right"})).await;
    assert_eq!((edited.is_error(), &edited.details["replacements"]), (false, &json!(1)));
    assert_eq!(call("bash", json!({"command": "cat there.txt"})).await.content, "right there");
    assert!(call("read", json!({"path": "../x"})).await.is_error());
    assert_eq!(std::fs::read_to_string(folder.join("there.txt")).unwrap(), "right there\n");
}

/// A key of the host's is in no process of a call, and no such process reads it from the host: not even through `/proc`.
#[cfg(target_os = "linux")]
#[test]
fn a_call_cannot_read_the_keys_of_the_host() {
    use std::os::unix::{fs::chown, process::CommandExt as _};
    const CANARY: &str = "sk-CANARY-of-the-host";
    const NOBODY: u32 = 65_534;
    let lab = Lab::new();
    let seen = json!({"name": "bash", "input": {"command": "env; cat /proc/$PPID/environ; echo looked"}});
    let model = lab.script(json!([{"calls": [seen]}, {"expect": ["looked"], "text": "done"}]));
    let program = lab.path("tamtam");
    // By a process of its own: a program that this one has written may still be open in a child that another test is just starting.
    let copied = std::process::Command::new("cp").arg(env!("CARGO_BIN_EXE_tamtam")).arg(&program).status().unwrap();
    assert!(copied.success());
    let usual = lab.command(&["run", "--session", "s", "--permission", "auto", "--model", &model, "go"]);
    let mut command = std::process::Command::new(&program);
    command.args(usual.get_args()).current_dir(lab.path("work")).env_clear();
    command.envs(usual.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("OPENAI_API_KEY", CANARY).stdin(std::process::Stdio::null());
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    // Root reads everything; so the run is somebody else's.
    if rustix::process::geteuid().is_root() {
        for path in ["", "work", "home", "tmp"] {
            chown(lab.path(path), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        command.uid(NOBODY).gid(NOBODY);
    }
    let ended = super::lab::Live::start(command).end();
    assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
    let tape = lab.tape("s");
    let result = tape.iter().find(|entry| entry["kind"] == "result").unwrap();
    assert!(result.to_string().contains("Permission denied"), "{result}");
    assert!(!tape.iter().any(|entry| entry.to_string().contains(CANARY)), "{tape:?}");
}

/// E-14: pages of the web are read where the user switched that on, and then from public addresses alone.
#[test]
fn pages_are_read_where_they_are_switched_on() {
    let lab = Lab::new();
    let run = |arguments: &[&str], expect: &str| {
        let call = json!({"name": "web_fetch", "input": {"url": "http://localhost:9/"}});
        let model = lab.script(json!([{"calls": [call]}, {"expect": [expect], "text": "done"}]));
        let given = ["run", "--model", &model, "--permission", "auto"];
        lab.run(&[&given[..], arguments, &["go"]].concat())
    };
    let off = run(&[], "web_fetch");
    assert_eq!((off.code, off.stdout.trim()), (0, "done"), "{}", off.stderr);
    let on = run(&["--web-fetch"], "localhost has no public address");
    assert_eq!((on.code, on.stdout.trim()), (0, "done"), "{}", on.stderr);
    lab.put("home/.config/tamtam/config.toml", "web_fetch = true\n");
    assert_eq!(run(&[], "localhost has no public address").code, 0);
    assert_eq!(run(&["--proxy", "http://127.0.0.1:9"], "failed to connect").code, 0);
}
