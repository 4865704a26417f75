#![allow(clippy::unwrap_used, clippy::panic)]

mod brought;
mod files;
mod properties;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::{Value, json};

use super::*;
use crate::{
    kernel::{CallOpened, CallVerdict, Record, Settings, State},
    tool::{CallFacts, ChangeLog, Effect, ToolContext, ToolResult, Toolbox},
    tools::{Setup, bash::BashOptions, bash::LookLimits},
    words::ids::Millis,
    words::message::ErrorReason,
};

/// A workspace, the tools that work in it, and the tape of what they did.
pub(super) struct Scene {
    folder: tempfile::TempDir,
    tools: Toolbox,
    session: SessionId,
    entries: Vec<Entry>,
}

impl Scene {
    pub(super) fn new() -> Scene {
        Scene::with(Setup::new())
    }

    pub(super) fn with(setup: Setup) -> Scene {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("ws")).unwrap();
        let workspace = folder.path().join("ws").canonicalize().unwrap();
        let settings = Settings::new(workspace.to_str().unwrap(), "m/m".parse().unwrap());
        let session = SessionId::new();
        let state = State::new(session.clone(), settings, Millis(1));
        let mut bash = BashOptions::new([]);
        bash.look = Some(LookLimits::default());
        let mut scene = Scene { folder, tools: setup.bash(bash).full(), session, entries: Vec::new() };
        scene.push(None, Record::State(Arc::new(state)));
        scene
    }

    fn push(&mut self, ticket: Option<Seq>, record: Record) -> Seq {
        let seq = self.seq().next();
        self.entries.push(Entry {
            seq,
            time: Millis(1),
            cause: None,
            turn: None,
            step: None,
            ticket,
            input: None,
            record,
        });
        seq
    }

    /// The newest entry.
    pub(super) fn seq(&self) -> Seq {
        self.entries.last().map_or(Seq::ZERO, |entry| entry.seq)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("ws").join(name)
    }

    pub(super) fn kept(&self) -> PathBuf {
        self.folder.path().join("files")
    }

    pub(super) fn put(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        let path = self.folder.path().join("ws").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(super) fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        std::fs::read(self.path(name)).ok()
    }

    pub(super) fn text(&self, name: &str) -> String {
        String::from_utf8(self.bytes(name).unwrap()).unwrap()
    }

    /// Calls a tool, and records it as a session would.
    pub(super) fn call(&mut self, tool: &str, arguments: Value) -> ToolResult {
        let effect = self.tools.find(tool).unwrap().effect();
        let call = CallOpened { answer: Seq(1), index: 0, id: "c".into(), facts: facts(tool, effect) };
        let ticket = self.push(None, Record::Call(call));
        let result = self.run(tool, arguments, ticket);
        self.push(Some(ticket), Record::Result { result: Arc::new(result.clone()), judged: CallVerdict::Allowed });
        result
    }

    fn run(&self, tool: &str, arguments: Value, ticket: Seq) -> ToolResult {
        let mut context =
            ToolContext::detached(self.path("").canonicalize().unwrap(), self.folder.path().join("spill"));
        context.session = self.session.clone();
        context.changes = ChangeLog::new(Some(Arc::new(self.kept())), ticket);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut result = runtime.block_on(self.tools.find(tool).unwrap().run(arguments, &context));
        result.changes = context.changes.take().map(Box::new);
        result
    }

    /// Calls a tool, and dies before its result is on the tape.
    pub(super) fn crash_in(&mut self, tool: &str, arguments: Value) {
        let call = CallOpened { answer: Seq(1), index: 0, id: "c".into(), facts: facts(tool, Effect::Once) };
        let ticket = self.push(None, Record::Call(call));
        drop(self.run(tool, arguments, ticket));
        let result = ToolResult::failed(ErrorReason::Unknown, "unknown");
        self.push(Some(ticket), Record::Result { result: Arc::new(result), judged: CallVerdict::Allowed });
    }

    pub(super) fn write(&mut self, path: &str, content: &str) {
        let result = self.call("write", json!({"path": path, "content": content}));
        assert!(!result.is_error(), "{}", result.content);
    }

    pub(super) fn edit(&mut self, path: &str, old: &str, new: &str) {
        let result = self.call("edit", json!({"path": path, "old_string": old, "new_string": new}));
        assert!(!result.is_error(), "{}", result.content);
    }

    pub(super) fn read(&mut self, path: &str) {
        assert!(!self.call("read", json!({"path": path})).is_error());
    }

    pub(super) fn bash(&mut self, command: &str) -> ToolResult {
        let result = self.call("bash", json!({"command": command}));
        assert_eq!(result.details["exit_code"], 0, "{}", result.content);
        result
    }

    pub(super) fn prepare(&self, since: Seq) -> (FilePlan, Bench) {
        let kept = self.kept();
        let files = self.tools.files().unwrap();
        prepare_from(&self.entries, &[], &|_| Some(kept.clone()), &self.session, since, files).unwrap()
    }

    pub(super) fn plan(&self, since: Seq) -> FilePlan {
        self.prepare(since).0
    }

    /// Restores, and records it.
    pub(super) fn restore(&mut self, since: Seq, how: Restore) -> RestoredFiles {
        let (plan, bench) = self.prepare(since);
        let done = act::act(&plan, &bench, how);
        self.push(None, Record::Restored(Arc::new(done.clone())));
        done
    }

    /// Restores all, and nothing may be refused.
    pub(super) fn back(&mut self, since: Seq) -> RestoredFiles {
        let done = self.restore(since, Restore::Whole);
        assert_eq!(done.refused, []);
        done
    }

    /// What a plan says, path by path.
    pub(super) fn steps(&self, since: Seq) -> Vec<(String, FileStep)> {
        self.plan(since).files.into_iter().map(|file| (file.path, file.step)).collect()
    }
}

/// The finding about a call of that tool.
fn facts(tool: &str, effect: Effect) -> CallFacts {
    CallFacts { tool: tool.to_owned(), effect, parallel: false, access: Vec::new(), loop_key: None, unusable: None }
}
