//! What the wires cost a processor, printed:
//! `cargo test --profile bench --all-features --lib model::costs -- --ignored --nocapture`.

#![allow(clippy::unwrap_used)]

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures_util::{FutureExt as _, StreamExt as _};

use super::{
    Api, Endpoint, History, Item, Request,
    samples::{answer, call, result, text, user},
    sse::Decoder,
    wire::{body, rendering},
};

const ROUNDS: usize = 7;
/// As a socket gives them.
const CHUNK_BYTES: usize = 16 * 1024;
const STREAM_BYTES: usize = 32 * 1024 * 1024;

/// The median of some rounds, each of all of these in turns.
fn medians<const N: usize>(mut each: [&mut dyn FnMut(); N]) -> [Duration; N] {
    let mut took: [Vec<Duration>; N] = std::array::from_fn(|_| Vec::new());
    for _ in 0..ROUNDS {
        for (one, took) in each.iter_mut().zip(&mut took) {
            let began = Instant::now();
            one();
            took.push(began.elapsed());
        }
    }
    took.map(|mut took| {
        took.sort_unstable();
        took[ROUNDS / 2]
    })
}

fn by_sseer(chunks: &[Bytes]) -> usize {
    let chunks = futures_util::stream::iter(chunks.iter().cloned().map(Ok::<_, std::convert::Infallible>));
    let events = sseer::event_stream::EventStream::new(chunks);
    events.fold(0, async |sum, event| sum + event.unwrap().data.len()).now_or_never().unwrap()
}

fn by_eventsource_stream(chunks: &[Bytes]) -> usize {
    use eventsource_stream::Eventsource as _;
    let chunks = futures_util::stream::iter(chunks.iter().cloned().map(Ok::<_, std::convert::Infallible>));
    chunks.eventsource().fold(0, async |sum, event| sum + event.unwrap().data.len()).now_or_never().unwrap()
}

fn by_ours(chunks: &[Bytes]) -> usize {
    let mut decoder = Decoder::new(1 << 20);
    chunks.iter().flat_map(|chunk| decoder.push(chunk).unwrap()).map(|event| event.data.len()).sum()
}

#[test]
#[ignore = "it measures"]
fn events_beside_other_decoders() {
    for bytes in [30, 200, 1_000, 16_000] {
        let event = format!("data: {}\n\n", "x".repeat(bytes));
        let stream = Bytes::from(event.repeat(STREAM_BYTES / event.len()));
        let chunks: Vec<Bytes> = (0..stream.len())
            .step_by(CHUNK_BYTES)
            .map(|at| stream.slice(at..stream.len().min(at + CHUNK_BYTES)))
            .collect();
        let expected = by_ours(&chunks);
        assert_eq!((by_sseer(&chunks), by_eventsource_stream(&chunks)), (expected, expected));
        let took = medians([
            &mut || _ = black_box(by_ours(&chunks)),
            &mut || _ = black_box(by_sseer(&chunks)),
            &mut || _ = black_box(by_eventsource_stream(&chunks)),
            &mut || chunks.iter().for_each(|chunk| drop(black_box(chunk.to_vec()))),
        ]);
        let [ours, sseer, other, copy] = took.map(|took| stream.len() as f64 / took.as_secs_f64() / 1e9);
        println!(
            "events of {bytes:>6} bytes: ours {ours:.2} GB/s, sseer {sseer:.2}, eventsource-stream {other:.2}, a copy {copy:.2}"
        );
    }
}

#[test]
#[ignore = "it measures"]
fn a_request_beside_a_copy_of_its_bytes() {
    let items = (0..250).flat_map(|n| {
        let id = format!("call_{n}");
        [
            user(&"please ".repeat(80)),
            answer(vec![call(&id, r#"{"path":"src/lib.rs"}"#)]),
            Item::Result(result(&id, &"a line of the file\n".repeat(30))),
            answer(vec![text(&"words of the answer ".repeat(30))]),
        ]
    });
    for api in [Api::OpenAiChat, Api::OpenAiResponses, Api::AnthropicMessages, Api::GeminiGenerateContent] {
        let endpoint = Endpoint::new(api, "p", "http://h", "m");
        // An item keeps what the first wire made of it.
        let history: History = items.clone().collect();
        let (wire, request) = (rendering(&endpoint), Request::new(history));
        let began = Instant::now();
        let bytes = body(&endpoint, &wire, &request);
        let first = began.elapsed();
        let took =
            medians([&mut || (0..10).for_each(|_| drop(black_box(body(&endpoint, &wire, &request)))), &mut || {
                (0..10).for_each(|_| drop(black_box(bytes.to_vec())))
            }]);
        let [again, copy] = took.map(|took| took / 10);
        println!(
            "{:<18} {:>7} bytes: first {first:.1?}, again {again:.1?}, a copy {copy:.1?}: {:.2} of it",
            api.name(),
            bytes.len(),
            again.as_secs_f64() / copy.as_secs_f64()
        );
    }
}
