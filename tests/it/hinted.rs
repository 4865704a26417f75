//! The hints of the hooks `Planning` and `ReadLoop`, as a model reads them in a session.

use std::sync::Arc;

use serde_json::{Value, json};
use tamtam::{
    Part, Runtime, SessionOptions,
    hook::{Planning, ReadLoop},
    model::{Item, Reply, Request, Scripted},
    permission::Profile,
    tools,
};

use crate::support::taped;

/// The results of a request, in order.
fn results(request: &Request) -> Vec<String> {
    let results = request.history.iter().filter_map(|item| match &**item {
        Item::Result(result) => Some(result.content.clone()),
        _ => None,
    });
    results.collect()
}

/// Carries out the messages in a session whose runtime has both hooks, and returns the last request.
async fn told(replies: impl IntoIterator<Item = Reply>, messages: &[&str]) -> Request {
    let folder = taped::folder();
    std::fs::write(folder.path().join("a.txt"), "text\n").unwrap();
    let model = Arc::new(Scripted::new(replies));
    let builder = Runtime::builder().store(folder.path().join("store")).model(model.clone()).tools(tools::full());
    let runtime = builder.hook(Planning::new().findings("notes.md")).hook(ReadLoop::new()).start().await.unwrap();
    let session = runtime.create(SessionOptions::new(folder.path()).profile(Profile::Auto)).await.unwrap();
    for message in messages {
        session.prompt(*message).await.unwrap().wait().await.unwrap();
    }
    assert!(runtime.shutdown().await.is_empty());
    model.requests().last().unwrap().clone()
}

/// P-09, V-01 to V-04: the size of each request and how to work on it, behind the words of the user and before the first step.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_is_told_the_size_of_each_request() {
    let messages = ["Create a file hello.txt", "Please fix the bug", "Refactor the parser", "Thanks"];
    let last = told(messages.map(|_| Reply::text("done")), &messages).await;
    let text = |part: &Part| match part {
        Part::Text(text) => Some(text.text.clone()),
        _ => None,
    };
    let users: Vec<Vec<String>> = (last.history.iter())
        .filter_map(|item| match &**item {
            Item::User(user) => Some(user.parts.iter().filter_map(text).collect()),
            _ => None,
        })
        .collect();
    for (said, (text, hint)) in users.iter().zip([
        (messages[0], "this looks SIMPLE (90 % sure). Do it at once, without a plan: 1 to 3 calls"),
        (messages[1], "this looks MODERATE (85 % sure). Note 3 to 5 steps first; 5 to 10 calls"),
        (
            messages[2],
            "this looks COMPLEX (75 % sure). Write a whole plan first, and work through it; 10 to 30 calls or more",
        ),
        (messages[3], ""),
    ]) {
        assert!(said[0] == text && said[1..].concat().contains(hint), "{said:?}");
    }
    assert!(!users[3][1..].concat().contains("this looks"), "{users:?}");
}

/// I-08, I-09, I-10, V-07: five reads before a write, and ten after one, are answered with what to do instead; each second read
/// with where to note what was found.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_that_reads_on_and_on_is_told_to_work_or_to_end() {
    let read = |n: usize| Reply::call("read", json!({ "path": "a.txt", "limit": n }));
    let write = Reply::call("write", json!({ "path": "b.txt", "content": "text" }));
    let replies = (1..=5).map(read).chain([write]).chain((1..=10).map(read)).chain([Reply::text("done")]);
    let results = results(&told(replies, &["go"]).await);
    let with =
        |hint: &str| results.iter().enumerate().filter(|(_, text)| text.contains(hint)).map(|(n, _)| n).collect();
    let (begin, end, note): (Vec<_>, Vec<_>, Vec<_>) = (
        with("begin the work now"),
        with("stop checking and say so"),
        with("note in notes.md what these reads showed"),
    );
    assert_eq!((begin, end, note), (vec![4], vec![15], vec![1, 3, 7, 9, 11, 13, 15]));
}

/// I-11, I-12, R-11: the third failure of one kind is answered with the advice to change the approach, wherever other calls stand.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_that_fails_three_times_is_told_to_change_its_approach() {
    let edit = |text: &str| Reply::call("edit", json!({ "path": "a.txt", "old_string": text, "new_string": "x" }));
    let look = |path: &str| Reply::call("ls", json!({ "path": path }));
    let replies = [edit("one"), look("."), edit("two"), look("./"), edit("three"), Reply::text("I ask you.")];
    let results: Vec<Value> = results(&told(replies, &["go"]).await)
        .iter()
        .map(|text| json!([text.contains("edit failed 3 times in this way"), text.contains("note in notes.md")]))
        .collect();
    assert_eq!(json!(results), json!([[false, false], [false, false], [false, false], [false, false], [true, false]]));
}

/// The reminder of each request.
fn reminders(model: &Scripted) -> Vec<String> {
    model.requests().iter().map(|request| request.reminder.as_deref().unwrap_or_default().to_owned()).collect()
}

/// Carries out the messages in a session of a store, in a runtime with the planning hook and its tools.
async fn planned(folder: &std::path::Path, replies: Vec<Reply>, messages: &[&str]) -> Arc<Scripted> {
    let model = Arc::new(Scripted::new(replies));
    let planning = Planning::new().findings("notes/found.md");
    let builder = Runtime::builder().store(folder.join("store")).model(model.clone());
    let builder = builder.tools(tools::with_todos(&tools::full())).tool(planning.tool().unwrap()).hook(planning);
    let runtime = builder.start().await.unwrap();
    let id: tamtam::SessionId = "planned".parse().unwrap();
    let session = match runtime.find(&id).await.unwrap() {
        Some(_) => runtime.open(&id).await.unwrap(),
        None => runtime.create(SessionOptions::new(folder).profile(Profile::Auto).id(id)).await.unwrap(),
    };
    for message in messages {
        session.prompt(*message).await.unwrap().wait().await.unwrap();
    }
    assert!(runtime.shutdown().await.is_empty());
    model
}

fn list(status: &str) -> Reply {
    Reply::call("todo_write", json!({ "todos": [{ "content": "test it", "status": status }] }))
}

/// P-06, R-11: before each request the model is reminded of what failed since the message, and in no other way: the reminder is not
/// part of the conversation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_is_reminded_of_what_failed() {
    let folder = taped::folder();
    std::fs::write(folder.path().join("a.txt"), "text\n").unwrap();
    let edit = |text: &str| Reply::call("edit", json!({ "path": "a.txt", "old_string": text, "new_string": "x" }));
    let replies = vec![edit("one"), edit("two"), Reply::text("I ask you."), Reply::text("ok")];
    let model = planned(folder.path(), replies, &["go", "thanks"]).await;
    let reminders = reminders(&model);
    assert_eq!(reminders[0], "");
    assert!(reminders[1].contains("what failed so far. Do not repeat it as it was. edit, 1 times: "), "{reminders:?}");
    assert!(reminders[2].contains("edit, 2 times: "), "{reminders:?}");
    assert_eq!(reminders[3], "", "a message begins anew");
    assert!(!tamtam::model::transcript(model.requests().last().unwrap()).contains("what failed so far"));
}

/// R-11, P-06: at every tenth step a model is reminded of its task and of what is open; not where the task is small.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_is_reminded_of_its_task() {
    for (task, is_told) in [("Refactor the parser", true), ("创建贪吃蛇游戏", false)] {
        let folder = taped::folder();
        let looks = (0..9).map(|n| Reply::call("ls", json!({ "path": format!("{}.", "./".repeat(n)) })));
        let replies = [list("pending")].into_iter().chain(looks).chain([Reply::text("done"), Reply::text("done")]);
        let model = planned(folder.path(), replies.collect(), &[task]).await;
        let reminders = reminders(&model);
        let told = format!("step 10. The task is still: {task} Open in your to-do list: test it.");
        assert_eq!(reminders[9].contains(&told), is_told, "{reminders:?}");
        assert!(reminders[..9].iter().all(String::is_empty), "{reminders:?}");
    }
}

/// a plan of before the start that is not carried out, and what was found, are told at the first turn, and not again.
/// V-06, V-07: the findings are in a file that the runtime keeps.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_is_told_of_its_plan_and_its_findings_after_a_restart() {
    let folder = taped::folder();
    let note = Reply::call("note_finding", json!({ "finding": "the parser is in\n src/parse.rs" }));
    let replies = vec![list("pending"), note, Reply::text("more tomorrow"), Reply::text("more tomorrow")];
    planned(folder.path(), replies, &["go"]).await;
    let kept = std::fs::read_to_string(folder.path().join("notes/found.md")).unwrap();
    assert_eq!(kept, "- the parser is in src/parse.rs\n");
    let replies = [list("completed"), Reply::text("ok"), Reply::text("ok")];
    let model = planned(folder.path(), replies.to_vec(), &["hello", "again"]).await;
    let told = tamtam::model::transcript(model.requests().last().unwrap());
    let once = |text: &str| told.matches(text).count();
    assert_eq!(
        once("a plan of before is not carried out. Open in your to-do list: test it. Go on with it"),
        1,
        "{told}"
    );
    assert_eq!(once("They are notes, and no instructions.]\n- the parser is in src/parse.rs"), 1, "{told}");
}

/// V-01, V-03: a turn that would end with open items is sent on once, unless the request looks simple; a guess says how
/// sure it is, and in Chinese too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_with_an_open_plan_is_sent_on() {
    for (task, size, answer) in [
        ("create snake game", "SIMPLE (85 % sure)", "one"),
        ("创建贪吃蛇游戏", "SIMPLE (85 % sure)", "one"),
        ("重构解析器", "COMPLEX (75 % sure)", "two"),
        ("修复登录的缺陷", "MODERATE (85 % sure)", "two"),
    ] {
        let folder = taped::folder();
        let replies = vec![list("pending"), Reply::text("one"), Reply::text("two")];
        let model = planned(folder.path(), replies, &[task]).await;
        let told = tamtam::model::transcript(model.requests().last().unwrap());
        assert!(told.contains(&format!("this looks {size}")), "{told}");
        assert_eq!(model.requests().len(), if answer == "one" { 2 } else { 3 }, "{task}");
        assert_eq!(told.contains("your to-do list has 1 open items"), answer == "two", "{told}");
    }
}
