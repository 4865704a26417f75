//! Ends the processes of many calls at once: all that wait share each look at the process table.

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

/// One for all calls of a runtime. It has a thread only while something is to be done.
#[derive(Clone, Debug, Default)]
pub(super) struct Sweeper {
    desk: Arc<Lock<Desk>>,
}

/// What waits for the next look. One item for each call that ends, so it is bounded by them.
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
    /// The processes of a target, as one look finds them.
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

    /// Takes what a look found; gives the request back where it needs another look. Whoever asked may be gone.
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
