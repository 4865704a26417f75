//! [`Rows`]: what another node writes of a session, for a stream of its events.
//!
//! Nothing tells a node of what another one appends, so the stream looks, twice a second while the session is not awake here. A change
//! must keep the order: when the session wakes here, the rows are read once more before anything that happens here is told, or what
//! the other node wrote last would be left out.

use std::time::Duration;

use tamtam::{Event, EventStream, Seq, Session, session::EventId};
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::{app::App, messages::last_entry};

/// How often the rows are asked for more.
const LOOK: Duration = Duration::from_millis(500);

/// The rows of one session, for one stream.
pub(crate) struct Rows {
    app: App,
    session: Session,
    look: Interval,
    /// Where the stream began.
    begins: Seq,
    /// The entry up to which they were read.
    read_to: Seq,
    /// Whether they may have more than what was told: the session was not awake here at the last look.
    are_newer: bool,
    looks_on: bool,
}

impl Rows {
    pub(crate) fn new(app: &App, session: &Session, begins: Seq, looks_on: bool) -> Rows {
        let mut look = interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (app, session) = (app.clone(), session.clone());
        Rows { app, session, look, begins, read_to: begins, are_newer: false, looks_on }
    }

    /// The events behind the last one that was told, and then those that happen here. `None` where they cannot be read now: the next
    /// look reads them.
    async fn read(&self, told: Option<EventId>) -> Option<EventStream> {
        // The entry of that event is read again: it may have several.
        let after = told.map_or(self.begins, |told| Seq(told.seq.0.saturating_sub(1)));
        let mut events = self.session.events_after(after).await.ok()?;
        if self.looks_on {
            events.look_on();
        }
        Some(events)
    }

    /// What another node wrote since the last look.
    async fn look(&mut self, told: Option<EventId>) -> Option<EventStream> {
        let is_here = self.session.is_awake();
        if is_here && !self.are_newer {
            return None;
        }
        self.are_newer = true;
        let last = last_entry(&self.app, &self.session).await.ok()?;
        if last <= self.read_to && !is_here {
            return None;
        }
        let events = self.read(told).await?;
        (self.read_to, self.are_newer) = (last, !is_here);
        Some(events)
    }

    /// Whether an event is the next to tell. Else the session woke here: the next look comes at once, and has the event too, if it is
    /// durable.
    pub(crate) fn may_tell(&mut self, event: &Event) -> bool {
        if self.are_newer && self.session.is_awake() {
            self.look.reset_immediately();
            return false;
        }
        if event.id.is_durable() {
            self.read_to = self.read_to.max(event.id.seq);
        }
        true
    }
}

/// What another node wrote, when it has; waits for ever where there is none. Nothing is lost where it is dropped.
pub(crate) async fn next_of(rows: &mut Option<Rows>, told: Option<EventId>) -> EventStream {
    let Some(rows) = rows else { return std::future::pending().await };
    loop {
        rows.look.tick().await;
        if let Some(events) = rows.look(told).await {
            return events;
        }
    }
}
