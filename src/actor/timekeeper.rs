//! The timekeeper: a permanent child of the root that puts idle sessions to sleep, evicts those that were used longest ago,
//! wakes sessions that went down with their supervisor, and records which sessions are parked.
//!
//! It never decides alone: it asks a session, and a session with work to do stays awake. It looks when something is due and
//! at no other time; between two looks it costs nothing.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use crate::{
    actor::{
        host::Host,
        slot::{Resting, Slept, Slot},
    },
    lock::Lock,
    supervisor::{ChildContext, Happening, Status, SupervisorHandle},
    words::ids::SessionId,
};

/// After this long a session that was asked to sleep and did not is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// The least time between two looks for sessions to evict.
const EVICT_AGAIN: Duration = Duration::from_millis(100);

/// When sessions are put to sleep. A session that is asleep is woken by the next message, within milliseconds.
///
/// Never put to sleep is one that is busy: with an open turn, an open ask, messages that wait, a running worker.
/// An event stream does not keep a session awake; it goes on when the session wakes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Passivation {
    /// How long a session may be idle before it is put to sleep; 15 minutes by default, `None` for ever.
    pub idle_after: Option<Duration>,
    /// How many sessions are awake before those that were used longest ago are put to sleep, down to nine tenths of this;
    /// 5,000 by default. Busy ones may be more.
    pub awake_max: usize,
    /// How many sessions may be awake at all, busy or not; beyond, waking one is refused. 50,000 by default.
    pub awake_limit: usize,
    /// How long a session may be awake before it is put to sleep at the first moment when it is not busy; off by default.
    pub age_max: Option<Duration>,
    /// What asks the host whether memory is short; nothing by default.
    pub pressure: Option<Pressure>,
}

impl Default for Passivation {
    fn default() -> Passivation {
        Passivation {
            idle_after: Some(Duration::from_secs(15 * 60)),
            awake_max: 5_000,
            awake_limit: 50_000,
            age_max: None,
            pressure: None,
        }
    }
}

/// A function of the host that is asked now and then how many of the idle sessions should go to sleep because memory is short.
///
/// It answers from 0.0 (none) to 1.0 (all), must be quick and must not block. A panic in it counts as 0.0.
#[derive(Clone)]
pub struct Pressure {
    every: Duration,
    ask: Arc<dyn Fn() -> f64 + Send + Sync>,
}

impl std::fmt::Debug for Pressure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pressure").field("every", &self.every).finish_non_exhaustive()
    }
}

impl Pressure {
    /// Asked every so often, at most ten times a second.
    pub fn new(every: Duration, ask: impl Fn() -> f64 + Send + Sync + 'static) -> Pressure {
        Pressure { every: every.max(Duration::from_millis(100)), ask: Arc::new(ask) }
    }

    /// When it is asked next; never, where it is asked so seldom that no clock gets there.
    fn next(&self) -> Option<Instant> {
        Instant::now().checked_add(self.every)
    }

    fn share(&self) -> f64 {
        catch_unwind(AssertUnwindSafe(|| (self.ask)())).unwrap_or_else(|_| {
            tracing::warn!("the host's function for memory pressure panicked");
            0.0
        })
    }
}

/// What the timekeeper is told by others, without waiting for it.
pub(crate) struct Keeper {
    passivation: Passivation,
    alarm: Lock<Alarm>,
    news: Notify,
}

#[derive(Default)]
struct Alarm {
    /// When it looks next.
    next: Option<Instant>,
    /// Before this there is no use in looking for sessions to evict.
    no_eviction_before: Option<Instant>,
}

impl Keeper {
    pub(crate) fn new(passivation: Passivation) -> Keeper {
        Keeper { passivation, alarm: Lock::default(), news: Notify::new() }
    }

    /// How many sessions may be awake at all.
    pub(crate) fn awake_limit(&self) -> usize {
        self.passivation.awake_limit
    }

    /// A session became idle.
    pub(crate) fn rests(&self, resting: Resting) {
        if let Some(at) = self.due(resting) {
            self.look_at(at);
        }
    }

    /// One more session wakes up.
    pub(crate) fn one_more(&self, awake: usize) {
        if awake > self.passivation.awake_max {
            let before = self.alarm.lock().no_eviction_before;
            let now = Instant::now();
            self.look_at(before.map_or(now, |before| before.max(now)));
        }
    }

    /// When a resting session is to go to sleep.
    fn due(&self, resting: Resting) -> Option<Instant> {
        // A limit that no clock reaches is none.
        let idle = self.passivation.idle_after.and_then(|limit| resting.since.checked_add(limit));
        let old = self.passivation.age_max.and_then(|limit| resting.born?.checked_add(limit));
        idle.into_iter().chain(old).min()
    }

    fn look_at(&self, at: Instant) {
        let mut alarm = self.alarm.lock();
        if alarm.next.is_none_or(|next| at < next) {
            alarm.next = Some(at);
            drop(alarm);
            self.news.notify_one();
        }
    }
}

/// What the timekeeper does until it is told to stop.
pub(crate) async fn keep_time(host: Arc<Host>, sessions: SupervisorHandle, cx: ChildContext) {
    let mut events = host.registry.watch(None);
    let mut lost = 0;
    note_parked(&host, &sessions).await;
    // What went down while nobody kept the time.
    wake_cut_off(&host);
    let pressure = host.keeper.passivation.pressure.clone();
    let mut ask_pressure = pressure.as_ref().and_then(Pressure::next);
    look(&host);
    loop {
        let next = host.keeper.alarm.lock().next;
        tokio::select! {
            () = cx.stopping() => return,
            () = at(next) => look(&host),
            // The alarm was set to an earlier moment.
            () = host.keeper.news.notified() => {}
            () = at(ask_pressure) => if let Some(pressure) = &pressure {
                ask_pressure = pressure.next();
                relieve(&host, pressure.share());
            },
            Some(event) = events.next() => {
                match event.what {
                    Happening::Parked {} => {
                        let id = event.path.rsplit('/').next().unwrap_or_default();
                        note_one_parked(&host, &sessions, id).await;
                    }
                    // Of any supervisor: where it was not the sessions', nobody was cut off.
                    Happening::Down { .. } => wake_cut_off(&host),
                    _ => {}
                }
                if events.lost() > lost {
                    // What was missed may have been a parking, or the end of the supervisor: both can be looked up.
                    lost = events.lost();
                    note_parked(&host, &sessions).await;
                    wake_cut_off(&host);
                }
            }
        }
    }
}

/// Resolves at that moment; never, where there is none.
async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// Those that rest, the one used longest ago first.
fn resting(host: &Host) -> Vec<(Resting, Arc<Slot>)> {
    let mut resting: Vec<_> =
        host.slots.all_awake().into_iter().filter_map(|slot| Some((slot.resting()?, slot))).collect();
    resting.sort_by_key(|(resting, _)| resting.since);
    resting
}

/// Asks those to sleep for whom it is time, and sets the alarm for the next.
fn look(host: &Host) {
    let (keeper, now) = (&host.keeper, Instant::now());
    // Set first: whoever becomes idle while this looks sets it again.
    keeper.alarm.lock().next = None;
    let (mut asked, mut next) = (0, None::<Instant>);
    let resting = resting(host);
    let awake = host.slots.awake_count();
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

/// Asks that share of those that rest to sleep.
fn relieve(host: &Host, share: f64) {
    if share.is_finite() && share > 0.0 {
        let resting = resting(host);
        // A share of something is at least one.
        let count = (resting.len() as f64 * share.min(1.0)).ceil() as usize;
        put_to_sleep(resting, count);
    }
}

/// Asks those that were used longest ago to sleep until so many are left awake. Gives how many were asked.
pub(crate) fn shed(host: &Host, keep: usize) -> usize {
    put_to_sleep(resting(host), host.slots.awake_count().saturating_sub(keep))
}

/// Asks so many of those to sleep, where there are so many. Gives how many were asked.
fn put_to_sleep(resting: Vec<(Resting, Arc<Slot>)>, count: usize) -> usize {
    resting.into_iter().take(count).map(|(_, slot)| slot.passivate(Slept::default())).count()
}

/// The sessions' supervisor went down: what it had in the middle of something goes on under the next.
fn wake_cut_off(host: &Arc<Host>) {
    for id in host.slots.take_cut_off() {
        host.slots.slot(host, &id).rouse();
    }
}

/// Notes all that are parked.
async fn note_parked(host: &Arc<Host>, sessions: &SupervisorHandle) {
    let children = sessions.which_children().await.unwrap_or_default();
    for child in children.iter().filter(|child| child.status == Status::Parked) {
        note_one_parked(host, sessions, child.id.as_str()).await;
    }
}

/// A parked session answers that it is parked, instead of letting its senders wait; and it is written down, so that the
/// next runtime leaves it alone, too.
async fn note_one_parked(host: &Arc<Host>, sessions: &SupervisorHandle, id: &str) {
    let Ok(session) = id.parse::<SessionId>() else { return };
    if host.slots.why_parked(&session).is_some() {
        return;
    }
    // Read before its supervisor is asked: an incarnation that begins behind the answer was let go meanwhile.
    let incarnation = host.slots.newest_incarnation(&session);
    let child = sessions.which_child(id).await;
    let Some(child) = child.ok().filter(|child| child.status == Status::Parked) else { return };
    let why = child.node.last_exit().map_or_else(|| "by hand".to_owned(), |exit| exit.to_string());
    host.park(&session, incarnation, why).await;
}
