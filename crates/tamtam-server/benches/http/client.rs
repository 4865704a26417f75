//! A client that does as little as can be: a connection that is kept for posts, and a stream of events of which only the kinds are read.

use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
};

/// A connection for one request after the other.
pub(crate) struct Connection {
    socket: BufReader<TcpStream>,
    at: String,
    line: String,
}

impl Connection {
    pub(crate) async fn open(at: &str) -> Connection {
        let socket = TcpStream::connect(at).await.unwrap();
        socket.set_nodelay(true).unwrap();
        Connection { socket: BufReader::new(socket), at: at.to_owned(), line: String::new() }
    }

    /// Posts, reads the whole answer, and gives its status.
    pub(crate) async fn post(&mut self, path: &str, body: &Value) -> u16 {
        let (at, body) = (&self.at, body.to_string());
        let json = "content-type: application/json";
        let length = body.len();
        self.send(format!("POST {path} HTTP/1.1\r\nhost: {at}\r\n{json}\r\ncontent-length: {length}\r\n\r\n{body}"))
            .await
    }

    pub(crate) async fn get(&mut self, path: &str) -> u16 {
        let at = &self.at;
        self.send(format!("GET {path} HTTP/1.1\r\nhost: {at}\r\n\r\n")).await
    }

    async fn send(&mut self, request: String) -> u16 {
        self.socket.write_all(request.as_bytes()).await.unwrap();
        let (mut status, mut length) = (0, 0);
        loop {
            self.line.clear();
            self.socket.read_line(&mut self.line).await.unwrap();
            match self.line.trim_end().split_once(' ') {
                None => break,
                Some(("content-length:", bytes)) => length = bytes.parse().unwrap(),
                Some(("HTTP/1.1", line)) => status = line[..3].parse().unwrap(),
                Some(_) => {}
            }
        }
        let mut body = vec![0; length];
        self.socket.read_exact(&mut body).await.unwrap();
        status
    }
}

/// A stream of events, over HTTP/1.0: nothing but its lines comes after the header.
pub(crate) struct Events {
    socket: BufReader<TcpStream>,
    line: String,
}

impl Events {
    pub(crate) async fn open(at: &str, path: &str) -> Events {
        let mut socket = TcpStream::connect(at).await.unwrap();
        socket.write_all(format!("GET {path} HTTP/1.0\r\nhost: {at}\r\n\r\n").as_bytes()).await.unwrap();
        let mut events = Events { socket: BufReader::new(socket), line: String::new() };
        assert!(events.line().await.is_some_and(|line| line.contains(" 200 ")));
        while events.line().await.is_some_and(|line| line != "\r\n") {}
        events
    }

    /// The next line; `None` at the end.
    pub(crate) async fn line(&mut self) -> Option<&str> {
        self.line.clear();
        let read = self.socket.read_line(&mut self.line).await.unwrap();
        (read > 0).then_some(&self.line)
    }

    /// Reads up to an event of that kind.
    pub(crate) async fn until(&mut self, kind: &str) {
        let wanted = format!("\"event\":\"{kind}\"");
        while !self.line().await.expect("the stream goes on").contains(&wanted) {}
    }
}
