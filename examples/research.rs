//! One piece of research by a team: a search, a writer who has what was found, and one text of both.
//!
//! `cargo run --example research`: no key, no network. The models are scripts in memory; a host gives each agent a real one with
//! `Agent::model`.

use std::sync::Arc;

use tamtam::{
    Runtime, Session, SessionOptions,
    model::{Reply, Request, Scripted, transcript},
    permission::Profile,
    runtime::{Agent, AgentMode, Agents, TaskOptions},
    session::{Link, TaskRequest, TaskResult, TaskStatus},
};

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// The agents of the team: each works in its own session, and reports in its last message.
fn team() -> Result<Agents, Failed> {
    let agent = |name: &str, description: &str, prompt: &str| {
        let mut agent = Agent::new(name, description);
        (agent.prompt, agent.mode) = (Some(prompt.to_owned()), AgentMode::Subagent);
        agent
    };
    let search = agent("search", "Finds sources.", "You search. Answer with one source a line, and no other word.");
    let writer =
        agent("writer", "Writes from sources.", "You write one paragraph from the sources that you are given.");
    Ok(Agents::built_in().with(search)?.with(writer)?)
}

/// Gives one task, and waits for its result. A task that failed is a result too.
async fn task(editor: &Session, agent: &str, intent: &str, query: String) -> Result<TaskResult, Failed> {
    let mut options = TaskOptions::default();
    // The program itself waits for the end, so the editor's model need not learn of it.
    options.link = Link::ATTACHED;
    let child = editor.delegate(TaskRequest::new(agent, intent, query), options).await?;
    let result = child.result().await?;
    match result.status {
        TaskStatus::Completed => Ok(result),
        other => Err(format!("{agent} ended as {other:?}: {:?}", result.errors).into()),
    }
}

/// The sequence: search, then the writer, then the editor makes one text of it.
pub async fn research(runtime: &Runtime, options: SessionOptions, question: &str) -> Result<String, Failed> {
    let editor = runtime.create(options).await?;
    let found = task(&editor, "search", "Find sources", question.to_owned()).await?;
    let order = format!("{question}\n\nSources:\n{}", found.output.answer);
    let written = task(&editor, "writer", "Write it", order).await?;
    let both =
        format!("Make one text of this, with its sources.\n\n{}\n\n{}", written.output.answer, found.output.answer);
    let answer = editor.prompt(both).await?.wait().await?;
    println!("{} model requests in all", editor.state().await?.spent_in_all().requests);
    Ok(answer.text)
}

/// What the three would say.
pub fn script(request: &Request) -> Reply {
    match &*request.system {
        system if system.contains("You search.") => Reply::text("Pliny, Natural History, book 10"),
        system if system.contains("You write") && transcript(request).contains("Pliny") => {
            Reply::text("Cranes post a sentinel that holds a stone.")
        }
        system if system.contains("You write") => Reply::text("There is nothing to write from."),
        _ => Reply::text("Cranes post a sentinel that holds a stone (Pliny, Natural History, book 10)."),
    }
}

/// A runtime in memory with the team.
pub async fn start(model: Arc<Scripted>) -> Result<Runtime, Failed> {
    Ok(Runtime::builder().in_memory().model(model).agents(team()?).start().await?)
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let runtime = start(Arc::new(Scripted::from_fn(script))).await?;
    let options = SessionOptions::new(folder.path()).profile(Profile::Readonly);
    println!("{}", research(&runtime, options, "How do cranes keep watch?").await?);
    let left = runtime.shutdown().await;
    assert!(left.is_empty(), "{left:?}");
    Ok(())
}
