//! Rows 16 to 18, 44, 49, 63 and 83 to 85: how children are stopped.

use super::*;

/// Asks a supervisor to end, and says how each child did, in that order.
async fn ends(lab: &Lab, count: usize) -> Vec<String> {
    let mut events = lab.registry.watch(None);
    lab.sup.request_shutdown();
    let mut ends = Vec::new();
    while ends.len() < count {
        let event = events.next().await.unwrap();
        // Those of its own, and not of a supervisor below.
        let is_child = event.path.matches('/').count() == 1;
        if let (Happening::Exited { reason, .. }, true) = (event.what, is_child) {
            ends.push(format!("{} {reason}", event.path.rsplit('/').next().unwrap()));
        }
    }
    ends
}

/// The children that were reported, and during what.
fn reported(lab: &Lab) -> Vec<(String, Context)> {
    lab.registry.crashes().iter().map(|crash| (crash.offender.to_string(), crash.context)).collect()
}

#[tokio::test(start_paused = true)]
async fn otp_16_with_infinity_workers_and_supervisors_take_their_time_and_end_with_shutdown() {
    let children = Children::default();
    let hour = 3600 * SECOND;
    let inner = SupervisorSpec::new("inner", Strategy::OneForOne)
        .child(children.slow_puppet("deep", Restart::Permanent, hour).shutdown(Shutdown::Infinity));
    let (inner, _) = ChildSpec::supervisor(inner).unwrap();
    let worker = children.slow_puppet("w", Restart::Permanent, hour).shutdown(Shutdown::Infinity);
    let lab = Lab::with(children, one_for_one().child(worker).child(inner)).await;
    let began = tokio::time::Instant::now();
    assert_eq!(ends(&lab, 2).await, ["inner shutdown: shutdown", "w shutdown: shutdown"]);
    assert!(began.elapsed() >= 2 * hour);
    assert_eq!(reported(&lab), vec![]);
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn otp_17_a_child_that_sleeps_over_its_shutdown_time_is_killed() {
    let children = Children::default();
    let limited =
        |id: &str, linger| children.slow_puppet(id, Restart::Permanent, linger).shutdown(Shutdown::After(SECOND));
    let spec = one_for_one().child(limited("prompt", Duration::ZERO)).child(limited("sleeper", 2 * SECOND));
    let lab = Lab::with(children, spec).await;
    assert_eq!(ends(&lab, 2).await, ["sleeper killed", "prompt shutdown: shutdown"]);
    assert_eq!(reported(&lab), [("sleeper".to_owned(), Context::ShutdownError)]);
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn otp_18_a_child_that_is_to_be_killed_is_killed_at_once_and_that_is_no_error() {
    let children = Children::default();
    let spec = one_for_one()
        .child(children.puppet("a", Restart::Permanent))
        .child(children.slow_puppet("b", Restart::Permanent, 60 * SECOND).shutdown(Shutdown::Kill));
    let lab = Lab::with(children, spec).await;
    let began = tokio::time::Instant::now();
    assert_eq!(ends(&lab, 2).await, ["b killed", "a shutdown: shutdown"]);
    assert!(began.elapsed() < SECOND);
    assert_eq!(reported(&lab), vec![]);
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn otp_44_dynamic_children_are_stopped_side_by_side_and_the_slowest_is_killed_in_its_time() {
    let children = Children::default();
    let lab = Lab::with(children.clone(), dynamic()).await;
    for n in 0..20 {
        let spec = children.slow_puppet(&n.to_string(), Restart::Temporary, 3 * SECOND);
        lab.sup.start_child(spec.shutdown(Shutdown::After(4 * SECOND))).await.unwrap();
    }
    let late = children.slow_puppet("late", Restart::Permanent, 60 * SECOND).shutdown(Shutdown::After(4 * SECOND));
    lab.sup.start_child(late).await.unwrap();
    let began = tokio::time::Instant::now();
    let ends = ends(&lab, 21).await;
    assert_eq!(ends.last().unwrap(), "late killed");
    assert_eq!(ends.iter().filter(|end| end.ends_with(" shutdown: shutdown")).count(), 20);
    lab.end().await;
    // On the paused clock this is exact on any machine.
    assert!((4 * SECOND..5 * SECOND).contains(&began.elapsed()), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn otp_49_a_child_that_cuts_its_link_hangs_nobody() {
    for order in [Order::Return, Order::Panic, Order::Unlink] {
        let lab = Lab::start(one_for_one()).await;
        lab.put("a", Restart::Transient).await;
        lab.order("a", Order::Unlink).await;
        // A later unasked end is seen as well as a requested one.
        lab.order("a", order).await;
        assert_eq!(lab.sup.terminate_child("a").await, Ok(Done::Ok));
        assert_eq!(lab.list().await, "a:stopped");
        lab.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn otp_63_children_start_in_the_order_of_their_specs_and_stop_in_its_reverse() {
    let children = Children::default();
    let spec = ["c", "a", "e", "b", "d"]
        .iter()
        .fold(rest_for_one(), |spec, id| spec.child(children.slow_puppet(id, Restart::Permanent, SECOND)));
    let lab = Lab::with(children.clone(), spec).await;
    assert_eq!(children.log(), "+c +a +e +b +d");
    lab.order("c", Order::Fail).await;
    lab.until("d", 2).await;
    assert_eq!(children.log(), "-c -d -b -e -a +c +a +e +b +d");
    lab.end().await;
    assert_eq!(children.log(), "-d -b -e -a -c");
}

#[tokio::test(start_paused = true)]
async fn otp_83_of_children_with_a_millisecond_each_only_the_slow_one_is_killed() {
    let children = Children::default();
    let lab = Lab::with(children.clone(), dynamic()).await;
    for (id, linger) in [("a", Duration::ZERO), ("slow", SECOND), ("b", Duration::ZERO)] {
        let spec = children.slow_puppet(id, Restart::Permanent, linger);
        lab.sup.start_child(spec.shutdown(Shutdown::After(Duration::from_millis(1)))).await.unwrap();
    }
    let mut ends = ends(&lab, 3).await;
    ends.sort();
    assert_eq!(ends, ["a shutdown: shutdown", "b shutdown: shutdown", "slow killed"]);
    assert_eq!(reported(&lab), [("slow".to_owned(), Context::ShutdownError)]);
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn otp_84_patient_and_brutal_children_side_by_side_end_each_in_its_own_way() {
    let children = Children::default();
    let lab = Lab::with(children.clone(), dynamic()).await;
    for (id, shutdown) in [("patient", Shutdown::Infinity), ("brutal", Shutdown::Kill)] {
        let spec = children.slow_puppet(id, Restart::Permanent, 30 * SECOND).shutdown(shutdown);
        lab.sup.start_child(spec).await.unwrap();
    }
    assert_eq!(ends(&lab, 2).await, ["brutal killed", "patient shutdown: shutdown"]);
    assert_eq!(reported(&lab), vec![]);
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn otp_85_a_permanent_child_that_ends_normally_during_a_shutdown_is_neither_restarted_nor_an_error() {
    let children = Children::default();
    let slow = children.slow_puppet("slow", Restart::Permanent, 9 * SECOND).shutdown(Shutdown::Infinity);
    let early = children.puppet("early", Restart::Permanent);
    let lab = Lab::with(children, one_for_one().child(early).child(slow)).await;
    lab.children.log();
    lab.sup.request_shutdown();
    settle().await;
    lab.order("early", Order::Return).await;
    let (registry, children) = (lab.registry.clone(), lab.children.clone());
    lab.end().await;
    assert_eq!(children.log(), "-early -slow");
    assert_eq!(registry.crashes(), vec![]);
}

/// A host's function that crashes while it stops is reported with what it said, and not as one that stopped.
#[tokio::test(start_paused = true)]
async fn a_crash_over_a_stop_is_not_lost() {
    let dying = |word: &'static str| {
        ChildSpec::new("dying", move |cx| async move {
            cx.stopping().await;
            match word {
                "panic" => panic!("lost my head"),
                _ => Err("lost my file".into()),
            }
        })
    };
    for (word, said) in [("panic", "panic: lost my head"), ("fail", "error: lost my file")] {
        let lab = Lab::start(one_for_one().child(dying(word))).await;
        assert_eq!(ends(&lab, 1).await, [format!("dying {said}")]);
        assert_eq!(reported(&lab), [("dying".to_owned(), Context::ShutdownError)]);
        lab.end().await;
    }
}
