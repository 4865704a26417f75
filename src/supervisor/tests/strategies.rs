//! Rows 35 to 43, 45 to 48, 50, 76 and 81: strategies, escalation, trees.

use super::*;

/// A supervisor that may restart twice, with permanent puppets of these names; the diary is empty.
async fn with(spec: SupervisorSpec, ids: &[&str]) -> Lab {
    let lab = Lab::start(spec.intensity(at_most(2))).await;
    for id in ids {
        lab.put(id, Restart::Permanent).await;
    }
    lab.children.log();
    lab
}

/// The first starts of a puppet set to fail do fail; then it works again. Counted by the diary.
async fn failing_once(lab: &Lab, id: &str) {
    let (children, name) = (lab.children.clone(), id.to_owned());
    lab.children.begins(id, Beginning::Fails);
    let mut events = lab.registry.watch(None);
    tokio::spawn(async move {
        while let Some(event) = events.next().await {
            let failed = matches!(event.what, Happening::Exited { reason: ExitReason::StartFailed(_), .. });
            if failed && event.path.ends_with(&format!("/{name}")) {
                return children.begins(&name, Beginning::Works);
            }
        }
    });
    settle().await;
}

#[tokio::test(start_paused = true)]
async fn otp_35_one_for_one_restarts_only_the_one_and_ends_with_the_third_crash_in_the_window() {
    let lab = with(one_for_one(), &["a", "b"]).await;
    for _ in 0..2 {
        lab.order("a", Order::Panic).await;
    }
    assert_eq!(lab.list().await, "a3 b1");
    assert_eq!(lab.children.log(), "-a +a -a +a");
    lab.children.order("a", Order::Panic);
    let down = lab.sup.ended().await;
    assert_eq!(down.reason, ExitReason::Shutdown("too many restarts, the last of a: panic: boom".into()));
    assert_eq!(lab.children.log(), "-a -b");
    assert_eq!(lab.sup.count_children().await, Err(AdminError::Gone));
    assert_eq!(lab.registry.crashes().last().unwrap().decision, Decision::Escalate);
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn otp_36_one_for_one_a_restart_that_always_fails_ends_the_supervisor() {
    let lab = with(one_for_one(), &["a", "b"]).await;
    lab.children.begins("a", Beginning::Fails);
    lab.order("a", Order::Fail).await;
    assert_eq!(lab.children.log(), "-a !a !a -b");
    lab.escalated().await;
}

#[tokio::test(start_paused = true)]
async fn otp_37_one_for_all_restarts_all_and_ends_with_the_third_event() {
    let lab = with(one_for_all(), &["a", "b", "c"]).await;
    lab.order("b", Order::Fail).await;
    assert_eq!(lab.children.log(), "-b -c -a +a +b +c");
    assert_eq!(lab.list().await, "a2 b2 c2");
    // One event counts once, however many it restarts.
    lab.order("c", Order::Fail).await;
    assert_eq!(lab.list().await, "a3 b3 c3");
    lab.order("a", Order::Fail).await;
    lab.escalated().await;
}

#[tokio::test(start_paused = true)]
async fn otp_38_one_for_all_a_restart_that_always_fails_ends_the_supervisor() {
    let lab = with(one_for_all(), &["a", "b"]).await;
    lab.children.begins("b", Beginning::Fails);
    lab.order("b", Order::Fail).await;
    assert_eq!(lab.children.log(), "-b -a +a !b -a +a !b -a");
    lab.escalated().await;
}

#[tokio::test(start_paused = true)]
async fn otp_39_one_for_all_starts_over_when_a_later_child_cannot_start() {
    let lab = with(one_for_all(), &["a", "b"]).await;
    failing_once(&lab, "b").await;
    lab.order("a", Order::Fail).await;
    assert_eq!(lab.children.log(), "-a -b +a !b -a +a +b");
    assert_eq!(lab.list().await, "a3 b3");
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn otp_40_rest_for_one_leaves_the_earlier_children_alone() {
    let lab = with(rest_for_one(), &["a", "b", "c"]).await;
    lab.order("b", Order::Fail).await;
    assert_eq!(lab.children.log(), "-b -c +b +c");
    assert_eq!(lab.list().await, "a1 b2 c2");
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn otp_41_rest_for_one_a_restart_that_always_fails_ends_the_supervisor() {
    let lab = with(rest_for_one(), &["a", "b"]).await;
    lab.children.begins("a", Beginning::Fails);
    lab.order("a", Order::Fail).await;
    assert_eq!(lab.children.log(), "-a -b !a !a");
    lab.escalated().await;
}

#[tokio::test(start_paused = true)]
async fn otp_42_rest_for_one_tries_only_the_later_child_again_that_cannot_start() {
    let lab = with(rest_for_one(), &["a", "b", "c"]).await;
    failing_once(&lab, "c").await;
    lab.order("b", Order::Fail).await;
    assert_eq!(lab.children.log(), "-b -c +b !c +c");
    assert_eq!(lab.list().await, "a1 b2 c3");
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn otp_43_a_dynamic_supervisor_restarts_the_one_and_ends_over_the_limit() {
    let lab = with(dynamic(), &["a", "b"]).await;
    lab.order("a", Order::Fail).await;
    assert_eq!(lab.list().await, "a2 b1");
    lab.order("b", Order::Fail).await;
    lab.order("a", Order::Fail).await;
    lab.escalated().await;
}

#[tokio::test(start_paused = true)]
async fn otp_45_a_restart_gets_what_the_first_start_got() {
    let lab = Lab::start(dynamic()).await;
    let given = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    for extra in ["red", "blue"] {
        let given = given.clone();
        let spec = ChildSpec::with_start(extra, move |cx| {
            given.lock().unwrap().push(format!("{extra} {}", cx.incarnation()));
            let fails = cx.incarnation() == 1;
            async move {
                Ok(Start::run(async move {
                    tokio::time::sleep(SECOND).await;
                    if fails {
                        return Err("once".into());
                    }
                    cx.stopping().await;
                    Ok(())
                }))
            }
        });
        lab.sup.start_child(spec).await.unwrap();
    }
    tokio::time::sleep(3 * SECOND).await;
    assert_eq!(*given.lock().unwrap(), ["red 1", "blue 1", "red 2", "blue 2"]);
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn otp_46_a_dynamic_child_whose_restart_always_fails_ends_the_supervisor() {
    let lab = with(dynamic(), &["a", "b"]).await;
    lab.children.begins("a", Beginning::Fails);
    lab.order("a", Order::Fail).await;
    assert_eq!(lab.children.log(), "-a !a !a -b");
    lab.escalated().await;
}

#[tokio::test(start_paused = true)]
async fn otp_47_a_killed_dynamic_child_whose_restart_ignores_is_removed() {
    for restart in [Restart::Permanent, Restart::Transient, Restart::Temporary] {
        let lab = Lab::start(dynamic()).await;
        lab.put("a", restart).await;
        lab.put("b", Restart::Permanent).await;
        lab.children.begins("a", Beginning::Ignores);
        lab.order("a", Order::Kill).await;
        assert_eq!(lab.list().await, "b1", "{restart:?}");
        assert_eq!(lab.counts().await, [1, 1, 0, 1]);
        lab.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn otp_48_after_the_first_temporary_child_has_died_the_books_of_the_others_are_in_order() {
    let lab = Lab::start(dynamic()).await;
    lab.put("first", Restart::Temporary).await;
    let one = lab.sup.kept().await.unwrap();
    lab.order("first", Order::Return).await;
    let none = lab.sup.kept().await.unwrap();
    for id in ["a", "b", "c"] {
        let argument = std::sync::Arc::new(());
        let held = std::sync::Arc::downgrade(&argument);
        let spec = ChildSpec::new(id, move |cx| {
            let _used = argument.clone();
            async move {
                cx.stopping().await;
                Ok(())
            }
        });
        lab.sup.start_child(spec.restart(Restart::Temporary)).await.unwrap();
        quiet().await;
        assert_eq!(held.strong_count(), 0, "{id} is never started again, and what its start held is gone");
    }
    assert_eq!(lab.sup.kept().await.unwrap() - none, 3 * (one - none));
    assert_eq!(lab.registry.crashes(), vec![], "a normal end is no noise");
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn otp_50_in_a_tree_static_children_return_after_an_escalation_and_dynamic_ones_do_not() {
    let children = Children::default();
    let inner = SupervisorSpec::new("inner", Strategy::OneForOne)
        .intensity(Intensity::new(1, 10 * SECOND))
        .child(children.puppet("static", Restart::Permanent));
    let (inner, inner_handle) = ChildSpec::supervisor(inner).unwrap();
    let sibling = children.puppet("sibling", Restart::Permanent);
    let lab = Lab::with(children, one_for_one().child(inner).child(sibling)).await;
    inner_handle.start_child(lab.children.puppet("dynamic", Restart::Permanent)).await.unwrap();
    lab.children.log();
    lab.order("dynamic", Order::Panic).await;
    assert_eq!(lab.children.log(), "-dynamic +dynamic", "only the crashed one restarts");
    lab.order("dynamic", Order::Panic).await;
    assert_eq!(lab.list().await, "inner2 sibling1");
    assert_eq!(lab.children.log(), "-dynamic -static +static");
    let listed = inner_handle.which_children().await.unwrap();
    assert_eq!(listed.iter().map(|info| info.id.as_str()).collect::<Vec<_>>(), ["static"]);
    assert_eq!(lab.counts().await, [2, 2, 1, 1]);
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn otp_76_a_boot_that_fails_deep_in_the_tree_is_unwound_and_its_error_carries_the_whole_chain() {
    let children = Children::default();
    children.begins("c", Beginning::Fails);
    let deep = SupervisorSpec::new("deep", Strategy::OneForOne)
        .child(children.puppet("b", Restart::Permanent))
        .child(children.puppet("c", Restart::Permanent))
        .child(children.puppet("never", Restart::Permanent));
    let (deep, _) = ChildSpec::supervisor(deep).unwrap();
    let middle = SupervisorSpec::new("middle", Strategy::OneForOne).child(children.puppet("a", Restart::Permanent));
    let (middle, _) = ChildSpec::supervisor(middle.child(deep)).unwrap();
    let registry = Registry::new();
    let error = Supervisor::start(SupervisorSpec::new("root", Strategy::OneForOne).child(middle), &registry).await;
    let text = error.unwrap_err().to_string();
    assert_eq!(text, "the supervisor did not start: failed to start: child middle: child deep: child c: no luck");
    assert_eq!(children.log(), "+a +b !c -b -a");
    assert!(registry.snapshot().is_empty());
    let told: Vec<_> =
        registry.crashes().iter().map(|crash| format!("{}/{}", crash.supervisor, crash.offender)).collect();
    assert_eq!(told, ["root/middle/deep/c", "root/middle/deep", "root/middle"]);
}

/// A child that was up, crashes and cannot come up again while a later one is still starting: that is not a failed boot.
#[tokio::test(start_paused = true)]
async fn a_restart_that_fails_during_the_boot_is_tried_again() {
    let children = Children::default();
    let tries = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let early = ChildSpec::with_start("early", move |cx| {
        let n = tries.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        async move {
            if n == 1 {
                return Err("once".into());
            }
            Ok(Start::run(async move {
                if n == 0 {
                    return Err("at once".into());
                }
                cx.stopping().await;
                Ok(())
            }))
        }
    });
    let slow = ChildSpec::with_start("slow", |cx| async move {
        tokio::time::sleep(SECOND).await;
        Ok(Start::run(async move {
            cx.stopping().await;
            Ok(())
        }))
    });
    let lab = Lab::with(children, one_for_one().child(early).child(slow)).await;
    assert_eq!(lab.list().await, "early3 slow1");
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn otp_81_a_child_whose_restart_fails_for_ever_ends_the_supervisor_with_shutdown() {
    let wait = Backoff { min: SECOND, max: SECOND, jitter: 0.0, ..Backoff::default() };
    let lab = Lab::start(dynamic().backoff(wait).intensity(at_most(5))).await;
    lab.put("a", Restart::Permanent).await;
    lab.children.begins("a", Beginning::Fails);
    lab.order("a", Order::Fail).await;
    tokio::time::sleep(20 * SECOND).await;
    assert_eq!(lab.children.log(), "+a -a !a !a !a !a !a");
    lab.escalated().await;
}
