//! The list of the workers that run the requests and calls of a session: which tickets have one, what stops them, and what has
//! arrived of the answer that one of them waits for. A plain value of the inbox; `at_work.rs` puts workers into it.
//!
//! A change must keep that a token taken out to be cancelled does not stop a worker of a later turn.

use std::sync::Weak;

use tokio_util::sync::CancellationToken;

use crate::{lock::Lock, words::ids::Seq};

/// The part of an answer that has arrived. The worker of the request owns it.
#[derive(Default)]
pub(crate) struct Arrived {
    pub(crate) text: String,
    /// Reasoning and arguments of calls. An answer that is cut off does not keep them, but their tokens count.
    pub(crate) beside: String,
}

/// The workers of an awake session.
#[derive(Default)]
pub(super) struct Workers {
    /// The parent of the tokens of all running requests and calls. A command that ends their turn takes it out and leaves a new
    /// one.
    stop: CancellationToken,
    /// The tickets whose request or call has a worker that has not reported, each with what stops the worker.
    pub(super) at_work: Vec<(Seq, CancellationToken)>,
    /// What has arrived of the answer that is being made.
    pub(super) arrived: Weak<Lock<Arrived>>,
}

impl Workers {
    /// Takes out the token of the running workers. Cancel it outside of every lock; workers that start from here on have another
    /// token, however late the cancel comes.
    pub(super) fn take_stop(&mut self) -> CancellationToken {
        std::mem::take(&mut self.stop)
    }

    /// A worker begins; returns the token that stops it.
    pub(super) fn begun(&mut self, ticket: Seq) -> CancellationToken {
        let stop = self.stop.child_token();
        self.at_work.push((ticket, stop.clone()));
        stop
    }

    /// The worker of a ticket has reported, or is down.
    pub(super) fn left(&mut self, ticket: Seq) {
        self.at_work.retain(|(at_work, _)| *at_work != ticket);
    }

    pub(super) fn clear(&mut self) {
        self.at_work.clear();
    }
}
