//! A workspace may be a stranger's: nothing in it has an effect before its folder is trusted, or once it has changed.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    os::unix::fs::symlink,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use serde_json::{Value, json};

use super::lab::{Lab, Live};

const PROJECT: &str = "work/.tamtam/config.toml";

/// How the lab's project judges a command.
fn permit(lab: &Lab, tool: &str, call: Value) -> (String, String) {
    let ended = lab.run(&["permit", tool, &call.to_string(), "--permission", "ask"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    (ended.lines()[0]["decision"].as_str().unwrap().to_owned(), ended.stderr)
}

fn write(path: &str) -> Value {
    json!({"path": path, "content": "x"})
}

/// A server that refuses each request and counts them.
fn counting_server() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let heard = Arc::new(AtomicUsize::new(0));
    let counts = heard.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            counts.fetch_add(1, Ordering::SeqCst);
            let mut request = [0; 65_536];
            let _ = stream.read(&mut request);
            let _ = stream.write_all(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        }
    });
    (format!("http://{address}/v1"), heard)
}

/// A person was asked to trust files that could not be shown.
#[test]
fn nobody_is_asked_about_files_that_were_not_shown() {
    let lab = Lab::new();
    lab.put("work/AGENTS.md", "Be kind.");
    let mut run = lab.shell_on_terminal("exec 3> >(:); wait $!; tamtam trust . >&3; echo it ended with $?");
    run.until_text("error: nothing was changed: stdout is closed");
    run.until_text("it ended with 1");
}

/// Reliability C01, S13, S22: before trust, a repository's address gets no connection and no key, its profile loosens nothing, and one
/// line says that there is something. Nobody is at the terminal, and that changes nothing.
#[test]
fn a_project_that_is_not_trusted_has_no_say() {
    let lab = Lab::new();
    let (theirs, reached) = counting_server();
    let (ours, heard) = counting_server();
    lab.put(
        PROJECT,
        &format!("model = 'openai/x'\nbase_url = '{theirs}'\npermission = 'auto'\n[rules]\n'*' = 'allow'\n"),
    );
    let run = || {
        let mut command = lab.command(&["run", "--json", "go"]);
        command.env("OPENAI_API_KEY", "sk-test").env("OPENAI_BASE_URL", &ours);
        super::lab::Live::start(command).end()
    };
    let ended = run();
    assert_eq!(
        (ended.code, reached.load(Ordering::SeqCst), heard.load(Ordering::SeqCst)),
        (1, 0, 1),
        "{}",
        ended.stderr
    );
    let warned: Vec<_> = ended.stderr.lines().filter(|line| line.contains("is not trusted")).collect();
    assert!(warned.len() == 1 && warned[0].contains("tamtam trust"), "{}", ended.stderr);
    assert!(ended.lines().iter().any(|line| line["warning"]["kind"] == "configuration_not_read"), "{}", ended.stdout);
    assert_eq!(permit(&lab, "write", write("a")).0, "ask");
    // Trusted, the same file is what decides.
    let trusted = lab.run(&["trust", "--yes", "."]);
    assert!(
        trusted.code == 0 && trusted.stdout.contains("permission = 'auto'") && trusted.stdout.contains(&theirs),
        "{}",
        trusted.stdout
    );
    run();
    assert_eq!((reached.load(Ordering::SeqCst), heard.load(Ordering::SeqCst)), (1, 1));
    assert_eq!(permit(&lab, "write", write("a")).0, "allow");
}

/// Reliability C02: one byte more, and it is asked again; the byte away, and the trust holds.
#[test]
fn one_changed_byte_asks_again() {
    let lab = Lab::new();
    let text = "[rules.edit]\n'docs/**' = 'allow'\n";
    lab.put(PROJECT, text);
    assert_eq!(lab.run(&["trust", "--yes", lab.path("work").to_str().unwrap()]).code, 0);
    let (decided, said) = permit(&lab, "write", write("docs/a"));
    assert_eq!((decided.as_str(), said.as_str()), ("allow", ""));
    lab.put(PROJECT, &format!("{text} "));
    let (decided, said) = permit(&lab, "write", write("docs/a"));
    assert!(decided == "ask" && said.contains("config.toml has changed since"), "{said}");
    assert!(lab.run(&["trust", "--list"]).stdout.contains("not trusted (.tamtam/config.toml has changed"));
    lab.put(PROJECT, text);
    assert_eq!(permit(&lab, "write", write("docs/a")).0, "allow");
    // An agent of the project is trusted with it, and asked about by itself.
    let agent = lab.put("work/.tamtam/agents/writer.md", "Writes.");
    assert!(lab.run(&["trust", "--list"]).stdout.contains("agents/writer.md is new"));
    assert_eq!(permit(&lab, "write", write("docs/a")).0, "allow");
    assert!(
        lab.run(&["trust", "--yes", "."])
            .stdout
            .contains("agents/writer.md (7 bytes, new since you trusted the folder)\n    | Writes.\n")
    );
    assert!(lab.run(&["trust", "--list"]).stdout.contains("  trusted, since "));
    std::fs::write(agent, "Writes!").unwrap();
    assert!(lab.run(&["trust", "--list"]).stdout.contains("agents/writer.md has changed"));
}

/// What is about to be trusted is read first: each file's text, escaped and bounded, and what has changed since. Nothing is trusted
/// without a yes: of a person at the terminal, or `--yes`.
#[test]
fn trust_shows_the_text_and_asks() {
    let lab = Lab::new();
    lab.put(PROJECT, "max_steps = 3\n");
    lab.put("work/AGENTS.md", &format!("Be\u{1b}[2J brief.\n{}last\n", "More.\n".repeat(400)));
    let show = || lab.run(&["trust", "--show", "."]).stdout;
    let refused = lab.run(&["trust", "."]);
    assert!(refused.code == 2 && refused.error().contains("`tamtam trust --yes "), "{}", refused.stderr);
    let shown = refused.stdout;
    assert!(shown.contains("    | Be\\u{1b}[2J brief.\n") && shown.contains("    | max_steps = 3\n"), "{shown}");
    assert!(shown.contains("NOT shown here: `tamtam trust --show ") && !shown.contains("| last"), "{shown}");
    assert!(show().contains("    | last\n"));
    for (answer, code, said) in [("\n", 3, "you did not say yes"), ("n\n", 3, "you did not"), ("y\n", 0, "trusted: ")] {
        assert_eq!(lab.run(&["trust", "--list"]).stdout, "nothing is trusted\n");
        let mut asked = lab.on_terminal(&["trust", "."]);
        asked.until_text("with 2 files? [y/N] ");
        asked.type_keys(answer);
        let ended = asked.end();
        assert!(ended.code == code && ended.stdout.contains(said), "{answer:?}: {}", ended.stdout);
    }
    lab.put(PROJECT, "max_steps = 4\n");
    let (_, said) = permit(&lab, "write", write("a"));
    assert!(
        said.contains("config.toml has changed since you trusted ") && said.contains("`tamtam trust --show "),
        "{said}"
    );
    let shown = lab.run(&["trust", "."]).stdout;
    assert!(shown.contains("(14 bytes, changed since you trusted it (its old text is not kept))"), "{shown}");
    assert!(
        shown.contains("bytes, as you trusted it)") && !shown.contains("brief"),
        "what is as it was is only named: {shown}"
    );
    assert!(show().contains("brief") && lab.run(&["trust", "--show", "--yes", "."]).code == 2);
}

/// A link to a folder is the folder that it leads to; a folder that is made anew at the same path is another one.
#[test]
fn trust_is_for_the_folder_and_not_for_its_name() {
    let lab = Lab::new();
    let text = "[rules.edit]\n'docs/**' = 'allow'\n";
    lab.put(PROJECT, text);
    symlink(lab.path("work"), lab.path("link")).unwrap();
    assert_eq!(lab.run(&["trust", "--yes", lab.path("link").to_str().unwrap()]).code, 0);
    assert_eq!(permit(&lab, "write", write("docs/a")).0, "allow");
    // The link leads elsewhere now.
    lab.put("other/.tamtam/config.toml", text);
    std::fs::remove_file(lab.path("link")).unwrap();
    symlink(lab.path("other"), lab.path("link")).unwrap();
    let call = write("docs/a").to_string();
    let at_link = lab.run(&["permit", "write", &call, "--workspace", lab.path("link").to_str().unwrap()]);
    assert!(at_link.lines()[0]["decision"] == "ask" && at_link.stderr.contains("is not trusted"), "{}", at_link.stderr);
    std::fs::rename(lab.path("work"), lab.path("old")).unwrap();
    lab.put(PROJECT, text);
    let (decided, said) = permit(&lab, "write", write("docs/a"));
    assert!(decided == "ask" && said.contains("is not trusted"), "{said}");
    assert!(lab.run(&["trust", "--list"]).stdout.contains("replaced by a new folder, so not trusted"));
}

/// A hostile file costs one clear error when it is to be trusted, and one line when it stands where a trusted one was; never a wait.
#[test]
fn a_hostile_file_is_a_clear_error() {
    let lab = Lab::new();
    let file = lab.put(PROJECT, "max_steps = 3\n");
    assert_eq!(lab.run(&["trust", "--yes", "."]).code, 0);
    let check = |why: &str| {
        let refused = lab.run(&["trust", "--yes", "."]);
        assert_eq!(refused.code, 2, "{why}: {}", refused.stdout);
        assert!(refused.error().contains("cannot trust") && refused.error().contains(why), "{why}: {}", refused.stderr);
        let (decided, said) = permit(&lab, "write", write("a"));
        assert!(decided == "ask" && said.contains(" is ignored: "), "{why}: {said}");
        std::fs::remove_file(&file).unwrap();
    };
    std::fs::remove_file(&file).unwrap();
    assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
    check("named pipe");
    symlink("/dev/zero", &file).unwrap();
    check("config.toml");
    std::fs::write(&file, vec![b'#'; (1 << 20) + 1]).unwrap();
    check("bytes");
    std::fs::write(&file, b"\xff\x00").unwrap();
    check("UTF-8");
    // What cannot be read as configuration is not trusted.
    std::fs::write(&file, "max_steps = 0").unwrap();
    let wrong = lab.run(&["trust", "--yes", "."]);
    assert!(wrong.code == 2 && wrong.error().contains("line 1: max_steps"), "{}", wrong.stderr);
    for arguments in
        [&["trust"][..], &["trust", "none"], &["trust", ".", "--revoke=7"], &["trust", "--list", "--revoke"]]
    {
        assert_eq!(lab.run(arguments).code, 2, "{arguments:?}");
    }
}

/// A run that asks about a call of this command, once it has asked, and its ask.
fn asking(lab: &Lab, session: &str, command: &str) -> (Live, Value) {
    let mut run = start(lab, session, command);
    let ask = run.until_event("ask");
    (run, ask["ask"].clone())
}

fn start(lab: &Lab, session: &str, command: &str) -> Live {
    let script = lab.put(&format!("{session}.json"), &{
        // A session that is there goes on behind the replies that it had.
        let turn = [json!({"calls": [{"name": "bash", "input": {"command": command}}]}), json!("Done.")];
        json!({"replies": vec![turn; 8].concat()}).to_string()
    });
    let model = format!("scripted:{}", script.display());
    lab.start(&["run", "--json", "--session", session, "--permission", "strict", "--model", &model, "go"])
}

/// Whether a run asks about a call of this command; it is rejected then.
fn is_asked(lab: &Lab, session: &str, command: &str) -> bool {
    let mut run = start(lab, session, command);
    let first = run.until(|line| line["event"] == "ask" || line["event"] == "call_finished");
    if first["event"] == "ask" {
        run.say(&json!({"answer": {"ask": first["ask"], "grant": "reject", "message": "no"}}).to_string());
    }
    assert_eq!(run.end().code, 0);
    first["event"] == "ask"
}

/// Says an answer for the project, and gives the reply to it.
fn answer(run: &mut Live, ask: &Value, offer: u32) -> Value {
    run.say(
        &json!({"answer": {"ask": ask, "grant": "always", "scope": "project", "offer": offer, "who": "ada"}})
            .to_string(),
    );
    run.until(|line| !line["reply"].is_null())["reply"].clone()
}

/// H-13, C-05: "always, for the project" needs a trusted folder, holds in its next sessions as it was offered and no wider, is listed,
/// and holds nowhere once it is taken back: not in a session that is there, and not in the one that it was given to.
#[test]
fn always_for_the_project_holds_until_it_is_taken_back() {
    let lab = Lab::new();
    let (mut run, ask) = asking(&lab, "s1", "echo one");
    let refused = answer(&mut run, &ask, 2);
    assert_eq!(refused["error"]["kind"], "not_trusted", "{refused}");
    assert_eq!(lab.run(&["trust", "--yes", "."]).code, 0);
    assert_eq!(answer(&mut run, &ask, 2)["error"], Value::Null);
    assert_eq!(run.end().code, 0);

    assert!(!is_asked(&lab, "s2", "echo two"));
    assert!(is_asked(&lab, "s2", "echo two; touch x"), "no wider than it was offered");
    let call = json!({"command": "echo three"}).to_string();
    let judged = || lab.run(&["permit", "bash", &call, "--permission", "strict"]).lines().remove(0);
    assert_eq!(judged()["layer"], "granted", "{}", judged());
    let written = json!({"command": "echo three > f"}).to_string();
    let denied = lab.run(&["permit", "bash", &written, "--permission", "headless"]).lines().remove(0);
    assert_eq!(denied["decision"], "deny", "a grant undoes no deny");
    let shown = lab.run(&["config", "show"]).stdout;
    assert!(shown.ends_with("granted for this project: Allows `echo` with any arguments.\n"), "{shown}");
    // Elsewhere it says nothing.
    std::fs::create_dir(lab.path("other")).unwrap();
    let other = lab.path("other").display().to_string();
    let elsewhere = lab.run(&["permit", "bash", &call, "--permission", "strict", "--workspace", &other]);
    assert_eq!(elsewhere.lines()[0]["decision"], "ask");

    let listed = lab.run(&["trust", ".", "--list"]).stdout;
    assert!(
        listed.contains("     1  2") && listed.ends_with(" by ada  Allows `echo` with any arguments.\n"),
        "{listed}"
    );
    let listed = lab.run(&["trust", "--list", "--json"]).lines();
    assert_eq!((&listed[0]["standing"], &listed[0]["granted"][0]["who"]), (&json!("trusted"), &json!("ada")));
    assert_eq!(listed[0]["granted"][0]["rules"][1]["pattern"], "echo *");
    // A change of the project's files holds the grant back until they are trusted.
    let file = lab.put(PROJECT, "max_steps = 9\n");
    assert!(is_asked(&lab, "s3", "echo four"));
    std::fs::remove_file(file).unwrap();
    assert!(!is_asked(&lab, "s3", "echo four"));

    assert_eq!(lab.run(&["trust", ".", "--revoke=2"]).code, 2);
    let gone = lab.run(&["trust", ".", "--revoke=1"]);
    assert_eq!(gone.stdout, "revoked: Allows `echo` with any arguments.\n", "{}", gone.stderr);
    for session in ["s1", "s2", "s4"] {
        assert!(is_asked(&lab, session, "echo five"), "{session}");
    }
    assert_eq!(lab.run(&["trust", ".", "--list"]).stdout.lines().count(), 1, "the folder is trusted as before");
}

/// Two processes that grant at once lose nothing.
#[test]
fn two_processes_that_grant_for_the_project_at_once_are_both_heard() {
    let lab = Lab::new();
    assert_eq!(lab.run(&["trust", "--yes", "."]).code, 0);
    let mut runs: Vec<_> = (0..4).map(|n| asking(&lab, &format!("s{n}"), &format!("touch {n}.txt"))).collect();
    std::thread::scope(|scope| {
        for (run, ask) in &mut runs {
            scope.spawn(move || assert_eq!(answer(run, ask, 1)["error"], Value::Null));
        }
    });
    runs.into_iter().for_each(|(run, _)| assert_eq!(run.end().code, 0));
    let granted = lab.run(&["trust", "--list", "--json"]).lines()[0]["granted"].clone();
    let mut allowed: Vec<_> =
        granted.as_array().unwrap().iter().map(|granted| granted["rules"][0]["pattern"].as_str().unwrap()).collect();
    allowed.sort_unstable();
    assert_eq!(allowed, ["touch 0.txt", "touch 1.txt", "touch 2.txt", "touch 3.txt"]);
}

/// A trust file that cannot be written is said, and the call is allowed in its session.
#[test]
fn a_grant_that_cannot_be_kept_is_said() {
    let lab = Lab::new();
    assert_eq!(lab.run(&["trust", "--yes", "."]).code, 0);
    let (mut run, ask) = asking(&lab, "s", "touch a.txt");
    // Its draft is in the way, for root too.
    std::fs::create_dir(lab.path("home/.local/share/tamtam/trust.new")).unwrap();
    let refused = answer(&mut run, &ask, 1);
    assert_eq!(refused["error"]["kind"], "not_kept", "{refused}");
    assert_eq!(run.end().code, 0);
    assert!(lab.work("a.txt").exists());
}

/// P-04, reliability S13: rule files are told to the model as they were trusted, also one that is cut; one changed byte ends that,
/// and a run says so.
#[test]
fn rule_files_are_told_as_they_were_trusted() {
    let lab = Lab::new();
    let long = format!("Use tabs.\n{}", "A line of rules.\n".repeat(4_000));
    lab.put("work/AGENTS.md", &long);
    lab.put("work/.tamtam/rules/a.md", "Name things.\n");
    let told = || {
        let ended = lab.run(&["prompt", "show", "--json"]);
        let system = ended.lines()[0]["system"].as_str().unwrap().to_owned();
        (system.contains("Use tabs."), system.contains("Name things."))
    };
    assert_eq!(told(), (false, false));
    let trusted = lab.run(&["trust", "--yes", "."]);
    assert!(trusted.code == 0 && trusted.stdout.contains("    | Use tabs.\n"), "{}", trusted.stderr);
    assert_eq!(told(), (true, true));
    // Behind the place where it is cut, and in the other file nothing.
    lab.put("work/AGENTS.md", &(long.clone() + "And spaces.\n"));
    assert_eq!(told(), (false, true));
    let script = lab.put("script.json", &json!({"replies": ["Done."]}).to_string());
    let ended = lab.run(&["run", "--json", "--model", &format!("scripted:{}", script.display()), "go"]);
    let warned: Vec<_> =
        ended.stderr.lines().filter(|line| line.contains("AGENTS.md is ignored: it has changed since")).collect();
    assert_eq!((ended.code, warned.len()), (0, 1), "{}", ended.stderr);
    lab.put("work/AGENTS.md", &long);
    assert_eq!(told(), (true, true));
}
