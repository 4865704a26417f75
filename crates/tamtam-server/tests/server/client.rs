//! A small HTTP client that sends what it is told, also what is wrong, and reads event streams.

use std::{collections::VecDeque, net::SocketAddr, time::Duration};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// Longer than anything here takes: a test that waits for it has failed.
pub const LONG: Duration = Duration::from_secs(60);

/// A client of the server at one address. Each request has a connection of its own.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    pub at: SocketAddr,
}

impl Client {
    pub async fn ask(&self, method: &str, path: &str, body: Value) -> Answer {
        self.ask_with(method, path, "", body).await
    }

    /// With further header lines, each ended by CRLF.
    pub async fn ask_with(&self, method: &str, path: &str, headers: &str, body: Value) -> Answer {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let kind = if body.is_empty() { "" } else { "content-type: application/json\r\n" };
        let host = if headers.to_ascii_lowercase().contains("host:") {
            String::new()
        } else {
            format!("host: {}\r\n", self.at)
        };
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\n{host}{kind}{headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
        );
        self.raw(request.as_bytes()).await
    }

    /// Sends these bytes, and reads until the server closes.
    pub async fn raw(&self, bytes: &[u8]) -> Answer {
        let mut socket = TcpStream::connect(self.at).await.unwrap();
        // A server that refuses early may close before all is sent.
        let _ = socket.write_all(bytes).await;
        let mut answer = Vec::new();
        let _ = tokio::time::timeout(LONG, socket.read_to_end(&mut answer)).await.expect("an answer in time");
        Answer::read(&answer)
    }

    pub async fn get(&self, path: &str) -> Value {
        self.ask("GET", path, Value::Null).await.ok()
    }

    pub async fn post(&self, path: &str, body: Value) -> Value {
        self.ask("POST", path, body).await.ok()
    }

    /// Makes a session of this id.
    pub async fn session(&self, id: &str) -> Value {
        self.post("/v1/sessions", json!({ "id": id })).await
    }

    /// Sends words and waits for the end of their turn.
    pub async fn say(&self, id: &str, words: &str) {
        let mut events = self.events(&format!("/v1/sessions/{id}/events"), "").await;
        self.post(&format!("/v1/sessions/{id}/messages"), json!({ "text": words })).await;
        events.until("turn_finished").await;
    }

    pub async fn events(&self, path: &str, headers: &str) -> Stream {
        self.try_events(path, headers).await.unwrap_or_else(|answer| panic!("{path}: {answer:?}"))
    }

    /// A stream, if the server takes the connection at all.
    pub async fn try_stream(&self, path: &str) -> Option<Stream> {
        let mut socket = TcpStream::connect(self.at).await.ok()?;
        socket.write_all(format!("GET {path} HTTP/1.1\r\nhost: {}\r\n\r\n", self.at).as_bytes()).await.ok()?;
        let mut stream = Stream::over(socket);
        while !stream.raw.windows(4).any(|four| four == b"\r\n\r\n") {
            if !stream.more().await {
                return None;
            }
        }
        stream.open().await.ok().map(|()| stream)
    }

    pub async fn try_events(&self, path: &str, headers: &str) -> Result<Stream, Answer> {
        let mut socket = TcpStream::connect(self.at).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: {}\r\n{headers}accept: text/event-stream\r\n\r\n", self.at);
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut stream = Stream::over(socket);
        stream.open().await.map(|()| stream)
    }
}

/// What the server answered.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    fn read(bytes: &[u8]) -> Answer {
        let text = String::from_utf8_lossy(bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let is_chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
        let body = if is_chunked { unchunked(body) } else { body.to_owned() };
        Answer { status, head: head.to_owned(), body }
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| Value::String(self.body.clone()))
    }

    pub fn ok(&self) -> Value {
        assert!((200..300).contains(&self.status), "{self:?}");
        if self.body.is_empty() { Value::Null } else { self.json() }
    }

    /// The status and the kind of a refusal, whose form is checked.
    pub fn refused(&self) -> (u16, String) {
        let problem = self.json();
        assert!(self.head.contains("content-type: application/problem+json"), "{self:?}");
        assert_eq!(problem["status"], self.status, "{self:?}");
        for field in ["detail", "next", "title"] {
            assert!(problem[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {self:?}");
        }
        assert!(problem["retryable"].is_boolean());
        (self.status, problem["kind"].as_str().unwrap().to_owned())
    }
}

fn unchunked(body: &str) -> String {
    let (mut rest, mut whole) = (body, String::new());
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        if size == 0 || after.len() < size {
            break;
        }
        whole.push_str(&after[..size]);
        rest = after[size..].trim_start_matches("\r\n");
    }
    whole
}

/// A frame of an event stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frame {
    pub event: String,
    pub id: String,
    pub data: Value,
}

/// A client of an event stream.
pub struct Stream {
    socket: TcpStream,
    raw: Vec<u8>,
    body: String,
    frames: VecDeque<Frame>,
    /// The newest id.
    pub last: String,
    /// How many events of each kind it has given out.
    counts: std::collections::BTreeMap<String, usize>,
    beats: usize,
    ended: bool,
}

impl Stream {
    fn over(socket: TcpStream) -> Stream {
        let (raw, body, frames) = (Vec::new(), String::new(), VecDeque::new());
        Stream { socket, raw, body, frames, last: String::new(), counts: Default::default(), beats: 0, ended: false }
    }

    async fn open(&mut self) -> Result<(), Answer> {
        loop {
            if let Some(end) = self.raw.windows(4).position(|four| four == b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&self.raw[..end]).into_owned();
                if !head.contains("text/event-stream") {
                    return Err(Answer::read(&self.raw));
                }
                self.raw.drain(..end + 4);
                return Ok(());
            }
            assert!(self.more().await, "the connection closed before a header");
        }
    }

    async fn more(&mut self) -> bool {
        let mut buffer = [0; 16 << 10];
        let read = tokio::time::timeout(LONG, self.socket.read(&mut buffer)).await.expect("something in time");
        let read = read.unwrap_or(0);
        self.raw.extend_from_slice(&buffer[..read]);
        read > 0
    }

    /// Takes whole chunks out of what was read, and whole frames out of them.
    fn take(&mut self) {
        while let Some(line) = self.raw.windows(2).position(|two| two == b"\r\n") {
            let size = usize::from_str_radix(&String::from_utf8_lossy(&self.raw[..line]), 16).unwrap();
            if self.raw.len() < line + 2 + size + 2 {
                break;
            }
            self.ended |= size == 0;
            self.body.push_str(&String::from_utf8_lossy(&self.raw[line + 2..line + 2 + size]));
            self.raw.drain(..line + 2 + size + 2);
        }
        while let Some(end) = self.body.find("\n\n") {
            let mut frame = Frame::default();
            let text: String = self.body.drain(..end + 2).collect();
            for line in text.lines() {
                match line.split_once(": ") {
                    Some(("event", event)) => frame.event = event.to_owned(),
                    Some(("id", id)) => frame.id = id.to_owned(),
                    Some(("data", data)) => frame.data = serde_json::from_str(data).unwrap(),
                    Some(("", "beat")) => self.beats += 1,
                    _ => {}
                }
            }
            if !frame.data.is_null() {
                self.frames.push_back(frame);
            }
        }
    }

    /// The next frame with data; `None` at the end.
    pub async fn next(&mut self) -> Option<Frame> {
        loop {
            self.take();
            if let Some(frame) = self.frames.pop_front() {
                if !frame.id.is_empty() {
                    self.last.clone_from(&frame.id);
                }
                *self.counts.entry(frame.data["event"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
                return Some(frame);
            }
            if self.ended || !self.more().await {
                return None;
            }
        }
    }

    /// How many events of that kind it has given out.
    pub fn count(&self, event: &str) -> usize {
        self.counts.get(event).copied().unwrap_or(0)
    }

    /// Waits until the server has said that the stream lives.
    pub async fn beat(&mut self) {
        while self.beats == 0 {
            assert!(self.more().await, "the stream ended");
            self.take();
        }
    }

    /// The next event of that kind, or the next frame of that name.
    pub async fn until(&mut self, event: &str) -> Value {
        loop {
            let frame = self.next().await.unwrap_or_else(|| panic!("the stream ends before {event}"));
            if frame.data["event"] == event || frame.event == event {
                return frame.data;
            }
        }
    }
}
