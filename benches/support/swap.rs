//! What the swap of a compaction does to the steps round it: the same turn in a window that is small, and in one that is not.
//!
//! A turn that is never summarized grows, and its steps with it; so the steps of a small window are also compared with those of
//! sessions as long as such a window allows, which end before a summary.
#![allow(unreachable_pub, reason = "a part of one bench")]

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use tamtam::{
    ModelRef,
    model::{AnswerPart, BoxFuture, Deltas, Model, ModelAnswer, ModelError, ModelLimits, Request},
    session::{Finish, SUMMARY_SYSTEM},
};

use super::parts::{Nothing, distribution, options, percentile, runtime, scaled};

/// Steps of one turn.
const STEPS: usize = 2_000;

/// Steps of a session that is over before a window of 32,768 is summarized for the second time.
const SHORT: usize = 34;

/// Its first steps, which are not counted: after a summary a context is never as small again.
const SMALL: usize = 17;

/// A model that writes some 500 tokens and one call in each answer, and sums up in a few words.
struct Talker {
    name: ModelRef,
    context: u64,
    steps: usize,
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

    fn stream<'a>(
        &'a self,
        request: &'a Request,
        _: &'a mut dyn Deltas,
    ) -> BoxFuture<'a, Result<ModelAnswer, ModelError>> {
        let text = |text: String| AnswerPart::Text { text, extra: None };
        if &*request.system == SUMMARY_SYSTEM {
            return Box::pin(async move { Ok(ModelAnswer::new(vec![text("## Goal\nGo on.".into())], Finish::Stop)) });
        }
        let mut asked = self.asked.lock().unwrap();
        asked.push(Instant::now());
        let made = asked.len();
        let last = made.is_multiple_of(self.steps);
        drop(asked);
        Box::pin(async move {
            if last {
                return Ok(ModelAnswer::new(vec![text("done".into())], Finish::Stop));
            }
            // Equal calls in a row would be a loop.
            let input = format!("{{\"n\":{made}}}");
            let call = AnswerPart::Call { id: "call_1".into(), name: "nothing".into(), input, extra: None };
            Ok(ModelAnswer::new(vec![text("word ".repeat(400)), call], Finish::ToolCalls))
        })
    }
}

/// What lay between the requests of so many sessions of so many steps, the first ones left out, and how often they were summarized.
async fn between(context: u64, sessions: usize, steps: usize, left_out: usize) -> (Vec<Duration>, u64) {
    let folder = tempfile::tempdir().unwrap();
    let asked: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let model = Talker { name: "bench/talker".parse().unwrap(), context, steps, asked: asked.clone() };
    let runtime = runtime(folder.path(), Arc::new(model), Nothing).await;
    let (mut between, mut compactions) = (Vec::new(), 0);
    for _ in 0..sessions {
        let session = runtime.create(options(folder.path())).await.unwrap();
        session.prompt("go").await.unwrap().wait().await.unwrap();
        let asked = std::mem::take(&mut *asked.lock().unwrap());
        between.extend(asked.windows(2).map(|pair| pair[1] - pair[0]).skip(left_out));
        compactions += session.state().await.unwrap().context.compactions;
        session.end("over").await.unwrap();
    }
    drop(runtime.shutdown().await);
    (between, compactions)
}

/// (h) Steps with compactions among them, and without.
pub async fn swap() {
    let steps_max = scaled(STEPS);
    for round in 0..3 {
        let windows =
            [("no compaction", 1_000_000_000), ("a window of 200,000", 200_000), ("a window of 32,768", 32_768)];
        let mut last = Vec::new();
        for (name, context) in windows {
            let (steps, compactions) = between(context, 1, steps_max, 0).await;
            assert!(context > 100_000 || compactions > 0, "{name}: nothing was summed up");
            last.clone_from(&steps);
            distribution(&format!("h: step, {name} ({compactions} in {steps_max} steps, round {round})"), steps);
        }
        let (mut short, compactions) = between(1_000_000_000, (steps_max / (SHORT - SMALL)).max(1), SHORT, SMALL).await;
        let p99 = [percentile(&mut short, 99.0), percentile(&mut last, 99.0)];
        distribution(&format!("h: step, no compaction, as long a context ({compactions}, round {round})"), short);
        let more = p99[1].as_secs_f64() / p99[0].as_secs_f64().max(f64::EPSILON) * 100.0 - 100.0;
        println!("h: a window of 32,768 raises the p99 of steps by {more:.1} % over that (round {round})");
    }
}
