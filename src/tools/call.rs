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
    pub(super) shared: Shared,
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
            () = context.cancelled() => if close(&gate) { aborted() } else { work.await },
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
        if let Some(home) = &shared.home {
            workspace = workspace.with_home(home.clone());
        }
        let call = Call { context, workspace, shared, permission, gate };
        call.go_on()?;
        Ok(call)
    }

    /// Ends the call early once it must stop.
    pub(super) fn go_on(&self) -> Result<(), ToolResult> {
        if self.context.is_cancelled() { Err(aborted()) } else { Ok(()) }
    }

    /// Where contents of this session are kept; for a call outside of any they are not.
    pub(super) fn vault(&self) -> Vault {
        self.shared.files.vaults.at(self.context.changes.place().and_then(|(folder, _)| folder))
    }

    /// Does what changes something, unless the call was told to stop before. From here on it is not stopped until it is done.
    pub(super) fn change<T>(&self, change: impl FnOnce() -> T) -> Result<T, ToolResult> {
        self.go_on()?;
        let is_answered = self.gate.lock();
        if *is_answered { Err(aborted()) } else { Ok(change()) }
    }
}

/// Who was first: the one that stops a call, or the work that cannot be taken back. Held while something is changed; true once
/// the call was answered, so that nothing may be changed any more.
type Gate = Arc<Lock<bool>>;

/// Whether nothing is being changed; nothing will be from now on.
fn close(gate: &Gate) -> bool {
    gate.try_lock().map(|mut is_answered| *is_answered = true).is_some()
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
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// The one who comes first has its way: a closed gate lets nothing through, and a change that began is waited for.
    #[test]
    fn a_gate_lets_a_change_through_or_closes() {
        let folder = tempfile::tempdir().unwrap();
        let context = ToolContext::detached(folder.path().to_owned(), folder.path().join("spill"));
        let gate = Gate::default();
        let call = Call::new(Shared::default(), "edit", gate.clone(), &context).unwrap();
        assert_eq!(call.change(|| close(&gate)), Ok(false), "a change is being made");
        assert!(close(&gate));
        assert!(call.change(|| ()).is_err(), "nothing may be changed once the call was answered");
    }
}
