//! Plan mode, as an operator meets it at the binary: enter, write the plan, have it read and approved, carry it out (L-01 to L-05).

use serde_json::{Value, json};

use super::lab::{Ended, Lab, Live};

const PLAN: &str = "# Plan\n- [ ] write it\n- [ ] check it\n";

fn call(name: &str, input: Value) -> Value {
    json!({"calls": [{"name": name, "input": input}]})
}

fn write(path: &str, content: &str) -> Value {
    call("write", json!({"path": path, "content": content}))
}

fn file(session: &str) -> String {
    format!(".tamtam/plans/{session}.md")
}

fn run(lab: &Lab, session: &str, agent: &str, permission: &str, replies: Value) -> Live {
    let model = lab.script(replies);
    let arguments =
        ["run", "--json", "--session", session, "--agent", agent, "--permission", permission, "--model", &model, "go"];
    lab.start(&arguments)
}

/// The question of `plan_exit`, with the plan in it. Every other ask is granted.
fn plan_asked(run: &mut Live) -> Value {
    loop {
        let ask = run.until_event("ask");
        if ask["name"] == "plan_exit" {
            return ask;
        }
        answer(run, &ask, "once", None);
    }
}

fn answer(run: &mut Live, ask: &Value, grant: &str, message: Option<&str>) {
    let mut answer = json!({"ask": ask["ask"], "grant": grant, "who": "ada"});
    if let Some(message) = message {
        answer["message"] = json!(message);
    }
    run.say(&json!({ "answer": answer }).to_string());
}

/// What the model was told of its calls, in order.
fn results(ended: &Ended) -> Vec<String> {
    let lines = ended.lines();
    let results = lines.iter().filter(|line| line["event"] == "call_finished");
    results.map(|result| result["content"].as_str().unwrap().to_owned()).collect()
}

fn agents(ended: &Ended) -> Vec<String> {
    let lines = ended.lines();
    let switched = lines.iter().filter(|line| line["event"] == "agent_switched");
    switched.map(|line| format!("{} to {}", line["from"].as_str().unwrap(), line["agent"].as_str().unwrap())).collect()
}

/// E-13, M-14, L-01, L-02, L-03, M-03, Q-04, V-05: the whole way, under a profile that allows all. The model enters, edits nothing
/// but its plan; a person reads the plan, changes it on the disk and approves; the changed plan is carried out and ticked.
#[test]
fn a_plan_is_written_approved_and_carried_out() {
    let lab = Lab::new();
    let held = "- [x] written by a person";
    let mut live = run(
        &lab,
        "s",
        "build",
        "auto",
        json!([
            call("plan_enter", json!({})),
            {"expect": ["You are in plan mode"], "calls": [
                {"name": "write", "input": {"path": "out.txt", "content": "too early"}},
                {"name": "write", "input": {"path": file("s"), "content": PLAN}},
            ]},
            {"calls": [
                {"name": "plan_exit", "input": {}},
                {"name": "write", "input": {"path": "same_step.txt", "content": "too early"}},
            ]},
            {"expect": [held, "as agent build"], "calls": [
                {"name": "write", "input": {"path": "out.txt", "content": "done"}},
            ]},
            {"text": "Done."},
        ]),
    );
    let ask = plan_asked(&mut live);
    assert_eq!(ask["question"]["title"], json!(format!("Plan ready ({}). Carry it out?", file("s"))));
    assert_eq!(ask["question"]["details"], json!(PLAN));
    assert!(!lab.work("out.txt").exists(), "plan mode edits nothing");
    let changed = format!("{PLAN}{held}\n");
    std::fs::write(lab.work(&file("s")), &changed).unwrap();
    answer(&mut live, &ask, "once", None);
    let ended = live.end();
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(agents(&ended), ["build to plan", "plan to build"]);
    let told = results(&ended);
    assert!(told[1].starts_with("Permission denied: edit out.txt by agent plan"), "{told:?}");
    assert!(told[3].contains("The user changed it before") && told[3].contains(held), "{told:?}");
    // A call of the step in which the plan was approved is still judged as in plan mode.
    assert!(told[4].starts_with("Permission denied: edit same_step.txt by agent plan"), "{told:?}");
    assert!(!lab.work("same_step.txt").exists());
    assert_eq!(std::fs::read_to_string(lab.work("out.txt")).unwrap(), "done");
    // The tape replays, and the session is its own agent again.
    assert_eq!(lab.run(&["replay", "s"]).code, 0);
    let shown = lab.run(&["sessions", "--json"]);
    assert_eq!(shown.lines()[0]["agent"], json!("build"), "{}", shown.stdout);
}

/// L-04, Q-02: a rejected plan keeps the session in plan mode, and the model hears why. It may ask again.
#[test]
fn a_rejected_plan_is_changed_and_asked_again() {
    let lab = Lab::new();
    let mut live = run(
        &lab,
        "s",
        "plan",
        "ask",
        json!([
            write(&file("s"), PLAN),
            call("plan_exit", json!({})),
            {"expect": ["says: smaller steps"], "calls": [{"name": "write", "input": {"path": "out.txt", "content": "x"}}]},
            call("edit", json!({"path": file("s"), "old_string": "write it", "new_string": "write half of it"})),
            call("plan_exit", json!({})),
            {"text": "Approved."},
        ]),
    );
    let first = plan_asked(&mut live);
    answer(&mut live, &first, "reject", Some("smaller steps"));
    let second = plan_asked(&mut live);
    assert!(second["question"]["details"].as_str().unwrap().contains("write half of it"));
    answer(&mut live, &second, "once", None);
    let ended = live.end();
    assert_eq!((ended.code, agents(&ended)), (0, vec!["plan to build".to_owned()]), "{}", ended.stderr);
    let told = results(&ended);
    assert!(told[1].contains("You are still in plan mode. Change the plan"), "{told:?}");
    assert!(told[2].starts_with("Permission denied: edit out.txt"), "{told:?}");
    assert!(!lab.work("out.txt").exists());
}

/// L-04: in plan mode a command that does more than report is asked about, also where the profile allows all.
#[test]
fn commands_are_asked_about_in_plan_mode() {
    let lab = Lab::new();
    let replies = json!([call("bash", json!({"command": "touch made.txt"})), {"text": "No."}]);
    let mut live = run(&lab, "s", "plan", "auto", replies);
    let ask = live.until_event("ask");
    assert_eq!(ask["name"], json!("bash"));
    answer(&mut live, &ask, "reject", Some("not now"));
    assert_eq!(live.end().code, 0);
    assert!(!lab.work("made.txt").exists());
}

/// Where nobody can read the plan, plan mode cannot be left; the model is told so, and the turn ends well.
#[test]
fn without_a_person_a_plan_is_not_approved() {
    for permission in ["headless", "auto"] {
        let lab = Lab::new();
        let model = lab.script(json!([call("plan_exit", json!({})), {"text": "The plan is ready."}]));
        std::fs::create_dir_all(lab.work(".tamtam/plans")).unwrap();
        std::fs::write(lab.work(&file("s")), PLAN).unwrap();
        let given = ["run", "--session", "s", "--agent", "plan", "--permission", permission, "--model", &model, "go"];
        let ended = lab.run(&given);
        assert_eq!((ended.code, ended.stdout.trim()), (0, "The plan is ready."), "{permission} {}", ended.stderr);
        let tape = lab.tape("s");
        let result = tape.iter().find(|entry| entry["kind"] == "result").unwrap();
        let text = result["data"]["result"]["content"].as_str().unwrap();
        let expected =
            if permission == "headless" { "Permission denied: plan_exit" } else { "nobody listens who could answer" };
        assert!(text.contains(expected), "{permission}: {text}");
        assert!(tape.iter().all(|entry| entry["kind"] != "agent_chosen"));
    }
}

/// Hostile content: a workspace that brings links along, at the file of the plan or above it. Nothing is written through them, and
/// nothing behind them is shown as a plan.
#[test]
fn a_plan_file_that_is_a_link_is_no_plan() {
    for above in [false, true] {
        let lab = Lab::new();
        std::fs::create_dir_all(lab.work("src")).unwrap();
        std::fs::write(lab.work("src/s.md"), "secret").unwrap();
        std::fs::create_dir_all(lab.work(".tamtam")).unwrap();
        match above {
            true => std::os::unix::fs::symlink("../src", lab.work(".tamtam/plans")).unwrap(),
            false => {
                std::fs::create_dir_all(lab.work(".tamtam/plans")).unwrap();
                std::os::unix::fs::symlink("../../src/s.md", lab.work(&file("s"))).unwrap();
            }
        }
        let replies = json!([
            {"calls": [
                {"name": "read", "input": {"path": file("s")}},
                {"name": "write", "input": {"path": file("s"), "content": "overwritten"}},
                {"name": "plan_exit", "input": {}},
            ]},
            {"text": "No."},
        ]);
        let live = run(&lab, "s", "plan", "auto", replies);
        let ended = live.end();
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        let told = results(&ended);
        assert!(told[2].contains("is a link, or is behind one"), "{above} {told:?}");
        assert_eq!(std::fs::read_to_string(lab.work("src/s.md")).unwrap(), "secret", "{above} {told:?}");
        assert!(ended.lines().iter().all(|line| line["event"] != "ask"));
    }
}

/// What is no plan is not asked about: none, an empty one, one that nobody could read.
#[test]
fn what_cannot_be_read_is_not_approved() {
    let long = "- [ ] x\n".repeat(1_001);
    let wide = "x".repeat(40_000);
    let cases = [
        (None, "Write it to"),
        (Some(" \n"), "is empty"),
        (Some(long.as_str()), "lines"),
        (Some(wide.as_str()), "bytes"),
    ];
    for (plan, expected) in cases {
        let lab = Lab::new();
        if let Some(plan) = plan {
            std::fs::create_dir_all(lab.work(".tamtam/plans")).unwrap();
            std::fs::write(lab.work(&file("s")), plan).unwrap();
        }
        let live = run(&lab, "s", "plan", "auto", json!([call("plan_exit", json!({})), {"text": "No."}]));
        let ended = live.end();
        let told = results(&ended);
        assert!(told[0].contains(expected), "{told:?}");
        assert!(ended.lines().iter().all(|line| line["event"] != "ask"));
    }
}

/// The plan is read by a person after the process died over the question, and approved in the next one.
#[test]
fn a_plan_is_approved_after_a_kill() {
    let lab = Lab::new();
    let approved = json!({"expect": ["The user approved the plan"], "text": "Approved."});
    let replies = json!([write(&file("s"), PLAN), call("plan_exit", json!({})), approved]);
    let model = lab.script(replies.clone());
    let mut live = run(&lab, "s", "plan", "auto", replies);
    let before = plan_asked(&mut live);
    live.signal("-9");
    drop(live.end());
    let mut live = lab.start(&["resume", "s", "--json", "--model", &model]);
    let again = plan_asked(&mut live);
    assert_eq!((&again["ask"], &again["question"]), (&before["ask"], &before["question"]));
    answer(&mut live, &again, "once", None);
    let ended = live.end();
    assert_eq!(
        (ended.code, agents(&ended)),
        (0, vec!["plan to build".to_owned()]),
        "{} {}",
        ended.stdout,
        ended.stderr
    );
    assert_eq!(lab.run(&["replay", "s"]).code, 0);
}

/// M-03, E-12: an agent that does not exist is a usage error that lists those that do; a session that is there changes its agent.
#[test]
fn an_agent_is_chosen_by_its_name() {
    let lab = Lab::new();
    let model = lab.script(json!([{"text": "1"}, {"text": "2"}, {"text": "3"}]));
    let ended = lab.run(&["run", "--agent", "plam", "--model", &model, "go"]);
    assert_eq!((ended.code, ended.error()), (2, "error: there is no agent \"plam\": choose build or plan"));
    let agent = |name: &str| {
        let ended = lab.run(&["run", "--session", "s", "--agent", name, "--model", &model, "go"]);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        lab.run(&["sessions", "--json"]).lines()[0]["agent"].as_str().unwrap().to_owned()
    };
    assert_eq!(["plan", "build", "plan"].map(agent), ["plan", "build", "plan"]);
}
