//! The mock server that we did not write, as a process: one for each test, on a free port, with its own fixtures.

use std::{
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};

use super::http;

/// A running server. Dropping it ends it.
pub(crate) struct Aimock {
    child: Child,
    address: SocketAddr,
}

impl Aimock {
    /// Starts it with these fixtures, which are kept in that folder. Requests that match none of them are refused.
    pub(crate) fn start(folder: &Path, fixtures: &[Value]) -> Aimock {
        let file = folder.join("fixtures.json");
        std::fs::write(&file, json!({"fixtures": fixtures}).to_string()).unwrap();
        let program = program();
        assert!(program.exists(), "the mock server is not installed: run bash tests/all.sh ({})", program.display());
        let mut command = Command::new("node");
        command.arg(program).args(["-p", "0", "-h", "127.0.0.1", "--strict", "--log-level", "info", "-f"]).arg(file);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().expect("node is needed: run bash tests/all.sh");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        // The system chose the port, so it is read from the line that tells it.
        let address = lines.find_map(|line| line.split_once("listening on http://")?.1.trim().parse().ok());
        let Some(address) = address else {
            let _ = child.kill();
            panic!("the mock server ended before it listened: {:?}", child.wait());
        };
        // What it logs from here on nobody reads; the pipe must not fill up.
        std::thread::spawn(move || lines.count());
        Aimock { child, address }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Every request that it got, as it shows them.
    pub(crate) fn journal(&self) -> Vec<Value> {
        http::get(self.address, "/__aimock/journal").unwrap().as_array().unwrap().clone()
    }
}

impl Drop for Aimock {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn program() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/aimock/node_modules/@copilotkit/aimock/dist/cli.js")
}

/// Gives further fixtures to a running server: what they say may be known only then.
pub(crate) fn add(server: SocketAddr, fixtures: &[Value]) {
    let added = http::post(server, "/__aimock/fixtures", &json!({ "fixtures": fixtures })).unwrap();
    assert_eq!(added["added"], fixtures.len(), "{added}");
}

/// A fixture: the answer to a request that holds so many answers already.
pub(crate) fn answer(answers: usize, response: &Value) -> Value {
    json!({"match": {"turnIndex": answers}, "response": response})
}

/// A call, for an answer.
pub(crate) fn call(id: &str, name: &str, arguments: &Value) -> Value {
    json!({"id": id, "name": name, "arguments": arguments})
}
