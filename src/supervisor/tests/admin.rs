//! Administration and observation.

use super::*;

#[tokio::test(start_paused = true)]
async fn otp_19_child_adm_every_call_in_every_state() {
    let lab = Lab::start(SupervisorSpec::new("s", Strategy::OneForOne)).await;
    lab.add("a", Restart::Permanent).await;
    let spec = || lab.children.spec("a", Restart::Permanent, Duration::ZERO);
    assert_eq!(lab.sup.start_child(spec()).await, Err(AdminError::AlreadyStarted));
    assert_eq!(lab.sup.restart_child("a").await, Err(AdminError::Running));
    assert_eq!(lab.sup.delete_child("a").await, Err(AdminError::Running));
    assert_eq!(lab.sup.terminate_child("a").await, Ok(Done::Ok));
    assert_eq!(lab.sup.terminate_child("a").await, Ok(Done::Ok));
    assert_eq!(lab.sup.start_child(spec()).await, Err(AdminError::AlreadyPresent));
    assert_eq!(lab.info("a").await.status, Status::Stopped);
    assert_eq!(lab.sup.restart_child("a").await, Ok(Done::Started));
    assert_eq!(lab.sup.terminate_child("a").await, Ok(Done::Ok));
    assert_eq!(lab.sup.delete_child("a").await, Ok(Done::Ok));
    for refused in [
        lab.sup.delete_child("a").await,
        lab.sup.restart_child("a").await,
        lab.sup.terminate_child("a").await,
        lab.sup.unpark("a").await,
    ] {
        assert_eq!(refused, Err(AdminError::NotFound));
    }
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn otp_20_a_dynamic_child_that_is_terminated_is_gone() {
    let lab = Lab::start(SupervisorSpec::dynamic("s")).await;
    lab.add("a", Restart::Permanent).await;
    assert_eq!(lab.sup.terminate_child("a").await, Ok(Done::Ok));
    assert_eq!(lab.sup.terminate_child("a").await, Err(AdminError::NotFound));
    lab.add("a", Restart::Permanent).await;
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn otp_21_23_69_73_specs_that_cannot_run_are_refused_each_with_its_own_error() {
    let child = |id: &str| Children::default().spec(id, Restart::Transient, Duration::ZERO);
    let zero = Intensity::new(1, Duration::ZERO);
    let ordered = || SupervisorSpec::new("s", Strategy::OneForOne);
    let any = AutoShutdown::AnySignificant;
    let table = [
        (ordered().child(child("a")).child(child("a")), BadSpec::DuplicateId { id: "a".into() }),
        (ordered().intensity(zero), BadSpec::ZeroPeriod),
        (ordered().on_exhausted(OnExhausted::Park), BadSpec::ParkInOrdered),
        (SupervisorSpec::dynamic("s").auto_shutdown(any), BadSpec::AutoShutdownOfDynamic),
        (ordered().child(child("a").significant()), BadSpec::SignificantWithoutAutoShutdown { id: "a".into() }),
        (
            ordered().auto_shutdown(any).child(child("a").restart(Restart::Permanent).significant()),
            BadSpec::SignificantPermanent { id: "a".into() },
        ),
    ];
    for (spec, expected) in table {
        let refused = Supervisor::start(spec, &Registry::new()).await.unwrap_err();
        assert_eq!(refused, StartError::BadSpec(expected));
    }
}

#[tokio::test(start_paused = true)]
async fn otp_51_75_listing_look_up_and_counts_agree() {
    let lab = Lab::start(SupervisorSpec::dynamic("s")).await;
    for n in 0..200 {
        lab.add(&n.to_string(), Restart::Temporary).await;
    }
    let counts = Counts { specs: 200, active: 200, supervisors: 0, workers: 200 };
    assert_eq!(lab.sup.count_children().await, Ok(counts));
    let listed = lab.sup.which_children().await.unwrap();
    assert_eq!(listed.len(), 200);
    for info in listed {
        assert_eq!(lab.info(info.id.as_str()).await.status, info.status);
        lab.children.order(info.id.as_str(), Order::Fail);
    }
    settle().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(lab.sup.count_children().await, Ok(Counts::default()));
    // Ended children leave nothing but the supervisor itself in the tree.
    assert_eq!(lab.registry.snapshot()[0].children, vec![]);
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn otp_78_79_max_children_counts_those_that_wait_for_a_restart() {
    let none = Lab::start(SupervisorSpec::dynamic("s").max_children(0)).await;
    let spec = none.children.spec("a", Restart::Permanent, Duration::ZERO);
    assert_eq!(none.sup.start_child(spec).await, Err(AdminError::MaxChildren { max: 0 }));
    none.end().await;

    let lab = Lab::start(SupervisorSpec::dynamic("s").max_children(1).backoff(Backoff::default())).await;
    lab.add("a", Restart::Permanent).await;
    lab.crash("a").await;
    lab.until_status("a", Status::Backoff).await;
    let spec = lab.children.spec("b", Restart::Permanent, Duration::ZERO);
    assert_eq!(lab.sup.start_child(spec).await, Err(AdminError::MaxChildren { max: 1 }));
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn otp_53_82_a_child_that_waits_for_its_restart_can_be_terminated() {
    let lab = Lab::start(SupervisorSpec::dynamic("s").backoff(Backoff::default())).await;
    lab.add("a", Restart::Permanent).await;
    lab.crash("a").await;
    lab.until_status("a", Status::Backoff).await;
    let counts = lab.sup.count_children().await.unwrap();
    assert_eq!((counts.active, counts.workers), (0, 1));
    assert!(lab.info("a").await.restarting);
    assert_eq!(lab.sup.terminate_child("a").await, Ok(Done::Ok));
    assert_eq!(lab.sup.terminate_child("a").await, Err(AdminError::NotFound));
    assert_eq!(lab.sup.count_children().await, Ok(Counts::default()));
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_supervisor_answers_in_the_middle_of_a_long_shutdown() {
    let children = Children::default();
    let slow = children.spec("slow", Restart::Permanent, Duration::from_secs(20)).shutdown(Shutdown::Infinity);
    let lab = Lab::with(children, SupervisorSpec::new("s", Strategy::OneForOne).child(slow)).await;
    lab.sup.request_shutdown();
    settle().await;
    assert_eq!(lab.info("slow").await.status, Status::Stopping);
    let spec = lab.children.spec("new", Restart::Permanent, Duration::ZERO);
    assert_eq!(lab.sup.start_child(spec).await, Err(AdminError::ShuttingDown));
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn recycling_starts_a_child_afresh_and_counts_as_no_crash() {
    let lab = Lab::start(park_after(0)).await;
    lab.add("a", Restart::Transient).await;
    assert_eq!(lab.sup.recycle_child("a").await, Ok(Done::Started));
    let info = lab.info("a").await;
    assert_eq!((info.incarnation, info.restarts), (2, 0));
    assert_eq!(lab.registry.crashes(), vec![]);
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_child_parked_by_hand_stays_down_until_it_is_unparked() {
    let lab = Lab::start(park_after(2)).await;
    lab.add("a", Restart::Transient).await;
    assert_eq!(lab.sup.park("a").await, Ok(Done::Ok));
    assert_eq!(lab.info("a").await.status, Status::Parked);
    assert_eq!(lab.children.alive(), 0);
    assert_eq!(lab.sup.unpark("a").await, Ok(Done::Started));
    assert_eq!(lab.sup.unpark("a").await, Err(AdminError::NotParked));
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn watchers_hear_of_starts_ends_and_parks_in_order() {
    let lab = Lab::start(park_after(0)).await;
    let mut events = lab.sup.subscribe();
    lab.add("a", Restart::Transient).await;
    lab.children.order("a", Order::Fail);
    lab.until_status("a", Status::Parked).await;
    let reason = ExitReason::Error("it failed".into());
    assert_eq!(events.next().await, Some(SupervisorEvent::Started { id: "a".into(), incarnation: 1 }));
    let exited = SupervisorEvent::Exited { id: "a".into(), incarnation: 1, reason, decision: Decision::Park };
    assert_eq!(events.next().await, Some(exited));
    assert_eq!(events.next().await, Some(SupervisorEvent::Parked { id: "a".into() }));
    assert_eq!(events.lost(), 0);
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn the_tree_shows_children_and_workers_with_what_they_do() {
    let lab = Lab::start(park_after(2)).await;
    lab.add("a", Restart::Transient).await;
    lab.crash("a").await;
    lab.until("a", 2).await;
    let card = lab.info("a").await.card;
    card.queue(3);
    card.queue(1);
    let worker = lab.registry.worker(&card, "call-7", "tool", "bash");
    tokio::time::sleep(Duration::from_secs(5)).await;
    let tree = lab.registry.snapshot();
    let text = render(&tree);
    assert!(text.contains("└─ a"), "{text}");
    assert!(text.contains("last exit 5 s ago: panic: boom, restarts 1 (1 in window), queue 1 (peak 3)"), "{text}");
    assert!(text.contains("└─ call-7"), "{text}");
    assert!(text.contains("bash for 5 s, up 5 s"), "{text}");
    let json = serde_json::to_value(&tree).unwrap();
    assert_eq!(json[0]["children"][0]["children"][0]["doing"], "bash");
    assert_eq!(tree[0].find("call-7").unwrap().path, "sessions/a/call-7");
    drop(worker);
    assert_eq!(lab.registry.snapshot()[0].find("call-7"), None);
    lab.end().await;
}
