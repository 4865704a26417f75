//! The timekeeper: a permanent child of the root that puts idle sessions to sleep. When too many are awake, it also evicts: it puts
//! to sleep the idle sessions that were used longest ago. It wakes sessions that went down with their supervisor, and records
//! which sessions are parked (kept stopped after too many crashes, or by an operator).
//!
//! It never puts a session to sleep alone: it asks the session, and one with work to do stays awake. It looks when something is
//! due, when an event of the tree came, and at the interval of [`Pressure`]; between two looks it costs nothing.
//!
//! A change must keep two things. Sessions call [`Keeper`] from their actors, so its functions must not wait. Everything that the
//! timekeeper learns from tree events must also be found by looking, because events are lost when it is slow or restarted:
//! `note_parked` and `wake_cut_off` do that.

mod keeper;

pub(crate) use keeper::{Keeper, Uses};
pub use keeper::{Passivation, Pressure};

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::{
    actor::{
        shared::Shared,
        slot::{Slept, Slot},
    },
    supervisor::{ChildContext, Happening, Status, SupervisorHandle},
    words::ids::SessionId,
};

/// The time after which a session that was asked to sleep and stayed awake is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// After an eviction, a session that wakes asks for the next one no earlier than this.
const EVICT_AGAIN: Duration = Duration::from_millis(100);

/// The body of the timekeeper; runs until its supervisor stops it.
pub(crate) async fn keep_time(shared: Arc<Shared>, sessions: SupervisorHandle, cx: ChildContext) {
    let mut events = shared.registry.watch(None);
    let mut lost = 0;
    note_parked(&shared, &sessions).await;
    // For sessions that went down while no timekeeper ran.
    wake_cut_off(&shared);
    let pressure = shared.keeper.passivation.pressure.clone();
    let mut ask_pressure = pressure.as_ref().and_then(Pressure::next);
    look(&shared);
    loop {
        let next = shared.keeper.alarm.lock().next;
        tokio::select! {
            () = cx.stopping() => return,
            () = at(next) => look(&shared),
            // The alarm was set to an earlier moment.
            () = shared.keeper.news.notified() => {}
            () = at(ask_pressure) => if let Some(pressure) = &pressure {
                ask_pressure = pressure.next();
                relieve(&shared, pressure.share());
            },
            Some(event) = events.next() => {
                match event.what {
                    Happening::Parked {} => {
                        let id = event.path.rsplit('/').next().unwrap_or_default();
                        note_one_parked(&shared, &sessions, id).await;
                    }
                    // Sent by any supervisor; unless it was the sessions', no session was cut off.
                    Happening::Down { .. } => wake_cut_off(&shared),
                    _ => {}
                }
                if events.lost() > lost {
                    // A lost event may have been a parking, or the end of the supervisor: both can be looked up.
                    lost = events.lost();
                    note_parked(&shared, &sessions).await;
                    wake_cut_off(&shared);
                }
            }
        }
    }
}

/// Resolves at that moment; never, if there is none.
async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// The idle sessions, the least recently used first.
fn resting(shared: &Shared) -> Vec<(Uses, Arc<Slot>)> {
    let mut resting: Vec<_> =
        shared.slots.all_awake().into_iter().filter_map(|slot| Some((slot.resting()?, slot))).collect();
    resting.sort_by_key(|(resting, _)| resting.last);
    resting
}

/// Asks the sessions to sleep whose time has come, and those that are too many; sets the alarm for the next.
fn look(shared: &Shared) {
    let (keeper, now) = (&shared.keeper, Instant::now());
    // Cleared first: a session that becomes idle during this look sets the alarm again.
    keeper.alarm.lock().next = None;
    let (mut asked, mut next) = (0, None::<Instant>);
    let resting = resting(shared);
    let awake = shared.slots.awake_count();
    let too_many = if awake > keeper.passivation.awake_max {
        keeper.alarm.lock().no_eviction_before = Some(now + EVICT_AGAIN);
        awake - keeper.passivation.awake_max * 9 / 10
    } else {
        0
    };
    for (resting, slot) in &resting {
        let due = keeper.due(*resting);
        if asked < too_many || due.is_some_and(|due| due <= now) {
            slot.passivate(Slept::default());
            asked += 1;
        } else {
            next = next.into_iter().chain(due).min();
        }
    }
    if asked > 0 {
        next = Some(next.map_or(now + ASK_AGAIN, |next| next.min(now + ASK_AGAIN)));
    }
    if let Some(next) = next {
        keeper.look_at(next);
    }
}

/// Asks a share of the idle sessions to sleep, the least recently used first.
fn relieve(shared: &Shared, share: f64) {
    if share.is_finite() && share > 0.0 {
        let resting = resting(shared);
        // Rounded up, so that a share above 0 is at least one session.
        let count = (resting.len() as f64 * share.min(1.0)).ceil() as usize;
        put_to_sleep(resting, count);
    }
}

/// Asks the least recently used idle sessions to sleep, so that `keep` stay awake, or more if more are busy. Returns how many were
/// asked.
pub(crate) fn shed(shared: &Shared, keep: usize) -> usize {
    put_to_sleep(resting(shared), shared.slots.awake_count().saturating_sub(keep))
}

/// Asks the first `count` of these sessions to sleep. Returns how many were asked.
fn put_to_sleep(resting: Vec<(Uses, Arc<Slot>)>, count: usize) -> usize {
    resting.into_iter().take(count).map(|(_, slot)| slot.passivate(Slept::default())).count()
}

/// Wakes the sessions that went down with their supervisor while work was open. They go on under its next incarnation.
fn wake_cut_off(shared: &Arc<Shared>) {
    for id in shared.slots.take_cut_off() {
        shared.slots.slot(shared, &id).rouse();
    }
}

/// Records all sessions that their supervisor has parked.
async fn note_parked(shared: &Arc<Shared>, sessions: &SupervisorHandle) {
    let children = sessions.which_children().await.unwrap_or_default();
    for child in children.iter().filter(|child| child.status == Status::Parked) {
        note_one_parked(shared, sessions, child.id.as_str()).await;
    }
}

/// Records one parked session, unless it is recorded. Its slot then refuses senders as parked instead of letting them wait, and the
/// store records it, so that the next runtime leaves the session alone as well.
async fn note_one_parked(shared: &Arc<Shared>, sessions: &SupervisorHandle, id: &str) {
    let Ok(session) = id.parse::<SessionId>() else { return };
    if shared.slots.why_parked(&session).is_some() {
        return;
    }
    // Read before the supervisor is asked: if a later incarnation has begun, the session was unparked meanwhile, and `park` does
    // nothing.
    let incarnation = shared.slots.newest_incarnation(&session);
    let child = sessions.which_child(id).await;
    let Some(child) = child.ok().filter(|child| child.status == Status::Parked) else { return };
    let why = child.node.last_exit().map_or_else(|| "by hand".to_owned(), |exit| exit.to_string());
    // An error is logged; the session is parked in this runtime.
    drop(shared.park(&session, incarnation, why).await);
}
