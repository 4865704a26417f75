//! How many bytes a tape takes: in proportion to what was said, each thing counted once, and never to how large the context was when
//! the model was asked (P4-11). The figures are in `docs/PERFORMANCE.md`; `-- --nocapture size::` prints them.

use std::{
    path::Path,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use serde_json::{Value, json};
use tamtam::{
    Outcome, Runtime, Session, SessionOptions,
    model::{BoxFuture, ModelLimits, Reply, Request, Scripted},
    permission::Profile,
    session::SUMMARY_SYSTEM,
    tool::{Effect, Tool, ToolContext, ToolResult},
};

use crate::support::taped;

/// What the lines of one step take beside what was said in it, in bytes: request, answer, call, its start and its result.
const STEP_MAX: u64 = 2_600;

/// Of a page. They are no longer than they are because a line end takes two bytes in JSON.
const LINE: usize = 64;

/// Returns a page of so many lines, none of which was there before. It waits for a summary that is being written: what is said meanwhile
/// stays beside it, so that on a busy machine it would be chance how much an anchor repeats.
struct Page {
    lines: usize,
    said: Arc<AtomicU64>,
    session: Arc<OnceLock<Session>>,
}

impl Tool for Page {
    fn name(&self) -> &str {
        "page"
    }

    fn description(&self) -> &str {
        "Reads a page."
    }

    fn schema(&self) -> Value {
        json!({ "type": "object" })
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }

    fn run<'a>(&'a self, arguments: Value, _: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        let line = |n| format!("{:-<width$}\n", format!("{arguments} {n} "), width = LINE - 1);
        let page: String = (0..self.lines).map(line).collect();
        self.said.fetch_add(page.len() as u64, Ordering::SeqCst);
        Box::pin(async move {
            let session = self.session.get().expect("the session that this is a tool of");
            while session.state().await.unwrap().compaction().is_some() {
                tokio::task::yield_now().await;
            }
            ToolResult::ok(page)
        })
    }
}

/// A session and its tape, in bytes.
#[derive(Clone, Copy, Debug)]
struct Size {
    /// What the host, the model and the tool said, each thing once.
    said: u64,
    /// All files of the session.
    tape: u64,
    compactions: u64,
}

/// One turn of so many requests, each but the last with a call that brings a page, over a window of 200,000 tokens.
async fn size(steps: u64, lines: usize) -> Size {
    let folder = taped::folder();
    let said = Arc::<AtomicU64>::default();
    let counts = said.clone();
    let asked = AtomicU64::new(0);
    let say = move |text: String| {
        counts.fetch_add(text.len() as u64, Ordering::SeqCst);
        text
    };
    let script = move |request: &Request| {
        if &*request.system == SUMMARY_SYSTEM {
            return Reply::text(say("## Goal\nRead all pages.".to_owned()));
        }
        match asked.fetch_add(1, Ordering::SeqCst) + 1 {
            n if n == steps => Reply::text(say("That was all.".to_owned())),
            n => Reply::text(say(format!("Page {n} is next."))).with_raw_call(
                "",
                "page",
                say(json!({"n": n}).to_string()),
            ),
        }
    };
    let mut limits = ModelLimits::default();
    (limits.context, limits.output) = (200_000, 1_000);
    let model = Arc::new(Scripted::from_fn(script).with_limits(limits));
    let builder = Runtime::builder().store(folder.path().join("store"));
    let own = Arc::<OnceLock<Session>>::default();
    let page = Page { lines, said: said.clone(), session: own.clone() };
    let builder = builder.models(model, "scripted/script".parse().unwrap()).tool(page);
    let runtime = builder.start().await.unwrap();
    let session = runtime.create(SessionOptions::new(folder.path()).profile(Profile::Auto)).await.unwrap();
    assert!(own.set(session.clone()).is_ok());
    session.configure(|settings| settings.steps_max = None).await.unwrap();
    let answer = session.prompt("Read all pages.").await.unwrap().wait().await.unwrap();
    assert_eq!((answer.outcome, u64::from(answer.steps)), (Outcome::Done, steps));
    let compactions = session.state().await.unwrap().context.compactions;
    assert!(runtime.shutdown().await.is_empty());
    let tape = bytes(&folder.path().join("store/sessions").join(session.id().as_str()));
    let size = Size { said: said.load(Ordering::SeqCst) + "Read all pages.".len() as u64, tape, compactions };
    println!(
        "{steps} requests, {} bytes said in each: the tape takes {:.2} times what was said ({size:?})",
        size.said / steps,
        size.tape as f64 / size.said as f64
    );
    size
}

fn bytes(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    let of = |entry: std::fs::DirEntry| match entry.metadata().unwrap() {
        about if about.is_dir() => bytes(&entry.path()),
        about => about.len(),
    };
    entries.map(of).sum()
}

/// P4-11: a request names its context by hash. What a step adds to the tape is the same in a context of 5,000 tokens and in one of
/// 100,000, and does not exceed what was said in it by more than a fixed amount.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_adds_the_same_to_the_tape_however_large_the_context_is() {
    // 1,024 bytes a page.
    let lines = 1_024 / LINE;
    let (short, middle, long) = (size(20, lines).await, size(220, lines).await, size(420, lines).await);
    assert_eq!(long.compactions, 0);
    let added = |before: Size, after: Size| (after.tape - before.tape - (after.said - before.said)) / 200;
    let (early, late) = (added(short, middle), added(middle, long));
    println!("a step takes {early} bytes beside what was said in it, and {late} in a large context");
    assert!(early <= STEP_MAX, "{early}");
    // Numbers get longer; nothing else does.
    assert!(late <= early + early / 20, "{early} bytes early, {late} late");
}

/// P4-11: where long texts are read, as many as fill a window of 200,000 tokens several times, the tape takes at most 1.3 times what
/// was said, with all its summaries and anchors.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tape_of_long_texts_takes_at_most_1_3_times_what_was_said() {
    let size = size(120, 24_000 / LINE).await;
    assert!(size.compactions >= 3, "{size:?}");
    assert!(size.tape * 10 <= size.said * 13, "{size:?}");
}
