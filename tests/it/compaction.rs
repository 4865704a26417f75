//! Compaction in a whole runtime: real actors, a real tape, a model that counts what it is sent.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

use tamtam::{
    EventKind, Outcome, Runtime, SessionOptions,
    context::{SUMMARY_SYSTEM, of_item, of_text},
    event::Next,
    message::ModelRef,
    model::{Answer, AnswerPart, BoxFuture, Deltas, Model, ModelError, ModelLimits, Request, scripted::transcript},
    permission::Profile,
    usage::Usage,
};

use crate::support::taped;

/// A model with a window of its own, which refuses what does not fit, as a provider does.
struct Counting {
    id: ModelRef,
    context: u64,
    largest: AtomicU64,
    refused: AtomicU64,
    summaries: AtomicU64,
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

    fn stream<'a>(&'a self, request: &'a Request, _: &'a mut dyn Deltas) -> BoxFuture<'a, Result<Answer, ModelError>> {
        // It counts a fifth more than the runtime estimates, which the runtime has to learn.
        let tokens: u64 = request.history.iter().map(|item| of_item(item)).sum::<u64>() + of_text(&request.system);
        let tokens = tokens * 6 / 5;
        self.largest.fetch_max(tokens, Ordering::SeqCst);
        let said = if &*request.system == SUMMARY_SYSTEM {
            self.summaries.fetch_add(1, Ordering::SeqCst);
            // A summariser that drops every rule.
            "## Goal\nGo on.".to_owned()
        } else {
            *self.newest.lock().unwrap() = transcript(request);
            "word ".repeat(250)
        };
        let fits = tokens + 1_000 <= self.context;
        if !fits {
            self.refused.fetch_add(1, Ordering::SeqCst);
        }
        Box::pin(async move {
            if !fits {
                return Err(ModelError::new(tamtam::model::ErrorKind::ContextOverflow, "too large"));
            }
            let mut answer =
                Answer::new(vec![AnswerPart::Text { text: said, extra: None }], tamtam::message::Finish::Stop);
            answer.usage = Usage { input: tokens, output: 300, ..Usage::default() };
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
    let folder = tempfile::tempdir().unwrap();
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
/// turn 500, although the summariser drops it.
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

/// BDD-COMPACT-008, J-20, S-16: a compaction begins an anchor of its own; from it the session opens again as it was.
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
    let before = session.state().await.unwrap();
    assert!(before.context.compactions > 0);
    assert_eq!(
        session.messages().await.unwrap().iter().filter(|message| message.text().starts_with("turn ")).count(),
        40
    );
    assert!(first.shutdown().await.is_empty());
    let anchors = std::fs::read_dir(folder.path().join("store/sessions").join(id.to_string()).join("anchors")).unwrap();
    assert!(anchors.count() as u64 > before.context.compactions);

    let second = runtime(folder.path(), model.clone()).await;
    let session = second.resume(&id).await.unwrap();
    let after = session.state().await.unwrap();
    assert_eq!((after.history, after.context, after.turns), (before.history, before.context, before.turns));
    let answer = session.prompt("and now?").await.unwrap().wait().await.unwrap();
    assert_eq!(answer.outcome, Outcome::Done);
    assert!(second.shutdown().await.is_empty());
}
