//! [`Rows`]: what another node writes of a session, for a stream of its events.
//!
//! Nothing tells a node of what another one appends, so the stream looks, twice a second while the session is not awake here. A look
//! asks for the last entry alone, and reads where it is a new one. It runs in a task of its own with one of the server's few places
//! ([`App`]), which it keeps until its read is over, also where its client goes away meanwhile.
//!
//! A change must keep the order: when the session wakes here, the rows are read once more before anything that happens here is told, or
//! what the other node wrote last would be left out.

use std::time::Duration;

use futures_util::FutureExt as _;
use tamtam::{Event, EventStream, OpenError, Seq, Session, runtime::Kind, session::EventId};
use tokio::{
    task::JoinHandle,
    time::{Interval, MissedTickBehavior, interval},
};

use crate::app::App;

/// How often the rows are asked for more.
const LOOK: Duration = Duration::from_millis(500);

/// The rows of one session, for one stream.
pub(crate) struct Rows {
    app: App,
    session: Session,
    look: Interval,
    /// The look under way, and whether the session was awake here when it began.
    looking: Option<(JoinHandle<Looked>, bool)>,
    /// Where the stream began.
    begins: Seq,
    /// The entry up to which they were read.
    read_to: Seq,
    /// Whether they may have more than what was told: the session was not awake here at the last look.
    are_newer: bool,
    /// Whether nothing is told before the next look that finds out how they are.
    come_first: bool,
    looks_on: bool,
}

/// What a look found.
enum Looked {
    /// Nothing new.
    Same,
    /// The events behind the last one that was told, and then those that happen here; and the last entry of the rows.
    More(EventStream, Seq),
    /// Nothing comes any more: the session was deleted, or the runtime is down.
    Gone,
    /// The rows cannot be read now.
    Unread,
}

impl Rows {
    pub(crate) fn new(app: &App, session: &Session, begins: Seq, looks_on: bool) -> Rows {
        let mut look = interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Rows {
            app: app.clone(),
            session: session.clone(),
            look,
            looking: None,
            begins,
            read_to: begins,
            are_newer: false,
            come_first: false,
            looks_on,
        }
    }

    /// Whether the rows are read before any event that happens here, which a look under way would tell again.
    pub(crate) fn come_first(&self) -> bool {
        self.come_first || self.looking.is_some()
    }

    /// The next look reads the rows again, from what was told: the stream of before broke off.
    pub(crate) fn read_again(&mut self) {
        (self.read_to, self.are_newer, self.come_first) = (Seq::ZERO, true, true);
    }

    /// Whether an event is the next to tell. Else it happened here behind what is not read: the next look comes at once, and has the
    /// event too, if it is durable.
    pub(crate) fn may_tell(&mut self, event: &Event) -> bool {
        let is_durable = event.id.is_durable();
        if self.are_newer && !(is_durable && event.id.seq <= self.read_to) {
            self.come_first = true;
            self.look.reset_immediately();
            return false;
        }
        if is_durable {
            self.read_to = self.read_to.max(event.id.seq);
        }
        true
    }

    /// Begins a look, unless what happens here is all that happens.
    fn begin(&mut self, told: Option<EventId>) {
        let is_here = self.session.is_awake();
        if is_here && !self.are_newer {
            return;
        }
        self.are_newer = true;
        // The entry of the last event is read again: it may have several.
        let after = told.map_or(self.begins, |told| Seq(told.seq.0.saturating_sub(1)));
        let known = (!is_here).then_some(self.read_to);
        let look = look(self.app.clone(), self.session.clone(), after, known, self.looks_on);
        self.looking = Some((tokio::spawn(look), is_here));
    }
}

/// Looks once. Where the last entry is the known one, nothing is read.
async fn look(app: App, session: Session, after: Seq, known: Option<Seq>, looks_on: bool) -> Looked {
    let Ok(_place) = app.looks.acquire().await else { return Looked::Unread };
    if app.runtime.ended().now_or_never().is_some() {
        return Looked::Gone;
    }
    let read = async {
        let last = session.last_entry().await?;
        if known.is_some_and(|known| last <= known) {
            return Ok(Looked::Same);
        }
        let mut events = session.events_after(after).await?;
        if looks_on {
            events.look_on();
        }
        Ok::<_, OpenError>(Looked::More(events, last))
    };
    read.await.unwrap_or_else(|error| match error.kind() {
        Kind::NotFound => Looked::Gone,
        _ => Looked::Unread,
    })
}

/// What another node wrote, when it has, and `None` when nothing comes any more; waits for ever where there is none. A look that it
/// began goes on where it is dropped, and is the next call's.
pub(crate) async fn next_of(rows: &mut Option<Rows>, told: Option<EventId>) -> Option<EventStream> {
    let Some(rows) = rows else { return std::future::pending().await };
    loop {
        let Some((looking, was_here)) = &mut rows.looking else {
            rows.look.tick().await;
            rows.begin(told);
            continue;
        };
        let (looked, was_here) = (looking.await, *was_here);
        rows.looking = None;
        match looked.unwrap_or(Looked::Unread) {
            Looked::Unread => {}
            Looked::Gone => return None,
            Looked::Same => rows.come_first = false,
            Looked::More(events, last) => {
                (rows.read_to, rows.are_newer, rows.come_first) = (last, !was_here, false);
                return Some(events);
            }
        }
    }
}
