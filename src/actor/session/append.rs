//! The way of one decision to the tape: it is handed over, the tape answers, and only then the decision is the state. One that the
//! tape refused never took effect; the mailbox keeps its inputs or gives them up.
//!
//! A change must keep the order after an append: publish the state, tell listeners and then observers, send children their new rules,
//! answer the senders, start what is due. A listener that joined while the append was in flight is told of it too. There must be no
//! second append while one is in flight.

use std::{borrow::Cow, sync::Arc};

use crate::{
    actor::{
        milestone::Milestone,
        observers::Tell,
        session::{
            build,
            live::{Live, Writing},
            logged,
        },
        tape_store::Chore,
        toolset::Toolset,
    },
    event::{Event, EventKind, Ring, events_of},
    fault::InFlight,
    kernel::{Decision, Entry, Input, Record, State, charged},
    supervisor::{ExitReason, shell::ExitError},
    tape::{Appended, Store, TapeError, TapeStoreExt as _},
};

impl Live {
    /// Publishes the state that a new incarnation begins with, and tells listeners of the entries that an earlier one put on the tape
    /// and did not publish.
    pub(super) fn publish_first(&mut self, unpublished: Option<(State, Vec<Entry>)>) {
        let ring = self.slot.publish(self.state.clone(), self.state.seq);
        if let Some((before, entries)) = unpublished {
            self.pass_milestones(&before, &entries);
            self.tell_of(&entries, events_over(before, &entries), ring);
        }
    }

    /// Decides about these inputs, and hands the entries to the tape.
    pub(super) fn record(&mut self, inputs: &[Input]) -> Result<(), ExitError> {
        inputs.iter().filter_map(Input::reported).for_each(|ticket| self.forget_worker(ticket));
        let tools = self.shared.tools.now();
        let (decision, events) = self.decide(inputs, &tools);
        let Decision { entries, stops, replies, after } = decision;
        // Before the append: an incarnation that finds the request on the tape makes it with these. No request or call of an earlier
        // set is open where one is opened.
        let opens = entries.iter().any(|entry| matches!(entry.record, Record::Request(_)));
        let tools_before = (opens && !Arc::ptr_eq(&self.tools, &tools)).then(|| self.use_tools(tools));
        fault!(self.shared.store.faults(), "session.decided", self.slot.id.as_str());
        stops.into_iter().for_each(|who| self.stop(who, &after));
        let entries = Arc::new(entries);
        self.slot.handed_over(entries.clone(), replies);
        let mut writing = Writing { entries, after: Arc::new(after), events, tools_before, in_flight: None };
        if writing.entries.is_empty() {
            return self.settled(writing, Ok(()));
        }
        let appended = self.write(&writing);
        fault!(self.shared.store.faults(), "session.appended", self.slot.id.as_str());
        if inputs.len() > 1 && matches!(inputs.last(), Some(Input::Recover { .. } | Input::Hold)) {
            fault!(self.shared.store.faults(), "session.late_report", self.slot.id.as_str());
        }
        if let Appended::Now(result) = appended {
            return self.settled(writing, result.map(drop));
        }
        writing.in_flight = Some(InFlight::begin(&self.shared.tokio));
        self.writing = Some(writing);
        Ok(())
    }

    /// Takes these tools for the newest request. Returns those before.
    fn use_tools(&mut self, tools: Arc<Toolset>) -> Arc<Toolset> {
        self.slot.keep_tools(tools.clone());
        std::mem::replace(&mut self.tools, tools)
    }

    pub(super) fn write(&mut self, writing: &Writing) -> Appended {
        // Marks the session in the store's list of open turns. A missing mark would lose a turn; a mark too many wakes the session
        // once more.
        let begins = !self.state.is_unfinished() && writing.after.is_unfinished();
        if begins && let Err(error) = self.shared.store.mark_open(&self.slot.id) {
            return Appended::Now(Err(error));
        }
        let unwritable = |error| Appended::Now(Err(build::unwritable(&self.slot.id, error)));
        if let [entry @ Entry { record: Record::State(state), .. }] = &writing.entries[..] {
            let name = state.anchor.as_ref().map_or("anchor", |mark| mark.name.as_str());
            return match entry.to_tape() {
                Ok(line) => self.tape.begin_anchor(name, &line),
                Err(error) => unwritable(error),
            };
        }
        match writing.entries.iter().map(Entry::to_tape).collect::<Result<Vec<_>, _>>() {
            Ok(lines) => self.tape.append(&lines),
            Err(error) => unwritable(error),
        }
    }

    /// Notes on the tape that this incarnation ends in order, if a turn is open. The tape's answer is not waited for. While an append
    /// is in flight there is no note, and the next recovery counts as one from a crash.
    pub(super) fn note_stop(&mut self) {
        if self.writing.is_some() {
            return;
        }
        let Decision { entries, after, .. } = self.decide(&[Input::Stop], &self.shared.tools.now()).0;
        if !entries.is_empty() {
            let (entries, after) = (Arc::new(entries), Arc::new(after));
            drop(self.write(&Writing { entries, after, events: None, tools_before: None, in_flight: None }));
        }
    }

    /// Takes the tape's answer: the decision becomes the state and is published, or it never took effect.
    pub(super) fn settled(&mut self, writing: Writing, result: Result<(), TapeError>) -> Result<(), ExitError> {
        let Writing { entries, after, events, tools_before, in_flight: _ } = writing;
        let Err(error) = result else {
            let before = std::mem::replace(&mut self.state, after);
            let ring = self.slot.publish(self.state.clone(), self.state.seq);
            let events = events.unwrap_or_else(|| match ring.as_ref().is_some_and(|ring| ring.is_heard()) {
                true => events_over(State::clone(&before), &entries),
                false => Vec::new(),
            });
            self.tell_of(&entries, events, ring);
            self.pass_milestones(&before, &entries);
            fault!(self.shared.store.faults(), "session.published", self.slot.id.as_str());
            if self.slot.recorded() {
                // The disk's reserve is to be remade. That may wait for the disk, so the tape store does it.
                self.shared.orders.chore(Chore::Reserve);
            }
            let anchored = entries.iter().any(|entry| matches!(entry.record, Record::State(_)));
            let compacted = self.state.context.compactions > before.context.compactions;
            if (compacted || self.state.wants_anchor(&before)) && !anchored {
                // With a new anchor the session opens without reading what came before.
                self.slot.want_anchor();
            }
            self.unmark();
            self.begin_what_is_due();
            return Ok(());
        };
        if let Some(tools) = tools_before {
            self.use_tools(tools);
        }
        if error.is_lost() {
            self.slot.refused(&error, self.now());
            self.lose(error);
            return Ok(());
        }
        self.unmark();
        let told = self.slot.refused(&error, self.now());
        if !matches!(error, TapeError::TooLarge { .. } | TapeError::AnchorExists { .. }) || told == 0 {
            tracing::warn!(session = %self.slot.id, %error, "failed to write the tape");
            self.shared.counting.refused();
            self.post(self.state.seq).show(0, EventKind::StorageFailed { error: error.to_string() });
        }
        if error.is_full() {
            // The reserve is released so that open tickets can still be closed on the tape.
            let released = self.shared.store.files().is_some_and(Store::release_reserve);
            tracing::warn!(session = %self.slot.id, released, "the disk is full");
        }
        match error {
            // The state here no longer agrees with the tape: the next incarnation reads the tape again.
            TapeError::Changed { .. } | TapeError::Gap { .. } | TapeError::Damaged(_) => {
                Err(ExitError(ExitReason::Error(format!("its tape cannot be written any more: {error}"))))
            }
            _ => {
                // A refused stop that was given up no longer holds back the start of work.
                self.begin_what_is_due();
                Ok(())
            }
        }
    }

    /// Reads the milestones of entries that are on the tape, for the log, the spans and the counters.
    fn pass_milestones(&mut self, before: &State, entries: &[Entry]) {
        let counting = &self.shared.counting;
        // One that ends a turn, or takes back what is open, changes what the entries behind it mean.
        let turns_over = |entry: &Entry| {
            matches!(
                entry.record,
                Record::Recovered { .. } | Record::RolledBack(_) | Record::Imported(_) | Record::TurnFinished { .. }
            )
        };
        let is_folded = entries.len() > 1 && entries.iter().any(turns_over);
        let mut states = (Cow::Borrowed(before), Cow::Borrowed(&*self.state));
        for entry in entries {
            if is_folded {
                let mut after = states.0.clone().into_owned();
                after.apply(entry);
                states.1 = Cow::Owned(after);
            }
            let (before, after) = (&*states.0, &*states.1);
            for line in &charged(entry, before) {
                self.spans.used(line.ticket, &line.charge.usage);
                counting.used(line, &after.settings.labels);
            }
            if let Some(milestone) = Milestone::of(before, entries, entry) {
                let took = self.spans.follow(&milestone, entry, after);
                logged::log(&self.slot.id, &milestone, entry, took);
                counting.count(&milestone, took);
            }
            if is_folded {
                states.0 = std::mem::replace(&mut states.1, Cow::Borrowed(&*self.state));
            }
        }
    }

    /// Tells listeners and observers of recorded entries, and sends children new rules. The state is published before: a listener that
    /// hears of an entry may read it at once. Senders of commands are answered after it (`Slot::recorded`).
    fn tell_of(&mut self, entries: &[Entry], events: Vec<Arc<Event>>, ring: Option<Arc<Ring>>) {
        let tell = || {
            let ring = Arc::downgrade(ring.as_ref()?);
            Some(Tell { ring, incarnation: self.incarnation })
        };
        if let Some(ring) = &ring {
            ring.push(events.iter().cloned());
        }
        // After the listeners, who thus hear of an event before the error of a hook that saw it.
        self.shared.observers.show(&events, tell);
        let narrows = |entry: &Entry| {
            matches!(
                entry.record,
                Record::Settings(_) | Record::AgentSwitched { .. } | Record::Adopted { .. } | Record::Narrowed { .. }
            )
        };
        if entries.iter().any(narrows) {
            self.narrow_children();
        }
    }

    /// Removes the session's mark from the list of open turns, if nothing is open.
    pub(super) fn unmark(&self) {
        if !self.state.is_unfinished() {
            drop(self.shared.store.mark_closed(&self.slot.id));
        }
    }
}

/// The events of entries that are on the tape.
fn events_over(mut before: State, entries: &[Entry]) -> Vec<Arc<Event>> {
    let mut events = Vec::new();
    for entry in entries {
        events.extend(events_of(&before, entry).map(Arc::new));
        before.apply(entry);
    }
    events
}
