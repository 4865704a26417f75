//! What a supervisor is told about its children and about itself.
//!
//! Everything here is a value: a spec is checked, kept, cloned for a restart and never runs by itself.
//! The words are OTP's; the defaults are Elixir's.

use std::{borrow::Borrow, fmt, future::Future, sync::Arc, time::Duration};

use serde::Serialize;
use tokio_util::task::TaskTracker;

use crate::{
    actors::shell::{self, Behaviour, StartFn},
    supervisor::{
        backoff::Backoff,
        child::{ChildContext, HostTask},
        driver,
        handle::{Shared, SupervisorHandle},
        intensity::Intensity,
        minder::Workers,
    },
};

/// Which child, among the children of one supervisor.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct ChildId(Arc<str>);

impl ChildId {
    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for ChildId {
    fn from(text: &str) -> ChildId {
        ChildId(text.into())
    }
}

impl From<String> for ChildId {
    fn from(text: String) -> ChildId {
        ChildId(text.into())
    }
}

impl From<&ChildId> for ChildId {
    fn from(id: &ChildId) -> ChildId {
        id.clone()
    }
}

impl Borrow<str> for ChildId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ChildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which of its children a supervisor restarts when one ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// Only the one that ended.
    #[default]
    OneForOne,
    /// All of them: the others are stopped in reverse order, then all are started in order.
    OneForAll,
    /// The one that ended, and those that were started after it.
    RestForOne,
}

/// When a child that ended is started again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Restart {
    /// Always.
    #[default]
    Permanent,
    /// After an abnormal end; being killed is abnormal.
    Transient,
    /// Never; it is forgotten when it ends, also as a bystander of a sibling's restart.
    Temporary,
}

/// How a child is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// At once, without a chance to clean up.
    Kill,
    /// It is asked to stop, and killed when it has not ended after this long.
    After(Duration),
    /// It is asked to stop, and waited for however long it takes.
    Infinity,
}

impl Default for Shutdown {
    /// After 5 s.
    fn default() -> Shutdown {
        Shutdown::After(Duration::from_secs(5))
    }
}

/// What happens when there were too many restarts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnExhausted {
    /// The supervisor stops its children and ends itself; its own parent decides.
    #[default]
    Escalate,
    /// That child is kept stopped until somebody unparks it; its siblings live on. Only for dynamic supervisors.
    Park,
}

/// Whether a supervisor ends when its significant children have ended by themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AutoShutdown {
    /// It does not.
    #[default]
    Never,
    /// It ends with the first of them.
    AnySignificant,
    /// It ends with the last of them.
    AllSignificant,
}

/// What a node of the tree is, for people and for the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildKind {
    /// It has children of its own.
    Supervisor,
    /// It does work.
    Worker,
}

/// The part of a child's spec that decides; the planner's whole knowledge of a child.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Policy {
    pub(crate) restart: Restart,
    pub(crate) shutdown: Shutdown,
    pub(crate) significant: bool,
    pub(crate) backoff: Option<Backoff>,
    pub(crate) intensity: Option<Intensity>,
}

/// One child: its id, how to start it, and what to do when it ends.
///
/// ```
/// use tamtam::supervisor::{ChildSpec, Restart};
///
/// let spec = ChildSpec::new("poller", |cx| async move {
///     cx.stopping().await;
///     Ok(())
/// })
/// .restart(Restart::Transient);
/// assert_eq!(spec.id().as_str(), "poller");
/// ```
#[derive(Clone)]
pub struct ChildSpec {
    pub(crate) id: ChildId,
    pub(crate) kind: ChildKind,
    pub(crate) label: &'static str,
    pub(crate) policy: Policy,
    pub(crate) start_timeout: Option<Duration>,
    pub(crate) workers: Option<Workers>,
    pub(crate) start: StartFn,
}

impl fmt::Debug for ChildSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildSpec")
            .field("id", &self.id)
            .field("kind", &self.kind)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

impl ChildSpec {
    /// A child that is an async function of the host.
    ///
    /// It is called again for each incarnation. Returning `Ok` is a normal end, `Err` and a panic are abnormal ones.
    /// When [`ChildContext::stopping`] resolves it should return soon; after its shutdown time it is dropped at its next
    /// await. Defaults: permanent, 5 s to shut down, 30 s to start, no back-off.
    pub fn new<F, Fut>(id: impl Into<ChildId>, run: F) -> ChildSpec
    where
        F: Fn(ChildContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
    {
        let run: Arc<crate::supervisor::child::RunFn> = Arc::new(move |cx| Box::pin(run(cx)));
        let tasks = TaskTracker::new();
        let tasks_of_start = tasks.clone();
        let mut spec = ChildSpec::behaviour(id, "host", move || HostTask::new(run.clone(), tasks_of_start.clone()));
        // The task is the child: there is never a second one beside it, however long the first takes.
        spec.workers = Some(Workers { tasks, wait: None });
        spec
    }

    /// A child that is one of the crate's own actors; `make` is called for each incarnation.
    pub(crate) fn behaviour<B: Behaviour>(
        id: impl Into<ChildId>,
        label: &'static str,
        make: impl Fn() -> B + Send + Sync + 'static,
    ) -> ChildSpec {
        ChildSpec {
            id: id.into(),
            kind: ChildKind::Worker,
            label,
            policy: Policy::default(),
            start_timeout: Some(Duration::from_secs(30)),
            workers: None,
            start: shell::start_fn(make),
        }
    }

    /// The child's id.
    #[must_use]
    pub fn id(&self) -> &ChildId {
        &self.id
    }

    /// When it is started again; permanent by default.
    #[must_use]
    pub fn restart(mut self, restart: Restart) -> ChildSpec {
        self.policy.restart = restart;
        self
    }

    /// How it is stopped; asked, and killed after 5 s by default.
    #[must_use]
    pub fn shutdown(mut self, shutdown: Shutdown) -> ChildSpec {
        self.policy.shutdown = shutdown;
        self
    }

    /// Its end by itself may end its supervisor, see [`AutoShutdown`].
    #[must_use]
    pub fn significant(mut self) -> ChildSpec {
        self.policy.significant = true;
        self
    }

    /// How long to wait before each restart, instead of the supervisor's own setting.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> ChildSpec {
        self.policy.backoff = Some(backoff);
        self
    }

    /// This child's own budget of restarts, under a supervisor that parks.
    #[must_use]
    pub fn intensity(mut self, intensity: Intensity) -> ChildSpec {
        self.policy.intensity = Some(intensity);
        self
    }

    /// How long its start may take before it is given up; `None` waits for ever. 30 s by default.
    #[must_use]
    pub fn start_timeout(mut self, limit: Option<Duration>) -> ChildSpec {
        self.start_timeout = limit;
        self
    }

    /// The child's workers: a next incarnation starts only when they have all ended.
    ///
    /// They get this long after the child's own end; if some are left then, that is reported and the child goes on.
    #[allow(dead_code, reason = "for the session's actor")]
    pub(crate) fn workers(mut self, tasks: TaskTracker, wait: Duration) -> ChildSpec {
        self.workers = Some(Workers { tasks, wait: Some(wait) });
        self
    }

    /// A child that is a supervisor with children of its own, and the handle to it.
    ///
    /// Defaults: permanent, all the time it needs to start and to shut down.
    pub fn supervisor(spec: SupervisorSpec) -> Result<(ChildSpec, SupervisorHandle), BadSpec> {
        spec.check()?;
        let spec = Arc::new(spec);
        let shared = Shared::new(spec.id.clone());
        let handle = SupervisorHandle::new(shared.clone());
        let child = ChildSpec {
            id: spec.id.clone(),
            kind: ChildKind::Supervisor,
            label: "supervisor",
            policy: Policy { shutdown: Shutdown::Infinity, ..Policy::default() },
            start_timeout: None,
            workers: None,
            start: Arc::new(move |birth| {
                let (spec, shared) = (spec.clone(), shared.clone());
                Box::pin(driver::launch(spec, shared, birth, None))
            }),
        };
        Ok((child, handle))
    }
}

/// What kind of supervisor.
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
    /// The supervisor's budget; where children are parked it is each child's own.
    pub(crate) intensity: Intensity,
    pub(crate) on_exhausted: OnExhausted,
    /// Where children are parked: so many different children restarting is a common cause, and escalates.
    pub(crate) group: Option<Intensity>,
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
            auto_shutdown: AutoShutdown::default(),
            backoff: None,
        };
        SupervisorSpec { id, rules, children: Vec::new() }
    }

    /// How many restarts are fine; 3 in 5 s by default. Under [`OnExhausted::Park`] this is each child's own budget.
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

    /// How long to wait before each restart, for children that do not say; no wait by default.
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

    /// The most children that a dynamic supervisor has, those included that wait for a restart or are parked.
    /// Without an order to keep it has no effect on other supervisors.
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

    /// Whether a supervisor can run by this spec; each refusal names what is wrong.
    pub fn check(&self) -> Result<(), BadSpec> {
        self.rules.check()?;
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

impl Rules {
    fn check(&self) -> Result<(), BadSpec> {
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
        Ok(())
    }

    /// Whether a child may live under these rules.
    pub(crate) fn check_child(&self, id: &ChildId, policy: &Policy) -> Result<(), BadSpec> {
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

/// A spec that no supervisor can run by.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadSpec {
    /// A window of no length.
    #[error("the period of an intensity is zero")]
    ZeroPeriod,
    /// Two children with one id.
    #[error("two children have the id {id:?}", id = id.as_str())]
    DuplicateId {
        /// The id that occurs twice.
        id: ChildId,
    },
    /// A permanent child never ends for good, so nothing can follow from its end.
    #[error("the permanent child {id:?} cannot be significant", id = id.as_str())]
    SignificantPermanent {
        /// The child.
        id: ChildId,
    },
    /// A significant child under a supervisor that pays no attention to it.
    #[error("the child {id:?} is significant, but its supervisor never shuts down by itself", id = id.as_str())]
    SignificantWithoutAutoShutdown {
        /// The child.
        id: ChildId,
    },
    /// Dynamic children cannot be significant.
    #[error("a dynamic supervisor cannot shut down with its significant children")]
    AutoShutdownOfDynamic,
    /// Children that depend on each other cannot be parked one by one.
    #[error("only a dynamic supervisor can park its children")]
    ParkInOrdered,
}
