//! What a person allows for more than one call: offered with its words, chosen, listed and revoked, by lines of JSON and by keys.

use serde_json::{Value, json};

use super::lab::{Lab, Live};

fn bash(command: &str) -> Value {
    json!({"name": "bash", "input": {"command": command}})
}

/// Says a line, and gives the reply to it.
fn reply(run: &mut Live, line: &Value) -> Value {
    run.say(&line.to_string());
    run.until(|line| !line["reply"].is_null())["reply"].clone()
}

fn answer(ask: &Value, more: &Value) -> Value {
    let mut answer = json!({"ask": ask, "grant": "always"});
    for (name, value) in more.as_object().unwrap() {
        answer[name] = value.clone();
    }
    json!({ "answer": answer })
}

/// H-13, C-05: an ask says what may be allowed and what that means; an answer names one; it holds in the next process, is listed
/// and revoked, and then a person is asked again.
#[test]
fn an_offer_is_chosen_listed_and_revoked_over_json() {
    let lab = Lab::new();
    let calls = [bash("echo two"), bash("touch asked.txt"), bash("echo three")];
    let model = lab.script(json!([{"calls": [bash("echo one")]}, "done", { "calls": calls }, "done"]));
    let run = || lab.start(&["run", "--json", "--session", "s", "--permission", "strict", "--model", &model, "go"]);
    let mut first = run();
    let ask = first.until_event("ask");
    let allows = "Allows `echo` with any arguments.";
    assert_eq!(ask["offers"][0]["allows"], "Allows the command `echo one`, exactly.");
    let rule = |pattern| json!({"permission": "bash", "pattern": pattern, "action": "allow"});
    let rules = json!([rule("echo"), rule("echo *")]);
    assert_eq!(ask["offers"][1], json!({"offer": 2, "rules": rules, "allows": allows}));
    // What cannot be granted is refused, and the ask stays open.
    let refused = reply(&mut first, &answer(&ask["ask"], &json!({"scope": "project"})));
    assert_eq!(refused["error"]["kind"], "not_trusted", "{refused}");
    assert!(refused["error"]["message"].as_str().unwrap().contains("`tamtam trust "), "{refused}");
    let refused = reply(&mut first, &answer(&ask["ask"], &json!({"offer": 3})));
    assert_eq!(refused["error"]["kind"], "no_such_offer", "{refused}");
    assert!(refused["error"]["message"].as_str().unwrap().ends_with("choose one from 1 to 2"), "{refused}");
    first.say(&answer(&ask["ask"], &json!({"offer": 2, "who": "ada"})).to_string());
    let closed = first.until_event("ask_closed");
    let grant = json!({"offered": {"scope": "session", "offer": 2}});
    assert_eq!((&closed["grant"], &closed["rules"], &closed["who"]), (&grant, &rules, &json!("ada")));
    assert_eq!(first.end().code, 0);

    let listed = lab.run(&["tape", "grants", "s"]);
    assert!(
        listed.stdout.contains("  session  ") && listed.stdout.ends_with(&format!(" by ada  {allows}\n")),
        "{listed:?}"
    );
    let lines = lab.run(&["tape", "grants", "s", "--json"]).lines();
    let seq = closed["id"].as_str().unwrap().split('.').next().unwrap();
    let id = json!(seq.parse::<u64>().unwrap());
    assert_eq!((lines.len(), &lines[0]["id"], &lines[0]["rules"]), (1, &id, &rules));

    let mut second = run();
    let ask = second.until_event("ask");
    assert!(ask["input"].as_str().unwrap().contains("touch"), "the granted one is not asked about: {ask}");
    let grants = reply(&mut second, &json!({"grants": true}));
    assert_eq!((&grants["grants"][0]["id"], &grants["grants"][0]["allows"]), (&id, &json!(allows)));
    assert_eq!(reply(&mut second, &json!({"revoke": id.to_string()}))["command"], "revoke");
    let again = reply(&mut second, &json!({ "revoke": id }));
    assert_eq!(again["error"]["kind"], "no_such_grant", "{again}");
    second.say(&json!({"answer": {"ask": ask["ask"], "grant": "once"}}).to_string());
    let ask = second.until_event("ask");
    assert!(ask["input"].as_str().unwrap().contains("echo three"), "{ask}");
    second.say(&json!({"answer": {"ask": ask["ask"], "grant": "reject", "message": "no"}}).to_string());
    let ended = second.end();
    assert!(ended.code == 0 && ended.lines().iter().any(|line| line["event"] == "grant_revoked"), "{}", ended.stderr);
    assert_eq!(lab.run(&["tape", "grants", "s"]).stdout, "session s has no standing grants\n");
}

/// H-13: a person on a terminal reads what each answer allows, and chooses one by its number.
#[test]
fn an_offer_is_chosen_by_its_key_and_revoked_by_a_command() {
    let lab = Lab::new();
    let calls = [bash("echo one >> a.txt"), bash("echo two"), bash("echo three"), bash("touch never.txt")];
    let model = lab.script(json!([{ "calls": calls }, "done"]));
    let mut run = lab.on_terminal(&["run", "--session", "s", "--permission", "strict", "--model", &model, "go"]);
    // A command is offered by its parts.
    run.until_text("[1] the command `echo one`, exactly; changing `a.txt`");
    run.until_text("[1]/[2] for this session (+ `turn` or `project`)");
    run.until_text("answer> ");
    run.type_keys("3\n");
    run.until_text("? [y] once");
    run.type_keys("1 project\n");
    run.until_text("not granted: ");
    run.until_text("is not trusted: run `tamtam trust ");
    run.type_keys("1 turn\n");
    run.until_text("Allowed for this turn: the command `echo one`, exactly; changing `a.txt`");
    run.until_text("[2] `echo` with any arguments");
    run.until_text("answer> ");
    run.type_keys("2\n");
    run.until_text("Allowed for this session: `echo` with any arguments");
    run.until_text("command: touch never.txt");
    run.until_text("answer> ");
    run.type_keys("n not that\n");
    run.until_text("Rejected");
    assert_eq!(run.end().code, 0);
    let asks = lab.tape("s").iter().filter(|entry| entry["kind"] == "ask").count();
    assert_eq!(asks, 3);
    // That of the turn went with it.
    let grants = lab.run(&["tape", "grants", "s", "--json"]).lines();
    assert_eq!((grants.len(), &grants[0]["allows"]), (1, &json!("Allows `echo` with any arguments.")));
    let id = grants[0]["id"].to_string();
    let revoked = lab.run(&["tape", "grants", "s", "--revoke", &id]);
    assert_eq!(
        (revoked.code, revoked.stdout),
        (0, format!("grant {id} of session s is revoked: what it allowed is asked about again\n"))
    );
    let again = lab.run(&["tape", "grants", "s", "--revoke", &id]);
    assert_eq!(again.code, 2);
    assert!(again.stderr.contains("`tamtam tape grants s` lists them"), "{}", again.stderr);
    assert_eq!(lab.run(&["tape", "grants", "nobody"]).code, 2);
}
