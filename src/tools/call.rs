//! One call of a file tool: what it shares with others, and how it ends when it must stop.
//!
//! The body of a tool blocks, so it has a thread of its own. A call that is told to stop is answered at once, whatever its
//! thread is at: a search, a long comparison, the wait for a file that another call holds. That is truthful because of the
//! [`Gate`]: before a body changes anything it passes the gate, and who is told to stop first closes it.

use std::{path::PathBuf, sync::Arc};

use crate::{
    lock::Lock,
    model::BoxFuture,
    tool::{
        ToolContext, ToolResult, blocking,
        files::{Files, Vault},
        workspace::{Workspace, WorkspaceError},
    },
    tools::seen::Seen,
    words::message::ErrorReason,
};

/// What the tools of one toolbox share.
#[derive(Clone, Default)]
pub(super) struct Shared {
    pub(super) files: Files,
    pub(super) seen: Seen,
    /// What `~` stands for; nothing where the host did not say.
    pub(super) home: Option<PathBuf>,
}

/// One call of a file tool: its context, and the workspace with its open handle.
pub(super) struct Call<'a> {
    pub(super) context: &'a ToolContext,
    pub(super) workspace: Workspace,
    pub(super) files: Files,
    pub(super) seen: Seen,
    /// The permission that the call was judged for: `read` or `edit`.
    pub(super) permission: &'static str,
    gate: Gate,
}

/// Runs the body of a tool on a thread of its own. Both sides of its `Result` are results for the model; the error side is
/// only there so that a body can end early.
pub(super) fn run<'a, F>(
    shared: &Shared,
    permission: &'static str,
    context: &'a ToolContext,
    body: F,
) -> BoxFuture<'a, ToolResult>
where
    F: FnOnce(&Call) -> Result<ToolResult, ToolResult> + Send + 'static,
{
    let (shared, gate) = (shared.clone(), Gate::default());
    let inner = gate.clone();
    let work = blocking(context, move |context| {
        let call = Call::new(shared, permission, inner, context);
        call.and_then(|call| body(&call)).unwrap_or_else(|error| error)
    });
    Box::pin(async move {
        let mut work = Box::pin(work);
        tokio::select! {
            biased;
            result = &mut work => result,
            () = context.cancelled() => if gate.close() { aborted() } else { work.await },
        }
    })
}

impl<'a> Call<'a> {
    fn new(
        shared: Shared,
        permission: &'static str,
        gate: Gate,
        context: &'a ToolContext,
    ) -> Result<Call<'a>, ToolResult> {
        let mut workspace = Workspace::for_call(context).map_err(failure)?;
        if let Some(home) = shared.home {
            workspace = workspace.with_home(home);
        }
        let call = Call { context, workspace, files: shared.files, seen: shared.seen, permission, gate };
        call.go_on()?;
        Ok(call)
    }

    /// Ends the call early once it must stop.
    pub(super) fn go_on(&self) -> Result<(), ToolResult> {
        if self.context.is_cancelled() { Err(aborted()) } else { Ok(()) }
    }

    /// Where contents of this session are kept; `None` for a call outside of any.
    pub(super) fn vault(&self) -> Option<Vault> {
        self.context.changes.place().map(|(folder, _)| self.files.vaults.at(folder))
    }

    /// Does what changes something, unless the call was told to stop before. From here on it is not stopped until it is done.
    pub(super) fn change<T>(&self, change: impl FnOnce() -> T) -> Result<T, ToolResult> {
        self.go_on()?;
        let _passed = self.gate.pass().ok_or_else(aborted)?;
        Ok(change())
    }
}

/// Who was first: the one that stops a call, or the work that cannot be taken back.
#[derive(Clone, Default)]
struct Gate(Arc<Lock<Passage>>);

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Passage {
    #[default]
    Open,
    /// A change is being made; the call is answered when that is done.
    Used,
    /// The call was answered. Nothing may be changed any more.
    Closed,
}

/// Stands in the gate until it is dropped.
struct Passed<'g>(&'g Gate);

impl Gate {
    /// Whether nothing is being changed; nothing will be from now on.
    fn close(&self) -> bool {
        self.turn(Passage::Closed)
    }

    fn pass(&self) -> Option<Passed<'_>> {
        self.turn(Passage::Used).then_some(Passed(self))
    }

    fn turn(&self, to: Passage) -> bool {
        let mut passage = self.0.lock();
        let is_open = *passage == Passage::Open;
        if is_open {
            *passage = to;
        }
        is_open
    }
}

impl Drop for Passed<'_> {
    fn drop(&mut self) {
        *self.0.0.lock() = Passage::Open;
    }
}

/// What the model is told of an error of the workspace, on one line whatever the file is called.
pub(super) fn failure(error: WorkspaceError) -> ToolResult {
    let text = error.to_string();
    ToolResult::error(text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect::<String>())
}

/// What the model is told when its call was stopped.
pub(super) fn aborted() -> ToolResult {
    ToolResult::failed(ErrorReason::Aborted, "Operation aborted")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The one who comes first has its way: a closed gate lets nothing through, and a change that began is waited for.
    #[test]
    fn a_gate_lets_a_change_through_or_closes() {
        let gate = Gate::default();
        let passed = gate.pass();
        assert!(passed.is_some() && !gate.close(), "a change is being made");
        drop(passed);
        assert!(gate.close());
        assert!(gate.pass().is_none(), "nothing may be changed once the call was answered");
    }
}
