//! Rows 64 to 73 but 72: supervisors that end with their significant children.

use AutoShutdown::{AllSignificant, AnySignificant, Never};

use super::*;

const ENDS: [Order; 5] = [Order::Return, Order::Shutdown, Order::Fail, Order::Panic, Order::Kill];
const STRATEGIES: [fn() -> SupervisorSpec; 3] = [one_for_one, one_for_all, rest_for_one];

/// A supervisor with a bystander `p` and these children.
async fn with(spec: SupervisorSpec, children: &[(&str, Restart, bool)]) -> Lab {
    let lab = Lab::start(spec).await;
    for (id, restart, significant) in children {
        let spec = lab.children.puppet(id, *restart);
        let spec = if *significant { spec.significant() } else { spec };
        assert_eq!(lab.sup.start_child(spec).await, Ok(Done::Started));
    }
    lab.put("p", Restart::Permanent).await;
    lab
}

/// The supervisor has ended on its own.
async fn is_down(lab: Lab) {
    assert_eq!(lab.sup.ended().await.reason, ExitReason::Shutdown("significant children ended".into()));
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn otp_64_a_temporary_child_that_is_not_significant_ends_nobody() {
    for mode in [Never, AnySignificant, AllSignificant] {
        for order in ENDS {
            let lab = with(one_for_one().auto_shutdown(mode), &[("a", Restart::Temporary, false)]).await;
            lab.order("a", order).await;
            assert_eq!(lab.list().await, "p1", "{mode:?} {order:?}");
            lab.end().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn otp_65_a_transient_child_that_is_not_significant_ends_nobody_and_is_restarted_after_crashes() {
    for mode in [Never, AnySignificant, AllSignificant] {
        for order in ENDS {
            let lab = with(one_for_one().auto_shutdown(mode), &[("a", Restart::Transient, false)]).await;
            lab.order("a", order).await;
            let expected = if matches!(order, Order::Return | Order::Shutdown) { "a:stopped p1" } else { "a2 p1" };
            assert_eq!(lab.list().await, expected, "{mode:?} {order:?}");
            lab.end().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn otp_66_a_significant_temporary_child_takes_its_supervisor_with_it_but_not_when_it_is_terminated() {
    for order in ENDS {
        let lab = with(one_for_one().auto_shutdown(AnySignificant), &[("a", Restart::Temporary, true)]).await;
        lab.order("a", order).await;
        is_down(lab).await;
    }
    let lab = with(one_for_one().auto_shutdown(AnySignificant), &[("a", Restart::Temporary, true)]).await;
    lab.sup.terminate_child("a").await.unwrap();
    quiet().await;
    assert_eq!(lab.list().await, "p1");
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn otp_67_with_all_significant_the_first_end_is_not_enough_and_the_second_is() {
    for order in ENDS {
        let two = [("a", Restart::Temporary, true), ("b", Restart::Temporary, true)];
        let lab = with(one_for_one().auto_shutdown(AllSignificant), &two).await;
        lab.order("a", order).await;
        assert_eq!(lab.list().await, "b1 p1", "{order:?}");
        lab.order("b", order).await;
        is_down(lab).await;
    }
}

#[tokio::test(start_paused = true)]
async fn otp_68_a_significant_transient_child_is_restarted_after_a_crash_and_ends_its_supervisor_when_it_is_done() {
    for order in ENDS {
        let lab = with(one_for_one().auto_shutdown(AnySignificant), &[("a", Restart::Transient, true)]).await;
        lab.order("a", order).await;
        if matches!(order, Order::Return | Order::Shutdown) {
            is_down(lab).await;
        } else {
            assert_eq!(lab.list().await, "a2 p1", "{order:?}");
            lab.end().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn otp_69_a_dynamic_supervisor_that_would_end_with_its_children_is_refused() {
    for mode in [AnySignificant, AllSignificant] {
        let refused = Supervisor::start(dynamic().auto_shutdown(mode), &Registry::new()).await.unwrap_err();
        assert_eq!(refused, TreeError::BadSpec(BadSpec::AutoShutdownOfDynamic));
    }
    let lab = Lab::start(dynamic()).await;
    let spec = lab.children.puppet("a", Restart::Transient).significant();
    let refused = BadSpec::SignificantWithoutAutoShutdown { id: "a".into() };
    assert_eq!(lab.sup.start_child(spec).await, Err(AdminError::BadSpec(refused)));
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn otp_70_a_significant_child_that_is_stopped_for_a_siblings_restart_ends_nobody() {
    for (strategy, expected) in STRATEGIES.into_iter().zip(["first2 s1 p1", "first2 s2 p2", "first2 s2 p2"]) {
        let spec = strategy().auto_shutdown(AnySignificant);
        let children = [("first", Restart::Permanent, false), ("s", Restart::Transient, true)];
        let lab = with(spec, &children).await;
        lab.order("first", Order::Fail).await;
        assert_eq!(lab.list().await, expected);
        lab.order("s", Order::Return).await;
        is_down(lab).await;
    }
}

#[tokio::test(start_paused = true)]
async fn otp_71_an_automatic_shutdown_goes_up_only_where_the_inner_supervisor_is_significant() {
    for is_significant in [true, false] {
        let children = Children::default();
        let inner = SupervisorSpec::new("inner", Strategy::OneForOne)
            .auto_shutdown(AnySignificant)
            .child(children.puppet("a", Restart::Transient).significant());
        let (inner, _) = ChildSpec::supervisor(inner).unwrap();
        let inner = inner.restart(Restart::Transient);
        let inner = if is_significant { inner.significant() } else { inner };
        let spec = one_for_one().auto_shutdown(AnySignificant).child(inner);
        let lab = Lab::with(children.clone(), spec.child(children.puppet("p", Restart::Permanent))).await;
        lab.order("a", Order::Return).await;
        if is_significant {
            is_down(lab).await;
        } else {
            assert_eq!(lab.list().await, "inner:stopped p1");
            lab.end().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn otp_73_a_significant_child_where_nobody_pays_attention_is_refused() {
    let refused = BadSpec::SignificantWithoutAutoShutdown { id: "a".into() };
    let children = Children::default();
    for strategy in STRATEGIES {
        let child = children.puppet("a", Restart::Transient).significant();
        let error = Supervisor::start(strategy().child(child), &Registry::new()).await.unwrap_err();
        assert_eq!(error, TreeError::BadSpec(refused.clone()));
        let lab = Lab::start(strategy()).await;
        let child = lab.children.puppet("a", Restart::Temporary).significant();
        assert_eq!(lab.sup.start_child(child).await, Err(AdminError::BadSpec(refused.clone())));
        lab.end().await;
    }
}
