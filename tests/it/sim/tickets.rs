//! What directives are about: their tickets.

use tamtam::{Seq, session::Directive};

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
