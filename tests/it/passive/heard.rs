//! Listening to a turn that resumes on its own, and its asks before there is a listener.

use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

use tamtam::{
    EventKind, EventStream, Outcome, SessionId,
    model::{BoxFuture, Reply, Scripted},
    permission::{Action, Rule, Ruleset},
    session::{Grant, Record},
    tool::{Access, Tool, ToolContext, ToolResult},
};

use super::{Arc, Path, Runtime, Session, SessionOptions, builder, event, until};
use crate::support::taped;

/// `slow` waits until it is stopped, `quick` is done at once.
#[derive(Clone)]
struct Stub(&'static str, Arc<AtomicUsize>);

impl Tool for Stub {
    fn name(&self) -> &str {
        self.0
    }

    fn description(&self) -> &str {
        "Does what the test wants."
    }

    fn schema(&self) -> serde_json::Value {
        serde_json::json!({ "type": "object" })
    }

    fn access(&self, _: &serde_json::Value) -> Vec<Access> {
        vec![Access::new(self.0, "*")]
    }

    fn run<'a>(&'a self, _: serde_json::Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        self.1.fetch_add(1, Ordering::SeqCst);
        Box::pin(async {
            if self.0 == "slow" {
                context.cancelled().await;
            }
            ToolResult::ok("ran")
        })
    }
}

/// A session whose runtime ended while `slow` ran, and whose next call has to be asked for. Gives how often `quick` ran.
async fn cut_off(folder: &Path) -> (SessionId, Arc<AtomicUsize>) {
    let (slow, quick) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let calls = Reply::call("slow", serde_json::json!({})).with_call("quick", serde_json::json!({}));
    let builder = builder(folder, Arc::new(Scripted::new([calls])));
    let runtime = builder.tool(Stub("slow", slow.clone())).tool(Stub("quick", quick.clone())).start().await.unwrap();
    let rules = vec![Rule::new("slow", "*", Action::Allow), Rule::new("quick", "*", Action::Ask)];
    let mut options = SessionOptions::new(folder);
    options.rules = Some(Ruleset::new("asks", rules));
    let session = runtime.create(options).await.unwrap();
    session.prompt("go").await.unwrap();
    until("slow runs", || slow.load(Ordering::SeqCst) == 1).await;
    let id = session.id().clone();
    assert!(runtime.shutdown().await.is_empty());
    (id, quick)
}

fn again(folder: &Path, quick: &Arc<AtomicUsize>) -> tamtam::runtime::Builder {
    let builder = builder(folder, Arc::new(Scripted::new([Reply::text("done")])));
    builder.tool(Stub("slow", Arc::default())).tool(Stub("quick", quick.clone()))
}

async fn asks(session: &Session) -> usize {
    let entries = session.entries().await.unwrap();
    entries.iter().filter(|entry| matches!(entry.record, Record::Ask { .. })).count()
}

/// Waits until it has asked somebody; a session to which nobody listens asks nobody.
async fn has_asked(session: &Session) {
    let asked = async {
        while asks(session).await == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(std::time::Duration::from_secs(60), asked).await;
    waited.expect("somebody listens to it");
}

async fn outcome(runtime: &Runtime, id: &SessionId) -> Outcome {
    let session = runtime.session(id);
    let waited = tokio::time::timeout(std::time::Duration::from_secs(60), session.wait()).await;
    waited.expect("its turn ends").unwrap();
    session.state().await.unwrap().ended.back().unwrap().outcome.clone()
}

/// Promise 8: to wake a session is not to listen to it. What it asks as its first thing is denied as what it asks a moment later,
/// and does not wait its ten minutes for nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_only_wakes_a_session_hears_none_of_its_asks() {
    for by_name in [false, true] {
        let folder = taped::folder();
        let (id, quick) = cut_off(folder.path()).await;
        let builder = again(folder.path(), &quick);
        let builder = if by_name { builder.without_auto_resume() } else { builder };
        let runtime = builder.start().await.unwrap();
        if by_name {
            runtime.open(&id).await.unwrap();
        }
        let session = runtime.session(&id);
        assert_eq!(asks(&session).await, 0, "by name: {by_name}");
        assert_eq!(outcome(&runtime, &id).await, Outcome::Done);
        assert_eq!((asks(&session).await, quick.load(Ordering::SeqCst)), (0, 0));
        assert!(runtime.shutdown().await.is_empty());
    }
}

/// The other side: whoever is to listen is there before the first step, is asked, and answers when the runtime is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_to_listen_hears_the_first_ask_of_a_turn_that_goes_on() {
    let folder = taped::folder();
    let (id, quick) = cut_off(folder.path()).await;
    let heard = Arc::new(Mutex::new(Vec::<(SessionId, EventStream)>::new()));
    let keeps = heard.clone();
    let listen = move |id: &SessionId, events| keeps.lock().unwrap().push((id.clone(), events));
    let runtime = again(folder.path(), &quick).on_resume(listen).start().await.unwrap();
    let (whose, mut events) = heard.lock().unwrap().pop().unwrap();
    assert_eq!((&whose, heard.lock().unwrap().len()), (&id, 0));
    let ask = event(&mut events, |kind| match kind {
        EventKind::Ask { ask, .. } => Some(*ask),
        _ => None,
    })
    .await;
    runtime.session(&id).answer(ask, Grant::Once).await.unwrap();
    assert_eq!(outcome(&runtime, &id).await, Outcome::Done);
    assert_eq!((asks(&runtime.session(&id)).await, quick.load(Ordering::SeqCst)), (1, 1));
    assert!(runtime.shutdown().await.is_empty());
}

/// A listener that panics listens to nothing, and the session goes on all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_that_panics_keeps_no_session_from_going_on() {
    let folder = taped::folder();
    let (id, quick) = cut_off(folder.path()).await;
    let runtime = again(folder.path(), &quick).on_resume(|_, _| panic!("on purpose")).start().await.unwrap();
    assert_eq!(runtime.recovered().len(), 1);
    assert_eq!(outcome(&runtime, &id).await, Outcome::Done);
    assert!(runtime.shutdown().await.is_empty());
}

/// All that were in a turn are listened to before the first of them goes on: one of them may be another one's parent, and brings it up
/// long before its turn would come.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_that_go_on_are_listened_to_before_the_first_takes_a_step() {
    use futures_util::FutureExt as _;

    // More than are brought back at once.
    const MANY: usize = 20;
    let folder = taped::folder();
    let (slow, quick) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let calls = || Reply::call("slow", serde_json::json!({})).with_call("quick", serde_json::json!({}));
    let first = builder(folder.path(), Arc::new(Scripted::new(std::iter::repeat_with(calls).take(MANY))));
    let first = first.tool(Stub("slow", slow.clone())).tool(Stub("quick", quick.clone())).start().await.unwrap();
    for _ in 0..MANY {
        let mut options = SessionOptions::new(folder.path());
        let rules = vec![Rule::new("slow", "*", Action::Allow), Rule::new("quick", "*", Action::Ask)];
        options.rules = Some(Ruleset::new("asks", rules));
        first.create(options).await.unwrap().prompt("go").await.unwrap();
    }
    until("all run", || slow.load(Ordering::SeqCst) == MANY).await;
    assert!(first.shutdown().await.is_empty());

    let heard = Arc::new(Mutex::new((Vec::<EventStream>::new(), 0)));
    let keeps = heard.clone();
    let listen = move |_: &SessionId, events| {
        let (streams, early) = &mut *keeps.lock().unwrap();
        *early += streams.iter_mut().filter_map(|stream| stream.next().now_or_never()).count();
        streams.push(events);
    };
    let model = Arc::new(Scripted::from_fn(|_| Reply::text("done")));
    let again = builder(folder.path(), model).tool(Stub("slow", Arc::default())).tool(Stub("quick", quick));
    let runtime = again.on_resume(listen).start().await.unwrap();
    let (streams, early) = std::mem::take(&mut *heard.lock().unwrap());
    assert_eq!((runtime.recovered().len(), streams.len(), early), (MANY, MANY, 0));
    for recovered in runtime.recovered() {
        let session = runtime.session(&recovered.session);
        has_asked(&session).await;
        assert_eq!(asks(&session).await, 1);
    }
    assert!(runtime.shutdown().await.is_empty());
    drop(streams);
}
