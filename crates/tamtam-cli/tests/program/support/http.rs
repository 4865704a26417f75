//! As much HTTP/1.1 as the servers of the tests need: requests are read, and small ones are made.

use std::{
    io::{BufRead as _, Read, Write as _},
    net::{SocketAddr, TcpStream},
};

use serde_json::Value;

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// Its first line.
    pub(crate) line: String,
    /// Its body, as it came.
    pub(crate) body: String,
}

impl Asked {
    /// Its body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// Reads the next request of a connection; `None` at its end.
pub(crate) fn read_request(from: &mut impl std::io::BufRead) -> Option<Asked> {
    let mut line = String::new();
    from.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let mut length = 0;
    loop {
        let mut header = String::new();
        from.read_line(&mut header).ok().filter(|read| *read > 0)?;
        let header = header.trim_end();
        if header.is_empty() {
            break;
        }
        let (name, value) = header.split_once(':')?;
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body).ok()?;
    Some(Asked { line: line.trim_end().to_owned(), body: String::from_utf8(body).ok()? })
}

/// Gets a page, as JSON.
pub(crate) fn get(address: SocketAddr, path: &str) -> std::io::Result<Value> {
    ask(address, &format!("GET {path} HTTP/1.0\r\nhost: {address}\r\n\r\n"))
}

/// Sends JSON to a page, and gives its answer as JSON.
pub(crate) fn post(address: SocketAddr, path: &str, body: &Value) -> std::io::Result<Value> {
    let body = body.to_string();
    let header = format!("POST {path} HTTP/1.0\r\nhost: {address}\r\ncontent-length: {}\r\n\r\n", body.len());
    ask(address, &(header + &body))
}

fn ask(address: SocketAddr, request: &str) -> std::io::Result<Value> {
    let mut stream = TcpStream::connect(address)?;
    // Under 1.0 the answer ends with the connection, and comes in one piece.
    stream.write_all(request.as_bytes())?;
    let mut answer = std::io::BufReader::new(stream);
    let mut header = String::new();
    while answer.read_line(&mut header)? > 0 && header.trim_end() != "" {
        header.clear();
    }
    let mut body = String::new();
    answer.read_to_string(&mut body)?;
    serde_json::from_str(&body).map_err(std::io::Error::other)
}
