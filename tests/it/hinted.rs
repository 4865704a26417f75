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
        (messages[0], "this looks SIMPLE. Do it at once, without a plan: 1 to 3 calls"),
        (messages[1], "this looks MODERATE. Note 3 to 5 steps first; 5 to 10 calls"),
        (messages[2], "this looks COMPLEX. Write a whole plan first, and work through it; 10 to 30 calls or more"),
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
