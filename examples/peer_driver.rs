//! The driver of a bench that puts agent runtimes side by side: many sessions in one process, each with a model over HTTP, the tape
//! on the disk, supervision on, and a listener that reads all events.
//!
//! The bench starts the driver and speaks a protocol of phases with it. The driver prints one line of JSON for each phase that it
//! has reached, and then waits for a line: `ready` (everything is loaded), `opened` (so many sessions are open and idle), `done`
//! (so many of them have run to their end, each with all of its tool results). A line holds the CPU time of the process and the
//! monotonic clock. The environment has the bench's settings:
//!
//! | variable | what |
//! |---|---|
//! | `MOCK_PORT` | the port of a server on this machine that speaks Chat Completions; without it the driver ends at once |
//! | `N`, `K` | how many sessions, and how many calls of `read` each of them is asked for |
//! | `WORKDIR`, `HOME` | the folder with the files that are read; the folder that gets the tapes |
//! | `AUTO=1` | wait for no line |
//! | `PERSIST=0` | tapes in memory |
//! | `TOOL=plain` | a tool that only reads a file, instead of the library's `read` |
//! | `LISTEN=0` | no listener |

use std::{
    env,
    io::{BufRead as _, Write as _},
    path::PathBuf,
    sync::Arc,
};

use rustix::time::{ClockId, clock_gettime};
use serde::Deserialize;
use tamtam::{
    EventKind, EventStream, Runtime, Session, SessionOptions,
    model::{Api, Endpoint, HttpModel, HttpOptions, Secret},
    permission::Profile,
    runtime::Passivation,
    session::Next,
    tool::{Effect, Toolbox, typed},
    tools,
};
use tokio::task::JoinHandle;

#[derive(Deserialize, schemars::JsonSchema)]
struct Path {
    path: String,
}

/// What a program without a library does to read a file.
fn plain_read(folder: String) -> Toolbox {
    let read = typed("read", "Read a file", move |Path { path }, _| {
        let path = format!("{folder}/{path}");
        async move { tokio::fs::read_to_string(path).await }
    });
    Toolbox::default().with(read.effect(Effect::Read))
}

/// What the bench wants.
struct Job {
    port: u16,
    sessions: usize,
    calls: usize,
    folder: String,
}

impl Job {
    fn told() -> Option<Job> {
        let number = |name: &str| env::var(name).ok()?.parse::<u16>().ok();
        let folder = env::var("WORKDIR").unwrap_or_else(|_| ".".to_owned());
        let [sessions, calls] = ["N", "K"].map(|name| usize::from(number(name).unwrap_or(1)));
        Some(Job { port: number("MOCK_PORT")?, sessions, calls, folder })
    }
}

fn says(name: &str, what: &str) -> bool {
    env::var(name).is_ok_and(|value| value == what)
}

/// Says which phase was reached, and waits for the bench.
fn phase(name: &str, ok: usize) {
    let nanos = |clock| {
        let time = clock_gettime(clock);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    };
    let (cpu, now) = (nanos(ClockId::ProcessCPUTime) / 1_000, nanos(ClockId::Monotonic));
    println!("{}", serde_json::json!({ "phase": name, "ok": ok, "cpu_us": cpu, "t": now }));
    let _ = std::io::stdout().flush();
    if !says("AUTO", "1") {
        let _ = std::io::stdin().lock().read_line(&mut String::new());
    }
}

/// Reads all events of a session, and counts its good results. Returns the stream, so that its contents stay.
async fn listen(mut events: EventStream, calls: usize) -> (usize, EventStream) {
    let mut good = 0;
    while good < calls {
        match events.next().await {
            Some(Next::Event(event)) => match &event.kind {
                EventKind::CallFinished { error: None, .. } => good += 1,
                EventKind::CallFinished { error, content, .. } => eprintln!("{error:?}: {content}"),
                EventKind::TurnFinished { .. } => break,
                _ => {}
            },
            Some(Next::Lagged(missed)) => eprintln!("{missed} events missed"),
            Some(_) => {}
            None => break,
        }
    }
    (good, events)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Some(job) = Job::told() else {
        println!("MOCK_PORT is not set: this program is started by a bench");
        return Ok(());
    };
    let url = format!("http://127.0.0.1:{}/v1", job.port);
    let endpoint = Endpoint::new(Api::OpenAiChat, "mock", url, "mock").with_key(Secret::new("fake"));
    let model = HttpModel::new(endpoint, HttpOptions::default())?;
    let toolbox = match says("TOOL", "plain") {
        true => plain_read(job.folder.clone()),
        false => tools::Setup::new().named(["read"])?,
    };
    // All stay awake, so that what is measured as held is held.
    let mut passivation = Passivation::default();
    (passivation.awake_max, passivation.idle_after) = (usize::MAX, None);
    let builder = Runtime::builder().model(Arc::new(model)).tools(toolbox).passivation(passivation);
    let builder = match says("PERSIST", "0") {
        true => builder.in_memory(),
        false => builder.store(PathBuf::from(env::var("HOME")?).join("tapes")),
    };
    let runtime = builder.start().await?;
    phase("ready", 0);

    let mut sessions: Vec<(Session, Option<JoinHandle<_>>)> = Vec::new();
    for _ in 0..job.sessions {
        let mut options =
            SessionOptions::new(&job.folder).profile(Profile::Auto).system("You are a helpful assistant.");
        options.steps_max = None;
        let session = runtime.create(options).await?;
        let listener = (!says("LISTEN", "0")).then(|| tokio::spawn(listen(session.events(), job.calls)));
        sessions.push((session, listener));
    }
    phase("opened", sessions.len());

    let mut receipts = Vec::new();
    for (session, _) in &sessions {
        receipts.push(session.prompt("Read the small files, then say you are done.").await?);
    }
    let (mut ok, mut held) = (0, Vec::new());
    for (receipt, (session, listener)) in receipts.into_iter().zip(sessions) {
        let answer = receipt.wait().await?;
        let mut good = job.calls;
        if let Some(listener) = listener {
            let (counted, events) = listener.await?;
            (good, _) = (counted, held.push(events));
        }
        match answer.steps as usize == job.calls + 1 && good == job.calls {
            true => ok += 1,
            false => eprintln!("{answer:?}, {good} good results of session {}", session.id()),
        }
    }
    phase("done", ok);
    let left = runtime.shutdown().await;
    if !left.is_empty() {
        eprintln!("left behind: {left:?}");
    }
    Ok(())
}
