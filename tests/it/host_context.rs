//! From inside a call or a hook to the session that it belongs to, without a global; and what a kept context holds.

use std::{
    path::Path,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use serde::Deserialize;
use serde_json::json;
use tamtam::{
    Message, Outcome, Runtime, SendError, Session, SessionOptions,
    hook::{Hook, HookCall, HookContext, Input, Verdict},
    model::{AnswerPart, BoxFuture, Reply, Scripted, transcript},
    permission::Profile,
    session::{DownReason, Link, Next},
    tool::{self, NoArguments, ToolContext, ToolResult},
};

use crate::support::taped;

/// For what must not take for ever; far more than it takes.
const SOON: Duration = Duration::from_secs(60);

async fn titled(runtime: &Runtime, folder: &Path, title: &str) -> Session {
    let mut options = SessionOptions::new(folder).profile(Profile::Auto);
    options.title = Some(title.to_owned());
    runtime.create(options).await.unwrap()
}

/// Calls a tool once for each prompt, and does the part where it is the child.
fn parent_and_child(tool: &'static str, arguments: serde_json::Value) -> Arc<Scripted> {
    Arc::new(Scripted::from_fn(move |request| {
        let said = transcript(request);
        match () {
            () if said.contains("\nuser: Do the part.") => Reply::text("The part is done."),
            () if said.contains("\nresult ") => Reply::text("All is done."),
            () => Reply::call(tool, arguments.clone()),
        }
    }))
}

#[derive(Deserialize, schemars::JsonSchema)]
struct Delegate {
    waits: bool,
}

/// A tool gives a part to a child of its own session. It may return at once, and it may wait for the DOWN: the child does not wait
/// for its parent's turn.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_gives_a_task_to_a_child_of_its_own_session() {
    for waits in [false, true] {
        let folder = taped::folder();
        let delegate = tool::typed("delegate", "Gives a part away.", |Delegate { waits }, cx| async move {
            let session = cx.session().ok_or("no session")?;
            assert_eq!(*session.id(), cx.session);
            let options = SessionOptions::new(&*cx.workspace);
            let child = session.spawn_child(options, "Do the part.", Link::DETACHED).await;
            let child = child.map_err(|error| error.to_string())?;
            if waits {
                let down = child.down().await.map_err(|error| error.to_string())?;
                assert!(matches!(down.reason, DownReason::Done), "{down:?}");
                return Ok(down.text.to_string());
            }
            Ok::<_, String>(child.session().id().to_string())
        });
        let model = parent_and_child("delegate", json!({ "waits": waits }));
        let builder = Runtime::builder().store(folder.path().join("store")).model(model).tool(delegate);
        let runtime = builder.start().await.unwrap();
        let session = titled(&runtime, folder.path(), "parent").await;
        let answered = async { session.prompt("Do it.").await.unwrap().wait().await.unwrap() };
        let answer = tokio::time::timeout(SOON, answered).await.expect("the call does not wait for itself");
        assert_eq!((answer.outcome, answer.text.as_str()), (Outcome::Done, "All is done."));
        let (said, is_error) = only_result(&session).await;
        assert!(!is_error, "{said}");
        if waits {
            assert_eq!(said, "The part is done.");
        } else {
            let child = runtime.session(&said.parse().unwrap());
            child.wait().await.unwrap();
            let state = child.state().await.unwrap();
            assert_eq!(state.origin.as_ref().unwrap().parent, *session.id());
            assert_eq!(&*state.ended.back().unwrap().text, "The part is done.");
        }
        assert!(runtime.shutdown().await.is_empty());
    }
}

/// The only result on the tape of a session: its text, and whether it is an error.
async fn only_result(session: &Session) -> (String, bool) {
    let entries = session.entries().await.unwrap();
    let mut results = entries.iter().filter_map(|entry| match &entry.record {
        tamtam::session::Record::Result { result, .. } => Some((result.content.to_string(), result.error.is_some())),
        _ => None,
    });
    let only = results.next().unwrap();
    assert!(results.next().is_none());
    only
}

/// A tool reads the state of its own session and steers it: the running turn reads the message behind the call's result.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_reads_and_steers_its_own_session() {
    let folder = taped::folder();
    let remind = tool::typed("remind", "Reminds.", |_: NoArguments, cx| async move {
        let session = cx.session().ok_or("no session")?;
        let state = session.state().await.map_err(|error| error.to_string())?;
        session.steer("Mind the title.").await.map_err(|error| error.to_string())?;
        let turn = state.turn.as_ref().map(|turn| turn.step);
        Ok::<_, String>(format!("{:?} in step {turn:?}", state.settings.title))
    });
    let model = Arc::new(Scripted::new([Reply::call("remind", json!({})), Reply::text("Done.")]));
    let builder = Runtime::builder().store(folder.path().join("store")).model(model.clone()).tool(remind);
    let runtime = builder.start().await.unwrap();
    let session = titled(&runtime, folder.path(), "mine").await;
    let answer = session.prompt("Go.").await.unwrap().wait().await.unwrap();
    assert_eq!((answer.outcome, answer.steps), (Outcome::Done, 2));
    let told = transcript(model.requests().last().unwrap());
    let result = told.find("result remind: Some(\"mine\") in step Some(1)").expect(&told);
    assert!(told.find("user: Mind the title.").expect(&told) > result, "{told}");
    assert!(runtime.shutdown().await.is_empty());
}

/// Lets nothing through in sessions whose title says so, and notes what it saw.
struct ByTitle(Arc<Mutex<Vec<String>>>);

impl ByTitle {
    async fn title(&self, point: &str, session: Option<Session>) -> String {
        let session = session.expect("a hook is called in a session");
        let title = session.state().await.unwrap().settings.title.clone().unwrap_or_default();
        self.0.lock().unwrap().push(format!("{point} {title}"));
        title
    }
}

impl Hook for ByTitle {
    fn name(&self) -> &str {
        "by title"
    }

    fn sees_answers(&self) -> bool {
        true
    }

    fn on_input<'a>(&'a self, context: &'a HookContext, message: Message) -> BoxFuture<'a, Input> {
        Box::pin(async move {
            assert_eq!(context.session().map(|session| session.id().clone()).as_ref(), Some(&context.id));
            match self.title("input", context.session()).await.as_str() {
                "mute" => Input::Handled,
                _ => Input::Pass(Box::new(message)),
            }
        })
    }

    fn on_answer<'a>(&'a self, context: &'a HookContext, parts: Vec<AnswerPart>) -> BoxFuture<'a, Vec<AnswerPart>> {
        Box::pin(async move {
            self.title("answer", context.session()).await;
            parts
        })
    }

    fn before_call<'a>(&'a self, call: &'a HookCall) -> BoxFuture<'a, Verdict> {
        Box::pin(async move {
            match self.title("call", call.session()).await.as_str() {
                "no tools" => Verdict::Block("not in this session".into()),
                _ => Verdict::Pass,
            }
        })
    }

    fn on_result<'a>(&'a self, call: &'a HookCall, result: ToolResult) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            self.title("result", call.session()).await;
            result
        })
    }
}

/// Every hook knows its session, and so it may refuse in one and not in another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_refuses_by_session() {
    let folder = taped::folder();
    let saw = Arc::<Mutex<Vec<String>>>::default();
    let work = tool::typed("work", "Works.", |_: NoArguments, _| async { "worked" });
    let model = parent_and_child("work", json!({}));
    let builder =
        Runtime::builder().store(folder.path().join("store")).model(model).tool(work).hook(ByTitle(saw.clone()));
    let runtime = builder.start().await.unwrap();

    let free = titled(&runtime, folder.path(), "free").await;
    free.prompt("Go.").await.unwrap().wait().await.unwrap();
    assert_eq!(only_result(&free).await, ("worked".to_owned(), false));
    let expected = ["input free", "answer free", "call free", "result free", "answer free"];
    assert_eq!(std::mem::take(&mut *saw.lock().unwrap()), expected);

    let bound = titled(&runtime, folder.path(), "no tools").await;
    bound.prompt("Go.").await.unwrap().wait().await.unwrap();
    assert_eq!(only_result(&bound).await, ("Blocked by hook: not in this session".to_owned(), true));

    let mute = titled(&runtime, folder.path(), "mute").await;
    assert!(matches!(mute.prompt("Go.").await, Err(SendError::Handled)));
    assert_eq!(mute.state().await.unwrap().turns, 0);
    assert!(runtime.shutdown().await.is_empty());
}

#[derive(Default)]
struct Kept {
    tool: Vec<ToolContext>,
    hook: Vec<HookContext>,
    calls: Vec<HookCall>,
}

struct Keeps(Arc<Mutex<Kept>>);

impl Hook for Keeps {
    fn name(&self) -> &str {
        "keeps"
    }

    fn on_input<'a>(&'a self, context: &'a HookContext, message: Message) -> BoxFuture<'a, Input> {
        self.0.lock().unwrap().hook.push(context.clone());
        Box::pin(async { Input::Pass(Box::new(message)) })
    }

    fn before_call<'a>(&'a self, call: &'a HookCall) -> BoxFuture<'a, Verdict> {
        self.0.lock().unwrap().calls.push(call.clone());
        Box::pin(async { Verdict::Pass })
    }
}

/// A runtime whose tool and hook keep every context that they are given. Nobody else owns what they keep.
async fn keeping(folder: &Path) -> (Runtime, Session, Weak<Mutex<Kept>>) {
    let kept = Arc::<Mutex<Kept>>::default();
    let keeps = kept.clone();
    let tool = tool::typed("keep", "Keeps.", move |_: NoArguments, cx| {
        keeps.lock().unwrap().tool.push(cx);
        async {}
    });
    let model = parent_and_child("keep", json!({}));
    let builder = Runtime::builder().store(folder.join("store")).model(model).tool(tool).hook(Keeps(kept.clone()));
    let runtime = builder.start().await.unwrap();
    let session = titled(&runtime, folder, "kept").await;
    session.prompt("Go.").await.unwrap().wait().await.unwrap();
    (runtime, session, Arc::downgrade(&kept))
}

/// A context that is kept finds its session as long as there is a runtime. The call is over all the same: nothing of it is in the
/// tree, and what it reports is shown to nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_context_that_is_kept_finds_its_session_and_reports_no_more() {
    let folder = taped::folder();
    let (runtime, session, kept) = keeping(folder.path()).await;
    let mut events = session.events();
    let context = kept.upgrade().unwrap().lock().unwrap().tool[0].clone();
    let node = runtime.tree().find(session.id().as_str()).unwrap().clone();
    assert!(node.children.is_empty(), "{node:?}");
    context.progress.title("late");
    context.progress.metadata(json!({ "late": true }));

    runtime.passivate(session.id()).await.unwrap();
    let again = context.session().unwrap();
    assert_eq!(again.prompt("Once more.").await.unwrap().wait().await.unwrap().outcome, Outcome::Done);
    assert!(runtime.shutdown().await.is_empty());
    while let Some(Next::Event(event)) = events.next().await {
        assert!(!format!("{:?}", event.kind).contains("late"), "{event:?}");
    }
    assert!(matches!(again.prompt("And again.").await, Err(SendError::Closed)));
}

/// The runtime owns its tools and hooks, and they own contexts of calls: no circle. With the last handle, all of them are gone,
/// also without a `shutdown`; and a context that somebody else kept finds nothing, and breaks nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_context_that_is_kept_does_not_keep_its_runtime() {
    for is_shut_down in [true, false] {
        let folder = taped::folder();
        let (runtime, session, kept) = keeping(folder.path()).await;
        let (context, hook_context, call) = {
            let kept = kept.upgrade().unwrap();
            let kept = kept.lock().unwrap();
            (kept.tool[0].clone(), kept.hook[0].clone(), kept.calls[0].clone())
        };
        assert!(context.session().is_some() && hook_context.session().is_some() && call.session().is_some());
        if is_shut_down {
            assert!(runtime.shutdown().await.is_empty());
        }
        drop((runtime, session));
        let gone = async {
            while kept.strong_count() > 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(SOON, gone).await.expect("a kept context keeps the runtime");
        assert!(context.session().is_none() && hook_context.session().is_none() && call.session().is_none());
        context.progress.title("late");
    }
}

/// Outside of a runtime there is no session.
#[test]
fn a_detached_context_has_no_session() {
    assert!(ToolContext::detached("/".into(), "/".into()).session().is_none());
    let context = HookContext::detached("s".parse().unwrap());
    assert_eq!((context.id.as_str(), context.session().is_none()), ("s", true));
}
