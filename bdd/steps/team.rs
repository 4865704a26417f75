//! Tasks of subagents: what hosts and operators do with them, and see of them.

use std::collections::BTreeSet;

use cucumber::{gherkin, given, then, when};
use tamtam::{
    model::Reply,
    permission::{Action, Rule, Ruleset},
    runtime::Child,
    session::{Record, TaskResult},
    supervisor::Node,
    tool::ToolResult,
};

use crate::{
    lab::{Lab, seen, within},
    steps::text,
};

#[given(expr = "the subagent of {string} answers {string}")]
fn answers(lab: &mut Lab, task: String, answer: String) {
    lab.subagent_reply(&task, Reply::text(text(&answer)));
}

/// The words come before the gate: whoever sees the model wait there knows that they were said.
#[given(expr = "the subagent of {string} answers {string} once it may go on at {string}")]
#[given(expr = "the subagent of {string} says {string} and hangs at {string}")]
fn answers_behind_a_gate(lab: &mut Lab, task: String, answer: String, gate: String) {
    lab.subagent_reply(&task, Reply::text(text(&answer)).at_barrier(gate));
}

#[given(regex = r#"^the subagent of "(.+)" calls (\w+) with (\{.*\})$"#)]
fn calls(lab: &mut Lab, task: String, tool: String, arguments: String) {
    lab.subagent_reply(&task, Reply::empty().with_raw_call("", tool, arguments));
}

#[given(regex = r#"^the subagent of "(.+)" calls (\w+) with (\{.*\}) once it may go on at "(.+)"$"#)]
fn calls_behind_a_gate(lab: &mut Lab, task: String, tool: String, arguments: String, gate: String) {
    lab.subagent_reply(&task, Reply::empty().with_raw_call("", tool, arguments).at_barrier(gate));
}

#[given(expr = "calls with the permission {word} are asked about")]
fn asked_about(lab: &mut Lab, permission: String) {
    lab.rules =
        Ruleset::new("scenario", [Rule::new("*", "**", Action::Allow), Rule::new(permission, "**", Action::Ask)]);
}

/// The open task with that description.
async fn open(lab: &mut Lab, description: &str) -> Child {
    let session = lab.session().await;
    let found = async {
        loop {
            for task in session.tasks().await.unwrap() {
                let state = task.session().state().await;
                if state.is_ok_and(|state| state.settings.title.as_deref() == Some(description)) {
                    return task;
                }
            }
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    };
    within("the task", found).await
}

#[when(expr = "the task {string} is at work")]
async fn at_work(lab: &mut Lab, description: String) {
    open(lab, &description).await;
}

#[when(expr = "the host steers the task {string} with {string}")]
async fn steers(lab: &mut Lab, description: String, message: String) {
    let task = open(lab, &description).await;
    within("a receipt", task.session().steer(text(&message))).await.unwrap();
}

#[when(expr = "the host stops the task {string} because of {string}")]
async fn stops(lab: &mut Lab, description: String, reason: String) {
    let task = open(lab, &description).await;
    within("the stop", task.stop(reason)).await.unwrap();
}

#[when(expr = "the host kills the task {string} because of {string}")]
async fn kills(lab: &mut Lab, description: String, reason: String) {
    let task = open(lab, &description).await;
    within("the end", task.session().end(reason)).await.unwrap();
}

/// Where a task ends in the background, its end begins one more turn.
#[when(expr = "the session has had {int} turns")]
async fn turns(lab: &mut Lab, count: u64) {
    let session = lab.session().await;
    let had = async {
        while session.state().await.unwrap().turns < count {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        session.wait().await.unwrap();
    };
    within("the turns", had).await;
    lab.catch_up().await;
}

#[then(expr = "{int} task(s) is/are at work")]
async fn count_at_work(lab: &mut Lab, count: usize) {
    assert_eq!(lab.session().await.tasks().await.unwrap().len(), count);
}

/// Under the session, and in no other place.
#[then(expr = "the tree shows {int} task(s) under the session")]
async fn tree_shows(lab: &mut Lab, count: usize) {
    let session = lab.session().await;
    let shown = |nodes: &[Node], under: &str| {
        let nodes = nodes.iter().flat_map(Node::iter).filter(|node| node.kind == "session" && node.id != under);
        nodes.map(|node| node.id.clone()).collect::<Vec<_>>()
    };
    let tasks: Vec<_> = session.tasks().await.unwrap().iter().map(|task| task.session().id().to_string()).collect();
    assert_eq!(tasks.len(), count);
    seen("the tasks in the tree", || {
        let (tree, id) = (lab.runtime().tree(), session.id().as_str());
        let under = tree.find(id).map(|node| shown(&node.children, id)).unwrap_or_default();
        BTreeSet::from_iter(&under) == BTreeSet::from_iter(&tasks) && under.len() == shown(&tree.roots, id).len()
    })
    .await;
}

async fn results(lab: &mut Lab) -> Vec<std::sync::Arc<ToolResult>> {
    let entries = lab.session().await.entries().await.unwrap();
    let results = entries.into_iter().filter_map(|entry| match entry.record {
        Record::Result { result, .. } => Some(result),
        _ => None,
    });
    results.collect()
}

/// Each row: the status of a task and a text in its answer, or in its error where it has no answer. In any order.
#[then("the calls gave these envelopes:")]
async fn envelopes(lab: &mut Lab, step: &gherkin::Step) {
    let given = results(lab).await.into_iter().map(|result| -> TaskResult {
        serde_json::from_value(result.details["task"].clone()).unwrap_or_else(|error| panic!("{error}: {result:?}"))
    });
    let mut given: Vec<_> = given.collect();
    let shown = format!("{given:#?}");
    for row in &step.table().expect("a table").rows {
        let fits = |one: &TaskResult| {
            let status = serde_json::to_value(one.status).unwrap();
            let error = one.errors.first().map(|error| error.message.clone()).unwrap_or_default();
            status == row[0] && format!("{} {error}", one.output.answer).contains(&row[1])
        };
        let at = given.iter().position(fits).unwrap_or_else(|| panic!("no {row:?} in {shown}"));
        given.remove(at);
    }
    assert!(given.is_empty(), "{shown}");
}

/// The task that was given first is gone on with: the model names its session.
#[when(regex = r#"^the model goes on with the task that was given first: "(.+)"$"#)]
async fn goes_on(lab: &mut Lab, prompt: String) {
    let entries = lab.session().await.entries().await.unwrap();
    let first = entries.into_iter().find_map(|entry| match entry.record {
        Record::TaskStarted { child, .. } => Some(child),
        _ => None,
    });
    let arguments = serde_json::json!({
        "description": "more", "prompt": prompt, "subagent_type": "general", "session_id": first.expect("a task"),
    });
    lab.reply(Reply::call("task", arguments));
}

/// Both tasks were one session, which had so many turns.
#[then(expr = "{int} tasks were given to one session")]
async fn one_session(lab: &mut Lab, count: usize) {
    let entries = lab.session().await.entries().await.unwrap();
    let children = entries.into_iter().filter_map(|entry| match entry.record {
        Record::TaskStarted { child, .. } => Some(child),
        _ => None,
    });
    let children: Vec<_> = children.collect();
    assert!(children.len() == count && children.iter().all(|child| *child == children[0]), "{children:?}");
}

#[then(expr = "a request told of {string}")]
fn some_request(lab: &mut Lab, wanted: String) {
    let told = |request: &tamtam::model::Request| tamtam::model::transcript(request).contains(&wanted);
    assert!(lab.requests().iter().any(told), "no request told of {wanted:?}");
}

#[then(expr = "the newest request tells of {string}")]
fn newest_request(lab: &mut Lab, wanted: String) {
    let told = tamtam::model::transcript(lab.requests().last().expect("the model was asked"));
    assert!(told.contains(&wanted), "{told}");
}

#[when(expr = "the model then answers {string}")]
fn then_answers(lab: &mut Lab, answer: String) {
    lab.reply(Reply::text(text(&answer)));
}
