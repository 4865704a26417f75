//! MCP servers of the user and of a workspace: named, trusted, offered.

use serde_json::{Value, json};

use super::lab::Lab;

/// The server of the tests that misbehaves on demand; in its mode `good` it does not.
fn server(mode: &str) -> Value {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../tamtam-mcp/tests/hostile.mjs");
    json!({ "command": "node", "args": [script, mode, "starts"] })
}

fn servers(servers: Value) -> String {
    json!({ "mcpServers": servers }).to_string()
}

/// S24, S27, C01: a server of a workspace starts once its file is trusted, byte for byte, and its tools are those of the session. A
/// changed file starts nothing.
#[test]
fn a_server_of_a_workspace_starts_once_its_file_is_trusted() {
    let lab = Lab::new();
    let call = json!({"calls": [{"name": "mcp_mine_echo", "input": {"a": 1}}]});
    let model = lab.script(json!([call, "Done.", call, "Done.", call, "Done."]));
    let run = || lab.run(&["run", "--permission", "auto", "--json", "--model", &model, "go"]);
    lab.put("work/.mcp.json", &servers(json!({ "mine": server("good") })));
    let before = run();
    assert!(before.stderr.contains(".mcp.json") && before.stderr.contains("tamtam trust"), "{}", before.stderr);
    assert!(!lab.work("starts").exists(), "nothing of it was started");
    assert!(before.stdout.contains("tool not found: mcp_mine_echo"), "{}", before.stdout);
    assert_eq!(lab.run(&["trust", "--yes", "."]).code, 0);
    let trusted = run();
    assert_eq!(trusted.code, 0, "{}", trusted.stderr);
    assert!(trusted.stdout.contains(r#"{\"a\":1}"#), "{}", trusted.stdout);
    assert_eq!(std::fs::read_to_string(lab.work("starts")).unwrap().lines().count(), 1);
    lab.put("work/.mcp.json", &servers(json!({ "mine": server("good"), "more": server("good") })));
    let changed = run();
    assert!(changed.stderr.contains(".mcp.json has changed since you trusted"), "{}", changed.stderr);
    assert_eq!(std::fs::read_to_string(lab.work("starts")).unwrap().lines().count(), 1);
    assert_eq!(lab.processes_that(|line| line.contains("hostile.mjs")), 0);
}

/// `mcp add` writes the user's file, `list` says where each server comes from, `check` starts them; what cannot be used has a line.
#[test]
fn servers_are_added_listed_and_checked() {
    let lab = Lab::new();
    let script = server("odd")["args"][0].as_str().unwrap().to_owned();
    assert!(lab.run(&["mcp", "list"]).stdout.starts_with("no MCP servers: "));
    let added = lab.run(&["mcp", "add", "odd", "--env", "KEY=sk-CANARY", "--", "node", &script, "odd"]);
    assert_eq!(added.code, 0, "{}", added.stderr);
    let again = lab.run(&["mcp", "add", "ODD", "--", "node"]);
    assert!(again.code == 2 && again.error().contains("there is a server ODD already"), "{}", again.stderr);
    let bad = lab.run(&["mcp", "add", "a/b c!", "--", "node"]);
    assert!(bad.code == 2 && bad.error().contains("a name is 1 to 28 letters"), "{}", bad.stderr);
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(lab.path("home/.config/tamtam/mcp.json")).unwrap().permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);
    lab.put("work/opencode.json", r#"{"mcp": {"far": {"type": "remote", "url": "https://u:CANARY@x/mcp?key=CANARY"}, "old": {"type": "sse", "url": "https://x"}}}"#);
    lab.put(
        "work/.codex/config.toml",
        "[mcp_servers.broken]\ncommand = \"node\"\nargs = [\"-e\", \"process.exit(3)\"]\n",
    );
    assert_eq!(lab.run(&["trust", "--yes", "."]).code, 0);
    let listed = lab.run(&["mcp", "list"]).stdout;
    assert!(listed.contains(&format!("odd  node {script} odd  (")), "{listed}");
    assert!(listed.contains("broken  node -e process.exit(3)  (.codex/config.toml)"), "{listed}");
    assert!(listed.contains("far  https://x/mcp  (opencode.json)"), "{listed}");
    assert!(
        listed.contains("not used: opencode.json: the MCP server old: its transport \"sse\" is not spoken"),
        "{listed}"
    );
    let lines = lab.run(&["mcp", "list", "--json"]);
    assert!(lines.lines().len() == 3 && !lines.stdout.contains("CANARY"), "{}", lines.stdout);
    let odd = lab.run(&["mcp", "check", "odd"]);
    assert_eq!(odd.code, 0, "{}", odd.stderr);
    assert!(
        odd.stdout.starts_with("odd  1 tools  (odd 1, MCP 2025-06-18)\n  mcp_odd_fine\n  not offered: fine: "),
        "{}",
        odd.stdout
    );
    let all = lab.run(&["mcp", "check", "--json"]);
    assert_eq!(all.code, 1, "one does not start");
    let broken = all.lines().into_iter().find(|line| line["name"] == "broken").unwrap();
    assert!(broken["error"].as_str().unwrap().contains("its process ended (exit status: 3)"), "{broken}");
    assert_eq!(lab.run(&["mcp", "check", "none"]).code, 2);
}

/// A server at an address is added with a header from a variable, checked, and used by a run; what is printed has no value of a header.
#[test]
fn a_server_at_an_address_is_added_and_used() {
    let lab = Lab::new();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../tamtam-mcp/tests/hostile_http.mjs");
    let mut server = std::process::Command::new("node")
        .args([script, "guarded"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(server.stdout.take().unwrap()), &mut said).unwrap();
    let url = format!("http://127.0.0.1:{}/mcp", said.trim().strip_prefix("port ").unwrap());
    let half = lab.run(&["mcp", "add", "web", "--header", "Authorization=x", "--", "node"]);
    assert_eq!(half.code, 2, "a header needs an address");
    let add = ["mcp", "add", "web", "--url", &url, "--header", "Authorization=Bearer ${WEB_TOKEN:-sk-CANARY-right}"];
    assert_eq!(lab.run(&add).code, 0);
    let checked = lab.run(&["mcp", "check"]);
    assert!(checked.stdout.starts_with("web  6 tools  (guarded 1, MCP 2025-06-18)\n"), "{}", checked.stdout);
    let listed = lab.run(&["mcp", "list", "--json"]);
    assert_eq!(listed.lines()[0]["headers"], json!(["Authorization"]));
    let model = lab.script(json!([{"calls": [{"name": "mcp_web_echo", "input": {"a": 1}}]}, "Done."]));
    let ran = lab.run(&["run", "--permission", "auto", "--json", "--model", &model, "go"]);
    assert!(ran.code == 0 && ran.stdout.contains(r#"{\"a\":1}"#), "{} {}", ran.stdout, ran.stderr);
    for output in [&checked.stdout, &listed.stdout, &ran.stdout, &ran.stderr] {
        assert!(!output.contains("CANARY"), "{output}");
    }
    drop(server.stdin.take());
    server.wait().unwrap();
}

/// AA-01: a client that others wrote prompts, steers, answers and aborts a session over MCP; each result has the receipt and the fate of
/// its message.
#[test]
fn sessions_are_tools_for_a_client_that_others_wrote() {
    let lab = Lab::new();
    let write = json!({"calls": [{"name": "write", "input": {"path": "a.txt", "content": "x"}}]});
    let model = lab.script(json!(["Hello.", write, "Written.", write, "Never said."]));
    let served = lab.command(&["mcp", "serve", "--permission", "ask", "--model", &model]);
    let client = concat!(env!("CARGO_MANIFEST_DIR"), "/../tamtam-mcp/tests/npm/client.mjs");
    let mut command = std::process::Command::new("node");
    command.arg(client).arg(served.get_program()).args(served.get_args());
    command.current_dir(served.get_current_dir().unwrap()).env_clear();
    command.envs(served.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ended = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8(ended.stdout).unwrap(), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success(), "{stdout} {stderr}");
    let mut lines = stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut next = || lines.next().unwrap();
    let tools = json!(["prompt", "steer", "status", "answer", "abort"]);
    assert_eq!(next(), json!({"server": "tamtam", "tools": tools}));
    let of = |result: &Value, names: &[&str]| -> Vec<Value> {
        names.iter().map(|name| result["structuredContent"].pointer(name).cloned().unwrap_or_default()).collect()
    };
    let hello = next();
    assert!(hello["content"][0]["text"].as_str().unwrap().starts_with("Hello.\n\n[the turn ended: done;"), "{hello}");
    let fate = ["/receipt/disposition", "/fate/state", "/fate/outcome", "/fate/text", "/state"];
    assert_eq!(of(&hello, &fate), [json!("started"), json!("ended"), json!("done"), json!("Hello."), json!("idle")]);
    let asks = next();
    assert_eq!(
        of(&asks, &["/receipt/message", "/fate/state", "/state", "/asks/0/tool"]),
        [json!("m1"), json!("running"), json!("asks"), json!("write")]
    );
    let steered = next();
    let names = ["/receipt/disposition", "/fate/state", "/waiting"];
    assert_eq!(of(&steered, &names), [json!("steering"), json!("joining"), json!(["m2"])]);
    let again = next();
    assert_eq!(of(&again, &["/receipt/known_before", "/fate/state"]), [json!(true), json!("running")]);
    assert_eq!(of(&next(), &["/asks"]), [json!([])], "the question is answered");
    let ended = next();
    assert_eq!(
        of(&ended, &["/fate/state", "/fate/text", "/state"]),
        [json!("ended"), json!("Written."), json!("idle")]
    );
    assert_eq!(of(&next(), &["/recorded", "/state"]), [json!(true), json!("idle")]);
    for why in ["`session`: ", "`text` is missing", "is closed: it was answered"] {
        let wrong = next();
        let text = wrong["content"][0]["text"].as_str().unwrap();
        assert!(wrong["isError"] == true && text.contains(why), "{why}: {wrong}");
    }
    assert!(next()["gone"].is_string());
    assert_eq!(of(&next(), &["/state", "/asks"]), [json!("on_hold"), json!([])]);
    assert_eq!(of(&next(), &["/fate"]), [json!({"state": "on_hold", "before": 0})]);
    assert_eq!(lines.next(), None);
    assert_eq!(std::fs::read_to_string(lab.work("a.txt")).unwrap(), "x");
    assert_eq!(lab.processes_that(|line| line.contains("mcp serve")), 0);
}

/// A prompt of `run` takes resources and prompts from servers; where a server does not give them, nothing is said and the error names
/// them.
#[test]
fn a_prompt_takes_resources_and_prompts_from_servers() {
    let lab = Lab::new();
    let packages = concat!(env!("CARGO_MANIFEST_DIR"), "/../tamtam-mcp/tests/npm/node_modules/@modelcontextprotocol");
    let script = format!("{packages}/server-everything/dist/index.js");
    let none = lab.run(&["run", "--model", &lab.script(json!(["Done."])), "/mcp_every_args-prompt city=Paris"]);
    assert!(
        none.code == 1 && none.error().contains("there is no MCP server: see `tamtam mcp list`"),
        "{}",
        none.stderr
    );
    assert_eq!(lab.run(&["mcp", "add", "every", "--", "node", &script, "stdio"]).code, 0);
    let model = lab.script(json!(["Done."]));
    let run = |id: &str, prompt: &str| lab.run(&["run", "--session", id, "--model", &model, prompt]);
    assert_eq!(run("one", "Read @every:demo://resource/dynamic/text/3, please.").code, 0);
    assert!(format!("{:?}", lab.tape("one")).contains("Resource 3: This is a plaintext resource"));
    assert_eq!(run("two", "/mcp_every_args-prompt city=Paris").code, 0);
    assert!(format!("{:?}", lab.tape("two")).contains("What's weather in Paris?"));
    let bad = run("three", "/mcp_every_no-such");
    assert!(
        bad.code == 1 && bad.error().contains("/mcp_every_no-such: the MCP server every refused"),
        "{}",
        bad.stderr
    );
}
