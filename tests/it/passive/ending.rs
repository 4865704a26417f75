//! How a runtime ends: once, for all callers, from any place.

use std::sync::{
    OnceLock,
    atomic::{AtomicUsize, Ordering},
};

use tamtam::{
    Message, SendError,
    hook::{Hook, HookCall, HookContext, Input, Verdict},
    model::{BoxFuture, Reply, Scripted},
    supervisor::{ChildSpec, Restart},
    tool::{Tool, ToolContext, ToolResult},
};

use super::{Arc, Duration, Runtime, ask, builder, counts, create, options, start, until};

use crate::support::taped;

/// The runtime that a part of itself ends.
type OfItself = Arc<OnceLock<Runtime>>;

fn ends(own: &OfItself) -> Runtime {
    own.get().unwrap().clone()
}

struct Suicide(OfItself);

impl Tool for Suicide {
    fn name(&self) -> &str {
        "shutdown"
    }

    fn description(&self) -> &str {
        "Ends the runtime that it is a part of."
    }

    fn schema(&self) -> serde_json::Value {
        serde_json::json!({ "type": "object" })
    }

    fn run<'a>(&'a self, _: serde_json::Value, _: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async {
            drop(ends(&self.0).shutdown().await);
            ToolResult::ok("never said")
        })
    }
}

/// Ends the runtime in one of its callbacks.
struct Ender {
    own: OfItself,
    on_input: bool,
    returned: Arc<AtomicUsize>,
}

impl Hook for Ender {
    fn name(&self) -> &str {
        "ender"
    }

    fn on_input<'a>(&'a self, _: &'a HookContext, message: Message) -> BoxFuture<'a, Input> {
        Box::pin(async move {
            if self.on_input {
                assert!(ends(&self.own).shutdown().await.is_empty());
                self.returned.fetch_add(1, Ordering::SeqCst);
            }
            Input::Pass(Box::new(message))
        })
    }

    fn before_call<'a>(&'a self, _: &'a HookCall) -> BoxFuture<'a, Verdict> {
        Box::pin(async {
            drop(ends(&self.own).shutdown().await);
            Verdict::Pass
        })
    }
}

fn calls_shutdown() -> Arc<Scripted> {
    Arc::new(Scripted::from_fn(|_| Reply::call("shutdown", serde_json::json!({}))))
}

/// That nothing of the runtime is left: its store can be had whole by another.
async fn nothing_is_left(folder: &std::path::Path) {
    let owners = std::fs::read_dir(folder.join("store/owners")).unwrap().count();
    assert_eq!(owners, 0, "a lock of the store is still there");
    let next = start(folder, counts()).await;
    for session in next.list().await.unwrap() {
        next.open(&session.id).await.unwrap();
    }
    assert!(next.shutdown().await.is_empty());
}

/// Invariant 28 (supervision §8): shutdown many times and side by side: all return the same, and nothing hangs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invariant_28_shutdown_twice_and_side_by_side() {
    let folder = taped::folder();
    let runtime = start(folder.path(), Arc::new(Scripted::new([Reply::hang()]))).await;
    let session = create(&runtime, folder.path()).await;
    let prompt = session.prompt("hang").await.unwrap();
    let ends: Vec<_> = (0..8)
        .map(|_| {
            let runtime = runtime.clone();
            tokio::spawn(async move { runtime.shutdown().await })
        })
        .collect();
    for end in ends {
        assert!(end.await.unwrap().is_empty());
    }
    assert!(runtime.shutdown().await.is_empty());
    assert!(matches!(prompt.wait().await, Err(SendError::Closed)));
    assert!(matches!(session.prompt("late").await, Err(SendError::Closed)));
    assert!(runtime.create(options(folder.path())).await.is_err());
    assert!(runtime.open(session.id()).await.is_err());
    assert!(runtime.tree().roots.is_empty(), "{}", runtime.tree());
    // Whoever listens now is told that nothing comes.
    assert_eq!(session.events().next().await, None);
    nothing_is_left(folder.path()).await;
}

/// Invariant 28: from inside a session's tool, and from inside a gate of a call: whoever asked ends with the rest, and the end
/// goes on without it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invariant_28_shutdown_from_inside_a_tool_and_a_gate() {
    for by_hook in [false, true] {
        let folder = taped::folder();
        let own = OfItself::default();
        let mut builder = builder(folder.path(), calls_shutdown()).tool(Suicide(own.clone()));
        if by_hook {
            builder = builder.hook(Ender { own: own.clone(), on_input: false, returned: Arc::default() });
        }
        let runtime = builder.start().await.unwrap();
        own.set(runtime.clone()).unwrap_or_else(|_| panic!("set once"));
        let session = create(&runtime, folder.path()).await;
        let prompt = session.prompt("end it").await.unwrap();
        let ended = tokio::time::timeout(Duration::from_secs(20), runtime.ended()).await;
        assert!(ended.is_ok(), "the tree ended");
        assert!(runtime.shutdown().await.is_empty());
        assert!(matches!(prompt.wait().await, Err(SendError::Closed)));
        nothing_is_left(folder.path()).await;
    }
}

/// Invariant 28: from inside an input hook, which runs in the sender's own task and so sees the end of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invariant_28_shutdown_from_inside_an_input_hook() {
    let folder = taped::folder();
    let (own, returned) = (OfItself::default(), Arc::<AtomicUsize>::default());
    let hook = Ender { own: own.clone(), on_input: true, returned: returned.clone() };
    let runtime = builder(folder.path(), counts()).hook(hook).start().await.unwrap();
    own.set(runtime.clone()).unwrap_or_else(|_| panic!("set once"));
    let session = create(&runtime, folder.path()).await;
    assert!(matches!(session.prompt("end it").await, Err(SendError::Closed)));
    assert_eq!(returned.load(Ordering::SeqCst), 1);
    nothing_is_left(folder.path()).await;
}

/// Invariant 28: from inside a child of the host's, which waits for its own end: it is killed when its shutdown time is over.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn invariant_28_shutdown_from_inside_a_child_of_the_host() {
    let folder = taped::folder();
    let own = OfItself::default();
    let for_child = own.clone();
    let child = ChildSpec::new("own", move |_| {
        let own = for_child.clone();
        async move {
            while own.get().is_none() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            drop(ends(&own).shutdown().await);
            Ok(())
        }
    });
    let runtime = builder(folder.path(), counts()).child(child.restart(Restart::Temporary)).start().await.unwrap();
    let session = create(&runtime, folder.path()).await;
    assert_eq!(ask(&session, "one").await, "1");
    own.set(runtime.clone()).unwrap_or_else(|_| panic!("set once"));
    assert!(runtime.shutdown().await.is_empty());
    nothing_is_left(folder.path()).await;
}

/// A runtime that is dropped without a shutdown ends in the background: handles answer, the claims and the lock are given back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runtime_that_is_dropped_ends_in_the_background() {
    let folder = taped::folder();
    let runtime = start(folder.path(), Arc::new(Scripted::new([Reply::hang()]))).await;
    let session = create(&runtime, folder.path()).await;
    let prompt = session.prompt("hang").await.unwrap();
    let mut events = session.events();
    let clone = runtime.clone();
    drop(runtime);
    // A clone is the same runtime.
    assert_eq!(clone.awake(), [session.id().clone()]);
    drop(clone);
    assert!(matches!(session.prompt("late").await, Err(SendError::Closed)));
    assert!(matches!(prompt.wait().await, Err(SendError::Closed)));
    while events.next().await.is_some() {}
    let owners = folder.path().join("store/owners");
    until("the store's lock is given back", || std::fs::read_dir(&owners).unwrap().count() == 0).await;

    let second = start(folder.path(), counts()).await;
    assert_eq!(second.recovered().len(), 1);
    second.session(session.id()).wait().await.unwrap();
    assert!(second.shutdown().await.is_empty());
}

/// A runtime whose tokio runtime went first does no harm: handles answer, and a new one on the same store goes on.
#[test]
fn a_runtime_whose_tokio_runtime_went_first_does_no_harm() {
    let folder = taped::folder();
    let tokio = || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let first = tokio();
    let (runtime, session) = first.block_on(async {
        let runtime = start(folder.path(), Arc::new(Scripted::new([Reply::hang()]))).await;
        let session = create(&runtime, folder.path()).await;
        session.prompt("hang").await.unwrap();
        (runtime, session)
    });
    drop(first);
    drop(runtime);
    let second = tokio();
    second.block_on(async {
        assert!(matches!(session.prompt("late").await, Err(SendError::Closed)));
        let id = session.id().clone();
        drop(session);
        let runtime = start(folder.path(), counts()).await;
        assert_eq!(runtime.recovered().len(), 1);
        runtime.open(&id).await.unwrap().wait().await.unwrap();
        assert!(runtime.shutdown().await.is_empty());
    });
}

/// Invariant 34 (supervision §8), promise 13: two runtimes in one process, with sessions of the same ids and in one tokio
/// runtime, do not see each other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invariant_34_two_runtimes_with_the_same_ids_do_not_see_each_other() {
    let folders = [taped::folder(), taped::folder()];
    let runtimes = [start(folders[0].path(), counts()).await, start(folders[1].path(), counts()).await];
    let mut sessions = Vec::new();
    for (runtime, folder) in runtimes.iter().zip(&folders) {
        let options = options(folder.path()).id("same".parse().unwrap());
        sessions.push(runtime.create(options).await.unwrap());
    }
    assert_eq!(ask(&sessions[0], "one").await, "1");
    assert_eq!(ask(&sessions[0], "two").await, "2");
    assert_eq!(ask(&sessions[1], "one").await, "1");
    runtimes[0].passivate(sessions[0].id()).await.unwrap();
    assert_eq!((runtimes[0].awake().len(), runtimes[1].awake().len()), (0, 1));
    runtimes[0].operate().restart(sessions[0].id().as_str()).await.unwrap();
    assert!(runtimes[0].shutdown().await.is_empty());
    assert_eq!(ask(&sessions[1], "two").await, "2");
    assert_eq!(runtimes[1].crashes(), []);
    assert!(runtimes[1].shutdown().await.is_empty());
}
