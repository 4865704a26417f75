//! Is there a model server on this machine? One question, answered within half a second or not at all.

use std::{
    io::{Read as _, Write as _},
    net::{TcpStream, ToSocketAddrs as _},
    time::Duration,
};

const CONNECT_TIMEOUT: Duration = Duration::from_millis(300);
const READ_TIMEOUT: Duration = Duration::from_millis(500);
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// The first model of an OpenAI-compatible server at `http://host[:port]/path`. Blocks.
pub(super) fn first_model(base_url: &str) -> Option<String> {
    let rest = base_url.trim().trim_end_matches('/').strip_prefix("http://")?;
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let with_port = if host.contains(':') { host.to_owned() } else { format!("{host}:80") };
    let address = with_port.to_socket_addrs().ok()?.next()?;
    let mut stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT).ok()?;
    stream.set_read_timeout(Some(READ_TIMEOUT)).ok()?;
    stream.set_write_timeout(Some(READ_TIMEOUT)).ok()?;
    // HTTP/1.0, so that the answer comes in one piece and ends with the connection.
    write!(stream, "GET {path}/models HTTP/1.0\r\nHost: {host}\r\nAccept: application/json\r\n\r\n").ok()?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).ok()?;
    let body = &answer[answer.windows(4).position(|four| four == b"\r\n\r\n")? + 4..];
    let body: serde_json::Value = serde_json::from_slice(body).ok()?;
    body["data"][0]["id"].as_str().map(str::to_owned)
}
