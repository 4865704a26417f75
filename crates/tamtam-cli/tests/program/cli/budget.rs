//! Budgets from the command line: what stops, what asks, what goes down, and what a `kill -9` does not forget.

use serde_json::{Value, json};

use super::lab::Lab;

/// A script whose answers have up to 2,000 tokens, and what its models cost: $1 for a million tokens, `x/cheap` a tenth.
fn script(lab: &Lab, name: &str, replies: Value) -> String {
    let file = lab.path(name);
    let prices = json!({"scripted/script": {"input": 1, "output": 1}, "x/cheap": {"input": 0.1, "output": 0.1}});
    let script = json!({"limits": {"output": 2_000}, "prices": prices, "replies": replies});
    std::fs::write(&file, script.to_string()).unwrap();
    format!("scripted:{}", file.display())
}

fn text(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}

fn of<'a>(lines: &'a [Value], event: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["event"] == event).collect()
}

/// Promise 9: a budget that is used up ends the turn with the outcome `budget` and the exit code 3, and no request is made.
#[test]
fn a_budget_that_is_used_up_ends_with_3() {
    let lab = Lab::new();
    let model = script(&lab, "s.json", json!(["Never said."]));
    let ended = lab.run(&["run", "--model", &model, "--budget-tokens", "500", "hello"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (3, ""), "{}", ended.stderr);
    assert!(ended.error().contains("the session's budget of 500 tokens has too little left"), "{}", ended.stderr);

    let limit = ["--budget-usd", "0.0005", "--on-budget", "stop", "hi"];
    let run = ["run", "--json", "--session", "s", "--model", model.as_str()];
    let lines = lab.run(&[&run[..], &limit[..]].concat()).lines();
    let budget = of(&lines, "budget")[0];
    assert_eq!((&budget["resource"], &budget["then"], &budget["max"]), (&json!("usd"), &json!("stop"), &json!(500)));
    assert_eq!(lines.last().unwrap()["result"]["outcome"], "budget");
    assert!(lab.tape("s").iter().all(|entry| entry["kind"] != "request"));
}

/// Who listens is asked for more, and the answer raises the limit; events tell what is left.
#[test]
fn the_answer_to_the_question_raises_the_limit() {
    let lab = Lab::new();
    let model = script(&lab, "s.json", json!([{"text": "Hello.", "usage": {"input": 90, "output": 10}}]));
    let mut live = lab.start(&["run", "--json", "--model", &model, "--budget-tokens", "500", "hello"]);
    let budget = live.until_event("budget");
    assert_eq!((&budget["then"], &budget["max"], &budget["used"]), (&json!("ask"), &json!(500), &json!(0)));
    let more = budget["needs"].as_u64().unwrap();
    live.say(&json!({"answer": {"ask": budget["ask"], "grant": "once"}}).to_string());
    let left = live.until_event("step_finished")["left"]["tokens"].as_u64().unwrap();
    // As much again, and at least what is needed; of that the answer used 100.
    assert_eq!(left, 500 + (more - 500).max(500) - 100);
    assert_eq!(live.end().code, 0);
}

/// The answer may say by how much, in the unit of all lines; one that raises something else is refused, and the
/// question stays open.
#[test]
fn the_answer_may_say_by_how_much() {
    let lab = Lab::new();
    let model = script(&lab, "s.json", json!([{"text": "Hello.", "usage": {"input": 90, "output": 10}}]));
    let limit = ["--budget-usd", "0.0005", "hello"];
    let mut live =
        lab.start(&[&["run", "--json", "--session", "s", "--model", model.as_str()][..], &limit[..]].concat());
    let budget = live.until_event("budget");
    let answer = |by: Value| json!({"answer": {"ask": budget["ask"], "grant": "raise", "by": by}}).to_string();
    live.say(&answer(json!({"tokens": 100})));
    let refused = live.until(|line| line["reply"]["command"] == "answer");
    assert_eq!(refused["reply"]["error"]["kind"], "refused", "{refused}");
    assert!(refused["reply"]["error"]["message"].as_str().unwrap().contains("US dollars"), "{refused}");
    live.say(&answer(json!({"micro_usd": 10_000})));
    // 10,500 millionths of a dollar, less 100 tokens at one each.
    let left = live.until_event("step_finished")["left"]["micro_usd"].as_u64().unwrap();
    assert_eq!(left, 10_400);
    assert_eq!(live.end().code, 0);
    let granted = lab.tape("s").into_iter().find(|entry| entry["kind"] == "granted").unwrap();
    assert_eq!(granted["data"]["grant"], json!({"raise": {"usd": 10_000_000_000_u64}}));
}

/// dollars cannot be limited for a model without a price: said before anything is begun, with what to do.
#[test]
fn dollars_for_a_model_without_a_price_are_refused_at_once() {
    let lab = Lab::new();
    let model = lab.script(json!(["Hello."]));
    let ended = lab.run(&["run", "--session", "s", "--model", &model, "--budget-usd", "1", "hello"]);
    assert_eq!(ended.code, 2);
    assert!(ended.error().contains("scripted/script") && ended.error().contains("--price IN/OUT"), "{}", ended.stderr);
    assert_eq!(lab.run(&["sessions"]).stdout.lines().filter(|line| line.starts_with("s ")).count(), 0);
    let ended = lab.run(&["run", "--model", &model, "--budget-usd", "1", "--price", "0.5/2", "hello"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "Hello.\n"), "{}", ended.stderr);
}

/// A switch that can never be made is refused at once too; one that does not fit says so.
#[test]
fn a_switch_that_cannot_be_made_is_said() {
    let lab = Lab::new();
    let model = script(&lab, "s.json", json!(["Hello."]));
    let run = |second: &str, usd: &str| {
        lab.run(&["run", "--model", &model, "--budget-usd", usd, "--on-budget", second, "hello"])
    };
    let ended = run("x/unknown", "1");
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    assert!(ended.error().contains("the price of x/unknown is not known"), "{}", ended.stderr);
    let ended = run("x/cheap", "0.00001");
    assert_eq!(ended.code, 3, "{}", ended.stderr);
    assert!(ended.error().contains("; x/cheap does not fit either: raise it with"), "{}", ended.stderr);
}

/// With a queue of 200 tasks, a budget still gives each task what it can work with; where there is too little the model is told the
/// figures.
#[test]
fn a_budget_gives_each_task_what_it_can_work_with() {
    let lab = Lab::new();
    let task = |prompt: &str| json!({"name": "task", "input": {"description": "look", "prompt": prompt, "subagent_type": "general"}});
    let works = json!({"when": ["user: sub"], "calls": [{"name": "ls", "input": {}}]});
    let done = json!({"when": ["user: sub", "result ls"], "text": "Looked.", "usage": {"input": 5_000, "output": 10}});
    let replies = json!([{"calls": [task("sub one"), task("sub two")]}, "Both done.", done, works]);
    let model = script(&lab, "s.json", replies);
    let run = |session: &str, tokens: &str| {
        let limit = ["--permission", "auto", "--budget-tokens", tokens, "--on-budget", "stop", "go"];
        lab.run(&[&["run", "--json", "--session", session, "--model", model.as_str()][..], &limit[..]].concat())
    };
    let ended = run("large", "200000");
    let lines = ended.lines();
    assert_eq!(
        (ended.code, lines.last().unwrap()["result"]["text"].as_str()),
        (0, Some("Both done.")),
        "{}",
        ended.stdout
    );
    let finished = of(&lines, "task_finished");
    assert_eq!(
        finished.iter().map(|task| task["reason"].clone()).collect::<Vec<_>>(),
        ["done", "done"],
        "{}",
        ended.stdout
    );
    let grants: u64 = of(&lines, "task_started").iter().map(|task| task["grant"]["tokens"].as_u64().unwrap()).sum();
    assert!(grants < 200_000, "{grants}");
    let ended = run("small", "10000");
    let lines = ended.lines();
    let told = of(&lines, "call_finished").into_iter().map(|call| call["content"].to_string());
    let refused = told.clone().any(|said| said.contains("no room for the task") && said.contains("tokens needed next"));
    assert!(refused, "{:?}", told.collect::<Vec<_>>());
}

/// A second model takes over where the first is too dear.
#[test]
fn a_second_model_takes_over_where_the_first_is_too_dear() {
    let lab = Lab::new();
    let model = script(&lab, "s.json", json!(["Hello."]));
    let limits = ["--budget-usd", "0.001", "--on-budget", "x/cheap"];
    let ended = lab.run(&[&["run", "--json", "--model", model.as_str()][..], &limits[..], &["hello"][..]].concat());
    let lines = ended.lines();
    assert_eq!((ended.code, &of(&lines, "budget")[0]["model"]), (0, &json!("x/cheap")), "{}", ended.stdout);
    assert_eq!(of(&lines, "step_started")[0]["model"], "x/cheap");
}

/// Promise 9, must show 7: `kill -9` resets no counter: what was held back for the request that died with it is spent.
#[test]
fn a_killed_process_has_spent_what_it_held_back() {
    let lab = Lab::new();
    std::fs::write(lab.work("a.txt"), "text").unwrap();
    let first =
        json!({"calls": [{"name": "read", "input": {"path": "a.txt"}}], "usage": {"input": 1_000, "output": 500}});
    let hangs = script(&lab, "hangs.json", json!([first, {"hang": true}]));
    let answers =
        script(&lab, "answers.json", json!([first, {"text": "Done.", "usage": {"input": 1_600, "output": 10}}]));
    let limited = |session: &str, model: &str| {
        let arguments = ["run", "--json", "--session", session, "--model", model, "--budget-tokens", "5000"];
        [&arguments[..], &["--on-budget", "stop", "go"][..]].concat().into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let mut live = lab.start(&text(&limited("killed", &hangs)));
    live.until(|line| line["event"] == "step_started" && line["step"] == 2);
    live.signal("-9");
    drop(live);
    let ended = lab.run(&["resume", "killed", "--json", "--model", &answers]);
    let lines = ended.lines();
    let budget = of(&lines, "budget")[0].clone();
    assert_eq!(
        (&budget["max"], &budget["used"], &budget["held"]),
        (&json!(5_000), &json!(5_000), &json!(0)),
        "{budget}"
    );
    assert_eq!(ended.code, 3, "{}", ended.stderr);
    let requests = lab.tape("killed").iter().filter(|entry| entry["kind"] == "request").count();
    assert_eq!((requests, of(&lines, "step_started").len()), (2, 0), "it was not sent again");

    // The control: the same without the kill.
    let ended = lab.run(&text(&limited("whole", &answers)));
    assert_eq!(ended.code, 0, "{}", ended.stdout);
}
