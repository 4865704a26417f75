//! Titles and summaries: who writes them, the writer's input, its cost, and what the conversation sees of it.

use tamtam::{
    ModelRef, Runtime,
    runtime::{Agents, Commanded},
    session::SpawnError,
};

use super::*;

/// M-13, W-05: a title and a summary are written beside a turn that runs, by the model that the agent names, of what was said; the
/// conversation is told nothing, and pays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_title_is_written_beside_the_conversation() {
    let folder = taped::folder();
    let model = Arc::new(Scripted::new([
        Reply::text("A sum was asked for, and done.")
            .when("The conversation:\n\nuser: What is 2 + 2?\n\nassistant: It is 4."),
        Reply::text("A sum\nand more").when("The conversation:\n\nuser: What is 2 + 2?"),
        Reply::text("Yes.").when("user: Sure?"),
        Reply::text("It is 4.").when("user: What is 2 + 2?").at_barrier("gate"),
    ]));
    let mut title = (**Agents::built_in().get("title").unwrap()).clone();
    title.model = Some("scripted/small".parse().unwrap());
    let builder = Runtime::builder().store(folder.path().join("store")).model(model.clone());
    let runtime = builder.agents(Agents::built_in().with(title).unwrap()).start().await.unwrap();
    let session = runtime.create(options(folder.path())).await.unwrap();
    let nothing = session.write_title().await.unwrap_err();
    assert!(matches!(&nothing, SpawnError::Unwritten { why } if why == "nothing was said yet"), "{nothing}");

    let receipt = session.prompt("What is 2 + 2?").await.unwrap();
    soon(model.barrier("gate").reached()).await;
    assert_eq!(soon(session.write_title()).await.unwrap(), "A sum");
    let state = session.state().await.unwrap();
    assert_eq!((state.settings.title.as_deref(), state.turn.is_some()), (Some("A sum"), true));
    model.barrier("gate").release();
    soon(receipt.wait()).await.unwrap();
    let Commanded::Said(said) = soon(session.command("/summary", Delivery::Queue)).await.unwrap() else { panic!() };
    assert_eq!(said, "A sum was asked for, and done.");
    soon(session.prompt("Sure?").await.unwrap().wait()).await.unwrap();

    // Two writers, each with one request and no tool; the last request of the conversation has nothing of them.
    let requests = model.requests();
    let is_writer =
        |request: &&tamtam::model::Request| tamtam::model::transcript(request).contains("The conversation:");
    let writers: Vec<_> = requests.iter().filter(is_writer).collect();
    let small: ModelRef = "scripted/small".parse().unwrap();
    assert!(writers.len() == 2 && writers.iter().all(|request| request.tools.is_empty()), "{writers:?}");
    let told = tamtam::model::transcript(requests.last().unwrap());
    assert!(!told.contains("A sum") && told.contains("It is 4."), "{told}");
    let state = session.state().await.unwrap();
    assert_eq!(state.spent_in_all().requests, 4);
    let mut asked = Vec::new();
    for entry in session.entries().await.unwrap() {
        if let Record::TaskStarted { child, .. } = entry.record {
            let entries = runtime.session(&child).entries().await.unwrap();
            asked.extend(entries.into_iter().filter_map(|entry| match entry.record {
                Record::Request(opened) => Some(opened.model),
                _ => None,
            }));
        }
    }
    let own = state.settings.model.clone();
    assert_eq!(asked, [small, own], "the title's by its own model, the summary's by the session's");
    assert!(runtime.shutdown().await.is_empty());
}

/// A writer that fails says so, and the title stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_title_that_cannot_be_written_is_an_error() {
    let folder = taped::folder();
    let model = Arc::new(Scripted::new([Reply::text("Hello."), Reply::text("  ")]));
    let runtime = Runtime::builder().store(folder.path().join("store")).model(model).start().await.unwrap();
    let mut options = options(folder.path());
    options.title = Some("Mine".to_owned());
    let session = runtime.create(options).await.unwrap();
    soon(session.prompt("Hello?").await.unwrap().wait()).await.unwrap();
    let error = soon(session.write_title()).await.unwrap_err();
    assert_eq!(error.to_string(), "nothing was written: the agent title wrote nothing");
    assert_eq!(session.state().await.unwrap().settings.title.as_deref(), Some("Mine"));
    assert!(runtime.shutdown().await.is_empty());
}
