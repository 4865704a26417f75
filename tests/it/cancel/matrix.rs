//! The machinery: a driver says how to call one function, and what its effect is; the matrix drops the call after each poll.

use std::{
    future::Future,
    panic::AssertUnwindSafe,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Wake, Waker},
    time::Duration,
};

use super::{
    table,
    world::{World, rest, threads, within},
};

/// A future over a world.
pub(super) type On<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;
type Step = for<'a> fn(&'a mut World) -> On<'a, ()>;
type Count = for<'a> fn(&'a mut World) -> On<'a, usize>;

/// The most polls of one call. A call that needs more has a loop that its driver does not end.
const POLLS_MAX: usize = 60;

/// What a dropped future takes back: the words of `docs/CANCELLATION.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// Only the wait ends. There is no effect, and the state of the session is what it was.
    Read,
    /// From the first poll on the effect comes, once, although nobody waits.
    HandedOver,
    /// As handed over; the runtime does it in the background.
    Begun,
    /// The effect comes once or not at all.
    TakenBack,
}

/// How the session is after the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// It answers the next prompt.
    Answers,
    /// The runtime takes no more prompts; the next runtime over the same store does.
    AnswersTheNextRuntime,
    /// It has ended, and says so.
    HasEnded,
}

/// How to drive one function through the matrix.
pub(super) struct Driver {
    name: &'static str,
    call: Step,
    setup: Step,
    effect: Count,
    undo: Step,
    word: Option<Word>,
    after: After,
    again: bool,
    real_time: bool,
}

/// A step or a count of a driver: `go!(w, w.session.state().await.unwrap())`.
macro_rules! go {
    ($w:ident, $($body:tt)*) => {
        |$w: &mut World| Box::pin(async move { $($body)* })
    };
}
pub(super) use go;

impl Driver {
    /// A driver of the function of that name, such as `Session::send`. Behind a comma may stand which case of it.
    pub(super) fn new(name: &'static str, call: Step) -> Driver {
        Driver {
            name,
            call,
            setup: |_| Box::pin(async {}),
            effect: |_| Box::pin(async { 0 }),
            undo: |_| Box::pin(async {}),
            word: None,
            after: After::Answers,
            again: false,
            real_time: false,
        }
    }

    /// What is done before the call, in each cell anew.
    pub(super) fn given(mut self, setup: Step) -> Driver {
        self.setup = setup;
        self
    }

    /// How often the effect of the call is there.
    pub(super) fn effect(mut self, effect: Count) -> Driver {
        self.effect = effect;
        self
    }

    /// The call may be made again, and its effect is there once all the same.
    pub(super) fn once(mut self) -> Driver {
        self.again = true;
        self
    }

    /// What is done behind the check of the effect, so that the session can answer.
    pub(super) fn then(mut self, undo: Step) -> Driver {
        self.undo = undo;
        self
    }

    /// This case of the function has another word than its row.
    pub(super) fn but(mut self, word: Word) -> Driver {
        self.word = Some(word);
        self
    }

    pub(super) fn leaving(mut self, after: After) -> Driver {
        self.after = after;
        self
    }

    /// In real time: the call waits for processes of the system.
    pub(super) fn in_real_time(mut self) -> Driver {
        self.real_time = true;
        self
    }

    /// The function that it drives.
    pub(super) fn function(&self) -> &str {
        self.name.split(',').next().unwrap_or_default()
    }
}

/// Runs the matrix of these drivers; those whose names begin as `TAMTAM_CANCEL` says, where it is set.
pub(super) fn run(drivers: Vec<Driver>) {
    let rows = table::rows();
    let only = std::env::var("TAMTAM_CANCEL").unwrap_or_default();
    let mut broken = Vec::new();
    for driver in drivers.iter().filter(|driver| driver.name.starts_with(&only)) {
        let row = rows.iter().find(|row| row.function == driver.function());
        let word = driver.word.unwrap_or_else(|| row.expect("a row of its own").word);
        let began = std::time::Instant::now();
        let cells: Vec<_> = Moment::BOTH.into_iter().map(|moment| line(driver, word, moment)).collect();
        println!("{} ({word:?}): {cells:?} cells, {} ms", driver.name, began.elapsed().as_millis());
        broken.extend(cells.into_iter().filter_map(Result::err));
    }
    assert_eq!(broken, [""; 0], "these cells break their word; what broke is above");
}

/// When the future is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// Right after its last poll.
    AtOnce,
    /// When all that it began is at rest: the answer may have come, and nobody has taken it.
    AtRest,
}

impl Moment {
    const BOTH: [Moment; 2] = [Moment::AtOnce, Moment::AtRest];
}

/// Drops the call after 0, 1, 2, … polls. Returns how many cells there were, or the first that breaks its word.
fn line(driver: &Driver, word: Word, moment: Moment) -> Result<usize, String> {
    for polls in 0..=POLLS_MAX {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(!driver.real_time).build().unwrap();
        let cell = || runtime.block_on(within(cell(driver, word, polls, moment)));
        match std::panic::catch_unwind(AssertUnwindSafe(cell)) {
            Ok(How::Dropped) => {}
            Ok(_) => return Ok(polls + 1),
            // The panic has said what broke.
            Err(_) => return Err(format!("{}, dropped {moment:?} after {polls} polls", driver.name)),
        }
    }
    Err(format!("{} does not complete in {POLLS_MAX} polls", driver.name))
}

/// What became of a call in a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// It was dropped; with more polls it might go on.
    Dropped,
    /// It completed.
    Completed,
    /// It waits for somebody else: nothing moves any more.
    Waits,
}

async fn cell(driver: &Driver, word: Word, polls: usize, moment: Moment) -> How {
    let mut world = World::new(driver.real_time).await;
    (driver.setup)(&mut world).await;
    let before = world.state().await;
    let (how, polled) = poll((driver.call)(&mut world), polls, moment, driver.real_time).await;
    world.rest().await;
    let wanted = match word {
        Word::HandedOver | Word::Begun => Some(usize::from(polled > 0)),
        Word::TakenBack if how != How::Dropped => Some(1),
        _ => None,
    };
    let effect = effect_of(driver, &mut world, wanted).await;
    match word {
        Word::Read => {
            assert_eq!(effect, 0, "it only reads");
            assert_eq!(before, world.state().await, "the state is what it was");
        }
        Word::HandedOver | Word::Begun => {
            assert_eq!(effect, usize::from(polled > 0), "the effect, after {polled} polls")
        }
        Word::TakenBack => {
            assert!(effect <= 1, "the effect is there {effect} times");
            assert!(how == How::Dropped || effect == 1, "{how:?}, and the effect is there {effect} times");
        }
    }
    if driver.again {
        (driver.call)(&mut world).await;
        world.rest().await;
        assert_eq!(effect_of(driver, &mut world, Some(1)).await, 1, "the effect, once it was called again");
    }
    (driver.undo)(&mut world).await;
    world.close(driver.after).await;
    how
}

/// How often the effect is there. Where one is wanted, it may come late: what writes it is a thread, which a busy machine holds up.
async fn effect_of(driver: &Driver, world: &mut World, wanted: Option<usize>) -> usize {
    let mut effect = (driver.effect)(world).await;
    for _ in 0..200 {
        if effect > 0 || wanted != Some(1) {
            break;
        }
        tokio::task::spawn_blocking(|| std::thread::sleep(Duration::from_millis(10))).await.unwrap();
        world.rest().await;
        effect = (driver.effect)(world).await;
    }
    effect
}

/// Polls a future so many times, each time once it was woken. Returns how often it was polled.
async fn poll(call: On<'_, ()>, polls: usize, moment: Moment, real_time: bool) -> (How, usize) {
    let mut call = pin!(call);
    let woken = Arc::new(Woken(AtomicBool::new(true), tokio::sync::Notify::new()));
    for polled in 0..polls {
        if !woken.comes(real_time).await {
            return (How::Waits, polled);
        }
        let waker = Waker::from(woken.clone());
        if call.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            return (How::Completed, polled + 1);
        }
    }
    if moment == Moment::AtRest {
        rest(real_time).await;
    }
    (How::Dropped, polls)
}

struct Woken(AtomicBool, tokio::sync::Notify);

impl Woken {
    /// Waits for the next wake, as long as anything moves.
    async fn comes(&self, real_time: bool) -> bool {
        let idle = if real_time { Duration::from_millis(70) } else { Duration::from_secs(15) };
        for _ in 0..3 {
            if self.0.swap(false, Ordering::SeqCst) {
                return true;
            }
            drop(tokio::time::timeout(idle, self.1.notified()).await);
            threads().await;
        }
        self.0.swap(false, Ordering::SeqCst)
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
        self.1.notify_one();
    }
}
