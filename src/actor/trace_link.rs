//! The joint between the runtime's spans and a host's tracing system ([`TraceLink`]).

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Weak,
};

use tracing::Span;

use crate::{
    supervisor::NodeState,
    words::{ids::Seq, trace::TraceContext},
};

/// Joins the runtime's spans with the traces of a host's tracing system. The library itself knows only [`tracing`](Span).
///
/// Both methods are called on the runtime's threads, for each span that is enabled: they must not wait, and must not panic. A panic
/// is caught, and the span goes without a context.
pub trait TraceLink: Send + Sync + 'static {
    /// A turn's span was made, and its message names the trace that it belongs to. Called before anything happens in the span.
    fn continue_from(&self, span: &Span, context: &TraceContext);

    /// The context of a span, which goes on with a request, a call or a task that is made in it; `None` where the span is in no
    /// trace.
    fn context_of(&self, span: &Span) -> Option<TraceContext>;
}

/// The span of a turn, which outlives the session's actor.
#[derive(Clone, Debug)]
pub(crate) struct TurnSpan {
    pub(crate) turn: Seq,
    pub(crate) span: Span,
}

/// The span that a piece of work runs in, the trace that it carries on, and its node.
#[derive(Clone)]
pub(crate) struct Traced {
    pub(crate) span: Span,
    pub(crate) context: Option<TraceContext>,
    /// The node of the work, which goes with the work.
    pub(crate) node: Weak<NodeState>,
}

impl Default for Traced {
    fn default() -> Traced {
        Traced { span: Span::none(), context: None, node: Weak::new() }
    }
}

/// The context of a span, where there is a link and the span is enabled. The link is code of the host: a panic is no context.
pub(crate) fn context_of(link: Option<&dyn TraceLink>, span: &Span) -> Option<TraceContext> {
    let link = link.filter(|_| !span.is_disabled())?;
    catch_unwind(AssertUnwindSafe(|| link.context_of(span))).ok().flatten()
}

/// The context of the span that the caller runs in.
pub(crate) fn here(link: Option<&dyn TraceLink>) -> Option<TraceContext> {
    link.and_then(|_| context_of(link, &Span::current()))
}
