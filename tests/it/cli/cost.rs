//! What `run`, `models` and the tree tell of tokens and money.

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
