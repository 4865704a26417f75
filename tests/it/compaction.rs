//! Compaction in a whole runtime: real actors, a real tape, a model that counts its input.

mod actor;
#[cfg(feature = "tools")]
mod rows;

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use tamtam::{
    EventKind, ModelRef, Outcome, Runtime, SessionOptions,
    model::{AnswerPart, BoxFuture, Deltas, Model, ModelAnswer, ModelError, ModelLimits, Request, Usage, transcript},
    permission::Profile,
    session::{Next, SUMMARY_SYSTEM},
    supervisor::Node,
};

use crate::support::taped;

/// A model with a window of its own, which refuses what does not fit, as a provider does.
struct Counting {
    id: ModelRef,
    context: u64,
    largest: AtomicU64,
    refused: AtomicU64,
    summaries: AtomicU64,
    /// Whether it has no mind to sum anything up.
    no_summaries: AtomicBool,
    newest: Mutex<String>,
}

impl Counting {
    fn new(context: u64) -> Arc<Counting> {
        Arc::new(Counting {
            id: "counting/one".parse().unwrap(),
            context,
            largest: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            summaries: AtomicU64::new(0),
            no_summaries: AtomicBool::new(false),
            newest: Mutex::default(),
        })
    }
}

impl Model for Counting {
    fn id(&self) -> &ModelRef {
        &self.id
    }

    fn limits(&self) -> ModelLimits {
        let mut limits = ModelLimits::default();
        (limits.context, limits.output) = (self.context, 1_000);
        limits
    }

    fn stream<'a>(
        &'a self,
        request: &'a Request,
        _: &'a mut dyn Deltas,
    ) -> BoxFuture<'a, Result<ModelAnswer, ModelError>> {
        // It counts about a fifth more than the runtime estimates (four characters a token), which the runtime has to learn.
        let characters = transcript(request).len() + request.system.len();
        let tokens = (characters as u64 / 4 + 4 * request.history.len() as u64) * 6 / 5;
        self.largest.fetch_max(tokens, Ordering::SeqCst);
        let said = if &*request.system == SUMMARY_SYSTEM {
            self.summaries.fetch_add(1, Ordering::SeqCst);
            // A summarizer that drops every rule.
            "## Goal\nGo on.".to_owned()
        } else {
            *self.newest.lock().unwrap() = transcript(request);
            "word ".repeat(250)
        };
        let fits = tokens + 1_000 <= self.context;
        if !fits {
            self.refused.fetch_add(1, Ordering::SeqCst);
        }
        let refuses = &*request.system == SUMMARY_SYSTEM && self.no_summaries.load(Ordering::SeqCst);
        Box::pin(async move {
            if refuses {
                return Err(ModelError::new(tamtam::model::ErrorKind::InvalidRequest, "no"));
            }
            if !fits {
                return Err(ModelError::new(tamtam::model::ErrorKind::ContextOverflow, "too large"));
            }
            let mut answer =
                ModelAnswer::new(vec![AnswerPart::Text { text: said, extra: None }], tamtam::session::Finish::Stop);
            answer.usage = Usage::new(tokens, 300);
            Ok(answer)
        })
    }
}

async fn runtime(folder: &std::path::Path, model: Arc<Counting>) -> Runtime {
    std::fs::create_dir_all(folder.join("work")).unwrap();
    Runtime::builder().store(folder.join("store")).model(model).start().await.unwrap()
}

/// J-02: a context that is four fifths full is an event, once, before it is summed up; and it is seen in the tree.
#[tokio::test(flavor = "multi_thread")]
async fn a_context_that_fills_up_is_told_before_it_is_summed_up() {
    let folder = taped::folder();
    let model = Counting::new(8_192);
    let runtime = runtime(folder.path(), model).await;
    let options = SessionOptions::new(folder.path().join("work")).profile(Profile::Auto);
    let session = runtime.create(options).await.unwrap();
    for turn in 0..40 {
        session.prompt(format!("turn {turn}")).await.unwrap().wait().await.unwrap();
    }
    let mut events = session.events_after(tamtam::Seq::ZERO).await.unwrap();
    session.end("over").await.unwrap();
    let mut told = Vec::new();
    while let Some(next) = events.next().await {
        let Next::Event(event) = next else { continue };
        match event.kind {
            EventKind::ContextWarning { used, usable } => {
                assert!(used * 10 > usable * 8);
                told.push('w');
            }
            EventKind::CompactionStarted { .. } => told.push('c'),
            EventKind::CompactionFinished { error: None, .. } => told.push('.'),
            EventKind::Ended { .. } => break,
            _ => {}
        }
    }
    let told: String = told.into_iter().collect();
    assert!(told.starts_with("wc.wc.") && !told.contains("ww"), "{told}");
    assert!(runtime.shutdown().await.is_empty());
}

/// Memory 3, J-30: five hundred turns over a window of 32k: it never overflows, and a rule of turn 1 is in the request of
/// turn 500, although the summarizer drops it.
#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_turns_never_overflow_and_keep_the_first_rule() {
    let folder = taped::folder();
    let model = Counting::new(32_768);
    let runtime = runtime(folder.path(), model.clone()).await;
    let options = SessionOptions::new(folder.path().join("work")).profile(Profile::Auto);
    let session = runtime.create(options).await.unwrap();
    session.prompt("Never touch main.rs.").await.unwrap().wait().await.unwrap();
    for turn in 2..=500 {
        let answer = session.prompt(format!("turn {turn}")).await.unwrap().wait().await.unwrap();
        assert_eq!(answer.outcome, Outcome::Done, "turn {turn}");
    }
    assert_eq!(model.refused.load(Ordering::SeqCst), 0);
    assert!(model.summaries.load(Ordering::SeqCst) > 3);
    let newest = model.newest.lock().unwrap().clone();
    assert!(newest.contains("Never touch main.rs.") && newest.contains("turn 500"), "{newest}");
    let largest = model.largest.load(Ordering::SeqCst);
    assert!(largest + 1_000 <= 32_768, "the largest request took {largest}");
    assert!(runtime.shutdown().await.is_empty());
}

/// A rule that is said in the middle of a long talk, and pinned, is in the request 200 turns later, word for word, although the
/// summarizer drops it and the host has said more since than is carried on; one that was not pinned is not. A restart keeps it.
#[tokio::test(flavor = "multi_thread")]
async fn a_rule_that_is_pinned_in_mid_conversation_is_still_there_two_hundred_turns_later() {
    let folder = taped::folder();
    let model = Counting::new(32_768);
    let first = runtime(folder.path(), model.clone()).await;
    let options = SessionOptions::new(folder.path().join("work")).profile(Profile::Auto);
    let session = first.create(options).await.unwrap();
    let id = session.id().clone();
    let talk = async |session: &tamtam::Session, turns: std::ops::Range<usize>| {
        for turn in turns {
            let said = format!("turn {turn}: {}", "tell me more about it, please. ".repeat(12));
            assert_eq!(session.prompt(said).await.unwrap().wait().await.unwrap().outcome, Outcome::Done);
        }
    };
    talk(&session, 0..40).await;
    let pinned = session.prompt("Never touch main.rs.").await.unwrap();
    pinned.wait().await.unwrap();
    session.pin(pinned.message.clone()).await.unwrap();
    session.prompt(tamtam::Message::user("Use tabs.").pinned()).await.unwrap().wait().await.unwrap();
    session.prompt("Speak of cats.").await.unwrap().wait().await.unwrap();
    talk(&session, 40..140).await;
    assert!(first.shutdown().await.is_empty());
    let second = runtime(folder.path(), model.clone()).await;
    let session = second.open(&id).await.unwrap();
    talk(&session, 140..240).await;
    assert!(session.state().await.unwrap().context.compactions > 5);
    assert_eq!(model.refused.load(Ordering::SeqCst), 0);
    let newest = model.newest.lock().unwrap().clone();
    assert!(newest.contains("- Never touch main.rs.\n- Use tabs.\n") && newest.contains("turn 239"), "{newest}");
    assert!(!newest.contains("Speak of cats."), "what is not pinned is pushed out");
    let shown: Vec<_> =
        session.messages().await.unwrap().iter().filter(|message| message.pinned).map(tamtam::Message::text).collect();
    assert_eq!(shown, ["Never touch main.rs.", "Use tabs."]);
    assert_eq!(session.pins().await.unwrap().len(), 2);
    session.unpin(pinned.message).await.unwrap();
    assert_eq!(session.pins().await.unwrap().len(), 1);
    assert!(second.shutdown().await.is_empty());
}

/// BDD-COMPACT-008, J-20, S-16, C-p16: a compaction begins an anchor of its own; from it the session opens again as it was, and
/// what the summary replaced is not loaded into any later request.
#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_begins_an_anchor_and_the_session_opens_from_it() {
    let folder = taped::folder();
    let model = Counting::new(8_192);
    let first = runtime(folder.path(), model.clone()).await;
    let options = SessionOptions::new(folder.path().join("work")).profile(Profile::Auto);
    let session = first.create(options).await.unwrap();
    let id = session.id().clone();
    for turn in 0..40 {
        session.prompt(format!("turn {turn}")).await.unwrap().wait().await.unwrap();
    }
    session.wait().await.unwrap();
    // A summary may still be on its way: a turn does not wait for it.
    let before = loop {
        let state = session.state().await.unwrap();
        if state.compaction().is_none() {
            break state;
        }
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    };
    assert!(before.context.compactions > 0);
    assert_eq!(
        session.messages().await.unwrap().iter().filter(|message| message.text().starts_with("turn ")).count(),
        40
    );
    assert!(first.shutdown().await.is_empty());
    let anchors = std::fs::read_dir(folder.path().join("store/sessions").join(id.to_string()).join("anchors")).unwrap();
    assert!(anchors.count() as u64 > before.context.compactions);

    let second = runtime(folder.path(), model.clone()).await;
    let session = second.open(&id).await.unwrap();
    let after = session.state().await.unwrap();
    let replaced = |text: &str| (0..10).any(|turn| text.contains(&format!("user: turn {turn}\n")));
    assert_eq!((after.history, after.context, after.turns), (before.history, before.context, before.turns));
    let answer = session.prompt("and now?").await.unwrap().wait().await.unwrap();
    assert_eq!(answer.outcome, Outcome::Done);
    let asked = model.newest.lock().unwrap().clone();
    assert!(asked.contains("user: turn 39\n") && asked.contains("user: and now?") && !replaced(&asked), "{asked}");
    assert!(second.shutdown().await.is_empty());
}

/// A model that is asked to sum up and does not come back before it is told to, and then crashes.
struct Crashing {
    id: ModelRef,
    asked: tokio::sync::Semaphore,
    crash: tokio::sync::Semaphore,
}

impl Model for Crashing {
    fn id(&self) -> &ModelRef {
        &self.id
    }

    fn stream<'a>(
        &'a self,
        request: &'a Request,
        _: &'a mut dyn Deltas,
    ) -> BoxFuture<'a, Result<ModelAnswer, ModelError>> {
        let sums_up = &*request.system == SUMMARY_SYSTEM;
        Box::pin(async move {
            if sums_up {
                self.asked.add_permits(1);
                self.crash.acquire().await.unwrap().forget();
                panic!("the summarizer is broken");
            }
            let said = AnswerPart::Text { text: "fine".to_owned(), extra: None };
            Ok(ModelAnswer::new(vec![said], tamtam::session::Finish::Stop))
        })
    }
}

/// H-25, A-03: a compaction stands in the tree below its session, works while its session answers, and when it crashes that is no
/// crash of anybody else.
#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_works_beside_its_session_and_crashes_alone() {
    let folder = taped::folder();
    std::fs::create_dir(folder.path().join("work")).unwrap();
    let (asked, crash) = (tokio::sync::Semaphore::new(0), tokio::sync::Semaphore::new(0));
    let model = Arc::new(Crashing { id: "crashing/one".parse().unwrap(), asked, crash });
    let builder = Runtime::builder().store(folder.path().join("store")).model(model.clone());
    let runtime = builder.start().await.unwrap();
    let options = SessionOptions::new(folder.path().join("work")).profile(Profile::Auto);
    let session = runtime.create(options).await.unwrap();
    session.configure(|settings| settings.compaction.keep = Some(0)).await.unwrap();
    let say = async |text: String| session.prompt(text).await.unwrap().wait().await.unwrap().outcome;
    for turn in 0..3 {
        say(format!("turn {turn} {}", "word ".repeat(2_000))).await;
    }
    let mut events = session.events();
    session.compact().await.unwrap();
    model.asked.acquire().await.unwrap().forget();
    let node =
        || runtime.tree().roots.iter().flat_map(Node::iter).find(|node| node.id == session.id().as_str()).cloned();
    let below: Vec<_> = node().unwrap().children.iter().map(|child| (child.kind, child.restarts)).collect();
    assert_eq!(below, [("compaction", 0)]);
    assert_eq!(say("and now?".to_owned()).await, Outcome::Done);
    assert_eq!(node().unwrap().children.len(), 1, "it still works");

    model.crash.add_permits(1);
    let error = loop {
        let Next::Event(event) = events.next().await.unwrap() else { continue };
        if let EventKind::CompactionFinished { error, .. } = &event.kind {
            break error.clone();
        }
    };
    assert!(error.as_deref().is_some_and(|error| error.contains("the summarizer is broken")), "{error:?}");
    // Its session was told before it has left the tree.
    while !node().unwrap().children.is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let after = node().unwrap();
    assert_eq!((after.incarnation, after.restarts), (1, 0));
    assert_eq!(say("still there?".to_owned()).await, Outcome::Done);
    assert!(runtime.shutdown().await.is_empty());
}

/// What stands on the tape of a session that was compacted can be put back: through the whole runtime, and it opens so again.
#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_is_undone_from_the_tape_and_stays_undone() {
    let folder = taped::folder();
    let model = Counting::new(65_536);
    let first = runtime(folder.path(), model.clone()).await;
    let options = SessionOptions::new(folder.path().join("work")).profile(Profile::Auto);
    let session = first.create(options).await.unwrap();
    assert!(session.undo_compaction().await.unwrap_err().to_string().contains("no compaction"));
    session.configure(|settings| settings.compaction.keep = Some(0)).await.unwrap();
    for turn in 0..10 {
        session.prompt(format!("turn {turn}")).await.unwrap().wait().await.unwrap();
    }
    let before = session.state().await.unwrap().history;
    let mut events = session.events();
    session.compact().await.unwrap();
    while !matches!(events.next().await.unwrap(), Next::Event(event) if matches!(event.kind, EventKind::CompactionFinished { .. }))
    {
    }
    session.prompt("since then").await.unwrap().wait().await.unwrap();
    assert!(session.state().await.unwrap().history.len() < before.len());
    session.undo_compaction().await.unwrap();
    let after = session.state().await.unwrap().history;
    assert_eq!(after.len(), before.len() + 2);
    assert!(before.iter().zip(after.iter()).all(|(was, is)| was == is));
    let id = session.id().clone();
    assert!(first.shutdown().await.is_empty());
    let second = runtime(folder.path(), model.clone()).await;
    let session = second.open(&id).await.unwrap();
    assert_eq!(session.state().await.unwrap().history, after);
    assert!(second.shutdown().await.is_empty());
}

/// A branch that is left is summed up where one goes to, with the files of its calls; where no model can write, its
/// beginnings stand there.
#[tokio::test(flavor = "multi_thread")]
async fn what_came_of_a_branch_is_taken_along() {
    let folder = taped::folder();
    let model = Counting::new(65_536);
    let runtime = runtime(folder.path(), model.clone()).await;
    let options = || SessionOptions::new(folder.path().join("work")).profile(Profile::Auto);
    let (main, branch) = (runtime.create(options()).await.unwrap(), runtime.create(options()).await.unwrap());
    branch.prompt("before the branch").await.unwrap().wait().await.unwrap();
    let after = branch.state().await.unwrap().seq;
    assert!(main.leave_branch(&branch, after).await.is_err(), "nothing was said there");
    branch.prompt("Run tests another way").await.unwrap().wait().await.unwrap();
    main.leave_branch(&branch, after).await.unwrap();
    main.prompt("go on").await.unwrap().wait().await.unwrap();
    let asked = model.newest.lock().unwrap().clone();
    assert!(asked.contains("another way was tried and left") && asked.contains("## Goal\nGo on."), "{asked}");
    assert!(asked.find("another way").unwrap() < asked.find("go on").unwrap());

    model.no_summaries.store(true, Ordering::SeqCst);
    main.leave_branch(&branch, after).await.unwrap();
    main.prompt("and on").await.unwrap().wait().await.unwrap();
    let asked = model.newest.lock().unwrap().clone();
    assert!(asked.contains("[user] Run tests another way") && !asked.contains("before the branch"), "{asked}");
    assert!(runtime.shutdown().await.is_empty());
}

/// Whoever stops waiting for the summary of a branch leaves nothing open: what it had read by then is paid for, and the session
/// may sleep and be left again.
#[tokio::test(flavor = "multi_thread")]
async fn a_summary_of_a_branch_that_nobody_waits_for_is_closed_and_paid_for() {
    let folder = taped::folder();
    let (asked, hangs) = (Arc::new(tokio::sync::Notify::new()), Arc::new(AtomicBool::new(true)));
    let model = Arc::new(Hanging { id: "hanging/one".parse().unwrap(), asked: asked.clone(), hangs: hangs.clone() });
    let runtime = Runtime::builder().store(folder.path().join("store")).model(model).start().await.unwrap();
    let options = || SessionOptions::new(folder.path());
    let (main, branch) = (runtime.create(options()).await.unwrap(), runtime.create(options()).await.unwrap());
    let after = branch.state().await.unwrap().seq;
    branch.prompt("another way").await.unwrap().wait().await.unwrap();
    tokio::select! {
        left = main.leave_branch(&branch, after) => panic!("it was summed up: {left:?}"),
        () = asked.notified() => {}
    }
    // A picture of the state shows what is recorded, and what gives the branch up may be on its way to a slow disk.
    main.wait().await.unwrap();
    let state = main.state().await.unwrap();
    assert!(state.open.is_empty() && state.history.is_empty(), "{:?}", state.open);
    assert_eq!((state.spent.requests, state.spent.estimated), (1, 1));
    assert_eq!(main.bill().await.unwrap().total(), state.spent);
    runtime.passivate(main.id()).await.unwrap();
    hangs.store(false, Ordering::SeqCst);
    main.leave_branch(&branch, after).await.unwrap();
    let state = main.state().await.unwrap();
    assert_eq!((state.spent.requests, state.history.len()), (2, 1));
    assert!(runtime.shutdown().await.is_empty());
}

/// Answers at once, but for summaries, over which it hangs until it is told not to.
struct Hanging {
    id: ModelRef,
    asked: Arc<tokio::sync::Notify>,
    hangs: Arc<AtomicBool>,
}

impl Model for Hanging {
    fn id(&self) -> &ModelRef {
        &self.id
    }

    fn stream<'a>(
        &'a self,
        request: &'a Request,
        _: &'a mut dyn Deltas,
    ) -> BoxFuture<'a, Result<ModelAnswer, ModelError>> {
        Box::pin(async move {
            if &*request.system == SUMMARY_SYSTEM && self.hangs.load(Ordering::SeqCst) {
                self.asked.notify_one();
                std::future::pending::<()>().await;
            }
            let text = AnswerPart::Text { text: "said".to_owned(), extra: None };
            Ok(ModelAnswer::new(vec![text], tamtam::session::Finish::Stop))
        })
    }
}

/// A session made from an agent has its prompt, its tools and its limits, and no others.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_as_its_agent_says() {
    let folder = taped::folder();
    let model = Counting::new(65_536);
    let runtime = runtime(folder.path(), model.clone()).await;
    let agent = tamtam::runtime::Agent::from_json(
        r#"{"name":"quiet","description":"Says little.","prompt":"Be quiet.","tools":[],"limits":{"steps_max":3,"output_max":77},
            "permission":[{"permission":"*","pattern":"*","action":"deny"}]}"#,
    );
    let options = SessionOptions::from_agent(&agent.unwrap(), folder.path().join("work")).unwrap();
    let session = runtime.create(options).await.unwrap();
    session.prompt("hello").await.unwrap().wait().await.unwrap();
    let settings = session.state().await.unwrap().settings;
    assert_eq!((&*settings.system, settings.agent.as_str(), settings.steps_max), ("Be quiet.", "quiet", Some(3)));
    assert_eq!((settings.params.max_output, settings.has_tool("read")), (Some(77), false));
    assert_eq!(settings.rules.last().unwrap().name, "agent quiet");
    assert!(runtime.shutdown().await.is_empty());
}
