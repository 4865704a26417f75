//! A supervisor answers at any moment: in a storm of restarts, while children are slow to start, in a long shutdown.

use super::*;

/// Invariant 8. A shutdown of 30 s: it is asked in the middle of it, and no virtual time goes by until it answers.
#[tokio::test(start_paused = true)]
async fn invariant_08_a_supervisor_answers_in_the_middle_of_a_long_shutdown() {
    let children = Children::default();
    let slow = children.spec("slow", Restart::Permanent, 30 * SECOND).shutdown(Shutdown::Infinity);
    let lab = Lab::with(children, one_for_one().child(slow)).await;
    lab.sup.request_shutdown();
    tokio::time::sleep(15 * SECOND).await;
    let asked = tokio::time::Instant::now();
    assert_eq!(lab.info("slow").await.status, Status::Stopping);
    assert_eq!(lab.counts().await, [1, 1, 0, 1]);
    let spec = lab.children.puppet("new", Restart::Permanent);
    assert_eq!(lab.sup.start_child(spec).await, Err(AdminError::ShuttingDown));
    assert_eq!(lab.sup.restart_child("slow").await, Err(AdminError::ShuttingDown));
    assert_eq!(lab.sup.unpark("slow").await, Err(AdminError::ShuttingDown));
    assert_eq!(asked.elapsed(), Duration::ZERO);
    lab.end().await;
}

/// Invariant 8. Each question is answered after a bounded number of messages, while ten children crash as fast as they can.
#[tokio::test(start_paused = true)]
async fn invariant_08_a_supervisor_answers_in_a_storm_of_restarts() {
    let lab = Lab::start(dynamic().intensity(Intensity::new(u32::MAX, SECOND))).await;
    for n in 0..10 {
        let spec = ChildSpec::new(n.to_string(), |_| async { Err("at once".into()) });
        lab.sup.start_child(spec).await.unwrap();
    }
    let handled = || lab.registry.snapshot()[0].handled;
    let begin = handled();
    for round in 0..50 {
        let before = handled();
        assert_eq!(lab.counts().await[0], 10 + usize::from(round > 0));
        if round == 0 {
            lab.put("calm", Restart::Permanent).await;
        }
        assert_eq!(lab.info("calm").await.status, Status::Running);
        // At most what was in the queue before it: a start and an end of each child, twice over.
        assert!(handled() - before <= 200, "{}", handled() - before);
        settle().await;
    }
    assert!(handled() - begin > 500, "that was no storm");
    assert_eq!(lab.sup.terminate_child("calm").await, Ok(Done::Ok));
    lab.end().await;
}

/// As many calls as may wait do wait for children that are slow to start; questions and stops get through.
#[tokio::test(start_paused = true)]
async fn slow_starts_keep_nobody_from_looking_or_stopping() {
    let lab = Lab::start(dynamic()).await;
    let mut starts = tokio::task::JoinSet::new();
    for n in 0..300 {
        let id = n.to_string();
        lab.children.begins(&id, Beginning::Hangs);
        let (sup, spec) = (lab.sup.clone(), lab.children.puppet(&id, Restart::Permanent).start_timeout(None));
        starts.spawn(async move { sup.start_child(spec).await });
    }
    settle().await;
    let began = tokio::time::Instant::now();
    let counts = lab.counts().await;
    assert!(counts[0] >= 256 && counts[1] == 0, "{counts:?}");
    assert_eq!(lab.info("7").await.status, Status::Starting);
    assert_eq!(lab.sup.terminate_child("7").await, Ok(Done::Ok));
    assert_eq!(began.elapsed(), Duration::ZERO);
    lab.sup.shutdown().await;
    while let Some(answer) = starts.join_next().await {
        assert!(matches!(answer.unwrap(), Err(AdminError::Stopped | AdminError::ShuttingDown | AdminError::Gone)));
    }
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn the_tree_shows_children_and_workers_with_what_they_do() {
    let lab = Lab::start(park_after(2)).await;
    lab.add("a", Restart::Transient).await;
    lab.crash("a").await;
    lab.until("a", 2).await;
    let node = lab.info("a").await.node;
    node.queue(3);
    node.queue(1);
    let worker = lab.registry.worker(&node, "call-7", "tool", "bash");
    tokio::time::sleep(Duration::from_secs(5)).await;
    let tree = lab.registry.snapshot();
    let text = render(&tree);
    assert!(text.contains("└─ a"), "{text}");
    assert!(
        text.contains("last exit 5 s ago: panic: boom, restarts 1 (crashes in window 1), queue 1 (peak 3)"),
        "{text}"
    );
    assert!(text.contains("└─ call-7"), "{text}");
    assert!(text.contains("bash for 5 s, up 5 s"), "{text}");
    let json = serde_json::to_value(&tree).unwrap();
    assert_eq!(json[0]["children"][0]["children"][0]["doing"], "bash");
    assert_eq!(tree[0].find("call-7").unwrap().path, "sessions/a/call-7");
    drop(worker);
    assert_eq!(lab.registry.snapshot()[0].find("call-7"), None);
    lab.end().await;
}

/// Invariant 12: what has ended leaves nothing. `TAMTAM_CYCLES` sets how many; memory over a million is in
/// `docs/PERFORMANCE.md`.
#[tokio::test(start_paused = true)]
async fn invariant_12_a_child_that_has_come_and_gone_leaves_no_entry_behind() {
    let cycles = std::env::var("TAMTAM_CYCLES").ok().and_then(|text| text.parse().ok()).unwrap_or(2_000_u32);
    let lab = Lab::start(park_after(2)).await;
    let empty = lab.sup.kept().await.unwrap();
    for n in 0..cycles {
        let id = n.to_string();
        let restart = [Restart::Permanent, Restart::Transient, Restart::Temporary][n as usize % 3];
        match n % 5 {
            0 => lab.children.begins("odd", Beginning::Fails),
            1 => lab.children.begins("odd", Beginning::Ignores),
            _ => {
                lab.put(&id, restart).await;
                if n % 5 == 2 {
                    lab.children.order(&id, Order::Fail);
                    settle().await;
                }
                // A temporary one may be gone already.
                let _ = lab.sup.terminate_child(id.as_str()).await;
                lab.children.forget(&id);
                continue;
            }
        }
        // These never come up.
        let _ = lab.sup.start_child(lab.children.puppet("odd", restart)).await;
    }
    quiet().await;
    assert_eq!(lab.sup.kept().await.unwrap(), empty);
    assert_eq!(lab.registry.snapshot()[0].children, vec![]);
    lab.end().await;
}

/// Invariant 14.
#[tokio::test(start_paused = true)]
async fn invariant_14_waits_grow_to_the_most_within_their_jitter_and_a_quiet_run_resets_them() {
    let backoff = Backoff { min: SECOND, max: 8 * SECOND, factor: 2.0, jitter: 0.5, reset_after: 60 * SECOND };
    let lab = Lab::start(dynamic().backoff(backoff).intensity(Intensity::new(u32::MAX, SECOND))).await;
    lab.put("a", Restart::Permanent).await;
    let mut events = lab.registry.watch(None);
    let mut wait = async |lab: &Lab| {
        lab.order("a", Order::Fail).await;
        loop {
            let event = events.next().await.unwrap();
            if let Happening::Exited { decision: Decision::Restart { after_ms }, .. } = event.what {
                tokio::time::sleep(Duration::from_millis(after_ms + 5)).await;
                return after_ms;
            }
        }
    };
    for expected in [1000, 2000, 4000, 8000, 8000, 8000] {
        let waited = wait(&lab).await;
        assert!((expected / 2..=expected).contains(&waited), "{waited} for {expected}");
    }
    tokio::time::sleep(59 * SECOND).await;
    assert!(wait(&lab).await >= 4000, "a run that was too short resets nothing");
    tokio::time::sleep(61 * SECOND).await;
    assert!(wait(&lab).await <= 1000);
    lab.end().await;
}
