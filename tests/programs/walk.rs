//! One message into a running turn, between two functions that a profiler can name: `tests/walk.sh` copies this program
//! into `examples/` of the trees that it compares, runs it under callgrind there, and counts the source files that were
//! walked.
//!
//! A call runs and hangs, a second one waits behind it, and everything else is at rest. Then the host steers, and waits
//! for the receipt. One thread, so what runs between the two is the message's way and whatever that sets going, and no
//! race decides what is seen of it.
#![allow(clippy::unwrap_used)]

use std::{
    future::Future,
    hint::black_box,
    sync::Arc,
    task::{Context, Wake, Waker},
    time::Duration,
};

use serde_json::{Value, json};
use tamtam::{Runtime, SessionOptions, model::{BoxFuture, Reply, Scripted}, permission::Profile, tool::{Tool, ToolContext, ToolResult}};
use tokio::sync::Notify;

/// Turns before the one that is looked at: under a profiler the first writes look like those of a slow disk, and the way of an append
/// is another one then.
const WARM_UP_TURNS: usize = 20;

/// A tool that begins and stands still.
struct Still(Arc<Notify>);

impl Tool for Still {
    fn name(&self) -> &str {
        "still"
    }

    fn description(&self) -> &str {
        "Begins and stands still."
    }

    fn schema(&self) -> Value {
        json!({ "type": "object" })
    }

    fn run<'a>(&'a self, _: Value, _: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            self.0.notify_one();
            std::future::pending().await
        })
    }
}

/// Whoever waits for the receipt. What is done behind the moment in which it is there is no part of its way.
struct Told(Waker);

impl Wake for Told {
    fn wake(self: Arc<Self>) {
        walk_ends();
        self.0.wake_by_ref();
    }
}

#[inline(never)]
fn walk_begins() {
    black_box(());
}

#[inline(never)]
fn walk_ends() {
    black_box(());
}

/// The one argument is a folder for the store.
fn main() {
    let folder = std::env::args().nth(1).unwrap();
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let began = Arc::new(Notify::new());
        let two_calls = Reply::call("still", json!({})).with_call("still", json!({}));
        let replies = std::iter::repeat_n(Reply::text("Yes."), WARM_UP_TURNS).chain([two_calls]);
        let model = Arc::new(Scripted::new(replies));
        let runtime = Runtime::builder().store(&folder).model(model).tool(Still(began.clone()));
        let runtime = runtime.start().await.unwrap();
        let session = runtime.create(SessionOptions::new(&folder).profile(Profile::Auto)).await.unwrap();
        for _ in 0..WARM_UP_TURNS {
            session.prompt("Are you there?").await.unwrap().wait().await.unwrap();
        }
        session.prompt("Stand still.").await.unwrap();
        began.notified().await;
        // What began the call has its own work to finish, also in threads; nothing says when.
        tokio::time::sleep(Duration::from_secs(2)).await;

        let mut steer = std::pin::pin!(session.steer("Do something else."));
        walk_begins();
        let receipt = std::future::poll_fn(|cx| {
            let told = Waker::from(Arc::new(Told(cx.waker().clone())));
            steer.as_mut().poll(&mut Context::from_waker(&told))
        });
        println!("{:?}", receipt.await.unwrap().disposition);
        // The call stands still for ever, and nobody counts what ending it takes.
        std::process::exit(0);
    });
}
