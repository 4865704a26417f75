//! Asks an OpenAI-compatible server, by default on this machine, for its first model.
//!
//! It is the last way to find a model for a command that names none. It sends one plain HTTP request without a key. Once the name
//! of the host is looked up, this takes about half a second at most; no usable answer by then means no server.
//!
//! Blocks, so it must run on a blocking thread. A change must keep the limit for the whole answer, because the command waits for
//! it, and send no key, because nobody knows which program listens at that address.

use std::{
    io::{Read as _, Write as _},
    net::{TcpStream, ToSocketAddrs as _},
    time::{Duration, Instant},
};

const CONNECT_TIMEOUT: Duration = Duration::from_millis(200);
const ANSWER_TIMEOUT: Duration = Duration::from_millis(300);
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// The first model of an OpenAI-compatible server at `http://host[:port]/path`; `None` if no server answers in time. Blocks.
pub(super) fn first_model(base_url: &str) -> Option<String> {
    let rest = base_url.trim().trim_end_matches('/').strip_prefix("http://")?;
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let with_port = if host.contains(':') { host.to_owned() } else { format!("{host}:80") };
    let address = with_port.to_socket_addrs().ok()?.next()?;
    let mut stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT).ok()?;
    let until = Instant::now() + ANSWER_TIMEOUT;
    stream.set_write_timeout(Some(ANSWER_TIMEOUT)).ok()?;
    // HTTP/1.0, so that the answer comes in one piece and ends with the connection.
    // In one write: a server that closes when it has read the first piece would reset what it has answered.
    let request = format!("GET {path}/models HTTP/1.0\r\nHost: {host}\r\nAccept: application/json\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let (mut answer, mut piece) = (Vec::new(), [0; 16 << 10]);
    // The limit is for the whole answer: a server that sends a byte now and then must not delay the start.
    while answer.len() < ANSWER_BYTES_MAX {
        let left = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
        stream.set_read_timeout(Some(left)).ok()?;
        match stream.read(&mut piece).ok()? {
            0 => break,
            n => answer.extend_from_slice(&piece[..n]),
        }
    }
    let body = &answer[answer.windows(4).position(|four| four == b"\r\n\r\n")? + 4..];
    let body: serde_json::Value = serde_json::from_slice(body).ok()?;
    body["data"][0]["id"].as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::net::TcpListener;

    use super::*;

    /// A server that answers one connection with these bytes, and, if `drips`, with one more byte every 10 ms for ever.
    fn server(answer: &'static str, drips: bool) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = Vec::new();
            while !asked.ends_with(b"\r\n\r\n") {
                let mut piece = [0; 1024];
                let read = stream.read(&mut piece).unwrap();
                assert!(read > 0, "the question ends with a blank line");
                asked.extend_from_slice(&piece[..read]);
            }
            stream.write_all(answer.as_bytes()).unwrap();
            while drips && stream.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        url
    }

    #[test]
    fn the_first_model_of_a_server_is_found() {
        let url = server("HTTP/1.0 200 OK\r\n\r\n{\"data\":[{\"id\":\"qwen\"},{\"id\":\"other\"}]}", false);
        assert_eq!(first_model(&url).as_deref(), Some("qwen"));
        assert_eq!(first_model(&server("HTTP/1.0 200 OK\r\n\r\n<html>", false)), None);
    }

    /// Without the limit for the whole answer this test would hang.
    #[test]
    fn a_server_that_never_ends_its_answer_is_none() {
        assert_eq!(first_model(&server("HTTP/1.0 200 OK\r\n\r\n", true)), None);
    }
}
