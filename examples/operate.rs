//! An operator at 3 a.m.: a host with twenty sessions, one crashing again and again, and one stuck.
//!
//! `cargo run --example operate`: no key, no network. Every line below a `$` is real: the tree, the crash report, the watch.

use std::{
    io::Write,
    sync::{Arc, Mutex, OnceLock, PoisonError, mpsc},
    time::Duration,
};

use serde_json::{Value, json};
use tamtam::{
    ModelRef, Runtime, SendError, Session, SessionOptions,
    model::{BoxFuture, Item, Model, ModelError, Models, Price, Reply, Request, Scripted, Usage},
    permission::Profile,
    runtime::{By, Operator},
    supervisor::{Happening, Node, Reading, Status, Watch},
    tool::{Effect, Tool, ToolContext, ToolResult},
};

type Failed = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main(flavor = "multi_thread", worker_threads = 4)]
async fn main() -> Result<(), Failed> {
    operate(&mut std::io::stdout()).await
}

/// Plays the night through, and writes down what the operator sees.
pub async fn operate(out: &mut (impl Write + Send)) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let (release, released) = mpsc::channel::<()>();
    let script = Scripted::from_fn(reply).named("scripted/night".parse()?);
    let models = Night { script: Arc::new(script), released: Mutex::new(released) };
    let default = models.script.id().clone();
    let runtime = Runtime::builder().store(folder.path().join("tapes")).models(Arc::new(models), default);
    let lookup = Lookup { operator: Arc::default(), stuck: Arc::default() };
    // The tree of a terminal of one's own may show what calls say of their progress.
    let runtime = runtime.tool(Build).tool(lookup.clone()).tree_shows_arguments(true).start().await?;
    let operator = lookup.operator.get_or_init(|| runtime.operate()).clone();
    let open = async |name: &str| -> Result<Session, Failed> {
        let options = SessionOptions::new(folder.path()).id(name.parse()?).profile(Profile::Auto);
        Ok(runtime.create(options).await?)
    };

    // Eighteen sessions that work: most have answered, two are in the middle of a long call.
    let mut chats = Vec::new();
    for number in 1..=18_u64 {
        chats.push(open(&format!("chat-{number:02}")).await?);
    }
    for (chat, number) in chats.iter().zip(1..) {
        let answer = chat.prompt(format!("question {number}")).await?.wait().await?;
        assert_eq!(answer.text, "Here is the answer.");
    }
    for chat in &chats[..2] {
        chat.prompt("build it").await?;
    }

    // One crashes at its call, again and again, and one continues with a model that blocks when asked for its price.
    let (poison, stuck) = (open("poison").await?, open("stuck").await?);
    lookup.stuck.get_or_init(|| stuck.clone());
    let mut watch = runtime.watch("poison");
    poison.prompt("look up: poison").await?;
    let waits = |node: &Node| node.phase == Some("interrupted");
    seen(&runtime, "poison", waits).await?;
    poison.go_on().await?;
    seen(&runtime, "poison", |node| node.status == Status::Parked).await?;
    stuck.prompt("look up: stuck").await?;
    seen(&runtime, "stuck", |node| node.reading == Reading::Busy).await?;
    for text in ["are you there?", "hello?"] {
        let stuck = stuck.clone();
        tokio::spawn(async move { stuck.prompt(text).await });
    }
    seen(&runtime, "stuck", |node| node.queue == 2).await?;

    writeln!(out, "$ count\n{}\n", runtime.count())?;
    writeln!(out, "$ tree\n{}", runtime.tree())?;
    writeln!(out, "$ watch poison")?;
    told(&mut watch, out, |what| matches!(what, Happening::Parked {})).await?;
    writeln!(out, "\n$ inspect poison\n{}", runtime.inspect("poison").ok_or("it is there")?)?;

    // It is parked: senders get an error. The operator unparks it, aborts the turn that crashes it, and it answers again.
    if let Err(SendError::Parked) = poison.prompt("hello?").await {
        writeln!(out, "a sender is told: {}\n", SendError::Parked)?;
    }
    writeln!(out, "$ unpark poison")?;
    operator.unpark("poison").await?;
    poison.abort("its look-up crashes").await?;
    poison.wait().await?;
    writeln!(out, "poison says: {}\n", poison.prompt("question 19").await?.wait().await?.text)?;

    // It is stuck in code that never awaits: it is visible, but takes no command.
    writeln!(out, "$ top busy\n{}", runtime.top(By::Busy, 3))?;
    writeln!(out, "$ pause stuck")?;
    if let Err(error) = operator.pause("stuck").await {
        writeln!(out, "{error}")?;
    }
    drop(release);
    seen(&runtime, "stuck", |node| node.phase == Some("paused")).await?;
    writeln!(out, "the code that blocked it is done: {}\n", line(&runtime, "stuck"))?;
    writeln!(out, "$ resume stuck")?;
    operator.resume("stuck").await?;
    stuck.wait().await?;
    writeln!(out, "{}\n", line(&runtime, "stuck"))?;

    writeln!(out, "$ pause chat-18, and a question to it")?;
    operator.pause("chat-18").await?;
    let asked = chats[17].prompt("question 20").await?;
    seen(&runtime, "chat-18", |node| node.queue == 1).await?;
    writeln!(out, "{}", line(&runtime, "chat-18"))?;
    operator.resume("chat-18").await?;
    writeln!(out, "$ resume chat-18\nchat-18 says: {}\n", asked.wait().await?.text)?;

    writeln!(out, "$ restart chat-17")?;
    operator.restart("chat-17").await?;
    seen(&runtime, "chat-17", |node| node.phase == Some("idle")).await?;
    writeln!(out, "{}\n", line(&runtime, "chat-17"))?;
    for (lever, refused) in [
        ("unpark chat-01", operator.unpark("chat-01").await),
        ("stop nobody", operator.stop("nobody").await),
        ("pause sessions", operator.pause("sessions").await),
    ] {
        writeln!(out, "$ {lever}\n{}\n", refused.err().ok_or("it is refused")?)?;
    }

    writeln!(out, "$ top tokens\n{}", runtime.top(By::Tokens, 3))?;
    writeln!(out, "$ top restarts\n{}", runtime.top(By::Restarts, 3))?;
    writeln!(out, "$ crashes")?;
    for crash in runtime.crashes() {
        writeln!(out, "{}", crash.line())?;
    }

    // The two long calls still run, and finish their work.
    writeln!(out, "\n$ drain")?;
    let finish = async {
        seen(&runtime, "chat-01", |node| node.phase == Some("tools")).await?;
        for chat in &chats[..2] {
            while !matches!(chat.prompt("too late").await, Err(SendError::Draining)) {
                tokio::task::yield_now().await;
            }
            chat.abort("the night is over").await?;
        }
        Ok::<(), Failed>(())
    };
    let (left, finished) = tokio::join!(operator.drain(Duration::from_secs(20)), finish);
    finished?;
    writeln!(out, "not done in time: {left:?}\n{}", runtime.count())?;
    let left = runtime.shutdown().await;
    writeln!(out, "left behind: {}", if left.is_empty() { "nothing" } else { "something" })?;
    Ok(())
}

/// What the model says: it looks up and builds where it is asked to, and answers else.
fn reply(request: &Request) -> Reply {
    let usage = Usage::new(900 + 20 * request.history.iter().count() as u64, 40);
    let newest = request.history.iter().last().map(|item| item.as_ref().clone());
    let said = match newest {
        Some(Item::User(user)) => user.parts.iter().map(|part| format!("{part:?}")).collect(),
        _ => String::new(),
    };
    let reply = match () {
        () if said.contains("look up: poison") => Reply::call("lookup", json!({ "what": "poison" })),
        () if said.contains("look up: stuck") => Reply::call("lookup", json!({ "what": "stuck" })),
        () if said.contains("build it") => Reply::call("build", json!({})),
        () => Reply::text("Here is the answer."),
    };
    reply.with_usage(usage)
}

/// Models with the worst of bugs. A price is asked once for each model, by the first session that needs it, inside its actor; so a
/// model that blocks there makes that session stuck.
struct Night {
    script: Arc<Scripted>,
    released: Mutex<mpsc::Receiver<()>>,
}

impl Models for Night {
    fn find(&self, _: &ModelRef) -> Result<Arc<dyn Model>, ModelError> {
        Ok(self.script.clone())
    }

    fn price_of(&self, name: &ModelRef) -> Option<Price> {
        if name.model == "stuck" {
            // Waits in a way that tokio cannot see, until the operator's side is dropped.
            // An error is that end.
            let _ = self.released.lock().unwrap_or_else(PoisonError::into_inner).recv();
        }
        None
    }
}

/// A tool with bugs. A panic loses only its call, so the crash of the actor itself is the operator's drill.
#[derive(Clone)]
struct Lookup {
    operator: Arc<OnceLock<Operator>>,
    stuck: Arc<OnceLock<Session>>,
}

impl Tool for Lookup {
    fn name(&self) -> &str {
        "lookup"
    }

    fn description(&self) -> &str {
        "Looks something up."
    }

    fn schema(&self) -> Value {
        json!({ "type": "object", "properties": { "what": { "type": "string" } } })
    }

    fn effect(&self) -> Effect {
        // It runs again in the next incarnation, and so crashes that, too.
        Effect::Read
    }

    fn run<'a>(&'a self, arguments: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            if let (Some(stuck), Some("stuck")) = (self.stuck.get(), arguments["what"].as_str()) {
                // The next request of this session asks for the price of this model.
                let model = ModelRef::new("scripted", "stuck");
                if let Err(error) = stuck.configure(|settings| settings.model = model.clone()).await {
                    return ToolResult::error(error.to_string());
                }
            }
            if let (Some(operator), Some("poison")) = (self.operator.get(), arguments["what"].as_str()) {
                let words = "index out of bounds: the len is 0 but the index is 0";
                match operator.crash(context.session.as_str(), words) {
                    Ok(()) => context.cancelled().await,
                    Err(error) => return ToolResult::error(error.to_string()),
                }
            }
            ToolResult::ok("found")
        })
    }
}

/// A tool that runs until it is stopped.
struct Build;

impl Tool for Build {
    fn name(&self) -> &str {
        "build"
    }

    fn description(&self) -> &str {
        "Builds it."
    }

    fn schema(&self) -> Value {
        json!({ "type": "object" })
    }

    fn run<'a>(&'a self, _: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            context.progress.title("building, 3 of 7 parts");
            context.cancelled().await;
            ToolResult::ok("built 3 of 7 parts")
        })
    }
}

/// Waits until a node is seen to be like that.
async fn seen(runtime: &Runtime, id: &str, is_so: impl Fn(&Node) -> bool) -> Result<(), Failed> {
    let looking = async {
        while !runtime.tree().find(id).is_some_and(&is_so) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let seen = tokio::time::timeout(Duration::from_secs(20), looking).await;
    seen.map_err(|_| format!("{id} is not as it should be:\n{}", runtime.tree()).into())
}

/// The line of the tree about a node.
fn line(runtime: &Runtime, id: &str) -> String {
    let tree = runtime.tree().to_string();
    tree.lines()
        .find(|line| line.contains(id))
        .unwrap_or("it is gone")
        .trim_start_matches(['│', '├', '└', '─', ' '])
        .to_owned()
}

/// Prints the events, up to a matching one.
async fn told(watch: &mut Watch, out: &mut impl Write, is_it: impl Fn(&Happening) -> bool) -> Result<(), Failed> {
    while let Some(event) = watch.next().await {
        writeln!(out, "{event}")?;
        if is_it(&event.what) {
            return Ok(());
        }
    }
    Err("the watch ended".into())
}
