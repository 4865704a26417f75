//! A host to look at in a browser: it mounts the router beside a route of its own, and plays a script that reads, asks before it
//! edits, and can be steered. The page's browser test runs against it (`tests/page/run.mjs`).
//!
//! `cargo run -p tamtam-server --example watched [PORT [FOLDER]]`: no key, no network beyond the loopback. It prints its address, and
//! serves until Ctrl-C; tapes and files are in the folder, else in a temporary one. `POST /drill/ID {"words":"…"}` crashes the actor of a session, as a bug in it would.

use std::{path::PathBuf, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    extract::{Path, State},
    http::StatusCode,
    routing::post,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tamtam::{
    Runtime, SessionOptions,
    model::Scripted,
    permission::{Action, Rule, Ruleset},
    tool, tools,
};
use tamtam_server::{Server, ServerOptions};

type Failed = Box<dyn std::error::Error + Send + Sync>;

#[derive(Deserialize, JsonSchema)]
struct Check {
    /// How long it takes.
    seconds: u64,
}

const SCRIPT: &str = include_str!("../tests/page/script.json");

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let port = std::env::args().nth(1).map_or(Ok(0), |port| port.parse::<u16>())?;
    let temporary = tempfile::tempdir()?;
    let folder = std::env::args().nth(2).map_or_else(|| temporary.path().to_owned(), PathBuf::from);
    let workspace = folder.join("work");
    if !workspace.exists() {
        std::fs::create_dir_all(&workspace)?;
        std::fs::write(workspace.join("greet.sh"), "echo Helo\nline2\n")?;
    }

    let runtime = Runtime::builder().store(folder.join("tapes")).model(Arc::new(Scripted::from_json(SCRIPT)?));
    // A check that takes long enough to be steered while it runs.
    let check = tool::typed("check", "Checks the program.", |Check { seconds }, _| async move {
        tokio::time::sleep(Duration::from_secs(seconds.min(60))).await;
        "checked"
    });
    let runtime = runtime.tools(tools::full()).tool(check).with_tasks().start().await?;

    let rule = |permission, action| Rule::new(permission, "*", action);
    let rules = Ruleset::new(
        "watched",
        vec![
            rule("read", Action::Allow),
            rule("check", Action::Allow),
            rule("task", Action::Allow),
            rule("edit", Action::Ask),
        ],
    );
    let options = ServerOptions::default().new_session(move |_, _| {
        let mut options = SessionOptions::new(&workspace).rules(rules.clone());
        // The question waits until somebody opens the page.
        options.asks_wait = true;
        Ok(options)
    });
    let server = Server::new(runtime.clone()).with(options);
    let app = server.router().merge(Router::new().route("/drill/{id}", post(crash)).with_state(runtime.clone()));

    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    println!("http://{}", listener.local_addr()?);
    tokio::select! {
        ended = axum::serve(listener, app) => ended?,
        signal = tokio::signal::ctrl_c() => signal?,
    }
    server.end_streams();
    runtime.shutdown().await;
    Ok(())
}

async fn crash(
    State(runtime): State<Runtime>,
    Path(id): Path<String>,
    Json(said): Json<Value>,
) -> (StatusCode, String) {
    match runtime.operate().crash(&id, said["words"].as_str().unwrap_or("a drill")) {
        Ok(()) => (StatusCode::NO_CONTENT, String::new()),
        Err(error) => (StatusCode::CONFLICT, error.to_string()),
    }
}
