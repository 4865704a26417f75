//! What makes a role of an agent: what it is offered, how it is sampled, which model answers; and what ties the tasks of one message
//! together.

use tamtam::{
    hook::{Hook, HookCall, Verdict},
    model::{BoxFuture, Request},
    runtime::{Agent, AgentMode, Agents, TaskOptions},
    tools,
};

use super::*;

/// Tasks whose ends wake nobody.
fn attached() -> TaskOptions {
    let mut options = TaskOptions::default();
    options.link = Link::ATTACHED;
    options
}

/// O-18, O-19, O-25, M-11, M-12, M-14: `explore` is offered what reads and searches, and a call of anything else changes nothing;
/// `general`, beside it, has the tools of the session, and its result names the files that it changed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_explores_is_offered_nothing_that_writes() {
    let folder = taped::folder();
    let write = Reply::call("write", json!({ "path": "a.txt", "content": "text" }));
    let model = Arc::new(Scripted::new([
        child("look", Reply::text("looked")).when("\nresult"),
        child("look", write.clone()),
        child("do", Reply::text("done")).when("\nresult"),
        child("do", write),
    ]));
    let builder = Runtime::builder().store(folder.path().join("store")).model(model.clone());
    let runtime = builder.tools(tools::full()).with_tasks().start().await.unwrap();
    let parent = runtime.create(options(folder.path())).await.unwrap();
    let (mut written, mut changed) = (Vec::new(), Vec::new());
    for (agent, prompt) in [("explore", "look"), ("general", "do")] {
        let request = TaskRequest::new(agent, prompt, prompt);
        let child = parent.delegate(request, attached()).await.unwrap();
        let result = soon(child.result()).await.unwrap();
        assert_eq!(result.status, TaskStatus::Completed, "{result:?}");
        changed.extend(result.patch.into_iter().map(|change| (agent, change.path)));
        written.push(folder.path().join("a.txt").exists());
    }
    assert_eq!(written, [false, true]);
    assert_eq!(changed, [("general", "a.txt".to_owned())]);
    let requests = model.requests();
    let offered = |at: usize| requests[at].tools.iter().map(|tool| tool.name.to_string()).collect::<Vec<_>>();
    let mut explores = offered(0);
    explores.sort_unstable();
    assert_eq!(explores, ["find", "grep", "ls", "read"]);
    assert!(offered(2).contains(&"write".to_owned()), "{:?}", offered(2));
    assert!(runtime.shutdown().await.is_empty());
}

/// Reads `other.md` in place of `old.md`.
struct Moved;

impl Hook for Moved {
    fn name(&self) -> &str {
        "moved"
    }

    fn before_call<'a>(&'a self, call: &'a HookCall) -> BoxFuture<'a, Verdict> {
        let is_old = call.arguments == json!({ "path": "old.md" });
        Box::pin(async move { if is_old { Verdict::Rewrite(json!({ "path": "other.md" })) } else { Verdict::Pass } })
    }
}

/// O-15, O-18: a result names what the task read, each once and as it was read, and cites of it what its answer names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_names_its_sources_and_cites_them() {
    let folder = taped::folder();
    for file in ["notes.md", "other.md"] {
        std::fs::write(folder.path().join(file), "text").unwrap();
    }
    let read = |file: &str| json!({ "path": file });
    let calls = Reply::call("read", read("notes.md")).with_call("read", read("./notes.md"));
    let calls =
        calls.with_call("read", read("old.md")).with_call("read", read("missing.md")).with_call("ls", json!({}));
    let model = Arc::new(Scripted::new([
        child("look", Reply::text("It is in `notes.md:1`, and missing.md would have it too.")).when("\nresult"),
        child("look", calls),
    ]));
    let builder = Runtime::builder().store(folder.path().join("store")).model(model).hook(Moved);
    let runtime = builder.tools(tools::full()).with_tasks().start().await.unwrap();
    let parent = runtime.create(options(folder.path())).await.unwrap();
    let child = parent.delegate(TaskRequest::new("explore", "look", "look"), attached()).await.unwrap();
    let result = soon(child.result()).await.unwrap();
    let ids = |refs: &[tamtam::session::ContextRef]| refs.iter().map(|one| one.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&result.provenance.sources), ["notes.md", "other.md"], "{result:?}");
    assert_eq!(ids(&result.output.citations), ["notes.md"]);
    assert!(runtime.shutdown().await.is_empty());
}

/// O-21: a document, and what is remembered, come as the host has them, as data; what it does not have comes as a name; and a host
/// that fails refuses the task in words.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_is_given_what_the_host_has_under_a_name() {
    use tamtam::{
        hook::HookContext,
        session::{
            ContextRef,
            ContextRefKind::{Doc, File, Memory},
        },
    };
    let folder = taped::folder();
    let model = Arc::new(Scripted::new([Reply::text("done"), Reply::text("done")]));
    let asked = Arc::new(std::sync::Mutex::new(Vec::new()));
    let heard = asked.clone();
    let find = move |context: HookContext, one: ContextRef| -> BoxFuture<'static, Result<Option<String>, String>> {
        heard.lock().unwrap().push((context.id.to_string(), one.id.clone()));
        Box::pin(async move {
            match one.id.as_str() {
                "style" => Ok(Some("Short sentences.".to_owned())),
                "long" => Ok(Some("é".repeat(20_000))),
                "locked" => Err("it is locked".to_owned()),
                "broken" => panic!("on purpose"),
                _ => Ok(None),
            }
        })
    };
    let builder = Runtime::builder().store(folder.path().join("store")).model(model.clone()).context_refs(find);
    let runtime = builder.with_tasks().start().await.unwrap();
    let parent = runtime.create(options(folder.path())).await.unwrap();
    let mut request = TaskRequest::new("general", "work", "work");
    request.context_refs =
        vec![ContextRef::new(Doc, "style"), ContextRef::new(Memory, "long"), ContextRef::new(Memory, "unknown")];
    let child = parent.delegate(request, attached()).await.unwrap();
    soon(child.result()).await.unwrap();
    let said = tamtam::model::transcript(&model.requests()[0]);
    assert!(said.contains("The document style:\nShort sentences."), "{said}");
    assert!(said.contains("What is remembered as long, its first 16384 of 40000 bytes:\né"), "{}", &said[..600]);
    assert!(said.contains("What is remembered as unknown."));
    for (kind, id, why) in
        [(Doc, "locked", "it is locked"), (Memory, "broken", "crashed"), (File, "locked", "the file locked")]
    {
        let mut request = TaskRequest::new("general", "work", "work");
        request.context_refs = vec![ContextRef::new(kind, id)];
        let refused = parent.delegate(request, attached()).await.map(drop).unwrap_err();
        assert!(refused.to_string().contains(why), "{refused}");
    }
    // The host hears who gives the task, and of no name that is none, nor of more than may be.
    let parent_id = parent.id().to_string();
    assert!(asked.lock().unwrap().iter().all(|(session, _)| *session == parent_id));
    let before = asked.lock().unwrap().len();
    for refs in [vec![ContextRef::new(Doc, "style"), ContextRef::new(Doc, "a\nb")], vec![ContextRef::new(Doc, "x"); 65]]
    {
        let mut request = TaskRequest::new("general", "work", "work");
        request.context_refs = refs;
        let refused = parent.delegate(request, attached()).await.map(drop).unwrap_err().to_string();
        assert!(refused.contains("a name is one line") || refused.contains("64 are the most"), "{refused}");
    }
    assert_eq!(asked.lock().unwrap().len(), before);
    assert!(runtime.shutdown().await.is_empty());
}

/// M-16: each role is sampled as its agent says, whatever its parent has; one that says nothing leaves it to the provider.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_role_is_sampled_as_its_agent_says() {
    let folder = taped::folder();
    let model = Arc::new(Scripted::new([Reply::text("steady"), Reply::text("wide"), Reply::text("as the parent")]));
    let of = |name: &str, temperature| {
        let mut agent = Agent::new(name, "Does one thing.");
        (agent.mode, agent.temperature) = (AgentMode::Subagent, Some(temperature));
        agent
    };
    let agents = Agents::built_in().with(of("steady", 0.0)).unwrap().with(of("wide", 1.5)).unwrap();
    let builder = Runtime::builder().store(folder.path().join("store")).model(model.clone()).agents(agents);
    let runtime = builder.with_tasks().start().await.unwrap();
    let mut own = options(folder.path());
    own.params.temperature = Some(0.5);
    let parent = runtime.create(own).await.unwrap();
    for agent in ["steady", "wide", "general"] {
        let child = parent.delegate(TaskRequest::new(agent, "x", "x"), attached()).await.unwrap();
        soon(child.result()).await.unwrap();
    }
    let sampled: Vec<_> = model.requests().iter().map(|request| request.params.temperature).collect();
    assert_eq!(sampled, [Some(0.0), Some(1.5), None]);
    assert!(runtime.shutdown().await.is_empty());
}

/// M-06: agents are a snapshot: new ones are those of the next task, and a task that has begun keeps its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_agents_are_those_of_the_next_task() {
    let replies = ["first", "second"].map(|prompt| {
        let calls = child(prompt, Reply::call("nothing", json!({})).when_answers(0).at_barrier(prompt));
        [calls, child(prompt, Reply::text("done").when_answers(1))]
    });
    let lab = lab(replies.into_iter().flatten()).await;
    let mut children = Vec::new();
    for (prompt, says) in [("first", "You do the old."), ("second", "You do the new.")] {
        let mut agent = Agent::new("worker", "Works.");
        (agent.mode, agent.prompt) = (AgentMode::Subagent, Some(says.to_owned()));
        lab.runtime.set_agents(Agents::built_in().with(agent).unwrap());
        children.push(lab.parent.delegate(TaskRequest::new("worker", prompt, prompt), attached()).await.unwrap());
        soon(lab.model.barrier(prompt).reached()).await;
    }
    for (child, (prompt, says)) in children.iter().zip([("first", "You do the old."), ("second", "You do the new.")]) {
        lab.model.barrier(prompt).release();
        soon(child.result()).await.unwrap();
        assert_eq!(child.session().state().await.unwrap().settings.agent, "worker");
        let requests = lab.model.requests();
        let is_its = |asked: &&Request| tamtam::model::transcript(asked).contains(&format!("user: {prompt}"));
        let systems: Vec<_> = requests.iter().filter(is_its).map(|asked| &*asked.system).collect();
        assert!(systems.len() == 2 && systems.iter().all(|system| system.contains(says)), "{systems:?}");
    }
    lab.end().await;
}

/// O-14, O-16, O-23, O-20: the tasks of one message have one trace, and those of the next another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tasks_of_one_message_have_one_trace() {
    let both = Reply::call("task", arguments("a", json!({}))).with_call("task", arguments("b", json!({})));
    let replies = [both, Reply::text("both"), task("c", json!({})), Reply::text("one")];
    let children = ["a", "b", "c"].map(|name| child(name, Reply::text("done")));
    let lab = lab(replies.into_iter().chain(children)).await;
    assert_eq!((lab.ask("first").await.1, lab.ask("second").await.1), ("both".to_owned(), "one".to_owned()));
    let traces: Vec<_> = lab.results().await.iter().map(|result| envelope(result).trace_id).collect();
    assert_eq!(traces.len(), 3);
    assert!(traces[0] == traces[1] && traces[1] != traces[2] && !traces[2].is_empty(), "{traces:?}");
    lab.end().await;
}
