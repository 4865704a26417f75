//! Rows 19 to 23, 51 to 53, 58, 74 and 75, and the Elixir rows 77 to 80 and 82: administration and observation.

use super::*;

#[tokio::test(start_paused = true)]
async fn otp_19_every_administrative_call_in_every_state() {
    let lab = Lab::start(one_for_one()).await;
    lab.put("a", Restart::Permanent).await;
    let spec = || lab.children.puppet("a", Restart::Permanent);
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
        lab.sup.recycle_child("a").await,
        lab.sup.park("a").await,
        lab.sup.unpark("a").await,
    ] {
        assert_eq!(refused, Err(AdminError::NotFound));
    }
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn otp_20_a_dynamic_child_that_is_terminated_is_gone() {
    let lab = Lab::start(dynamic()).await;
    lab.put("a", Restart::Permanent).await;
    assert_eq!(lab.sup.restart_child("a").await, Err(AdminError::Running));
    assert_eq!(lab.sup.delete_child("a").await, Err(AdminError::Running));
    assert_eq!(lab.sup.terminate_child("a").await, Ok(Done::Ok));
    assert_eq!(lab.sup.terminate_child("a").await, Err(AdminError::NotFound));
    assert_eq!(lab.sup.restart_child("a").await, Err(AdminError::NotFound));
    assert_eq!(lab.sup.delete_child("a").await, Err(AdminError::NotFound));
    lab.put("a", Restart::Permanent).await;
    lab.end().await;
}

/// What a supervisor says to this spec.
async fn refusal(spec: SupervisorSpec) -> BadSpec {
    let registry = Registry::new();
    let Err(TreeError::BadSpec(bad)) = Supervisor::start(spec, &registry).await else { panic!("it started") };
    assert!(registry.snapshot().is_empty());
    bad
}

fn child(id: &str) -> ChildSpec {
    Children::default().puppet(id, Restart::Transient)
}

/// A bad start function, restart type, shutdown or module list has no way of being written down here.
#[tokio::test(start_paused = true)]
async fn otp_21_child_specs_that_cannot_run_are_refused_each_with_its_own_error() {
    let zero = Intensity::new(1, Duration::ZERO);
    let twice = one_for_one().child(child("a")).child(child("b")).child(child("a"));
    assert_eq!(refusal(twice).await, BadSpec::DuplicateId { id: "a".into() });
    assert_eq!(refusal(one_for_one().child(child("a").intensity(zero))).await, BadSpec::ZeroPeriod);
    let permanent = one_for_one()
        .auto_shutdown(AutoShutdown::AnySignificant)
        .child(child("a").restart(Restart::Permanent).significant());
    assert_eq!(refusal(permanent).await, BadSpec::SignificantPermanent { id: "a".into() });
    // The same at run time: the supervisor lives, and keeps nothing of it.
    let lab = Lab::start(one_for_one()).await;
    let refused = lab.sup.start_child(child("a").intensity(zero)).await;
    assert_eq!(refused, Err(AdminError::BadSpec(BadSpec::ZeroPeriod)));
    assert_eq!(lab.counts().await, [0, 0, 0, 0]);
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn otp_22_what_a_start_has_to_say_is_passed_on_by_starts_and_restarts() {
    let lab = Lab::start(one_for_one()).await;
    lab.children.begins("a", Beginning::Says("port 1"));
    let spec = lab.children.puppet("a", Restart::Permanent);
    assert_eq!(lab.sup.start_child(spec).await, Ok(Done::StartedWith("port 1".into())));
    assert_eq!(lab.info("a").await.info.as_deref(), Some("port 1"));
    lab.sup.terminate_child("a").await.unwrap();
    lab.children.begins("a", Beginning::Says("port 2"));
    assert_eq!(lab.sup.restart_child("a").await, Ok(Done::StartedWith("port 2".into())));
    lab.children.begins("a", Beginning::Says("port 3"));
    lab.order("a", Order::Panic).await;
    assert_eq!(lab.list().await, "a3");
    assert_eq!(lab.info("a").await.info.as_deref(), Some("port 3"));
    // The same through the public way.
    let spec = ChildSpec::with_start("b", |cx| async move {
        let work = async move {
            cx.stopping().await;
            Ok(())
        };
        Ok(Start::run(work).with("ready"))
    });
    assert_eq!(lab.sup.start_child(spec).await, Ok(Done::StartedWith("ready".into())));
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn otp_23_rules_that_cannot_be_are_refused_and_the_error_names_the_rule() {
    let zero = Intensity::new(1, Duration::ZERO);
    let bad = refusal(one_for_one().intensity(zero)).await;
    assert_eq!((bad.clone(), bad.to_string().as_str()), (BadSpec::ZeroPeriod, "the period of an intensity is zero"));
    let group = dynamic().on_exhausted(OnExhausted::Park).group_intensity(zero);
    assert_eq!(refusal(group).await, BadSpec::ZeroPeriod);
    assert_eq!(refusal(one_for_one().on_exhausted(OnExhausted::Park)).await, BadSpec::ParkInOrdered);
    assert_eq!(refusal(dynamic().group_intensity(at_most(1))).await, BadSpec::NothingParks);
    assert_eq!(refusal(one_for_one().park_for(SECOND)).await, BadSpec::NothingParks);
    // The same for a supervisor as a child.
    assert_eq!(ChildSpec::supervisor(one_for_one().intensity(zero)).unwrap_err(), BadSpec::ZeroPeriod);
}

#[tokio::test(start_paused = true)]
async fn otp_51_counts_of_a_thousand_and_two_thousand_children_are_exact() {
    let lab = Lab::start(dynamic()).await;
    for (from, to) in [(0, 1000), (1000, 2000)] {
        for n in from..to {
            lab.put(&n.to_string(), Restart::Temporary).await;
        }
        assert_eq!(lab.counts().await, [to, to, 0, to]);
    }
    for n in 0..2000 {
        lab.children.order(&n.to_string(), Order::Kill);
    }
    quiet().await;
    assert_eq!(lab.counts().await, [0, 0, 0, 0]);
    // Ended children leave nothing but the supervisor itself in the tree.
    assert_eq!(lab.registry.snapshot()[0].children, vec![]);
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn otp_52_children_that_are_supervisors_are_counted_as_such() {
    let lab = Lab::start(dynamic()).await;
    for (from, to) in [(0, 100), (100, 200)] {
        for n in from..to {
            let (spec, _) = ChildSpec::supervisor(SupervisorSpec::dynamic(n.to_string())).unwrap();
            lab.sup.start_child(spec.restart(Restart::Temporary)).await.unwrap();
        }
        assert_eq!(lab.counts().await, [to, to, to, 0]);
    }
    for n in 0..200 {
        lab.sup.terminate_child(n.to_string()).await.unwrap();
    }
    assert_eq!(lab.counts().await, [0, 0, 0, 0]);
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn otp_53_children_that_are_stuck_in_their_restart_are_counted_and_can_be_terminated() {
    let lab = Lab::start(dynamic().backoff(Backoff::default()).intensity(at_most(100))).await;
    for id in ["a", "b", "c"] {
        lab.put(id, Restart::Permanent).await;
    }
    for id in ["a", "b"] {
        lab.children.begins(id, Beginning::Fails);
        lab.order(id, Order::Fail).await;
    }
    assert_eq!(lab.counts().await, [3, 1, 0, 3]);
    assert_eq!(lab.list().await, "a:back-off b:back-off c1");
    assert_eq!(lab.sup.terminate_child("a").await, Ok(Done::Ok));
    assert_eq!(lab.counts().await, [2, 1, 0, 2]);
    lab.end().await;
}

/// Names are paths in the tree here; a process-wide name would tie two runtimes together.
#[tokio::test(start_paused = true)]
async fn otp_58_what_is_killed_or_restarted_comes_back_under_its_name() {
    let children = Children::default();
    let inner = SupervisorSpec::new("inner", Strategy::OneForOne).child(children.puppet("w", Restart::Permanent));
    let (inner, handle) = ChildSpec::supervisor(inner).unwrap();
    let lab = Lab::with(children, one_for_one().child(inner)).await;
    let incarnation = || {
        let tree = lab.registry.snapshot();
        let worker = tree[0].find("w").unwrap();
        assert_eq!(worker.path, "s/inner/w");
        (tree[0].find("inner").unwrap().incarnation, worker.incarnation)
    };
    assert_eq!(incarnation(), (1, 1));
    for (order, expected) in [(Order::Kill, (1, 2)), (Order::Return, (1, 3))] {
        lab.order("w", order).await;
        assert_eq!(incarnation(), expected);
    }
    handle.terminate_child("w").await.unwrap();
    assert_eq!(handle.restart_child("w").await, Ok(Done::Started));
    assert_eq!(incarnation(), (1, 4));
    handle.kill();
    quiet().await;
    assert_eq!(incarnation(), (2, 1));
    assert_eq!(lab.info("inner").await.node.last_exit(), Some(ExitReason::Killed));
    assert_eq!(handle.count_children().await.unwrap().active, 1, "the old handle reaches the new incarnation");
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn otp_74_an_id_that_is_taken_gives_already_started_and_shows_who_has_it() {
    let lab = Lab::start(dynamic()).await;
    // A host's function holds the id that an actor asks for.
    lab.add("a", Restart::Permanent).await;
    let refused = lab.sup.start_child(lab.children.puppet("a", Restart::Permanent)).await;
    assert_eq!(refused, Err(AdminError::AlreadyStarted));
    let holder = lab.info("a").await;
    assert_eq!((holder.node.kind(), holder.incarnation), ("host", 1));
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn otp_75_listing_and_look_up_agree_at_each_step() {
    let lab = Lab::start(one_for_one()).await;
    let agree = async || {
        let listed = lab.sup.which_children().await.unwrap();
        for info in &listed {
            let found = lab.info(info.id.as_str()).await;
            let facts = |info: &ChildInfo| (info.id.clone(), info.kind, info.restart, info.status, info.incarnation);
            assert_eq!(facts(&found), facts(info));
        }
        lab.list().await
    };
    assert_eq!(agree().await, "");
    lab.put("a", Restart::Permanent).await;
    assert_eq!(agree().await, "a1");
    lab.put("b", Restart::Permanent).await;
    assert_eq!(agree().await, "a1 b1");
    lab.sup.terminate_child("a").await.unwrap();
    assert_eq!(agree().await, "a:stopped b1");
    lab.sup.delete_child("a").await.unwrap();
    assert_eq!(agree().await, "b1");
    assert_eq!(lab.sup.which_child("a").await.unwrap_err(), AdminError::NotFound);
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn otp_77_without_options_it_is_three_restarts_in_five_seconds_and_any_number_of_children() {
    let rules = SupervisorSpec::dynamic("s").rules;
    assert_eq!(rules.intensity, Intensity::new(3, 5 * SECOND));
    assert_eq!(rules.kind, crate::supervisor::spec::Kind::Dynamic { max_children: None });
    let lab = Lab::start(dynamic()).await;
    lab.put("a", Restart::Permanent).await;
    for incarnation in 2..=4 {
        lab.order("a", Order::Fail).await;
        assert_eq!(lab.list().await, format!("a{incarnation}"));
    }
    lab.order("a", Order::Fail).await;
    lab.escalated().await;
}

#[tokio::test(start_paused = true)]
async fn otp_78_where_no_child_may_be_none_is_started() {
    let lab = Lab::start(dynamic().max_children(0)).await;
    let refused = lab.sup.start_child(lab.children.puppet("a", Restart::Permanent)).await;
    assert_eq!(refused, Err(AdminError::MaxChildren { max: 0 }));
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn otp_79_a_child_that_is_being_restarted_counts_as_one_of_the_most() {
    let lab = Lab::start(dynamic().max_children(1).backoff(Backoff::default()).intensity(at_most(100))).await;
    lab.put("a", Restart::Permanent).await;
    lab.children.begins("a", Beginning::Fails);
    lab.order("a", Order::Fail).await;
    let refused = lab.sup.start_child(lab.children.puppet("b", Restart::Permanent)).await;
    assert_eq!(refused, Err(AdminError::MaxChildren { max: 1 }));
    assert_eq!(lab.counts().await, [1, 0, 0, 1]);
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn otp_80_a_restart_that_works_when_it_is_tried_again_leaves_one_child() {
    let lab = Lab::start(dynamic().max_children(1).backoff(Backoff::default())).await;
    lab.put("a", Restart::Permanent).await;
    lab.children.begins("a", Beginning::Fails);
    lab.order("a", Order::Fail).await;
    assert_eq!(lab.list().await, "a:back-off");
    lab.children.begins("a", Beginning::Works);
    tokio::time::sleep(SECOND).await;
    assert_eq!(lab.counts().await, [1, 1, 0, 1]);
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn otp_82_a_child_that_waits_for_its_restart_can_be_terminated_and_is_gone() {
    let lab = Lab::start(dynamic().backoff(Backoff::default())).await;
    lab.add("a", Restart::Permanent).await;
    lab.crash("a").await;
    lab.until_status("a", Status::Backoff).await;
    assert!(lab.info("a").await.restarting);
    assert_eq!(lab.sup.terminate_child("a").await, Ok(Done::Ok));
    assert_eq!(lab.sup.terminate_child("a").await, Err(AdminError::NotFound));
    assert_eq!(lab.counts().await, [0, 0, 0, 0]);
    tokio::time::sleep(60 * SECOND).await;
    assert_eq!(lab.children.alive(), 0, "its timer does not start it after all");
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
async fn watchers_hear_of_starts_ends_and_parks_in_order() {
    let lab = Lab::start(park_after(0)).await;
    let mut events = lab.registry.watch(None);
    let mut next = async || events.next().await.map(|event| (event.path.to_string(), event.what)).unwrap();
    lab.add("a", Restart::Transient).await;
    lab.children.order("a", Order::Fail);
    lab.until_status("a", Status::Parked).await;
    let reason = ExitReason::Error("it failed".into());
    let a = format!("{}/a", lab.registry.snapshot()[0].path);
    assert_eq!(next().await, (a.clone(), Happening::Started { incarnation: 1 }));
    let exited = Happening::Exited { incarnation: 1, reason, decision: Decision::Park, crash: Some(1) };
    assert_eq!(next().await, (a.clone(), exited));
    assert_eq!(next().await, (a, Happening::Parked {}));
    assert_eq!(events.lost(), 0);
    lab.end().await;
}
