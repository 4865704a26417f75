//! What the program says of itself and of its surroundings: the doctor, the proxy, the reasons of what is ignored or refused.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    sync::mpsc,
};

use serde_json::{Value, json};

use super::lab::{Ended, Lab, Live};

impl Lab {
    /// Runs the command with these variables beside those of the lab.
    fn run_with(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Ended {
        let mut command = self.command(arguments);
        command.envs(variables.iter().copied());
        Live::start(command).end()
    }

    /// Makes one session that is over.
    fn has_session(&self, id: &str) -> String {
        let model = self.script(json!(["Hello.", "Again."]));
        assert_eq!(self.run(&["run", "--session", id, "--model", &model, "hi"]).code, 0);
        model
    }
}

/// The doctor once died of a typo in the configuration, and of a missing home.
#[test]
fn the_doctor_needs_nothing_that_it_looks_at() {
    let lab = Lab::new();
    lab.has_session("s");
    let store = lab.path("home/.local/share/tamtam");
    lab.put("home/.config/tamtam/config.toml", "[[");
    std::fs::write(store.join("trust.json"), "nonsense").unwrap();
    for file in ["index.db", "index.db-wal", "index.db-shm"] {
        drop(std::fs::remove_file(store.join(file)));
    }
    std::fs::write(store.join("index.db"), "no database").unwrap();
    let ended = lab.run(&["doctor"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    for said in ["version   tamtam ", "line 1: not TOML", "trust.json", "can be written", "bytes free", "clock     20"]
    {
        let said = if said == "bytes free" { " free" } else { said };
        assert!(ended.stdout.contains(said), "{said}: {}", ended.stdout);
    }
    let index = ended.stdout.lines().find(|line| line.starts_with("index")).unwrap();
    assert!(index.contains("tape rebuild"), "{index}");
    let mut command = lab.command(&["doctor"]);
    command.env_remove("HOME");
    let ended = Live::start(command).end();
    assert!(ended.code == 1 && ended.stdout.contains("name one with --store or set HOME"), "{}", ended.stdout);
    let named = lab.path("named");
    let mut command = lab.command(&["doctor", "--store", named.to_str().unwrap()]);
    command.env_remove("HOME");
    let ended = Live::start(command).end();
    assert_eq!(ended.code, 0, "{}", ended.stdout);
}

/// M3: the list said `in a turn` of a session that waited for its person.
#[test]
fn the_list_says_who_waits_for_a_person_and_puts_them_first() {
    let lab = Lab::new();
    let call = json!({"name": "bash", "input": {"command": "rm -rf build"}});
    let asking = lab.script(json!([{"calls": [call]}, "Done."]));
    let mut run =
        lab.start(&["run", "--json", "--session", "asks", "--permission", "strict", "--model", &asking, "go"]);
    run.until_event("ask");
    lab.has_session("later");
    let shown = lab.run(&["sessions"]).stdout;
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[1].starts_with("asks ") && lines[1].contains("  asking "), "{shown}");
    assert_eq!(lines[3], "    asking: bash rm -rf build, now", "{shown}");
    let listed = lab.run(&["sessions", "--json"]).lines();
    let of = |id: &str| listed.iter().find(|line| line["session"] == id).unwrap()["work"].clone();
    assert_eq!((&of("asks")["phase"], &of("later")), (&json!("asking"), &Value::Null));
    assert!(of("asks")["since"].is_u64(), "{}", of("asks"));
    // M14: who has it is named, and not sent to a resume that cannot be.
    for command in [&["tape", "rollback", "asks", "--to", "1"][..], &["tape", "grants", "asks", "--revoke", "1"]] {
        let ended = lab.run(command);
        assert!(ended.code == 1 && ended.error().contains("in use by process"), "{}", ended.stderr);
    }
    run.signal("-KILL");
    run.end();
}

/// A server that answers every request with a final refusal, and the first line of each that it got.
fn refuser() -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (send, seen) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut line = String::new();
            drop(BufReader::new(&stream).read_line(&mut line));
            if send.send(line).is_err() {
                return;
            }
            drop(stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"));
        }
    });
    (address, seen)
}

/// B19 of the reports: the proxy saw no request.
#[test]
fn the_proxy_of_the_environment_is_used_and_not_for_this_machine() {
    let lab = Lab::new();
    let (proxy, seen) = refuser();
    let key = ("OPENAI_API_KEY", "k");
    let far = ("OPENAI_BASE_URL", "http://model.corp.invalid/v1");
    let run = ["run", "--model", "openai/m", "hi"];
    for variable in ["http_proxy", "HTTP_PROXY", "ALL_PROXY"] {
        assert_eq!(lab.run_with(&[key, far, (variable, &proxy)], &run).code, 1);
        let line = seen.recv().unwrap();
        assert!(line.starts_with("POST http://model.corp.invalid/v1/chat/completions "), "{variable}: {line}");
    }
    let own = format!("{proxy}/v1");
    let beside = [key, ("OPENAI_BASE_URL", own.as_str()), ("HTTP_PROXY", "http://127.0.0.1:9")];
    assert_eq!(lab.run_with(&beside, &run).code, 1);
    assert!(seen.recv().unwrap().starts_with("POST /v1/chat/completions "));
    lab.put("home/.config/tamtam/config.toml", &format!("proxy = '{proxy}'"));
    assert_eq!(lab.run_with(&[key, far, ("HTTP_PROXY", "http://127.0.0.1:9")], &run).code, 1);
    assert!(seen.recv().unwrap().starts_with("POST http://model.corp.invalid"));
    // The parser of arguments quoted the password.
    let refused = lab.run(&["run", "--proxy", "socks5://user:hunter2@h:1", "--model", "openai/m", "hi"]);
    assert!(refused.code == 2 && refused.error().contains("--proxy: a SOCKS proxy"), "{}", refused.stderr);
    assert!(!refused.stderr.contains("hunter2"), "{}", refused.stderr);
    // A stranger's project does not choose where requests go.
    lab.put("home/.config/tamtam/config.toml", "");
    lab.put("work/.tamtam/config.toml", &format!("proxy = '{proxy}'"));
    let trusted = lab.run(&["trust", "--yes", "."]);
    assert!(trusted.code == 2 && trusted.error().contains("a project cannot set this"), "{}", trusted.stderr);
}

/// M8: the warning named no command, and did not say that the file had changed since.
#[test]
fn a_rule_file_that_is_ignored_names_the_command() {
    let lab = Lab::new();
    let model = lab.script(json!(["Hello.", "Hello."]));
    let run = |lab: &Lab| lab.run(&["run", "--model", &model, "hi"]).stderr;
    lab.put("work/AGENTS.md", "Use tabs.");
    lab.put("work/.tamtam/rules/a.md", "Be brief.");
    let folder = lab.path("work").canonicalize().unwrap();
    let command = format!("run `tamtam trust {}`", folder.display());
    let said = run(&lab);
    assert!(said.contains(&format!("AGENTS.md is ignored: it is not trusted: {command}")), "{said}");
    assert!(said.contains(&format!("rules/a.md is ignored: it is not trusted: {command}")), "{said}");
    assert_eq!(lab.run(&["trust", "--yes", "."]).code, 0);
    assert!(!run(&lab).contains("ignored"));
    lab.put("work/AGENTS.md", "Use spaces.");
    let said = run(&lab);
    assert!(
        said.contains("AGENTS.md is ignored: it has changed since you trusted it: `tamtam trust --show "),
        "{said}"
    );
}

/// M9: of a command whose file is not trusted `run` said only that there is none.
#[test]
fn a_command_in_a_file_that_is_not_trusted_says_why_it_is_unknown() {
    let lab = Lab::new();
    let model = lab.script(json!(["Hello."]));
    lab.put("work/.tamtam/commands/hi.md", "Say hi to $1.");
    let hi = |lab: &Lab, line: &str| lab.run(&["run", "--model", &model, line]);
    let unknown = hi(&lab, "/hi Bob");
    assert!(unknown.code == 2 && unknown.error().contains("is ignored: it is not trusted"), "{}", unknown.stderr);
    assert_eq!(lab.run(&["trust", "--yes", "."]).code, 0);
    // L8: without its argument it said "Say hi to .".
    let bare = hi(&lab, "/hi");
    assert!(bare.code == 2 && bare.error().contains("/hi takes arguments"), "{}", bare.stderr);
    assert_eq!(hi(&lab, "/hi Bob").code, 0);
}

#[test]
fn a_base_url_that_is_none_is_a_usage_error() {
    let lab = Lab::new();
    let key = [("OPENAI_API_KEY", "k")];
    let ended = lab.run_with(&key, &["run", "--model", "openai/x", "--base-url", "nourl", "hi"]);
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    assert!(!lab.path("home/.local/share/tamtam").exists(), "no session was made");
}

#[test]
fn an_unknown_kind_of_entry_is_refused() {
    let lab = Lab::new();
    lab.has_session("s");
    let bad = lab.run(&["tape", "search", "--kind", "bogus", "hi"]);
    assert!(bad.code == 2 && bad.error().contains("unknown kind of entry bogus"), "{}", bad.stderr);
    assert!(bad.error().contains("accepted"), "the kinds there are: {}", bad.stderr);
    assert_eq!(lab.run(&["tape", "search", "--kind", "accepted", "hi"]).code, 0);
}

#[test]
fn permit_refuses_arguments_that_do_not_fit() {
    let lab = Lab::new();
    let bad = lab.run(&["permit", "bash", r#"{"cmd":"x"}"#]);
    assert!(bad.code == 2 && bad.error().contains("command"), "{}", bad.stderr);
}

/// M17
#[test]
fn a_log_begins_with_no_warning() {
    let lab = Lab::new();
    let model = lab.script(json!(["Hello."]));
    let ended = lab.run_with(&[("TAMTAM_LOG", "info")], &["run", "--model", &model, "hi"]);
    assert!(ended.code == 0 && !ended.stderr.contains("tracing"), "{}", ended.stderr);
    let lines: Vec<_> = ended.stderr.lines().filter(|line| line.contains("INFO")).collect();
    assert!(lines.iter().any(|line| line.contains("a turn is over")), "{}", ended.stderr);
}

/// A log that a program reads: each line is one JSON object, with the session and no words of the conversation.
#[test]
fn a_log_of_json_lines_is_read_line_by_line() {
    let lab = Lab::new();
    let model = lab.script(json!(["Hello."]));
    let ended =
        lab.run_with(&[("TAMTAM_LOG", "info"), ("TAMTAM_LOG_FORMAT", "json")], &["run", "--model", &model, "a canary"]);
    let lines = ended.stderr.lines().filter(|line| line.starts_with('{'));
    let lines: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    let over = lines.iter().find(|line| line["fields"]["message"] == "a turn is over").unwrap();
    assert_eq!((&over["fields"]["outcome"], &over["level"]), (&json!("done"), &json!("INFO")), "{over}");
    assert!(
        over["fields"]["session"].is_string()
            && !ended.stderr.lines().any(|line| line.starts_with('{') && line.contains("canary"))
    );
}

/// L12: it was sent with "the context is 1122 % full".
#[test]
fn a_prompt_larger_than_the_window_is_refused_at_once() {
    let lab = Lab::new();
    let large = "word ".repeat(20_000);
    let key = [("OPENAI_API_KEY", "k")];
    let ended = lab.run_with(&key, &["run", "--model", "openai/gpt-4", &large]);
    assert!(ended.code == 2 && ended.error().contains("reads at most 8192"), "{}", ended.stderr);
    assert!(!lab.path("home/.local/share/tamtam").exists(), "no session was made");
}

/// L13
#[test]
fn resume_of_a_finished_session_says_that_nothing_is_left() {
    let lab = Lab::new();
    let model = lab.has_session("s");
    let ended = lab.run(&["resume", "s", "--model", &model]);
    assert!(ended.code == 0 && ended.stderr.contains("session s has no unfinished work"), "{}", ended.stderr);
}

#[test]
fn help_is_a_command_too() {
    let lab = Lab::new();
    for command in [&["help"][..], &["help", "run"], &["help", "tape", "fork"]] {
        let ended = lab.run(command);
        assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{command:?}");
    }
    assert!(lab.run(&["help"]).stdout.contains("Exit status:"));
}

/// L18
#[test]
fn a_run_whose_calls_were_denied_names_the_way_out() {
    let lab = Lab::new();
    let call = json!({"name": "write", "input": {"path": "a", "content": "x"}});
    let model = lab.script(json!([{"calls": [call]}, "I could not."]));
    let ended = lab.run(&["run", "--model", &model, "go"]);
    assert!(
        ended.code == 0 && ended.stderr.contains("1 call denied: ") && ended.stderr.contains("--permission"),
        "{}",
        ended.stderr
    );
}

/// A float was shown with the digits of another type.
#[test]
fn a_number_is_shown_as_it_was_written() {
    let lab = Lab::new();
    lab.put("home/.config/tamtam/agents/warm.md", "---\ndescription: warm\ntemperature: 0.7\n---\nBe warm.\n");
    let listed = lab.run(&["agents", "--json"]);
    assert!(listed.stdout.contains("\"temperature\":0.7,"), "{}", listed.stdout);
}

#[test]
fn the_prompt_of_an_agent_for_tasks_is_shown() {
    let lab = Lab::new();
    let shown = lab.run(&["prompt", "show", "--agent", "explore"]);
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    assert!(shown.stdout.contains("--- tool read ") && !shown.stdout.contains("--- tool bash "), "{}", shown.stdout);
}

/// The task of a command was answered by the model of the session.
#[test]
fn a_subtask_is_answered_by_the_model_of_its_command() {
    let lab = Lab::new();
    let model = lab.script(json!(["Looked.", "It was looked at."]));
    let text = "---\ndescription: looks\nsubtask: true\nmodel: scripted/other\n---\nLook.\n";
    lab.put("home/.config/tamtam/commands/look.md", text);
    let ended = lab.run(&["run", "--session", "s", "--model", &model, "/look"]);
    let listed = lab.run(&["sessions", "--json"]).lines();
    let child = listed.iter().find(|line| line["parent"].is_object()).unwrap_or_else(|| panic!("{}", ended.stderr));
    assert_eq!(child["model"], "scripted/other", "{}", ended.stderr);
}

/// L4: a session and its import differed at the first entry, by a folder beside the tape.
#[test]
fn a_session_and_its_import_are_the_same() {
    let lab = Lab::new();
    lab.has_session("s");
    let file = lab.path("s.jsonl");
    assert_eq!(lab.run(&["tape", "export", "s", "--to", file.to_str().unwrap()]).code, 0);
    let imported = lab.run(&["tape", "import", file.to_str().unwrap(), "--as", "t"]);
    assert_eq!(imported.code, 0, "{}", imported.stderr);
    let compared = lab.run(&["replay", "s", "--against", "t"]);
    assert!(!compared.stdout.contains("read_roots"), "{}", compared.stdout);
}
