//! A session's children, as far as its shell has to do with them: a watcher for each open task, and those who wait for a DOWN.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    actors::{
        links::Watcher,
        session::Live,
        slot::{QUESTIONS_MAX, Reply},
    },
    error::SendError,
    ids::{Seq, SessionId},
    session::{Down, Open, Told},
};

/// Who is told of a DOWN; of nothing, where none comes.
type DownReply = Reply<Option<Arc<Down>>>;

/// Watchers and those who wait. Nothing of it outlives the life of the actor; whoever waits asks the next one.
#[derive(Default)]
pub(super) struct Children {
    watchers: BTreeMap<Seq, Watcher>,
    /// Who wants to know how the session's own task ended, for which parent and ticket.
    own: Vec<(SessionId, Seq, DownReply)>,
    /// Who wants to know how a task of the session ended.
    waiting: Vec<(Seq, DownReply)>,
}

impl Children {
    /// A watcher that has reported is down.
    pub(super) fn forget(&mut self, ticket: Seq) {
        self.watchers.remove(&ticket);
    }

    /// Whether nobody waits for a DOWN. Whoever does would only wake the session again.
    pub(super) fn are_quiet(&self) -> bool {
        self.own.is_empty() && self.waiting.is_empty()
    }

    pub(super) fn wait_for_own(&mut self, parent: SessionId, ticket: Seq, reply: DownReply) {
        // Whoever stopped waiting makes room.
        self.own.retain(|(.., reply)| !reply.is_closed());
        if let Some(reply) = room(self.own.len(), reply) {
            self.own.push((parent, ticket, reply));
        }
    }

    pub(super) fn wait_for(&mut self, ticket: Seq, reply: DownReply) {
        self.waiting.retain(|(_, reply)| !reply.is_closed());
        if let Some(reply) = room(self.waiting.len(), reply) {
            self.waiting.push((ticket, reply));
        }
    }
}

/// Who may wait beside so many others; one who may not is told.
fn room(depth: usize, reply: DownReply) -> Option<DownReply> {
    if depth < QUESTIONS_MAX {
        return Some(reply);
    }
    drop(reply.send(Err(SendError::InboxFull { depth })));
    None
}

impl Live {
    /// Watches over a child, and tells it what the state says it is told.
    pub(super) fn see_to_task(&mut self, ticket: Seq) {
        // A stop may have overtaken a start that waited for the tape; then the state says so already.
        let Some(Open::Task(task)) = self.state.open.get(&ticket) else { return };
        if let Some(watcher) = self.children.watchers.get(&ticket) {
            return watcher.tell(task.told, self.state.closed.clone().unwrap_or_default());
        }
        let told = task.told;
        self.watch_over(ticket, told);
    }

    fn watch_over(&mut self, ticket: Seq, told: Told) {
        let Some(Open::Task(task)) = self.state.open.get(&ticket) else { return };
        let above = Arc::new(self.state.settings.above_children());
        let why = self.state.closed.clone().unwrap_or_default();
        let watcher = Watcher::start(self.post(ticket), task, told, above, why);
        self.children.watchers.insert(ticket, watcher);
    }

    /// The session was set to something else: where it may do less, its children may too.
    pub(super) fn narrow_children(&self) {
        let above = Arc::new(self.state.settings.above_children());
        self.children.watchers.values().for_each(|watcher| watcher.narrow(&above));
    }

    /// Has a child stopped, before the tape has the wish.
    pub(super) fn stop_task(&mut self, ticket: Seq) {
        match self.children.watchers.get(&ticket) {
            Some(watcher) => watcher.tell(Told::Stop, Arc::default()),
            // In recovery nobody watches yet; or the start still waits for the tape, and then there is nothing to start.
            None => self.watch_over(ticket, Told::Stop),
        }
    }

    /// Answers those who wait for a DOWN that is on the tape.
    pub(super) fn tell_of_downs(&mut self) {
        if !self.pending.is_empty() {
            return;
        }
        for (parent, ticket, reply) in std::mem::take(&mut self.children.own) {
            let origin = self.state.origin.as_ref();
            // Whoever stopped waiting does not want to know.
            match origin.filter(|origin| origin.parent == parent && origin.ticket == ticket) {
                None => drop(reply.send(Ok(None))),
                Some(origin) => match &origin.end {
                    Some(end) => drop(reply.send(Ok(Some(end.clone())))),
                    None => self.children.own.push((parent, ticket, reply)),
                },
            }
        }
        for (ticket, reply) in std::mem::take(&mut self.children.waiting) {
            if matches!(self.state.open.get(&ticket), Some(Open::Task(_))) {
                self.children.waiting.push((ticket, reply));
            } else {
                let end = self.state.tasks_ended.iter().find(|end| end.ticket == ticket);
                drop(reply.send(Ok(end.and_then(|end| end.down.clone()))));
            }
        }
    }
}
