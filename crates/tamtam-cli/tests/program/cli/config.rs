//! Settings from files: which value holds, where it comes from, and what a mistake costs.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::lab::{Ended, Lab, Live};

impl Lab {
    /// Writes a file with the folders above it.
    pub(super) fn put(&self, path: &str, text: &str) -> PathBuf {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }
}

const USER: &str = "home/.config/tamtam/config.toml";
const PROJECT: &str = "work/.tamtam/config.toml";

fn settings(lab: &Lab, arguments: &[&str]) -> Value {
    let shown = lab.run(&[&["config", "show", "--json"], arguments].concat());
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    shown.lines().remove(0)
}

/// The value of a setting and its layer.
fn setting(shown: &Value, name: &str) -> (Value, String) {
    let found = shown["settings"].as_array().unwrap().iter().find(|setting| setting["name"] == name).unwrap();
    (found["value"].clone(), found["layer"].as_str().unwrap().to_owned())
}

fn decision(ended: &Ended) -> String {
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    ended.lines()[0]["decision"].as_str().unwrap().to_owned()
}

/// SETTINGS-001, SETTINGS-003, SETTINGS-005, SETTINGS-006, CONFIG-ERR-002: without a file the default holds; what a file says is read
/// anew by each command, whichever process wrote it; without the file the default holds again. All settings are listed.
/// CONFIG-ERR-002: the value of the file, 0.7, is not the default, which is none.
#[test]
fn a_setting_is_that_of_the_file_as_long_as_there_is_one() {
    let lab = Lab::new();
    assert_eq!(setting(&settings(&lab, &[]), "model"), (Value::Null, "default".into()));
    let file = lab.put(USER, "model = 'openai/gpt-4.1'\nbudget_usd = 0.7\n");
    for _ in 0..2 {
        let shown = settings(&lab, &[]);
        assert_eq!(setting(&shown, "model"), (json!("openai/gpt-4.1"), "user".into()));
        assert_eq!(setting(&shown, "budget_usd"), (json!("$0.7000"), "user".into()));
    }
    let text = lab.run(&["config", "show"]);
    for (name, value) in
        [("model", "openai/gpt-4.1  [user"), ("max_steps", "(50)  [default]"), ("budget_usd", "$0.7000  [user")]
    {
        assert!(
            text.stdout.lines().any(|line| line.starts_with(name) && line.contains(value)),
            "{name}: {}",
            text.stdout
        );
    }
    std::fs::remove_file(file).unwrap();
    assert_eq!(setting(&settings(&lab, &[]), "model"), (Value::Null, "default".into()));
}

/// SETTINGS-002: a project's file is read once it is trusted. --config wins over it, and an argument over all.
#[test]
fn the_layers_win_in_their_order() {
    let lab = Lab::new();
    lab.put(USER, "max_steps = 1\nagent = 'build'\npermission = 'ask'\nbudget_tokens = 1\n");
    lab.put(PROJECT, "model = 'openai/gpt-4'\nmax_steps = 2\npermission = 'edits'\nbudget_tokens = 2\n");
    let named = lab.put("named.toml", "max_steps = 3\nbudget_tokens = 3\n");
    assert_eq!(lab.run(&["trust", "--yes", "."]).code, 0);
    let shown = settings(&lab, &["--config", named.to_str().unwrap(), "--max-steps", "4"]);
    for (name, value, layer) in [
        ("model", "openai/gpt-4", "project"),
        ("max_steps", "4", "flag"),
        ("budget_tokens", "3", "config"),
        ("permission", "edits", "project"),
        ("agent", "build", "user"),
        ("store", "", "default"),
    ] {
        let (found, of) = setting(&shown, name);
        assert_eq!((found.as_str().unwrap_or_default(), of.as_str()), (value, layer), "{name}");
    }
}

/// A variable is an origin too, below every file: the only key names a model, and an address is that of the chosen provider. Neither key
/// nor password is shown.
#[test]
fn a_value_of_the_environment_names_its_variable() {
    let lab = Lab::new();
    let show = || {
        let mut command = lab.command(&["config", "show", "--json"]);
        command.env("OPENAI_API_KEY", "sk-CANARY").env("OPENAI_BASE_URL", "http://me:CANARY@127.0.0.1:9/v1");
        command.env("DEEPSEEK_BASE_URL", "http://other/v1").env("XDG_DATA_HOME", lab.path("home/data"));
        let shown = Live::start(command).end();
        assert!(shown.code == 0 && !shown.stdout.contains("CANARY"), "{}", shown.stdout);
        shown.lines().remove(0)
    };
    let of = |shown: &Value, name: &str| {
        let all = shown["settings"].as_array().unwrap().iter();
        let found = all.clone().find(|setting| setting["name"] == name).unwrap();
        ["value", "layer", "place"].map(|field| found[field].as_str().unwrap_or_default().to_owned())
    };
    let shown = show();
    assert_eq!(of(&shown, "model"), ["openai/gpt-5.1", "environment", "OPENAI_API_KEY"]);
    assert_eq!(of(&shown, "base_url"), ["http://127.0.0.1:9/v1", "environment", "OPENAI_BASE_URL"]);
    let data = lab.path("home/data/tamtam").display().to_string();
    assert_eq!(of(&shown, "store"), [&data, "environment", "XDG_DATA_HOME"]);
    let file = lab.put(USER, "model = 'deepseek/x'");
    let shown = show();
    assert_eq!(of(&shown, "model"), ["deepseek/x", "user", file.to_str().unwrap()]);
    assert_eq!(of(&shown, "base_url"), ["http://other/v1", "environment", "DEEPSEEK_BASE_URL"]);
}

/// SETTINGS-004, SETTINGS-007, CONFIG-ERR-005: what is not understood is an error of configuration that says where and what is allowed,
/// and not another value (exit codes of design 9): a file that is passed over could have held the rule that denies.
#[test]
fn a_mistake_in_a_file_is_one_line_and_ends_with_2() {
    let lab = Lab::new();
    let model = lab.script(json!(["Hello."]));
    for (text, said) in [
        ("{ \"model\": 1", "line 1: not TOML"),
        ("\nmodle = 'a/b'", "line 2: modle: unknown setting `modle`; did you mean `model`?"),
        ("max_steps = 'many'", "line 1: max_steps: many must be 1 or more"),
        ("[rules]\nbash = 'alow'", "line 2: bash: unknown action"),
    ] {
        let file = lab.put(USER, text);
        for command in [&["run", "--model", &model, "x"][..], &["permit", "ls", "{}"], &["config", "show"]] {
            let ended = lab.run(command);
            assert_eq!((ended.code, ended.stdout.as_str()), (2, ""), "{text}: {command:?}: {}", ended.stderr);
            assert!(ended.error().contains(said) && ended.error().contains(file.to_str().unwrap()), "{}", ended.stderr);
        }
        // A command that only looks at tapes says it and goes on; the doctor names it and does not fail.
        for command in [&["sessions"][..], &["tape", "verify"]] {
            let ended = lab.run(command);
            assert!(ended.code == 0 && ended.stderr.contains(said), "{command:?}: {}", ended.stderr);
        }
        let doctor = lab.run(&["doctor"]);
        assert!(doctor.code == 0 && doctor.stdout.contains(said), "{}", doctor.stdout);
        std::fs::remove_file(file).unwrap();
        // The same in a file that is named.
        let named = lab.put("named.toml", text);
        let ended = lab.run(&["run", "--model", &model, "--config", named.to_str().unwrap(), "x"]);
        assert!(ended.code == 2 && ended.error().contains(said), "{}", ended.stderr);
    }
    let ended = lab.run(&["run", "--model", &model, "--config", "none.toml", "x"]);
    assert!(ended.code == 2 && ended.error().contains("none.toml"), "{}", ended.stderr);
    // A file that is none.
    std::fs::create_dir_all(lab.path(USER)).unwrap();
    let ended = lab.run(&["run", "--model", &model, "x"]);
    assert!(ended.code == 2 && ended.error().contains("regular file"), "{}", ended.stderr);
    std::fs::remove_dir(lab.path(USER)).unwrap();
    // A model of which nobody knows.
    lab.put(USER, "model = 'nobody/x'");
    let ended = lab.run(&["run", "x"]);
    assert!(ended.code == 2 && ended.error().contains("unknown provider"), "{}", ended.stderr);
}

/// CONFIG-ERR-004: the system prompt has context, date and folder.
#[test]
fn the_system_prompt_says_date_and_folder() {
    let lab = Lab::new();
    let model = lab.script(json!(["Hello."]));
    assert_eq!(lab.run(&["run", "--model", &model, "--session", "s", "x"]).code, 0);
    let tape = lab.tape("s");
    let system =
        tape.iter().find_map(|entry| entry["data"]["settings"]["system"].as_str().or(entry["data"]["system"].as_str()));
    let (system, work) = (system.unwrap(), lab.path("work").canonicalize().unwrap());
    let today = jiff::Timestamp::now().strftime("%Y-").to_string();
    assert!(system.contains(work.to_str().unwrap()) && system.contains(&today) && system.len() > 100, "{system}");
}

/// What a file says is what a run does: its model, its profile, its folder of tapes.
#[test]
fn a_run_does_what_the_files_say() {
    let lab = Lab::new();
    let call = json!({"name": "write", "input": {"path": "a", "content": "x"}});
    let model = lab.script(json!([{"calls": [call]}, "Done.", {"calls": [call]}, "Done."]));
    lab.put(USER, &format!("model = '{model}'\npermission = 'edits'\nstore = 'tapes'\n"));
    let ended = lab.run(&["run", "--session", "s", "go"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(lab.work("a").exists() && lab.path("home/.config/tamtam/tapes/sessions/s").exists());
    assert!(lab.run(&["sessions"]).stdout.contains('s'));
    // A session that is there keeps what it has; an argument changes it.
    lab.put(USER, "permission = 'readonly'\nstore = 'tapes'\n");
    std::fs::remove_file(lab.work("a")).unwrap();
    let ended = lab.run(&["run", "--model", &model, "--session", "s", "again"]);
    assert!(ended.code == 0 && lab.work("a").exists(), "{}", ended.stderr);
}

/// C-02: what the user's file denies is denied in every session, also in one that was made before, and whatever the arguments say.
#[test]
fn a_denial_of_the_user_holds_in_every_session() {
    let lab = Lab::new();
    let call = json!({"name": "write", "input": {"path": "a", "content": "x"}});
    let model = lab.script(json!([{"calls": [call]}, "Done."]));
    let run = |more: &[&str]| {
        lab.run(&[&["run", "--model", &model, "--session", "s", "--permission", "auto", "go"], more].concat())
    };
    assert!(run(&[]).code == 0 && lab.work("a").exists());
    std::fs::remove_file(lab.work("a")).unwrap();
    lab.put(USER, "[rules.edit]\n'*' = 'deny'\n");
    let rules = lab.put("rules.toml", "[edit]\n'**' = 'allow'\n");
    for more in [&[][..], &["--rules", rules.to_str().unwrap()]] {
        let ended = run(more);
        assert!(!lab.work("a").exists(), "{}", ended.stderr);
    }
    let permit = lab.run(&["permit", "write", r#"{"path":"a","content":""}"#, "--rules", rules.to_str().unwrap()]);
    assert_eq!(decision(&permit), "deny");
    assert!(permit.lines()[0]["layer"].as_str().unwrap().ends_with("config.toml"), "{}", permit.stdout);
}

/// --rules takes TOML and JSON, in map form and in the form of before.
#[test]
fn rules_are_read_from_toml_and_json() {
    let lab = Lab::new();
    for (name, text) in [
        ("r.toml", "[edit]\n'docs/**' = 'allow'\n"),
        ("r.json", r#"{"edit":{"docs/**":"allow"}}"#),
        ("r", "# mine\n{\"permission\":\"edit\",\"pattern\":\"docs/**\",\"action\":\"allow\"}\n"),
    ] {
        let file = lab.put(name, text);
        let of = |path: &str| {
            let call = json!({"path": path, "content": ""}).to_string();
            decision(&lab.run(&["permit", "write", &call, "--permission", "ask", "--rules", file.to_str().unwrap()]))
        };
        assert_eq!((of("docs/a").as_str(), of("src/a").as_str()), ("allow", "ask"), "{name}");
    }
}
