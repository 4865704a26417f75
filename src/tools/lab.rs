//! The lab of the file tools' tests: a separate workspace for each test, and calls of tools in it.
//!
//! Each [`Lab`] has a temporary folder, which is deleted when the lab is dropped. Every call of a lab goes through
//! [`remote`](super::remote()), with a workspace path that does not exist on the calling side. So each test also shows that the
//! tool can be carried out elsewhere; a change must keep that.

#![allow(clippy::unwrap_used, clippy::panic)]

pub(super) mod tree;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use serde_json::Value;

use crate::{
    model::BoxFuture,
    tool::{ToolContext, ToolResult, Toolbox},
};

/// A workspace, and the seven tools of [`full`](super::full).
pub(super) struct Lab {
    /// Holds `ws`, the workspace, and anything that a test puts next to it.
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

    /// Sets the time of a file back by this many seconds from now.
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

    /// Calls a tool in a new context.
    pub(super) fn call(&self, tool: &str, arguments: Value) -> ToolResult {
        self.call_in(tool, arguments, &self.context())
    }

    /// Calls a tool as if it worked elsewhere: the caller's context has paths that do not exist, and only the other side has
    /// `context`.
    pub(super) fn call_in(&self, tool: &str, arguments: Value, context: &ToolContext) -> ToolResult {
        let there = Arc::new(There { tools: self.tools.clone(), context: context.clone() });
        let tools = super::remote(&self.tools, there);
        let mut here = context.clone();
        (here.workspace, here.spill) = (Arc::new("/nowhere/ws".into()), Some(Arc::new("/nowhere/spill".into())));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(tools.find(tool).unwrap().run(arguments, &here))
    }

    /// Calls a tool that must succeed, and returns its text.
    pub(super) fn ok(&self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments);
        assert!(!result.is_error(), "{}", result.content);
        result.content
    }

    /// Calls a tool that must fail, and returns its text.
    pub(super) fn error(&self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments);
        assert!(result.is_error(), "{}", result.content);
        result.content
    }
}

/// Where the files of a lab really are.
struct There {
    tools: Toolbox,
    context: ToolContext,
}

impl super::RemoteExecutor for There {
    fn carry_out<'a>(&'a self, tool: &'a str, arguments: Value, here: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        assert_eq!(here.workspace.as_path(), Path::new("/nowhere/ws"));
        self.tools.find(tool).unwrap().run(arguments, &self.context)
    }
}

/// `count` lines of `length` bytes each and a line feed. Each begins with `line` and its number.
pub(super) fn lines(count: usize, length: usize) -> String {
    (1..=count).map(|n| format!("{:x<length$}\n", format!("line {n}"))).collect()
}

/// The fixture of the scenarios: a signature and 100 NUL bytes.
pub(super) fn png() -> Vec<u8> {
    [&b"\x89PNG\r\n\x1a\n"[..], &[0; 100]].concat()
}

/// The names in a folder, in order.
pub(super) fn entries(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Runs something as a user whom file modes stop. Root, whom they do not stop, becomes nobody in a new thread, and nobody owns the
/// workspace before.
#[cfg(target_os = "linux")]
pub(super) fn as_nobody<T: Send>(lab: &Lab, work: impl FnOnce() -> T + Send) -> T {
    use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
    const NOBODY: u32 = 65_534;
    if !rustix::process::geteuid().is_root() {
        return work();
    }
    give(&lab.path(""), NOBODY);
    std::fs::set_permissions(lab.outside(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let thread = || {
        let (user, group) = (rustix::fs::Uid::from_raw(NOBODY), rustix::fs::Gid::from_raw(NOBODY));
        set_thread_groups(&[]).unwrap();
        set_thread_res_gid(group, group, group).unwrap();
        set_thread_res_uid(user, user, user).unwrap();
        work()
    };
    std::thread::scope(|scope| scope.spawn(thread).join().unwrap())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn as_nobody<T: Send>(_: &Lab, work: impl FnOnce() -> T + Send) -> T {
    assert!(!rustix::process::geteuid().is_root(), "run these tests as a user whom file modes stop");
    work()
}

#[cfg(target_os = "linux")]
fn give(path: &Path, to: u32) {
    std::os::unix::fs::lchown(path, Some(to), Some(to)).unwrap();
    if path.symlink_metadata().unwrap().is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            give(&entry.unwrap().path(), to);
        }
    }
}
