//! The context of a running call: the facts that a tool may know, and the services that it may use.
//!
//! A [`ToolContext`] is plain data, and handles of the services: progress, questions to people (`tool/question.rs`), OS processes,
//! the log of changed files. The session itself is reached through the handle from `ToolContext::session`; that method is in
//! `session/inside.rs`, because this room knows no session. The runtime fills a context in (`actor/call_context.rs`).
//!
//! A change must keep that nothing in a context owns the runtime: a tool may keep its context for longer than the call, and the
//! runtime owns the tool, so neither would ever be freed. The functions behind [`Progress`] and [`May`] must not wait, because
//! tools may call them on async threads. Code that blocks runs through [`blocking`], on a thread for such code.

use std::{any::Any, fmt, future::Future, path::PathBuf, sync::Arc};

use serde_json::Value;
use tokio_util::sync::CancellationToken;

#[cfg(all(unix, feature = "tools"))]
use crate::{process::Processes, words::sandbox::SandboxTerms};
use crate::{
    tool::{Access, Asks, CallOutputs, ChangeLog, SpillPlace, Threads, ToolResult},
    words::ids::{CallId, Seq, SessionId},
    words::secrets::pass_texts,
    words::trace::TraceContext,
};

/// What a running call may know and use.
///
/// A tool may keep a clone for longer than the call. The clone does not own the runtime: the runtime can end, and its memory is
/// freed. After the end of the call the reports of progress are dropped, and [`cancelled`](ToolContext::cancelled) may never
/// resolve.
///
/// The runtime makes the context of a call, and [`ToolContext::detached`] makes one for a call outside of any session. No other
/// code can put one together from its fields:
///
/// ```compile_fail,E0639
/// let here = tamtam::tool::ToolContext::detached("/".into(), "/".into());
/// let other = tamtam::tool::ToolContext { key: "other".into(), ..here };
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct ToolContext {
    /// The session that the call belongs to.
    pub session: SessionId,
    /// The id that the model gave to the call.
    pub call: CallId,
    /// Names the call on the tape; unique within the session.
    pub ticket: Seq,
    /// The idempotency key of the call, the same for every try, also after a crash. For services that take such a key.
    pub key: String,
    /// The folder that the call works in and must not leave.
    pub workspace: Arc<PathBuf>,
    /// A private folder for outputs that are too large for the model. It may not exist yet:
    /// [`Spill::create`](crate::tool::truncate::Spill::create) makes it. `None` in a runtime that keeps its tapes without a
    /// folder: a tool that cuts its output loses the rest then, and the result must say so. A tool that gives its output whole
    /// leaves it to the runtime, which cuts it, and keeps the whole in any store that has a place for it.
    pub spill: Option<Arc<PathBuf>>,
    /// The large outputs of the call, where the store of the tapes keeps them itself.
    pub(crate) outputs: Option<Arc<CallOutputs>>,
    /// Paths outside of the workspace that this call was allowed to reach, absolute: folders with all beneath them, or files.
    pub external: Arc<[PathBuf]>,
    /// What a command of the call is confined to; `None` for a call that a person or a rule allowed by name. A tool that names no
    /// command ([`Access::command`]) can leave it out.
    pub held: Option<Arc<Held>>,
    /// The judge of paths that the call did not name and comes across while it runs.
    pub may: May,
    /// Resolves when the call must stop.
    pub(crate) cancel: CancellationToken,
    /// Reports of the call's progress.
    pub progress: Progress,
    /// The log of the files that the call changes. A change is reported here before the call answers.
    pub changes: ChangeLog,
    /// Starts OS processes for the call, so that none of them outlives the call or the host.
    #[cfg(all(unix, feature = "tools"))]
    pub processes: Processes,
    /// What the session's programs are confined to at least, by its settings.
    #[cfg(all(unix, feature = "tools"))]
    pub(crate) sandbox: Option<Arc<SandboxTerms>>,
    /// The way of the call's questions to people.
    pub(crate) asks: Asks,
    /// The mode of the call's session.
    #[cfg(all(unix, feature = "tools"))]
    pub(crate) modes: crate::tool::Modes,
    /// The to-do list of the session, as it was when the call began.
    #[cfg(all(unix, feature = "tools"))]
    pub(crate) todos: Arc<[crate::tool::Todo]>,
    /// The maker of the filters of the call's output.
    pub(crate) filters: Filters,
    /// The trace that the call carries on.
    pub(crate) trace: Option<TraceContext>,
    /// What blocking code runs on.
    pub(crate) threads: Threads,
    /// What `ToolContext::session` makes a handle of.
    pub(crate) session_ref: SessionRef,
}

impl ToolContext {
    /// A context for a call outside of any session, such as `tamtam tool` or a test. No rules judge paths, questions cannot be
    /// answered, and no watcher guards its processes.
    #[must_use]
    pub fn detached(workspace: PathBuf, spill: PathBuf) -> ToolContext {
        ToolContext {
            session: SessionId::new(),
            call: "call_0".into(),
            ticket: Seq(0),
            key: crate::words::ids::new_uuid().to_string(),
            workspace: Arc::new(workspace),
            spill: Some(Arc::new(spill)),
            outputs: None,
            external: Arc::default(),
            held: None,
            may: May::anything(),
            cancel: CancellationToken::new(),
            progress: Progress::ignore(),
            changes: ChangeLog::detached(),
            #[cfg(all(unix, feature = "tools"))]
            processes: Processes::unwatched(),
            #[cfg(all(unix, feature = "tools"))]
            sandbox: None,
            asks: Asks::default(),
            #[cfg(all(unix, feature = "tools"))]
            modes: crate::tool::Modes::default(),
            #[cfg(all(unix, feature = "tools"))]
            todos: Arc::default(),
            filters: Filters::default(),
            trace: None,
            threads: Threads::default(),
            session_ref: SessionRef::default(),
        }
    }

    /// A filter for one stream of the call's output, of all hooks that have one
    /// ([`Hook::output_filter`](crate::hook::Hook::output_filter)). A tool that writes its output to a disk or shows it while it runs
    /// puts each stream through its own filter, because hooks see the result only at the end.
    #[must_use]
    pub fn filter(&self) -> Box<dyn OutputFilter> {
        self.filters.one()
    }

    /// The same context in a trace, for a host that made it itself ([`ToolContext::detached`]).
    #[must_use]
    pub fn in_trace(mut self, trace: TraceContext) -> ToolContext {
        self.trace = Some(trace);
        self
    }

    /// The trace that the call carries on, for services that it calls; `None` outside of one.
    #[must_use]
    pub fn trace(&self) -> Option<&TraceContext> {
        self.trace.as_ref()
    }

    /// The place of the call's large outputs; `None` if they are lost.
    pub(crate) fn spill_place(&self) -> Option<SpillPlace> {
        let in_store = self.outputs.clone().map(SpillPlace::Store);
        in_store.or_else(|| self.spill.clone().map(SpillPlace::Folder))
    }

    /// Resolves when the call must stop: an abort, a steering message that aborts, a limit, a shutdown.
    pub async fn cancelled(&self) {
        self.cancel.cancelled().await;
    }

    /// Stops the call, for a host that made the context itself ([`ToolContext::detached`]).
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Whether the call must stop. For loops that do not await.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }
}

/// Changes a stream of output on its way: takes secrets out of it.
///
/// A filter may withhold bytes until it has seen enough, so its output lags behind its input. It must not split a character that
/// came in one piece.
pub trait OutputFilter: Send {
    /// Takes the next bytes, and returns those that can pass.
    fn push(&mut self, bytes: &[u8]) -> Vec<u8>;

    /// Returns the withheld bytes: no more bytes come.
    fn finish(&mut self) -> Vec<u8>;
}

/// Makes one filter of each hook that has one.
type MakeFilters = dyn Fn() -> Vec<Box<dyn OutputFilter>> + Send + Sync;

/// Makes the filters of one runtime: one for each stream. `None` if no hook has a filter.
#[derive(Clone, Default)]
pub(crate) struct Filters(pub(crate) Option<Arc<MakeFilters>>);

impl Filters {
    fn one(&self) -> Box<dyn OutputFilter> {
        Box::new(Chain(self.0.as_ref().map(|make| make()).unwrap_or_default()))
    }

    /// A whole text, filtered.
    pub(crate) fn text(&self, text: String) -> String {
        if self.0.is_none() {
            return text;
        }
        let mut filter = self.one();
        let mut passed = filter.push(text.as_bytes());
        passed.extend(filter.finish());
        String::from_utf8_lossy(&passed).into_owned()
    }

    /// A JSON value with all its texts filtered, as one text: a secret may be spread over several fields.
    pub(crate) fn json(&self, mut value: Value) -> Value {
        if self.0.is_some() {
            pass_texts(&mut value, |text| self.text(text.to_owned()));
        }
        value
    }
}

/// Filters one after the other; without any, bytes pass as they are.
struct Chain(Vec<Box<dyn OutputFilter>>);

impl OutputFilter for Chain {
    fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.0.iter_mut().fold(bytes.to_vec(), |bytes, filter| filter.push(&bytes))
    }

    fn finish(&mut self) -> Vec<u8> {
        self.0.iter_mut().fold(Vec::new(), |bytes, filter| {
            let mut passed = filter.push(&bytes);
            passed.extend(filter.finish());
            passed
        })
    }
}

/// The session that a call, or a callback of a hook, belongs to. It has no type here, because this room must not know a session:
/// the room `session` knows what is in it. It must not own the runtime.
#[derive(Clone, Default)]
pub(crate) struct SessionRef(Option<Arc<dyn Any + Send + Sync>>);

impl SessionRef {
    pub(crate) fn new(to: Arc<impl Any + Send + Sync>) -> SessionRef {
        SessionRef(Some(to))
    }

    /// What the reference was made of, if it has this type.
    pub(crate) fn get<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.0.clone()?.downcast().ok()
    }
}

impl fmt::Debug for SessionRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionRef")
    }
}

/// What an unasked call may reach: it must run confined by the kernel to this, or not at all.
///
/// What may be read is judged path by path ([`ToolContext::may`]); everything else is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Held {
    /// The files that it may write, as absolute paths; links in them are not resolved yet.
    pub writes: Vec<PathBuf>,
    /// Whether the rules let it read only some of the workspace. If not, all of it may be read.
    pub keeps_reads: bool,
    /// Whether it is known to read nothing that has no path, so that the history of a repository may be there for it although
    /// some files may not be read.
    pub history: bool,
}

/// Whether a call may touch a path that it did not name: the end of a link, a file in a folder that it searches.
///
/// The rules judge a call by the paths that it names, before it runs and without a look at the disk. A path that the call comes
/// across later must not be one about which the rules are stricter.
#[derive(Clone, Default)]
pub struct May(Option<Arc<Judge>>);

type Judge = dyn Fn(&Access) -> bool + Send + Sync;

impl May {
    /// Allows every path: without rules.
    #[must_use]
    pub fn anything() -> May {
        May(None)
    }

    /// Allows the paths for which `judge` answers true. The function is called often and must not wait.
    #[must_use]
    pub fn new(judge: impl Fn(&Access) -> bool + Send + Sync + 'static) -> May {
        May(Some(Arc::new(judge)))
    }

    /// Whether the call may make this access.
    #[must_use]
    pub fn touch(&self, access: &Access) -> bool {
        self.0.as_ref().is_none_or(|judge| judge(access))
    }

    /// Whether every path is allowed, so that no access needs to be asked about.
    #[cfg(any(test, all(unix, feature = "tools")))]
    #[must_use]
    pub(crate) fn is_anything(&self) -> bool {
        self.0.is_none()
    }
}

/// The reports of a call's progress: a title for people, and metadata that may change as often as the call likes.
///
/// Reports are shown to those who listen to the session, and are not recorded on its tape. Reporting never waits. What is reported
/// after the end of the call is dropped.
#[derive(Clone)]
pub struct Progress {
    report: Arc<dyn Fn(Option<String>, Value) + Send + Sync>,
    /// Shows words in the tree.
    #[cfg_attr(
        not(all(unix, feature = "tools")),
        allow(dead_code, reason = "only tools of this crate show words of ours")
    )]
    tree: Option<Arc<dyn Fn(String) + Send + Sync>>,
}

impl Progress {
    /// Hands each report to a function, which must not wait.
    #[must_use]
    pub fn new(report: impl Fn(Option<String>, Value) + Send + Sync + 'static) -> Progress {
        Progress { report: Arc::new(report), tree: None }
    }

    /// The same reports, and a function that shows words in the tree.
    pub(crate) fn with_tree(self, show: impl Fn(String) + Send + Sync + 'static) -> Progress {
        Progress { tree: Some(Arc::new(show)), ..self }
    }

    /// Drops every report.
    #[must_use]
    pub fn ignore() -> Progress {
        Progress::new(|_, _| ())
    }

    /// Reports what the call does now.
    pub fn title(&self, title: impl Into<String>) {
        (self.report)(Some(title.into()), Value::Null);
    }

    /// Reports what the call does now in words of ours, which the tree shows too: nothing of the conversation may be in them.
    #[cfg(all(unix, feature = "tools"))]
    pub(crate) fn plain_title(&self, title: String) {
        if let Some(show) = &self.tree {
            show(title.clone());
        }
        self.title(title);
    }

    /// Reports how far the call is.
    pub fn metadata(&self, metadata: Value) {
        (self.report)(None, metadata);
    }
}

/// Runs blocking code on a thread for such code, so that it never holds up a session. No call waits for the code of another one.
///
/// A panic of the code continues in the task that awaits the future; the worker of a call turns it into an error result. Dropping
/// the future abandons the thread, which serves other calls when its code has ended: check [`ToolContext::is_cancelled`] in
/// loops. Code that hangs keeps its thread. With 64 threads that still hang a second after their calls were dropped, the result
/// is an error.
pub fn blocking<F>(context: &ToolContext, work: F) -> impl Future<Output = ToolResult> + Send + use<F>
where
    F: FnOnce(&ToolContext) -> ToolResult + Send + 'static,
{
    let context = context.clone();
    async move {
        let threads = context.threads.clone();
        let run = threads.run(move || work(&context)).await;
        run.unwrap_or_else(|error| ToolResult::error(format!("failed to run the tool on a thread: {error}")))
    }
}
