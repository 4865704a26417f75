//! The governor of one provider and key: decides which of the requests that wait may leave, and when.
//!
//! All requests of a runtime that go to one address with one key have one governor, because the provider counts them together. A
//! [`Governor`] is a value without a clock, a task or a lock: the moment is an argument, counted from any fixed start. The shell
//! (`actor/governors.rs`) keeps it, wakes who may leave, and calls [`Governor::grants`] whenever something changed or
//! [`Governor::next`] has come.
//!
//! A request leaves when nothing holds it back:
//!
//! | what | from where | until |
//! |---|---|---|
//! | requests at once | the host ([`RateLimits`]) | one of them ends |
//! | requests and tokens in a minute | the host | no 60 s have more than the limit |
//! | what the provider says is left | the headers of its answers | the reset that they name, or the end of a stillness before it |
//! | unanswered requests | 64 at the start; one more with each head of an answer, one alone after a refusal for load | a head comes |
//! | stillness | the provider's wait (`Retry-After`) | it is over; all requests of the key obey it |
//! | the breaker | ten failures of the server in a row | a single probe was answered |
//!
//! Who waits in vain is told at once: while the breaker is open, and while the provider wants more silence than the 60 s that a
//! session honours, a request is refused with the wait, and its session decides as after any refusal.
//!
//! Turns are taken by tenants, then by the sessions of a tenant; a session's own requests keep their order. A person's work goes
//! before background work, four to one while both wait, and where requests at once are limited background work leaves one place
//! free. So neither starves.
//!
//! A change must keep that each ticket is granted or refused once, and that a ticket given back leaves nothing behind.

mod allowance;
mod minute;
mod queue;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

pub(crate) use self::allowance::{Said, read_headers};
use self::{allowance::Allowance, minute::Minute, queue::Queue};
use serde::Serialize;

use super::{ErrorKind, ModelError, Secret};
use crate::words::is_default;

/// The longest stillness that a waiting request sits out; as long as a session waits for a server.
const SAT_OUT_MAX: Duration = Duration::from_secs(60);

/// The longest stillness. Behind it one request asks the provider anew: an account may have been topped up.
const STILL_MAX: Duration = Duration::from_secs(600);

/// Unanswered requests at the start of a key of which nothing is known.
const WINDOW: u32 = 64;

/// How many failures in a row open the breaker.
const FAILURES_MAX: u32 = 10;

/// How long the breaker stays open at first. Each probe that fails doubles it.
const OPEN_FOR: Duration = Duration::from_secs(5);
const OPEN_MAX: Duration = Duration::from_secs(60);

/// The most that the host lets go to a provider with one key; all of it unlimited by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RateLimits {
    /// Requests at once. 0 counts as 1.
    pub requests: Option<u32>,
    /// Requests in any 60 s; about a twentieth of them within one second. 0 counts as 1.
    pub requests_per_minute: Option<u32>,
    /// Tokens in any 60 s, read and written, by our estimate until the answer tells. A request of more leaves alone.
    pub tokens_per_minute: Option<u64>,
}

impl RateLimits {
    crate::words::setters::setters! {
        /// Limits the [requests at once](#structfield.requests).
        requests: u32 = Some(requests);
        /// Limits the [requests in a minute](#structfield.requests_per_minute).
        requests_per_minute: u32 = Some(requests_per_minute);
        /// Limits the [tokens in a minute](#structfield.tokens_per_minute).
        tokens_per_minute: u64 = Some(tokens_per_minute);
    }
}

/// Under which governor the requests of a model go: that of its provider, address and key, shared by the whole runtime.
///
/// ```
/// use tamtam::model::{GovernedBy, RateLimits, Secret};
///
/// let by = GovernedBy::new("mine", "https://models.example/v1", Some(&Secret::new("sk-1")), RateLimits::default().requests(4));
/// assert!(by.to_string().starts_with("mine-"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GovernedBy {
    /// The provider and 12 digits of a hash of its address and key. Shown to operators; tells nothing of the key.
    name: Arc<str>,
    limits: RateLimits,
}

impl GovernedBy {
    /// The governor of that provider, address and key. The newest limits that were given for it count.
    #[must_use]
    pub fn new(provider: &str, address: &str, key: Option<&Secret>, limits: RateLimits) -> GovernedBy {
        let mut hash = blake3::Hasher::new();
        for part in [provider, address, key.map_or("", Secret::reveal)] {
            hash.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
        }
        GovernedBy { name: format!("{provider}-{}", &hash.finalize().to_hex()[..12]).into(), limits }
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(crate) fn limits(&self) -> RateLimits {
        self.limits
    }
}

impl std::fmt::Display for GovernedBy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

/// A request's place with its governor, from the asking to the end of the answer.
pub(crate) type Ticket = u64;

/// For whom a request is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rank {
    /// A person's turn.
    Person,
    /// A task of another session.
    Background,
}

/// A request that would leave.
#[derive(Clone, Debug)]
pub(crate) struct Asking {
    pub(crate) tenant: Arc<str>,
    pub(crate) session: Arc<str>,
    pub(crate) rank: Rank,
    /// Our estimate of what it reads; 0 where tokens do not count.
    pub(crate) tokens: u64,
}

/// Why a request is not let wait, and for how long nothing will leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    kind: ErrorKind,
    why: String,
    wait: Duration,
}

impl Refusal {
    /// The error of the request, which was not sent and costs nothing.
    pub(crate) fn error(self, name: &str) -> ModelError {
        ModelError::new(self.kind, format!("not sent to {name}: {}", self.why)).with_retry_after(Some(self.wait))
    }
}

/// How a request ended that had left.
#[derive(Clone, Debug)]
pub(crate) enum Ended<'a> {
    /// With an answer, and what it used in tokens.
    Answered(u64),
    Failed(&'a ModelError),
    /// Nobody waited for it any more.
    Dropped,
}

/// A request on its way.
#[derive(Debug)]
struct Flight {
    left_at: Duration,
    /// Its place in the order of leaving.
    order: u64,
    tokens: u64,
    rank: Rank,
    is_answered: bool,
}

/// What holds a request back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    No,
    /// Time alone frees it.
    Until(Duration),
    /// Another request must end, or be answered, first.
    ByOthers,
}

/// Stops what a failing server would only be sent in vain.
#[derive(Debug, Default)]
struct Breaker {
    /// Failures since the last sign of a working server.
    failures: u32,
    /// How often it opened since.
    opened: u32,
    /// `None` while it is closed. Behind that moment one probe may leave.
    until: Option<Duration>,
    probe: Option<Ticket>,
    why: &'static str,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Governor {
    limits: RateLimits,
    queue: Queue,
    /// What is known of those that wait.
    asked: BTreeMap<Ticket, Asking>,
    flights: BTreeMap<Ticket, Flight>,
    unanswered: u32,
    window: u32,
    minute: Minute,
    requests_left: Allowance,
    tokens_left: Allowance,
    still_until: Duration,
    breaker: Breaker,
    next_ticket: Ticket,
    departures: u64,
}

impl Governor {
    pub(crate) fn new(limits: RateLimits) -> Governor {
        Governor {
            limits,
            queue: Queue::default(),
            asked: BTreeMap::new(),
            flights: BTreeMap::new(),
            unanswered: 0,
            window: WINDOW,
            minute: Minute::default(),
            requests_left: Allowance::default(),
            tokens_left: Allowance::default(),
            still_until: Duration::ZERO,
            breaker: Breaker::default(),
            next_ticket: 0,
            departures: 0,
        }
    }

    pub(crate) fn set_limits(&mut self, limits: RateLimits) {
        self.limits = limits;
    }

    /// Forgets what it has learned of the provider: stillness, breaker, what is left. Who waits goes on waiting.
    pub(crate) fn forget(&mut self) {
        (self.window, self.still_until, self.breaker) = (WINDOW, Duration::ZERO, Breaker::default());
        (self.requests_left, self.tokens_left) = (Allowance::default(), Allowance::default());
    }

    /// Puts a request into the queue. [`Governor::grants`] says when it may leave: mostly at once. Also returns how many of its rank
    /// and above wait before it.
    pub(crate) fn ask(&mut self, asking: Asking) -> (Ticket, usize) {
        self.next_ticket += 1;
        let (ticket, rank) = (self.next_ticket, asking.rank);
        let before = self.queue.waiting(rank);
        self.queue.push(ticket, &asking);
        self.asked.insert(ticket, asking);
        (ticket, before)
    }

    /// Takes a request out of the queue, or ends one that was granted.
    pub(crate) fn give_up(&mut self, now: Duration, ticket: Ticket) {
        match self.asked.remove(&ticket) {
            Some(asking) => self.queue.remove(ticket, &asking),
            None => self.ended(now, ticket, &Ended::Dropped),
        }
    }

    /// Who may leave now, in order, and who is refused. Each ticket is named once.
    pub(crate) fn grants(&mut self, now: Duration) -> Vec<(Ticket, Result<(), Refusal>)> {
        let mut told = Vec::new();
        if let Some(refusal) = self.refusal(now) {
            self.queue = Queue::default();
            told.extend(std::mem::take(&mut self.asked).into_keys().map(|ticket| (ticket, Err(refusal.clone()))));
            return told;
        }
        self.requests_left.refresh(now);
        self.tokens_left.refresh(now);
        while let Some((ticket, rank)) = self.queue.head(self.background_may()) {
            let Some(asking) = self.asked.get(&ticket) else { break };
            if self.held(now, asking) != Held::No {
                break;
            }
            let tokens = asking.tokens;
            self.queue.take(rank);
            self.asked.remove(&ticket);
            self.leave(now, ticket, rank, tokens);
            told.push((ticket, Ok(())));
        }
        told
    }

    /// When time alone will let somebody leave; `None` if nobody waits, or only for others.
    pub(crate) fn next(&self, now: Duration) -> Option<Duration> {
        let (ticket, _) = self.queue.head(self.background_may())?;
        match self.held(now, self.asked.get(&ticket)?) {
            Held::Until(at) => Some(at),
            Held::No => Some(now),
            Held::ByOthers => None,
        }
    }

    /// The head of a request's answer has come: whether it begins an answer, and its headers.
    pub(crate) fn head(&mut self, now: Duration, ticket: Ticket, is_good: bool, [requests, tokens]: [Said; 2]) {
        let Some(flight) = self.flights.get_mut(&ticket) else { return };
        if !std::mem::replace(&mut flight.is_answered, true) {
            self.unanswered -= 1;
        }
        if is_good {
            self.window = self.window.saturating_add(1);
            self.breaker = Breaker::default();
        }
        // Those that left later may not have been counted when the head was made.
        let order = flight.order;
        let later = self.flights.values().filter(|flight| flight.order > order && !flight.is_answered);
        let later = later.fold((0, 0), |(requests, tokens), flight| (requests + 1, tokens + flight.tokens));
        self.requests_left.learn(now, order, requests, later.0);
        self.tokens_left.learn(now, order, tokens, later.1);
    }

    /// A request that had left is over. A second call changes nothing.
    pub(crate) fn ended(&mut self, now: Duration, ticket: Ticket, how: &Ended<'_>) {
        let Some(flight) = self.flights.remove(&ticket) else { return };
        if !flight.is_answered {
            self.unanswered -= 1;
        }
        let was_probe = self.breaker.probe.take_if(|probe| *probe == ticket).is_some();
        match how {
            Ended::Dropped => {}
            Ended::Answered(tokens) => {
                if !flight.is_answered {
                    self.window = self.window.saturating_add(1);
                }
                self.minute.correct(flight.left_at, flight.tokens, *tokens);
                self.breaker = Breaker::default();
            }
            Ended::Failed(error) => self.failed(now, error, was_probe),
        }
    }

    fn failed(&mut self, now: Duration, error: &ModelError, was_probe: bool) {
        if let Some(wait) = error.server_wait() {
            self.still_until = self.still_until.max(now + wait.min(STILL_MAX));
            self.requests_left.ask_at(self.still_until);
            self.tokens_left.ask_at(self.still_until);
        }
        if matches!(error.kind, ErrorKind::RateLimited | ErrorKind::Overloaded) {
            self.window = 1;
        }
        let is_of_server =
            matches!(error.kind, ErrorKind::Network | ErrorKind::Server | ErrorKind::Timeout | ErrorKind::Overloaded);
        if !is_of_server {
            // It answers.
            self.breaker = Breaker::default();
            return;
        }
        let breaker = &mut self.breaker;
        breaker.failures = breaker.failures.saturating_add(1);
        let opens = if breaker.until.is_some() { was_probe } else { breaker.failures >= FAILURES_MAX };
        if opens {
            let open_for = OPEN_FOR.saturating_mul(1 << breaker.opened.min(8)).min(OPEN_MAX);
            (breaker.until, breaker.opened) = (Some(now + open_for), breaker.opened.saturating_add(1));
            // Never the server's words: they are of one session's request, and go to all sessions with the key.
            breaker.why = match error.kind {
                ErrorKind::Network => "no connection",
                ErrorKind::Timeout => "no answer in time",
                ErrorKind::Overloaded => "overloaded",
                _ => "errors of the server",
            };
            self.window = 1;
        }
    }

    /// Why nobody may wait now.
    fn refusal(&self, now: Duration) -> Option<Refusal> {
        let breaker = &self.breaker;
        if let Some(wait) = breaker.until.and_then(|until| until.checked_sub(now)).filter(|wait| !wait.is_zero()) {
            let (failures, seconds) = (breaker.failures, wait.as_secs_f32().ceil());
            let why = format!("it failed {failures} times in a row ({}); the next try is in {seconds} s", breaker.why);
            return Some(Refusal { kind: ErrorKind::Server, why, wait });
        }
        let wait = self.still_until.saturating_sub(now);
        (wait > SAT_OUT_MAX).then(|| {
            let why = "another request with this key was told to wait".to_owned();
            Refusal { kind: ErrorKind::RateLimited, why, wait }
        })
    }

    /// Whether background work may leave: where few may be at work at once, one place is a person's.
    fn background_may(&self) -> bool {
        let Some(max) = self.limits.requests.filter(|max| *max >= 2) else { return true };
        let at_work = self.flights.values().filter(|flight| flight.rank == Rank::Background).count();
        at_work < max as usize - 1
    }

    fn held(&self, now: Duration, asking: &Asking) -> Held {
        if self.limits.requests.is_some_and(|max| self.flights.len() >= max.max(1) as usize)
            || self.unanswered >= self.window
            || self.breaker.probe.is_some()
        {
            return Held::ByOthers;
        }
        let alone = self.flights.is_empty();
        let mut until = self.still_until.max(self.minute.free_at(now, &self.limits, asking.tokens));
        for left in [self.requests_left.free(1, alone), self.tokens_left.free(asking.tokens, alone)] {
            match left {
                Held::No => {}
                Held::Until(at) => until = until.max(at),
                Held::ByOthers => return Held::ByOthers,
            }
        }
        if until > now { Held::Until(until) } else { Held::No }
    }

    fn leave(&mut self, now: Duration, ticket: Ticket, rank: Rank, tokens: u64) {
        self.departures += 1;
        self.unanswered += 1;
        self.minute.take(now, tokens);
        self.requests_left.take(1);
        self.tokens_left.take(tokens);
        if self.breaker.until.is_some() {
            self.breaker.probe = Some(ticket);
        }
        let flight = Flight { left_at: now, order: self.departures, tokens, rank, is_answered: false };
        self.flights.insert(ticket, flight);
    }

    /// What operators see of it.
    pub(crate) fn figures(&self, now: Duration) -> Figures {
        let ms = |at: Duration| u64::try_from(at.saturating_sub(now).as_millis()).unwrap_or(u64::MAX);
        let breaker = match (self.breaker.until, self.breaker.probe) {
            (None, _) => "closed",
            (Some(until), _) if until > now => "open",
            (Some(_), _) => "probing",
        };
        Figures {
            in_flight: self.flights.len(),
            waiting: self.asked.len(),
            waiting_background: self.asked.len() - self.queue.waiting(Rank::Person),
            requests_max: self.limits.requests,
            requests_per_minute_max: self.limits.requests_per_minute,
            tokens_per_minute_max: self.limits.tokens_per_minute,
            unanswered_max: self.window,
            requests_left: self.requests_left.left(),
            tokens_left: self.tokens_left.left(),
            still_ms: ms(self.still_until),
            breaker,
            next_try_ms: self.breaker.until.map_or(0, ms),
        }
    }
}

/// What operators see of a governor; the fields that it adds to the JSON of its node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Figures {
    pub(crate) in_flight: usize,
    pub(crate) waiting: usize,
    /// Those of them that are background work.
    pub(crate) waiting_background: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) requests_max: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) requests_per_minute_max: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tokens_per_minute_max: Option<u64>,
    /// The most requests without the head of an answer.
    pub(crate) unanswered_max: u32,
    /// What the provider says is left, less what has left since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) requests_left: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tokens_left: Option<u64>,
    /// For how long the provider wants silence.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) still_ms: u64,
    /// `closed`, `open` or `probing`.
    pub(crate) breaker: &'static str,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) next_try_ms: u64,
}

impl Figures {
    /// The same in a few words.
    pub(crate) fn facts(&self) -> Vec<String> {
        let mut facts = vec![format!("in flight {}", self.in_flight)];
        if self.waiting > 0 {
            facts.push(format!("waiting {}", self.waiting));
        }
        if self.waiting_background > 0 {
            facts.push(format!("of them background {}", self.waiting_background));
        }
        let known = [
            ("at once", self.requests_max.map(u64::from)),
            ("a minute", self.requests_per_minute_max.map(u64::from)),
            ("tokens a minute", self.tokens_per_minute_max),
            ("requests left", self.requests_left),
            ("tokens left", self.tokens_left),
        ];
        facts.extend(known.into_iter().filter_map(|(what, number)| Some(format!("{what} {}", number?))));
        if self.still_ms > 0 {
            facts.push(format!("still for {} s", self.still_ms.div_ceil(1_000)));
        }
        match self.breaker {
            "closed" => {}
            "open" => facts.push(format!("breaker open, next try in {} s", self.next_try_ms.div_ceil(1_000))),
            state => facts.push(format!("breaker {state}")),
        }
        facts
    }
}

#[cfg(test)]
mod tests;
