//! A command with an agent: the agent has the turn of the command, and no other.

use tamtam::{
    Message, Runtime, SendError,
    runtime::{Agent, AgentMode, Agents, BadCommand, Command, CommandError, Commanded, Commands, Does},
    session::{BranchError, Fallback, NoPoint},
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

/// Seen with a client over HTTP: the agent of a message was a word on the message and nothing more. It has the turn of its message, also
/// over a sleep of the session, and no other turn; one that there is not is refused, and the message is not taken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_agent_of_a_message_has_its_turn_alone() {
    let folder = taped::folder();
    let model = Arc::new(Scripted::new(["as build", "as docs", "as docs again", "as build again"].map(Reply::text)));
    let mut docs = Agent::new("docs", "Writes documentation.");
    (docs.prompt, docs.tools) = (Some("You document.".to_owned()), Some(Default::default()));
    let builder = Runtime::builder().store(folder.path().join("store")).model(model.clone());
    let runtime = builder.agents(Agents::built_in().with(docs).unwrap()).start().await.unwrap();
    let session = runtime.create(options(folder.path())).await.unwrap();
    let by = |agent: Option<&str>, id: &str| {
        let mut message = Message::user("go").with_id(id.into());
        message.agent = agent.map(str::to_owned);
        message
    };
    let refused = session.send(by(Some("nobody"), "none"), Delivery::Queue).await.unwrap_err();
    assert!(matches!(&refused, SendError::NoAgent { why } if why.contains("docs")), "{refused}");
    for (agent, text) in [
        (None, "as build"),
        (Some("docs"), "as docs"),
        (Some("docs"), "as docs again"),
        (Some("build"), "as build again"),
    ] {
        let receipt = session.send(by(agent, text), Delivery::Queue).await.unwrap();
        assert_eq!(soon(receipt.wait()).await.unwrap().text, text);
        assert_eq!(session.state().await.unwrap().settings.agent, "build");
        runtime.passivate(session.id()).await.unwrap();
    }
    // Sent again when its agent is gone, it has its receipt.
    runtime.set_agents(Agents::built_in());
    let again = session.send(by(Some("docs"), "as docs"), Delivery::Queue).await.unwrap();
    assert!(again.known_before && again.wait().await.unwrap().text == "as docs");
    let documents: Vec<_> = model.requests().iter().map(|request| request.system.contains("You document.")).collect();
    assert_eq!(documents, [false, true, true, false]);
    assert_eq!(session.messages().await.unwrap().iter().filter(|said| said.text() == "go").count(), 4);
    assert!(runtime.shutdown().await.is_empty());
}

/// N-08: a command whose agent is for tasks only is a task, though it does not say so: the agent answers in a session of its own,
/// and the conversation gets the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_of_an_agent_for_tasks_is_a_task() {
    let lab = lab([child("Look for cranes.", Reply::text("found")), Reply::text("thank you")]).await;
    let mut look = Command::new("look", "Searches.", Does::Say("Look for $ARGUMENTS.".into()));
    look.agent = Some("explore".to_owned());
    lab.runtime.set_commands(Commands::built_in().with([look]));
    let Commanded::Task(task) = lab.parent.command("/look cranes", Delivery::Queue).await.unwrap() else { panic!() };
    until(async || lab.parent.state().await.unwrap().turns == 1).await;
    soon(lab.parent.wait()).await.unwrap();
    assert_eq!(lab.runtime.session(&task).state().await.unwrap().settings.agent, "explore");
    assert!(told(&lab).contains("is over: done.\n\nfound") && !told(&lab).contains("Look for"), "{}", told(&lab));
    lab.end().await;
}

/// W-04: a command has its own model, else that of its agent; a task has that of its agent; and the session keeps its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_and_a_command_may_each_have_a_model() {
    let folder = taped::folder();
    let model = Arc::new(Scripted::new((0..7).map(|_| Reply::text("done"))));
    let of = |name: &str, mode, model: &str| {
        let mut agent = Agent::new(name, "Has a model.");
        (agent.mode, agent.model) = (mode, Some(model.parse().unwrap()));
        agent
    };
    let docs = of("docs", AgentMode::Primary, "scripted/docs");
    let mut small = of("small", AgentMode::Subagent, "scripted/small");
    small.fallback = vec![Fallback::new("scripted/behind".parse().unwrap())];
    let agents = Agents::built_in().with(docs).unwrap().with(small);
    let says = |name: &str, agent: Option<&str>, model: Option<&str>| {
        let mut command = Command::new(name, "Says something.", Does::Say("Say it.".into()));
        command.agent = agent.map(str::to_owned);
        command.model = model.map(|model| model.parse().unwrap());
        command
    };
    let commands = [
        says("document", Some("docs"), None),
        says("both", Some("docs"), Some("scripted/command")),
        says("large", None, Some("scripted/command")),
        says("count", Some("small"), None),
        says("recount", Some("small"), Some("scripted/command")),
    ];
    let builder = Runtime::builder().store(folder.path().join("store")).model(model).agents(agents.unwrap());
    let runtime = builder.commands(Commands::built_in().with(commands)).with_tasks().start().await.unwrap();
    let session = runtime.create(options(folder.path())).await.unwrap();
    for line in ["/document", "/both", "/large", "and now?"] {
        let Commanded::Sent(sent) = session.command(line, Delivery::Queue).await.unwrap() else { panic!("{line}") };
        soon(sent.wait()).await.unwrap();
    }
    let Commanded::Task(task) = session.command("/count", Delivery::Queue).await.unwrap() else { panic!() };
    until(async || session.state().await.unwrap().turns == 5).await;
    let own = session.state().await.unwrap().settings.model.to_string();
    let expected = ["scripted/docs", "scripted/command", "scripted/command", &own, &own];
    assert_eq!(asked(&session).await, expected);
    assert_eq!(asked(&runtime.session(&task)).await, ["scripted/small"]);
    let chain = async |task| runtime.session(task).state().await.unwrap().settings.fallback.len();
    assert_eq!(chain(&task).await, 1);
    let Commanded::Task(task) = session.command("/recount", Delivery::Queue).await.unwrap() else { panic!() };
    until(async || session.state().await.unwrap().turns == 6).await;
    assert_eq!(asked(&runtime.session(&task)).await, ["scripted/command"]);
    assert_eq!(chain(&task).await, 0, "the agent's chain stands behind the agent's model");
    soon(session.wait()).await.unwrap();
    assert!(runtime.shutdown().await.is_empty());
}

/// The model of each request of a session.
async fn asked(session: &Session) -> Vec<String> {
    let models = session.entries().await.unwrap().into_iter().filter_map(|entry| match entry.record {
        Record::Request(opened) => Some(opened.model.to_string()),
        _ => None,
    });
    models.collect()
}

/// N-02, Z-05: `/redo` takes back the newest `/undo`, once for each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redo_takes_back_an_undo() {
    let lab = lab(["one", "two", "three"].map(Reply::text)).await;
    lab.ask("first").await;
    lab.ask("second").await;
    let line = async |line: &str| match lab.parent.command(line, Delivery::Queue).await {
        Ok(Commanded::Said(words)) => words,
        other => panic!("{line}: {other:?}"),
    };
    for _ in 0..2 {
        assert!(line("/undo").await.starts_with("Undid 1 message; /redo restores it."));
    }
    assert_eq!(line("/redo").await, "Restored 1 message.");
    assert_eq!(
        lab.parent.messages().await.unwrap().iter().map(|message| message.text()).collect::<Vec<_>>(),
        ["first", "one"]
    );
    assert_eq!(line("/redo").await, "Restored 1 message.");
    let nothing = lab.parent.command("/redo", Delivery::Queue).await.unwrap_err();
    assert!(matches!(nothing, CommandError::Branch(BranchError::NoPoint(NoPoint::NothingToRedo))), "{nothing:?}");
    lab.ask("third").await;
    assert!(told(&lab).contains("second") && told(&lab).contains("two"), "{}", told(&lab));
    lab.end().await;
}

/// New commands are those of every session from then on, also of one that was made before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_commands_replace_the_old_ones_in_every_session() {
    let lab = lab([Reply::text("hello"), Reply::text("bye")]).await;
    let says = |name: &str| Command::new(name, "Says it.", Does::Say(format!("Say {name}.")));
    for (name, gone, answer) in [("hi", "ciao", "hello"), ("ciao", "hi", "bye")] {
        lab.runtime.set_commands(Commands::built_in().with([says(name)]));
        let unknown = lab.parent.command(&format!("/{gone}"), Delivery::Queue).await.unwrap_err();
        assert!(matches!(unknown, CommandError::Command(BadCommand::Unknown { .. })), "{unknown}");
        let sent = lab.parent.command(&format!("/{name}"), Delivery::Queue).await.unwrap();
        let Commanded::Sent(sent) = sent else { panic!("{sent:?}") };
        assert_eq!(soon(sent.wait()).await.unwrap().text, answer);
    }
    assert!(told(&lab).contains("user: Say hi.") && told(&lab).contains("user: Say ciao."), "{}", told(&lab));
    lab.end().await;
}
