//! The last things that happened to a node: what it took in hand, and how its life went.
//!
//! A ring of [`EVENTS_KEPT`] entries on each card. It holds kinds and numbers only, so that it can be shown to anybody; what was
//! said is in it only while somebody has asked for that (`Operator::trace_in_full`), and then cut to [`DETAIL_CHARS_MAX`].

use std::{collections::VecDeque, fmt};

use serde::Serialize;
use tokio::time::Instant;

use crate::supervisor::card::millis;

/// How many events a card remembers.
pub(crate) const EVENTS_KEPT: usize = 32;

/// How much of what was said an event keeps, where it keeps any.
const DETAIL_CHARS_MAX: usize = 200;

/// One of the last things that happened to a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Happened {
    /// How long ago, in milliseconds.
    pub ago_ms: u64,
    /// A message that it took in hand, or a change of what it is.
    pub kind: HappenedKind,
    /// The kind of message, or what it became.
    pub what: &'static str,
    /// What it was about, where that has a number: the ticket of a report, the turn of a change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// What was said; only where the node is traced in full.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// What kind of thing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HappenedKind {
    /// It took a message in hand.
    Message,
    /// It became something.
    Change,
}

impl fmt::Display for Happened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kind == HappenedKind::Change {
            f.write_str("→ ")?;
        }
        f.write_str(self.what)?;
        if let Some(number) = self.number {
            write!(f, " {number}")?;
        }
        if let Some(detail) = &self.detail {
            write!(f, " {detail:?}")?;
        }
        Ok(())
    }
}

/// The ring of a card.
#[derive(Debug, Default)]
pub(crate) struct Ring(VecDeque<Kept>);

#[derive(Debug)]
struct Kept {
    at: Instant,
    kind: HappenedKind,
    what: &'static str,
    number: Option<u64>,
    detail: Option<Box<str>>,
}

impl Ring {
    pub(crate) fn message(&mut self, at: Instant, what: &'static str, number: Option<u64>, detail: Option<String>) {
        let detail = detail.map(|text| text.chars().take(DETAIL_CHARS_MAX).collect::<String>().into_boxed_str());
        self.push(Kept { at, kind: HappenedKind::Message, what, number, detail });
    }

    pub(crate) fn change(&mut self, what: &'static str, number: Option<u64>) {
        self.push(Kept { at: Instant::now(), kind: HappenedKind::Change, what, number, detail: None });
    }

    fn push(&mut self, kept: Kept) {
        if self.0.len() == EVENTS_KEPT {
            self.0.pop_front();
        }
        self.0.push_back(kept);
    }

    /// What was said is forgotten; that something was said is not.
    pub(crate) fn redact(&mut self) {
        self.0.iter_mut().for_each(|kept| kept.detail = None);
    }

    /// The newest, oldest first.
    pub(crate) fn last(&self, most: usize) -> Vec<Happened> {
        let newest = self.0.iter().skip(self.0.len().saturating_sub(most));
        let shown = newest.map(|kept| Happened {
            ago_ms: millis(kept.at.elapsed()),
            kind: kept.kind,
            what: kept.what,
            number: kept.number,
            detail: kept.detail.as_deref().map(str::to_owned),
        });
        shown.collect()
    }
}
