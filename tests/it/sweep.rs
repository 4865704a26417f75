//! Sessions that need not be kept, removed next to those that live.

use std::{path::Path, sync::Arc, time::Duration};

use tamtam::{
    Millis, Outcome, Runtime, Seq, Session, SessionId, SessionOptions,
    model::{Item, Reply, Scripted},
    ops::{self, KeptReason, Sweep, SweepPolicy, SweepReason},
    runtime::SweepReport,
    session::{ForkOptions, Link},
    tape::{Store, StoreOptions, TapeStoreExt as _},
};

async fn runtime(folder: &Path, model: Scripted) -> Runtime {
    Runtime::builder().store(folder.join("store")).model(Arc::new(model)).start().await.unwrap()
}

fn named(folder: &Path, id: &str) -> SessionOptions {
    SessionOptions::new(folder).id(id.parse().unwrap())
}

fn keep(keep_newest: usize) -> SweepPolicy {
    let mut policy = SweepPolicy::default();
    policy.keep_newest = Some(keep_newest);
    policy
}

async fn say(session: &Session, text: &str) {
    let answer = session.prompt(text).await.unwrap().wait().await.unwrap();
    assert_eq!(answer.outcome, Outcome::Done);
    session.wait().await.unwrap();
}

/// Puts a session to sleep, however long the machine takes until it rests.
async fn sleep(runtime: &Runtime, id: &SessionId) {
    let slept = async {
        while runtime.passivate(id).await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), slept).await.unwrap();
}

fn gone(sweep: &Sweep) -> Vec<&str> {
    let mut gone: Vec<&str> = sweep.gone.iter().map(|gone| gone.session.as_str()).collect();
    gone.sort_unstable();
    gone
}

fn why<'s>(sweep: &'s Sweep, id: &SessionId) -> Option<&'s KeptReason> {
    sweep.kept.iter().find(|kept| kept.session == *id).map(|kept| &kept.why)
}

/// Those that live, are parked, protected or needed by a fork stay, and so does a child whose parent is at work; what goes, goes
/// with all that is beside it, and is not there any more for anybody. The plan is what is done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sweep_takes_what_sleeps_and_nothing_that_is_needed() {
    let folder = tempfile::tempdir().unwrap();
    let model = Scripted::from_fn(|request| {
        let waits = request.history.iter().any(|item| match item.as_ref() {
            Item::User(user) => format!("{:?}", user.parts).contains("wait here"),
            _ => false,
        });
        if waits { Reply::text("At last.").at_barrier("hold") } else { Reply::text("Done.") }
    });
    let hold = model.barrier("hold");
    let runtime = runtime(folder.path(), model).await;
    let mut sessions = Vec::new();
    for id in ["awake", "asleep", "parked", "protected", "origin"] {
        let session = runtime.create(named(folder.path(), id)).await.unwrap();
        say(&session, "hi").await;
        sessions.push(session);
    }
    let [awake, asleep, parked, protected, origin] = &sessions[..] else { panic!("five") };
    let fork = origin.fork(ForkOptions::newest()).await.unwrap();
    let parent = runtime.create(named(folder.path(), "parent")).await.unwrap();
    let child = parent.spawn_child(named(folder.path(), "child"), "hi", Link::MONITORED).await.unwrap();
    child.down().await.unwrap();
    child.session().wait().await.unwrap();
    // A turn that takes its time, in the parent.
    parent.wait().await.unwrap();
    let busy = parent.prompt("wait here").await.unwrap();
    hold.reached().await;
    runtime.protect(protected.id()).await.unwrap();
    for session in [asleep, parked, protected, origin, child.session()] {
        sleep(&runtime, session.id()).await;
    }
    let store = Store::open(folder.path().join("store"), StoreOptions::default()).unwrap();
    store.park(parked.id(), Millis::now(), "it crashed").unwrap();
    let spill = folder.path().join("store/sessions/asleep/spill");
    std::fs::create_dir(&spill).unwrap();
    std::fs::write(spill.join("x.log"), "12345").unwrap();

    let planned = runtime.sweep_plan(keep(0)).await.unwrap();
    // Its task is done, so it is nobody's.
    assert_eq!(gone(&planned), ["asleep", "child"]);
    assert_eq!(why(&planned, awake.id()), Some(&KeptReason::Live));
    assert_eq!(why(&planned, parent.id()), Some(&KeptReason::AtWork));
    assert_eq!(why(&planned, parked.id()), Some(&KeptReason::Parked));
    assert_eq!(why(&planned, protected.id()), Some(&KeptReason::Protected));
    assert_eq!(why(&planned, origin.id()), Some(&KeptReason::ForkStays(fork.id().clone())));
    let file = folder.path().join("store/sessions/asleep/anchors/001_session-start/entries.jsonl");
    let of_asleep = planned.gone.iter().find(|gone| gone.session == *asleep.id()).unwrap();
    assert_eq!(of_asleep.bytes, file.metadata().unwrap().len() + 5);
    assert_eq!(of_asleep.why, SweepReason::NotAmongNewest { keep: 0 });
    assert_eq!(runtime.list().await.unwrap().len(), 8, "a plan changes nothing");

    assert_eq!(runtime.sweep(keep(0)).await.unwrap(), planned);
    assert!(!folder.path().join("store/sessions/asleep").exists());
    assert!(asleep.prompt("are you there?").await.is_err());
    assert_eq!(runtime.list().await.unwrap().len(), 6);
    // Who lives, lives on; and the name of the one that went is free.
    say(awake, "still there?").await;
    runtime.create(named(folder.path(), "asleep")).await.unwrap();
    hold.release();
    busy.wait().await.unwrap();
    // Asleep, it has no turn that is marked as open, whatever a shutdown cuts off.
    parent.wait().await.unwrap();
    sleep(&runtime, parent.id()).await;
    sleep(&runtime, awake.id()).await;
    let mut policy = SweepPolicy::default();
    policy.older_than = Some(Duration::from_secs(60 * 60));
    assert_eq!(runtime.sweep(policy).await.unwrap(), Sweep::default());
    assert!(runtime.shutdown().await.is_empty());

    store.unpark(parked.id()).unwrap();
    store.unprotect(protected.id()).unwrap();
    let last = ops::sweep_planned(&store, ops::sweep_plan(&store, keep(0), Millis::now(), || false).unwrap(), || false)
        .unwrap();
    assert_eq!((last.gone.len(), last.kept.len()), (7, 0));
    assert!(store.list().unwrap().is_empty());
    assert_eq!(std::fs::read_dir(folder.path().join("store/sessions")).unwrap().count(), 0);
}

/// A child that is asleep before its task is done stays as long as its parent works.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_stays_while_its_parent_waits_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime(folder.path(), Scripted::new([Reply::text("held").at_barrier("hold")])).await;
    let parent = runtime.create(named(folder.path(), "parent")).await.unwrap();
    let child = parent.spawn_child(named(folder.path(), "child"), "hi", Link::LINKED).await.unwrap();
    let swept = runtime.sweep(keep(0)).await.unwrap();
    assert_eq!(gone(&swept), Vec::<&str>::new());
    assert!(runtime.shutdown().await.is_empty());
    // Nobody has it open now, and its turn is marked as open; without that mark its parent's is what keeps it.
    let store = Store::open(folder.path().join("store"), StoreOptions::default()).unwrap();
    let child = child.session().id();
    assert_eq!(
        why(&ops::sweep_plan(&store, keep(0), Millis::now(), || false).unwrap(), child),
        Some(&KeptReason::AtWork)
    );
    store.mark_closed(child).unwrap();
    let planned = ops::sweep_plan(&store, keep(0), Millis::now(), || false).unwrap();
    assert_eq!(why(&planned, child), Some(&KeptReason::ParentAtWork(parent.id().clone())));
    assert_eq!(gone(&planned), Vec::<&str>::new());
    // A protection on the parent takes nothing from that.
    store.protect(parent.id()).unwrap();
    let planned = ops::sweep_plan(&store, keep(0), Millis::now(), || false).unwrap();
    assert_eq!(why(&planned, child), Some(&KeptReason::ParentAtWork(parent.id().clone())));
    store.unprotect(parent.id()).unwrap();
    // Nor does it, while its tape cannot be read.
    let anchors = folder.path().join("store/sessions/parent/anchors");
    let tape = anchors.join("001_session-start/entries.jsonl");
    let whole = std::fs::read(&tape).unwrap();
    std::fs::write(&tape, "x".repeat(1_000)).unwrap();
    let planned = ops::sweep_plan(&store, keep(0), Millis::now(), || false).unwrap();
    assert_eq!(why(&planned, child), Some(&KeptReason::ParentAtWork(parent.id().clone())));
    std::fs::write(&tape, whole).unwrap();
    // Told to stop, it removes nothing.
    store.mark_closed(parent.id()).unwrap();
    assert_eq!(
        ops::sweep_planned(&store, ops::sweep_plan(&store, keep(0), Millis::now(), || false).unwrap(), || true)
            .unwrap()
            .gone,
        []
    );
    assert_eq!(store.list().unwrap().len(), 2);
}

/// Waits for the report of that number, however long the disk takes: virtual time stands still while a thread works.
async fn report(runtime: &Runtime, number: u64) -> Arc<SweepReport> {
    loop {
        match runtime.last_sweep() {
            Some(report) if report.number >= number => return report,
            _ => tokio::time::sleep(Duration::from_secs(1)).await,
        }
    }
}

/// Does it while virtual time stands still, however long the disk takes.
async fn still<T>(work: impl Future<Output = T>) -> T {
    let (done, wait) = std::sync::mpsc::channel::<()>();
    let hold = tokio::task::spawn_blocking(move || wait.recv());
    let out = work.await;
    drop(done);
    drop(hold.await);
    out
}

/// A store with sessions that sleep, the first of which was used longest ago; made in real time.
fn with_asleep(ids: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let real = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    real.block_on(async {
        let runtime = runtime(folder.path(), Scripted::new(vec![Reply::text("Done."); ids.len()])).await;
        for id in ids {
            say(&runtime.create(named(folder.path(), id)).await.unwrap(), "hi").await;
            // Each was used at another moment.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(runtime.shutdown().await.is_empty());
    });
    folder
}

/// In virtual time.
fn virtually(work: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(work);
}

/// A runtime that was told to sweeps by itself, as often as was asked for and drawn, and never what is
/// in use; what came of it can be looked at.
#[test]
fn a_runtime_sweeps_by_itself_where_it_was_told_to() {
    let folder = with_asleep(&["a", "b", "c", "d"]);
    virtually(async {
        let model = Arc::new(Scripted::new([]));
        let builder = Runtime::builder()
            .store(folder.path().join("store"))
            .model(model)
            .sweeps(Duration::from_secs(3_600), keep(1));
        let began = tokio::time::Instant::now();
        let runtime = still(builder.start()).await.unwrap();
        still(runtime.protect(&"a".parse().unwrap())).await.unwrap();
        let awake = still(runtime.create(named(folder.path(), "awake"))).await.unwrap();
        // Three quarters of an hour or more, and not before.
        tokio::time::sleep_until(began + Duration::from_secs(2_690)).await;
        assert_eq!(runtime.last_sweep(), None);
        // An idle session sleeps by then; it is the newest all the same.
        let first = report(&runtime, 1).await;
        assert!((2_700..4_510).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
        assert_eq!(gone(&first.sweep), ["b", "c", "d"], "those that were used longest ago");
        assert_eq!((first.number, first.kept, first.error.as_deref()), (1, 1, None));
        assert_eq!(why(&first.sweep, &"a".parse().unwrap()), Some(&KeptReason::Protected));
        let second = report(&runtime, 2).await;
        assert!(second.sweep.gone.is_empty(), "{second:?}");
        assert!((2_700..4_510).contains(&((second.at.0 - first.at.0) / 1_000)));
        let left = still(runtime.list()).await.unwrap();
        let left: Vec<_> = left.into_iter().map(|one| one.id.to_string()).collect();
        assert_eq!(left, ["a", awake.id().as_str()]);
        assert!(runtime.shutdown().await.is_empty());
    });
}

/// Nobody sweeps who was not told to. A sweep that cannot be made says why, ends nothing, and is made at the next time.
#[test]
fn a_sweep_that_fails_is_said_and_made_again() {
    let folder = with_asleep(&["a"]);
    virtually(async {
        let builder = || Runtime::builder().store(folder.path().join("store")).model(Arc::new(Scripted::new([])));
        let runtime = builder().start().await.unwrap();
        tokio::time::sleep(Duration::from_secs(1_000_000)).await;
        assert_eq!((runtime.last_sweep(), runtime.list().await.unwrap().len()), (None, 1));
        assert!(runtime.shutdown().await.is_empty());

        let runtime = builder().sweeps(Duration::from_secs(60), keep(0)).start().await.unwrap();
        let marks = folder.path().join("store/protected");
        std::fs::write(&marks, "no folder").unwrap();
        let failed = report(&runtime, 1).await;
        assert!(failed.error.as_ref().is_some_and(|why| why.contains("protected")), "{failed:?}");
        assert_eq!((failed.sweep.gone.len(), runtime.list().await.unwrap().len()), (0, 1));
        std::fs::remove_file(&marks).unwrap();
        // One may have begun before that.
        let mut made = report(&runtime, failed.number + 1).await;
        if made.error.is_some() {
            made = report(&runtime, made.number + 1).await;
        }
        assert_eq!((gone(&made.sweep), made.error.as_deref()), (vec!["a"], None));
        assert!(runtime.shutdown().await.is_empty());
    });
}

/// A session without an entry is nobody's: whoever made it died, or had no room. Any limit takes it, but not one that is just being
/// made, is protected, or has an entry that cannot be read. Finding: such folders stayed for ever.
#[test]
fn what_has_no_entry_goes_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Store::open(&path, StoreOptions::default()).unwrap();
    let other = Store::open(&path, StoreOptions::default()).unwrap();
    let id = |name: &str| name.parse::<SessionId>().unwrap();
    let create = |store: &Store, name: &str| store.create(&id(name), Arc::new(|_| {})).unwrap();
    ["empty", "protected", "torn", "used"].iter().for_each(|name| drop(create(&store, name)));
    // What a maker leaves that is killed at once.
    std::fs::create_dir(path.join("sessions/bare")).unwrap();
    std::fs::write(path.join("sessions/torn/anchors/001_session-start/entries.jsonl"), "{\"v\":1,\"sess").unwrap();
    store.protect(&id("protected")).unwrap();
    let making = create(&other, "making");

    assert_eq!(ops::sweep_plan(&store, SweepPolicy::default(), Millis::now(), || false).unwrap(), Sweep::default());
    let plan = ops::sweep_plan(&store, keep(100), Millis::now(), || false).unwrap();
    assert_eq!(gone(&plan), ["bare", "empty", "used"]);
    assert!(plan.gone.iter().all(|gone| gone.why == SweepReason::Empty && gone.seq == Seq(0)));
    // Somebody makes one of them anew before it is removed.
    let used = create(&other, "used");
    let swept = ops::sweep_planned(&store, plan, || false).unwrap();
    assert_eq!((gone(&swept), why(&swept, &id("used"))), (vec!["bare", "empty"], Some(&KeptReason::Live)));
    drop((making, used));
    let left: Vec<_> = store.list().unwrap().into_iter().map(|session| session.id.to_string()).collect();
    assert_eq!(left, ["making", "protected", "torn", "used"]);
}
