//! What directives and signals are about: their tickets, and who waits for an answer.

use tamtam::{
    Seq,
    session::{Directive, Signal},
};

/// The ticket that a directive is about; a task has a watch of its own.
pub(super) fn ticket_of(directive: &Directive) -> Option<Seq> {
    match directive {
        Directive::StartRequest(ticket)
        | Directive::StartCall(ticket)
        | Directive::CutRequest(ticket)
        | Directive::StopCall(ticket)
        | Directive::StartCompaction(ticket)
        | Directive::StopCompaction(ticket) => Some(*ticket),
        Directive::StartTask(_) | Directive::StopTask(_) | Directive::PartTask(_) | Directive::Reply(..) => None,
    }
}

/// The summary that it is about.
pub(super) fn summary_of(directive: &Directive) -> Option<Seq> {
    match directive {
        Directive::StartCompaction(ticket) | Directive::StopCompaction(ticket) => Some(*ticket),
        _ => None,
    }
}

/// The summary that it gives up.
pub(super) fn given_up(directive: &Directive) -> Option<Seq> {
    match directive {
        Directive::StopCompaction(ticket) => Some(*ticket),
        _ => None,
    }
}

/// Whether somebody waits for the answer to a signal.
pub(super) fn has_reply(signal: &Signal) -> bool {
    matches!(
        signal,
        Signal::Send { .. }
            | Signal::Edit { .. }
            | Signal::Withdraw { .. }
            | Signal::Answer { .. }
            | Signal::Abort { .. }
            | Signal::GoOn { .. }
            | Signal::Pause { .. }
            | Signal::Resume { .. }
            | Signal::Configure { .. }
            | Signal::Compact { .. }
            | Signal::Restored { .. }
            | Signal::UndoCompaction { .. }
            | Signal::Written { .. }
            | Signal::SumUpBranch { .. }
            | Signal::BranchFailed { .. }
            | Signal::LeaveBranch { .. }
            | Signal::Pin { .. }
            | Signal::Unpin { .. }
            | Signal::RollBack { .. }
            | Signal::Merge { .. }
            | Signal::Handoff { .. }
            | Signal::Spawn { .. }
            | Signal::Adopt { .. }
            | Signal::End { .. }
            | Signal::StopTask { .. }
            | Signal::Orphan { .. }
            | Signal::Adopted { .. }
    )
}
