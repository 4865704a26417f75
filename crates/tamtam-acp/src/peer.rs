//! [`Peer`]: the client, as the rest of the crate speaks to it: updates that it is told, and requests that it answers.
//!
//! A request that is dropped before its answer takes its place back and tells the client (`$/cancel_request`), so that an editor
//! takes down a question that was answered elsewhere. An answer that belongs to no open request is passed over.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::rpc::Fault;

type Waiting = Mutex<HashMap<u64, oneshot::Sender<Result<Value, Fault>>>>;

/// One client. Cheap to clone: all clones are the same one.
#[derive(Clone)]
pub(crate) struct Peer {
    out: mpsc::Sender<String>,
    next: Arc<AtomicU64>,
    waiting: Arc<Waiting>,
}

/// The client is gone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gone;

impl Peer {
    pub(crate) fn new(out: mpsc::Sender<String>) -> Peer {
        Peer { out, next: Arc::new(AtomicU64::new(1)), waiting: Arc::default() }
    }

    /// Whether both are one client.
    pub(crate) fn is(&self, other: &Peer) -> bool {
        Arc::ptr_eq(&self.next, &other.next)
    }

    /// Waits while the client reads slowly.
    async fn send(&self, frame: &Value) -> Result<(), Gone> {
        self.out.send(frame.to_string()).await.map_err(|_| Gone)
    }

    /// Tells the client something that it does not answer.
    pub(crate) async fn tell(&self, method: &str, params: Value) -> Result<(), Gone> {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params })).await
    }

    /// Answers a request of the client.
    pub(crate) async fn answer(&self, id: Value, answer: Result<Value, Fault>) -> Result<(), Gone> {
        let frame = match answer {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err(fault) => json!({ "jsonrpc": "2.0", "id": id, "error": fault.shown() }),
        };
        self.send(&frame).await
    }

    /// Asks the client, and waits for its answer, as long as that takes. Dropping the future withdraws the request.
    pub(crate) async fn ask(&self, method: &str, params: Value) -> Result<Result<Value, Fault>, Gone> {
        let (answer, answered) = oneshot::channel();
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(id, answer);
        let _open = Asked { peer: self, id };
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await?;
        answered.await.map_err(|_| Gone)
    }

    /// Hands an answer of the client to the request that it is for.
    pub(crate) fn answered(&self, id: &Value, result: Result<Value, Fault>) {
        let waiting = id.as_u64().and_then(|id| self.take(id));
        if let Some(waiting) = waiting {
            // Nobody waits any more where the request was withdrawn at this moment.
            drop(waiting.send(result));
        }
    }

    fn take(&self, id: u64) -> Option<oneshot::Sender<Result<Value, Fault>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&id)
    }
}

/// A request of ours that is open.
struct Asked<'a> {
    peer: &'a Peer,
    id: u64,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if self.peer.take(self.id).is_some() {
            let frame = json!({ "jsonrpc": "2.0", "method": "$/cancel_request", "params": { "requestId": self.id } });
            // A client that reads so slowly has not seen the request yet either; its answer is passed over.
            drop(self.peer.out.try_send(frame.to_string()));
        }
    }
}
