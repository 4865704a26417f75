//! The form in which events and answers show money: millionths of a US dollar as integers, like every `cost`.
//!
//! Values hold picodollars, because sums must be exact, and a tape keeps them so. A program that reads events meets one unit. Each
//! module here is the `with` of a field that holds money; what it reads back is exact to the millionth, and is written as it was
//! read. A field of an event that holds money in picodollars must be written by a module of this file.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{
    kernel::{Breach, Down, DownReason, Grant, Limits, Link, Outcome, ShownLimits, ShownSpent, Spent, Tie},
    words::ids::{Seq, SessionId},
    words::is_default,
    words::message::ModelRef,
    words::usage::{Cost, ShownCost, Usage},
};

/// A module for `serde(with)`: a value is written as `$shown`, and read as one.
macro_rules! shown_as {
    ($(#[$doc:meta])* $module:ident: $value:ty => |$given:ident| $shown:expr, |$read:ident: $form:ty| $back:expr) => {
        $(#[$doc])*
        pub(crate) mod $module {
            use super::*;

            pub(crate) fn serialize<S: Serializer>($given: &$value, serializer: S) -> Result<S::Ok, S::Error> {
                $shown.serialize(serializer)
            }

            pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<$value, D::Error> {
                let $read = <$form>::deserialize(deserializer)?;
                Ok($back)
            }
        }
    };
}

shown_as!(limits: Limits => |given| given.shown(), |read: ShownLimits| read.into());
shown_as!(spent: Spent => |given| given.shown(), |read: ShownSpent| read.into());
shown_as!(breach: Breach => |given| given.shown(), |read: Breach| Breach::of_shown(read));
shown_as!(outcome: Outcome => |given| given.shown(), |read: Outcome| match read {
    Outcome::Budget { breach, no_switch } => Outcome::Budget { breach: Breach::of_shown(breach), no_switch },
    other => other,
});
shown_as!(cost: Cost => |given| given.shown(), |read: ShownCost| read.into());
shown_as!(
    /// For a flattened field: a cost that is not there leaves nothing.
    maybe_cost: Option<Cost> => |given| given.map(|cost| cost.shown()), |read: Option<ShownCost>| read.map(Cost::from)
);
shown_as!(
    /// A model as the text that names it.
    maybe_model: Option<ModelRef> => |given| given.as_ref().map(ToString::to_string), |read: Option<String>| {
        read.map(|text| text.parse().map_err(serde::de::Error::custom)).transpose()?
    }
);
shown_as!(
    /// A person's answer.
    grant: Option<Grant> => |given| given.as_ref().map(ShownGrant::of), |read: Option<ShownGrant>| read.map(ShownGrant::back)
);
shown_as!(tie: Tie => |given| ShownTie::of(given), |read: ShownTie| read.back());
shown_as!(down: Arc<Down> => |given| ShownDown::of(given), |read: ShownDown| Arc::new(read.back()));

#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum ShownRaise {
    Raise(ShownLimits),
}

#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(crate) enum ShownGrant {
    Raise(ShownRaise),
    Other(Grant),
}

impl ShownGrant {
    fn of(grant: &Grant) -> ShownGrant {
        match grant {
            Grant::Raise(by) => ShownGrant::Raise(ShownRaise::Raise(by.shown())),
            other => ShownGrant::Other(other.clone()),
        }
    }

    fn back(self) -> Grant {
        match self {
            ShownGrant::Raise(ShownRaise::Raise(by)) => Grant::Raise(by.into()),
            ShownGrant::Other(grant) => grant,
        }
    }
}

/// A new tie between parent and child.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct ShownTie {
    parent: SessionId,
    ticket: Seq,
    link: Link,
    depth: u32,
    #[serde(default, skip_serializing_if = "is_default")]
    grant: ShownLimits,
}

impl ShownTie {
    fn of(Tie { parent, ticket, link, depth, grant }: &Tie) -> ShownTie {
        ShownTie { parent: parent.clone(), ticket: *ticket, link: *link, depth: *depth, grant: grant.shown() }
    }

    fn back(self) -> Tie {
        let ShownTie { parent, ticket, link, depth, grant } = self;
        Tie { parent, ticket, link, depth, grant: grant.into() }
    }
}

/// The end of a task.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct ShownDown {
    #[serde(flatten)]
    reason: DownReason,
    text: String,
    steps: u32,
    usage: Usage,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    spent: Option<ShownSpent>,
    #[serde(default, skip_serializing_if = "is_default")]
    lent: ShownLimits,
}

impl ShownDown {
    fn of(down: &Down) -> ShownDown {
        let Down { reason, text, steps, usage, spent, lent } = down;
        let reason = match reason {
            DownReason::Budget { breach } => DownReason::Budget { breach: breach.shown() },
            other => other.clone(),
        };
        let (spent, lent) = (spent.map(|spent| spent.shown()), lent.shown());
        ShownDown { reason, text: text.to_string(), steps: *steps, usage: *usage, spent, lent }
    }

    fn back(self) -> Down {
        let ShownDown { reason, text, steps, usage, spent, lent } = self;
        let reason = match reason {
            DownReason::Budget { breach } => DownReason::Budget { breach: Breach::of_shown(breach) },
            other => other,
        };
        Down { reason, text: text.into(), steps, usage, spent: spent.map(Spent::from), lent: lent.into() }
    }
}
