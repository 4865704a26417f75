//! The application's start and stop (APP rows of the scenarios), with what can be seen of them.

use std::sync::atomic::{AtomicUsize, Ordering};

use tamtam::{
    SendError,
    model::{BoxFuture, Reply, Scripted},
    supervisor::{ChildSpec, Status},
    tool::{Tool, ToolContext, ToolResult},
};

use super::{Arc, ask, builder, counts, create, start};

use crate::support::taped;

/// APP-001: started: the root has the tape store, places for models and tools, the sessions' supervisor and the timekeeper, in
/// the order in which they start, then the host's own; all of them run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn app_001_a_started_runtime_has_the_whole_tree() {
    let folder = taped::folder();
    let own = ChildSpec::new("connector", |cx| async move {
        cx.stopping().await;
        Ok(())
    });
    let runtime = builder(folder.path(), counts()).child(own).start().await.unwrap();
    let session = create(&runtime, folder.path()).await;
    let tree = runtime.tree();
    let [root] = &tree.roots[..] else { panic!("one root: {tree}") };
    let children: Vec<_> = root.children.iter().map(|node| (node.id.as_str(), node.kind, node.status)).collect();
    let runs = |id, kind| (id, kind, Status::Running);
    assert_eq!(
        children,
        [
            runs("tapes", "supervisor"),
            runs("models", "supervisor"),
            runs("tools", "supervisor"),
            runs("compactions", "supervisor"),
            runs("sessions", "supervisor"),
            runs("timekeeper", "timekeeper"),
            runs("host", "supervisor"),
        ]
    );
    let hosts = tree.find("host").unwrap();
    assert_eq!(hosts.children.iter().map(|node| node.id.as_str()).collect::<Vec<_>>(), ["connector"]);
    let sessions = tree.find("sessions").unwrap();
    assert_eq!(sessions.children.iter().map(|node| node.id.as_str()).collect::<Vec<_>>(), [session.id().as_str()]);
    assert!(runtime.shutdown().await.is_empty());
}

/// APP-003: the provider that was registered is the one that answers, and nobody else is asked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn app_003_the_registered_provider_answers() {
    let folder = taped::folder();
    let (registered, other) = (counts(), counts());
    let runtime = start(folder.path(), registered.clone()).await;
    let session = create(&runtime, folder.path()).await;
    assert_eq!(ask(&session, "one").await, "1");
    assert_eq!((registered.requests().len(), other.requests().len()), (1, 0));
    assert!(runtime.shutdown().await.is_empty());
}

/// APP-004: started again on the same store: both run, for a runtime is a value; but what the first has is its own, and the
/// second is told so, until the first gives it up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn app_004_a_second_start_takes_nothing_from_the_first() {
    let folder = taped::folder();
    let first = start(folder.path(), counts()).await;
    let session = create(&first, folder.path()).await;
    assert_eq!(ask(&session, "one").await, "1");
    let second = start(folder.path(), counts()).await;
    let refused = second.session(session.id()).prompt("mine").await.unwrap_err();
    assert!(matches!(&refused, SendError::Unavailable(_)) && refused.to_string().contains("in use"), "{refused}");
    assert_eq!(ask(&session, "two").await, "2");
    // One that sleeps is nobody's.
    first.passivate(session.id()).await.unwrap();
    assert_eq!(ask(&second.session(session.id()), "three").await, "3");
    assert!(ask_is_refused(&session).await);
    assert!(second.shutdown().await.is_empty());
    assert_eq!(ask(&session, "four").await, "4");
    assert!(first.shutdown().await.is_empty());
}

async fn ask_is_refused(session: &tamtam::Session) -> bool {
    matches!(session.prompt("whose").await, Err(SendError::Unavailable(_)))
}

/// A tool that runs until it is dropped, and counts that.
struct Runs(Arc<AtomicUsize>);

struct Running(Arc<AtomicUsize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Tool for Runs {
    fn name(&self) -> &str {
        "runs"
    }

    fn description(&self) -> &str {
        "Runs for ever."
    }

    fn schema(&self) -> serde_json::Value {
        serde_json::json!({ "type": "object" })
    }

    fn run<'a>(&'a self, _: serde_json::Value, _: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        self.0.fetch_add(1, Ordering::SeqCst);
        let running = Running(self.0.clone());
        Box::pin(async move {
            let _running = running;
            std::future::pending().await
        })
    }
}

/// APP-005: stopped: no actor and no worker of any session is left, no claim, no lock; the tree is empty.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn app_005_nothing_of_a_stopped_runtime_is_left() {
    let folder = taped::folder();
    let running = Arc::<AtomicUsize>::default();
    let model = Arc::new(Scripted::from_fn(|_| Reply::call("runs", serde_json::json!({}))));
    let runtime = builder(folder.path(), model).tool(Runs(running.clone())).start().await.unwrap();
    let mut sessions = Vec::new();
    for _ in 0..5 {
        let session = create(&runtime, folder.path()).await;
        session.prompt("go").await.unwrap();
        sessions.push(session);
    }
    super::until("all run", || running.load(Ordering::SeqCst) == 5).await;
    assert!(runtime.shutdown().await.is_empty());
    assert_eq!(running.load(Ordering::SeqCst), 0);
    assert!(runtime.tree().roots.is_empty() && runtime.awake().is_empty());
    for session in &sessions {
        assert!(matches!(session.prompt("late").await, Err(SendError::Closed)));
        assert!(!folder.path().join(format!("store/sessions/{}/claim", session.id())).exists());
    }
    assert_eq!(std::fs::read_dir(folder.path().join("store/owners")).unwrap().count(), 0);
}
