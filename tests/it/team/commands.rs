//! A command with an agent: the agent has the turn of the command, and no other.

use tamtam::{
    Runtime,
    runtime::{Agent, Agents, Command, Commanded, Commands, Does},
};

use super::*;

/// Decision 0036: the agent of a command has the turn of the command alone; sent into a running turn, the command waits for its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commands_agent_has_the_turn_of_the_command_alone() {
    let folder = taped::folder();
    let model = Arc::new(Scripted::new([
        Reply::text("as build").at_barrier("gate"),
        Reply::text("as docs"),
        Reply::text("as build again"),
    ]));
    let mut docs = Agent::new("docs", "Writes documentation.");
    docs.prompt = Some("You document.".to_owned());
    let mut document = Command::new("document", "Documents a file.", Does::Say("Document $ARGUMENTS.".into()));
    document.agent = Some("docs".to_owned());
    let builder = Runtime::builder().store(folder.path().join("store")).model(model.clone());
    let builder = builder.agents(Agents::built_in().with(docs).unwrap());
    let runtime = builder.commands(Commands::built_in().with([document])).start().await.unwrap();
    let session = runtime.create(options(folder.path())).await.unwrap();
    let first = session.prompt("go").await.unwrap();
    model.barrier("gate").reached().await;
    let Commanded::Sent(sent) = session.command("/document a.rs", Delivery::Queue).await.unwrap() else { panic!() };
    let last = session.prompt("and now?").await.unwrap();
    model.barrier("gate").release();
    for (receipt, text) in [(first, "as build"), (sent, "as docs"), (last, "as build again")] {
        assert_eq!(soon(receipt.wait()).await.unwrap().text, text);
    }
    let documents: Vec<_> = model.requests().iter().map(|request| request.system.contains("You document.")).collect();
    assert_eq!(documents, [false, true, false]);
    assert_eq!(session.state().await.unwrap().settings.agent, "build");
    assert!(runtime.shutdown().await.is_empty());
}
