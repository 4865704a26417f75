//! What a subagent may do, and what it sees: its tools, its rules, the files that a request names.

use super::*;
use tamtam::{permission::Globs, runtime::TaskOptions, session::ContextRef, session::ContextRefKind};

/// M-14, O-14, O-16, O-19, O-23, O-07, O-08, H-20: a child has the agent's tools that its parent has too, and neither the tools for
/// tasks nor those for lists; its rules are those of the agent and of the request in front of the parent's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_has_less_than_its_parent() {
    let lab = lab([Reply::text("done")]).await;
    let mut request = TaskRequest::new("general", "less", "less");
    request.auth_scope = vec![Rule::new("edit", "**", Action::Deny)];
    let general = lab.parent.delegate(request.clone(), TaskOptions::default()).await.unwrap();
    let settings = general.session().state().await.unwrap().settings;
    assert!(settings.has_tool("careful") && !settings.has_tool("task") && !settings.has_tool("task_send"));
    let judge = |permission: &str| settings.judge(&[Access::new(permission, "x")], &Globs::default()).action;
    assert_eq!((judge("edit"), judge("careful"), judge("other")), (Action::Deny, Action::Ask, Action::Allow));
    request.agent = "explore".into();
    request.capabilities = Some(["task*".to_owned(), "read".to_owned()].into());
    let explore = lab.parent.delegate(request.clone(), TaskOptions::default()).await.unwrap();
    let settings = explore.session().state().await.unwrap().settings;
    assert!(!settings.has_tool("careful") && !settings.has_tool("task"));
    assert_eq!(settings.judge(&[Access::new("bash", "ls")], &Globs::default()).action, Action::Deny);
    request.agent = "nobody".into();
    let refused = lab.parent.delegate(request, TaskOptions::default()).await.unwrap_err();
    assert!(refused.to_string().contains("choose explore or general"), "{refused}");
    for child in [general, explore] {
        soon(child.result()).await.unwrap();
    }
    soon(lab.parent.wait()).await.unwrap();
    lab.end().await;
}

/// C-08: depth 1 by default, and more where the host says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_gives_tasks_only_where_the_depth_allows() {
    for (depth, expected) in [(1, false), (2, true)] {
        let lab = lab_with([Reply::text("done")], |options| options.task_depth_max = Some(depth)).await;
        let child = lab.parent.delegate(TaskRequest::new("general", "x", "x"), TaskOptions::default()).await.unwrap();
        assert_eq!(child.session().state().await.unwrap().settings.has_tool("task"), expected);
        soon(child.result()).await.unwrap();
        soon(lab.parent.wait()).await.unwrap();
        lab.end().await;
    }
}

/// Permission `task`, its pattern the agent: denied for one agent, allowed for another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_decides_which_agents_may_be_given_tasks() {
    let explores = Reply::call("task", arguments("x", json!({ "subagent_type": "explore" })));
    let replies = [explores, task("x", json!({})), Reply::text("end"), child("x", Reply::text("done"))];
    let lab = lab_with(replies, |options| {
        let rules = [Rule::new("*", "*", Action::Allow), Rule::new("task", "explore", Action::Deny)];
        options.rules = Some(Ruleset::new("test", rules));
    })
    .await;
    assert_eq!(lab.ask("go").await.1, "end");
    let results = lab.results().await;
    assert!(results[0].is_error() && !results[1].is_error(), "{results:?}");
    assert_eq!(lab.children().await.len(), 1);
    lab.end().await;
}

/// O-14, O-16, O-23, O-21: of a file that a request names the child has the beginning and the way to read on; what leaves the
/// workspace, and what the rules are stricter about, is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_names_what_the_child_should_know() {
    let lab = lab_with([Reply::text("done")], |options| {
        let rules = [Rule::new("*", "*", Action::Allow), Rule::new("read", "secret/**", Action::Deny)];
        options.rules = Some(Ruleset::new("test", rules));
    })
    .await;
    let at = |name: &str| lab.folder.path().join(name);
    std::fs::write(at("small.txt"), "one\ntwo\n").unwrap();
    std::fs::write(at("large.txt"), "line\n".repeat(20_000)).unwrap();
    std::fs::create_dir(at("secret")).unwrap();
    std::fs::write(at("secret/key"), "k").unwrap();
    let mut request = TaskRequest::new("general", "read", "what do they say?");
    let file = |id: &str| ContextRef::new(ContextRefKind::File, id);
    request.context_refs = vec![file("small.txt"), file("large.txt"), ContextRef::new(ContextRefKind::Symbol, "judge")];
    request.context_refs.push(ContextRef::new(ContextRefKind::Doc, "SECURITY"));
    request.context_refs.push(ContextRef::new(ContextRefKind::Memory, "last week"));
    let task = lab.parent.delegate(request, TaskOptions::default()).await.unwrap();
    soon(task.result()).await.unwrap();
    soon(lab.parent.wait()).await.unwrap();
    let said = tamtam::model::transcript(&lab.model.requests()[0]);
    assert!(said.contains("The file small.txt:\none\ntwo\n"), "{said}");
    for named in ["The symbol judge.", "The document SECURITY.", "What is remembered as last week."] {
        assert!(said.contains(named), "{said}");
    }
    let offset: usize = said.split("offset ").nth(1).unwrap().split(')').next().unwrap().parse().unwrap();
    assert_eq!(said.matches("line\n").count(), offset - 1, "the next line is named");
    let mut request = TaskRequest::new("general", "read", "x");
    request.context_refs = vec![file("../outside")];
    assert!(lab.parent.delegate(request, TaskOptions::default()).await.is_err());

    let names = |id: &str| task_with_file(id);
    let model = Arc::new(Scripted::new([names("secret/key"), Reply::text("end")]));
    let runtime = Runtime::builder().store(at("second")).model(model).with_tasks().start().await.unwrap();
    let mut options = options(lab.folder.path());
    options.rules =
        Some(Ruleset::new("test", [Rule::new("*", "*", Action::Allow), Rule::new("read", "secret/**", Action::Deny)]));
    let parent = runtime.create(options).await.unwrap();
    soon(parent.prompt("go").await.unwrap().wait()).await.unwrap();
    let denied = parent.entries().await.unwrap().into_iter().find_map(|entry| match entry.record {
        Record::Result { result, .. } => Some(result),
        _ => None,
    });
    assert!(denied.unwrap().content.contains("the rules about reading it are stricter"));
    assert!(runtime.shutdown().await.is_empty());
    lab.end().await;
}

/// A key in a file that a request names reaches no child where the output of tools is redacted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_request_shows_of_a_file_is_redacted() {
    let folder = taped::folder();
    std::fs::write(folder.path().join("f"), "the key is sk-canary-8421\n").unwrap();
    let model = Arc::new(Scripted::new([Reply::text("done")]));
    let builder = Runtime::builder().store(folder.path().join("store")).model(model.clone()).with_tasks();
    let redact = tamtam::hook::Redact::new().values(["sk-canary-8421"]);
    let runtime = builder.hook(redact).start().await.unwrap();
    let parent = runtime.create(options(folder.path())).await.unwrap();
    let mut request = TaskRequest::new("general", "read", "what does it say?");
    request.context_refs = vec![ContextRef::new(ContextRefKind::File, "f")];
    request.idempotency_key = Some("k".into());
    let child = parent.delegate(request.clone(), TaskOptions::default()).await.unwrap();
    soon(child.result()).await.unwrap();
    let said = tamtam::model::transcript(&model.requests()[0]);
    assert!(said.contains("The file f:\nthe key is [redacted") && !said.contains("sk-canary"), "{said}");
    // The same request again is the same task, also where what it names is gone by now.
    std::fs::remove_file(folder.path().join("f")).unwrap();
    assert_eq!(parent.delegate(request, TaskOptions::default()).await.unwrap().ticket(), child.ticket());
    soon(parent.wait()).await.unwrap();
    assert!(runtime.shutdown().await.is_empty());
}

fn task_with_file(id: &str) -> Reply {
    task("look", json!({ "context_refs": [{ "type": "file", "id": id }] }))
}
