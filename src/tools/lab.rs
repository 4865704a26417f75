//! What the tests of the tools have in common: a workspace of their own, and calls that look like a model's.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use serde_json::Value;

use crate::tool::{ToolContext, ToolResult, Toolbox};

/// A workspace with every tool.
pub(super) struct Lab {
    /// Holds `ws`, the workspace, and whatever a test puts beside it.
    folder: tempfile::TempDir,
    pub(super) tools: Toolbox,
}

impl Lab {
    pub(super) fn new() -> Lab {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("ws")).unwrap();
        Lab { folder, tools: super::full() }
    }

    pub(super) fn outside(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("ws").join(name)
    }

    /// Puts a file in the workspace.
    pub(super) fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(super) fn link(&self, target: impl AsRef<Path>, name: &str) {
        std::os::unix::fs::symlink(target, self.path(name)).unwrap();
    }

    /// Makes a file so many seconds old.
    pub(super) fn age(&self, name: &str, seconds: u64) {
        let file = std::fs::File::open(self.path(name)).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
    }

    pub(super) fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    pub(super) fn content(&self, name: &str) -> String {
        String::from_utf8(self.bytes(name)).unwrap()
    }

    pub(super) fn context(&self) -> ToolContext {
        ToolContext::detached(self.path(""), self.folder.path().join("spill"))
    }

    /// Calls a tool.
    pub(super) fn call(&self, tool: &str, arguments: Value) -> ToolResult {
        self.call_in(tool, arguments, &self.context())
    }

    pub(super) fn call_in(&self, tool: &str, arguments: Value, context: &ToolContext) -> ToolResult {
        let tool = self.tools.find(tool).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(tool.run(arguments, context))
    }

    /// Calls a tool that must succeed, and gives its text.
    pub(super) fn ok(&self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments);
        assert!(!result.is_error(), "{}", result.content);
        result.content
    }

    /// Calls a tool that must fail, and gives its text.
    pub(super) fn error(&self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments);
        assert!(result.is_error(), "{}", result.content);
        result.content
    }
}

/// So many lines of that length, each beginning with its number, as the scenarios have them.
pub(super) fn lines(count: usize, length: usize) -> String {
    (1..=count).map(|n| format!("{:x<length$}\n", format!("line {n}"))).collect()
}

/// The fixture of the scenarios: a signature and 100 NUL bytes.
pub(super) fn png() -> Vec<u8> {
    [&b"\x89PNG\r\n\x1a\n"[..], &[0; 100]].concat()
}

/// Whether the file modes of this machine stop the one who runs the tests. They do not stop root.
pub(super) fn modes_hold() -> bool {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sealed");
    std::fs::write(&path, "x").unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o000)).unwrap();
    std::fs::read(&path).is_err()
}
