//! The context of a running call: the facts that it may know, and the services that it may use.

use std::{future::Future, path::PathBuf, sync::Arc};

use serde_json::Value;
use tokio_util::sync::CancellationToken;

#[cfg(all(unix, feature = "tools"))]
use crate::process::Processes;
use crate::{
    tool::{Access, ChangeLog, ToolResult},
    words::ids::{CallId, Seq, SessionId},
};

/// What a running call may know and use.
#[derive(Clone)]
#[non_exhaustive]
pub struct ToolContext {
    /// The session that the call belongs to.
    pub session: SessionId,
    /// The id that the model gave to the call.
    pub call: CallId,
    /// Names the call on the tape; unique within the session.
    pub ticket: Seq,
    /// The same for every try of this call, also after a crash: hand it to services that take an idempotency key.
    pub key: String,
    /// The folder that the call works in, and must not leave.
    pub workspace: Arc<PathBuf>,
    /// A private folder for outputs that are too large for the model. It may not exist yet:
    /// [`Spill::create`](crate::tool::truncate::Spill::create) makes it. `None` in a runtime that keeps its tapes without a
    /// folder: what is cut off is lost then, and a result has to say so.
    pub spill: Option<Arc<PathBuf>>,
    /// Paths outside of the workspace that this call was allowed to reach, absolute: folders with all beneath them, or files.
    pub external: Arc<[PathBuf]>,
    /// Whether the call may also touch what it comes by on its way.
    pub may: May,
    /// Resolves when the call must stop.
    pub cancel: CancellationToken,
    /// Where to say how far it is.
    pub progress: Progress,
    /// Where to say which files it changed, before anybody is told that it did.
    pub changes: ChangeLog,
    /// Who starts OS processes for the call, so that none of them outlives the call or the host.
    #[cfg(all(unix, feature = "tools"))]
    pub processes: Processes,
}

impl ToolContext {
    /// A context for a call outside of any session, such as `tamtam tool` or a test. Nobody watches over its processes.
    #[must_use]
    pub fn detached(workspace: PathBuf, spill: PathBuf) -> ToolContext {
        ToolContext {
            session: SessionId::new(),
            call: "call_0".into(),
            ticket: Seq(0),
            key: uuid::Uuid::now_v7().to_string(),
            workspace: Arc::new(workspace),
            spill: Some(Arc::new(spill)),
            external: Arc::default(),
            may: May::anything(),
            cancel: CancellationToken::new(),
            progress: Progress::ignore(),
            changes: ChangeLog::detached(),
            #[cfg(all(unix, feature = "tools"))]
            processes: Processes::unwatched(),
        }
    }

    /// Resolves when the call must stop: an abort, a steering message that aborts, a limit, a shutdown.
    pub async fn cancelled(&self) {
        self.cancel.cancelled().await;
    }

    /// Whether the call must stop. For loops that do not await.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }
}

/// Whether a call may touch what it did not name: the end of a link, a file in a folder that it searches.
///
/// A call is judged by what it names, before it runs and without a look at the disk. What it comes by then must not be
/// something about which the rules are stricter.
#[derive(Clone, Default)]
pub struct May(Option<Arc<Judge>>);

type Judge = dyn Fn(&Access) -> bool + Send + Sync;

impl May {
    /// Everything: nobody has rules.
    #[must_use]
    pub fn anything() -> May {
        May(None)
    }

    /// What that function says. It is asked often and must not wait.
    #[must_use]
    pub fn new(judge: impl Fn(&Access) -> bool + Send + Sync + 'static) -> May {
        May(Some(Arc::new(judge)))
    }

    /// Whether this may be touched.
    #[must_use]
    pub fn touch(&self, access: &Access) -> bool {
        self.0.as_ref().is_none_or(|judge| judge(access))
    }

    /// Whether nobody needs to be asked.
    #[must_use]
    pub fn is_anything(&self) -> bool {
        self.0.is_none()
    }
}

/// Where a call says how far it is: a title for people, and metadata that may change as often as it likes.
///
/// Only the latest report is kept; reporting never waits.
#[derive(Clone)]
pub struct Progress(Arc<dyn Fn(Option<String>, Value) + Send + Sync>);

impl Progress {
    /// Hands each report to a function, which must not wait.
    #[must_use]
    pub fn new(report: impl Fn(Option<String>, Value) + Send + Sync + 'static) -> Progress {
        Progress(Arc::new(report))
    }

    /// Reports that nobody hears.
    #[must_use]
    pub fn ignore() -> Progress {
        Progress::new(|_, _| ())
    }

    /// Says what the call does now.
    pub fn title(&self, title: impl Into<String>) {
        (self.0)(Some(title.into()), Value::Null);
    }

    /// Says how far it is.
    pub fn metadata(&self, metadata: Value) {
        (self.0)(None, metadata);
    }
}

/// Runs blocking code on a thread of its own, so that it never holds up a session, and turns a panic into an error result.
///
/// Dropping the future lets go of the thread, which ends when its code does: look at [`ToolContext::is_cancelled`] in loops.
pub fn blocking<F>(context: &ToolContext, work: F) -> impl Future<Output = ToolResult> + Send + use<F>
where
    F: FnOnce(&ToolContext) -> ToolResult + Send + 'static,
{
    let context = context.clone();
    async move {
        let (done, result) = tokio::sync::oneshot::channel();
        let thread = std::thread::Builder::new().name(format!("tool {}", context.call));
        let spawned = thread.spawn(move || {
            let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&context)));
            // Nobody waits any more when the call was dropped; its result was recorded then.
            drop(done.send(caught));
        });
        if let Err(error) = spawned {
            return ToolResult::error(format!("failed to start a thread for the tool: {error}"));
        }
        match result.await {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(_) => ToolResult::error("the tool's thread ended without a result"),
        }
    }
}
