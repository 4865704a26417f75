//! Children that are kept stopped: after too many crashes, by hand, for a time; and common causes.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_dynamic_child_that_crashes_is_restarted_and_its_sibling_is_not_touched() {
    let lab = Lab::start(park_after(2)).await;
    lab.add("a", Restart::Transient).await;
    lab.add("b", Restart::Transient).await;
    lab.crash("a").await;
    lab.until("a", 2).await;
    assert_eq!(lab.list().await, "a2 b1");
    assert_eq!(lab.info("a").await.restarts, 1);
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn the_crash_after_the_last_allowed_one_parks_that_child_and_no_other() {
    let lab = Lab::start(park_after(2)).await;
    lab.add("a", Restart::Transient).await;
    lab.add("b", Restart::Transient).await;
    for incarnation in 2..=3 {
        lab.crash("a").await;
        lab.until("a", incarnation).await;
    }
    lab.crash("a").await;
    lab.until_status("a", Status::Parked).await;
    assert_eq!(lab.info("b").await.status, Status::Running);
    assert_eq!(lab.sup.restart_child("a").await, Err(AdminError::Parked));
    assert_eq!(lab.sup.unpark("a").await, Ok(Done::Started));
    assert_eq!(lab.info("a").await.incarnation, 4);
    let crashes = lab.registry.crashes();
    assert_eq!(crashes.len(), 3);
    assert_eq!(crashes[2].decision, Decision::Park);
    let ExitReason::Panic(panic) = &crashes[2].reason else { panic!("{:?}", crashes[2]) };
    assert_eq!((panic.text.as_str(), panic.place()), ("boom", "unknown"), "nobody opted into a panic hook");
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_child_parked_by_hand_stays_down_until_it_is_unparked() {
    let lab = Lab::start(park_after(2).park_for(60 * SECOND)).await;
    lab.add("a", Restart::Transient).await;
    assert_eq!(lab.sup.park("a").await, Ok(Done::Ok));
    assert_eq!(lab.info("a").await.status, Status::Parked);
    assert_eq!(lab.children.alive(), 0);
    // It is not the one that retries automatically.
    tokio::time::sleep(600 * SECOND).await;
    assert_eq!(lab.list().await, "a:parked");
    assert_eq!(lab.sup.unpark("a").await, Ok(Done::Started));
    assert_eq!(lab.sup.unpark("a").await, Err(AdminError::NotParked));
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_child_parked_after_crashes_tries_again_after_its_time_with_its_crashes_forgotten() {
    let lab = Lab::start(park_after(1).park_for(300 * SECOND)).await;
    lab.put("a", Restart::Permanent).await;
    for _ in 0..2 {
        lab.order("a", Order::Fail).await;
    }
    assert_eq!(lab.list().await, "a:parked");
    tokio::time::sleep(298 * SECOND).await;
    assert_eq!(lab.list().await, "a:parked");
    tokio::time::sleep(3 * SECOND).await;
    assert_eq!(lab.list().await, "a3");
    // One more crash is fine again, and a second parks it again.
    lab.order("a", Order::Fail).await;
    assert_eq!(lab.list().await, "a4");
    lab.order("a", Order::Fail).await;
    assert_eq!(lab.list().await, "a:parked");
    // Who unparks it earlier takes the timer with it; who parks it by hand, too.
    assert_eq!(lab.sup.unpark("a").await, Ok(Done::Started));
    tokio::time::sleep(600 * SECOND).await;
    assert_eq!(lab.list().await, "a5");
    for _ in 0..2 {
        lab.order("a", Order::Fail).await;
    }
    assert_eq!(lab.sup.park("a").await, Ok(Done::Ok));
    tokio::time::sleep(600 * SECOND).await;
    assert_eq!(lab.list().await, "a:parked");
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_parked_child_with_a_timer_can_be_deleted_and_does_not_hold_up_a_shutdown() {
    let lab = Lab::start(park_after(0).park_for(60 * SECOND)).await;
    for id in ["a", "b"] {
        lab.put(id, Restart::Permanent).await;
        lab.order(id, Order::Fail).await;
    }
    assert_eq!(lab.sup.delete_child("a").await, Ok(Done::Ok));
    assert_eq!(lab.list().await, "b:parked");
    tokio::time::sleep(30 * SECOND).await;
    let began = tokio::time::Instant::now();
    lab.end().await;
    assert!(began.elapsed() < SECOND);
}

/// Invariant 13: one poison child counts once in the group, however often it crashes; many different ones are a common cause.
#[tokio::test(start_paused = true)]
async fn invariant_13_one_poison_child_parks_alone_and_a_common_cause_ends_the_group() {
    let spec = || park_after(2).group_intensity(Intensity::new(3, 60 * SECOND));
    let ids = ["a", "b", "c", "d", "e"];
    let lab = Lab::start(spec()).await;
    for id in ids {
        lab.put(id, Restart::Transient).await;
    }
    // Poison: parked, unparked, parked again, ten crashes and more, and no other child notices.
    for _ in 0..4 {
        for _ in 0..3 {
            lab.order("a", Order::Fail).await;
        }
        assert_eq!(lab.list().await, "a:parked b1 c1 d1 e1");
        lab.sup.unpark("a").await.unwrap();
    }
    // Two more are still fine; the fourth different one is a common cause.
    for id in ["b", "c"] {
        lab.order(id, Order::Fail).await;
    }
    assert_eq!(lab.list().await, "a13 b2 c2 d1 e1");
    lab.order("d", Order::Fail).await;
    let crashes = lab.registry.crashes();
    assert_eq!(crashes.last().unwrap().decision, Decision::Escalate);
    lab.escalated().await;

    // The same four, but spread over a longer time than the window, are not a common cause.
    let lab = Lab::start(spec()).await;
    for id in ids {
        lab.put(id, Restart::Transient).await;
    }
    for id in ids {
        lab.order(id, Order::Fail).await;
        tokio::time::sleep(25 * SECOND).await;
    }
    assert_eq!(lab.list().await, "a2 b2 c2 d2 e2");
    lab.end().await;
}
