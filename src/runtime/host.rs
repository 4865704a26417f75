//! Runs the host's own children (connectors, schedulers, pollers) under the same tree as the sessions.
//!
//! The children have their own supervisor, so a crash of a child reaches no session. A child that keeps crashing is parked alone
//! and started again five minutes later.
//!
//! At a shutdown the children stop before the sessions do, so a child may use sessions until it has stopped. A change must keep
//! that order (`runtime/tree.rs`).

use std::time::Duration;

#[cfg(all(unix, feature = "tools"))]
use crate::process::Processes;
use crate::{
    error::StartError,
    runtime::Runtime,
    supervisor::{Backoff, ChildSpec, Intensity, OnExhausted, SupervisorHandle, SupervisorSpec},
};

/// How often a host's child may crash; the next crash parks it.
const RESTARTS: Intensity = Intensity::new(5, Duration::from_secs(60));

/// How long a child stays parked before it is started again.
const PARK_FOR: Duration = Duration::from_secs(300);

/// The supervisor of the host's children. `children` start with the runtime.
pub(super) fn supervisor(children: Vec<ChildSpec>) -> Result<(ChildSpec, SupervisorHandle), StartError> {
    let spec = SupervisorSpec::dynamic("host")
        .intensity(RESTARTS)
        .backoff(Backoff::default())
        .on_exhausted(OnExhausted::Park)
        .park_for(PARK_FOR);
    let spec = children.into_iter().fold(spec, SupervisorSpec::child);
    ChildSpec::supervisor(spec).map_err(|bad| StartError::from(crate::supervisor::TreeError::from(bad)))
}

/// The supervisor of what the calls of all sessions share, such as the servers that tools speak to.
pub(super) fn shared_by_tools() -> SupervisorSpec {
    SupervisorSpec::dynamic("tools")
        .intensity(RESTARTS)
        .backoff(Backoff::default())
        .on_exhausted(OnExhausted::Park)
        .park_for(PARK_FOR)
}

impl Runtime {
    /// The supervisor of what the calls of all sessions share, such as a client of a server: empty until the host puts children
    /// there. They are restarted and parked as those of [`Runtime::host`] are. Unlike those, they end after the sessions, so a call
    /// may use them to its end.
    #[must_use]
    pub fn tool_servers(&self) -> SupervisorHandle {
        self.inner.tools.clone()
    }

    /// The OS processes of this runtime, for a child that starts one: no process outlives the runtime, and none outlives a host
    /// that is killed, if it has a watcher. Each process gets a tag of its own ([`Processes::tag`]).
    #[cfg(all(unix, feature = "tools"))]
    #[must_use]
    pub fn processes(&self) -> Processes {
        self.inner.shared.processes.clone()
    }

    /// The supervisor of the host's own children, to start, stop and look at them while the runtime runs.
    /// Each child is independent: it is restarted after 200 ms to 30 s, parked when it crashed more than five times in a minute
    /// (its spec may say otherwise), and started again five minutes later. Children that depend on each other, or need an order,
    /// go under their own supervisor: [`ChildSpec::supervisor`]. A child that is added here ends with the runtime, before the
    /// sessions do.
    ///
    /// ```
    /// use std::{sync::Arc, time::Duration};
    /// use tamtam::{Runtime, SessionOptions, model::{Reply, Scripted}, supervisor::ChildSpec};
    ///
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
    /// # let folder = tempfile::tempdir()?;
    /// let model = Scripted::new([Reply::text("Good morning.")]);
    /// let runtime = Runtime::builder().store(folder.path()).model(Arc::new(model)).start().await?;
    /// let session = runtime.create(SessionOptions::new(folder.path())).await?;
    /// let alarm = ChildSpec::new("alarm", move |cx| {
    ///     let session = session.clone();
    ///     async move {
    ///         tokio::time::sleep(Duration::from_millis(10)).await;
    ///         let answer = session.prompt("Wake up.").await?.wait().await?;
    ///         cx.node().doing(answer.text);
    ///         cx.stopping().await;
    ///         Ok(())
    ///     }
    /// });
    /// runtime.host().start_child(alarm).await?;
    /// # let doing = || runtime.tree().find("alarm").and_then(|node| node.doing.clone());
    /// # while doing().is_none() { tokio::time::sleep(Duration::from_millis(5)).await; }
    /// assert_eq!(doing().as_deref(), Some("Good morning."));
    /// runtime.shutdown().await;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    #[must_use]
    pub fn host(&self) -> SupervisorHandle {
        self.inner.host_children.clone()
    }
}
