//! The exchanges of models with their servers, kept in a file and played from it: for tests of a host that neither pay a provider nor
//! wait for one.
//!
//! A file has one exchange a line, as JSON: the address and the body of the request, and of the answer its status, a few headers, and
//! its body in the pieces in which it came, so that a border in the middle of an event or of a character is there again. A request is
//! known by its address and its body; each exchange answers one request.
//!
//! A change must keep that no file holds a secret: of the request no header is kept, and of its address neither user nor query; what
//! looks like a key is taken out of its body, before it is kept and before it is compared; and the same is masked in the answer, byte
//! for byte, so that the borders stay. A body is masked in that way too before anything else, because the words of an answer come
//! again in the next request. It must also keep that a player reaches no server.
//!
//! A key that a model says piece by piece, in several events of a stream, stands nowhere whole, and is not found.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    fs::{File, OpenOptions},
    io::Write as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::{
    ErrorKind, ModelError, Secret,
    endpoint::without_secrets,
    redact::{blank, redact},
};

/// The largest file that is played.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// The headers of an answer that are kept, and the beginnings of others.
const HEADERS: [&str; 4] = ["content-type", "content-encoding", "retry-after", "retry-after-ms"];
const HEADERS_BEGIN: [&str; 2] = ["x-ratelimit-", "anthropic-ratelimit-"];

/// A file of exchanges: every model of a pool ([`HttpOptions::exchanges`](crate::model::HttpOptions::exchanges)) is recorded into it, or
/// answered from it. Cloning shares it.
///
/// ```
/// use std::sync::Arc;
/// use tamtam::{Runtime, SessionOptions, model::{Exchanges, HttpOptions, Provider, Router}};
///
/// async fn ask(url: &str, exchanges: Exchanges) -> Result<String, Box<dyn std::error::Error>> {
///     let mut http = HttpOptions::default();
///     http.exchanges = Some(exchanges);
///     let router = Router::new(http).with(Provider::known("local").unwrap().with_base_url(url));
///     let runtime = Runtime::builder().in_memory().models(Arc::new(router), "local/m".parse()?).start().await?;
///     let session = runtime.create(SessionOptions::new(".")).await?;
///     let answer = session.prompt("Hello?").await?.wait().await?;
///     runtime.shutdown().await;
///     Ok(answer.text)
/// }
///
/// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
/// # let folder = tempfile::tempdir()?;
/// # let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
/// # let url = &format!("http://{}/v1", listener.local_addr()?);
/// # std::thread::spawn(move || {
/// #     use std::io::{BufRead as _, Read as _, Write as _};
/// #     let (mut stream, _) = listener.accept().unwrap();
/// #     let mut reader = std::io::BufReader::new(stream.try_clone().unwrap());
/// #     let (mut line, mut length) = (String::new(), 0);
/// #     while reader.read_line(&mut line).unwrap() > 2 {
/// #         length = line.to_lowercase().strip_prefix("content-length:").map_or(length, |n| n.trim().parse().unwrap());
/// #         line.clear();
/// #     }
/// #     reader.read_exact(&mut vec![0; length]).unwrap();
/// #     let events = "data: {\"choices\":[{\"delta\":{\"content\":\"Hello.\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
/// #     write!(stream, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{events}").unwrap();
/// # });
/// let file = folder.path().join("hello.jsonl");
/// // Once, in front of the real server:
/// assert_eq!(ask(url, Exchanges::record(&file)?).await?, "Hello.");
/// // From then on there is none:
/// assert_eq!(ask(url, Exchanges::play(&file)?).await?, "Hello.");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Exchanges(Arc<Inner>);

struct Inner {
    path: PathBuf,
    does: Does,
}

enum Does {
    Record(Mutex<File>),
    /// The exchanges in the order of the file, and which were played.
    Play(Mutex<Vec<(Exchange, bool)>>),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Exchange {
    url: String,
    body: Value,
    status: u16,
    headers: BTreeMap<String, String>,
    chunks: Vec<Chunk>,
}

/// A piece of an answer: a text, if it is one.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Chunk {
    Text(String),
    Bytes { base64: String },
}

impl fmt::Debug for Exchanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let does = if matches!(self.0.does, Does::Record(_)) { "record" } else { "play" };
        write!(f, "Exchanges({does} {})", self.0.path.display())
    }
}

impl Exchanges {
    /// Records every exchange into that file, which begins empty. A request that is given up before its answer ends is not recorded,
    /// and one whose answer breaks off, stays away or is too large is not either. Blocks on the disk.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidRequest`] if the file cannot be made. An exchange that cannot be written fails its request.
    pub fn record(path: impl Into<PathBuf>) -> Result<Exchanges, ModelError> {
        let path = path.into();
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&path).map_err(|error| failed("make", &path, &error))?;
        Ok(Exchanges(Arc::new(Inner { path, does: Does::Record(Mutex::new(file)) })))
    }

    /// Answers every request from that file, and reaches no server. Blocks on the disk. A request that the file does not have, or no
    /// longer, fails as [`ErrorKind::InvalidRequest`]; the error names the nearest exchange, and the first place where it differs.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidRequest`] if the file cannot be read, is larger than 256 MiB, or has a line that is no exchange.
    pub fn play(path: impl Into<PathBuf>) -> Result<Exchanges, ModelError> {
        let path = path.into();
        let size = std::fs::metadata(&path).map_err(|error| failed("read", &path, &error))?.len();
        if size > FILE_BYTES_MAX {
            return Err(failed("read", &path, &format!("it has {size} bytes, and may have {FILE_BYTES_MAX}")));
        }
        let text = std::fs::read_to_string(&path).map_err(|error| failed("read", &path, &error))?;
        let lines = text.lines().enumerate().map(|(at, line)| {
            let read = serde_json::from_str(line).map(|exchange| (exchange, false));
            read.map_err(|error| failed("read", &path, &format!("line {}: {error}", at + 1)))
        });
        let exchanges = lines.collect::<Result<_, _>>()?;
        Ok(Exchanges(Arc::new(Inner { path, does: Does::Play(Mutex::new(exchanges)) })))
    }

    /// What the file answers to this request; `None` for a recorder.
    pub(super) fn answer(&self, url: &str, body: &[u8], key: Option<&Secret>) -> Option<Result<Answered, ModelError>> {
        let Does::Play(exchanges) = &self.0.does else { return None };
        let (url, body) = asked(url, body, key);
        let mut exchanges = exchanges.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |exchange: &Exchange| exchange.url == url && exchange.body == body;
        let found = exchanges.iter_mut().find(|(exchange, is_played)| !is_played && is_it(exchange));
        let Some((exchange, is_played)) = found else {
            let why = missing(&exchanges, &url, &body);
            let message = format!("{} answers no request to {url} like this: {why}", self.0.path.display());
            return Some(Err(ModelError::new(ErrorKind::InvalidRequest, message)));
        };
        *is_played = true;
        let headers = exchange.headers.clone();
        let chunks = exchange.chunks.iter().map(|chunk| match chunk {
            Chunk::Text(text) => Ok(Bytes::from(text.clone())),
            Chunk::Bytes { base64 } => STANDARD.decode(base64).map(Bytes::from),
        });
        let chunks = chunks.collect::<Result<_, _>>();
        let played =
            chunks.map(|chunks| Answered { from: From::File { status: exchange.status, headers, chunks }, kept: None });
        Some(played.map_err(|error| failed("read", &self.0.path, &error)))
    }

    /// A recording of the answer to this request.
    pub(super) fn begin(&self, url: &str, body: &[u8], key: Option<&Secret>, answer: &reqwest::Response) -> Kept {
        let (url, body) = asked(url, body, key);
        let is_kept = |name: &str| HEADERS.contains(&name) || HEADERS_BEGIN.iter().any(|begin| name.starts_with(begin));
        let headers = answer.headers().iter().filter(|(name, _)| is_kept(name.as_str()));
        let headers = headers.filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())));
        let status = answer.status().as_u16();
        let exchange = Exchange { url, body, status, headers: headers.collect(), chunks: Vec::new() };
        Kept { to: self.clone(), exchange, chunks: Vec::new(), key: key.cloned() }
    }
}

/// Where an answer comes from.
enum From {
    Server(reqwest::Response),
    File { status: u16, headers: BTreeMap<String, String>, chunks: VecDeque<Bytes> },
}

/// The answer to a request: of a server, or of a file.
pub(super) struct Answered {
    from: From,
    kept: Option<Kept>,
}

impl Answered {
    pub(super) fn of_server(answer: reqwest::Response, kept: Option<Kept>) -> Answered {
        Answered { from: From::Server(answer), kept }
    }

    pub(super) fn status(&self) -> u16 {
        match &self.from {
            From::Server(answer) => answer.status().as_u16(),
            From::File { status, .. } => *status,
        }
    }

    /// A header, by its name in small letters.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        match &self.from {
            From::Server(answer) => answer.headers().get(name)?.to_str().ok(),
            From::File { headers, .. } => headers.get(name).map(String::as_str),
        }
    }

    /// The next piece of the body; `None` behind the last. Dropping the future loses nothing.
    pub(super) async fn chunk(&mut self) -> reqwest::Result<Option<Bytes>> {
        let chunk = match &mut self.from {
            From::Server(answer) => answer.chunk().await?,
            From::File { chunks, .. } => chunks.pop_front(),
        };
        if let (Some(kept), Some(chunk)) = (&mut self.kept, &chunk) {
            kept.chunks.push(chunk.clone());
        }
        Ok(chunk)
    }

    /// The answer is no whole one, so its exchange is not recorded.
    pub(super) fn forget(&mut self) {
        self.kept = None;
    }

    /// Writes the exchange, if it is recorded. Call it when the answer was read as far as it is of use.
    pub(super) async fn keep(&mut self) -> Result<(), ModelError> {
        let Some(kept) = self.kept.take() else { return Ok(()) };
        let written = tokio::task::spawn_blocking(move || kept.write()).await;
        written.unwrap_or_else(|_| Err(ModelError::new(ErrorKind::InvalidRequest, "the runtime is going down")))
    }
}

/// An exchange that is being recorded.
pub(super) struct Kept {
    to: Exchanges,
    exchange: Exchange,
    chunks: Vec<Bytes>,
    key: Option<Secret>,
}

impl Kept {
    fn write(mut self) -> Result<(), ModelError> {
        let Does::Record(file) = &self.to.0.does else { return Ok(()) };
        let chunks = masked(&self.chunks, self.key.as_ref()).into_iter().map(|chunk| match String::from_utf8(chunk) {
            Ok(text) => Chunk::Text(text),
            Err(error) => Chunk::Bytes { base64: STANDARD.encode(error.as_bytes()) },
        });
        self.exchange.chunks = chunks.collect();
        let line = serde_json::to_string(&self.exchange).unwrap_or_default() + "\n";
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(line.as_bytes()).map_err(|error| failed("write", &self.to.0.path, &error))
    }
}

/// The address and the body by which a request is known, without secrets.
fn asked(url: &str, body: &[u8], key: Option<&Secret>) -> (String, Value) {
    let body = redact(&String::from_utf8_lossy(&blank(body, key)), key);
    (without_secrets(url), serde_json::from_str(&body).unwrap_or(Value::String(body)))
}

/// The pieces with all keys masked, also where one goes over a border.
fn masked(chunks: &[Bytes], key: Option<&Secret>) -> Vec<Vec<u8>> {
    let whole = blank(&chunks.concat(), key);
    let mut rest = &whole[..];
    let piece = |chunk: &Bytes| {
        let (piece, behind) = rest.split_at(chunk.len());
        rest = behind;
        piece.to_vec()
    };
    chunks.iter().map(piece).collect()
}

/// Why no exchange answers a request.
fn missing(exchanges: &[(Exchange, bool)], url: &str, body: &Value) -> String {
    let there = exchanges.iter().enumerate().filter(|(_, (exchange, _))| exchange.url == url);
    let nearest = there.map(|(at, (exchange, _))| {
        let mut found = Differing::default();
        found.between(&exchange.body, body, String::new());
        (found, at + 1)
    });
    match nearest.min_by_key(|(found, _)| found.places) {
        None => format!("none of its {} exchanges is of this address", exchanges.len()),
        Some((Differing { places: 0, .. }, line)) => {
            format!("line {line} is it, and was played already: it was asked once when it was recorded")
        }
        Some((Differing { places, first }, line)) => {
            format!("the nearest, line {line}, differs in {places} places, first at {first:?}: record it anew")
        }
    }
}

/// Where two values differ.
#[derive(Default)]
struct Differing {
    places: usize,
    /// The first place, as a JSON pointer.
    first: String,
}

impl Differing {
    fn between(&mut self, one: &Value, other: &Value, at: String) {
        match (one, other) {
            (Value::Object(one), Value::Object(other)) => {
                let new = other.iter().filter(|(name, _)| !one.contains_key(*name));
                let null = Value::Null;
                for (name, value) in one {
                    self.between(value, other.get(name).unwrap_or(&null), format!("{at}/{name}"));
                }
                new.for_each(|(name, _)| self.add(format!("{at}/{name}")));
            }
            (Value::Array(one), Value::Array(other)) => {
                for (n, (one, other)) in one.iter().zip(other).enumerate() {
                    self.between(one, other, format!("{at}/{n}"));
                }
                let both = one.len().min(other.len());
                (both..one.len().max(other.len())).for_each(|n| self.add(format!("{at}/{n}")));
            }
            (one, other) if one != other => self.add(at),
            _ => {}
        }
    }

    fn add(&mut self, at: String) {
        if self.places == 0 {
            self.first = at;
        }
        self.places += 1;
    }
}

fn failed(to: &str, path: &Path, why: &dyn fmt::Display) -> ModelError {
    let message = format!("failed to {to} the exchanges {}: {why}", path.display());
    ModelError::new(ErrorKind::InvalidRequest, message)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// K01: a key that goes over a border of two pieces is masked, and the border stays.
    #[test]
    fn a_key_is_masked_over_borders() {
        let chunks = ["say sk-CAN", "ARY-1 twi", "ce"].map(|text| Bytes::from_static(text.as_bytes()));
        let texts = |key: &str| {
            let pieces = masked(&chunks, Some(&Secret::new(key))).into_iter();
            pieces.map(|piece| String::from_utf8(piece).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(texts("sk-CANARY-1"), ["say ******", "***** twi", "ce"]);
        assert_eq!(texts("sk-CAN"), ["say sk-CAN", "ARY-1 twi", "ce"], "too short to be told from words");
    }

    /// K01: a key that is not the request's own is masked in an answer too, and a request that repeats the answer is known again, from
    /// the server and from the file.
    #[test]
    fn a_foreign_key_is_masked_in_an_answer_and_known_again() {
        let said = "{\"text\":\"use ghp_abcdefghijklmnopqrstuvwxyz0123456789, or postgres://app:hunter2@db/x\"}";
        let pieces =
            masked(&[Bytes::from_static(&said.as_bytes()[..30]), Bytes::from_static(&said.as_bytes()[30..])], None);
        assert_eq!([pieces[0].len(), pieces[1].len()], [30, said.len() - 30]);
        let played = String::from_utf8(pieces.concat()).unwrap();
        let stars = "*".repeat(40);
        assert_eq!(played, format!("{{\"text\":\"use {stars}, or postgres://app:*******@db/x\"}}"));
        assert_eq!(asked("http://a", said.as_bytes(), None), asked("http://a", played.as_bytes(), None));
    }

    #[test]
    fn the_nearest_exchange_is_named_with_the_first_difference() {
        let exchange = |url: &str, body: Value| {
            (Exchange { url: url.into(), body, status: 200, headers: BTreeMap::new(), chunks: vec![] }, true)
        };
        let said = |text: &str| serde_json::json!({"model": "m", "messages": [{"content": text}]});
        let kept = [exchange("http://a", said("one")), exchange("http://a", serde_json::json!({"model": "x"}))];
        let why = |url: &str, text: &str| missing(&kept, url, &said(text));
        assert_eq!(why("http://b", "one"), "none of its 2 exchanges is of this address");
        assert!(why("http://a", "one").starts_with("line 1 is it, and was played already"));
        assert_eq!(
            why("http://a", "two"),
            "the nearest, line 1, differs in 1 places, first at \"/messages/0/content\": record it anew"
        );
    }
}
