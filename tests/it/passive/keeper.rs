//! The timekeeper, in virtual time: who is put to sleep, when, and who is not.

use std::sync::atomic::{AtomicU64, Ordering};

use tamtam::{
    SessionId,
    model::{Reply, Scripted},
    runtime::Pressure,
};

use super::{Arc, Duration, Runtime, Session, ask, builder, counts, create, passivation, start};

use crate::support::taped;

const MINUTE: Duration = Duration::from_secs(60);

/// Waits for the awake ones to be as many; virtual time passes only as far as `within`.
async fn awake_within(runtime: &Runtime, count: usize, within: Duration) -> Vec<SessionId> {
    let waited = async {
        while runtime.awake().len() != count {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        runtime.awake()
    };
    match tokio::time::timeout(within, waited).await {
        Ok(awake) => awake,
        Err(_) => panic!("{} are awake and not {count}", runtime.awake().len()),
    }
}

/// By default an idle session sleeps after 15 minutes, and not before; whoever uses it starts the time anew.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn an_idle_session_sleeps_after_fifteen_minutes() {
    let folder = taped::folder();
    let runtime = start(folder.path(), counts()).await;
    let session = create(&runtime, folder.path()).await;
    ask(&session, "one").await;
    tokio::time::sleep(14 * MINUTE).await;
    assert_eq!(runtime.awake().len(), 1);
    ask(&session, "two").await;
    tokio::time::sleep(14 * MINUTE).await;
    assert_eq!(runtime.awake().len(), 1);
    awake_within(&runtime, 0, 2 * MINUTE).await;
    assert_eq!(ask(&session, "three").await, "3");
    assert!(runtime.shutdown().await.is_empty());
}

/// A turn that takes most of an hour, which is all that one request may take, is not idle, however long nobody says anything.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn a_turn_of_most_of_an_hour_is_not_idle() {
    let folder = taped::folder();
    let model = Arc::new(Scripted::new([Reply::text("at last").at_barrier("think")]));
    let runtime = start(folder.path(), model.clone()).await;
    let session = create(&runtime, folder.path()).await;
    let prompt = session.prompt("think").await.unwrap();
    model.barrier("think").reached().await;
    tokio::time::sleep(58 * MINUTE).await;
    assert_eq!(runtime.awake().len(), 1);
    model.barrier("think").release();
    assert_eq!(prompt.wait().await.unwrap().text, "at last");
    awake_within(&runtime, 0, 16 * MINUTE).await;
    assert!(runtime.shutdown().await.is_empty());
}

/// Where idleness is no reason, nobody is put to sleep.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn without_a_limit_nobody_is_put_to_sleep() {
    let folder = taped::folder();
    let builder = builder(folder.path(), counts()).passivation(passivation(|p| p.idle_after = None));
    let runtime = builder.start().await.unwrap();
    let session = create(&runtime, folder.path()).await;
    ask(&session, "one").await;
    tokio::time::sleep(100_000 * MINUTE).await;
    assert_eq!(runtime.awake().len(), 1);
    assert!(runtime.shutdown().await.is_empty());
}

/// Above the bound those that were used longest ago are put to sleep, down to nine tenths of it; a busy one is not, though it
/// is the oldest of all.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn above_the_bound_the_least_recently_used_sleep_and_a_busy_one_does_not() {
    let folder = taped::folder();
    let model = Arc::new(Scripted::new([Reply::hang()]));
    let builder = builder(folder.path(), model.clone()).passivation(passivation(|p| {
        p.idle_after = None;
        p.awake_max = 20;
    }));
    let runtime = builder.start().await.unwrap();
    let busy = create(&runtime, folder.path()).await;
    busy.prompt("hang").await.unwrap();
    while model.requests().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let mut sessions = Vec::new();
    for _ in 0..19 {
        sessions.push(create(&runtime, folder.path()).await);
        tokio::time::sleep(MINUTE / 10).await;
    }
    assert_eq!(runtime.awake().len(), 20);
    // The first is used again, so the second is the oldest now.
    sessions[0].state().await.unwrap();
    tokio::time::sleep(MINUTE / 10).await;
    let newest = create(&runtime, folder.path()).await;
    let awake = awake_within(&runtime, 18, MINUTE).await;
    let expected = |session: &Session| awake.contains(session.id());
    assert!(expected(&busy) && expected(&newest) && expected(&sessions[0]));
    assert!(sessions[1..4].iter().all(|session| !expected(session)), "the three oldest sleep");
    assert!(sessions[4..].iter().all(expected));
    assert!(runtime.shutdown().await.is_empty());
}

/// An age limit is off by default; where there is one, a session that is used all the time sleeps for a moment too.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn a_session_of_great_age_sleeps_although_it_is_used() {
    let folder = taped::folder();
    let builder = builder(folder.path(), counts()).passivation(passivation(|p| {
        p.idle_after = None;
        p.age_max = Some(60 * MINUTE);
    }));
    let runtime = builder.start().await.unwrap();
    let born = tokio::time::Instant::now();
    let session = create(&runtime, folder.path()).await;
    let mut n = 0;
    loop {
        n += 1;
        assert_eq!(ask(&session, "again").await, n.to_string());
        // No divisor of the limit, so that it is not used at the very moment at which it falls asleep.
        tokio::time::sleep(7 * MINUTE).await;
        // Virtual time jumps while a thread writes, so it is read where it tells something, and else uses are counted.
        let age = born.elapsed();
        if runtime.awake().is_empty() {
            assert!(age >= 60 * MINUTE, "{age:?}");
            break;
        }
        assert!(n < 60, "it is used all the time, and never sleeps");
    }
    assert_eq!(ask(&session, "again").await, (n + 1).to_string());
    assert!(runtime.shutdown().await.is_empty());
}

/// A host that is short of memory says how many may stay awake, or is asked what share must go; one that panics is passed over.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn memory_pressure_puts_the_least_recently_used_to_sleep() {
    let folder = taped::folder();
    let percent = Arc::new(AtomicU64::new(0));
    let asked = percent.clone();
    let pressure = Pressure::new(MINUTE, move || match asked.load(Ordering::Relaxed) {
        1_000 => panic!("the host's function is broken"),
        percent => percent as f64 / 100.0,
    });
    let builder = builder(folder.path(), counts()).passivation(passivation(|p| {
        p.idle_after = None;
        p.pressure = Some(pressure);
    }));
    let runtime = builder.start().await.unwrap();
    let mut sessions = Vec::new();
    for _ in 0..10 {
        sessions.push(create(&runtime, folder.path()).await);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    tokio::time::sleep(10 * MINUTE).await;
    assert_eq!(runtime.awake().len(), 10);

    percent.store(30, Ordering::Relaxed);
    let awake = awake_within(&runtime, 7, 2 * MINUTE).await;
    percent.store(0, Ordering::Relaxed);
    assert!(sessions[3..].iter().all(|session| awake.contains(session.id())));
    percent.store(1_000, Ordering::Relaxed);
    tokio::time::sleep(3 * MINUTE).await;
    assert_eq!(runtime.awake().len(), 7);

    assert_eq!(runtime.shed(5), 2);
    let awake = awake_within(&runtime, 5, MINUTE).await;
    assert!(sessions[5..].iter().all(|session| awake.contains(session.id())));
    assert_eq!(runtime.shed(0), 5);
    awake_within(&runtime, 0, MINUTE).await;
    assert_eq!(runtime.shed(0), 0);
    assert!(runtime.shutdown().await.is_empty());
}

/// Promise 11: how many may be awake at all is bounded, also where all are busy; one more is refused, and told what to do.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn beyond_the_limit_of_awake_sessions_waking_is_refused() {
    let folder = taped::folder();
    let builder = builder(folder.path(), counts()).passivation(passivation(|p| {
        p.idle_after = None;
        p.awake_limit = 3;
    }));
    let runtime = builder.start().await.unwrap();
    let mut sessions = Vec::new();
    for _ in 0..3 {
        sessions.push(create(&runtime, folder.path()).await);
    }
    let refused = runtime.create(super::options(folder.path())).await.unwrap_err();
    assert!(refused.to_string().contains("limit of 3 awake sessions"), "{refused}");
    runtime.passivate(sessions[0].id()).await.unwrap();
    let fourth = create(&runtime, folder.path()).await;
    assert_eq!(ask(&fourth, "here").await, "1");
    let refused = sessions[0].prompt("me too").await.unwrap_err();
    assert!(refused.to_string().contains("limit of 3 awake sessions"), "{refused}");
    runtime.passivate(fourth.id()).await.unwrap();
    assert_eq!(ask(&sessions[0], "me too").await, "1");
    assert!(runtime.shutdown().await.is_empty());
}
