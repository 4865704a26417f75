//! The to-do list of a session: on its tape, before the host and the operator, and through all that may happen to a conversation.

use std::{path::Path, sync::Arc, time::Duration};

use serde_json::{Value, json};
use tamtam::{
    EventKind, Runtime, Session, SessionOptions,
    model::{Item, Reply, Scripted},
    permission::Profile,
    runtime::SessionFigures,
    session::{Next, Point, State, TaskRequest},
    tool::TodoStatus,
};

use crate::support::taped;

async fn start(folder: &Path, model: &Arc<Scripted>) -> Runtime {
    let tools = tamtam::tools::with_todos(&tamtam::tools::readonly());
    Runtime::builder().store(folder.join("store")).model(model.clone()).tools(tools).start().await.unwrap()
}

fn list(items: &[(&str, &str)]) -> Value {
    let items = items.iter().map(|(content, status)| json!({ "content": content, "status": status }));
    json!({ "todos": items.collect::<Vec<_>>() })
}

fn write(items: &[(&str, &str)]) -> Reply {
    Reply::call("todo_write", list(items))
}

async fn say(session: &Session, text: &str) {
    session.prompt(text).await.unwrap().wait().await.unwrap();
}

fn items(state: &State) -> Vec<(String, TodoStatus)> {
    state.todos().iter().map(|todo| (todo.content.clone(), todo.status)).collect()
}

/// The newest result that the model was told.
fn told(model: &Scripted) -> (String, bool) {
    let newest = model.requests().last().cloned().unwrap();
    let mut results = newest.history.iter().filter_map(|item| match &**item {
        Item::Result(result) => Some((result.content.clone(), result.is_error)),
        _ => None,
    });
    results.next_back().unwrap()
}

/// E-14: the model keeps its list under a profile that denies all but reads; the host sees it in the state, the operator in the tree.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_keeps_a_list_that_host_and_operator_see() {
    let folder = taped::folder();
    let high = json!({ "todos": [
        { "content": "look\nat it", "status": "completed", "id": "1" },
        { "content": "write", "status": "in_progress", "priority": "high", "activeForm": "writing" },
        { "content": "check", "status": "pending", "priority": "low" },
        { "content": "dance", "status": "cancelled" },
    ]});
    let model = Arc::new(Scripted::new([
        Reply::call("todo_read", json!({})),
        Reply::call("todowrite", high),
        Reply::call("todo_read", json!({})),
        Reply::text("done"),
    ]));
    let runtime = start(folder.path(), &model).await;
    let options = SessionOptions::new(folder.path()).profile(Profile::Headless);
    let session = runtime.create(options).await.unwrap();
    say(&session, "go").await;
    let results = model.requests().into_iter().skip(1).map(|request| match &**request.history.last().unwrap() {
        Item::Result(result) => result.content.clone(),
        other => panic!("{other:?}"),
    });
    let shown = "- [x] look at it\n- [>] write (high)\n- [ ] check (low)\n- [-] dance\n";
    let expected = ["The list is empty.", "The list is kept: 2 of 4 to-do items open.", shown];
    assert_eq!(results.collect::<Vec<_>>(), expected);
    assert_eq!(session.state().await.unwrap().todos().len(), 4);
    // The figures follow at the end of the round in which the caller was answered.
    let shown = async {
        loop {
            let tree = runtime.tree();
            let figures = SessionFigures::of(tree.find(session.id().as_str()).unwrap()).unwrap();
            if (figures.todos_open, figures.todos) == (2, 4) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), shown).await.unwrap();
    let tree = runtime.tree();
    assert!(tree.to_string().contains("to-do 2 of 4 open"), "{tree}");
    assert!(runtime.shutdown().await.is_empty());
}

/// What cannot be kept is refused with a reason, and the list before stays: too many items, too many bytes, a status that is none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_that_cannot_be_kept_changes_nothing() {
    let folder = taped::folder();
    let many: Vec<_> = (0..101).map(|_| ("x", "pending")).collect();
    let large = "x".repeat(16 * 1024 + 1);
    let bad = [
        (write(&many), "At most 100 items"),
        (write(&[(large.as_str(), "pending")]), "16384 bytes"),
        (write(&[("b", "someday")]), "someday"),
        (Reply::call("todo_write", json!({ "todos": "b" })), "todos"),
    ];
    let (replies, why): (Vec<_>, Vec<_>) = bad.into_iter().unzip();
    let replies = std::iter::once(write(&[("a", "pending")])).chain(replies);
    let replies = replies.flat_map(|reply| [reply, Reply::text("ok")]);
    let model = Arc::new(Scripted::new(replies));
    let runtime = start(folder.path(), &model).await;
    let session = runtime.create(SessionOptions::new(folder.path()).profile(Profile::Ask)).await.unwrap();
    say(&session, "go").await;
    for why in why {
        say(&session, "go").await;
        let (content, is_error) = told(&model);
        assert!(is_error && content.contains(why), "{content}");
        assert_eq!(items(&session.state().await.unwrap()), [("a".to_owned(), TodoStatus::Pending)]);
    }
    assert!(runtime.shutdown().await.is_empty());
}

/// The list is a fact of the tape: a fork has it, an undo takes it back and a redo brings it again, and another process reads it. The
/// model is told of it when a compaction took the calls away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_list_goes_where_the_conversation_goes() {
    let folder = taped::folder();
    let model = Arc::new(Scripted::new([
        write(&[("first", "pending")]),
        Reply::text("one"),
        write(&[("second", "in_progress")]),
        Reply::text("two"),
    ]));
    let first = start(folder.path(), &model).await;
    let session = first.create(SessionOptions::new(folder.path()).profile(Profile::Ask)).await.unwrap();
    let names = async |session: &Session| -> Vec<String> {
        items(&session.state().await.unwrap()).into_iter().map(|(name, _)| name).collect()
    };
    // Long words, because a summary that is no shorter than what it replaces is refused.
    say(&session, &"one ".repeat(4_000)).await;
    let point = session.state().await.unwrap().seq;
    say(&session, &"two ".repeat(4_000)).await;
    let fork = session.fork(Point::At(point)).await.unwrap();
    assert_eq!((names(&session).await, names(&fork).await), (vec!["second".to_owned()], vec!["first".to_owned()]));
    session.undo().await.unwrap();
    assert_eq!(names(&session).await, ["first"]);
    session.redo().await.unwrap();
    assert_eq!(names(&session).await, ["second"]);
    session.undo().await.unwrap();
    session.undo().await.unwrap();
    assert!(names(&session).await.is_empty());
    session.redo().await.unwrap();
    session.redo().await.unwrap();
    let id = session.id().clone();
    assert!(first.shutdown().await.is_empty());

    let summary = "## Goal\nTo work.\n## Constraints & Preferences\nNone.\n## Progress\nSome.\n## Key Decisions\nNone.\n\
        ## Next Steps\nMore.\n## Critical Context\nNone.";
    let model = Arc::new(Scripted::new([Reply::text(summary), Reply::text("three"), Reply::text("child")]));
    let second = start(folder.path(), &model).await;
    let session = second.open(&id).await.unwrap();
    assert_eq!(names(&session).await, ["second"]);
    session.configure(|settings| settings.compaction.keep = Some(0)).await.unwrap();
    let mut events = session.events();
    session.compact().await.unwrap();
    while !matches!(events.next().await, Some(Next::Event(event)) if matches!(event.kind, EventKind::CompactionFinished { .. }))
    {
    }
    say(&session, "three").await;
    let asked = tamtam::model::transcript(model.requests().last().unwrap());
    assert!(asked.contains("as todo_write last had it:\n- [>] second\n"), "{asked}");
    assert_eq!(names(&session).await, ["second"]);

    // O-07: a child has no list and none of the tools.
    let child = session.delegate(TaskRequest::new("general", "Look", "look"), Default::default()).await.unwrap();
    child.down().await.unwrap();
    assert!(names(child.session()).await.is_empty());
    let requests = model.requests();
    let asked = requests.iter().rev().find(|request| request.history.len() == 1 && request.system.contains("one task"));
    let offered: Vec<_> = asked.unwrap().tools.iter().map(|tool| tool.name.clone()).collect();
    assert!(
        offered.contains(&"read".to_owned()) && !offered.iter().any(|name| name.starts_with("todo")),
        "{offered:?}"
    );
    assert!(second.shutdown().await.is_empty());
}

/// C-35: a model that ends with open items is sent on before its answer ends the turn, once in a turn; the next message is
/// told of what is left. Without open items nothing is said.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_does_not_end_with_open_items_but_once() {
    let folder = taped::folder();
    let model = Arc::new(Scripted::new([
        write(&[("a", "pending"), ("b", "completed")]),
        Reply::text("I am done."),
        Reply::text("I am done, I said."),
        write(&[("a", "cancelled")]),
        Reply::text("Really done."),
        Reply::text("Fine."),
    ]));
    let tools = tamtam::tools::with_todos(&tamtam::tools::readonly());
    let builder = Runtime::builder().store(folder.path().join("store")).model(model.clone()).tools(tools);
    let runtime = builder.hook(tamtam::session::PlanCheck).start().await.unwrap();
    let session = runtime.create(SessionOptions::new(folder.path()).profile(Profile::Ask)).await.unwrap();
    let mut answers = Vec::new();
    for text in ["go", "and now?", "thanks"] {
        let answer = session.prompt(text).await.unwrap().wait().await.unwrap();
        answers.push((answer.text, model.requests().len()));
    }
    let expected = [("I am done, I said.", 3), ("Really done.", 5), ("Fine.", 6)];
    assert_eq!(answers, expected.map(|(text, requests)| (text.to_owned(), requests)));
    let asked = tamtam::model::transcript(model.requests().last().unwrap());
    assert_eq!(asked.matches("your to-do list has 1 open items. Go on").count(), 1, "{asked}");
    assert_eq!(asked.matches("1 open items of before").count(), 1, "{asked}");
    assert!(runtime.shutdown().await.is_empty());
}

/// The last step of a turn is not sent on, and leaves no message behind that would begin a turn.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_step_is_not_sent_on() {
    let folder = taped::folder();
    let model = Arc::new(Scripted::new([write(&[("a", "pending")]), Reply::text("That was all.")]));
    let tools = tamtam::tools::with_todos(&tamtam::tools::readonly());
    let builder = Runtime::builder().store(folder.path().join("store")).model(model.clone()).tools(tools);
    let runtime = builder.hook(tamtam::session::PlanCheck).start().await.unwrap();
    let mut options = SessionOptions::new(folder.path()).profile(Profile::Ask);
    options.steps_max = Some(2);
    let session = runtime.create(options).await.unwrap();
    say(&session, "go").await;
    session.wait().await.unwrap();
    let state = session.state().await.unwrap();
    assert_eq!((model.requests().len(), state.turns, state.is_idle()), (2, 1, true));
    assert!(!tamtam::model::transcript(model.requests().last().unwrap()).contains("Hint of the runtime"));
    assert!(runtime.shutdown().await.is_empty());
}
