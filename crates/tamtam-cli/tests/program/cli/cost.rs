//! What `run`, `models` and the tree show of tokens and money.

use serde_json::{Value, json};

use super::lab::Lab;

/// A script whose model costs $1 for a million tokens read and $4 for a million written.
fn priced(lab: &Lab, replies: Value) -> String {
    let file = lab.path("priced.json");
    let prices = json!({"scripted/script": {"input": 1, "output": 4, "cache_read": 0.1}});
    std::fs::write(&file, json!({"prices": prices, "replies": replies}).to_string()).unwrap();
    format!("scripted:{}", file.display())
}

fn of<'a>(lines: &'a [Value], event: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["event"] == event).collect()
}

/// X-02: each step, the turn and the result carry tokens and cost.
/// COST-ERR-007: the binary prints what a provider's figures (200 in, 80 out, then 10, 5 and 200 cached) come to, in tokens and money.
#[test]
fn each_step_and_the_result_carry_tokens_and_cost() {
    let lab = Lab::new();
    std::fs::write(lab.work("a.txt"), "text").unwrap();
    let model = priced(
        &lab,
        json!([
            {"calls": [{"name": "read", "input": {"path": "a.txt"}}], "usage": {"input": 200, "output": 80}},
            {"text": "Done.", "usage": {"input": 10, "output": 5, "cache_read": 200}},
        ]),
    );
    let ended = lab.run(&["run", "--json", "--session", "s", "--model", &model, "read it"]);
    let lines = ended.lines();
    let costs: Vec<_> = of(&lines, "step_finished").iter().map(|step| step["cost"].clone()).collect();
    assert_eq!(costs, [json!(200 + 320), json!(10 + 20 + 20)], "{}", ended.stdout);
    assert_eq!(of(&lines, "turn_finished")[0]["cost"], 570);
    let result = &lines.last().unwrap()["result"];
    let usage = json!({"input": 210, "output": 85, "reasoning": 0, "cache_read": 200, "cache_write": 0});
    assert_eq!((&result["usage"], &result["cost"], result.get("unpriced")), (&usage, &json!(570), None));
    let requests: Vec<_> = lab.tape("s").into_iter().filter(|entry| entry["kind"] == "request").collect();
    assert_eq!(requests[0]["data"]["price"], json!({"input": 1_000_000, "output": 4_000_000, "cache_read": 100_000}));
}

/// X-01: what has no price is unknown, not free; what has no figures is an estimate. People read both in the last line.
#[test]
fn what_is_not_known_is_said() {
    let lab = Lab::new();
    let model = lab.script(json!([{"text": "Hello.", "usage": {"input": 1, "output": 1}}]));
    let ended = lab.run(&["run", "--json", "--model", &model, "hello"]);
    let result = ended.lines().last().unwrap()["result"].clone();
    assert_eq!((result.get("cost"), &result["unpriced"], result.get("estimated")), (None, &json!(1), None), "{result}");

    let plain = lab.run(&["run", "--model", &model, "hello"]);
    assert!(
        plain.stderr.contains("\n1 tokens in, 1 out; cost unknown (no price of scripted/script is known"),
        "{}",
        plain.stderr
    );
    let model = priced(&lab, json!(["Hello."]));
    let plain = lab.run(&["run", "--model", &model, "hello"]);
    let last = plain.stderr.lines().last().unwrap();
    assert!(last.starts_with("about ") && last.contains("; cost $0.0"), "{last}");
}

/// The result, the last line and the list show what the whole tree used: the tasks are in the sums, and told apart.
#[test]
fn the_figures_are_those_of_the_whole_tree() {
    let lab = Lab::new();
    let task = |prompt: &str| json!({"name": "task", "input": {"description": "look", "prompt": prompt, "subagent_type": "general"}});
    let model = priced(
        &lab,
        json!([
            {"calls": [task("sub one"), task("sub two")], "usage": {"input": 100, "output": 10}},
            {"text": "Done.", "usage": {"input": 100, "output": 10}},
            {"when": ["user: sub"], "text": "Looked.", "usage": {"input": 1_000, "output": 100}},
        ]),
    );
    let run = ["run", "--permission", "auto", "--model", &model, "go"];
    let ended = lab.run(&[&["run", "--json", "--session", "s"][..], &run[1..]].concat());
    let lines = ended.lines();
    let usage = |input: u64, output: u64| json!({"input": input, "output": output, "reasoning": 0, "cache_read": 0, "cache_write": 0});
    let tasks = json!({"count": 2, "requests": 2, "usage": usage(2_000, 200), "cost": 2_800});
    let result = &lines.last().unwrap()["result"];
    assert_eq!(
        (&result["usage"], &result["cost"], &result["tasks"]),
        (&usage(2_200, 220), &json!(3_080), &tasks),
        "{}",
        ended.stdout
    );
    let turn = of(&lines, "turn_finished")[0];
    assert_eq!((&turn["cost"], &turn["tasks"]), (&json!(3_080), &tasks));
    let spent = &of(&lines, "task_finished")[0]["spent"];
    assert_eq!((&spent["cost"], &spent["usage"]), (&json!(1_400), &usage(1_000, 100)), "one unit on all lines");

    let listed = lab.run(&["sessions", "--json"]).lines();
    let of_s = listed.iter().find(|line| line["session"] == "s").unwrap();
    assert_eq!((&of_s["cost"], &of_s["tasks"], &of_s["requests"]), (&json!(3_080), &tasks, &json!(4)), "{of_s}");
    let children: u64 =
        listed.iter().filter(|line| !line["parent"].is_null()).map(|line| line["cost"].as_u64().unwrap()).sum();
    assert_eq!(children, 2_800, "each child has a line of its own too");

    let plain = lab.run(&run);
    let last = plain.stderr.lines().last().unwrap();
    assert_eq!(last, "2200 tokens in, 220 out; cost $0.003080; 2 tasks of it: 2200 tokens, $0.002800");
}

/// An unknown cost says why, also where the model is listed.
#[test]
fn a_listed_price_that_does_not_hold_here_says_why() {
    let lab = Lab::new();
    let mut command = lab.command(&["run", "--model", "openai/gpt-4o", "--budget-usd", "1", "hello"]);
    command.env("OPENAI_API_KEY", "k").env("OPENAI_BASE_URL", "http://127.0.0.1:9/v1");
    let ended = command.output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(2), "{said}");
    assert!(said.contains("the price of openai/gpt-4o is known at its provider's own address only"), "{said}");
}

/// X-01, W-01: `models` lists prices with the month they are from, and whether there is a key.
#[test]
fn models_are_listed_with_their_prices() {
    let lab = Lab::new();
    let mut command = lab.command(&["models", "sonnet-4-5", "--json"]);
    command.env("ANTHROPIC_API_KEY", "k");
    let line: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
    assert_eq!((&line["model"], &line["key"]), (&json!("anthropic/claude-sonnet-4-5"), &json!(true)));
    assert_eq!((&line["price"]["output"], &line["price"]["cache_write"]), (&json!(15_000_000), &json!(3_750_000)));
    let shown = lab.run(&["models", "gpt-4o"]).stdout;
    let row = shown.lines().find(|line| line.starts_with("openai/gpt-4o ")).unwrap();
    assert_eq!(row.split_whitespace().collect::<Vec<_>>()[1..6], ["-", "128k", "2.50", "10.00", "1.25"], "{shown}");
    assert!(shown.contains("unknown"), "{shown}");
    for line in lab.run(&["models", "--json"]).lines() {
        assert!(line["source"].is_string() && line["seen"].is_string(), "each has a page and a month: {line}");
    }
    assert_eq!(lab.run(&["models", "deepseek", "--json"]).stdout, "", "a price that depends on the hour is unknown");
}

/// A price that is none makes the script unusable, and the place is named.
#[test]
fn a_bad_price_in_a_script_is_named() {
    let lab = Lab::new();
    let file = lab.path("bad.json");
    std::fs::write(&file, r#"{"prices": {"a/b": {"input": -1, "output": 1}}, "replies": ["x"]}"#).unwrap();
    let ended = lab.run(&["run", "--model", &format!("scripted:{}", file.display()), "hello"]);
    assert!(ended.code == 2 && ended.error().contains("prices.a/b"), "{}", ended.stderr);
}
