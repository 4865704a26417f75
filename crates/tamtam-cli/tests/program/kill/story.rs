//! A model server of our own, on loopback, in threads: it streams as OpenAI-compatible servers do, and what it says follows
//! from the number of answers in the request alone, so a repeated request gets the same answer.
//!
//! | answers so far | what it says |
//! |---|---|
//! | 0 | two reads |
//! | 1 | a command that adds token A to the counter file |
//! | 2 | a command that adds token S and is slow, then token B and a write, which have to wait for it |
//! | 3 | token C, which has to be asked for |
//! | 4 | refused once with a 503, then token D |
//! | 5 | a long text: the end of the turn |
//! | 6 and more | a short text: the end of a turn |

use std::{
    io::{BufReader, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};

use crate::support::{
    http::read_request,
    said::{Said, Wire, said},
};

/// What the slow command says; no other call says it.
pub(super) const SLOW: &str = "sleep 0.6";
/// What is written in the command that has to be asked for, and in no other.
pub(super) const ASKED: &str = "may I";
/// Between two pieces of an answer.
const PIECE: Duration = Duration::from_millis(15);

struct Inner {
    seed: u64,
    /// How long to wait before asking again, where the refusal says so.
    retry_after_ms: Option<u64>,
    bodies: Mutex<Vec<String>>,
    refusals: AtomicUsize,
    lines: AtomicUsize,
    ended: AtomicUsize,
}

/// The server. Dropping it ends it.
pub(super) struct Story {
    address: SocketAddr,
    inner: Arc<Inner>,
}

impl Story {
    pub(super) fn start(seed: u64, retry_after_ms: Option<u64>) -> Story {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let inner = Inner {
            seed,
            retry_after_ms,
            bodies: Mutex::default(),
            refusals: AtomicUsize::new(0),
            lines: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
        };
        let inner = Arc::new(inner);
        let shared = inner.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if shared.ended.load(Ordering::SeqCst) > 0 {
                    return;
                }
                let shared = shared.clone();
                shared.lines.fetch_add(1, Ordering::SeqCst);
                std::thread::spawn(move || {
                    shared.serve(stream);
                    shared.lines.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Story { address, inner }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The bodies of all requests, in the order they came.
    pub(super) fn bodies(&self) -> Vec<String> {
        self.inner.bodies.lock().unwrap().clone()
    }

    /// Waits until nobody is connected: then every request that was sent whole is among the bodies.
    pub(super) fn settle(&self) {
        for _ in 0..2_000 {
            if self.inner.lines.load(Ordering::SeqCst) == 0 {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("a connection stayed open after its client was killed");
    }
}

impl Drop for Story {
    fn drop(&mut self) {
        self.inner.ended.store(1, Ordering::SeqCst);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
    }
}

impl Inner {
    fn serve(&self, mut stream: TcpStream) {
        // One answer a connection, so that a connection that is open has a request that is.
        let mut from = BufReader::new(stream.try_clone().unwrap());
        let Some(asked) = read_request(&mut from) else { return };
        let body = asked.json();
        self.bodies.lock().unwrap().push(asked.body);
        // A client that is gone hears nothing: that is what the test is about.
        let _ = self.answer(&mut stream, &body);
        let _ = stream.shutdown(Shutdown::Both);
    }

    fn answer(&self, stream: &mut TcpStream, body: &Value) -> std::io::Result<()> {
        let answers = said(Wire::OpenAi, body).iter().filter(|said| matches!(said, Said::Model(..))).count();
        if answers == 4 && self.refusals.fetch_add(1, Ordering::SeqCst) == 0 {
            let wait = self.retry_after_ms.map_or_else(String::new, |ms| format!("retry-after-ms: {ms}\r\n"));
            let text = r#"{"error":{"message":"overloaded"}}"#;
            return write!(
                stream,
                "HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\n{wait}content-type: application/json\r\n\
                 content-length: {}\r\n\r\n{text}",
                text.len()
            );
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/event-stream\r\n\r\n")?;
        let mut send = |delta: Value, finish: Value| -> std::io::Result<()> {
            std::thread::sleep(PIECE);
            let chunk = json!({"id": "x", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
            write!(stream, "data: {chunk}\n\n")
        };
        send(json!({"role": "assistant", "content": ""}), Value::Null)?;
        for word in text(answers).split_inclusive(' ') {
            send(json!({"content": word}), Value::Null)?;
        }
        let calls = calls(self.seed, answers);
        for (index, (name, arguments)) in calls.iter().enumerate() {
            let function = json!({"name": name, "arguments": arguments.to_string()});
            let call = json!({"index": index, "id": format!("call_{answers}_{index}"), "type": "function", "function": function});
            send(json!({"tool_calls": [call]}), Value::Null)?;
        }
        send(json!({}), json!(if calls.is_empty() { "stop" } else { "tool_calls" }))?;
        write!(stream, "data: [DONE]\n\n")
    }
}

fn text(answers: usize) -> String {
    match answers {
        0..5 => format!("Step {answers} of it."),
        5 => "That was all there was to do, and all of it is done, one thing after the other, to the end.".to_owned(),
        _ => format!("Answer {answers}."),
    }
}

fn calls(seed: u64, answers: usize) -> Vec<(&'static str, Value)> {
    let bash = |command: String| ("bash", json!({"command": command}));
    let token = |token: char| format!("echo {seed}-{token} >> counter");
    match answers {
        0 => vec![("read", json!({"path": "NOTES.md"})), ("read", json!({"path": "more.txt"}))],
        1 => vec![bash(token('A'))],
        2 => {
            let write = ("write", json!({"path": "w.txt", "content": "w\n"}));
            // Its token is written before it is slow: to run it again would write it again.
            vec![bash(format!("{}; {SLOW}; echo slow", token('S'))), bash(token('B')), write]
        }
        3 => vec![bash(format!("{}; echo {ASKED}", token('C')))],
        4 => vec![bash(token('D'))],
        _ => vec![],
    }
}
