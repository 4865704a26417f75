//! A workspace may be a stranger's: nothing in it has a say before its folder is trusted, and nothing once it has changed.

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

use super::lab::Lab;

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
    let trusted = lab.run(&["trust", "."]);
    assert!(
        trusted.code == 0 && trusted.stdout.contains("permission = auto") && trusted.stdout.contains(&theirs),
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
    assert_eq!(lab.run(&["trust", lab.path("work").to_str().unwrap()]).code, 0);
    let (decided, said) = permit(&lab, "write", write("docs/a"));
    assert_eq!((decided.as_str(), said.as_str()), ("allow", ""));
    lab.put(PROJECT, &format!("{text} "));
    let (decided, said) = permit(&lab, "write", write("docs/a"));
    assert!(decided == "ask" && said.contains("has changed since it was trusted"), "{said}");
    assert!(lab.run(&["trust", "--list"]).stdout.contains("changed, so not trusted"));
    lab.put(PROJECT, text);
    assert_eq!(permit(&lab, "write", write("docs/a")).0, "allow");
}

/// A link to a folder is the folder that it leads to; a folder that is made anew at the same path is another one.
#[test]
fn trust_is_for_the_folder_and_not_for_its_name() {
    let lab = Lab::new();
    let text = "[rules.edit]\n'docs/**' = 'allow'\n";
    lab.put(PROJECT, text);
    symlink(lab.path("work"), lab.path("link")).unwrap();
    assert_eq!(lab.run(&["trust", lab.path("link").to_str().unwrap()]).code, 0);
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
    assert!(lab.run(&["trust", "--list"]).stdout.contains("made anew, so nothing holds"));
}

/// A hostile file costs one clear error when it is to be trusted, and one line when it stands where a trusted one was; never a wait.
#[test]
fn a_hostile_file_is_a_clear_error() {
    let lab = Lab::new();
    let file = lab.put(PROJECT, "max_steps = 3\n");
    assert_eq!(lab.run(&["trust", "."]).code, 0);
    let check = |why: &str| {
        let refused = lab.run(&["trust", "."]);
        assert_eq!(refused.code, 2, "{why}: {}", refused.stdout);
        assert!(refused.error().contains("cannot trust") && refused.error().contains(why), "{why}: {}", refused.stderr);
        let (decided, said) = permit(&lab, "write", write("a"));
        assert!(decided == "ask" && said.contains("was trusted, and is not read now"), "{why}: {said}");
        std::fs::remove_file(&file).unwrap();
    };
    std::fs::remove_file(&file).unwrap();
    assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
    check("FIFO");
    symlink("/dev/zero", &file).unwrap();
    check("config.toml");
    std::fs::write(&file, vec![b'#'; (1 << 20) + 1]).unwrap();
    check("bytes");
    std::fs::write(&file, b"\xff\x00").unwrap();
    check("UTF-8");
    let nothing = lab.run(&["trust", "."]);
    assert!(nothing.code == 2 && nothing.error().contains("nothing to trust"), "{}", nothing.stderr);
    // What cannot be read as configuration is not trusted.
    std::fs::write(&file, "max_steps = 0").unwrap();
    let wrong = lab.run(&["trust", "."]);
    assert!(wrong.code == 2 && wrong.error().contains("line 1: max_steps"), "{}", wrong.stderr);
    for arguments in
        [&["trust"][..], &["trust", "none"], &["trust", ".", "--revoke=7"], &["trust", "--list", "--revoke"]]
    {
        assert_eq!(lab.run(arguments).code, 2, "{arguments:?}");
    }
}

/// Rules that were granted for a project hold in its next sessions and in those that are there, and not once they are taken back.
#[test]
fn what_was_granted_for_a_project_holds_until_it_is_taken_back() {
    let lab = Lab::new();
    lab.put(PROJECT, "max_steps = 9\n");
    assert_eq!(lab.run(&["trust", "."]).code, 0);
    // As an answer to an ask writes it.
    let path = lab.path("home/.local/share/tamtam/trust.json");
    let mut stored: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    stored["projects"][0]["rules"] =
        json!([{"permission": "edit", "pattern": "a", "action": "allow", "who": "ada", "at": "2026-11-25T00:00:00Z"}]);
    std::fs::write(&path, stored.to_string()).unwrap();
    assert_eq!(permit(&lab, "write", write("a")).0, "allow");
    assert_eq!(permit(&lab, "write", write("b")).0, "ask");
    let call = json!({"name": "write", "input": {"path": "a", "content": "x"}});
    let model = lab.script(json!([{"calls": [call]}, "Done."]));
    // With --json and a closed stdin: an ask is shown, and denied once nobody listens.
    let run = |more: &[&str]| {
        let mut live = lab.start(&[&["run", "--json", "--model", &model, "--session", "s", "go"], more].concat());
        let first = live.until(|line| line["event"] == "ask" || line["event"] == "call_finished");
        if first["event"] == "ask" {
            live.say(&json!({"answer": {"ask": first["ask"], "grant": "reject"}}).to_string());
        }
        drop(live.end());
        first["event"].as_str().unwrap().to_owned()
    };
    assert_eq!(run(&["--permission", "ask"]), "call_finished");
    assert!(lab.work("a").exists());
    let listed = lab.run(&["trust", ".", "--list"]);
    assert!(listed.stdout.contains("1  allow edit a, granted by ada on 2026-11-25"), "{}", listed.stdout);
    let listed = lab.run(&["trust", "--list", "--json"]).lines();
    assert_eq!((listed[0]["standing"].clone(), listed[0]["rules"][0]["who"].clone()), (json!("trusted"), json!("ada")));
    assert!(lab.run(&["trust", ".", "--revoke=1"]).stdout.contains("taken back: allow edit a"));
    assert_eq!(run(&[]), "ask", "a session that is there does not keep it");
    assert_eq!(permit(&lab, "write", write("a")).0, "ask");
    assert_eq!(lab.run(&["trust", ".", "--list"]).stdout.lines().count(), 1, "the files are trusted as before");
}
