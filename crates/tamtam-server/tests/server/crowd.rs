//! A thousand subscribers of one session, of which a hundred read nothing.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use futures_util::future::join_all;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    time::timeout,
};

use crate::lab::{LONG, Lab};

const READERS: usize = 900;
const STALLED: usize = 100;

/// Turns of 360 KiB of events together: more than may wait for one that does not read.
const TURNS: usize = 6;
const WORDS: usize = 20_000;

/// The most bytes that may wait in the kernel for one subscriber.
const WAITS_MAX: u64 = 256 << 10;

/// A subscriber that keeps the text as it came. Over HTTP/1.0 nothing but the text of the events comes after the header.
struct Subscriber {
    socket: TcpStream,
    text: Vec<u8>,
}

impl Subscriber {
    /// Subscribes, and reads the header of the answer.
    async fn new(at: SocketAddr, receives: Option<u32>) -> Subscriber {
        let socket = TcpSocket::new_v4().unwrap();
        receives.into_iter().for_each(|bytes| socket.set_recv_buffer_size(bytes).unwrap());
        let mut socket = socket.connect(at).await.unwrap();
        let request = format!("GET /v1/sessions/s/events?after=0&deltas=0 HTTP/1.0\r\nhost: {at}\r\n\r\n");
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut subscriber = Subscriber { socket, text: Vec::new() };
        let head = subscriber.until("\r\n\r\n", 1).await;
        assert!(subscriber.text.starts_with(b"HTTP/1.0 200"), "{}", String::from_utf8_lossy(&subscriber.text));
        subscriber.text.drain(..head);
        subscriber
    }

    /// Reads until these words have come so often, and gives the place behind them.
    async fn until(&mut self, words: &str, times: usize) -> usize {
        let (mut seen, mut from) = (0, 0);
        loop {
            // All of it is ASCII.
            while let Some(at) = std::str::from_utf8(&self.text[from..]).unwrap().find(words) {
                (seen, from) = (seen + 1, from + at + words.len());
                if seen == times {
                    return from;
                }
            }
            // The words may come in two pieces.
            from = from.max(self.text.len().saturating_sub(words.len() - 1));
            let read = timeout(LONG, self.socket.read_buf(&mut self.text)).await.expect("an event in time").unwrap();
            assert!(read > 0, "the stream ended after {seen} of {times}");
        }
    }

    /// Reads up to the end of the last turn's frame.
    async fn read_all(&mut self) {
        let end = self.until("\"event\":\"turn_finished\"", TURNS).await;
        while !self.text[end..].windows(2).any(|two| two == b"\n\n") {
            timeout(LONG, self.socket.read_buf(&mut self.text)).await.expect("the rest in time").unwrap();
        }
        let rest = self.text[end..].windows(2).position(|two| two == b"\n\n").unwrap();
        self.text.truncate(end + rest + 2);
    }
}

/// The bytes that wait in the kernel: those that the server has sent to each of its clients and that were not taken, by the client's
/// port, with those that wait at the client.
fn waiting(server: SocketAddr) -> BTreeMap<u16, u64> {
    let mut waiting = BTreeMap::new();
    for line in std::fs::read_to_string("/proc/net/tcp").unwrap().lines().skip(1) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let port = |field: &str| u16::from_str_radix(field.split_once(':').unwrap().1, 16).unwrap();
        let (sends, receives) = fields[4].split_once(':').unwrap();
        let bytes = |field| u64::from_str_radix(field, 16).unwrap();
        let (here, there) = (port(fields[1]), port(fields[2]));
        if here == server.port() {
            *waiting.entry(there).or_default() += bytes(sends);
        } else if there == server.port() {
            *waiting.entry(here).or_default() += bytes(receives);
        }
    }
    waiting
}

/// A test of so many connections needs as many files, at both ends of each.
pub fn allow_files() {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limit.maximum, ..limit };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, raised).unwrap();
}

/// Must show 3 of the server: of 1,000 subscribers 100 read nothing. The others get every event in order; what waits for those that
/// stall is bounded, whatever was sent; and as soon as they read, they have missed nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_of_a_thousand_that_read_nothing_keep_nothing_from_the_others() {
    allow_files();
    let lab = Lab::with(|mut options| {
        (options.stall_time_max, options.beat) = (Duration::from_secs(600), Duration::from_secs(600));
        options
    })
    .await;
    lab.session("s").await;
    let stalled = join_all((0..STALLED).map(|_| Subscriber::new(lab.at, Some(4_096)))).await;
    let readers = (0..READERS).map(|_| {
        let at = lab.at;
        tokio::spawn(async move {
            let mut reader = Subscriber::new(at, None).await;
            reader.read_all().await;
            reader.text
        })
    });
    let readers: Vec<_> = readers.collect();
    let mut turns = lab.events("/v1/sessions/s/events?after=0&deltas=0", "").await;
    for n in 0..TURNS {
        let words = format!("{n} {}", "x".repeat(WORDS));
        lab.post("/v1/sessions/s/messages", json!({ "text": words })).await;
        turns.until("turn_finished").await;
    }
    let mut reference = Subscriber::new(lab.at, None).await;
    reference.read_all().await;
    for reader in join_all(readers).await {
        assert!(reader.unwrap() == reference.text, "a reader was told something else");
    }
    let (waits, sent) = (waiting(lab.at), reference.text.len() as u64);
    assert!(sent > 4 * WAITS_MAX / 3, "all of it would fit: {sent}");
    for one in &stalled {
        let bytes = waits[&one.socket.local_addr().unwrap().port()];
        assert!(0 < bytes && bytes < WAITS_MAX, "{bytes} bytes of {sent} wait for one that does not read");
    }
    for mut one in stalled {
        one.read_all().await;
        assert!(one.text == reference.text, "one that stalled was told something else");
    }
    lab.end().await;
}
