//! Hooks that hang, panic and fall behind.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::{Mutex, mpsc};

use super::*;
use crate::{
    event::EVENT_VERSION,
    words::ids::{Millis, Seq},
};

/// For what must not take for ever; far more than it takes.
const SOON: Duration = Duration::from_secs(60);

/// What a hook was shown: the seq of an event, or how many it missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Saw {
    Event(u64),
    Missed(u64),
}

/// Tells what it is shown, and waits at the first event until it may go on.
struct Slow {
    tells: mpsc::Sender<Saw>,
    go_on: Mutex<mpsc::Receiver<()>>,
}

impl Hook for Slow {
    fn name(&self) -> &str {
        "slow"
    }

    fn on_event(&self, event: &Event) {
        self.tells.send(Saw::Event(event.id.seq.0)).unwrap();
        if event.id.seq == Seq(1) {
            // A test that is over has dropped its end.
            let _ = self.go_on.lock().unwrap().recv();
        }
        assert!(event.id.seq != Seq(2), "it cannot count to two");
    }

    fn on_missed(&self, missed: u64) {
        self.tells.send(Saw::Missed(missed)).unwrap();
    }
}

struct Bench {
    observers: Observers,
    told: mpsc::Receiver<Saw>,
    go_on: mpsc::Sender<()>,
}

fn bench() -> Bench {
    let ((tells, told), (go_on, waits)) = (mpsc::channel(), mpsc::channel());
    let slow: Arc<dyn Hook> = Arc::new(Slow { tells, go_on: Mutex::new(waits) });
    Bench { observers: Observers::new(&Hooks::new([slow])), told, go_on }
}

fn event(seq: u64, text: &str) -> Arc<Event> {
    Arc::new(Event {
        v: EVENT_VERSION,
        id: EventId { seq: Seq(seq), incarnation: 0, sub: 0 },
        session: "s".parse().unwrap(),
        time: Millis(0),
        cause: None,
        turn: None,
        step: None,
        kind: EventKind::TextDelta { text: text.to_owned() },
    })
}

fn show(observers: &Observers, seq: u64, text: &str) {
    observers.show(&[event(seq, text)], || None);
}

fn saw(told: &mpsc::Receiver<Saw>) -> Saw {
    told.recv_timeout(SOON).expect("it is shown something")
}

/// Promise 11: what a hook falls behind by is bounded, and it is told how much it missed, where it missed it. One that panics is
/// shown the next event.
#[tokio::test]
async fn a_hook_that_falls_behind_is_told_what_it_missed() {
    let bench = bench();
    show(&bench.observers, 1, "");
    assert_eq!(saw(&bench.told), Saw::Event(1));
    let max = OBSERVED_EVENTS_MAX as u64;
    (2..2 + max + 3).for_each(|seq| show(&bench.observers, seq, ""));
    bench.go_on.send(()).unwrap();
    (2..2 + max).for_each(|seq| assert_eq!(saw(&bench.told), Saw::Event(seq)));
    assert_eq!(saw(&bench.told), Saw::Missed(3));
    show(&bench.observers, 9_999, "");
    assert_eq!(saw(&bench.told), Saw::Event(9_999));
    assert_eq!(bench.observers.close(SOON), Vec::<String>::new());
}

/// The same of what is large: few events fill a queue, and one alone is always shown.
#[tokio::test]
async fn large_events_fill_a_queue_sooner() {
    let bench = bench();
    show(&bench.observers, 1, "");
    assert_eq!(saw(&bench.told), Saw::Event(1));
    let half = "x".repeat(OBSERVED_BYTES_MAX / 2 + 1);
    (3..6).for_each(|seq| show(&bench.observers, seq, &half));
    bench.go_on.send(()).unwrap();
    assert_eq!([saw(&bench.told), saw(&bench.told)], [Saw::Event(3), Saw::Missed(2)]);
    show(&bench.observers, 7, &half.repeat(3));
    assert_eq!(saw(&bench.told), Saw::Event(7));
    assert!(bench.observers.close(SOON).is_empty());
}

/// At the end a hook sees what waits for it still, and nothing after that; one that does not come back is named, is shown nothing
/// more, and its thread ends when its callback does.
#[tokio::test]
async fn the_end_waits_for_hooks_and_names_those_that_hang() {
    let quick = bench();
    quick.go_on.send(()).unwrap();
    (1..=100).for_each(|seq| show(&quick.observers, seq, ""));
    assert!(quick.observers.close(SOON).is_empty());
    show(&quick.observers, 101, "");
    assert_eq!(quick.told.try_iter().collect::<Vec<_>>(), (1..=100).map(Saw::Event).collect::<Vec<_>>());

    let hangs = bench();
    (1..=3).for_each(|seq| show(&hangs.observers, seq, ""));
    assert_eq!(saw(&hangs.told), Saw::Event(1));
    assert_eq!(hangs.observers.close(Duration::ZERO), ["slow"]);
    hangs.go_on.send(()).unwrap();
    assert!(hangs.observers.close(SOON).is_empty(), "its thread is gone");
    assert_eq!(hangs.told.try_iter().count(), 0, "it was shown nothing more");
}

/// A hook that is never shown anything has no thread to end.
#[tokio::test]
async fn a_hook_without_events_costs_nothing() {
    let idle = bench();
    assert!(idle.observers.close(Duration::ZERO).is_empty());
}

/// A thread that is idle is woken once, and one that shows events is not woken at all. What is shown in one piece takes the lock once.
#[tokio::test]
async fn a_busy_hook_is_not_woken_for_each_event() {
    let bench = bench();
    let queue = bench.observers.0[0].queue.clone();
    let counts = || [&queue.locked, &queue.woken].map(|count| count.load(std::sync::atomic::Ordering::Relaxed));
    show(&bench.observers, 3, "");
    assert_eq!(saw(&bench.told), Saw::Event(3));
    while queue.waiting().watching != Watching::Idle {
        std::thread::yield_now();
    }
    // It stays in its callback.
    show(&bench.observers, 1, "");
    assert_eq!(saw(&bench.told), Saw::Event(1));
    assert_eq!(counts(), [2, 1]);
    let piece: Vec<_> = (4..104).map(|seq| event(seq, "")).collect();
    bench.observers.show(&piece, || None);
    assert_eq!(counts(), [3, 1]);
    (104..204).for_each(|seq| show(&bench.observers, seq, ""));
    assert_eq!(counts(), [103, 1]);
    bench.go_on.send(()).unwrap();
    (4..204).for_each(|seq| assert_eq!(saw(&bench.told), Saw::Event(seq)));
    assert!(bench.observers.close(SOON).is_empty());
}

/// A thread that collects events is woken when its queue is half full, and once.
#[test]
fn a_hook_stops_collecting_when_its_queue_is_half_full() {
    let mut waiting = Waiting { watching: Watching::Collecting, ..Waiting::default() };
    for seq in 1..OBSERVED_EVENTS_MAX as u64 / 2 {
        assert!(!waiting.queue(&event(seq, ""), 1, None) && !waiting.wakes());
    }
    waiting.queue(&event(9_999, ""), 1, None);
    assert_eq!([waiting.wakes(), waiting.wakes()], [true, false]);
    let mut waiting = Waiting { watching: Watching::Collecting, ..Waiting::default() };
    waiting.queue(&event(1, ""), OBSERVED_BYTES_MAX / 2, None);
    assert!(waiting.wakes());
}
