//! One call of a file tool: the values it shares with other calls, and how it ends when it must stop.
//!
//! The body of a tool blocks, so it runs on a thread for blocking code. A call that must stop is answered "aborted" at once, also
//! while its thread searches, compares, or waits for a file that another call has locked, unless it has begun to change a file:
//! then the stop waits for the call's real result. The [`Gate`] decides which came first (the word has nothing to do with the hooks
//! of that name): the body passes the gate before it changes anything, and a stop closes it, so that nothing is changed after the
//! answer.
//!
//! A change of this code must let a tool write through [`Call::change`] alone, because after any other write "aborted" would be
//! false. The lock order is: first the lock of the file, then the gate.

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

/// The values that the file tools of one toolbox share. Bash shares only `files`.
#[derive(Clone, Default)]
pub(super) struct Shared {
    pub(super) files: Files,
    pub(super) seen: Seen,
    /// The folder that `~` means; `None` if the host did not name one.
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

/// Runs the body of a tool on its own thread. Both sides of the body's `Result` are results for the model; the error side only
/// lets a body end early.
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

    /// A call that only looks: it can change nothing.
    pub(super) fn to_look(
        shared: &Shared,
        permission: &'static str,
        context: &'a ToolContext,
    ) -> Result<Call<'a>, ToolResult> {
        Call::new(shared.clone(), permission, Gate::new(Lock::new(Some(First::Stop))), context)
    }

    /// An error once the call must stop, so that the body ends early.
    pub(super) fn go_on(&self) -> Result<(), ToolResult> {
        if self.context.is_cancelled() { Err(aborted()) } else { Ok(()) }
    }

    /// The vault of this call's session; for a call outside of any session a vault that keeps nothing.
    pub(super) fn vault(&self) -> Vault {
        self.shared.files.vaults.at(self.context.changes.place().and_then(|(folder, _)| folder))
    }

    /// Makes a change, unless the call must stop already. A stop does not interrupt the change.
    pub(super) fn change<T>(&self, change: impl FnOnce() -> T) -> Result<T, ToolResult> {
        self.go_on()?;
        let mut first = self.gate.lock();
        if *first == Some(First::Stop) {
            return Err(aborted());
        }
        *first = Some(First::Change);
        Ok(change())
    }
}

/// What came first, the stop of a call or its change; `None` while neither came. The lock is held while the call changes a file.
type Gate = Arc<Lock<Option<First>>>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum First {
    /// The call was answered as aborted: nothing may be changed any more.
    Stop,
    /// A change was begun: only the call's own result is true.
    Change,
}

/// Closes the gate, so that nothing is changed from now on. False where a change is being made or was made.
fn close(gate: &Gate) -> bool {
    let Some(mut first) = gate.try_lock() else { return false };
    *first.get_or_insert(First::Stop) == First::Stop
}

/// The result for an error of the workspace: on one line, for any characters in the file's name.
pub(super) fn failure(error: WorkspaceError) -> ToolResult {
    let text = error.to_string();
    ToolResult::error(text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect::<String>())
}

/// The result for a call that was stopped.
pub(super) fn aborted() -> ToolResult {
    ToolResult::failed(ErrorReason::Aborted, "Operation aborted")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// First come, first served: a closed gate lets nothing through, and a change that began is waited for.
    #[test]
    fn a_gate_lets_a_change_through_or_closes() {
        let folder = tempfile::tempdir().unwrap();
        let context = ToolContext::detached(folder.path().to_owned(), folder.path().join("spill"));
        let gate = Gate::default();
        let call = Call::new(Shared::default(), "edit", gate.clone(), &context).unwrap();
        assert_eq!(call.change(|| close(&gate)), Ok(false), "a change is being made");
        assert!(!close(&gate), "a change was made, so the call is not answered as aborted");
        let gate = Gate::default();
        let call = Call::new(Shared::default(), "edit", gate.clone(), &context).unwrap();
        assert!(close(&gate));
        assert!(call.change(|| ()).is_err(), "nothing may be changed once the call was answered");
    }
}
