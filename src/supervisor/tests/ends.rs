//! Starts that fail, restarts, and all the ways down.

use super::*;

fn one_for_one() -> SupervisorSpec {
    SupervisorSpec::new("s", Strategy::OneForOne)
}

#[tokio::test(start_paused = true)]
async fn otp_01_a_supervisor_without_children_starts_and_ends_with_shutdown() {
    let lab = Lab::start(one_for_one()).await;
    let down = lab.end().await;
    assert_eq!(down, Down { reason: ExitReason::Shutdown("shutdown".into()), leftover: vec![] });
}

#[tokio::test(start_paused = true)]
async fn otp_09_76_a_child_that_cannot_start_at_boot_unwinds_the_others_and_names_the_cause() {
    let children = Children::default();
    let spec = one_for_one()
        .child(children.spec("a", Restart::Permanent, Duration::ZERO))
        .child(children.spec("b", Restart::Permanent, Duration::ZERO))
        .child(broken("c"));
    let registry = Registry::new();
    let (inner, _) = ChildSpec::supervisor(spec).unwrap();
    let outer = SupervisorSpec::new("outer", Strategy::OneForOne).child(inner);
    let error = Supervisor::start(outer, &registry).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("child s: ") && text.contains("child c: ") && text.ends_with("no luck"), "{text}");
    assert_eq!(children.take_diary(), ["+a", "+b", "-b", "-a"]);
    assert!(registry.snapshot().is_empty());
}

#[tokio::test(start_paused = true)]
async fn otp_10_12_86_a_start_by_hand_that_fails_or_panics_gives_an_error_and_keeps_nothing() {
    for spec in [one_for_one(), SupervisorSpec::dynamic("s")] {
        let lab = Lab::start(spec).await;
        let refused = lab.sup.start_child(broken("a")).await.unwrap_err();
        assert_eq!(refused, AdminError::StartFailed { reason: ExitReason::StartFailed("no luck".into()) });
        let refused = lab.sup.start_child(panicky("a")).await.unwrap_err();
        assert_eq!(refused, AdminError::StartFailed { reason: ExitReason::StartFailed("panic: no nerve".into()) });
        assert_eq!(lab.sup.count_children().await, Ok(Counts::default()));
        lab.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_start_that_hangs_is_given_up_after_its_timeout_and_can_be_stopped_before() {
    let lab = Lab::start(one_for_one()).await;
    let refused = lab.sup.start_child(hanging("a").start_timeout(Some(Duration::from_secs(3)))).await.unwrap_err();
    assert_eq!(refused, AdminError::StartFailed { reason: ExitReason::StartTimeout });
    let sup = lab.sup.clone();
    let starting = tokio::spawn(async move { sup.start_child(hanging("b").start_timeout(None)).await });
    settle().await;
    assert_eq!(lab.sup.terminate_child("b").await, Ok(Done::Ok));
    assert_eq!(starting.await.unwrap(), Err(AdminError::Stopped));
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn otp_03_06_a_child_that_has_nothing_to_do_is_kept_undefined_or_forgotten() {
    let lab = Lab::start(one_for_one().child(idle("a"))).await;
    assert_eq!(lab.sup.start_child(idle("t").restart(Restart::Temporary)).await, Ok(Done::Ignored));
    let counts = lab.sup.count_children().await.unwrap();
    assert_eq!((counts.specs, counts.active), (1, 0));
    lab.end().await;
    let lab = Lab::start(SupervisorSpec::dynamic("s")).await;
    assert_eq!(lab.sup.start_child(idle("a")).await, Ok(Done::Ignored));
    assert_eq!(lab.sup.count_children().await, Ok(Counts::default()));
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn otp_24_32_restart_types_with_real_actors() {
    let table = [
        (Restart::Permanent, Order::Return, Some(2)),
        (Restart::Permanent, Order::Fail, Some(2)),
        (Restart::Permanent, Order::Panic, Some(2)),
        (Restart::Transient, Order::Return, None),
        (Restart::Transient, Order::Fail, Some(2)),
        (Restart::Transient, Order::Panic, Some(2)),
        (Restart::Temporary, Order::Fail, None),
    ];
    for (restart, order, incarnation) in table {
        let lab = Lab::start(one_for_one()).await;
        lab.add("a", restart).await;
        lab.children.order("a", order);
        tokio::time::sleep(Duration::from_secs(1)).await;
        match incarnation {
            Some(incarnation) => lab.until("a", incarnation).await,
            None => assert_eq!(lab.sup.count_children().await.unwrap().active, 0),
        }
        lab.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn otp_35_one_crash_too_many_ends_the_supervisor_and_its_other_children() {
    let lab = Lab::start(one_for_one().intensity(Intensity::new(2, Duration::from_secs(10)))).await;
    lab.add("a", Restart::Permanent).await;
    lab.add("b", Restart::Permanent).await;
    for incarnation in 2..=3 {
        lab.crash("a").await;
        lab.until("a", incarnation).await;
    }
    assert_eq!(lab.info("b").await.incarnation, 1);
    lab.crash("a").await;
    let down = lab.sup.ended().await;
    assert_eq!(down.reason, ExitReason::Shutdown("too many restarts, the last of a: panic: boom".into()));
    assert_eq!(lab.sup.count_children().await, Err(AdminError::Gone));
    assert_eq!(lab.registry.crashes().last().unwrap().decision, Decision::Escalate);
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn otp_37_63_one_for_all_with_real_actors_keeps_the_order_both_ways() {
    let children = Children::default();
    let spec = ["c", "a", "b"].iter().fold(SupervisorSpec::new("s", Strategy::OneForAll), |spec, id| {
        spec.child(children.spec(id, Restart::Permanent, Duration::from_millis(10)))
    });
    let lab = Lab::with(children, spec).await;
    lab.crash("a").await;
    lab.until("b", 2).await;
    assert_eq!(lab.children.take_diary(), ["+c", "+a", "+b", "-a", "-b", "-c", "+c", "+a", "+b"]);
    let children = lab.children.clone();
    lab.end().await;
    assert_eq!(children.take_diary(), ["-b", "-a", "-c"]);
}

#[tokio::test(start_paused = true)]
async fn otp_17_18_83_84_each_child_ends_in_its_own_way() {
    let children = Children::default();
    let second = Duration::from_secs(1);
    let spec = one_for_one()
        .child(children.spec("patient", Restart::Permanent, 30 * second).shutdown(Shutdown::Infinity))
        .child(children.spec("late", Restart::Permanent, 5 * second).shutdown(Shutdown::After(second)))
        .child(children.spec("prompt", Restart::Permanent, Duration::ZERO).shutdown(Shutdown::After(second)))
        .child(children.spec("brutal", Restart::Permanent, 5 * second).shutdown(Shutdown::Kill));
    let lab = Lab::with(children, spec).await;
    let mut events = lab.sup.subscribe();
    lab.sup.request_shutdown();
    let mut ends = Vec::new();
    while ends.len() < 4 {
        if let Some(SupervisorEvent::Exited { id, reason, .. }) = events.next().await {
            ends.push(format!("{id} {reason}"));
        }
    }
    let expected = ["brutal killed", "prompt shutdown: shutdown", "late killed", "patient shutdown: shutdown"];
    assert_eq!(ends, expected);
    // The one that was killed although it had time is a report, the one that had none is not.
    let crashes = lab.registry.crashes();
    assert_eq!(crashes.iter().map(|crash| crash.offender.as_str()).collect::<Vec<_>>(), ["late"]);
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn otp_44_dynamic_children_are_stopped_side_by_side() {
    let children = Children::default();
    let lab = Lab::with(children.clone(), SupervisorSpec::dynamic("s")).await;
    for n in 0..20 {
        let spec = children.spec(&n.to_string(), Restart::Temporary, Duration::from_secs(3));
        lab.sup.start_child(spec).await.unwrap();
    }
    settle().await;
    let began = tokio::time::Instant::now();
    lab.end().await;
    // On the paused clock this is exact, whatever the machine does.
    assert!(began.elapsed() < Duration::from_secs(4));
}

#[tokio::test(start_paused = true)]
async fn otp_50_in_a_tree_static_children_return_after_an_escalation_and_dynamic_ones_do_not() {
    let children = Children::default();
    let inner = SupervisorSpec::new("inner", Strategy::OneForOne)
        .intensity(Intensity::new(0, Duration::from_secs(1)))
        .child(children.spec("static", Restart::Permanent, Duration::ZERO));
    let (inner, inner_handle) = ChildSpec::supervisor(inner).unwrap();
    let sibling = children.spec("sibling", Restart::Permanent, Duration::ZERO);
    let lab = Lab::with(children.clone(), one_for_one().child(inner).child(sibling)).await;
    inner_handle.start_child(children.spec("dynamic", Restart::Permanent, Duration::ZERO)).await.unwrap();
    settle().await;
    children.order("dynamic", Order::Panic);
    lab.until("inner", 2).await;
    let listed = inner_handle.which_children().await.unwrap();
    assert_eq!(listed.iter().map(|info| info.id.as_str()).collect::<Vec<_>>(), ["static"]);
    assert_eq!(lab.info("sibling").await.incarnation, 1);
    assert_eq!(lab.sup.count_children().await.unwrap().supervisors, 1);
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn otp_85_a_permanent_child_that_ends_normally_during_shutdown_is_no_error() {
    let children = Children::default();
    let slow = children.spec("slow", Restart::Permanent, Duration::from_secs(9)).shutdown(Shutdown::Infinity);
    let early = children.spec("early", Restart::Permanent, Duration::ZERO);
    let lab = Lab::with(children, one_for_one().child(early).child(slow)).await;
    lab.sup.request_shutdown();
    settle().await;
    lab.children.order("early", Order::Return);
    let registry = lab.registry.clone();
    lab.end().await;
    assert_eq!(registry.crashes(), vec![]);
}

#[tokio::test(start_paused = true)]
async fn otp_66_a_significant_child_that_ends_takes_its_supervisor_down_in_order() {
    let children = Children::default();
    let spec = one_for_one()
        .auto_shutdown(AutoShutdown::AnySignificant)
        .child(children.spec("a", Restart::Permanent, Duration::ZERO))
        .child(children.spec("b", Restart::Transient, Duration::ZERO).significant());
    let lab = Lab::with(children, spec).await;
    lab.children.order("b", Order::Return);
    assert_eq!(lab.sup.ended().await.reason, ExitReason::Shutdown("significant children ended".into()));
    assert_eq!(lab.children.take_diary(), ["+a", "+b", "-b", "-a"]);
    lab.end().await;
}
