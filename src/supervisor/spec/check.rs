//! The checks of rules and of single children; [`BadSpec`] says why one is refused. Checks across children are in `spec.rs`,
//! those against the running supervisor in `planner/asked.rs` (a child is added) and `planner/happened.rs` (the rules change).
//!
//! Functions of values. A spec is checked before its supervisor starts, a child when it is added, and new rules before any of them
//! is taken. The planner (the part of a supervisor that decides) relies on that, so a new setting that contradicts another must be
//! refused here.

use crate::supervisor::spec::{AutoShutdown, ChildId, Kind, OnExhausted, Policy, Restart, Rules};

impl Rules {
    pub(crate) fn check(&self) -> Result<(), BadSpec> {
        if self.intensity.period.is_zero() || self.group.is_some_and(|group| group.period.is_zero()) {
            return Err(BadSpec::ZeroPeriod);
        }
        let dynamic = matches!(self.kind, Kind::Dynamic { .. });
        if dynamic && self.auto_shutdown != AutoShutdown::Never {
            return Err(BadSpec::AutoShutdownOfDynamic);
        }
        if !dynamic && self.on_exhausted == OnExhausted::Park {
            return Err(BadSpec::ParkInOrdered);
        }
        if self.on_exhausted != OnExhausted::Park && (self.group.is_some() || self.park_for.is_some()) {
            return Err(BadSpec::NothingParks);
        }
        Ok(())
    }

    /// Whether a child may live under these rules.
    pub(crate) fn check_child(&self, id: &ChildId, policy: &Policy) -> Result<(), BadSpec> {
        if id.as_str().is_empty() || id.as_str().chars().any(|c| c == '/' || c.is_control()) {
            return Err(BadSpec::BadId { id: id.clone() });
        }
        if policy.intensity.is_some_and(|own| own.period.is_zero()) {
            return Err(BadSpec::ZeroPeriod);
        }
        if policy.significant && policy.restart == Restart::Permanent {
            return Err(BadSpec::SignificantPermanent { id: id.clone() });
        }
        if policy.significant && self.auto_shutdown == AutoShutdown::Never {
            return Err(BadSpec::SignificantWithoutAutoShutdown { id: id.clone() });
        }
        Ok(())
    }
}

/// Why a spec, a new child or new rules were refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadSpec {
    /// A window of no length.
    #[error("the period of an intensity is zero")]
    ZeroPeriod,
    /// An id that cannot be part of a path of the tree.
    #[error("the id {id:?} is empty, or has a slash or a control character in it", id = id.as_str())]
    BadId {
        /// The id.
        id: ChildId,
    },
    /// Two children with one id.
    #[error("two children have the id {id:?}", id = id.as_str())]
    DuplicateId {
        /// The id that occurs twice.
        id: ChildId,
    },
    /// A permanent child never ends permanently, so nothing can follow from its end.
    #[error("the permanent child {id:?} cannot be significant", id = id.as_str())]
    SignificantPermanent {
        /// The child.
        id: ChildId,
    },
    /// A significant child under a supervisor that does not end with its significant children.
    #[error("the child {id:?} is significant, but its supervisor never shuts down automatically", id = id.as_str())]
    SignificantWithoutAutoShutdown {
        /// The child.
        id: ChildId,
    },
    /// A dynamic supervisor with an auto-shutdown: the children of a dynamic supervisor cannot be significant.
    #[error("a dynamic supervisor cannot shut down with its significant children")]
    AutoShutdownOfDynamic,
    /// A group intensity or a time to unpark, if no child is parked after crashes.
    #[error("a group intensity and a time to unpark apply only if exhausted children are parked")]
    NothingParks,
    /// A live change from ordered to dynamic, or back.
    #[error("an ordered supervisor cannot become a dynamic one, nor a dynamic one an ordered one")]
    KindChanged,
    /// An ordered supervisor set to park children after too many crashes: its children may depend on each other.
    #[error("only a dynamic supervisor can park its children")]
    ParkInOrdered,
}
