//! Makes the [`ToolContext`] of a running call: what its session says of it, and the ways back to the session (progress,
//! questions to people, changes of mode, the session's handle).
//!
//! A tool may keep its context for longer than the call. So a change must keep that nothing in a context owns the runtime or the
//! call's node. The runtime owns the tool, so neither would ever be freed; and a node that is kept would stay in the tree.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use serde_json::Value;
use tokio_util::sync::CancellationToken;

#[cfg(all(unix, feature = "tools"))]
use crate::actor::modes;
use crate::{
    actor::{
        questions::{self, Waited},
        trace_link::Traced,
        worker_context::WorkerContext,
    },
    event::EventKind,
    hook::HookCall,
    supervisor::WorkerNode,
    tool::{CallOutputs, ChangeLog, Held, May, NamedOutput, OutputStore, Progress, ToolContext},
    words::depth,
};

/// The parts of a call's [`ToolContext`] that come from its session: from the state, and the paths of its folders.
pub(crate) struct CallContext {
    pub(crate) key: String,
    /// Which run of the call it is, from 1.
    pub(crate) attempt: u32,
    /// The hooks that have seen the call, in their order.
    pub(crate) passed: Vec<String>,
    pub(crate) workspace: Arc<PathBuf>,
    pub(crate) spill: Option<Arc<PathBuf>>,
    /// The store that keeps large outputs itself, and those of its outputs that the call names.
    pub(crate) outputs: Option<(Arc<dyn OutputStore>, BTreeSet<NamedOutput>)>,
    /// The folder for the contents that files had before calls changed them.
    pub(crate) files: Option<Arc<PathBuf>>,
    pub(crate) external: Arc<[PathBuf]>,
    pub(crate) held: Option<Arc<Held>>,
    pub(crate) may: May,
    #[cfg(all(unix, feature = "tools"))]
    pub(crate) sandbox: Option<Arc<crate::words::sandbox::SandboxTerms>>,
    #[cfg(all(unix, feature = "tools"))]
    pub(crate) plan_file: Option<String>,
    #[cfg(all(unix, feature = "tools"))]
    pub(crate) todos: Arc<[crate::tool::Todo]>,
}

impl CallContext {
    pub(super) fn of(
        self,
        post: &WorkerContext,
        call: &HookCall,
        cancel: CancellationToken,
        node: &Arc<WorkerNode>,
        changes: ChangeLog,
        waited: &Waited,
    ) -> ToolContext {
        let outputs = self
            .outputs
            .map(|(store, named)| Arc::new(CallOutputs::new(store, post.slot.id.clone(), named, cancel.clone())));
        ToolContext {
            session: post.slot.id.clone(),
            call: call.call.clone(),
            ticket: post.ticket,
            key: self.key,
            workspace: self.workspace,
            spill: self.spill,
            outputs,
            external: self.external,
            held: self.held,
            may: self.may,
            cancel,
            progress: progress(post, node),
            changes,
            #[cfg(all(unix, feature = "tools"))]
            processes: post.shared.processes.clone(),
            #[cfg(all(unix, feature = "tools"))]
            sandbox: self.sandbox,
            asks: questions::asks(&post.slot, post.ticket, self.attempt, waited),
            #[cfg(all(unix, feature = "tools"))]
            modes: modes::modes(&post.slot, self.plan_file),
            #[cfg(all(unix, feature = "tools"))]
            todos: self.todos,
            filters: post.shared.hooks.filters(),
            trace: post.traced.context.clone(),
            threads: post.shared.threads.clone(),
            session_ref: post.session_ref(),
        }
    }
}

/// Reports to the node and the listeners of a call. A tool may keep them: they own neither the node nor the runtime.
fn progress(post: &WorkerContext, node: &Arc<WorkerNode>) -> Progress {
    let WorkerContext { incarnation, ticket, turn, step, .. } = *post;
    let (slot, node, counter) = (post.slot.clone(), Arc::downgrade(node), AtomicU32::new(0));
    let (filters, in_tree) = (post.shared.hooks.filters(), node.clone());
    let report = Progress::new(move |title: Option<String>, mut metadata: Value| {
        if depth::bound(&mut metadata).is_err() {
            metadata = depth::left_out();
        }
        // The node goes with the end of the call.
        let (Some(node), Some(shared)) = (node.upgrade(), slot.shared()) else { return };
        node.node().lives();
        let (title, metadata) = (title.map(|title| filters.text(title)), filters.json(metadata));
        let sub = counter.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        if let Some(title) = title.as_ref().filter(|_| shared.tree_shows_arguments) {
            node.doing(title.clone());
        }
        let post =
            WorkerContext { shared, slot: slot.clone(), incarnation, ticket, turn, step, traced: Traced::default() };
        post.show(sub, EventKind::CallProgress { ticket, title, metadata });
    });
    report.with_tree(move |words| {
        if let Some(node) = in_tree.upgrade() {
            node.node().lives();
            node.doing(words);
        }
    })
}
