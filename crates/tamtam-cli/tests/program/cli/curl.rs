//! The lines of `curl` in README.md, "Reach it from outside": each is read from there and run as it stands, except for the port.

use std::{
    collections::VecDeque,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use super::lab::{Lab, Live};

/// The server that the README's lines name.
const THERE: &str = "127.0.0.1:7878";

/// The lines of the section that call `curl`, in their order.
fn lines() -> VecDeque<String> {
    let readme = include_str!("../../../../../README.md");
    let section = readme.split("\n### ").find(|section| section.starts_with("Reach it from outside\n")).unwrap();
    section.lines().filter(|line| line.starts_with("curl ")).map(str::to_owned).collect()
}

/// The README's lines, taken one after the other, against one server.
struct Reader {
    lines: VecDeque<String>,
    at: String,
    ask: String,
}

impl Reader {
    /// The next line as a command; its text must be about this.
    fn command(&mut self, about: &str) -> Command {
        let line = self.lines.pop_front().unwrap_or_else(|| panic!("the README has no line about {about}"));
        assert!(line.contains(about), "the next line of the README is not about {about}: {line}");
        assert_eq!(line.matches(THERE).count(), 1, "{line}");
        let mut command = Command::new("bash");
        command.args(["-c", &line.replace(THERE, &self.at)]).env_clear().env("ASK", &self.ask);
        command.env("PATH", std::env::var_os("PATH").unwrap());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// What the next line prints.
    fn prints(&mut self, about: &str) -> String {
        let ended = Live::start(self.command(about)).end();
        assert_eq!(ended.code, 0, "{about}: {}", ended.stderr);
        ended.stdout
    }

    fn json(&mut self, about: &str) -> Value {
        let said = self.prints(about);
        serde_json::from_str(&said).unwrap_or_else(|_| panic!("{about}: {said}"))
    }
}

/// The next event of that kind that the stream prints.
fn event(stream: &mut Live, name: &str) -> Value {
    loop {
        let line = stream.line();
        let Some(data) = line.strip_prefix("data: ") else { continue };
        let event: Value = serde_json::from_str(data).unwrap();
        if event["event"] == name {
            return event;
        }
    }
}

/// Must show 1 of the server: `curl` alone makes a session, follows it, steers it in mid-run, answers an ask, aborts and forks; what
/// each line of the README prints is what is said beside it.
#[test]
fn each_line_of_curl_in_the_readme_does_what_is_said_beside_it() {
    let has_curl = Command::new("curl").arg("--version").stdout(Stdio::null()).status().is_ok_and(|ran| ran.success());
    assert!(has_curl, "curl is needed to run the lines of the README: install it, in version 7.82 or later");
    let lab = Lab::new();
    std::fs::write(lab.work("main.rs"), "fn main() {}\n").unwrap();
    let rules = lab.path("rules.jsonl");
    std::fs::write(&rules, "{\"permission\":\"edit\",\"pattern\":\"**\",\"action\":\"ask\"}\n").unwrap();
    let model = lab.script(json!([
        {"calls": [
            {"name": "bash", "input": {"command": "until [ -e ../go ]; do sleep 0.02; done; echo looked"}},
            {"name": "ls", "input": {"path": "."}},
        ]},
        {"expect": ["result bash: looked", "user: Only the Rust files."], "text": "main.rs"},
        {"calls": [{"name": "write", "input": {"path": "list.txt", "content": "main.rs\n"}}]},
        {"expect": ["result write"], "text": "It is written. ", "hang": true},
    ]));
    let serve = ["serve", "--addr", "127.0.0.1:0", "--store", "../store", "--permission", "auto", "--model", &model];
    let mut server = lab.start(&[&serve[..], &["--rules", rules.to_str().unwrap()]].concat());
    let line = server.line();
    let at = line.strip_prefix("listening on http://").unwrap_or_else(|| panic!("{line}")).to_owned();
    let mut readme = Reader { lines: lines(), at, ask: String::new() };

    let made = readme.json("What is in this folder?");
    assert_eq!((&made["session"]["session"], &made["receipt"]["disposition"]), (&json!("s1"), &json!("started")));
    let mut stream = Live::start(readme.command("/events?after=0"));
    assert_eq!(event(&mut stream, "call_started")["name"], "bash");

    assert_eq!(readme.json("\"delivery\":\"steer\"")["disposition"], "steering");
    let skipped = event(&mut stream, "call_finished");
    assert_eq!(skipped["error"], "skipped");
    assert_eq!(skipped["content"], "Skipped due to queued user message: ls was not run.");
    std::fs::write(lab.path("go"), "").unwrap();
    let finished = event(&mut stream, "call_finished");
    assert_eq!((finished["content"].as_str().map(str::trim_end), &finished["error"]), (Some("looked"), &Value::Null));
    assert_eq!(event(&mut stream, "turn_finished")["text"], "main.rs");

    assert_eq!(readme.json("Write the list")["disposition"], "started");
    let asked = event(&mut stream, "ask");
    let asks = readme.json("/asks")["asks"].clone();
    assert_eq!(asks.as_array().unwrap().len(), 1, "{asks}");
    let shown = (&asks[0]["ask"], &asks[0]["kind"], &asks[0]["name"], &asks[0]["input"]);
    assert_eq!(shown, (&asked["ask"], &json!("call"), &json!("write"), &asked["input"]));
    assert!(asked["input"].as_str().unwrap().contains("list.txt"), "{asked}");
    readme.ask = asks[0]["ask"].to_string();
    assert_eq!(readme.prints("/asks/$ASK"), "", "an answer without a body");
    assert_eq!(event(&mut stream, "call_finished")["error"], Value::Null);
    assert_eq!(std::fs::read_to_string(lab.work("list.txt")).unwrap(), "main.rs\n");

    // The turn goes on until it is told to end.
    event(&mut stream, "text_delta");
    assert_eq!(readme.json("/abort"), json!({ "recorded": true }));
    assert_eq!(event(&mut stream, "turn_finished")["outcome"], "aborted");
    assert_eq!(readme.json("/fork"), json!({ "session": "s2" }));
    assert_eq!(readme.lines, VecDeque::<String>::new(), "each line was run");

    server.signal("-TERM");
    assert_eq!(server.end().code, 0);
    let rest = stream.end();
    assert_eq!(rest.code, 0, "the stream ends with the server: {}", rest.stderr);
    assert!(rest.stdout.contains("event: draining\n"), "{}", rest.stdout);
    let listed = lab.run(&["sessions", "--store", "../store"]);
    assert!(listed.stdout.contains("s1") && listed.stdout.contains("s2"), "{listed:?}");
}
