//! `tamtam demo`: runs the whole runtime for a few seconds, offline and without a key. The answers of the model and the messages of
//! the user are a script.
//!
//! The tools, the files, the tape, the crash and the tree are real. At the end the demo checks the tape on the disk and the files;
//! a mismatch is reported, and the command exits with 1. It works in a new temporary folder, which stays, and changes nothing
//! outside of it.
//!
//! A change must keep this: every line about what happened comes from an event, the tape or the tree, never from the script,
//! because the demo is to show what the runtime did.

mod check;
mod narrate;

use std::{path::Path, sync::Arc, time::Duration};

use serde_json::json;
use tamtam::{
    EventKind, EventStream, MessageId, ModelRef, Outcome, Runtime, Seq, Session, SessionId, SessionOptions,
    model::{Reply, Scripted},
    permission::Profile,
    session::{Entry, Next},
    supervisor::Status,
    tape::TapeStoreExt as _,
    tool::Toolbox,
};

use super::{
    environment::Environment,
    failure::{Exit, Failure},
    print, tapes,
};
use narrate::Narrator;

/// Time limit of the demo. A normal run takes a few seconds, so a run that reaches the limit is stuck.
const LIMIT: Duration = Duration::from_secs(90);

const REPAIR: &str = "The check of this project fails. Find out why, repair it, and show that it passes.";
const FOUR_FILES: &str = "Write four files, one.txt to four.txt.";
const STEER: &str = "Stop. Read NOTES.md and do only what it says.";
const LONG_WORK: &str = "Start the long computation.";
const GOODBYE: &str = "When that is done, say goodbye.";

/// The project that the agent works in.
const FILES: [(&str, &str); 3] = [
    ("greet.sh", "greet() {\n  echo \"Helo, $1!\"\n}\n"),
    (
        "check.sh",
        ". ./greet.sh\nif [ \"$(greet World)\" = \"Hello, World!\" ]; then\n  echo \"check passed\"\nelse\n  \
         echo \"check failed: greet says $(greet World)\"\n  exit 1\nfi\n",
    ),
    ("NOTES.md", "Leave the other files alone. Put the word farewell into farewell.txt.\n"),
];

/// The script of the model. A reply with `expecting` fails unless the request contains that text of a real tool result or message.
fn script() -> Scripted {
    let replies = [
        Reply::text("I look at the program and at its check.")
            .with_call("read", json!({"path": "greet.sh"}))
            .with_call("read", json!({"path": "check.sh"})),
        Reply::call("bash", json!({"command": "sh check.sh"})).expecting("echo \"Helo, $1!\""),
        Reply::text("The greeting is misspelt.")
            .with_call("edit", json!({"path": "greet.sh", "old_string": "Helo", "new_string": "Hello"}))
            .expecting("check failed: greet says Helo, World!"),
        Reply::call("bash", json!({"command": "sh check.sh"})).expecting("result edit"),
        Reply::text("It was a misspelt greeting. The check passes now.").expecting("result bash: check passed"),
        Reply::call("bash", json!({"command": "sleep 1; echo one > one.txt"}))
            .with_call("write", json!({"path": "two.txt", "content": "two\n"}))
            .with_call("write", json!({"path": "three.txt", "content": "three\n"}))
            .with_call("write", json!({"path": "four.txt", "content": "four\n"})),
        Reply::call("read", json!({"path": "NOTES.md"})).expecting(format!("user: {STEER}")),
        Reply::call("write", json!({"path": "farewell.txt", "content": "farewell\n"}))
            .expecting("Put the word farewell"),
        Reply::text("I left the other files alone and wrote farewell.txt.").expecting("result write"),
        Reply::call("bash", json!({"command": "sleep 30; echo late > late.txt"})).expecting(LONG_WORK),
        Reply::text("I do not know how far that got, so I look.")
            .with_call("ls", json!({"path": "."}))
            .expecting("outcome is unknown"),
        Reply::text("The computation was cut off before it wrote late.txt; all other files are there.")
            .expecting("farewell.txt"),
        Reply::empty().at_barrier(GOODBYE).with_text("Goodbye.").expecting(format!("user: {GOODBYE}")),
    ];
    Scripted::from_list(replies, tamtam::model::ScriptBy::Answers).named(ModelRef::new("scripted", "demo"))
}

/// Runs the demo.
pub(super) async fn demo(environment: &Environment) -> Result<Exit, Failure> {
    let folder = std::env::temp_dir().join(format!("tamtam-demo-{}", SessionId::new()));
    set_up(&folder.join("project")).map_err(|error| {
        let folder = folder.display();
        Failure::failed(format!("failed to make {folder}: {error}: set TMPDIR to a folder that can be written"))
    })?;
    print(&format!("All of this happens in {}\n", folder.display()))?;
    // The demo takes no arguments, so no error is a usage error: every error with a message exits with 1.
    play(&folder, environment.tools()).await.map_err(|failure| match failure.message.is_empty() {
        true => failure,
        false => Failure::failed(failure.message),
    })
}

fn set_up(project: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(project)?;
    FILES.iter().try_for_each(|(name, content)| std::fs::write(project.join(name), content))
}

async fn play(folder: &Path, tools: Toolbox) -> Result<Exit, Failure> {
    let (project, store) = (folder.join("project"), folder.join("store"));
    let script = script();
    let builder = Runtime::builder().store(&store).model(Arc::new(script.clone())).tools(tools);
    let runtime = builder.watch(Environment::watch()).start().await?;
    let options = SessionOptions::new(&project).id("demo".parse().unwrap_or_else(|_| SessionId::new()));
    let session = runtime.create(options.profile(Profile::Auto)).await?;
    let events = session.events();
    let (narrator, acknowledged) = (Narrator::default(), vec![]);
    let mut play = Play { runtime: runtime.clone(), script, session, events, narrator, acknowledged };
    let acted = tokio::time::timeout(LIMIT, play.act()).await;
    let acted = acted.unwrap_or_else(|_| Err(Failure::failed(format!("it took longer than {} s", LIMIT.as_secs()))));
    let tree = settled_tree(&runtime, play.session.id()).await;
    let crashes: String = runtime.crashes().iter().map(|crash| crash.line() + "\n").collect();
    let id = play.session.id().clone();
    let left = runtime.shutdown().await;
    acted?;
    print(&format!("\nThe supervision tree:\n{tree}\nThe crashes:\n{crashes}"))?;
    let facts = check_all(&project, &store, &id, &play.acknowledged)?;
    if !left.is_empty() {
        return Err(Failure::failed(format!("some parts could not be stopped: {left:?}")));
    }
    print(&format!(
        "\nThe tape: {}\n  {facts}\n  Read it:      tamtam tape show {id} --store {}\n  Throw it away: rm -r {}\n",
        store.join("sessions").join(id.as_str()).display(),
        store.display(),
        folder.display(),
    ))
}

/// The tree once the restarted session runs, or the tree after one second.
async fn settled_tree(runtime: &Runtime, id: &SessionId) -> String {
    for _ in 0..100 {
        let tree = runtime.tree();
        if tree.find(id.as_str()).is_some_and(|node| node.status == Status::Running) {
            return tree.to_string();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    runtime.tree().to_string()
}

/// The host's side of the demo: its commands, and the events that it reads.
struct Play {
    runtime: Runtime,
    script: Scripted,
    session: Session,
    events: EventStream,
    narrator: Narrator,
    /// The messages that have a receipt.
    acknowledged: Vec<MessageId>,
}

impl Play {
    async fn act(&mut self) -> Result<(), Failure> {
        self.say(REPAIR).await?;
        self.until(|kind| matches!(kind, EventKind::TurnFinished { .. })).await?;

        self.say(FOUR_FILES).await?;
        self.until(|kind| matches!(kind, EventKind::CallStarted { .. })).await?;
        let receipt = self.session.steer(STEER).await?;
        self.acknowledged.push(receipt.message);
        self.until(|kind| matches!(kind, EventKind::TurnFinished { .. })).await?;

        self.say(LONG_WORK).await?;
        self.until(|kind| matches!(kind, EventKind::CallStarted { .. })).await?;
        self.say(GOODBYE).await?;
        let restarted = self.runtime.operate().restart(self.session.id().as_str()).await;
        restarted.map_err(|error| Failure::failed(error.to_string()))?;
        self.until(|kind| matches!(kind, EventKind::TurnFinished { .. })).await?;

        // The actor panics while the model is about to answer: the worst moment for a bug.
        let goodbye = self.script.barrier(GOODBYE);
        goodbye.reached().await;
        let crashed = self.runtime.operate().crash(self.session.id().as_str(), "the glitch of the demo");
        crashed.map_err(|error| Failure::failed(error.to_string()))?;
        self.until(|kind| matches!(kind, EventKind::SessionRecovered { .. })).await?;
        goodbye.release();
        self.until(|kind| matches!(kind, EventKind::TurnFinished { .. })).await?;
        self.session.wait().await?;
        Ok(())
    }

    async fn say(&mut self, text: &str) -> Result<(), Failure> {
        let receipt = self.session.prompt(text).await?;
        self.acknowledged.push(receipt.message);
        Ok(())
    }

    /// Prints the events as lines, up to the first event, and with it, for which `is_it` holds.
    async fn until(&mut self, is_it: impl Fn(&EventKind) -> bool) -> Result<(), Failure> {
        loop {
            let event = match self.events.next().await {
                Some(Next::Event(event)) => event,
                Some(Next::Lagged(missed)) => return Err(Failure::failed(format!("{missed} events were missed"))),
                Some(_) => continue,
                None => return Err(Failure::failed("the session was closed before the demo ended")),
            };
            for line in self.narrator.tell(&event.kind, &self.runtime.crashes()) {
                print(&format!("{line}\n"))?;
            }
            match &event.kind {
                EventKind::StorageFailed { error } => {
                    return Err(Failure::failed(format!("the tape cannot be written: {error}")));
                }
                EventKind::TurnFinished { outcome, .. } if *outcome != Outcome::Done => {
                    return Err(Failure::failed(format!("a turn of the demo ended badly: {outcome:?}")));
                }
                kind if is_it(kind) => return Ok(()),
                _ => {}
            }
        }
    }
}

/// Checks the tape on the disk and the files against the promises.
fn check_all(project: &Path, store: &Path, id: &SessionId, acknowledged: &[MessageId]) -> Result<String, Failure> {
    let store = tapes::open_for(store, id)?;
    if let Some(finding) = store.verify(id)?.first() {
        return Err(Failure::failed(format!("the tape is damaged: {finding}")));
    }
    let entries: Result<Vec<Entry>, _> = store.read(id, Seq::ZERO)?.iter().map(Entry::from_tape).collect();
    let entries = entries.map_err(|error| Failure::failed(error.to_string()))?;
    let facts = check::tape(&entries, acknowledged).map_err(Failure::failed)?;
    files(project).map_err(Failure::failed)?;
    Ok(facts)
}

/// Checks the files: completed calls wrote theirs; skipped and interrupted calls wrote none.
fn files(project: &Path) -> Result<(), String> {
    let expected = [
        ("greet.sh", Some("greet() {\n  echo \"Hello, $1!\"\n}\n")),
        ("one.txt", Some("one\n")),
        ("two.txt", None),
        ("three.txt", None),
        ("four.txt", None),
        ("farewell.txt", Some("farewell\n")),
        ("late.txt", None),
    ];
    for (name, content) in expected {
        let found = std::fs::read_to_string(project.join(name)).ok();
        if found.as_deref() != content {
            return Err(format!("{name} holds {found:?}, and should hold {content:?}"));
        }
    }
    Ok(())
}
