//! Ends the processes of many calls at once: all calls that wait share each look at the process table.
//!
//! A sweeper has one thread, and only while requests wait. The future of a request may be dropped; the kill continues. A change
//! must keep the looks off the async threads: a look reads `/proc` and blocks. (The one exception: if the system has no thread
//! left, the caller does the work itself.) The lock on the desk is not held during a look.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::{
    lock::Lock,
    process::{
        Swept,
        sweep::{Sweep, Target, look, pause},
        table::Entry,
    },
};

/// The sweeper of a runtime, shared by all its calls. It has a thread only while it has work.
#[derive(Clone, Debug, Default)]
pub(super) struct Sweeper {
    desk: Arc<Lock<Desk>>,
}

/// The requests that wait for the next look. There is one for each call that ends, so the calls bound their number.
#[derive(Debug, Default)]
struct Desk {
    waiting: Vec<Request>,
    has_thread: bool,
}

#[derive(Debug)]
enum Request {
    See { target: Target, answer: oneshot::Sender<Vec<Entry>> },
    Kill { sweep: Sweep, answer: oneshot::Sender<Swept> },
}

impl Sweeper {
    /// The processes of a target, found by one look.
    pub(super) async fn see(&self, target: Target) -> Vec<Entry> {
        let (answer, seen) = oneshot::channel();
        self.ask(Request::See { target, answer });
        seen.await.unwrap_or_default()
    }

    /// Kills the processes of a target until none is found. Dropping the future does not stop it.
    pub(super) async fn sweep(&self, target: Target) -> Swept {
        let (answer, swept) = oneshot::channel();
        self.ask(Request::Kill { sweep: Sweep::new(target), answer });
        swept.await.unwrap_or_default()
    }

    fn ask(&self, request: Request) {
        let mut desk = self.desk.lock();
        desk.waiting.push(request);
        if !desk.has_thread {
            let sweeper = self.clone();
            let started = std::thread::Builder::new().name("tamtam sweep".to_owned()).spawn(move || sweeper.work());
            desk.has_thread = started.is_ok();
            if started.is_err() {
                drop(desk);
                self.work();
            }
        }
    }

    fn work(&self) {
        let mut requests: Vec<Request> = Vec::new();
        loop {
            {
                let mut desk = self.desk.lock();
                requests.append(&mut desk.waiting);
                if requests.is_empty() {
                    desk.has_thread = false;
                    return;
                }
            }
            let found = look(&requests.iter().map(Request::target).collect::<Vec<_>>());
            requests = requests.into_iter().zip(&found).filter_map(|(request, found)| request.take(found)).collect();
            if !requests.is_empty() {
                pause(&found.concat());
            }
        }
    }
}

impl Request {
    fn target(&self) -> &Target {
        match self {
            Request::See { target, .. } => target,
            Request::Kill { sweep, .. } => &sweep.target,
        }
    }

    /// Takes the processes that a look found; returns the request if it needs another look. The asking call may be gone.
    fn take(self, found: &[Entry]) -> Option<Request> {
        match self {
            Request::See { answer, .. } => {
                drop(answer.send(found.to_vec()));
                None
            }
            Request::Kill { mut sweep, answer } => match sweep.take(found) {
                Some(swept) => {
                    drop(answer.send(swept));
                    None
                }
                None => Some(Request::Kill { sweep, answer }),
            },
        }
    }
}
