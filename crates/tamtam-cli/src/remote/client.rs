//! A client of a running server (`tamtam serve`, or a host that mounted the router): requests, and streams of events.
//!
//! One connection a request, over the Unix socket of this user or to an address. What a server answers is bounded and is judged
//! before it is used: a problem becomes an error with the server's own words and its next step. A change must keep that no answer of
//! a server grows memory without a bound, and that a server that does not answer ends the command.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use hyper::{
    Method, Request, Response, StatusCode,
    body::{Body as _, Incoming},
    client::conn::http1,
    header,
};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
    time::timeout,
};

use super::super::failure::Failure;

/// The most bytes of an answer.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// The most bytes of one frame of a stream; a whole tree is one.
const FRAME_BYTES_MAX: usize = 64 << 20;

/// How long a connection may take.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// How long the head of an answer may take: commands are answered within 10 s, a drain within its deadline.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// How long the next bytes of an answer, or of a stream, may take. A stream has a comment every 15 s.
const NEXT_MAX: Duration = Duration::from_secs(45);

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A Unix socket.
    Socket(PathBuf),
    /// A host and a port.
    Address(String),
}

impl Place {
    /// Reads what a person gives: a path, `HOST:PORT`, or `http://HOST:PORT`.
    pub(crate) fn parse(given: &str) -> Result<Place, Failure> {
        let bad = |why: &str| {
            Failure::usage(format!(
                "{given:?} is no place of a server: {why}; name a socket, HOST:PORT or http://HOST:PORT"
            ))
        };
        if given.starts_with("https://") {
            return Err(bad("this client speaks no TLS"));
        }
        if let Some(path) = given.strip_prefix("unix:") {
            return Ok(Place::Socket(path.into()));
        }
        let Some(rest) = given.strip_prefix("http://") else {
            if given.contains('/') || !given.contains(':') {
                return Ok(Place::Socket(given.into()));
            }
            return Place::parse(&format!("http://{given}"));
        };
        let address = rest.trim_end_matches('/');
        let port = address.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
        match port {
            Some((host, _)) if !host.is_empty() && !address.contains('/') => Ok(Place::Address(address.to_owned())),
            _ => Err(bad("it needs a host and a port")),
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Place::Socket(path) => write!(f, "{}", path.display()),
            Place::Address(address) => f.write_str(address),
        }
    }
}

/// What the server said of a request that it refused.
#[derive(Debug)]
pub(super) struct Refused {
    /// The status of HTTP.
    pub(super) status: u16,
    /// The sentence, which names the next step.
    pub(super) words: String,
}

/// Why a request has no answer.
#[derive(Debug)]
pub(super) enum Unanswered {
    /// The server refused it.
    Refused(Refused),
    /// Something else.
    Failed(Failure),
}

impl From<Failure> for Unanswered {
    fn from(failure: Failure) -> Unanswered {
        Unanswered::Failed(failure)
    }
}

impl From<Unanswered> for Failure {
    fn from(why: Unanswered) -> Failure {
        match why {
            Unanswered::Refused(Refused { words, .. }) => Failure::failed(words),
            Unanswered::Failed(failure) => failure,
        }
    }
}

/// A client of one server.
#[derive(Clone, Debug)]
pub(super) struct Client {
    place: Place,
    token: Option<String>,
    /// How long the head of an answer may take.
    patience: Duration,
}

trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

impl Client {
    pub(super) fn new(place: Place, token: Option<String>) -> Client {
        Client { place, token, patience: ANSWER_MAX }
    }

    /// The answer to a request, as JSON; `null` for one without a body.
    pub(super) async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, Unanswered> {
        let mut answer = self.send(method, path, body, None).await?;
        let bytes = self.whole(answer.body_mut()).await?;
        if bytes.is_empty() {
            return Ok(Value::Null);
        }
        let read = serde_json::from_slice(&bytes);
        read.map_err(|_| self.failed("its answer is not JSON: another program listens there").into())
    }

    /// [`Client::ask`] for work that the server may do for so many seconds.
    pub(super) async fn ask_within(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        seconds: u64,
    ) -> Result<Value, Unanswered> {
        let patient = Client { patience: ANSWER_MAX + Duration::from_secs(seconds), ..self.clone() };
        patient.ask(method, path, body).await
    }

    /// The same as text.
    pub(super) async fn text(&self, path: &str) -> Result<String, Unanswered> {
        let mut answer = self.send(Method::GET, path, None, None).await?;
        let bytes = self.whole(answer.body_mut()).await?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// A stream of events, behind the one of that id.
    pub(super) async fn stream(&self, path: &str, after: Option<&str>) -> Result<Frames, Unanswered> {
        let answer = self.send(Method::GET, path, None, after).await?;
        Ok(Frames { body: answer.into_body(), bytes: Vec::new(), searched: 0, client: self.clone() })
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        after: Option<&str>,
    ) -> Result<Response<Incoming>, Unanswered> {
        let (mut sender, connection) = timeout(CONNECT_MAX, self.connect())
            .await
            .map_err(|_| self.failed("it does not answer"))
            .and_then(|connected| connected)?;
        tokio::spawn(connection);
        let host = match &self.place {
            Place::Socket(_) => "localhost",
            Place::Address(address) => address,
        };
        let mut request = Request::builder().method(method).uri(path).header(header::HOST, host);
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        if let Some(after) = after {
            request = request.header("last-event-id", after);
        }
        let body = match body {
            Some(body) => {
                request = request.header(header::CONTENT_TYPE, "application/json");
                body.to_string()
            }
            None => String::new(),
        };
        let request =
            request.body(body).map_err(|error| self.failed(&format!("the request cannot be made: {error}")))?;
        let answer = timeout(self.patience, sender.send_request(request))
            .await
            .map_err(|_| self.failed("it does not answer"))?
            .map_err(|error| self.failed(&format!("the connection broke off ({error})")))?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        Err(self.refused(answer).await)
    }

    async fn connect(
        &self,
    ) -> Result<(http1::SendRequest<String>, impl Future<Output = hyper::Result<()>> + use<>), Failure> {
        let wire: Box<dyn Wire> = match &self.place {
            Place::Socket(path) => {
                Box::new(UnixStream::connect(path).await.map_err(|error| self.absent(path, &error))?)
            }
            Place::Address(address) => Box::new(
                TcpStream::connect(address)
                    .await
                    .map_err(|error| self.failed(&format!("{error}: is `tamtam serve --addr` running?")))?,
            ),
        };
        let made = http1::handshake(TokioIo::new(wire)).await;
        made.map_err(|error| self.failed(&format!("the connection broke off ({error})")))
    }

    fn absent(&self, path: &Path, error: &std::io::Error) -> Failure {
        match error.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::ConnectionRefused => Failure::failed(format!(
                "no server listens on {}: start one with `tamtam serve`, or name its place with --at",
                path.display()
            )),
            _ => self.failed(&error.to_string()),
        }
    }

    fn failed(&self, why: &str) -> Failure {
        Failure::failed(format!("the server at {}: {why}", self.place))
    }

    async fn refused(&self, mut answer: Response<Incoming>) -> Unanswered {
        let status = answer.status();
        let problem = match self.whole(answer.body_mut()).await {
            Ok(bytes) => serde_json::from_slice::<Value>(&bytes).unwrap_or_default(),
            Err(failure) => return failure.into(),
        };
        let words = match (status, problem["detail"].as_str()) {
            (StatusCode::UNAUTHORIZED, _) => {
                "the server wants a token: give it with --token or the variable TAMTAM_SERVE_TOKEN".to_owned()
            }
            (_, Some(detail)) => detail.to_owned(),
            _ => format!("the server at {} answered {status}", self.place),
        };
        Unanswered::Refused(Refused { status: status.as_u16(), words })
    }

    async fn whole(&self, body: &mut Incoming) -> Result<Vec<u8>, Failure> {
        let mut bytes = Vec::new();
        while let Some(piece) = self.piece(body).await? {
            bytes.extend_from_slice(&piece);
            if bytes.len() > ANSWER_BYTES_MAX {
                return Err(self.failed("its answer is too large"));
            }
        }
        Ok(bytes)
    }

    /// The next bytes of a body; `None` at its end.
    async fn piece(&self, body: &mut Incoming) -> Result<Option<Vec<u8>>, Failure> {
        loop {
            let next = std::future::poll_fn(|context| std::pin::Pin::new(&mut *body).poll_frame(context));
            let frame = timeout(NEXT_MAX, next).await.map_err(|_| self.failed("it went silent"))?;
            match frame {
                None => return Ok(None),
                Some(Err(error)) => return Err(self.failed(&format!("the connection broke off ({error})"))),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data.to_vec()));
                    }
                }
            }
        }
    }
}

/// One frame of a stream of events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Frame {
    /// Its name; empty for a plain one.
    pub(super) name: String,
    /// Its id, if it has one.
    pub(super) id: Option<String>,
    /// Its data.
    pub(super) data: String,
}

/// The frames of a stream.
pub(super) struct Frames {
    body: Incoming,
    bytes: Vec<u8>,
    /// How much of them has no end of a frame.
    searched: usize,
    client: Client,
}

impl Frames {
    /// The next frame; `None` where the stream ends. Cancel-safe.
    pub(super) async fn next(&mut self) -> Result<Option<Frame>, Failure> {
        loop {
            while let Some(end) = self.bytes[self.searched..].windows(2).position(|two| two == b"\n\n") {
                let end = self.searched + end;
                let frame = read(&String::from_utf8_lossy(&self.bytes[..end]));
                self.bytes.drain(..end + 2);
                self.searched = 0;
                if frame.is_some() {
                    return Ok(frame);
                }
            }
            // An end may begin with the last byte.
            self.searched = self.bytes.len().saturating_sub(1);
            if self.bytes.len() > FRAME_BYTES_MAX {
                return Err(self.client.failed("a frame of its stream is too large"));
            }
            match self.client.piece(&mut self.body).await? {
                Some(piece) => self.bytes.extend_from_slice(&piece),
                None => return Ok(None),
            }
        }
    }
}

/// A frame from its lines; `None` for one without data, such as a comment.
fn read(lines: &str) -> Option<Frame> {
    let mut frame = Frame::default();
    let mut data: Option<String> = None;
    for line in lines.lines() {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut frame.name),
            "id" => frame.id = Some(value.to_owned()),
            "data" => match &mut data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => data = Some(value.to_owned()),
            },
            _ => {}
        }
    }
    frame.data = data?;
    Some(frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_socket_or_a_host_with_its_port() {
        let socket = |path: &str| Place::Socket(path.into());
        let address = |address: &str| Place::Address(address.to_owned());
        for (given, wanted) in [
            ("/run/user/1/tamtam.sock", socket("/run/user/1/tamtam.sock")),
            ("unix:a:b", socket("a:b")),
            ("./x:1", socket("./x:1")),
            ("tamtam.sock", socket("tamtam.sock")),
            ("127.0.0.1:7878", address("127.0.0.1:7878")),
            ("http://[::1]:80/", address("[::1]:80")),
            ("http://host:7878", address("host:7878")),
        ] {
            assert_eq!(Place::parse(given).ok(), Some(wanted), "{given}");
        }
        for bad in ["https://host:1", "http://host", "http://:1", "http://host:99999", "http://host:1/v1", "host:port"]
        {
            assert!(Place::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_frame_has_its_data_and_a_comment_has_none() {
        assert_eq!(read(": beat"), None);
        assert_eq!(read("retry: 1000"), None);
        let frame = |name: &str, id: Option<&str>, data: &str| {
            Some(Frame { name: name.to_owned(), id: id.map(str::to_owned), data: data.to_owned() })
        };
        assert_eq!(read("id: 7.0.1\ndata: {\"a\":1}"), frame("", Some("7.0.1"), "{\"a\":1}"));
        assert_eq!(read("event: lagged\ndata:{}"), frame("lagged", None, "{}"));
        assert_eq!(read("data: a\ndata:  b"), frame("", None, "a\n b"));
    }
}
