//! A canary key in every place where a key can come from: no byte written anywhere contains it.
//!
//! The places: the environment, a file and an output of a tool (short, long enough for a file beside the tape, streamed), the body and
//! the headers of a refused request, a panic of a tool. What is read afterwards: every file of the store, every event, stdout and stderr,
//! the log, the crash reports and the tree.

use std::{
    io::Write,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    sync::{Arc, LazyLock, Mutex},
};

use serde_json::{Value, json};
use tamtam::{
    EventKind, Runtime, Seq, SessionOptions,
    hook::Redact,
    model::{Api, Endpoint, HttpModel, HttpOptions, Proxies, Reply, Scripted, Secret},
    permission::Profile,
    session::Next,
    tool::{self, NoArguments},
};

use crate::{
    cli::lab::Lab,
    support::{
        fault_server::{Act, FaultServer},
        taped,
    },
};

/// A key whose shape is known.
const CANARY: &str = "sk-ant-api03-CANARYcanary0123456789-abcdefghijklmnopqrstuvwxyzABCDEF";
/// A key of no shape, which only its name gives away.
const ODD: &str = "odd.CANARY!of_no_shape-77";

/// The lines of a private key that look like nothing by themselves.
const PEM_LINES: [&str; 3] = [
    "MIIEpAIBAAKCAQEAkBirdpemLineNumberOneAbCdEfGhIjKlMnOpQrStUvWxYz01",
    "q7BirdpemLineNumberTwoZyXwVuTsRqPoNmLkJiHgFeDcBa0123456789abcdE",
    "BirdpemLineNumberThree0011==",
];

/// A file with a private key.
fn pem() -> String {
    let border = |word: &str| ["-----", word, " RSA PRIVATE KEY-----\n"].concat();
    format!("{}{}\n{}", border("BEGIN"), PEM_LINES.join("\n"), border("END"))
}

/// What must not be found: pieces of the keys, and their base64.
fn pieces() -> Vec<Vec<u8>> {
    let plain = [CANARY, ODD].into_iter().chain(PEM_LINES).flat_map(|key| key.as_bytes().windows(12).skip(12));
    plain.map(<[u8]>::to_vec).collect()
}

fn holds_canary(bytes: &[u8]) -> Option<String> {
    let found =
        pieces().into_iter().find(|piece| bytes.windows(piece.len()).any(|window| window == piece.as_slice()))?;
    let at = bytes.windows(found.len()).position(|window| window == found.as_slice())?;
    let around = &bytes[at.saturating_sub(200)..(at + 100).min(bytes.len())];
    Some(String::from_utf8_lossy(around).into_owned())
}

/// Every file below a folder is free of the canary. Gives how many files were read.
///
/// The copies of the workspace's files are left out: a restore puts a file back as it was, with the keys that stand in it
/// (`docs/SECURITY.md`). Nobody but the user may read them.
fn assert_clean(folder: &Path) -> usize {
    let mut read = 0;
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.ends_with("files") {
            for copy in walk(&path) {
                let mode = std::fs::metadata(&copy).unwrap().permissions().mode();
                assert_eq!(mode & 0o077, 0, "{copy}");
            }
        } else if path.is_dir() {
            read += assert_clean(&path);
        } else if path.is_file() {
            let found = holds_canary(&std::fs::read(&path).unwrap());
            assert_eq!(found, None, "{}", path.display());
            read += 1;
        }
    }
    read
}

/// A refusal that repeats the key in its body and in headers.
fn refusal(status: &str, key: &str) -> Vec<u8> {
    let error = json!({"type": "authentication_error", "code": key, "message": format!("invalid key {key} ({key})")});
    let body = json!({"error": error, "request_id": key}).to_string();
    format!(
        "HTTP/1.1 {status}\r\nx-request-id: {key}\r\nx-api-key: {key}\r\nauthorization: Bearer {key}\r\nset-cookie: k={key}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// A command that writes the key in many ways: at once, cut in two by time, on both streams, and 200 KiB of it.
const NOISY: &str = "cat key.txt; printf 'a%s' \"$(cut -c1-20 key.txt)\"; sleep 0.3; cut -c21- key.txt; cat key.txt >&2; \
                     all=$(for i in $(seq 60); do cat key.txt odd.txt; done); for i in $(seq 60); do echo \"$all\"; done; echo \"$SOME_SETTING\"";

fn script() -> Value {
    json!([
        {"calls": [
            {"name": "read", "input": {"path": "key.txt"}},
            {"name": "bash", "input": {"command": "cat key.txt odd.txt; env; tr '\\0' '\\n' < /proc/self/environ"}},
            {"name": "bash", "input": {"command": NOISY}},
            {"name": "grep", "input": {"pattern": "CANARY"}},
            {"name": "grep", "input": {"pattern": "PRIVATE KEY", "path": "key.pem", "context": 2}},
            {"name": "read", "input": {"path": "key.pem"}},
        ]},
        "Done."
    ])
}

/// K01, K03, K06, must-show 6 of Permission: the binary, with tools that write the key, its own environment full of it, and the log on.
#[test]
fn a_canary_is_in_nothing_that_the_binary_writes() {
    let lab = Lab::new();
    std::fs::write(lab.work("key.txt"), format!("{CANARY}\n")).unwrap();
    std::fs::write(lab.work("odd.txt"), format!("{ODD}\n")).unwrap();
    std::fs::write(lab.work("key.pem"), pem()).unwrap();
    let model = lab.script(script());
    // The commands read outside of the workspace, and one cannot be read into its parts.
    let allow = |permission: &str| format!(r#"{{"permission":"{permission}","pattern":"*","action":"allow"}}"#);
    let rules = lab.work("allow.rules");
    std::fs::write(&rules, ["external_directory", "unclear_bash", "read", "bash"].map(allow).join("\n")).unwrap();
    let rules = rules.display().to_string();
    for json in [true, false] {
        let mut arguments = vec!["run", "--model", &model, "--permission", "auto", "--rules", &rules, "go"];
        arguments.extend(json.then_some("--json"));
        let mut command = lab.command(&arguments);
        command
            .env("ANTHROPIC_API_KEY", format!("{CANARY}-own"))
            .env("SOME_SETTING", CANARY)
            .env("MY_SERVICE_TOKEN", ODD);
        let output = command.env("TAMTAM_LOG", "trace").output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        for written in [&output.stdout, &output.stderr] {
            assert_eq!(holds_canary(written), None);
        }
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(
            !json || shown.contains("[redacted: Anthropic key]") && shown.contains("[redacted: secret]"),
            "{shown}"
        );
    }
    let spilled = walk(&lab.path("home")).into_iter().filter(|path| path.ends_with(".log")).count();
    assert!(spilled >= 2, "the long output is kept beside the tape");
    assert!(assert_clean(&lab.path("home")) > 4);
    assert_clean(&lab.path("tmp"));
}

fn walk(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path.display().to_string()] }).collect()
}

/// The control: without the redaction the same run has the key on its tape, so the search above finds what there is.
#[test]
fn without_redaction_the_canary_is_found() {
    let lab = Lab::new();
    std::fs::write(lab.work("key.txt"), format!("{CANARY}\n")).unwrap();
    let model = lab.script(json!([{"calls": [{"name": "read", "input": {"path": "key.txt"}}]}, "Done."]));
    let ended = lab.run(&["run", "--no-redact", "--json", "--model", &model, "--permission", "auto", "go"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(holds_canary(ended.stdout.as_bytes()).is_some());
    let files = walk(&lab.path("home"));
    assert!(files.iter().any(|file| holds_canary(&std::fs::read(file).unwrap()).is_some()));
}

/// K01, K02: a server that repeats the key in body and headers, over both wires, with the key in the environment.
#[tokio::test(flavor = "multi_thread")]
async fn a_canary_in_a_refusal_is_in_nothing_that_the_binary_writes() {
    for (model, variable) in [("anthropic/m", "ANTHROPIC_API_KEY"), ("openai/m", "OPENAI_API_KEY")] {
        for key in [CANARY, ODD] {
            let server = FaultServer::answering(move |_, _| vec![Act::Send(refusal("401 Unauthorized", key))]).await;
            let lab = Lab::new();
            let url = server.url();
            let mut command = lab.command(&["run", "--json", "--model", model, "--base-url", &url, "hi"]);
            command.env(variable, key).env("TAMTAM_LOG", "trace");
            let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
            assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
            assert_eq!(server.seen().len(), 1);
            assert!(server.seen()[0].head.contains(key), "the request carried it");
            for written in [&output.stdout, &output.stderr] {
                assert_eq!(holds_canary(written), None);
            }
            assert!(assert_clean(&lab.path("home")) > 0);
        }
    }
}

/// A log of everything.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// While `tracing` has one subscriber alone, a line that is first met on a thread without one is left out for ever, on all threads.
/// Other tests run on such threads. With more than one, all are asked.
static OTHERS: LazyLock<[tracing::Dispatch; 2]> =
    LazyLock::new(|| [(); 2].map(|()| tracing::Dispatch::new(tracing_subscriber::registry())));

impl Log {
    /// Takes what this thread logs, as long as the guard lives.
    fn listen(&self) -> tracing::subscriber::DefaultGuard {
        LazyLock::force(&OTHERS);
        let writer = self.clone();
        let all = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE);
        tracing::subscriber::set_default(all.with_writer(move || writer.clone()).finish())
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Which {
    how: String,
}

/// K01, K06 in a host: tools of its own that return, stream, report and panic with the key, and a model whose server repeats it.
/// Everything that a host can look at is looked at.
#[tokio::test]
async fn a_canary_is_in_nothing_that_a_host_sees() {
    let log = Log::default();
    let _guard = log.listen();
    let folder = taped::folder();
    let says = tool::typed("says", "Says it", async |which: Which, context: tool::ToolContext| {
        context.progress.title(format!("using {CANARY}"));
        context.progress.metadata(json!({"header": format!("Bearer {ODD} {CANARY}")}));
        match which.how.as_str() {
            "panic" => panic!("bad key {CANARY} {ODD}"),
            "error" => tool::ToolResult::error(format!("401 {CANARY} {ODD}")),
            _ => tool::ToolResult::ok("x".repeat(60_000) + CANARY + ODD).with_details(json!({"key": [CANARY, ODD]})),
        }
    });
    let streams =
        tool::typed_streaming("streams", "Streams it", |_: NoArguments, _, sink: tool::TextSink| async move {
            for piece in [CANARY, "\n", ODD].concat().as_bytes().chunks(5) {
                sink.write(std::str::from_utf8(piece).unwrap());
            }
            tool::ToolResult::ok("")
        });
    let calls =
        [("says", json!({"how": "well"})), ("says", json!({"how": "error"})), ("says", json!({"how": "panic"}))];
    let calls = calls.into_iter().chain([("streams", json!({}))]);
    let model = Scripted::new([
        calls.fold(Reply::text("Calls."), |reply, (name, input)| reply.with_call(name, input)),
        Reply::text("Done."),
    ]);
    let runtime = Runtime::builder()
        .store(folder.path().join("store"))
        .model(Arc::new(model))
        .tool(says)
        .tool(streams)
        .hook(Redact::new().value(ODD))
        .start()
        .await
        .unwrap();
    let mut options = SessionOptions::new(folder.path());
    options.rules = Some(Profile::Auto.ruleset());
    let session = runtime.create(options).await.unwrap();
    let mut events = session.events();
    session.prompt("go").await.unwrap().wait().await.unwrap();
    let (mut seen, mut streamed) = (Vec::new(), String::new());
    while let Some(Next::Event(event)) = events.next().await {
        if let EventKind::CallProgress { metadata, .. } = &event.kind {
            streamed.extend(metadata["piece"].as_str());
        }
        seen.extend(serde_json::to_vec(&*event).unwrap());
        if seen.windows(15).any(|window| window == b"\"turn_finished\"") {
            break;
        }
    }
    assert_eq!(holds_canary(&seen), None);
    assert_eq!(streamed, "[redacted: Anthropic key]\n[redacted: secret]", "a key that came in pieces");
    let shown = String::from_utf8(seen).unwrap();
    assert!(shown.contains("using [redacted: Anthropic key]") && shown.contains("[redacted: secret]"), "{shown}");
    let state = format!("{:?}", session.state().await.unwrap());
    let mut replayed = session.events_after(Seq::ZERO).await.unwrap();
    let first = replayed.next().await;
    let tree = runtime.tree();
    let looked = format!("{state} {first:?} {tree} {:?} {:?}", runtime.crashes(), serde_json::to_string(&tree));
    assert_eq!(holds_canary(looked.as_bytes()), None);
    runtime.shutdown().await;
    assert!(assert_clean(&folder.path().join("store")) > 2);
    assert_eq!(holds_canary(&log.0.lock().unwrap()), None);
}

/// What a model gives a tool as arguments, and what the tool says of its progress, are words of the conversation: they are in no tree,
/// inspection, trace, happening, crash report and log, unless the host asks for them.
#[tokio::test]
async fn a_calls_arguments_are_in_nothing_that_operators_see() {
    for asked in [false, true] {
        let log = Log::default();
        let _guard = log.listen();
        let (folder, gate) = (taped::folder(), Arc::new(tokio::sync::Semaphore::new(0)));
        let (opens, at_work) = (gate.clone(), Arc::new(tokio::sync::Semaphore::new(0)));
        let works = at_work.clone();
        let login = tool::typed("login", "Logs in", move |which: Which, context: tool::ToolContext| {
            let (works, opens) = (works.clone(), opens.clone());
            async move {
                if which.how.starts_with("titled") {
                    context.progress.title(format!("as {}", which.how));
                }
                works.add_permits(1);
                opens.acquire().await.unwrap().forget();
                match which.how.as_str() {
                    how if how.ends_with("panics") => panic!("bad password {how}"),
                    _ => tool::ToolResult::ok("in"),
                }
            }
        });
        let password = format!("{ODD} panics");
        let call = |how: String| Reply::call("login", json!({ "how": how }));
        let replies = [call(password.clone()), call(format!("titled {password}")), Reply::text("Done.")];
        let builder = Runtime::builder().store(folder.path().join("store")).model(Arc::new(Scripted::new(replies)));
        let runtime = builder.tool(login).tree_shows_arguments(asked).start().await.unwrap();
        let mut options = SessionOptions::new(folder.path());
        options.rules = Some(Profile::Auto.ruleset());
        let session = runtime.create(options).await.unwrap();
        let id = session.id().to_string();
        let receipt = session.prompt(format!("log in with {ODD}")).await.unwrap();
        let mut looked = String::new();
        for _ in 0..2 {
            at_work.acquire().await.unwrap().forget();
            let tree = runtime.tree();
            looked += &format!("{tree}{tree:?}{}", serde_json::to_string(&tree).unwrap());
            let inspected = runtime.inspect(&id).unwrap();
            looked += &format!("{inspected}{inspected:?}{:?}", runtime.trace(&id));
            gate.add_permits(1);
        }
        receipt.wait().await.unwrap();
        looked += &format!("{:?}{}", runtime.crashes(), runtime.tree());
        assert!(looked.contains("login"), "the tool is named: {looked}");
        assert_eq!(holds_canary(looked.as_bytes()).is_some(), asked, "{looked}");
        runtime.shutdown().await;
        assert_eq!(holds_canary(&log.0.lock().unwrap()), None);
    }
}

/// What a person sends and what a task tells its child is redacted where the host wants it: no tape and no event has it.
#[tokio::test]
async fn a_canary_in_a_message_or_a_task_is_on_no_tape() {
    let folder = taped::folder();
    let model = Arc::new(Scripted::from_fn(|_| Reply::text("Done.")));
    let builder = Runtime::builder().store(folder.path().join("store")).model(model.clone());
    let runtime = builder.hook(Redact::new().value(ODD).inputs()).start().await.unwrap();
    let mut options = SessionOptions::new(folder.path());
    options.rules = Some(Profile::Auto.ruleset());
    std::fs::write(folder.path().join("key.txt"), format!("{CANARY}\n{ODD}\n")).unwrap();
    let session = runtime.create(options).await.unwrap();
    session.prompt(format!("use {CANARY} or {ODD}")).await.unwrap().wait().await.unwrap();
    let mut request = tamtam::session::TaskRequest::new("general", "keys", format!("use {CANARY} or {ODD}"));
    let file = tamtam::session::ContextRefKind::File;
    request.context_refs = vec![tamtam::session::ContextRef::new(file, "key.txt")];
    session.delegate(request, Default::default()).await.unwrap().result().await.unwrap();
    session.wait().await.unwrap();
    let told: Vec<_> = model.requests().iter().map(tamtam::model::transcript).collect();
    assert!(told.iter().all(|told| told.contains("[redacted: Anthropic key] or [redacted: secret]")), "{told:?}");
    runtime.shutdown().await;
    assert!(assert_clean(&folder.path().join("store")) > 2);
}

/// The model was shown a mark in the place of a key, and writes what it was shown: the file keeps its key. A mark that a file has, as a
/// page about marks does, may stay, and what is written beside it is written.
#[tokio::test]
async fn a_mark_is_not_written_in_the_place_of_a_secret() {
    let folder = taped::folder();
    let work = |name: &str| folder.path().join(name);
    let kept = format!("KEY={CANARY}\nPORT=1\n");
    std::fs::write(work(".env"), &kept).unwrap();
    std::fs::write(work("about.md"), "A mark is [redacted: secret].\n").unwrap();
    let mark = "[redacted: Anthropic key]";
    let calls = [
        ("read", json!({"path": ".env"})),
        ("write", json!({"path": ".env", "content": format!("KEY={mark}\nPORT=2\n")})),
        ("write", json!({"path": "copy.env", "content": format!("KEY={mark}\n")})),
        ("edit", json!({"path": ".env", "old_string": "PORT=1", "new_string": format!("OTHER={mark}")})),
        ("edit", json!({"path": ".env", "mode": "diff", "diff": format!("@@ -2,1 +2,2 @@\n PORT=1\n+K={mark}\n")})),
        ("edit", json!({"path": "about.md", "old_string": "A mark", "new_string": "One mark"})),
    ];
    let one = calls.into_iter().map(|(name, input)| Reply::call(name, input));
    let model = Scripted::new(one.chain([Reply::text("Done.")]));
    let builder = Runtime::builder().store(work("store")).model(Arc::new(model)).tools(tamtam::tools::full());
    let runtime = builder.hook(Redact::new()).start().await.unwrap();
    let mut options = SessionOptions::new(folder.path());
    options.rules = Some(Profile::Opencode.ruleset());
    let session = runtime.create(options).await.unwrap();
    session.prompt("go").await.unwrap().wait().await.unwrap();
    let entries = session.entries().await.unwrap().into_iter();
    let results = entries.filter_map(|entry| match entry.record {
        tamtam::session::Record::Result { result, .. } => Some((result.is_error(), result.content.clone())),
        _ => None,
    });
    let results: Vec<_> = results.collect();
    let refused: Vec<_> = results.iter().map(|(is_error, _)| *is_error).collect();
    assert_eq!(refused, [false, true, true, true, true, false], "{results:?}");
    assert!(results[1..5].iter().all(|(_, content)| content.contains("stands for a secret")), "{results:?}");
    assert_eq!(std::fs::read_to_string(work(".env")).unwrap(), kept);
    assert!(!work("copy.env").exists());
    assert_eq!(std::fs::read_to_string(work("about.md")).unwrap(), "One mark is [redacted: secret].\n");
    runtime.shutdown().await;
}

/// K01: no `Debug` of a value that holds a key prints it.
#[tokio::test]
async fn no_debug_prints_a_canary() {
    let endpoint = |key| {
        Endpoint::new(Api::AnthropicMessages, "p", format!("http://u:{CANARY}@127.0.0.1:9/?k={CANARY}"), "m")
            .with_key(key)
    };
    let mut options = HttpOptions::default();
    options.proxies = Proxies::all(Secret::new(format!("http://u:{CANARY}@127.0.0.1:9")));
    let model = HttpModel::new(endpoint(Secret::new(CANARY)), options.clone()).unwrap();
    let bad = HttpModel::new(endpoint(Secret::new(format!("{CANARY}\u{1}"))), options.clone()).err();
    let bash = tamtam::tools::BashOptions::new([("OPENAI_API_KEY".into(), CANARY.into())]);
    let shown = format!(
        "{model:?} {bad:?} {options:?} {:?} {bash:?} {:?}",
        Redact::new().value(CANARY),
        tamtam::tools::Bash::new(bash.clone())
    );
    assert_eq!(holds_canary(shown.as_bytes()), None);
    assert!(shown.contains("Secret(***)"), "{shown}");
}
