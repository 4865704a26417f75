//! What a step costs with its spans: without a subscriber, with one that keeps them, and with an exporter to a collector that takes
//! everything. In turns, so that all meet the same machine.
//!
//! ```sh
//! cargo bench -p tamtam-otel --bench traced
//! ```
//!
//! `--short` runs each at a fiftieth of its size, to see that it still works: its figures say nothing.
#![allow(clippy::unwrap_used, missing_docs)]

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::json;
use tamtam::{
    Runtime, SessionOptions,
    model::{HttpClient, HttpOptions, Reply, Scripted},
    permission::Profile,
    tool::{self, NoArguments, ToolContext, ToolResult},
};
use tamtam_otel::{Otlp, OtlpOptions};
use tracing_subscriber::layer::SubscriberExt as _;

/// A collector that answers every request with 200.
fn collector() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || drop(answer(stream)));
        }
    });
    address
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let mut read = Vec::new();
    let mut piece = [0; 64 << 10];
    loop {
        let (head, length) = loop {
            if let Some(end) = read.windows(4).position(|at| at == b"\r\n\r\n") {
                let text = String::from_utf8_lossy(&read[..end]).to_lowercase();
                let length = text.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.parse().ok());
                break (end + 4, length.unwrap_or(0_usize));
            }
            match stream.read(&mut piece)? {
                0 => return Ok(()),
                n => read.extend_from_slice(&piece[..n]),
            }
        };
        while read.len() < head + length {
            match stream.read(&mut piece)? {
                0 => return Ok(()),
                n => read.extend_from_slice(&piece[..n]),
            }
        }
        read.drain(..head + length);
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")?;
    }
}

/// A turn of so many steps; how long one of them took.
async fn steps(count: usize, otlp: Option<&Otlp>) -> Duration {
    let folder = tempfile::tempdir().unwrap();
    let model = Scripted::from_fn(move |request| match request.history.iter().count() / 2 {
        done if done < count => Reply::call("nothing", json!({ "n": done })),
        _ => Reply::text("done"),
    });
    let nothing = tool::typed("nothing", "Does nothing", async |_: NoArguments, _: ToolContext| ToolResult::ok("ok"));
    let builder = Runtime::builder().store(folder.path().join("store")).model(Arc::new(model)).tool(nothing);
    let builder = otlp.into_iter().fold(builder, |builder, otlp| builder.trace_link(otlp.link()));
    let runtime = builder.start().await.unwrap();
    let mut options = SessionOptions::new(folder.path()).profile(Profile::Auto);
    options.steps_max = None;
    let session = runtime.create(options).await.unwrap();
    let began = Instant::now();
    session.prompt("go").await.unwrap().wait().await.unwrap();
    let took = began.elapsed();
    drop(runtime.shutdown().await);
    took / u32::try_from(count + 1).unwrap()
}

fn main() {
    let is_short = std::env::args().any(|arg| arg == "--short");
    let (rounds, count) = if is_short { (1, 20) } else { (15, 1_000) };
    // One thread: the subscriber of a thread is that of all its tasks.
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let exports = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let options = OtlpOptions::new(collector(), "bench");
    let otlp = exports.block_on(async { Otlp::start(options, HttpClient::new(HttpOptions::default())).unwrap() });
    let registry = tracing::Dispatch::new(tracing_subscriber::registry());
    let exporter = tracing::Dispatch::new(tracing_subscriber::registry().with(otlp.layer()));
    let mut all = [const { Vec::new() }; 3];
    for _ in 0..rounds {
        all[0].push(tokio.block_on(steps(count, None)));
        let one = tracing::dispatcher::set_default(&registry);
        all[1].push(tokio.block_on(steps(count, None)));
        drop(one);
        let one = tracing::dispatcher::set_default(&exporter);
        all[2].push(tokio.block_on(steps(count, Some(&otlp))));
        drop(one);
    }
    for (name, mut took) in ["no subscriber", "a registry", "OTLP, every span exported"].iter().zip(all) {
        took.sort();
        let micros = |at: usize| took[at].as_secs_f64() * 1e6;
        let (least, p50, most) = (micros(0), micros(took.len() / 2), micros(took.len() - 1));
        println!("a step, {name:28} p50 {p50:8.1} us   least {least:8.1}   most {most:8.1}   n {}", took.len());
    }
    exports.block_on(otlp.end());
}
