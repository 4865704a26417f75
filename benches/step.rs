//! What a step costs besides its model and its tool: the whole path through `Session::send`, and a hand-written floor.
//!
//! One iteration is a turn of 32 steps: the model (in memory) asks for one call of a tool that does nothing, 31 times, and
//! then ends. The floor does the same in a plain loop and writes one line of JSON a step. Next to the times are a step's
//! allocations, which are the same on a busy machine.
#![allow(clippy::unwrap_used, missing_docs)]

use std::{hint::black_box, io::Write as _};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tamtam::model::{AnswerPart, History, Item, Model as _, Request};

#[path = "support/counted.rs"]
mod counted;
#[path = "support/parts.rs"]
mod parts;

const STEPS: u32 = 32;

/// How many turns are counted. A chunk of the history is filled now and then, so one turn alone says little.
const COUNTED: u32 = 32;

fn steps(c: &mut Criterion) {
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut group = c.benchmark_group("turn_of_32_steps");
    group.throughput(Throughput::Elements(u64::from(STEPS)));

    let folder = tempfile::tempdir().unwrap();
    let (runtime, session) = tokio.block_on(parts::session(folder.path(), STEPS));
    // A listener, so that events are made and delivered.
    let mut events = session.events();
    let listener = tokio.spawn(async move { while events.next().await.is_some() {} });
    group.bench_function("session", |b| {
        b.to_async(&tokio).iter(|| async {
            let answer = session.prompt("go").await.unwrap().wait().await.unwrap();
            assert_eq!(answer.steps, STEPS);
        });
    });
    let before = counted::so_far();
    tokio.block_on(async {
        for _ in 0..COUNTED {
            session.prompt("go").await.unwrap().wait().await.unwrap();
        }
    });
    let after = counted::so_far();
    let steps = u64::from(COUNTED * STEPS);
    println!("a step: {} allocations, {} bytes", (after.0 - before.0) / steps, (after.1 - before.1) / steps);
    tokio.block_on(async { drop(runtime.shutdown().await) });
    listener.abort();

    group.bench_function("floor", |b| {
        let mut file = tempfile::tempfile().unwrap();
        let model = parts::Calls::new(STEPS);
        b.to_async(&tokio).iter(|| {
            let mut file = file.try_clone().unwrap();
            let model = &model;
            async move {
                let mut history = History::default();
                loop {
                    let request = Request::new(history.clone());
                    let answer = model.stream(&request, &mut |_| ()).await.unwrap();
                    file.write_all(&serde_json::to_vec(&answer).unwrap()).unwrap();
                    let calls = answer.parts.iter().any(|part| matches!(part, AnswerPart::Call { .. }));
                    history.push(Item::Assistant(answer));
                    if !calls {
                        break;
                    }
                    let result = parts::result();
                    file.write_all(&serde_json::to_vec(&result).unwrap()).unwrap();
                    history.push(Item::Result(result));
                }
                black_box(history.len());
            }
        });
        file.flush().unwrap();
    });
    group.finish();
}

fn config() -> Criterion {
    Criterion::default().sample_size(20)
}

criterion_group! { name = benches; config = config(); targets = steps }
criterion_main!(benches);
