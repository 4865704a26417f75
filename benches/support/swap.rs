//! What the swap of a compaction does to the steps round it: the same turn in a window that is small, and in one that is not.
#![allow(unreachable_pub, reason = "a part of one bench")]

use std::{
    sync::{Arc, Mutex},
    time::Instant,
};

use tamtam::{
    ModelRef,
    context::SUMMARY_SYSTEM,
    message::Finish,
    model::{Answer, AnswerPart, BoxFuture, Deltas, Model, ModelError, ModelLimits, Request},
};

use super::parts::{Nothing, distribution, options, runtime};

/// Steps of one turn.
const STEPS: usize = 2_000;

/// A model that writes some 500 tokens and one call in each answer, and sums up in a few words.
struct Talker {
    name: ModelRef,
    context: u64,
    asked: Arc<Mutex<Vec<Instant>>>,
}

impl Model for Talker {
    fn id(&self) -> &ModelRef {
        &self.name
    }

    fn limits(&self) -> ModelLimits {
        let mut limits = ModelLimits::default();
        (limits.context, limits.output) = (self.context, 1_000);
        limits
    }

    fn stream<'a>(&'a self, request: &'a Request, _: &'a mut dyn Deltas) -> BoxFuture<'a, Result<Answer, ModelError>> {
        let text = |text: String| AnswerPart::Text { text, extra: None };
        if &*request.system == SUMMARY_SYSTEM {
            return Box::pin(async move { Ok(Answer::new(vec![text("## Goal\nGo on.".into())], Finish::Stop)) });
        }
        let mut asked = self.asked.lock().unwrap();
        asked.push(Instant::now());
        let last = asked.len().is_multiple_of(STEPS);
        drop(asked);
        Box::pin(async move {
            if last {
                return Ok(Answer::new(vec![text("done".into())], Finish::Stop));
            }
            let call =
                AnswerPart::Call { id: "call_1".into(), name: "nothing".into(), input: "{}".into(), extra: None };
            Ok(Answer::new(vec![text("word ".repeat(400)), call], Finish::ToolCalls))
        })
    }
}

/// (h) Steps without a compaction, with one in some 300 (a window as models have), and with one in some 15 (a small one).
pub async fn swap() {
    for round in 0..3 {
        let windows =
            [("no compaction", 1_000_000_000), ("a window of 200,000", 200_000), ("a window of 32,768", 32_768)];
        for (name, context) in windows {
            let folder = tempfile::tempdir().unwrap();
            let asked: Arc<Mutex<Vec<Instant>>> = Arc::default();
            let model = Talker { name: "bench/talker".parse().unwrap(), context, asked: asked.clone() };
            let runtime = runtime(folder.path(), Arc::new(model), Nothing).await;
            let session = runtime.create(options(folder.path())).await.unwrap();
            session.prompt("go").await.unwrap().wait().await.unwrap();
            let between: Vec<_> = asked.lock().unwrap().windows(2).map(|pair| pair[1] - pair[0]).collect();
            let compactions = session.state().await.unwrap().context.compactions;
            distribution(&format!("h: step, {name} ({compactions} in {STEPS} steps, round {round})"), between);
            drop(runtime.shutdown().await);
        }
    }
}
