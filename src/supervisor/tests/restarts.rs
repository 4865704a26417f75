//! Rows 24 to 34: which ends lead to a restart.

use super::*;

/// A child of each kind of restart ends like this; says what became of it.
async fn after(restart: Restart, order: Order) -> String {
    let lab = Lab::start(one_for_one()).await;
    lab.put("a", restart).await;
    lab.order("a", order).await;
    let became = lab.list().await;
    lab.end().await;
    became
}

const SHUTDOWNS: [Order; 2] = [Order::Shutdown, Order::ShutdownWith("done for today")];
const ABNORMAL: [Order; 3] = [Order::Fail, Order::Panic, Order::Kill];

#[tokio::test(start_paused = true)]
async fn otp_24_a_permanent_child_that_ends_normally_is_restarted() {
    assert_eq!(after(Restart::Permanent, Order::Return).await, "a2");
}

#[tokio::test(start_paused = true)]
async fn otp_25_a_transient_child_that_ends_normally_is_kept_and_not_restarted() {
    assert_eq!(after(Restart::Transient, Order::Return).await, "a:stopped");
}

#[tokio::test(start_paused = true)]
async fn otp_26_a_temporary_child_that_ends_normally_is_removed() {
    assert_eq!(after(Restart::Temporary, Order::Return).await, "");
}

#[tokio::test(start_paused = true)]
async fn otp_27_a_permanent_child_that_ends_with_a_shutdown_is_restarted() {
    for order in SHUTDOWNS {
        assert_eq!(after(Restart::Permanent, order).await, "a2", "{order:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn otp_28_a_transient_child_that_ends_with_a_shutdown_is_restarted_only_by_hand() {
    for order in SHUTDOWNS {
        let lab = Lab::start(one_for_one()).await;
        lab.put("a", Restart::Transient).await;
        lab.order("a", order).await;
        assert_eq!(lab.list().await, "a:stopped", "{order:?}");
        assert_eq!(lab.sup.restart_child("a").await, Ok(Done::Started));
        assert_eq!(lab.list().await, "a2");
        assert_eq!(lab.registry.crashes(), vec![]);
        lab.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn otp_29_a_temporary_child_that_ends_with_a_shutdown_is_removed_and_its_id_is_free() {
    for order in SHUTDOWNS {
        let lab = Lab::start(one_for_one()).await;
        lab.put("a", Restart::Temporary).await;
        lab.order("a", order).await;
        assert_eq!(lab.list().await, "", "{order:?}");
        lab.put("a", Restart::Temporary).await;
        lab.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn otp_30_a_permanent_child_that_crashes_is_restarted() {
    for order in ABNORMAL {
        assert_eq!(after(Restart::Permanent, order).await, "a2", "{order:?}");
    }
}

/// Killed is abnormal: some supervisors think otherwise.
#[tokio::test(start_paused = true)]
async fn otp_31_a_transient_child_that_crashes_is_restarted() {
    for order in ABNORMAL {
        assert_eq!(after(Restart::Transient, order).await, "a2", "{order:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn otp_32_a_temporary_child_that_crashes_is_removed() {
    for order in ABNORMAL {
        assert_eq!(after(Restart::Temporary, order).await, "", "{order:?}");
    }
}

/// The rows 24 to 32 again, for functions of a host, which end in fewer ways.
#[tokio::test(start_paused = true)]
async fn functions_of_a_host_are_restarted_as_actors_are() {
    let table = [
        (Restart::Permanent, Order::Return, "a2"),
        (Restart::Permanent, Order::Fail, "a2"),
        (Restart::Permanent, Order::Panic, "a2"),
        (Restart::Transient, Order::Return, "a:stopped"),
        (Restart::Transient, Order::Fail, "a2"),
        (Restart::Transient, Order::Panic, "a2"),
        (Restart::Temporary, Order::Fail, ""),
    ];
    for (restart, order, expected) in table {
        let lab = Lab::start(one_for_one()).await;
        lab.add("a", restart).await;
        lab.order("a", order).await;
        assert_eq!(lab.list().await, expected, "{restart:?} {order:?}");
        lab.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn otp_33_a_temporary_bystander_is_neither_restarted_nor_kept() {
    for spec in [one_for_all(), rest_for_one()] {
        let lab = Lab::start(spec).await;
        lab.put("p", Restart::Permanent).await;
        lab.put("t", Restart::Temporary).await;
        lab.children.log();
        lab.order("p", Order::Return).await;
        assert_eq!(lab.children.log(), "-p -t +p");
        assert_eq!(lab.list().await, "p2");
        lab.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn otp_34_crashes_that_are_far_enough_apart_never_exceed_the_intensity() {
    let lab = Lab::start(one_for_one().intensity(Intensity::new(1, SECOND))).await;
    lab.put("a", Restart::Permanent).await;
    for incarnation in 2..20 {
        lab.order("a", Order::Fail).await;
        assert_eq!(lab.list().await, format!("a{incarnation}"));
        tokio::time::sleep(Duration::from_millis(2100)).await;
    }
    // Two in one second are one too many.
    lab.order("a", Order::Fail).await;
    lab.order("a", Order::Fail).await;
    lab.escalated().await;
}
