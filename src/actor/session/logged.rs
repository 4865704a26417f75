//! What a session tells the log: one line for each milestone. Failures are warnings; turns, requests, calls and the like are `info`;
//! what was decided in a step is `debug`.
//!
//! The lines are made of recorded entries, so what a tape was told is logged once, however often its session starts again. They have
//! ids, names, kinds and figures (`actor/milestone.rs` keeps texts out).

use tracing::{debug, info, warn};

use crate::{
    actor::{counters::word, milestone::Milestone},
    kernel::{Entry, Outcome},
    words::ids::SessionId,
};

/// Logs one milestone of an entry that was just recorded. `ms` is how long that took which the entry ends, if that is known.
pub(super) fn log(session: &SessionId, milestone: &Milestone<'_>, entry: &Entry, ms: Option<u64>) {
    let Entry { seq, turn, step, ticket, .. } = entry;
    let (turn, ticket) = (turn.map(|turn| turn.0), ticket.map(|ticket| ticket.0));
    match milestone {
        Milestone::TurnBegan => info!(%session, %seq, turn, "a turn began"),
        Milestone::TurnOver { outcome, .. } => {
            let reason = word(outcome);
            match is_failure(outcome) {
                true => warn!(%session, %seq, turn, step, reason, ms, "a turn failed"),
                false => info!(%session, %seq, turn, step, outcome = reason, ms, "a turn is over"),
            }
        }
        Milestone::Asked { model, attempt, used } => {
            debug!(%session, %seq, turn, step, %model, attempt, tokens = used, "a model request is made");
        }
        Milestone::Answered { model, finish, interrupted } => {
            let model = model.map(tracing::field::display);
            info!(%session, %seq, turn, step, ticket, model, ?finish, interrupted, ms, "a model request was answered");
        }
        Milestone::RequestFailed { model, kind, status } => {
            let model = model.map(tracing::field::display);
            warn!(%session, %seq, turn, step, ticket, model, reason = ?kind, status, ms, "a model request failed");
        }
        Milestone::RetryWaits { attempt, .. } => {
            info!(%session, %seq, turn, step, attempt, "a model request will be made again");
        }
        Milestone::CallBegan { tool, attempt } => {
            debug!(%session, %seq, turn, step, ticket, tool, attempt, "a call begins to run");
        }
        Milestone::CallOver { tool, panicked: true, .. } => {
            warn!(%session, %seq, turn, step, ticket, tool, reason = "panic", ms, "a tool panicked");
        }
        Milestone::CallOver { tool, judged, is_error, bytes, .. } => {
            info!(%session, %seq, turn, step, ticket, tool, verdict = ?judged, failed = is_error, bytes, ms, "a call is over");
        }
        Milestone::PersonAsked => info!(%session, %seq, turn, step, "a person is asked"),
        Milestone::TaskBegan { child } => info!(%session, %seq, turn, step, %child, "a task was given to a child"),
        Milestone::TaskOver { failed } => info!(%session, %seq, turn, step, ticket, failed, ms, "a task is over"),
        Milestone::Compacted => info!(%session, %seq, turn, step, "the older conversation was compacted"),
        Milestone::CompactionFailed => warn!(%session, %seq, turn, step, "a compaction failed"),
        Milestone::Recovered { n, resumed } => {
            warn!(%session, %seq, turn, step, n, resumed, "a session was rebuilt from its tape");
        }
    }
}

/// Whether an outcome is a failure. What a person or a limit ended did not fail.
fn is_failure(outcome: &Outcome) -> bool {
    matches!(
        outcome,
        Outcome::Failed { .. }
            | Outcome::Refused
            | Outcome::BadAnswer { .. }
            | Outcome::DoomLoop { .. }
            | Outcome::RecoveryLimit { .. }
    )
}
