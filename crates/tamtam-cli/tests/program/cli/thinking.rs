//! What is asked of a model beside its prompt: by a flag, by a file, by the agent.

use serde_json::{Value, json};
use tamtam::model::Api;

use super::lab::{Ended, Lab};
use crate::support::{fault_server::FaultServer, streams::answer};

const USER: &str = "home/.config/tamtam/config.toml";

fn run(lab: &Lab, server: &FaultServer, arguments: &[&str]) -> Ended {
    let url = server.url();
    let mut command = lab.command(&[&["run", "--base-url", &url][..], arguments, &["hi"]].concat());
    command.env("OPENAI_API_KEY", "k");
    let ended = super::lab::Live::start(command).end();
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    ended
}

fn sent(server: &FaultServer) -> Value {
    serde_json::from_str(&server.seen().last().unwrap().body).unwrap()
}

/// The level, the temperature and the rest come from the file of the model, over it from the agent, over both from the
/// flag; a level that the model lacks is said once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flag_wins_over_the_agent_and_the_agent_over_the_file() {
    let lab = Lab::new();
    let server = FaultServer::answering(|_, _| answer(Api::OpenAiChat, "done", &[])).await;
    lab.put(USER, "model = 'openai/gpt-5.1'\nthinking = 'low'\ntemperature = 0.5\n");
    lab.put("home/.config/tamtam/agents/deep.md", "---\ndescription: deep\nthinking: medium\n---\nThink.\n");
    let asked = |ended: Ended| {
        let body = sent(&server);
        (body["reasoning_effort"].clone(), body["temperature"].clone(), ended.stderr.contains("warning: "))
    };
    assert_eq!(asked(run(&lab, &server, &["--session", "s"])), (json!("low"), json!(0.5), false));
    assert_eq!(asked(run(&lab, &server, &["--agent", "deep"])), (json!("medium"), json!(0.5), false));
    let both = ["--agent", "deep", "--thinking", "off", "--temperature", "0"];
    assert_eq!(asked(run(&lab, &server, &both)), (json!("none"), json!(0.0), false));
    let ended = run(&lab, &server, &["--thinking", "xhigh", "--session", "s"]);
    let why = "warning: openai/gpt-5.1 has no level xhigh and is asked for high";
    assert_eq!(ended.stderr.matches(why).count(), 1, "{}", ended.stderr);
    assert_eq!(sent(&server)["reasoning_effort"], "high", "an existing session too");
    let ended = run(&lab, &server, &["--session", "s"]);
    assert_eq!(sent(&server)["reasoning_effort"], "high", "a session keeps what it was told: {}", ended.stderr);
    let switched = ["--session", "s", "--agent", "deep", "--thinking", "off"];
    assert_eq!(asked(run(&lab, &server, &switched)).0, "none", "over the agent that is switched to");
    assert_eq!(asked(run(&lab, &server, &["--session", "s", "--agent", "build", "--thinking", "low"])).0, "low");
    assert_eq!(
        asked(run(&lab, &server, &["--session", "s", "--agent", "deep"])).0,
        "medium",
        "an agent without a flag"
    );
    for (arguments, why) in [
        (["--thinking", "much"], "is none of off, minimal, low, medium, high and xhigh"),
        (["--temperature", "3"], "\"3\" is not a number from 0 to 2"),
        (["--top-p", "-1"], "is not a number from 0 to 1"),
    ] {
        let ended = lab.run(&["run", &arguments.join("="), "hi"]);
        assert!(ended.code == 2 && ended.stderr.contains(why), "{}", ended.stderr);
    }
}

/// A schema from a flag or a file: stdout gets the JSON alone, and a second answer that does not fit is a failure that says why.
#[test]
fn an_answer_with_a_schema_is_all_that_stdout_gets() {
    let lab = Lab::new();
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    lab.put("work/shape.json", &schema.to_string());
    let good = lab.script(json!(["It is one.", "```json\n{\"n\": 1}\n```"]));
    let ended = lab.run(&["run", "--model", &good, "--output-schema", "shape.json", "hi"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "{\"n\":1}\n"), "{}", ended.stderr);
    lab.put(USER, "output_schema = '../../../work/shape.json'\n");
    let good = lab.script(json!(["{\"n\": 2}"]));
    assert_eq!(lab.run(&["run", "--model", &good, "hi"]).stdout, "{\"n\":2}\n");
    let by_lines = lab.run(&["run", "--json", "--model", &good, "hi"]);
    assert_eq!(by_lines.lines().last().unwrap()["result"]["json"], json!({"n": 2}));
    let bad = lab.script(json!(["one", "{\"n\": \"one\"}"]));
    let ended = lab.run(&["run", "--model", &bad, "hi"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (1, ""), "{}", ended.stderr);
    let why = "the answer does not fit the output schema: at /n: \"one\" is no integer";
    assert!(ended.stderr.contains(why), "{}", ended.stderr);
    let last = lab.run(&["run", "--model", &bad, "--max-steps", "1", "hi"]);
    assert!(last.code == 1 && last.stderr.contains("output schema: it is not JSON"), "{}", last.stderr);
    // An existing session keeps what it has: a file does not change it, and an argument that is none is said before it is opened.
    let free = lab.script(json!(["free", "still free"]));
    lab.put(USER, "");
    assert_eq!(lab.run(&["run", "--model", &free, "--session", "old", "hi"]).stdout, "free\n");
    lab.put(USER, "output_schema = '../../../work/shape.json'\n");
    let kept = lab.run(&["run", "--model", &free, "--session", "old", "hi"]);
    assert!(kept.code == 0 && kept.stdout.ends_with("free\n"), "{}", kept.stderr);
    let entries = || lab.run(&["tape", "show", "old"]).stdout;
    let before = entries();
    let ended = lab.run(&["run", "--model", &free, "--session", "old", "--output-schema", "none.json", "hi"]);
    assert!(ended.code == 2 && ended.stderr.contains("output schema none.json"), "{}", ended.stderr);
    assert_eq!(entries(), before);
    for (text, why) in [
        ("{", "it is not JSON"),
        ("{\"type\": \"array\"}", "must be \"object\""),
        ("{\"type\": \"object\", \"pattern\": \"x\"}", "\"pattern\" is not checked here"),
    ] {
        lab.put("work/shape.json", text);
        let ended = lab.run(&["run", "--model", &good, "hi"]);
        assert!(ended.code == 2 && ended.stderr.contains(why), "{why}: {}", ended.stderr);
    }
}
