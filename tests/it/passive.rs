//! Virtual sessions, as a host sees them: a handle is an id; the first message wakes, idleness puts to sleep, and no message
//! is lost in between.

mod app;
mod ending;
mod heard;
mod keeper;
mod levers;
mod parking;
mod race;
mod sleep;

use std::{path::Path, sync::Arc, time::Duration};

use tamtam::{
    EventKind, EventStream, Part, Runtime, Session, SessionOptions,
    model::{Item, Reply, Request, Scripted},
    permission::Profile,
    runtime::{Builder, Passivation},
    session::Next,
};

/// A model that answers each prompt with the number of user messages that it has seen.
fn counts() -> Arc<Scripted> {
    let is_user = |item: &Arc<Item>| matches!(item.as_ref(), Item::User(_));
    Arc::new(Scripted::from_fn(move |request| {
        Reply::text(request.history.iter().filter(|item| is_user(item)).count().to_string())
    }))
}

/// What users said, in the order in which the model sees it.
fn said(request: &Request) -> Vec<String> {
    let parts = request.history.iter().filter_map(|item| match item.as_ref() {
        Item::User(user) => Some(user.parts.iter()),
        _ => None,
    });
    let text = |part: &Part| match part {
        Part::Text(text) => text.text.clone(),
        other => panic!("not a text: {other:?}"),
    };
    parts.flatten().map(text).collect()
}

fn builder(folder: &Path, model: Arc<Scripted>) -> Builder {
    Runtime::builder().store(folder.join("store")).model(model)
}

async fn start(folder: &Path, model: Arc<Scripted>) -> Runtime {
    builder(folder, model).start().await.unwrap()
}

fn options(folder: &Path) -> SessionOptions {
    SessionOptions::new(folder).profile(Profile::Auto)
}

async fn create(runtime: &Runtime, folder: &Path) -> Session {
    runtime.create(options(folder)).await.unwrap()
}

fn passivation(change: impl FnOnce(&mut Passivation)) -> Passivation {
    let mut passivation = Passivation::default();
    change(&mut passivation);
    passivation
}

/// Says something, and gives what the model answers.
async fn ask(session: &Session, text: &str) -> String {
    session.prompt(text).await.unwrap().wait().await.unwrap().text
}

/// Waits until it is so.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let waited = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(60), waited).await.is_ok(), "it never came to be: {what}");
}

/// The next event that is wanted.
async fn event<T>(events: &mut EventStream, wanted: impl Fn(&EventKind) -> Option<T>) -> T {
    let found = async {
        loop {
            if let Next::Event(event) = events.next().await.expect("the stream goes on")
                && let Some(found) = wanted(&event.kind)
            {
                return found;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), found).await.expect("the event comes")
}
