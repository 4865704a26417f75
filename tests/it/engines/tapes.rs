//! The life of a tape, over each engine: sleep, parking, forks, merges, going back, compaction, budgets, lists and
//! sweeps.

use std::sync::Arc;

use tamtam::{
    OpenError, Outcome, SendError, SessionOptions,
    model::{ModelLimits, Reply, Scripted},
    ops::{KeptReason, SessionQuery, SweepPolicy},
    permission::Profile,
    session::{Budget, ForkOptions, Limits, OnBreach},
    tape::{SessionStatus, TapeError},
};

use super::{each_engine, reply, say, seen, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_sleeps_is_woken_by_the_next_message() {
    each_engine(async |engine| {
        let (runtime, tools) = engine.start().await;
        let session = runtime.create(engine.options()).await.unwrap();
        for round in 0..20 {
            say(&session, &format!("message {round}")).await;
            runtime.passivate(session.id()).await.unwrap();
            assert_eq!(runtime.awake(), []);
        }
        assert_eq!(seen(&session).await.len(), 40);
        session.prompt("call gate").await.unwrap();
        tools.gate.is_running().await;
        assert!(runtime.passivate(session.id()).await.is_err(), "what is busy is not put to sleep");
        tools.gate.open.add_permits(1);
        session.wait().await.unwrap();
        assert_eq!(session.entries().await.unwrap().last().unwrap().seq, session.state().await.unwrap().seq);
        assert!(runtime.shutdown().await.is_empty());
    })
    .await;
}

/// That a session is kept stopped outlives the runtime, and so does that it runs again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_crashes_again_and_again_is_parked_and_stays_so() {
    each_engine(async |engine| {
        let (first, tools) = engine.start().await;
        tools.bomb.goes_off(usize::MAX);
        let session = first.create(engine.options()).await.unwrap();
        session.prompt("call bomb").await.unwrap();
        while !session.state().await.unwrap().waits {
            tokio::task::yield_now().await;
        }
        session.go_on().await.unwrap();
        until("it is parked", || first.parked().len() == 1).await;
        assert!(matches!(session.prompt("hello").await, Err(SendError::Parked)));
        assert!(first.shutdown().await.is_empty());

        let (second, tools) = engine.start().await;
        tools.bomb.goes_off(0);
        assert!(second.parked()[0].why.contains("the bomb goes off"), "{:?}", second.parked());
        assert!(matches!(second.open(session.id()).await, Err(OpenError::Parked { .. })));
        assert_eq!(second.sessions(SessionQuery::default()).await.unwrap().sessions[0].status, SessionStatus::Parked);
        second.operate().unpark(session.id().as_str()).await.unwrap();
        let session = second.session(session.id());
        session.abort("give it up").await.unwrap();
        session.wait().await.unwrap();
        assert_eq!(say(&session, "hello").await, "re hello");
        assert!(second.shutdown().await.is_empty());
        assert_eq!(engine.start().await.0.parked(), []);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fork_goes_on_from_any_point_and_is_merged() {
    each_engine(async |engine| {
        let (runtime, _) = engine.start().await;
        let session = runtime.create(engine.options()).await.unwrap();
        for text in ["a", "b", "c"] {
            say(&session, text).await;
        }
        let fork = session.fork(tamtam::session::Point::BeforeMessage("c".into())).await.unwrap();
        assert_eq!(seen(&fork).await, ["a", "re a", "b", "re b"]);
        say(&fork, "x").await;
        let of_fork = fork.fork(fork.state().await.unwrap().seq).await.unwrap();
        say(&of_fork, "y").await;
        assert_eq!(seen(&of_fork).await[4..], ["x", "re x", "y", "re y"]);
        runtime.passivate(of_fork.id()).await.unwrap();
        assert_eq!(seen(&session).await.len(), 6, "the other one does not notice");
        let merge = session.merge(fork.id()).await.unwrap();
        assert_eq!((merge.items, merge.messages), (2, vec!["x".into()]));
        assert_eq!(session.merge(fork.id()).await.unwrap().entry, None, "there is nothing new in it");
        assert_eq!(seen(&session).await[6..], ["x", "re x"]);
        let gone = session.merge_and_delete(fork.id()).await.unwrap();
        assert_eq!(gone.deleted, Some(tamtam::tape::Deleted::Hidden), "one goes on from it");
        assert!(matches!(runtime.open(fork.id()).await, Err(OpenError::Tape(TapeError::Missing { .. }))));
        assert_eq!(seen(&of_fork).await.len(), 8);
        // From now on, wherever now is.
        let now = session.fork(ForkOptions::newest()).await.unwrap();
        assert_eq!(seen(&now).await, seen(&session).await);
        let ids = (of_fork.id().clone(), seen(&of_fork).await);
        assert!(runtime.shutdown().await.is_empty());
        let (second, _) = engine.start().await;
        assert_eq!(seen(&second.open(&ids.0).await.unwrap()).await, ids.1);
        assert!(second.shutdown().await.is_empty());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_goes_back_and_forth() {
    each_engine(async |engine| {
        let (runtime, _) = engine.start().await;
        let session = runtime.create(engine.options()).await.unwrap();
        for text in ["a", "b", "c"] {
            say(&session, text).await;
        }
        session.undo().await.unwrap();
        assert_eq!(seen(&session).await, ["a", "re a", "b", "re b"]);
        session.redo().await.unwrap();
        assert_eq!(seen(&session).await.len(), 6);
        let back = session.rollback(tamtam::session::Point::BeforeMessage("b".into())).await.unwrap();
        assert_eq!(back.gone, ["b".into(), "c".into()]);
        runtime.operate().restart(session.id().as_str()).await.unwrap();
        assert_eq!(seen(&session).await, ["a", "re a"]);
        say(&session, "d").await;
        assert!(runtime.shutdown().await.is_empty());
        let (second, _) = engine.start().await;
        let session = second.open(&"s".parse().unwrap()).await.unwrap();
        assert_eq!(seen(&session).await, ["a", "re a", "d", "re d"]);
        session.undo().await.unwrap();
        assert_eq!(seen(&session).await, ["a", "re a"]);
        assert!(second.shutdown().await.is_empty());
    })
    .await;
}

/// What is summed up begins an anchor, and the next runtime reads from there; it can be undone, which reads before it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compaction_begins_an_anchor_and_can_be_undone() {
    each_engine(async |engine| {
        let mut limits = ModelLimits::default();
        (limits.context, limits.output) = (8_192, 1_000);
        let model = || {
            let model = Scripted::from_fn(|request| match &*request.system == tamtam::session::SUMMARY_SYSTEM {
                true => Reply::text("## Goal\nGo on."),
                false => reply(request),
            });
            Arc::new(model.with_limits(limits))
        };
        let runtime = engine.builder().model(model()).start().await.unwrap();
        let session = runtime.create(engine.options()).await.unwrap();
        let mut turns = 0;
        while session.state().await.unwrap().context.compactions == 0 {
            turns += 1;
            assert!(turns < 100, "it is never summed up");
            session.prompt(format!("long {turns}")).await.unwrap().wait().await.unwrap();
        }
        session.wait().await.unwrap();
        assert!(seen(&session).await.len() < 2 * turns);
        let state = session.state().await.unwrap();
        assert!(runtime.shutdown().await.is_empty());

        let second = engine.builder().model(model()).start().await.unwrap();
        let session = second.open(session.id()).await.unwrap();
        assert_eq!(session.state().await.unwrap().context.summary, state.context.summary);
        session.prompt("long again").await.unwrap().wait().await.unwrap();
        session.wait().await.unwrap();
        assert_eq!(
            session.messages().await.unwrap().iter().filter(|one| one.text().starts_with("long")).count(),
            turns + 1
        );
        assert!(second.shutdown().await.is_empty());
    })
    .await;
}

/// Promise 9, also after a restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_budget_stops_a_session_and_a_restart_gives_nothing_back() {
    each_engine(async |engine| {
        let (first, _) = engine.start().await;
        let mut options = engine.options();
        let session = Limits::default().tokens(6_000);
        options.budget = Budget::default().session(session).on_breach(OnBreach::Stop);
        let session = first.create(options).await.unwrap();
        let outcome = loop {
            let answer = session.prompt("go on").await.unwrap().wait().await.unwrap();
            if answer.outcome != Outcome::Done {
                break answer.outcome;
            }
        };
        assert!(matches!(outcome, Outcome::Budget { .. }), "{outcome:?}");
        let spent = session.state().await.unwrap().spent_in_all();
        assert!(first.shutdown().await.is_empty());
        let (second, _) = engine.start().await;
        let session = second.open(session.id()).await.unwrap();
        assert_eq!(session.state().await.unwrap().spent_in_all(), spent);
        let again = session.prompt("go on").await.unwrap().wait().await.unwrap();
        assert!(matches!(again.outcome, Outcome::Budget { .. }), "{:?}", again.outcome);
        assert!(second.shutdown().await.is_empty());
    })
    .await;
}

/// Lists say what a conversation is, what it used and how it stands; a sweep removes what a policy does not keep.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_are_listed_and_swept() {
    each_engine(async |engine| {
        let (runtime, _) = engine.start().await;
        let mut sessions = Vec::new();
        for id in ["old", "protected", "new"] {
            let options = SessionOptions::new(engine.work()).profile(Profile::Auto).id(id.parse().unwrap());
            let session = runtime.create(options).await.unwrap();
            say(&session, &format!("the words of {id}")).await;
            sessions.push(session);
        }
        let fork = sessions[2].fork(sessions[2].state().await.unwrap().seq).await.unwrap();
        runtime.protect(sessions[1].id()).await.unwrap();
        for session in [&sessions[0], &sessions[1], &fork] {
            runtime.passivate(session.id()).await.unwrap();
        }
        let page = runtime.sessions(SessionQuery::default()).await.unwrap();
        assert_eq!((page.sessions.len(), page.next), (4, None), "{}", engine.name());
        let row = |id: &str| page.sessions.iter().find(|row| row.session.as_str() == id).unwrap();
        assert_eq!(row("old").title.as_deref(), Some("the words of old"));
        assert_eq!(row(fork.id().as_str()).title.as_deref(), Some("the words of new"), "it has none of its own yet");
        let parent = row(fork.id().as_str()).parent.clone().unwrap();
        assert_eq!(parent.session().as_str(), "new");
        assert_eq!((row("new").requests, row("new").forks, row("new").status), (Some(1), 1, SessionStatus::Live));
        assert_eq!(
            (row("old").status, row("old").protected, row("protected").protected),
            (SessionStatus::Passive, false, true)
        );
        assert!(row("old").usage.is_some_and(|usage| usage.total() > 0) && row("old").cost.is_some());
        assert!(row("old").bytes > 500 && row("old").seq > tamtam::Seq(3) && row("old").created <= row("old").last);
        let mut one = SessionQuery::default();
        one.text = "WORDS protected".to_owned();
        let found = runtime.sessions(one).await.unwrap().sessions;
        assert_eq!(found.iter().map(|row| row.session.as_str()).collect::<Vec<_>>(), ["protected"]);
        let mut few = SessionQuery::default();
        few.limit = 3;
        let first = runtime.sessions(few.clone()).await.unwrap();
        few.after = first.next.clone();
        let rest = runtime.sessions(few).await.unwrap();
        assert_eq!((first.sessions.len(), rest.sessions.len(), rest.next), (3, 1, None));

        let mut policy = SweepPolicy::default();
        policy.keep_newest = Some(0);
        let plan = runtime.sweep_plan(policy).await.unwrap();
        let done = runtime.sweep(policy).await.unwrap();
        let mut gone: Vec<_> = done.gone.iter().map(|gone| gone.session.clone()).collect();
        gone.sort();
        let mut expected = vec!["old".parse().unwrap(), fork.id().clone()];
        expected.sort();
        assert_eq!(gone, expected, "{}", engine.name());
        assert_eq!(plan.gone.len(), 2);
        let kept = |id: &str| done.kept.iter().find(|kept| kept.session.as_str() == id).map(|kept| &kept.why);
        assert_eq!((kept("protected"), kept("new")), (Some(&KeptReason::Protected), Some(&KeptReason::Live)));
        assert_eq!(runtime.list().await.unwrap().len(), 2);
        assert!(matches!(sessions[0].prompt("x").await, Err(SendError::Unavailable(_))));
        assert!(runtime.shutdown().await.is_empty());
    })
    .await;
}

/// What a model may not read whole is kept in a file, or it is lost; the model is told which.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_output_that_is_cut_says_where_the_rest_is() {
    each_engine(async |engine| {
        let (runtime, _) = engine.start().await;
        let session = runtime.create(engine.options()).await.unwrap();
        say(&session, "call large").await;
        let result = seen(&session).await.remove(2);
        assert!(result.len() < 100_000 && result.contains("of 500000 bytes"), "{} bytes", result.len());
        match engine.is_files() {
            true => {
                let path = result.rsplit_once("Full output: ").unwrap().1.trim_end_matches(']');
                assert_eq!(std::fs::metadata(path).unwrap().len(), 500_000);
            }
            false => assert!(result.ends_with("could not be kept: this runtime keeps no large outputs]"), "{result}"),
        }
        let roots = session.state().await.unwrap().settings.read_roots.len();
        assert_eq!(roots, usize::from(engine.is_files()), "nothing that is not there is promised to be readable");
        assert!(runtime.shutdown().await.is_empty());
    })
    .await;
}

/// Over files what calls changed can be put back; without a folder a plan says of each file that it cannot.
#[cfg(feature = "tools")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_was_changed_can_be_put_back_or_is_named() {
    use tamtam::ops::{Restore, RestoreError};

    each_engine(async |engine| {
        let model = Scripted::new([
            Reply::call("read", serde_json::json!({ "path": "a.txt" })),
            Reply::call("write", serde_json::json!({ "path": "a.txt", "content": "after" })),
            Reply::text("written"),
        ]);
        let runtime = engine.builder().model(Arc::new(model)).tools(tamtam::tools::full()).start().await.unwrap();
        let file = engine.work().join("a.txt");
        std::fs::write(&file, "before").unwrap();
        let session = runtime.create(engine.options()).await.unwrap();
        session.prompt("write it").await.unwrap().wait().await.unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "after");
        let plan = session.changes(tamtam::Seq::ZERO).await.unwrap();
        assert_eq!(plan.files.len(), 1);
        let restored = session.restore(tamtam::Seq::ZERO, Restore::Whole).await;
        match engine.is_files() {
            true => {
                restored.unwrap();
                assert_eq!(std::fs::read_to_string(&file).unwrap(), "before");
            }
            false => {
                let Err(RestoreError::Refused { plan }) = restored else { panic!("{restored:?}") };
                let why = plan.refused().map(|file| format!("{:?}", file.step)).collect::<String>();
                assert!(why.contains("keeps its tapes without a folder"), "{why}");
                assert_eq!(std::fs::read_to_string(&file).unwrap(), "after");
            }
        }
        // The conversation itself goes back in any case.
        session.undo().await.unwrap();
        assert_eq!(seen(&session).await.len(), 0);
        assert!(runtime.shutdown().await.is_empty());
    })
    .await;
}
