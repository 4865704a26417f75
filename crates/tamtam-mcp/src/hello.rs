//! Opens a connection: agrees on a version of the protocol, and lists the tools.
//!
//! Servers of four versions answer `initialize`. One of 2026-07-28 alone refuses it, and is asked `server/discover`; each request
//! then carries version and client. Asking in this order costs the many one round trip, and the new ones two.

use std::{collections::BTreeSet, time::Duration};

use serde_json::{Value, json};

use crate::{
    connection::{Connection, RequestError},
    text::clean_line,
};

/// The version that has no handshake.
pub(crate) const STATELESS: &str = "2026-07-28";
/// The versions that are spoken with a handshake, newest first.
pub(crate) const VERSIONS: &[&str] = &["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
/// How many pages of a list are read.
const PAGES_MAX: usize = 64;
/// How many tools are read of a list, offered or not.
const LISTED_MAX: usize = 4_096;

/// What a server said of itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Hello {
    pub(crate) version: String,
    /// Its name and version, for people.
    pub(crate) server: String,
    pub(crate) has_tools: bool,
}

/// Why a connection was not opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HelloError {
    #[error("the handshake failed: {0}")]
    Request(#[from] RequestError),
    #[error("the server speaks MCP {0:?}, which is none of {STATELESS}, {known}", known = VERSIONS.join(", "))]
    Version(String),
}

fn client() -> Value {
    json!({ "name": "tamtam", "version": env!("CARGO_PKG_VERSION") })
}

/// What this client can do: questions to people are forms.
fn capabilities() -> Value {
    json!({ "elicitation": {} })
}

/// Agrees on a version with the server.
pub(crate) async fn hello(connection: &Connection) -> Result<Hello, HelloError> {
    let params = json!({ "protocolVersion": VERSIONS[0], "capabilities": capabilities(), "clientInfo": client() });
    match connection.request("initialize", params, None).await {
        Ok(said) => {
            let version = said["protocolVersion"].as_str().unwrap_or_default();
            let Some(version) = VERSIONS.iter().find(|known| **known == version) else {
                return Err(HelloError::Version(clean_line(version, 64)));
            };
            connection.set_version(version);
            connection.notify("notifications/initialized", &json!({}));
            Ok(read(version, &said["serverInfo"], &said["capabilities"]))
        }
        Err(RequestError::Rejected(_)) => discover(connection).await,
        Err(error) => Err(error.into()),
    }
}

/// Asks a server without a handshake what it speaks.
async fn discover(connection: &Connection) -> Result<Hello, HelloError> {
    connection.set_version(STATELESS);
    connection.set_meta(json!({
        "io.modelcontextprotocol/protocolVersion": STATELESS,
        "io.modelcontextprotocol/clientInfo": client(),
        "io.modelcontextprotocol/clientCapabilities": capabilities(),
    }));
    let said = connection.request("server/discover", json!({}), None).await?;
    let versions: Vec<&str> =
        said["supportedVersions"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if !versions.contains(&STATELESS) {
        return Err(HelloError::Version(clean_line(&versions.join(", "), 64)));
    }
    let info = &said["_meta"]["io.modelcontextprotocol/serverInfo"];
    let info = if info.is_object() { info } else { &said["serverInfo"] };
    Ok(read(STATELESS, info, &said["capabilities"]))
}

fn read(version: &str, info: &Value, capabilities: &Value) -> Hello {
    let text = |name: &str| info[name].as_str().unwrap_or_default();
    let server = clean_line(&format!("{} {}", text("name"), text("version")), 128);
    Hello { version: version.to_owned(), server, has_tools: !capabilities["tools"].is_null() }
}

/// What a server has listed.
pub(crate) struct Listing {
    /// Its tools, in its order.
    pub(crate) tools: Vec<Value>,
    /// How long that holds, as far as the server says so (`ttlMs`): the shortest of its pages.
    pub(crate) holds: Option<Duration>,
}

/// Lists the tools of a server.
pub(crate) async fn tools(connection: &Connection) -> Result<Listing, RequestError> {
    let (mut tools, mut params, mut seen) = (Vec::new(), json!({}), BTreeSet::new());
    let mut holds: Option<Duration> = None;
    for _ in 0..PAGES_MAX {
        let mut page = connection.request("tools/list", params, None).await?;
        if let Value::Array(more) = page["tools"].take() {
            tools.extend(more);
        }
        if let Some(ms) = page["ttlMs"].as_u64() {
            let page = Duration::from_millis(ms);
            holds = Some(holds.map_or(page, |holds| holds.min(page)));
        }
        let next = page["nextCursor"].as_str().map(str::to_owned);
        // A cursor that comes again would come for ever.
        match next.filter(|next| tools.len() < LISTED_MAX && seen.insert(next.clone())) {
            Some(next) => params = json!({ "cursor": next }),
            None => break,
        }
    }
    tools.truncate(LISTED_MAX);
    Ok(Listing { tools, holds })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use tokio::sync::mpsc;

    use super::*;
    use crate::message::{Incoming, Rejected};

    /// Plays a server that answers each request by a function.
    async fn play(
        connection: Arc<Connection>,
        mut lines: mpsc::Receiver<String>,
        answer: impl Fn(&str, &Value) -> Result<Value, i64>,
    ) {
        while let Some(line) = lines.recv().await {
            let said: Value = serde_json::from_str(&line).unwrap();
            let Some(id) = said["id"].as_u64() else { continue };
            let answer = answer(said["method"].as_str().unwrap(), &said["params"]);
            let rejected = |code| Rejected { code, message: "no".to_owned() };
            connection.take(Incoming::Answer(id, answer.map_err(rejected)));
        }
    }

    async fn greeted(answer: impl Fn(&str, &Value) -> Result<Value, i64>) -> Result<Hello, String> {
        let (connection, lines) = Connection::new();
        tokio::select! {
            hello = hello(&connection) => hello.map_err(|error| error.to_string()),
            () = play(connection.clone(), lines, answer) => unreachable!("the connection stays"),
        }
    }

    #[tokio::test]
    async fn each_version_is_spoken_and_an_unknown_one_is_refused() {
        for version in VERSIONS {
            let hello = greeted(|method, _| {
                assert_eq!(method, "initialize");
                let info = json!({"name": "files\u{1b}", "version": "1"});
                Ok(json!({"protocolVersion": version, "serverInfo": info, "capabilities": {"tools": {}}}))
            });
            let expected = Hello { version: (*version).to_owned(), server: "files 1".to_owned(), has_tools: true };
            assert_eq!(hello.await, Ok(expected));
        }
        let odd = greeted(|_, _| Ok(json!({"protocolVersion": "1999-01-01"}))).await.unwrap_err();
        assert!(odd.starts_with("the server speaks MCP \"1999-01-01\""), "{odd}");
    }

    /// A server of 2026-07-28 alone has no handshake, and each request says who asks.
    #[tokio::test]
    async fn a_server_without_a_handshake_is_asked_what_it_speaks() {
        let hello = greeted(|method, params| match method {
            "server/discover" => {
                assert_eq!(params["_meta"]["io.modelcontextprotocol/protocolVersion"], STATELESS);
                Ok(json!({"supportedVersions": [STATELESS], "capabilities": {}}))
            }
            _ => Err(-32_022),
        });
        let expected = Hello { version: STATELESS.to_owned(), server: String::new(), has_tools: false };
        assert_eq!(hello.await, Ok(expected));
    }

    /// Pages are followed, and a cursor that leads nowhere is not followed for ever.
    #[tokio::test]
    async fn a_list_ends_although_its_cursor_does_not() {
        let (connection, lines) = Connection::new();
        let answer = |_: &str, params: &Value| {
            let next = if params["cursor"] == "b" { "b" } else { "a" };
            let next = if params["cursor"] == "a" { "b" } else { next };
            Ok(json!({"tools": [{"name": "x"}], "nextCursor": next}))
        };
        let tools = tokio::select! {
            listing = tools(&connection) => listing.unwrap().tools,
            () = play(connection.clone(), lines, answer) => unreachable!("the connection stays"),
        };
        assert_eq!(tools.len(), 3, "without a cursor, a, b");
    }
}
