//! Rows 54 to 57 and 59 to 61: what is kept of children, what many of them cost, and restarts that do not succeed.

use std::sync::{Arc, Weak};

use super::*;

/// A child that holds something large, and a check whether it is still held.
fn holding(id: &str, restart: Restart) -> (ChildSpec, Weak<Vec<u8>>) {
    let large = Arc::new(vec![0; 1 << 20]);
    let held = Arc::downgrade(&large);
    let spec = ChildSpec::new(id, move |cx| {
        let _read = large.len();
        async move {
            cx.stopping().await;
            Ok(())
        }
    });
    (spec.restart(restart), held)
}

#[tokio::test(start_paused = true)]
async fn otp_54_temporary_children_keep_nothing_of_their_start_and_others_do() {
    for spec in [one_for_one(), one_for_all(), rest_for_one(), dynamic()] {
        let lab = Lab::start(spec).await;
        let table = [(Restart::Temporary, 0), (Restart::Transient, 1), (Restart::Permanent, 1)];
        for (restart, expected) in table {
            let (spec, held) = holding(&format!("{restart:?}"), restart);
            lab.sup.start_child(spec).await.unwrap();
            quiet().await;
            assert_eq!(held.strong_count(), expected, "{restart:?}");
        }
        lab.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn otp_55_the_id_of_a_temporary_child_is_free_after_each_kind_of_end_and_others_stay_known() {
    for spec in [one_for_one, one_for_all, rest_for_one] {
        for order in [Some(Order::Return), Some(Order::Shutdown), Some(Order::Fail), Some(Order::Kill), None] {
            let lab = Lab::start(spec()).await;
            lab.put("t", Restart::Temporary).await;
            match order {
                Some(order) => lab.order("t", order).await,
                None => drop(lab.sup.terminate_child("t").await),
            }
            assert_eq!(lab.list().await, "", "{order:?}");
            lab.put("t", Restart::Temporary).await;
            lab.end().await;
        }
        for restart in [Restart::Permanent, Restart::Transient] {
            let lab = Lab::start(spec()).await;
            lab.put("a", restart).await;
            lab.sup.terminate_child("a").await.unwrap();
            let again = lab.sup.start_child(lab.children.puppet("a", restart)).await;
            assert_eq!(again, Err(AdminError::AlreadyPresent));
            lab.end().await;
        }
    }
}

/// How many messages a supervisor handles for so many children, from their start to its end.
async fn handled(spec: SupervisorSpec, restart: Restart, count: u64) -> u64 {
    let lab = Lab::start(spec).await;
    for n in 0..count {
        lab.put(&n.to_string(), restart).await;
    }
    for n in 0..count {
        lab.sup.terminate_child(n.to_string()).await.unwrap();
    }
    let handled = lab.registry.snapshot()[0].handled;
    lab.end().await;
    handled
}

/// Counted in messages, not in time; the work of one message does not grow, as the planner's own test counts.
#[tokio::test(start_paused = true)]
async fn otp_56_ten_times_as_many_temporary_children_cost_ten_times_as_much() {
    let (few, many) =
        (handled(dynamic(), Restart::Temporary, 100).await, handled(dynamic(), Restart::Temporary, 1000).await);
    assert!(many.abs_diff(10 * few) <= 100, "{few} and {many}");
}

#[tokio::test(start_paused = true)]
async fn otp_57_ten_times_as_many_ordinary_children_cost_ten_times_as_much() {
    for spec in [one_for_one, dynamic] {
        let (few, many) =
            (handled(spec(), Restart::Permanent, 100).await, handled(spec(), Restart::Permanent, 1000).await);
        assert!(many.abs_diff(10 * few) <= 100, "{few} and {many}");
    }
}

/// A supervisor whose children wait a second between tries, with the puppets a, b and c; b is in a loop of failing restarts.
async fn looping(spec: SupervisorSpec) -> Lab {
    let wait = Backoff { min: SECOND, max: SECOND, jitter: 0.0, ..Backoff::default() };
    let lab = Lab::start(spec.backoff(wait).intensity(Intensity::new(1000, SECOND))).await;
    for id in ["a", "b", "c"] {
        lab.put(id, Restart::Permanent).await;
    }
    lab.children.begins("b", Beginning::Fails);
    lab.order("b", Order::Fail).await;
    tokio::time::sleep(5 * SECOND).await;
    lab
}

async fn refuses_but_terminates(lab: &Lab) {
    assert!(lab.info("b").await.restarting);
    assert_eq!(lab.sup.restart_child("b").await, Err(AdminError::Restarting));
    assert_eq!(lab.sup.delete_child("b").await, Err(AdminError::Restarting));
    assert_eq!(lab.sup.terminate_child("b").await, Ok(Done::Ok));
}

#[tokio::test(start_paused = true)]
async fn otp_59_a_child_in_a_loop_of_failing_restarts_is_shown_refused_and_can_be_stopped() {
    let lab = looping(one_for_one()).await;
    assert_eq!(lab.list().await, "a1 b:back-off c1");
    refuses_but_terminates(&lab).await;
    assert_eq!(lab.list().await, "a1 b:stopped c1");
    lab.end().await;
    // The supervisor can go down in the middle of it.
    looping(one_for_one()).await.end().await;
}

#[tokio::test(start_paused = true)]
async fn otp_60_under_rest_for_one_the_later_child_waits_and_the_earlier_keeps_its_life() {
    let lab = looping(rest_for_one()).await;
    assert_eq!(lab.list().await, "a1 b:back-off c:stopped");
    assert!(!lab.info("c").await.restarting);
    refuses_but_terminates(&lab).await;
    quiet().await;
    // Nothing holds the later child back any more.
    assert_eq!(lab.list().await, "a1 b:stopped c2");
    lab.end().await;
    looping(rest_for_one()).await.end().await;
}

#[tokio::test(start_paused = true)]
async fn otp_61_a_dynamic_child_in_a_loop_of_failing_restarts_can_be_stopped_and_is_gone() {
    let lab = looping(dynamic()).await;
    assert_eq!(lab.list().await, "a1 b:back-off c1");
    refuses_but_terminates(&lab).await;
    assert_eq!(lab.list().await, "a1 c1");
    lab.end().await;
    looping(dynamic()).await.end().await;
}
