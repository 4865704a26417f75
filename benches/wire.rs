//! What lies between the socket of a provider and a listener of a session: how long the first words take, and what each piece costs.
//! Over loopback; beside a socket that is read and thrown away.
//!
//! ```sh
//! cargo bench --bench wire
//! ```
//!
//! `--short` runs each a few times, to see that it still works: its figures say nothing.
#![allow(clippy::unwrap_used, missing_docs)]

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use tamtam::{
    EventKind, Runtime, SessionOptions,
    model::{Api, HttpOptions, Provider, Router},
    permission::Profile,
    session::Next,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// How long the server is silent before its first event: whoever waits sleeps by then, as for a provider.
const THINKS: Duration = Duration::from_millis(5);

fn piece(n: usize) -> String {
    format!(
        "data: {{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{{\"index\":0,\
         \"delta\":{{\"content\":\"word {n} \"}},\"finish_reason\":null}}]}}\n\n"
    )
}

/// Answers each request with so many pieces: the first one after [`THINKS`], all others at once behind it. Notes when it wrote the
/// first.
struct Server {
    address: String,
    wrote: Arc<Mutex<Option<Instant>>>,
}

impl Server {
    fn start(pieces: usize) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let wrote = Arc::<Mutex<Option<Instant>>>::default();
        let (first, rest) = (piece(0), (1..pieces).map(piece).collect::<String>());
        let end = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
        let (rest, writes) = (rest + end, wrote.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (first, rest, wrote) = (first.clone(), rest.clone(), writes.clone());
                std::thread::spawn(move || Server::answer(stream.unwrap(), &first, &rest, &wrote));
            }
        });
        Server { address, wrote }
    }

    fn answer(stream: TcpStream, first: &str, rest: &str, wrote: &Mutex<Option<Instant>>) {
        stream.set_nodelay(true).unwrap();
        let (mut reader, mut writer) = (BufReader::new(stream.try_clone().unwrap()), stream);
        let (mut line, mut length) = (String::new(), 0);
        while reader.read_line(&mut line).unwrap_or(0) > 2 {
            let header = line.to_ascii_lowercase();
            length = header.strip_prefix("content-length:").map_or(length, |text| text.trim().parse().unwrap());
            line.clear();
        }
        reader.read_exact(&mut vec![0; length]).unwrap();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        writer.write_all(head.as_bytes()).unwrap();
        std::thread::sleep(THINKS);
        *wrote.lock().unwrap() = Some(Instant::now());
        // A reader that is gone has what it wants.
        let _ = writer.write_all(first.as_bytes()).and_then(|()| writer.write_all(rest.as_bytes()));
    }

    fn wrote(&self) -> Instant {
        self.wrote.lock().unwrap().take().unwrap()
    }
}

/// How long a bare socket waits for the first bytes of the answer, and for all of them.
async fn bare(server: &Server) -> (Duration, Duration) {
    let mut socket = tokio::net::TcpStream::connect(&server.address).await.unwrap();
    socket.write_all(b"POST / HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}").await.unwrap();
    let (mut buffer, mut first) = (vec![0; 64 * 1024], None);
    let mut seen = Vec::new();
    loop {
        let read = socket.read(&mut buffer).await.unwrap();
        if read == 0 {
            break;
        }
        if first.is_none() {
            seen.extend_from_slice(&buffer[..read]);
            first = seen.windows(5).any(|bytes| bytes == b"data:").then(Instant::now);
        }
    }
    let (end, wrote) = (Instant::now(), server.wrote());
    (first.unwrap() - wrote, end - wrote)
}

/// The median of the first words, and of the whole answer.
fn medians(mut took: Vec<(Duration, Duration)>) -> (Duration, Duration) {
    let middle = took.len() / 2;
    took.sort_by_key(|(first, _)| *first);
    let first = took[middle].0;
    took.sort_by_key(|(_, all)| *all);
    (first, took[middle].1)
}

async fn measured(pieces: usize, turns: usize) {
    let server = Server::start(pieces);
    let provider = Provider::custom("own", Api::OpenAiChat, format!("http://{}/v1", server.address));
    let router = Router::new(HttpOptions::default()).with(provider);
    let folder = tempfile::tempdir().unwrap();
    let builder = Runtime::builder().store(folder.path()).models(Arc::new(router), "own/m".parse().unwrap());
    let runtime = builder.start().await.unwrap();
    let session = runtime.create(SessionOptions::new(folder.path()).profile(Profile::Auto)).await.unwrap();
    let mut events = session.events();
    let (mut ours, mut theirs, mut lagged) = (Vec::new(), Vec::new(), 0);
    for _ in 0..turns {
        theirs.push(bare(&server).await);
        session.prompt("go on").await.unwrap();
        let (mut first, mut bytes, mut missed) = (None, 0, 0);
        let end = loop {
            match events.next().await.unwrap() {
                Next::Event(event) => match &event.kind {
                    EventKind::TextDelta { text } => {
                        first.get_or_insert_with(Instant::now);
                        bytes += text.len();
                    }
                    EventKind::TurnFinished { .. } => break Instant::now(),
                    _ => {}
                },
                // More than a listener may be behind by.
                Next::Lagged(events) => missed += events,
                _ => {}
            }
        };
        let sent = (0..pieces).map(|n| format!("word {n} ").len()).sum::<usize>();
        assert!(bytes == sent || (missed > 0 && bytes < sent), "{bytes} of {sent} bytes");
        lagged += missed;
        let wrote = server.wrote();
        ours.push((first.unwrap() - wrote, end - wrote));
    }
    let ((first, all), (bare_first, bare_all)) = (medians(ours), medians(theirs));
    let each = all.saturating_sub(bare_all) / u32::try_from(pieces).unwrap();
    println!(
        "{pieces:>6} pieces: first words {first:>8.1?} after they were written (a bare socket {bare_first:.1?}); \
         all, to the end of the turn {all:.1?} (a bare socket {bare_all:.1?}), {each:.2?} a piece; the listener missed {lagged} events"
    );
    runtime.shutdown().await;
}

fn main() {
    let short = std::env::args().any(|argument| argument == "--short");
    let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    threads.block_on(async {
        for (pieces, turns) in [(20, 300), (1_000, 100), (20_000, 20)] {
            measured(pieces, if short { 3 } else { turns }).await;
        }
    });
}
