//! A host's adapter: the calls by which it uses an agent, over HTTP. It knows nothing of Tamtam but `docs/HTTP.md`.
//!
//! Each request has a connection of its own and speaks HTTP/1.0, whose answers end with the connection. A host takes the client that
//! it has.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
};

use serde_json::{Value, json};

use super::Failed;

pub(crate) struct Adapter {
    host: String,
}

impl Adapter {
    /// An adapter for the server at `http://HOST:PORT`.
    pub(crate) fn new(at: &str) -> Adapter {
        Adapter { host: at.trim_start_matches("http://").to_owned() }
    }

    /// Makes the session; one that is there stays as it is.
    pub(crate) fn create_session(&self, session: &str) -> Result<(), Failed> {
        self.post("/v1/sessions", json!({ "id": session })).map(drop)
    }

    /// Has this agent do a turn in the session, and hands on its events up to the last, `turn_finished`.
    pub(crate) fn stream(
        &self,
        session: &str,
        agent: &str,
        input: &str,
        each: &mut dyn FnMut(&Value) -> Result<(), Failed>,
    ) -> Result<(), Failed> {
        // The stream is open before the message is sent, so that nothing of the turn is missed.
        let mut events = self.ask("GET", &format!("/v1/sessions/{session}/events"), "")?;
        self.post(&format!("/v1/sessions/{session}/messages"), json!({ "text": input, "agent": agent }))?;
        let mut line = String::new();
        while events.read_line(&mut line)? > 0 {
            if let Some(data) = line.strip_prefix("data: ") {
                let event: Value = serde_json::from_str(data)?;
                each(&event)?;
                if event["event"] == "turn_finished" {
                    return Ok(());
                }
            }
            line.clear();
        }
        Err("the events end before the turn does".into())
    }

    /// Sends words into the running turn: calls that have not begun are skipped.
    pub(crate) fn steer(&self, session: &str, words: &str) -> Result<(), Failed> {
        self.post(&format!("/v1/sessions/{session}/messages"), json!({ "text": words, "delivery": "steer" })).map(drop)
    }

    /// Ends the running turn.
    pub(crate) fn abort(&self, session: &str, reason: &str) -> Result<(), Failed> {
        self.post(&format!("/v1/sessions/{session}/abort"), json!({ "reason": reason })).map(drop)
    }

    fn post(&self, path: &str, body: Value) -> Result<Value, Failed> {
        let mut answer = String::new();
        self.ask("POST", path, &body.to_string())?.read_to_string(&mut answer)?;
        Ok(serde_json::from_str(&answer)?)
    }

    /// Sends a request. What is left to read of the answer is its body; one that refuses is an error.
    fn ask(&self, method: &str, path: &str, body: &str) -> Result<BufReader<TcpStream>, Failed> {
        let mut socket = TcpStream::connect(&self.host)?;
        let (host, length) = (&self.host, body.len());
        write!(
            socket,
            "{method} {path} HTTP/1.0\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        )?;
        let mut answer = BufReader::new(socket);
        let (mut status, mut line) = (String::new(), String::new());
        answer.read_line(&mut status)?;
        while line != "\r\n" {
            line.clear();
            if answer.read_line(&mut line)? == 0 {
                return Err(format!("{path}: the server closed the connection").into());
            }
        }
        if status.split(' ').nth(1).is_some_and(|code| code.starts_with('2')) {
            return Ok(answer);
        }
        let mut problem = String::new();
        answer.read_to_string(&mut problem)?;
        Err(format!("{path}: {problem}").into())
    }
}
