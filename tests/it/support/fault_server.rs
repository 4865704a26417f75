//! An HTTP server that follows a script, byte by byte: on loopback, for faults that no well-behaved server makes.
//!
//! Each request gets the next script; a script is a list of acts. A request that the real API would refuse (`strict`) is refused
//! whatever the script says, and fails the test. Nothing outlives the server value: dropping it ends its connections.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream},
    task::JoinHandle,
};

use super::strict;

/// One thing that the server does.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Sends these bytes.
    Send(Vec<u8>),
    /// Waits.
    Wait(Duration),
    /// Sends these bytes again and again, with a wait between, until the client goes.
    Repeat(Vec<u8>, Duration),
    /// Says nothing more until the client goes.
    Stall,
    /// Resets the connection instead of closing it.
    Reset,
    /// Keeps the connection for another request.
    KeepOpen,
}

/// What one request said.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// The request line and the headers, names in lower case.
    pub(crate) head: String,
    pub(crate) body: String,
    /// Which connection it came on, from 0.
    pub(crate) connection: usize,
}

/// What a request is answered with, by what it says and what came before it.
type Answer = Box<dyn Fn(&Seen, &[Seen]) -> Vec<Act> + Send>;

#[derive(Default)]
struct State {
    scripts: VecDeque<Vec<Act>>,
    /// Asked where there is no script.
    answer: Option<Answer>,
    seen: Vec<Seen>,
    /// Why requests were refused that the real API would refuse.
    unfit: Vec<String>,
    gone: usize,
}

pub(crate) struct FaultServer {
    address: std::net::SocketAddr,
    state: Arc<Mutex<State>>,
    accepting: JoinHandle<()>,
}

impl FaultServer {
    /// A server with these scripts, one per request.
    pub(crate) async fn start(scripts: impl IntoIterator<Item = Vec<Act>>) -> FaultServer {
        FaultServer::of(State { scripts: scripts.into_iter().collect(), ..State::default() }).await
    }

    /// A server that asks a function for each script, with the request and those before it.
    pub(crate) async fn answering(answer: impl Fn(&Seen, &[Seen]) -> Vec<Act> + Send + 'static) -> FaultServer {
        FaultServer::of(State { answer: Some(Box::new(answer)), ..State::default() }).await
    }

    async fn of(state: State) -> FaultServer {
        FaultServer::on(TcpListener::bind("127.0.0.1:0").await.unwrap(), state)
    }

    fn on(listener: TcpListener, state: State) -> FaultServer {
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(state));
        let shared = state.clone();
        let accepting = tokio::spawn(async move {
            // Dropped with this task, and its connections with it.
            let mut connections = tokio::task::JoinSet::new();
            for number in 0.. {
                let Ok((stream, _)) = listener.accept().await else { return };
                connections.spawn(serve(stream, number, shared.clone()));
            }
        });
        FaultServer { address, state, accepting }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.state.lock().unwrap().seen.clone()
    }

    /// How many clients went away while the server still had something to do.
    pub(crate) fn gone(&self) -> usize {
        self.state.lock().unwrap().gone
    }
}

/// An address at which nobody listens: connections are refused. It is nobody else's meanwhile.
pub(crate) struct Unheard(TcpSocket);

impl Unheard {
    pub(crate) fn new() -> Unheard {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
        Unheard(socket)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.0.local_addr().unwrap())
    }

    /// From now on a server with these scripts listens there.
    pub(crate) fn listen(self, scripts: impl IntoIterator<Item = Vec<Act>>) -> FaultServer {
        let state = State { scripts: scripts.into_iter().collect(), ..State::default() };
        FaultServer::on(self.0.listen(64).unwrap(), state)
    }
}

impl Drop for FaultServer {
    fn drop(&mut self) {
        self.accepting.abort();
        let unfit = std::mem::take(&mut self.state.lock().unwrap().unfit);
        assert!(unfit.is_empty() || std::thread::panicking(), "requests that the API refuses: {unfit:#?}");
    }
}

async fn serve(mut stream: TcpStream, connection: usize, state: Arc<Mutex<State>>) {
    while let Some((head, body)) = read_request(&mut stream).await {
        let script = {
            let mut state = state.lock().unwrap();
            let fits = strict::check(&head, &body);
            let seen = Seen { head, body, connection };
            let answered = state.answer.as_ref().map(|answer| answer(&seen, &state.seen));
            state.seen.push(seen);
            let script = answered.or_else(|| state.scripts.pop_front()).unwrap_or_default();
            match fits {
                Ok(()) => script,
                Err(why) => {
                    let error = serde_json::json!({"error": {"message": why, "type": "invalid_request_error"}});
                    state.unfit.push(why);
                    refusal("400 Bad Request", &[], &error.to_string())
                }
            }
        };
        let mut keep_open = false;
        for act in script {
            let went = match act {
                Act::Send(bytes) => stream.write_all(&bytes).await.is_err(),
                Act::Wait(time) => {
                    tokio::time::sleep(time).await;
                    false
                }
                Act::Repeat(bytes, every) => {
                    while stream.write_all(&bytes).await.is_ok() {
                        tokio::time::sleep(every).await;
                    }
                    true
                }
                Act::Stall => {
                    let mut byte = [0];
                    let _ = stream.read(&mut byte).await;
                    true
                }
                Act::Reset => {
                    // Without lingering, closing sends RST.
                    stream.set_zero_linger().unwrap();
                    return;
                }
                Act::KeepOpen => {
                    keep_open = true;
                    false
                }
            };
            if went {
                state.lock().unwrap().gone += 1;
                return;
            }
        }
        if !keep_open {
            let _ = stream.shutdown().await;
            return;
        }
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<(String, String)> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().unwrap())
            });
            let wanted = end + 4 + length.unwrap_or(0);
            if bytes.len() >= wanted {
                let body = String::from_utf8_lossy(&bytes[end + 4..wanted]).into_owned();
                return Some((head, body));
            }
        }
        match stream.read(&mut chunk).await {
            Ok(n) if n > 0 => bytes.extend_from_slice(&chunk[..n]),
            _ => return None,
        }
    }
}

/// The head of an answer whose body ends with the connection.
pub(crate) fn head(status: &str, headers: &[&str]) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status}\r\nconnection: close\r\n");
    for header in headers {
        head.push_str(header);
        head.push_str("\r\n");
    }
    (head + "\r\n").into_bytes()
}

/// The head of an event stream whose body ends with the connection.
pub(crate) fn events_head() -> Act {
    Act::Send(head("200 OK", &["content-type: text/event-stream"]))
}

/// The head of an event stream in chunks: its end is marked, so that a cut can be told from an end.
pub(crate) fn chunked_head() -> Act {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    Act::Send(head.as_bytes().to_vec())
}

/// One chunk of a body in chunks; an empty one ends it.
pub(crate) fn chunk(text: &str) -> Act {
    Act::Send(format!("{:x}\r\n{text}\r\n", text.len()).into_bytes())
}

/// Text as it is.
pub(crate) fn send(text: &str) -> Act {
    Act::Send(text.as_bytes().to_vec())
}

/// A short answer with a body.
pub(crate) fn refusal(status: &str, headers: &[&str], body: &str) -> Vec<Act> {
    vec![Act::Send([head(status, headers), body.as_bytes().to_vec()].concat())]
}
