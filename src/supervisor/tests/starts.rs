//! Rows 1 to 15 of OTP's suite and row 86 of Elixir's: how a supervisor and its children start.

use super::*;

#[tokio::test(start_paused = true)]
async fn otp_01_a_supervisor_without_children_starts_and_ends_with_shutdown() {
    let lab = Lab::start(one_for_one()).await;
    assert_eq!(lab.counts().await, [0, 0, 0, 0]);
    let down = lab.end().await;
    assert_eq!(down, ChildDown { reason: ExitReason::Shutdown("shutdown".into()), leftover: vec![] });
}

#[tokio::test(start_paused = true)]
async fn otp_02_an_actor_whose_init_says_ignore_ends_normally_and_its_starter_is_told() {
    let lab = Lab::start(one_for_one()).await;
    lab.children.begins("a", Beginning::Ignores);
    let spec = lab.children.puppet("a", Restart::Permanent);
    assert_eq!(lab.sup.start_child(spec).await, Ok(Done::Ignored));
    quiet().await;
    assert_eq!(lab.list().await, "a:stopped");
    assert_eq!(lab.registry.snapshot()[0].find("a").unwrap().age_ms, None, "it has no incarnation to show");
    assert_eq!(lab.registry.crashes(), vec![]);
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn otp_03_a_permanent_child_that_ignores_at_boot_is_kept_undefined() {
    let children = Children::default();
    children.begins("a", Beginning::Ignores);
    let spec =
        one_for_one().child(children.puppet("a", Restart::Permanent)).child(children.puppet("b", Restart::Permanent));
    let lab = Lab::with(children, spec).await;
    assert_eq!(lab.list().await, "a:stopped b1");
    assert_eq!(lab.counts().await, [2, 1, 0, 2]);
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn otp_04_a_temporary_child_that_ignores_at_boot_is_not_kept() {
    let children = Children::default();
    children.begins("a", Beginning::Ignores);
    let spec =
        one_for_one().child(children.puppet("a", Restart::Temporary)).child(children.puppet("b", Restart::Permanent));
    let lab = Lab::with(children, spec).await;
    assert_eq!(lab.list().await, "b1");
    assert_eq!(lab.counts().await, [1, 1, 0, 1]);
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn otp_05_a_temporary_child_that_ignores_when_it_is_added_is_not_kept() {
    let lab = Lab::start(one_for_one()).await;
    // A host's own start may say so, too.
    let spec = ChildSpec::with_start("a", |_| async { Ok(Start::ignore()) }).restart(Restart::Temporary);
    assert_eq!(lab.sup.start_child(spec).await, Ok(Done::Ignored));
    assert_eq!(lab.counts().await, [0, 0, 0, 0]);
    lab.end().await;
}

/// Adds children that ignore to a dynamic supervisor, and looks for what is left of them.
async fn ignored_by_a_dynamic_supervisor(restart: Restart) {
    let lab = Lab::start(dynamic()).await;
    lab.children.begins("a", Beginning::Ignores);
    assert_eq!(lab.sup.start_child(lab.children.puppet("a", restart)).await, Ok(Done::Ignored));
    assert_eq!(lab.sup.which_child("a").await.unwrap_err(), AdminError::NotFound);
    assert_eq!(lab.counts().await, [0, 0, 0, 0]);
    lab.put("b", Restart::Permanent).await;
    let down = lab.end().await;
    assert_eq!(down.reason, ExitReason::Shutdown("shutdown".into()));
}

#[tokio::test(start_paused = true)]
async fn otp_06_a_temporary_child_that_ignores_is_not_kept_by_a_dynamic_supervisor() {
    ignored_by_a_dynamic_supervisor(Restart::Temporary).await;
}

#[tokio::test(start_paused = true)]
async fn otp_07_a_permanent_child_that_ignores_is_not_kept_by_a_dynamic_supervisor_either() {
    ignored_by_a_dynamic_supervisor(Restart::Permanent).await;
}

/// A supervisor of one puppet that begins like this does not start; says why.
async fn refused(beginning: Beginning) -> String {
    let children = Children::default();
    children.begins("a", beginning);
    let spec = one_for_one().child(children.puppet("a", Restart::Permanent));
    let registry = Registry::new();
    let error = Supervisor::start(spec, &registry).await.unwrap_err();
    assert!(registry.snapshot().is_empty());
    assert_eq!(registry.crashes().len(), 1);
    assert_eq!(registry.crashes()[0].context, Context::StartError);
    error.to_string()
}

/// What in Erlang is a rubbish return value is here a payload that is not a message: types allow nothing else.
#[tokio::test(start_paused = true)]
async fn otp_08_a_start_that_gives_rubbish_is_a_start_error() {
    let text = refused(Beginning::Throws).await;
    assert_eq!(
        text,
        "the supervisor did not start: failed to start: child a: panic: a panic whose payload is not text"
    );
}

#[tokio::test(start_paused = true)]
async fn otp_09_a_start_that_crashes_is_a_start_error_with_the_reason() {
    let text = refused(Beginning::Panics).await;
    assert_eq!(text, "the supervisor did not start: failed to start: child a: panic: no nerve");
    let text = refused(Beginning::Fails).await;
    assert_eq!(text, "the supervisor did not start: failed to start: child a: no luck");
}

#[tokio::test(start_paused = true)]
async fn otp_10_an_added_child_that_cannot_start_gives_an_error_and_is_not_kept() {
    let lab = Lab::start(one_for_one()).await;
    lab.children.begins("a", Beginning::Fails);
    let refused = lab.sup.start_child(lab.children.puppet("a", Restart::Permanent)).await.unwrap_err();
    assert_eq!(refused, AdminError::StartFailed { reason: ExitReason::StartFailed("no luck".into()) });
    assert_eq!(lab.counts().await, [0, 0, 0, 0]);
    assert_eq!(lab.registry.crashes()[0].decision, Decision::Refused);
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn otp_11_a_manual_restart_that_fails_gives_an_error_and_the_child_stays_undefined() {
    let lab = Lab::start(one_for_one()).await;
    lab.put("a", Restart::Permanent).await;
    lab.sup.terminate_child("a").await.unwrap();
    lab.children.begins("a", Beginning::Fails);
    let refused = lab.sup.restart_child("a").await.unwrap_err();
    assert_eq!(refused, AdminError::StartFailed { reason: ExitReason::StartFailed("no luck".into()) });
    assert_eq!(lab.list().await, "a:stopped");
    lab.children.begins("a", Beginning::Works);
    assert_eq!(lab.sup.restart_child("a").await, Ok(Done::Started));
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn otp_12_a_dynamic_child_that_cannot_start_gives_an_error_and_is_not_kept() {
    let lab = Lab::start(dynamic()).await;
    lab.children.begins("a", Beginning::Fails);
    let refused = lab.sup.start_child(lab.children.puppet("a", Restart::Permanent)).await.unwrap_err();
    assert_eq!(refused, AdminError::StartFailed { reason: ExitReason::StartFailed("no luck".into()) });
    assert_eq!(lab.counts().await, [0, 0, 0, 0]);
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn otp_13_a_spec_of_an_id_and_a_start_is_permanent_with_five_seconds_or_all_the_time_it_needs() {
    let worker = ChildSpec::new("w", |cx| async move {
        cx.stopping().await;
        Ok(())
    });
    assert_eq!(worker.policy, crate::supervisor::spec::Policy::default());
    assert_eq!(worker.policy.shutdown, Shutdown::After(5 * SECOND));
    let (inner, _) = ChildSpec::supervisor(SupervisorSpec::new("inner", Strategy::OneForOne)).unwrap();
    assert_eq!(inner.policy.shutdown, Shutdown::Infinity);
    let lab = Lab::start(one_for_one().child(worker).child(inner)).await;
    let listed = lab.sup.which_children().await.unwrap();
    let kinds: Vec<_> = listed.iter().map(|info| (info.kind, info.restart)).collect();
    assert_eq!(kinds, [(ChildKind::Worker, Restart::Permanent), (ChildKind::Supervisor, Restart::Permanent)]);
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn otp_14_dynamic_children_are_found_one_by_one_and_strangers_are_not() {
    let lab = Lab::start(dynamic()).await;
    for id in ["a", "b", "c"] {
        lab.put(id, Restart::Permanent).await;
    }
    for id in ["a", "b", "c"] {
        let info = lab.info(id).await;
        assert_eq!((info.id.as_str(), info.restart, info.kind), (id, Restart::Permanent, ChildKind::Worker));
    }
    assert_eq!(lab.sup.which_child("d").await.unwrap_err(), AdminError::NotFound);
    lab.end().await;
}

/// A missing key or a value of another type cannot be written down here; what is left are ids.
#[tokio::test(start_paused = true)]
async fn otp_15_a_faulty_spec_is_refused_by_a_precise_error() {
    let child = |id: &str| Children::default().puppet(id, Restart::Permanent);
    for (id, said) in [
        ("", "the id \"\" is empty, or has a slash or a control character in it"),
        ("a/b", "the id \"a/b\" is empty, or has a slash or a control character in it"),
        ("a\nb", "the id \"a\\nb\" is empty, or has a slash or a control character in it"),
    ] {
        let error = Supervisor::start(one_for_one().child(child(id)), &Registry::new()).await.unwrap_err();
        assert_eq!(error.to_string(), said);
        let lab = Lab::start(one_for_one()).await;
        let error = lab.sup.start_child(child(id)).await.unwrap_err();
        assert_eq!(error, AdminError::BadSpec(BadSpec::BadId { id: id.into() }));
        lab.end().await;
        assert!(SupervisorSpec::dynamic(id).check().is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn a_start_that_hangs_is_given_up_after_its_timeout_and_can_be_stopped_before() {
    let lab = Lab::start(one_for_one()).await;
    let hanging = |id| {
        lab.children.begins(id, Beginning::Hangs);
        lab.children.puppet(id, Restart::Permanent)
    };
    let refused = lab.sup.start_child(hanging("a").start_timeout(Some(3 * SECOND))).await.unwrap_err();
    assert_eq!(refused, AdminError::StartFailed { reason: ExitReason::StartTimeout });
    let (sup, spec) = (lab.sup.clone(), hanging("b").start_timeout(None));
    let starting = tokio::spawn(async move { sup.start_child(spec).await });
    settle().await;
    assert_eq!(lab.sup.terminate_child("b").await, Ok(Done::Ok));
    assert_eq!(starting.await.unwrap(), Err(AdminError::Stopped));
    assert_eq!(lab.registry.snapshot()[0].find("b").unwrap().age_ms, None, "it never lived");
    lab.end().await;
}

/// A host's start: the next child waits for it, its failure is a failed start, and its panic, too.
#[tokio::test(start_paused = true)]
async fn a_hosts_own_start_is_waited_for_and_may_fail() {
    let children = Children::default();
    let slow = ChildSpec::with_start("slow", |cx| async move {
        tokio::time::sleep(3 * SECOND).await;
        Ok(Start::run(async move {
            cx.stopping().await;
            Ok(())
        }))
    });
    let spec = one_for_one().child(slow).child(children.puppet("after", Restart::Permanent));
    let began = tokio::time::Instant::now();
    let lab = Lab::with(children, spec).await;
    assert!(began.elapsed() >= 3 * SECOND);
    assert_eq!(lab.list().await, "slow1 after1");
    let failing = ChildSpec::with_start("x", |_| async { Err("no port".into()) });
    let refused = lab.sup.start_child(failing).await.unwrap_err();
    assert_eq!(refused.to_string(), "the child did not start: failed to start: no port");
    let panicking = ChildSpec::with_start("x", |_| async { panic!("no port") });
    let refused = lab.sup.start_child(panicking).await.unwrap_err();
    assert_eq!(refused.to_string(), "the child did not start: failed to start: panic: no port");
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn otp_86_a_start_that_throws_fails_or_exits_is_an_error_value_and_the_supervisor_lives() {
    let lab = Lab::start(dynamic()).await;
    let said = [
        (Beginning::Throws, "panic: a panic whose payload is not text"),
        (Beginning::Panics, "panic: no nerve"),
        (Beginning::Fails, "no luck"),
    ];
    for (beginning, text) in said {
        lab.children.begins("a", beginning);
        let refused = lab.sup.start_child(lab.children.puppet("a", Restart::Permanent)).await.unwrap_err();
        assert_eq!(refused, AdminError::StartFailed { reason: ExitReason::StartFailed(text.into()) });
    }
    assert_eq!(lab.counts().await, [0, 0, 0, 0]);
    lab.put("b", Restart::Permanent).await;
    lab.end().await;
}
