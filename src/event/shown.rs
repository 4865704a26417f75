//! The form in which events show money: millionths of a US dollar as integers, like every `cost`.
//!
//! Values hold picodollars, because sums must be exact, and a tape keeps them so. A program that reads events meets one unit. A
//! field of an event that holds money in picodollars must be written by a function of this file.

use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::{
    kernel::{Breach, Down, DownReason, Grant, Limits, Link, Outcome, ShownLimits, ShownSpent, Tie},
    words::ids::{Seq, SessionId},
    words::is_default,
    words::usage::Usage,
};

pub(super) fn limits<S: Serializer>(limits: &Limits, serializer: S) -> Result<S::Ok, S::Error> {
    limits.shown().serialize(serializer)
}

pub(super) fn breach<S: Serializer>(breach: &Breach, serializer: S) -> Result<S::Ok, S::Error> {
    breach.shown().serialize(serializer)
}

pub(super) fn outcome<S: Serializer>(outcome: &Outcome, serializer: S) -> Result<S::Ok, S::Error> {
    outcome.shown().serialize(serializer)
}

/// A person's answer.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum ShownRaise {
    Raise(ShownLimits),
}

pub(super) fn grant<S: Serializer>(grant: &Option<Grant>, serializer: S) -> Result<S::Ok, S::Error> {
    match grant {
        Some(Grant::Raise(by)) => ShownRaise::Raise(by.shown()).serialize(serializer),
        other => other.serialize(serializer),
    }
}

/// A new tie between parent and child.
#[derive(Serialize)]
struct ShownTie<'a> {
    parent: &'a SessionId,
    ticket: Seq,
    link: Link,
    depth: u32,
    #[serde(skip_serializing_if = "is_default")]
    grant: ShownLimits,
}

pub(super) fn tie<S: Serializer>(tie: &Tie, serializer: S) -> Result<S::Ok, S::Error> {
    let Tie { parent, ticket, link, depth, grant } = tie;
    let (ticket, link, depth, grant) = (*ticket, *link, *depth, grant.shown());
    ShownTie { parent, ticket, link, depth, grant }.serialize(serializer)
}

/// The end of a task.
#[derive(Serialize)]
struct ShownDown<'a> {
    #[serde(flatten)]
    reason: DownReason,
    text: &'a str,
    steps: u32,
    usage: Usage,
    #[serde(skip_serializing_if = "Option::is_none")]
    spent: Option<ShownSpent>,
    #[serde(skip_serializing_if = "is_default")]
    lent: ShownLimits,
}

pub(super) fn down<S: Serializer>(down: &Arc<Down>, serializer: S) -> Result<S::Ok, S::Error> {
    let Down { reason, text, steps, usage, spent, lent } = &**down;
    let reason = match reason {
        DownReason::Budget { breach } => DownReason::Budget { breach: breach.shown() },
        other => other.clone(),
    };
    let (spent, lent) = (spent.map(|spent| spent.shown()), lent.shown());
    ShownDown { reason, text, steps: *steps, usage: *usage, spent, lent }.serialize(serializer)
}
