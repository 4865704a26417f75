//! The open table of a state, read: the tickets of each kind, and the calls of the newest answer.
//!
//! A change must keep that tickets are given in their order, because the calls of an answer are answered in it. Nothing here
//! changes a state.

use std::sync::Arc;

use crate::{
    kernel::{Open, OpenAsk, OpenBudgetAsk, OpenCall, OpenCompaction, OpenRequest, OpenTask, OpenWait, State},
    model::Item,
    words::ids::Seq,
};

impl State {
    /// The open tickets of one kind, in the order of the tickets.
    pub(super) fn open_as<T: 'static>(
        &self,
        of: fn(&Open) -> Option<&T>,
    ) -> impl DoubleEndedIterator<Item = (Seq, &T)> {
        self.open.iter().filter_map(move |(ticket, open)| Some((*ticket, of(open)?)))
    }

    /// The tasks that are open, by ticket.
    pub fn tasks(&self) -> impl Iterator<Item = (Seq, &OpenTask)> {
        self.open_as(|open| if let Open::Task(task) = open { Some(task) } else { None })
    }

    /// The asks that are open, by ticket: [`Session::answer`](crate::Session::answer) takes the ticket.
    pub fn asks(&self) -> impl Iterator<Item = (Seq, &OpenAsk)> {
        self.open_as(|open| if let Open::Ask(ask) = open { Some(ask) } else { None })
    }

    /// The budget ask that is open.
    #[must_use]
    pub fn budget_ask(&self) -> Option<(Seq, &OpenBudgetAsk)> {
        self.open_as(|open| if let Open::BudgetAsk(ask) = open { Some(ask) } else { None }).next()
    }

    /// The wait before a retry that is open.
    pub(super) fn wait(&self) -> Option<(Seq, &OpenWait)> {
        self.open_as(|open| if let Open::Wait(wait) = open { Some(wait) } else { None }).next()
    }

    /// The calls that are open, by ticket: in call order.
    pub fn calls(&self) -> impl DoubleEndedIterator<Item = (Seq, &OpenCall)> {
        self.open_as(|open| if let Open::Call(call) = open { Some(call) } else { None })
    }

    /// The open call with this ticket; `None` if the ticket is not open or is no call.
    pub(crate) fn call(&self, ticket: Seq) -> Option<&OpenCall> {
        match self.open.get(&ticket) {
            Some(Open::Call(call)) => Some(call),
            _ => None,
        }
    }

    /// The model request that is open.
    #[must_use]
    pub fn request(&self) -> Option<(Seq, &OpenRequest)> {
        self.open_as(|open| if let Open::Request(request) = open { Some(request) } else { None }).next()
    }

    /// The compaction that is open.
    #[must_use]
    pub fn compaction(&self) -> Option<(Seq, &OpenCompaction)> {
        self.open_as(|open| if let Open::Compaction(open) = open { Some(open) } else { None }).next()
    }

    /// The open calls of the newest answer: position in the answer, and ticket.
    pub(super) fn open_batch(&self) -> Vec<(u32, Seq)> {
        let batch = self.turn.iter().flat_map(|turn| (0..).zip(turn.batch.iter().map(|item| item.ticket)));
        batch.filter(|(_, ticket)| self.call(*ticket).is_some()).collect()
    }

    /// The calls whose tools are to be asked before a recovery, by their place in the answer that asked for them: the name of the
    /// tool, and the arguments. A torn write may have left calls that have no tickets yet.
    #[must_use]
    pub(crate) fn calls_to_ask(&self) -> Vec<(u32, String, Arc<str>)> {
        let open = self.open_batch();
        let Some(turn) = &self.turn else { return Vec::new() };
        let asked = open.iter().filter_map(|(index, ticket)| {
            let call = self.call(*ticket)?;
            Some((*index, call.facts.tool.clone(), call.input.clone()))
        });
        let newest = self.history.last();
        let torn = newest.iter().filter_map(|item| match item.as_ref() {
            Item::Assistant(answer) => Some((0..).zip(answer.calls()).skip(turn.batch.len())),
            _ => None,
        });
        let torn = torn.flatten().map(|(index, (name, input))| (index, name.to_owned(), input.into()));
        asked.chain(torn).collect()
    }
}
