//! How entries about compactions, pruned results and requests that were too large change the history and the context of the state.
//!
//! A finished compaction replaces part of the history only while no model request is open; until then it waits in the state
//! (`context.ready`). So a request that a crash interrupts can be made again byte for byte. An entry about pruned results changes
//! the history at once; the core writes none while a request is open (`compact.rs`).
//!
//! A change must keep that. As in all of `apply.rs`, this code writes no entry, never fails, and must fold existing tapes to the
//! same state as before.

use std::sync::Arc;

use crate::{
    kernel::{
        Compacted, Learned, OpenRequest, State,
        context::{Carried, Fullness, without_files},
    },
    model::{Item, ToolResultItem},
    tool::todo,
    words::ids::Seq,
};

impl State {
    /// Takes a finished compaction. It is put in place now, or as soon as no request is open.
    pub(in crate::kernel) fn take_compacted(&mut self, ticket: Seq, compacted: &Arc<Compacted>) {
        let context = Arc::make_mut(&mut self.context);
        (context.ready, context.ready_ticket, context.ready_entry) = (Some(compacted.clone()), ticket, self.seq);
        self.put_compacted_in_place();
    }

    /// The data that is carried on, and the text that takes the place of the replaced items.
    pub(in crate::kernel) fn in_place_of(&self, compacted: &Compacted) -> (Carried, String) {
        let mut carried = Carried::clone(&self.context.carried);
        let spoken = self.history.iter().take(compacted.first_kept).skip(self.context.front).map(|item| &**item);
        carried.note(spoken, &compacted.replaced, compacted.carry);
        carried.pinned = self.pinned_words(compacted.first_kept);
        let summary = compacted.summary.as_deref().or(self.context.summary.as_deref());
        let mut text = crate::kernel::context::render(summary, &carried, self.seq);
        if !self.context.todos.is_empty() {
            text += &format!("\n\nYour to-do list, as todo_write last had it:\n{}", todo::render(&self.context.todos));
        }
        (carried, text)
    }

    /// Puts a finished compaction in place, unless a request is open: its bytes must stay as they are.
    pub(in crate::kernel) fn put_compacted_in_place(&mut self) {
        if self.request().is_some() {
            return;
        }
        let Some(compacted) = Arc::make_mut(&mut self.context).ready.take() else { return };
        let (carried, text) = self.in_place_of(&compacted);
        let items: Vec<_> = std::mem::take(&mut self.history).iter().cloned().collect();
        let context = Arc::make_mut(&mut self.context);
        context.carried = Arc::new(carried);
        if compacted.summary.is_some() {
            context.summary.clone_from(&compacted.summary);
        }
        context.front = 1;
        context.failures = 0;
        context.compactions = context.compactions.saturating_add(1);
        context.newest = context.ready_entry;
        (context.ready_ticket, context.ready_entry) = (Seq::ZERO, Seq::ZERO);
        if let Some(turn) = &mut self.turn {
            Arc::make_mut(turn).overflowed = false;
        }
        let id = format!("compaction-{}", self.seq);
        let parts = vec![crate::words::message::Part::text(text)];
        let first = Item::User(crate::model::UserItem { id: id.into(), parts, fragment: Default::default() });
        self.replace_history(std::iter::once(Arc::new(first)).chain(items.into_iter().skip(compacted.first_kept)));
    }

    /// Notes that a provider refused a request, and what that taught.
    pub(in crate::kernel) fn take_refusal(&mut self, request: OpenRequest, learned: Learned) {
        let OpenRequest { model, hash, .. } = request;
        self.in_turn(|turn| {
            turn.overflowed = learned != Learned::Files;
            turn.overflows = turn.overflows.saturating_add(1);
            turn.refused = hash;
        });
        let context = Arc::make_mut(&mut self.context);
        let (places, size) = match learned {
            Learned::Window(tokens) => (&mut context.learned, tokens),
            Learned::Bytes(bytes) => (&mut context.learned_bytes, bytes),
            Learned::Files => return,
        };
        places.retain(|(of, _)| *of != model);
        places.push((model, size));
    }

    /// Replaces the content of the results at these positions in the history by a placeholder, and the files of the items at those
    /// positions by lines that name them.
    pub(in crate::kernel) fn prune(&mut self, results: &[usize], files: &[usize]) {
        let items: Vec<_> = std::mem::take(&mut self.history).iter().cloned().collect();
        let pruned = items.into_iter().enumerate().map(|(at, item)| match &*item {
            Item::Result(result) if results.contains(&at) => Arc::new(Item::Result(ToolResultItem {
                content: crate::kernel::context::PRUNED_TEXT.to_owned(),
                attachments: Vec::new(),
                fragment: Default::default(),
                ..result.clone()
            })),
            item if files.contains(&at) => Arc::new(without_files(item)),
            _ => item,
        });
        self.replace_history(pruned);
    }

    pub(in crate::kernel) fn replace_history(&mut self, items: impl Iterator<Item = Arc<Item>>) {
        let context = Arc::make_mut(&mut self.context);
        context.meter.forget();
        if let Some(sent) = &mut context.sent {
            Arc::make_mut(sent).replaced = true;
        }
        context.fullness = Fullness::default();
        (context.estimated, context.bytes) = (0, 0);
        self.history_hash = String::new();
        items.for_each(|item| self.push_shared(item));
    }
}
