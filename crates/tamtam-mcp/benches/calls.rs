//! What a call of an MCP server costs beside the server's own time, and what many offered tools add to a request. Prints one line a
//! figure.
//!
//! `cargo bench -p tamtam-mcp --bench calls` runs all; `--short` runs each at a fiftieth of its size, to see that it still works: its
//! figures say nothing. The server is this program again, on its standard input and output; client and server share the cores.
#![allow(clippy::unwrap_used, missing_docs)]

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tamtam::{Runtime, SessionOptions, permission::Profile, runtime::Builder, tool::ToolContext};
use tamtam_mcp::{ServerConfig, Servers};

#[path = "../../../benches/support/parts.rs"]
mod parts;

use parts::{Calls, distribution, scaled};

/// Serves until the input ends: `echo`, and as many further tools as were asked for.
fn serve(tools: usize) {
    let schema = json!({ "type": "object", "properties": { "text": { "type": "string" } } });
    let tool = |name: String| json!({ "name": name, "description": "Says what it was told.", "inputSchema": schema });
    let names = std::iter::once("echo".to_owned()).chain((1..tools).map(|n| format!("tool_{n:04}")));
    let tools: Vec<_> = names.map(tool).collect();
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let message: Value = serde_json::from_str(&line).unwrap();
        let result = match message["method"].as_str().unwrap() {
            "initialize" => json!({
                "protocolVersion": "2025-06-18", "capabilities": { "tools": {} },
                "serverInfo": { "name": "bench", "version": "1" },
            }),
            "tools/list" => json!({ "tools": tools }),
            "tools/call" => json!({ "content": [{ "type": "text", "text": "said" }] }),
            _ => continue,
        };
        writeln!(out, "{}", json!({ "jsonrpc": "2.0", "id": message["id"], "result": result })).unwrap();
        out.flush().unwrap();
    }
}

fn itself() -> String {
    std::env::current_exe().unwrap().to_str().unwrap().to_owned()
}

/// The server's own time: a line to it and back, with nothing between.
fn alone(calls: usize) -> Vec<Duration> {
    let mut command = Command::new(itself());
    let mut child = command.args(["--serve", "1"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut input, mut output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    let mut line = String::new();
    let params = json!({ "name": "echo", "arguments": {} });
    let took = (0..calls)
        .map(|id| {
            let call = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
            let began = Instant::now();
            writeln!(input, "{call}").unwrap();
            line.clear();
            output.read_line(&mut line).unwrap();
            began.elapsed()
        })
        .collect();
    drop(input);
    child.wait().unwrap();
    took
}

async fn servers(tools: usize) -> (Runtime, Servers) {
    let config = ServerConfig::stdio("bench", itself()).arguments(["--serve", &tools.to_string()]);
    let runtime = Runtime::builder().in_memory().model(Arc::new(Calls::new(2))).start().await.unwrap();
    let servers = Servers::new([config.tools_max(2_000)]).unwrap();
    servers.start_in(&runtime).await.unwrap();
    assert_eq!(servers.list().await.remove(0).error, None);
    (runtime, servers)
}

/// Calls through the client, one after the other.
async fn through(calls: usize) -> Vec<Duration> {
    let (runtime, servers) = servers(1).await;
    let tool = servers.tools().remove(0);
    let here = ToolContext::detached("/".into(), "/".into());
    let mut took = Vec::new();
    for _ in 0..calls {
        let began = Instant::now();
        let result = tool.run(json!({}), &here).await;
        took.push(began.elapsed());
        assert!(!result.is_error(), "{result:?}");
    }
    assert!(runtime.shutdown().await.is_empty());
    took
}

/// The turns of two steps of a session whose model answers at once, with so many tools of a server offered in full.
async fn turns(tools: usize, turns: usize) -> Vec<Duration> {
    let (listed, servers) = servers(tools.max(1)).await;
    let offered = servers.tools().into_iter().filter(|_| tools > 0);
    let builder = Runtime::builder().in_memory().model(Arc::new(Calls::new(2))).tool(parts::Nothing);
    let runtime = offered.fold(builder, Builder::tool).start().await.unwrap();
    let session = runtime.create(SessionOptions::new("/").profile(Profile::Auto)).await.unwrap();
    let mut took = Vec::new();
    for _ in 0..turns {
        let began = Instant::now();
        session.prompt("go").await.unwrap().wait().await.unwrap();
        took.push(began.elapsed());
    }
    assert!(runtime.shutdown().await.is_empty() && listed.shutdown().await.is_empty());
    took
}

#[tokio::main]
async fn main() {
    let arguments: Vec<_> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|one| one == "--serve") {
        return serve(arguments[at + 1].parse().unwrap());
    }
    let calls: usize = scaled(20_000_u16).into();
    distribution("a call: the server alone", alone(calls));
    distribution("a call: through the client", through(calls).await);
    for tools in [0, 100, 1_000] {
        let took = turns(tools, scaled(1_000_u16).into()).await;
        distribution(&format!("a turn of two steps, {tools} tools offered"), took);
    }
}
