//! The spec of a supervisor: its children, and the rules by which it restarts and stops them.
//!
//! Everything here is a value: a spec is checked, kept, read again for each incarnation (each start) of the supervisor, and
//! starts nothing. Most words are OTP's and most defaults Elixir's, and hosts rely on both; parking, backoff and the group budget
//! are our own.
//!
//! A change must keep this: of all settings, the planner (the part of a supervisor that decides) reads `Rules` and `Policy` only.
//! So a setting that decides about restarts must be in one of them. A new setting that contradicts another must be refused in
//! `spec/check.rs`. Some settings are allowed where they have no effect, such as `max_children` of an ordered supervisor, or a
//! child's own intensity where nothing parks.

use std::time::Duration;

use crate::supervisor::{backoff::Backoff, intensity::Intensity};

pub(crate) use crate::supervisor::spec::child::Policy;
pub use crate::supervisor::spec::{
    check::BadSpec,
    child::ChildSpec,
    id::ChildId,
    words::{AutoShutdown, ChildKind, OnExhausted, Restart, Shutdown, Strategy},
};

mod check;
mod child;
mod id;
mod words;

/// The kind of a supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Children have an order: started one after the other, stopped in reverse.
    Ordered(Strategy),
    /// Children come and go, without an order; they are started and stopped side by side.
    Dynamic { max_children: Option<usize> },
}

/// The part of a supervisor's spec that decides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) kind: Kind,
    /// The restart budget of the supervisor; under [`OnExhausted::Park`] the budget of each child without its own.
    pub(crate) intensity: Intensity,
    pub(crate) on_exhausted: OnExhausted,
    /// Under [`OnExhausted::Park`]: if more different children than this restart, the cause is a common one, and the supervisor
    /// ends.
    pub(crate) group: Option<Intensity>,
    /// Under [`OnExhausted::Park`]: after this time a child that was parked after crashes starts again.
    pub(crate) park_for: Option<Duration>,
    pub(crate) auto_shutdown: AutoShutdown,
    pub(crate) backoff: Option<Backoff>,
}

/// A supervisor: its rules and the children it starts with.
#[derive(Clone, Debug)]
pub struct SupervisorSpec {
    pub(crate) id: ChildId,
    pub(crate) rules: Rules,
    pub(crate) children: Vec<ChildSpec>,
}

impl SupervisorSpec {
    /// A supervisor whose children have an order: they start one after the other and stop in reverse.
    #[must_use]
    pub fn new(id: impl Into<ChildId>, strategy: Strategy) -> SupervisorSpec {
        SupervisorSpec::of(id.into(), Kind::Ordered(strategy))
    }

    /// A supervisor whose children come and go while it runs, each on its own.
    #[must_use]
    pub fn dynamic(id: impl Into<ChildId>) -> SupervisorSpec {
        SupervisorSpec::of(id.into(), Kind::Dynamic { max_children: None })
    }

    fn of(id: ChildId, kind: Kind) -> SupervisorSpec {
        let rules = Rules {
            kind,
            intensity: Intensity::default(),
            on_exhausted: OnExhausted::default(),
            group: None,
            park_for: None,
            auto_shutdown: AutoShutdown::default(),
            backoff: None,
        };
        SupervisorSpec { id, rules, children: Vec::new() }
    }

    /// How many restarts are allowed; 3 in 5 s by default. Under [`OnExhausted::Park`] this is the budget of each child without
    /// its own ([`ChildSpec::intensity`]).
    #[must_use]
    pub fn intensity(mut self, intensity: Intensity) -> SupervisorSpec {
        self.rules.intensity = intensity;
        self
    }

    /// What happens when there were too many restarts; the supervisor ends by default.
    #[must_use]
    pub fn on_exhausted(mut self, on_exhausted: OnExhausted) -> SupervisorSpec {
        self.rules.on_exhausted = on_exhausted;
        self
    }

    /// Under [`OnExhausted::Park`]: when more than so many *different* children restart, the cause is a common one and
    /// the supervisor ends. Off by default.
    #[must_use]
    pub fn group_intensity(mut self, intensity: Intensity) -> SupervisorSpec {
        self.rules.group = Some(intensity);
        self
    }

    /// Under [`OnExhausted::Park`]: a child that was parked after crashes starts again after this long, with its crashes
    /// forgotten. A child that was parked by hand does not. Off by default: a parked child waits until it is unparked.
    #[must_use]
    pub fn park_for(mut self, park_for: Duration) -> SupervisorSpec {
        self.rules.park_for = Some(park_for);
        self
    }

    /// The wait before each restart after a crash, for children without their own setting; no wait by default.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> SupervisorSpec {
        self.rules.backoff = Some(backoff);
        self
    }

    /// Whether it ends with its significant children; it does not by default.
    #[must_use]
    pub fn auto_shutdown(mut self, auto_shutdown: AutoShutdown) -> SupervisorSpec {
        self.rules.auto_shutdown = auto_shutdown;
        self
    }

    /// How many children a dynamic supervisor may have when it takes a new one, with that one; those that wait for a restart or are
    /// parked count, too. The children of the spec itself are all started. It has no effect on an ordered supervisor.
    #[must_use]
    pub fn max_children(mut self, most: usize) -> SupervisorSpec {
        if let Kind::Dynamic { max_children } = &mut self.rules.kind {
            *max_children = Some(most);
        }
        self
    }

    /// One more child that it starts with.
    #[must_use]
    pub fn child(mut self, child: ChildSpec) -> SupervisorSpec {
        self.children.push(child);
        self
    }

    /// Checks whether a supervisor can run by this spec. Each error names what is wrong.
    pub fn check(&self) -> Result<(), BadSpec> {
        self.rules.check()?;
        self.rules.check_child(&self.id, &Policy::default())?;
        let mut ids = std::collections::HashSet::new();
        for child in &self.children {
            if !ids.insert(&child.id) {
                return Err(BadSpec::DuplicateId { id: child.id.clone() });
            }
            self.rules.check_child(&child.id, &child.policy)?;
        }
        Ok(())
    }
}
