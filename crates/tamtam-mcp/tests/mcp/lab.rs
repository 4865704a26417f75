//! A runtime with servers in it, and the ways of the tests to speak to them.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::Value;
use tamtam::{
    Runtime, SessionOptions,
    model::Scripted,
    permission::Profile,
    supervisor::{CrashReport, Node},
    tool::{Progress, Tool, ToolContext, ToolResult},
};
use tamtam_mcp::{Listed, ServerConfig, ServerFigures, Servers};

use crate::taped::{self, Folder};

/// The longest that a test waits for an event: a machine may be busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Lab {
    pub(crate) runtime: Runtime,
    pub(crate) servers: Servers,
    pub(crate) folder: Folder,
}

/// The folder of the tests.
pub(crate) fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// A server that is a program of node.
pub(crate) fn node(name: &str, script: &Path, arguments: &[&str]) -> ServerConfig {
    let environment = tamtam_mcp::well_known(std::env::vars_os());
    ServerConfig::stdio(name, "node")
        .arguments([script.to_str().unwrap()].iter().chain(arguments).copied())
        .environment(environment)
        .start_limit(PATIENCE)
}

/// A server that others wrote, as npm has it, with these arguments.
pub(crate) fn npm(name: &str, package: &str, arguments: &[&str]) -> ServerConfig {
    let script = tests().join("npm/node_modules/@modelcontextprotocol").join(package).join("dist/index.js");
    assert!(script.exists(), "the servers of others are missing: (cd crates/tamtam-mcp/tests/npm && npm ci)");
    node(name, &script, arguments)
}

/// `server-everything` on its standard input and output.
pub(crate) fn everything(name: &str) -> ServerConfig {
    npm(name, "server-everything", &["stdio"])
}

/// The hostile server in one of its modes. Its starts are counted in `starts`.
pub(crate) fn hostile(name: &str, mode: &str, starts: &Path) -> ServerConfig {
    node(name, &tests().join("hostile.mjs"), &[mode, starts.to_str().unwrap()])
}

impl Lab {
    pub(crate) async fn new(configs: impl IntoIterator<Item = ServerConfig>) -> Lab {
        Lab::with(taped::folder(), configs).await
    }

    pub(crate) async fn with(folder: Folder, configs: impl IntoIterator<Item = ServerConfig>) -> Lab {
        Lab::around(folder, configs, Scripted::new([])).await
    }

    /// A runtime of this model.
    pub(crate) async fn around(
        folder: Folder,
        configs: impl IntoIterator<Item = ServerConfig>,
        model: Scripted,
    ) -> Lab {
        let builder = Runtime::builder().store(folder.path().join("store")).model(Arc::new(model));
        let runtime = builder.start().await.unwrap();
        let servers = Servers::new(configs).unwrap();
        servers.start_in(&runtime).await.unwrap();
        Lab { runtime, servers, folder }
    }

    /// A second runtime, whose sessions have the tools that the servers have listed.
    pub(crate) async fn with_sessions(self, model: Scripted) -> Lab {
        self.list().await;
        assert!(self.runtime.shutdown().await.is_empty());
        let tools = self.servers.tools().into_iter();
        let builder = Runtime::builder().store(self.folder.path().join("second")).model(Arc::new(model));
        let runtime = tools.fold(builder, tamtam::runtime::Builder::tool).start().await.unwrap();
        self.servers.start_in(&runtime).await.unwrap();
        Lab { runtime, ..self }
    }

    pub(crate) fn options(&self) -> SessionOptions {
        SessionOptions::new(self.folder.path()).profile(Profile::Auto)
    }

    /// What the one server said of its tools.
    pub(crate) async fn list(&self) -> Listed {
        self.servers.list().await.remove(0)
    }

    pub(crate) fn tool(&self, name: &str) -> Arc<dyn Tool> {
        let tools = self.servers.tools();
        tools.into_iter().find(|tool| tool.name() == name).unwrap_or_else(|| panic!("{name} is not offered"))
    }

    /// Calls a tool outside of a session.
    pub(crate) async fn call(&self, name: &str, arguments: Value) -> ToolResult {
        let (context, _) = self.context();
        let tool = self.tool(name);
        tokio::time::timeout(PATIENCE, tool.run(arguments, &context)).await.expect("the call takes too long")
    }

    /// A context of a call, and the titles of its progress.
    pub(crate) fn context(&self) -> (ToolContext, Arc<Mutex<Vec<String>>>) {
        let folder = self.folder.path().to_owned();
        let mut context = ToolContext::detached(folder.clone(), folder);
        let titles: Arc<Mutex<Vec<String>>> = Arc::default();
        let shown = titles.clone();
        context.progress = Progress::new(move |title, _| shown.lock().unwrap().extend(title));
        (context, titles)
    }

    pub(crate) fn figures(&self, name: &str) -> ServerFigures {
        self.servers.figures(name).unwrap()
    }

    pub(crate) fn node(&self, name: &str) -> Node {
        let node = self.runtime.tree().find(name).unwrap().clone();
        assert_eq!(node.path, format!("runtime/tools/{name}"));
        node
    }

    /// The last crash, once there is one.
    pub(crate) async fn crash(&self) -> CrashReport {
        until("it crashed", || !self.runtime.crashes().is_empty()).await;
        self.runtime.crashes().pop().unwrap()
    }

    pub(crate) async fn end(self) {
        assert!(self.runtime.shutdown().await.is_empty());
    }
}

/// Waits until something is so.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let waited = tokio::time::timeout(PATIENCE, async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(waited.await.is_ok(), "it never came to this: {what}");
}

/// The process ids that servers wrote down at their start.
pub(crate) fn started(starts: &Path) -> Vec<i32> {
    let text = std::fs::read_to_string(starts).unwrap_or_default();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

/// Whether a process runs: it is there, and no zombie.
pub(crate) fn runs(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

pub(crate) fn kill(pid: i32) {
    assert!(std::process::Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
}
