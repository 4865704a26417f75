#![allow(clippy::unwrap_used, clippy::panic, clippy::cast_precision_loss)]

use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn asking(tenant: &str, session: &str, rank: Rank) -> Asking {
    Asking { tenant: tenant.into(), session: session.into(), rank, tokens: 0 }
}

fn person(session: &str) -> Asking {
    asking("", session, Rank::Person)
}

fn error(kind: ErrorKind, wait: Option<Duration>) -> ModelError {
    ModelError::new(kind, "it failed").with_retry_after(wait)
}

/// The tickets that may leave now. None is refused.
fn gone(governor: &mut Governor, now: Duration) -> Vec<Ticket> {
    let told = governor.grants(now).into_iter();
    told.map(|(ticket, told)| told.map(|()| ticket).unwrap()).collect()
}

fn limited(requests: u32) -> Governor {
    Governor::new(RateLimits::default().requests(requests))
}

/// Who leaves, one at a time, while all of them wait.
fn order(asked: &[Asking]) -> Vec<usize> {
    let mut governor = limited(1);
    let tickets: Vec<_> = asked.iter().map(|asking| governor.ask(asking.clone()).0).collect();
    let mut order = Vec::new();
    while let [ticket] = gone(&mut governor, Duration::ZERO)[..] {
        order.push(tickets.iter().position(|known| *known == ticket).unwrap());
        governor.ended(Duration::ZERO, ticket, &Ended::Answered(0));
    }
    assert!(governor.queue.is_bare());
    order
}

fn jain(served: impl Iterator<Item = u64> + Clone) -> f64 {
    let (n, sum) = (served.clone().count() as f64, served.clone().sum::<u64>() as f64);
    sum * sum / (n * served.map(|x| (x * x) as f64).sum::<f64>())
}

/// A tenant with many sessions has no more turns than one with a single one, and a session's requests keep their order.
#[test]
fn tenants_take_turns_and_then_their_sessions() {
    let of = |tenant, session| asking(tenant, session, Rank::Person);
    let asked = [of("a", "1"), of("a", "1"), of("a", "2"), of("a", "3"), of("b", "4"), of("b", "4"), of("c", "5")];
    assert_eq!(order(&asked), [0, 4, 6, 2, 5, 3, 1]);
}

/// Four persons, one of the background, and again, whatever the tenants; alone each has all turns.
#[test]
fn persons_go_before_background_work_and_neither_starves() {
    let asked: Vec<_> = (0..16)
        .map(|n| match n % 2 {
            0 => asking("background", &n.to_string(), Rank::Background),
            _ => asking("persons", &n.to_string(), Rank::Person),
        })
        .collect();
    assert_eq!(order(&asked), [1, 3, 5, 7, 0, 9, 11, 13, 15, 2, 4, 6, 8, 10, 12, 14]);
}

/// However long background work takes, a person finds a place.
#[test]
fn background_work_leaves_one_place_for_a_person() {
    let mut governor = limited(3);
    for n in 0..9 {
        governor.ask(asking("", &n.to_string(), Rank::Background));
    }
    assert_eq!(gone(&mut governor, Duration::ZERO).len(), 2);
    let (ticket, before) = governor.ask(person("p"));
    assert_eq!((gone(&mut governor, Duration::ZERO), before), (vec![ticket], 0));
    governor.ask(person("p"));
    assert!(gone(&mut governor, Duration::ZERO).is_empty());
}

/// No 60 s have more than the limit, none more than its share of a second; nothing is held back that could go.
#[test]
fn a_minute_has_no_more_than_the_limit() {
    let mut governor = Governor::new(RateLimits::default().requests_per_minute(60));
    let mut left = Vec::new();
    let mut now = Duration::from_millis(500);
    for n in 0..200 {
        governor.ask(person(&n.to_string()));
    }
    while left.len() < 200 {
        for ticket in gone(&mut governor, now) {
            governor.ended(now, ticket, &Ended::Answered(9));
            left.push(now);
        }
        now = governor.next(now).unwrap_or(now);
    }
    for (n, start) in left.iter().enumerate() {
        let within = |length| left[n..].iter().filter(|at| **at < *start + length).count();
        assert!(within(60 * SECOND) <= 60 && within(SECOND) <= 6, "{start:?}");
    }
    assert!(left[199] < 195 * SECOND, "{:?}", left[199]);
}

/// Tokens are estimated first and counted as used; a request of more than the limit leaves alone.
#[test]
fn tokens_of_a_minute_are_those_that_were_used() {
    let mut governor = Governor::new(RateLimits::default().tokens_per_minute(1_000));
    let ask = |governor: &mut Governor, tokens| governor.ask(Asking { tokens, ..person("s") }).0;
    let first = ask(&mut governor, 600);
    let second = ask(&mut governor, 600);
    assert_eq!(gone(&mut governor, SECOND), [first]);
    governor.ended(SECOND, first, &Ended::Answered(400));
    assert_eq!(gone(&mut governor, SECOND), [second]);
    governor.ended(SECOND, second, &Ended::Answered(600));
    let large = ask(&mut governor, 5_000);
    assert_eq!((gone(&mut governor, SECOND), governor.next(SECOND)), (vec![], Some(62 * SECOND)));
    assert_eq!(gone(&mut governor, 62 * SECOND), [large]);
}

/// One wait stills all of the key, up to a minute; a longer one is the error of each, and ends in ten minutes at the latest.
#[test]
fn a_wait_of_the_provider_stills_all() {
    let mut governor = limited(99);
    let first = governor.ask(person("1")).0;
    assert_eq!(gone(&mut governor, SECOND), [first]);
    let limited = error(ErrorKind::RateLimited, Some(20 * SECOND));
    governor.ended(SECOND, first, &Ended::Failed(&limited));
    let others: Vec<_> = (0..9).map(|n| governor.ask(person(&n.to_string())).0).collect();
    assert_eq!((gone(&mut governor, 20 * SECOND), governor.next(2 * SECOND)), (vec![], Some(21 * SECOND)));
    // One goes first, and then twice as many with each answer.
    assert_eq!(gone(&mut governor, 21 * SECOND), others[..1]);
    governor.head(21 * SECOND, others[0], true, Default::default());
    assert_eq!(gone(&mut governor, 21 * SECOND), others[1..3]);
    let day = error(ErrorKind::RateLimited, Some(86_400 * SECOND));
    governor.ended(30 * SECOND, others[1], &Ended::Failed(&day));
    let told = governor.grants(31 * SECOND);
    let told: Vec<_> = told.into_iter().map(|(_, told)| told.unwrap_err().error("p-1")).collect();
    assert_eq!((told.len(), told[0].kind, told[0].retry_after_ms), (6, ErrorKind::RateLimited, Some(599_000)));
    assert!(governor.queue.is_bare() && governor.asked.is_empty());
    let late = governor.ask(person("late")).0;
    assert!(governor.grants(570 * SECOND).is_empty(), "the last minute is sat out");
    for ticket in &others[..3] {
        governor.ended(580 * SECOND, *ticket, &Ended::Dropped);
    }
    assert_eq!(gone(&mut governor, 630 * SECOND), [late]);
}

/// Ten failures in a row open the breaker; then one probe at a time, and a success closes it.
#[test]
fn the_breaker_opens_and_lets_single_probes_go() {
    let mut governor = Governor::new(RateLimits::default());
    let broken = error(ErrorKind::Network, None);
    let fail = |governor: &mut Governor, now| {
        let ticket = governor.ask(person("s")).0;
        assert_eq!(gone(governor, now), [ticket]);
        governor.ended(now, ticket, &Ended::Failed(&broken));
    };
    for _ in 0..9 {
        fail(&mut governor, SECOND);
    }
    assert_eq!(governor.figures(SECOND).breaker, "closed");
    fail(&mut governor, SECOND);
    governor.ask(person("a"));
    let refused = governor.grants(2 * SECOND).remove(0).1.unwrap_err().error("p-1");
    assert_eq!((refused.kind, refused.retry_after_ms), (ErrorKind::Server, Some(4_000)));
    assert_eq!(refused.message, "not sent to p-1: it failed 10 times in a row (no connection); the next try is in 4 s");
    assert!(!refused.was_read());
    let [probe, next] = ["a", "b"].map(|session| governor.ask(person(session)).0);
    assert_eq!((gone(&mut governor, 6 * SECOND), governor.next(6 * SECOND)), (vec![probe], None));
    assert_eq!(governor.figures(6 * SECOND).breaker, "probing");
    // A probe that nobody waits for any more gives its place to the next.
    governor.give_up(6 * SECOND, probe);
    assert_eq!(gone(&mut governor, 6 * SECOND), [next]);
    governor.ended(6 * SECOND, next, &Ended::Failed(&broken));
    assert_eq!(governor.figures(6 * SECOND).next_try_ms, 10_000, "each failed probe doubles the wait");
    let probe = governor.ask(person("a")).0;
    assert_eq!(gone(&mut governor, 16 * SECOND), [probe]);
    governor.head(16 * SECOND, probe, true, Default::default());
    assert_eq!(governor.figures(16 * SECOND).breaker, "closed");
    let more = ["c", "d"].map(|session| governor.ask(person(session)).0);
    assert_eq!(gone(&mut governor, 16 * SECOND), more);
}

/// What a server refuses for other reasons shows that it works.
#[test]
fn a_refusal_that_is_no_failure_of_the_server_keeps_the_breaker_closed() {
    let mut governor = Governor::new(RateLimits::default());
    for n in 0..30 {
        let ticket = governor.ask(person("s")).0;
        assert_eq!(gone(&mut governor, SECOND), [ticket]);
        let kind = if n % 9 == 8 { ErrorKind::Auth } else { ErrorKind::Server };
        governor.ended(SECOND, ticket, &Ended::Failed(&error(kind, None)));
    }
    assert_eq!(governor.figures(SECOND).breaker, "closed");
}

fn said(left: u64, limit: u64, reset: u32) -> [Said; 2] {
    let said = Said { left: Some(left), limit: Some(limit), reset: Some(reset * SECOND) };
    [said, Said::default()]
}

/// What left after the request that is answered may not be counted in its headers; an older answer changes nothing.
#[test]
fn what_the_headers_leave_is_kept_to() {
    let mut governor = Governor::new(RateLimits::default());
    let tickets: Vec<_> = (0..4).map(|n| governor.ask(person(&n.to_string())).0).collect();
    assert_eq!(gone(&mut governor, SECOND), tickets);
    governor.head(SECOND, tickets[1], true, said(3, 10, 30));
    assert_eq!(governor.figures(SECOND).requests_left, Some(1));
    governor.head(SECOND, tickets[0], true, said(9, 10, 30));
    let [may, must_wait] = ["a", "b"].map(|session| governor.ask(person(session)).0);
    assert_eq!((gone(&mut governor, SECOND), governor.next(SECOND)), (vec![may], Some(31 * SECOND)));
    assert_eq!(gone(&mut governor, 31 * SECOND), [must_wait]);
    assert_eq!(governor.figures(31 * SECOND).requests_left, Some(9), "at the reset the limit is whole");
}

/// A limit of a day that is used up, or a server that names another moment: after a minute one request asks, alone.
#[test]
fn a_far_reset_holds_nobody_for_hours() {
    let mut governor = Governor::new(RateLimits::default());
    let first = governor.ask(person("s")).0;
    assert_eq!(gone(&mut governor, SECOND), [first]);
    governor.head(SECOND, first, true, said(0, 10, 86_400));
    governor.ended(SECOND, first, &Ended::Answered(9));
    let [asks, waits] = ["a", "b"].map(|session| governor.ask(person(session)).0);
    assert_eq!((gone(&mut governor, SECOND), governor.next(SECOND)), (vec![], Some(61 * SECOND)));
    assert_eq!(gone(&mut governor, 61 * SECOND), [asks]);
    governor.head(62 * SECOND, asks, true, said(5, 10, 86_400));
    assert_eq!(gone(&mut governor, 62 * SECOND), [waits]);
}

/// A refusal that says when to ask again is taken at its word, though the limit is whole much later: then one request asks, alone.
#[test]
fn a_wait_before_the_reset_ends_at_the_wait() {
    let mut governor = Governor::new(RateLimits::default());
    let first = governor.ask(person("s")).0;
    assert_eq!(gone(&mut governor, SECOND), [first]);
    governor.head(SECOND, first, false, said(0, 10, 360));
    governor.ended(SECOND, first, &Ended::Failed(&error(ErrorKind::RateLimited, Some(SECOND))));
    let [asks, waits] = ["a", "b"].map(|session| governor.ask(person(session)).0);
    assert_eq!((gone(&mut governor, SECOND), governor.next(SECOND)), (vec![], Some(2 * SECOND)));
    assert_eq!((gone(&mut governor, 2 * SECOND), governor.next(2 * SECOND)), (vec![asks], None));
    governor.head(3 * SECOND, asks, true, said(5, 10, 360));
    assert_eq!(gone(&mut governor, 3 * SECOND), [waits]);
}

/// Tokens that the provider says are left go down with each request, by its estimate.
#[test]
fn what_the_headers_leave_of_tokens_goes_down_with_each_request() {
    let mut governor = Governor::new(RateLimits::default());
    let first = governor.ask(person("s")).0;
    assert_eq!(gone(&mut governor, SECOND), [first]);
    let [tokens, requests] = said(100, 100, 30);
    governor.head(SECOND, first, true, [requests, tokens]);
    let [may, must_wait] = ["a", "b"].map(|session| governor.ask(Asking { tokens: 60, ..person(session) }).0);
    assert_eq!((gone(&mut governor, SECOND), governor.next(SECOND)), (vec![may], Some(31 * SECOND)));
    assert_eq!(gone(&mut governor, 31 * SECOND), [must_wait]);
}

/// Requests that were under way when the breaker opened fail later, and change nothing about its next try.
#[test]
fn a_late_failure_moves_no_open_breaker() {
    let mut governor = Governor::new(RateLimits::default());
    let tickets: Vec<_> = (0..11).map(|n| governor.ask(person(&n.to_string())).0).collect();
    assert_eq!(gone(&mut governor, SECOND), tickets);
    for (ticket, at) in tickets.iter().zip([1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3]) {
        governor.ended(at * SECOND, *ticket, &Ended::Failed(&error(ErrorKind::Network, None)));
    }
    assert_eq!(governor.figures(3 * SECOND).next_try_ms, 3_000);
}

/// The headers as OpenAI, Anthropic and servers in their place write them.
#[cfg(feature = "http")]
#[test]
fn headers_are_read_in_each_of_their_forms() {
    let at = std::time::SystemTime::UNIX_EPOCH + 1_700_000_000 * SECOND;
    let read = |headers: &[(&str, &str)]| {
        let header = |name: &str| Some(headers.iter().find(|(known, _)| *known == name)?.1.to_owned());
        read_headers(&header, at)
    };
    let openai = |reset| {
        let all = [("remaining", "5"), ("limit", "60"), ("reset", reset)];
        let all = all.map(|(what, text)| (format!("x-ratelimit-{what}-tokens"), text));
        read(&all.each_ref().map(|(name, text)| (name.as_str(), *text)))
    };
    let of = |reset| [Said::default(), Said { left: Some(5), limit: Some(60), reset }];
    for (text, reset) in [("6m0s", 360_000), ("20ms", 20), ("1.5s", 1_500), ("1h2m3s", 3_723_000), ("7", 7_000)] {
        assert_eq!(openai(text), of(Some(Duration::from_millis(reset))), "{text}");
    }
    assert_eq!(openai("soon"), of(None));
    let anthropic = read(&[
        ("anthropic-ratelimit-requests-remaining", "0"),
        ("anthropic-ratelimit-requests-limit", "50"),
        ("anthropic-ratelimit-requests-reset", "2023-11-14T22:13:30Z"),
    ]);
    assert_eq!(anthropic, [Said { left: Some(0), limit: Some(50), reset: Some(10 * SECOND) }, Said::default()]);
    assert_eq!(read(&[("x-ratelimit-remaining-requests", "-1")]), [Said::default(); 2]);
}

/// The name tells keys, addresses and providers apart, and no key.
#[test]
fn the_name_of_a_governor_tells_no_key() {
    let name = |provider, address, key| {
        let key = Secret::new(key);
        GovernedBy::new(provider, address, Some(&key), RateLimits::default()).to_string()
    };
    let names = [
        name("p", "http://a", "sk-CANARY"),
        name("p", "http://a", "sk-CANARY2"),
        name("p", "http://as", "k-CANARY"),
        name("q", "http://a", "sk-CANARY"),
    ];
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 4);
    assert!(names.iter().all(|name| !name.contains("CANARY") && name.len() == 14), "{names:?}");
    assert_eq!(names[0], name("p", "http://a", "sk-CANARY"));
}

/// An operator's restart forgets what was learned, and nobody who waits.
#[test]
fn what_was_learned_can_be_forgotten() {
    let mut governor = Governor::new(RateLimits::default());
    let first = governor.ask(person("a")).0;
    assert_eq!(gone(&mut governor, SECOND), [first]);
    governor.head(SECOND, first, false, said(0, 1, 3_000));
    governor.ended(SECOND, first, &Ended::Failed(&error(ErrorKind::RateLimited, Some(50 * SECOND))));
    let waits = governor.ask(person("b")).0;
    assert!(gone(&mut governor, SECOND).is_empty());
    governor.forget();
    assert_eq!(gone(&mut governor, SECOND), [waits]);
}

// ── a strict server, in virtual time ──

/// A server that counts every request of the last 60 s, and refuses the one that is too many.
struct Strict {
    per_minute: usize,
    taken: Vec<Duration>,
    /// Whether its answers tell what is left.
    tells: bool,
}

impl Strict {
    fn left(&self, now: Duration) -> usize {
        let recent = self.taken.iter().rev().take_while(|at| **at + 60 * SECOND > now).count();
        self.per_minute - recent
    }

    fn asked(&mut self, now: Duration) -> (bool, [Said; 2]) {
        let has_room = self.left(now) > 0;
        if has_room {
            self.taken.push(now);
        }
        let left = self.left(now) as u64;
        let reset = *self.taken.last().unwrap() + 60 * SECOND - now;
        let said = Said { left: Some(left), limit: Some(self.per_minute as u64), reset: Some(reset) };
        (has_room, if self.tells { [said, Said::default()] } else { Default::default() })
    }
}

/// What became of the sessions that ask a strict server all the time.
struct Played {
    served: BTreeMap<usize, u64>,
    refused: usize,
    asked: usize,
}

/// Plays sessions that ask again as soon as they were answered, 2 s after they left.
fn play(limits: RateLimits, mut server: Strict, sessions: &[Asking], minutes: u32) -> Played {
    use std::cmp::Reverse;
    let mut governor = Governor::new(limits);
    let (mut whose, mut arrivals) = (BTreeMap::new(), BinaryHeap::new());
    let mut played = Played { served: (0..sessions.len()).map(|n| (n, 0)).collect(), refused: 0, asked: 0 };
    for (n, asking) in sessions.iter().enumerate() {
        whose.insert(governor.ask(asking.clone()).0, n);
    }
    let (mut now, end) = (SECOND, minutes * 60 * SECOND);
    while now < end {
        for ticket in gone(&mut governor, now) {
            // The first half of the time it is on its way to the server.
            arrivals.push(Reverse((now + SECOND, ticket, false)));
        }
        let next_event = arrivals.peek().map(|Reverse((at, ..))| *at);
        let next = [governor.next(now), next_event].into_iter().flatten().min().expect("somebody always waits");
        now = now.max(next);
        while arrivals.peek().is_some_and(|Reverse((at, ..))| *at <= now) {
            let Reverse((_, ticket, is_answered)) = arrivals.pop().unwrap();
            let n = whose[&ticket];
            if is_answered {
                whose.remove(&ticket);
                governor.ended(now, ticket, &Ended::Answered(0));
                *played.served.get_mut(&n).unwrap() += 1;
            } else {
                played.asked += 1;
                let (is_taken, said) = server.asked(now);
                governor.head(now, ticket, is_taken, said);
                if is_taken {
                    arrivals.push(Reverse((now + SECOND, ticket, true)));
                    continue;
                }
                played.refused += 1;
                whose.remove(&ticket);
                governor.ended(now, ticket, &Ended::Failed(&error(ErrorKind::RateLimited, Some(5 * SECOND))));
            }
            whose.insert(governor.ask(sessions[n].clone()).0, n);
        }
    }
    played
}

/// 1,000 sessions on a server limited to 60 requests a minute: at most 1 % is refused, and all get the same, whether the host has
/// said the limit or the server's headers tell what is left.
#[test]
fn a_thousand_sessions_share_a_strict_server() {
    let sessions: Vec<_> = (0..1_000).map(|n| asking(&format!("t{}", n % 10), &n.to_string(), Rank::Person)).collect();
    for (limits, tells) in [(RateLimits::default().requests_per_minute(60), false), (RateLimits::default(), true)] {
        let server = Strict { per_minute: 60, taken: Vec::new(), tells };
        let played = play(limits, server, &sessions, 170);
        let fairness = jain(played.served.values().copied());
        let served: u64 = played.served.values().sum();
        assert!(fairness >= 0.95, "tells {tells}: {fairness}");
        assert!(served >= 9_000, "tells {tells}: {served} of 10,200 were served");
        assert!(played.refused * 100 <= played.asked, "tells {tells}: {} of {} refused", played.refused, played.asked);
    }
}

/// A background tenant of a thousand sessions takes a fifth of the requests from sixty persons, and no more.
#[test]
fn a_background_tenant_starves_no_person() {
    let background = (0..1_000).map(|n| asking("flood", &n.to_string(), Rank::Background));
    let persons = (0..60).map(|n| asking("persons", &format!("p{n}"), Rank::Person));
    let sessions: Vec<_> = background.chain(persons).collect();
    let server = Strict { per_minute: 60, taken: Vec::new(), tells: false };
    let played = play(RateLimits::default().requests_per_minute(60), server, &sessions, 60);
    let of = |range: std::ops::Range<usize>| range.map(|n| played.served[&n]).sum::<u64>();
    let (flood, persons) = (of(0..1_000), of(1_000..1_060));
    let share = persons as f64 / (flood + persons) as f64;
    assert!((0.75..=0.85).contains(&share), "{persons} of {}", flood + persons);
}

// ── whatever happens ──

#[derive(Clone, Debug)]
enum Act {
    Ask { tenant: u8, session: u8, background: bool, tokens: u64 },
    GiveUp(usize),
    Head(usize, Option<(u64, u32)>),
    End(usize, Option<(ErrorKind, Option<u32>)>),
    Pass(u32),
    Forget,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let kinds = prop::sample::select(vec![
        ErrorKind::RateLimited,
        ErrorKind::Overloaded,
        ErrorKind::Network,
        ErrorKind::Server,
        ErrorKind::Auth,
    ]);
    let failure = prop::option::of((kinds, prop::option::of(0_u32..100)));
    let act = prop_oneof![
        6 => (0..3_u8, 0..3_u8, any::<bool>(), 0..500_u64).prop_map(|(tenant, session, background, tokens)| {
            Act::Ask { tenant, session, background, tokens }
        }),
        2 => any::<usize>().prop_map(Act::GiveUp),
        3 => (any::<usize>(), prop::option::of((0..5_u64, 0..50_u32))).prop_map(|(n, said)| Act::Head(n, said)),
        4 => (any::<usize>(), failure).prop_map(|(n, failure)| Act::End(n, failure)),
        3 => (0..90_u32).prop_map(Act::Pass),
        1 => Just(Act::Forget),
    ];
    prop::collection::vec(act, 1..120)
}

proptest! {
    /// No permit is lost and none is given twice, those of a session keep their order, no more are under way than may be, and who
    /// gives up leaves nothing behind; once all have time, all have left.
    #[test]
    fn each_ticket_is_told_once_and_nobody_is_forgotten(acts in acts()) {
        let limits = RateLimits::default().requests(3).requests_per_minute(20).tokens_per_minute(900);
        let mut governor = Governor::new(limits);
        let (mut now, mut waiting, mut flying) = (SECOND, BTreeMap::new(), BTreeSet::new());
        let told = |governor: &mut Governor, now, waiting: &mut BTreeMap<Ticket, _>, flying: &mut BTreeSet<_>| {
            for (ticket, told) in governor.grants(now) {
                let flow: &(u8, u8, bool) = &waiting.remove(&ticket).expect("it is told once, and waited");
                let earlier = waiting.iter().any(|(other, known)| *other < ticket && known == flow);
                assert!(!earlier || told.is_err(), "a later request of the session went first");
                if told.is_ok() {
                    assert!(flying.insert(ticket));
                }
            }
            assert!(flying.len() <= 3);
            assert_eq!((governor.asked.len(), governor.flights.len()), (waiting.len(), flying.len()));
            assert_eq!(governor.unanswered as usize, governor.flights.values().filter(|of| !of.is_answered).count());
        };
        for act in acts {
            let nth = |of: &BTreeSet<Ticket>, n: usize| (!of.is_empty()).then(|| *of.iter().nth(n % of.len()).unwrap());
            match act {
                Act::Ask { tenant, session, background, tokens } => {
                    let rank = if background { Rank::Background } else { Rank::Person };
                    let asking = Asking { tokens, ..asking(&tenant.to_string(), &session.to_string(), rank) };
                    waiting.insert(governor.ask(asking).0, (tenant, session, background));
                }
                Act::GiveUp(n) => {
                    let all = waiting.keys().copied().chain(flying.iter().copied()).collect();
                    if let Some(ticket) = nth(&all, n) {
                        governor.give_up(now, ticket);
                        waiting.remove(&ticket);
                        flying.remove(&ticket);
                    }
                }
                Act::Head(n, left) => if let Some(ticket) = nth(&flying, n) {
                    governor.head(now, ticket, true, left.map_or_else(Default::default, |(left, reset)| said(left, 5, reset)));
                },
                Act::End(n, failure) => if let Some(ticket) = nth(&flying, n) {
                    match failure {
                        Some((kind, wait)) => {
                            let error = error(kind, wait.map(|wait| wait * SECOND));
                            governor.ended(now, ticket, &Ended::Failed(&error));
                        }
                        None => governor.ended(now, ticket, &Ended::Answered(50)),
                    }
                    flying.remove(&ticket);
                },
                Act::Pass(seconds) => now += seconds * SECOND,
                Act::Forget => governor.forget(),
            }
            told(&mut governor, now, &mut waiting, &mut flying);
        }
        for _ in 0..2_000 {
            for ticket in std::mem::take(&mut flying) {
                governor.ended(now, ticket, &Ended::Answered(1));
            }
            told(&mut governor, now, &mut waiting, &mut flying);
            if flying.is_empty() {
                let Some(next) = governor.next(now) else { break };
                now = next;
            }
        }
        prop_assert!(waiting.is_empty(), "{} wait for ever: {governor:?}", waiting.len());
        prop_assert!(governor.queue.is_bare() && governor.asked.is_empty() && governor.flights.is_empty());
    }

    /// Sessions that ask all the time get the same, however many each tenant has.
    #[test]
    fn the_sessions_of_a_tenant_get_the_same(sessions in 2..40_usize, at_once in 1..8_u32) {
        let mut governor = limited(at_once);
        let mut whose = BTreeMap::new();
        let mut served = vec![0_u64; sessions];
        for n in 0..sessions {
            whose.insert(governor.ask(person(&n.to_string())).0, n);
        }
        for _ in 0..sessions * 20 {
            for ticket in gone(&mut governor, Duration::ZERO) {
                let n = whose.remove(&ticket).unwrap();
                served[n] += 1;
                governor.ended(Duration::ZERO, ticket, &Ended::Answered(0));
                whose.insert(governor.ask(person(&n.to_string())).0, n);
            }
        }
        let fairness = jain(served.iter().copied());
        prop_assert!(fairness >= 0.95, "{fairness}");
    }
}
