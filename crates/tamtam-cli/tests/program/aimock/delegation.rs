//! An agent with a team, at the binary: `build` plans, a person approves, two subagents work in the background while their parent goes
//! on, and the parent steers one of them and stops the other.
//!
//! Nothing here waits for a time: each step waits for a request or an event that the step before it causes.

use std::{
    collections::BTreeSet,
    sync::{Arc, Condvar, Mutex},
};

use serde_json::{Value, json};
use tamtam::session::{TaskResult, TaskStatus};

use super::{Lab, OnItsWay};
use crate::support::{
    aimock::{add, call},
    http::Asked,
    said::{Said, Wire, said, users},
    tamtam::{Ended, LIMIT, event, is_event},
};

/// L-01, O-11, O-15, O-17, O-25, C-08: over the wires where the server counts an answer as one, whatever is in it.
mod a_person_approves_a_plan_and_two_tasks_carry_it_out {
    use crate::support::said::Wire;

    #[test]
    fn openai() {
        super::a_person_approves_a_plan_and_two_tasks_carry_it_out(Wire::OpenAi);
    }

    #[test]
    fn anthropic() {
        super::a_person_approves_a_plan_and_two_tasks_carry_it_out(Wire::Anthropic);
    }

    #[test]
    fn gemini() {
        super::a_person_approves_a_plan_and_two_tasks_carry_it_out(Wire::Gemini);
    }
}

const PROMPT: &str = "find the gong";
const PLAN: &str = "# Plan\n- [ ] ask two subagents\n- [ ] write down what they find\n";
const PLAN_FILE: &str = ".tamtam/plans/s.md";
const STEERING: &str = "alpha.txt is out of date: read ../attic.txt";
const HALF: &str = "Half of beta is read.";
const FOUND: &str = "The gong is in the attic.";

/// Something that others wait for: the request of somebody who has so many answers by then, or a step of the test.
type Milestone = (&'static str, usize);

/// The milestones that were passed.
#[derive(Clone, Default)]
struct Story(Arc<(Mutex<BTreeSet<Milestone>>, Condvar)>);

impl Story {
    fn pass(&self, milestone: Milestone) {
        self.0.0.lock().unwrap().insert(milestone);
        self.0.1.notify_all();
    }

    fn wait_for(&self, milestone: Milestone) {
        let passed = self.0.0.lock().unwrap();
        let waited = self.0.1.wait_timeout_while(passed, LIMIT, |passed| !passed.contains(&milestone)).unwrap();
        let is_late = waited.1.timed_out();
        drop(waited);
        assert!(!is_late, "{milestone:?} never came");
    }
}

/// Who asks, and how many answers that one has by then.
fn who(wire: Wire, asked: &Asked) -> Milestone {
    let said = said(wire, &asked.json());
    let first = users(&said)[0];
    let name = ["alpha", "beta"].into_iter().find(|name| first.contains(name)).unwrap_or("parent");
    (name, said.iter().filter(|said| matches!(said, Said::Model(..))).count())
}

/// The result of a call, as a request has it.
fn result<'a>(said: &'a [Said], call: &str) -> &'a str {
    let results =
        said.iter().filter_map(|said| if let Said::Result(id, text) = said { Some((id, text)) } else { None });
    let mut of_call = results.filter(|(id, _)| *id == call).map(|(_, text)| text.as_str());
    of_call.next().unwrap_or_else(|| panic!("{call} has no result in {said:#?}"))
}

/// The ids of the two children, from what the parent was told when it had given the tasks.
fn children(said: &[Said]) -> [String; 2] {
    ["c_alpha", "c_beta"].map(|call| {
        let text = result(said, call);
        let id = text.strip_prefix("Task ").and_then(|rest| rest.split_once(" works in the background"));
        id.unwrap_or_else(|| panic!("{text}")).0.to_owned()
    })
}

/// An answer for the parent. Only the parent has tools for tasks.
fn parent(answers: usize, response: &Value) -> Value {
    json!({"match": {"toolName": "task_send", "turnIndex": answers}, "response": response})
}

/// An answer for the child whose messages have this word, with what it costs.
fn child(name: &str, answers: usize, response: &Value) -> Value {
    let mut response = response.clone();
    response["usage"] = json!({"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110});
    json!({"match": {"userMessage": name, "turnIndex": answers}, "response": response})
}

fn calls(calls: &[Value]) -> Value {
    json!({ "toolCalls": calls })
}

fn task(id: &str, name: &str, background: bool) -> Value {
    let prompt = format!("Where does {name}.txt say that the gong is?");
    let arguments = json!({
        "description": format!("look at {name}"), "prompt": prompt, "subagent_type": "explore",
        "idempotency_key": name, "background": background,
    });
    call(id, "task", &arguments)
}

fn write(id: &str, path: &str, content: &str) -> Value {
    call(id, "write", &json!({"path": path, "content": content}))
}

fn read(id: &str, path: &str) -> Value {
    call(id, "read", &json!({ "path": path }))
}

/// All answers that name no child.
fn fixtures() -> Vec<Value> {
    let mut beta = child("beta", 1, &json!({"content": "Never said."}));
    // It thinks for longer than any test waits.
    beta["streamingProfile"] = json!({"ttft": 600_000});
    vec![
        parent(0, &calls(&[call("c_enter", "plan_enter", &json!({}))])),
        parent(1, &calls(&[write("c_plan", PLAN_FILE, PLAN)])),
        parent(2, &calls(&[call("c_exit", "plan_exit", &json!({}))])),
        parent(3, &calls(&[task("c_alpha", "alpha", true), task("c_beta", "beta", true)])),
        parent(4, &calls(&[write("c_notes", "notes.md", "Two are looking.\n")])),
        parent(5, &calls(&[call("c_status", "task_status", &json!({}))])),
        // The same key is the same task: this call waits for the one that was given before.
        parent(7, &calls(&[task("c_wait", "alpha", false)])),
        parent(8, &calls(&[write("c_found", "found.md", FOUND)])),
        parent(9, &json!({"content": "All done."})),
        child("alpha", 0, &calls(&[read("a_old", "alpha.txt")])),
        child("alpha", 1, &calls(&[read("a_new", "../attic.txt")])),
        child("alpha", 2, &json!({ "content": FOUND })),
        child("beta", 0, &json!({"content": HALF, "toolCalls": [read("b_half", "beta.txt")]})),
        beta,
    ]
}

/// The answer by which the parent steers one child and stops the other.
fn levers([alpha, beta]: &[String; 2]) -> Value {
    let send = call("c_send", "task_send", &json!({"session_id": alpha, "message": STEERING}));
    let stop = call("c_stop", "task_stop", &json!({"session_id": beta, "reason": "that is enough"}));
    parent(6, &calls(&[send, stop]))
}

/// Holds requests back until the story is where it should be.
fn hold(wire: Wire, story: &Story, request: &OnItsWay<'_>) {
    let milestone = who(wire, request.asked);
    story.pass(milestone);
    match milestone {
        ("parent", 4) => {
            add(request.server, &[levers(&children(&said(wire, &request.asked.json())))]);
            // Both are at work at the same time, and before the parent has its next answer.
            story.wait_for(("alpha", 0));
            story.wait_for(("beta", 0));
        }
        ("parent", 5) => story.wait_for(("the tree was looked at", 0)),
        // It is steered before it has its first answer.
        ("alpha", 0) => story.wait_for(("parent", 7)),
        ("alpha", 1) => story.wait_for(("the progress was shown", 0)),
        _ => {}
    }
}

/// The node with that id, at any depth.
fn node<'a>(nodes: &'a Value, id: &str) -> Option<&'a Value> {
    let nodes = nodes.as_array()?;
    nodes.iter().find_map(|one| if one["id"] == id { Some(one) } else { node(&one["children"], id) })
}

fn a_person_approves_a_plan_and_two_tasks_carry_it_out(wire: Wire) {
    let story = Story::default();
    let holds = story.clone();
    let lab = Lab::with_hook(wire, &fixtures(), move |request| hold(wire, &holds, request));
    lab.put("alpha.txt", "It is in the cellar.\n");
    lab.put("beta.txt", "It is gone.\n");
    lab.put("../attic.txt", "It hangs here.\n");

    // The person approves the plan, and until then nothing is done but that it is written.
    let mut run = lab.run_with(&["--session", "s"], PROMPT);
    let approval = run.until("the question about the plan", is_event("ask"));
    assert_eq!([&approval["name"], &approval["question"]["details"]], [&json!("plan_exit"), &json!(PLAN)]);
    assert!(approval["from"].is_null() && !lab.file("notes.md").exists(), "{approval}");
    run.say(&json!({"answer": {"ask": approval["ask"], "grant": "once"}}));

    // The parent goes on while both children wait for their models: the tree shows them under it.
    let is_notes = |line: &Value| event(line) == "call_finished" && line["call"] == "c_notes";
    run.until("the parent's own work", is_notes);
    story.wait_for(("beta", 1));
    run.say(&json!({"tree": true}));
    let tree = run.until("the tree", |line| line["reply"]["command"] == "tree")["reply"]["tree"].take();
    story.pass(("the tree was looked at", 0));
    let given = lab.tap.asked().into_iter().find(|asked| who(wire, asked) == ("parent", 4)).unwrap();
    let ids = children(&said(wire, &given.json()));
    let under = &node(&tree, "s").unwrap_or_else(|| panic!("{tree:#}"))["children"];
    for id in &ids {
        let shown = node(under, id).unwrap_or_else(|| panic!("{under:#}"));
        assert_eq!([&shown["kind"], &shown["phase"]], ["session", "model"], "{shown:#}");
        assert_eq!(shown["children"][0]["kind"], "request", "{shown:#}");
    }

    // The call that waits for the task shows how far it is, and the question of the child is the root's to answer.
    let is_progress = |line: &Value| event(line) == "call_progress" && line["metadata"]["session_id"] == ids[0];
    let progress = run.until("the progress", is_progress);
    assert_eq!(progress["metadata"]["status"], "running");
    story.pass(("the progress was shown", 0));
    let ask = run.until("the child's question", is_event("ask"));
    assert_eq!(ask["from"], json!([{"session": ids[0], "agent": "explore"}]));
    assert!(ask["name"] == "read" && ask["input"].as_str().unwrap().contains("../attic.txt"), "{ask}");
    run.say(&json!({"answer": {"ask": ask["ask"], "grant": "once", "who": "ada"}}));

    let ended = run.end();
    lab.done(&ended, "All done.");
    judge_requests(&lab, &ids);
    judge_events(&ended, &ids, &ask);
    judge_envelopes(&ended, &ids);
    assert_eq!([PLAN_FILE, "notes.md", "found.md"].map(|name| lab.text(name)), [PLAN, "Two are looking.\n", FOUND]);
    let mut files: Vec<_> = std::fs::read_dir(lab.file(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    assert_eq!(files, [".tamtam", "alpha.txt", "beta.txt", "found.md", "notes.md"]);
}

/// What the models were told: 15 requests, and what each of the two learned from the others.
fn judge_requests(lab: &Lab, [alpha, beta]: &[String; 2]) {
    let asked = lab.asked();
    let mut of: Vec<_> = asked.iter().map(|asked| (who(lab.wire, asked), said(lab.wire, &asked.json()))).collect();
    of.sort_by_key(|(milestone, _)| *milestone);
    let milestones: Vec<_> = of.iter().map(|(milestone, _)| *milestone).collect();
    let expected = [("alpha", 3), ("beta", 2), ("parent", 10)];
    let expected: Vec<_> =
        expected.iter().flat_map(|(name, requests)| (0..*requests).map(|nth| (*name, nth))).collect();
    assert_eq!(milestones, expected);
    let told = |milestone: Milestone| &of.iter().find(|(one, _)| *one == milestone).unwrap().1[..];

    // The call of the answer that came after the steering did not run; the message follows its result.
    let [.., Said::Result(old, skipped), Said::User(message)] = told(("alpha", 1)) else { panic!("{of:#?}") };
    assert_eq!((old.as_str(), message.as_str()), ("a_old", STEERING));
    assert!(skipped.starts_with("Skipped due to queued user message"), "{skipped}");
    assert!(result(told(("alpha", 2)), "a_new").contains("It hangs here."));

    let parent = told(("parent", 9));
    assert!(result(parent, "c_exit").contains("The user approved the plan"));
    assert!(result(parent, "c_send").starts_with(&format!("Task {alpha} reads the message")));
    assert!(result(parent, "c_stop").contains(&format!("What the subagent had by then:\n\n{HALF}")));
    assert!(result(parent, "c_stop").contains("The task is over: aborted: that is enough."));
    assert!(result(parent, "c_wait").starts_with(FOUND));
    // Of the end of a task in the background the parent is told, and not of that which it stopped itself.
    let [PROMPT, notice] = users(parent)[..] else { panic!("{parent:#?}") };
    assert!(notice.starts_with("[The runtime put this here, not the user.") && notice.ends_with(FOUND), "{notice}");
    assert!(notice.contains(&format!("\nTask {alpha} is over: done.\n")), "{notice}");
    // Neither child is told of the other, nor of the parent's conversation.
    for (name, other) in [("alpha", beta), ("beta", alpha)] {
        for (milestone, body) in asked.iter().map(|asked| (who(lab.wire, asked), &asked.body)) {
            let says = |word: &str| body.contains(word);
            assert!(
                milestone.0 != name || !(says(other) || says(PROMPT) || says("task_send")),
                "{milestone:?}: {body}"
            );
        }
    }
}

/// What a listener sees: the plan before the tasks, the parent's work before their ends, and the question of the child.
fn judge_events(ended: &Ended, [alpha, beta]: &[String; 2], ask: &Value) {
    let lines = &ended.lines;
    let at = |what: &str, meant: &dyn Fn(&Value) -> bool| {
        lines.iter().position(meant).unwrap_or_else(|| panic!("no {what} in {lines:#?}"))
    };
    let of_task = |name: &'static str, child: &str| {
        let child = child.to_owned();
        at(name, &move |line| event(line) == name && line["child"] == child)
    };
    let finished = |call: &'static str| at(call, &move |line| event(line) == "call_finished" && line["call"] == call);
    let switched: Vec<_> = lines.iter().filter(|line| event(line) == "agent_switched").collect();
    let agents: Vec<_> = switched.iter().flat_map(|line| [&line["from"], &line["agent"]]).collect();
    assert_eq!(agents, ["build", "plan", "plan", "build"]);
    let approved = at("approval", &|line| event(line) == "ask_closed");
    for child in [alpha, beta] {
        let started = of_task("task_started", child);
        assert!(approved < started && started < finished("c_notes"), "the plan comes first");
        assert_eq!(lines[started]["depth"], 1);
        assert!(finished("c_notes") < of_task("task_finished", child), "the parent worked meanwhile");
    }
    let ends = [alpha, beta].map(|child| &lines[of_task("task_finished", child)]);
    assert_eq!(ends.map(|end| &end["reason"]), ["done", "aborted"]);
    assert!(ends[0]["message"].is_string() && ends[1]["message"].is_null(), "{ends:#?}");
    let closed = at("answer", &|line| event(line) == "ask_closed" && line["ask"] == ask["ask"]);
    assert_eq!([&lines[closed]["who"], &lines[closed]["grant"]], ["ada", "once"]);
    assert!(closed < of_task("task_finished", alpha) && of_task("task_finished", alpha) < finished("c_wait"));
}

/// The envelopes: how far both tasks were when the parent looked, and what came of each.
fn judge_envelopes(ended: &Ended, [alpha, beta]: &[String; 2]) {
    let finished = |call: &str| {
        let is_it = |line: &&Value| event(line) == "call_finished" && line["call"] == call;
        ended.lines.iter().find(is_it).unwrap()
    };
    let status = finished("c_status")["content"].as_str().unwrap();
    let progress: Vec<Value> = status.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let of = |child: &str| progress.iter().find(|progress| progress["session_id"] == child).unwrap();
    let seen = |progress: &Value| json!([progress["status"], progress["metrics"]["steps"], progress["partial_output"]]);
    assert_eq!([seen(of(alpha)), seen(of(beta))], [json!(["running", 1, null]), json!(["running", 2, HALF])]);
    assert_eq!(of(beta)["current_tool"], Value::Null);

    let [done, stopped]: [TaskResult; 2] = ["c_wait", "c_stop"].map(|call| {
        let envelope = finished(call)["details"]["task"].clone();
        serde_json::from_value(envelope).unwrap_or_else(|error| panic!("{call}: {error}"))
    });
    assert_eq!((done.status, done.output.answer.as_str()), (TaskStatus::Completed, FOUND));
    assert_eq!((stopped.status, stopped.output.answer.as_str()), (TaskStatus::Cancelled, HALF));
    assert!(done.errors.is_empty() && done.patch.is_empty() && stopped.patch.is_empty());
    let error = &stopped.errors[0];
    assert_eq!(
        (error.code.as_str(), error.message.as_str(), error.retryable),
        ("aborted", "aborted: that is enough", false)
    );
    let reads = [&done, &stopped].map(|result| (result.tool_calls[0].tool.as_str(), result.tool_calls[0].calls));
    assert_eq!(reads, [("read", 2), ("read", 1)]);
    assert_eq!([done.metrics.steps, stopped.metrics.steps], [3, 2]);
    assert_eq!((done.metrics.tokens.input, done.metrics.tokens.output), (300, 30));
    for (result, child) in [(&done, alpha), (&stopped, beta)] {
        assert_eq!(
            (result.provenance.session_id.as_str(), result.provenance.agent.as_str()),
            (child.as_str(), "explore")
        );
        assert_eq!((result.v, &result.trace_id), (1, &done.trace_id));
        assert!(!result.trace_id.is_empty(), "{result:?}");
    }
    assert_ne!(done.task_id, stopped.task_id);
}
