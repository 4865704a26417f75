//! The spans of an awake session: turn → step → request, call or task. Made and closed as milestones are recorded, so that a span
//! says what the tape says (decision 0051). The names of fields are OpenTelemetry's for generative AI where it has one; all of them
//! stand in this file.
//!
//! A turn is the root of its trace: a session lives for months. Its span is kept in the slot, and so outlives the actor. A change
//! must keep out every text of a conversation.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use tracing::{Span, field::Empty};

use crate::{
    actor::{
        counters,
        milestone::Milestone,
        slot::Slot,
        trace_link::{TraceLink, Traced, TurnSpan, context_of},
    },
    kernel::{Entry, Open, OpenTable, State},
    model::ErrorKind,
    words::{
        ids::{Millis, Seq},
        message::ModelRef,
        usage::Usage,
    },
};

/// What is under way: its span, and since when.
struct Opened {
    span: Span,
    since: Option<Millis>,
}

/// The spans of one incarnation.
pub(super) struct Spans {
    slot: Arc<Slot>,
    link: Option<Arc<dyn TraceLink>>,
    turn: Option<Arc<TurnSpan>>,
    step: Option<(u32, Span)>,
    open: BTreeMap<Seq, Opened>,
}

impl Spans {
    /// The spans of a new incarnation: that of the turn which an earlier one began, if the session has been awake since.
    pub(super) fn new(slot: Arc<Slot>, link: Option<Arc<dyn TraceLink>>) -> Spans {
        let turn = slot.kept_span();
        Spans { slot, link, turn, step: None, open: BTreeMap::new() }
    }

    /// Follows one entry: opens and closes spans. `after` is the state after the whole decision. Returns how long that took which the
    /// entry ends, in milliseconds, where this incarnation saw its begin.
    pub(super) fn follow(&mut self, milestone: &Milestone<'_>, entry: &Entry, after: &State) -> Option<u64> {
        match milestone {
            Milestone::TurnBegan => {
                self.turn_span(after, entry.turn);
                None
            }
            Milestone::Asked { model, attempt, .. } => {
                let step = self.step_span(after, entry.turn, entry.step.unwrap_or_default());
                let span = request_span(&step, self.slot.id.as_str(), entry.seq, model, *attempt);
                self.open(entry.seq, span, entry.time)
            }
            Milestone::CallBegan { tool, attempt } => {
                let ticket = entry.ticket?;
                let step = self.step_span(after, entry.turn, entry.step.unwrap_or_default());
                self.open(ticket, call_span(&step, self.slot.id.as_str(), ticket, tool, *attempt), entry.time)
            }
            Milestone::TaskBegan { child } => {
                let step = self.step_span(after, entry.turn, entry.step.unwrap_or_default());
                self.open(entry.seq, task_span(&step, self.slot.id.as_str(), entry.seq, child.as_str()), entry.time)
            }
            Milestone::Answered { interrupted, .. } => self.close(entry, |span| {
                span.record("tamtam.interrupted", *interrupted);
            }),
            Milestone::RequestFailed { kind, .. } => self.close(entry, |span| failed(span, error_type(*kind))),
            Milestone::CallOver { judged, is_error, .. } => self.close(entry, |span| {
                span.record("tamtam.verdict", tracing::field::debug(judged));
                if *is_error {
                    failed(span, "tool_error");
                }
            }),
            Milestone::TaskOver { failed: is_failed } => self.close(entry, |span| {
                if *is_failed {
                    failed(span, "task_failed");
                }
            }),
            Milestone::TurnOver { outcome, began } => {
                self.turn_over(counters::word(outcome), entry, after);
                began.map(|began| entry.time.0.saturating_sub(began.0))
            }
            Milestone::Recovered { n, .. } => {
                self.turn_span(after, entry.turn).record("tamtam.recoveries", i64::from(*n));
                None
            }
            _ => None,
        }
    }

    /// Adds what a request used to its span. Called before the span is closed.
    pub(super) fn used(&self, ticket: Seq, usage: &Usage) {
        let Some(Opened { span, .. }) = self.open.get(&ticket) else { return };
        record_usage(span, usage);
    }

    /// The span that the work of an open ticket runs in, and the trace that it carries on. Also for a ticket that an earlier
    /// incarnation opened.
    pub(super) fn of(&mut self, ticket: Seq, state: &State) -> Traced {
        if !self.open.contains_key(&ticket) {
            let turn = state.turn.as_ref();
            let step = self.step_span(state, turn.map(|turn| turn.id), turn.map_or(0, |turn| turn.step));
            let id = self.slot.id.as_str();
            let span = match state.open.get(&ticket) {
                Some(Open::Request(open)) => request_span(&step, id, ticket, &open.model, open.attempt),
                Some(Open::Call(open)) => call_span(&step, id, ticket, &open.facts.tool, open.attempts),
                Some(Open::Task(task)) => task_span(&step, id, ticket, task.child.as_str()),
                _ => Span::none(),
            };
            self.open.insert(ticket, Opened { span, since: None });
        }
        let span = self.open.get(&ticket).map_or_else(Span::none, |opened| opened.span.clone());
        let own = context_of(self.link.as_deref(), &span);
        // Without a link, what came in goes on as it is.
        let handed_on = || state.turn.as_ref().and_then(|turn| turn.trace.as_deref().cloned());
        let context = own.or_else(handed_on);
        Traced { span, context, ..Traced::default() }
    }

    /// Closes the spans of tickets that are closed, by whatever entry.
    pub(super) fn keep(&mut self, open: &OpenTable) {
        self.open.retain(|ticket, _| open.contains_key(ticket));
    }

    fn open(&mut self, ticket: Seq, span: Span, now: Millis) -> Option<u64> {
        self.open.insert(ticket, Opened { span, since: Some(now) });
        None
    }

    fn close(&mut self, entry: &Entry, finish: impl FnOnce(&Span)) -> Option<u64> {
        let Opened { span, since } = self.open.remove(&entry.ticket?)?;
        finish(&span);
        since.map(|since| entry.time.0.saturating_sub(since.0))
    }

    /// The span of the turn. There is no turn only for work between turns, such as a task that outlives its turn.
    fn turn_span(&mut self, state: &State, turn: Option<Seq>) -> Span {
        let Some(turn) = turn else { return Span::none() };
        if let Some(kept) = self.turn.as_ref().filter(|kept| kept.turn == turn) {
            return kept.span.clone();
        }
        let span = tracing::info_span!(
            parent: None,
            "turn",
            otel.name = "invoke_agent",
            "gen_ai.operation.name" = "invoke_agent",
            "gen_ai.conversation.id" = self.slot.id.as_str(),
            "gen_ai.agent.name" = state.settings.agent.as_str(),
            "tamtam.turn" = whole(turn.0),
            "tamtam.steps" = Empty,
            "tamtam.outcome" = Empty,
            "tamtam.recoveries" = Empty,
            "gen_ai.usage.input_tokens" = Empty,
            "gen_ai.usage.output_tokens" = Empty,
            "gen_ai.usage.cache_read.input_tokens" = Empty,
            otel.status_code = Empty,
            "error.type" = Empty,
        );
        let trace = state.turn.as_ref().filter(|of| of.id == turn).and_then(|turn| turn.trace.as_ref());
        if let (Some(link), Some(trace), false) = (&self.link, trace, span.is_disabled()) {
            drop(catch_unwind(AssertUnwindSafe(|| link.continue_from(&span, trace))));
        }
        self.step = None;
        if !span.is_disabled() {
            self.turn = Some(Arc::new(TurnSpan { turn, span: span.clone() }));
            self.slot.keep_span(self.turn.clone());
        }
        span
    }

    fn step_span(&mut self, state: &State, turn: Option<Seq>, step: u32) -> Span {
        let turn = self.turn_span(state, turn);
        if let Some((_, span)) = self.step.as_ref().filter(|(of, _)| *of == step) {
            return span.clone();
        }
        let span = tracing::info_span!(parent: &turn, "step", "tamtam.step" = i64::from(step));
        self.step = Some((step, span.clone()));
        span
    }

    fn turn_over(&mut self, outcome: &'static str, entry: &Entry, after: &State) {
        self.step = None;
        let Some(kept) = self.turn.take_if(|kept| Some(kept.turn) == entry.turn) else { return };
        let span = &kept.span;
        self.slot.keep_span(None);
        span.record("tamtam.outcome", outcome);
        if let Some(end) = after.ended.back().filter(|end| Some(end.turn) == entry.turn) {
            span.record("tamtam.steps", i64::from(end.steps));
            record_usage(span, &end.spent.usage);
        }
        if matches!(outcome, "failed" | "refused" | "doom_loop" | "recovery_limit") {
            failed(span, outcome);
        }
    }
}

/// A number as tracing systems take it: theirs have a sign.
fn whole(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn record_usage(span: &Span, usage: &Usage) {
    let read = usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
    span.record("gen_ai.usage.input_tokens", whole(read));
    span.record("gen_ai.usage.output_tokens", whole(usage.output.saturating_add(usage.reasoning)));
    span.record("gen_ai.usage.cache_read.input_tokens", whole(usage.cache_read));
}

fn failed(span: &Span, why: &'static str) {
    span.record("otel.status_code", "ERROR");
    span.record("error.type", why);
}

fn request_span(step: &Span, session: &str, ticket: Seq, model: &ModelRef, attempt: u32) -> Span {
    tracing::info_span!(
        parent: step,
        "request",
        otel.name = "chat",
        otel.kind = "client",
        "gen_ai.operation.name" = "chat",
        "gen_ai.provider.name" = provider_name(&model.provider),
        "gen_ai.request.model" = model.model.as_str(),
        "gen_ai.conversation.id" = session,
        "tamtam.ticket" = whole(ticket.0),
        "tamtam.attempt" = i64::from(attempt),
        "tamtam.interrupted" = Empty,
        "gen_ai.usage.input_tokens" = Empty,
        "gen_ai.usage.output_tokens" = Empty,
        "gen_ai.usage.cache_read.input_tokens" = Empty,
        otel.status_code = Empty,
        "error.type" = Empty,
    )
}

fn call_span(step: &Span, session: &str, ticket: Seq, tool: &str, attempt: u32) -> Span {
    tracing::info_span!(
        parent: step,
        "call",
        otel.name = "execute_tool",
        "gen_ai.operation.name" = "execute_tool",
        "gen_ai.tool.name" = tool,
        "gen_ai.conversation.id" = session,
        "tamtam.ticket" = whole(ticket.0),
        "tamtam.attempt" = i64::from(attempt),
        "tamtam.verdict" = Empty,
        otel.status_code = Empty,
        "error.type" = Empty,
    )
}

fn task_span(step: &Span, session: &str, ticket: Seq, child: &str) -> Span {
    tracing::info_span!(
        parent: step,
        "task",
        "gen_ai.conversation.id" = session,
        "tamtam.ticket" = whole(ticket.0),
        "tamtam.child" = child,
        otel.status_code = Empty,
        "error.type" = Empty,
    )
}

/// OpenTelemetry's name of a provider, where it has one.
fn provider_name(provider: &str) -> &str {
    match provider {
        "gemini" | "google" => "gcp.gemini",
        "moonshot" | "moonshotai" | "kimi" => "moonshot_ai",
        "xai" => "x_ai",
        "mistral" => "mistral_ai",
        own => own,
    }
}

/// A word for each kind of failure.
fn error_type(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Auth => "auth",
        ErrorKind::RateLimited | ErrorKind::RetryAfterTooLong => "rate_limited",
        ErrorKind::Overloaded => "overloaded",
        ErrorKind::Timeout | ErrorKind::Silent => "timeout",
        ErrorKind::Network | ErrorKind::Truncated => "network",
        ErrorKind::Crashed => "crashed",
        ErrorKind::Server => "server",
        _ => "refused",
    }
}
