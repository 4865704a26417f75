//! Drivers of a runtime and of an operator's levers.

use std::time::Duration;

use tamtam::{
    Runtime, SendError,
    ops::{SessionQuery, SweepPolicy},
    runtime::Labelled,
    session::Labels,
    supervisor::Status,
    tape::{Query, TapeStoreExt as _},
};

use super::{
    matrix::{After, Driver, go},
    world::{World, id, within},
};

pub(super) fn drivers() -> Vec<Driver> {
    [ends(), sessions(), labelled(), stores(), levers()].into_iter().flatten().collect()
}

fn ends() -> Vec<Driver> {
    vec![
        // Its effect is a runtime that somebody holds: the alive tasks tell whether there is one that nobody holds.
        Driver::new(
            "Builder::start",
            go!(w, {
                let started = w.builder().store(w.folder.path().join("other")).start().await.unwrap();
                w.keep(started);
            }),
        )
        .given(go!(w, {
            w.rest().await;
            w.keep(tasks());
        }))
        .effect(go!(w, usize::from(tasks() > *w.kept::<usize>())))
        .then(go!(w, {
            let again = within(w.builder().store(w.folder.path().join("other")).start()).await.unwrap();
            assert!(within(again.shutdown()).await.is_empty());
            if let Some(started) = w.take::<Runtime>() {
                assert!(within(started.shutdown()).await.is_empty());
            }
        })),
        Driver::new("Runtime::drain", go!(w, drop(w.runtime.drain(Duration::from_secs(3)).await)))
            .given(go!(w, w.hold().await))
            .effect(go!(w, usize::from(w.session.prompt("now").await.is_err())))
            .then(go!(w, {
                w.let_go();
                w.session.abort("over").await.unwrap();
                w.session.clear_queue().await.unwrap();
            }))
            .leaving(After::AnswersTheNextRuntime),
        Driver::new("Operator::drain", go!(w, drop(w.runtime.operate().drain(Duration::from_secs(3)).await)))
            .effect(go!(w, usize::from(w.session.prompt("now").await.is_err())))
            .leaving(After::AnswersTheNextRuntime),
        Driver::new("Runtime::shutdown", go!(w, assert!(w.runtime.shutdown().await.is_empty())))
            .effect(go!(w, usize::from(w.session.prompt("now").await.is_err())))
            .leaving(After::AnswersTheNextRuntime),
        Driver::new("Runtime::ended", go!(w, drop(w.runtime.ended().await))),
        Driver::new("Runtime::ended, of one that ended", go!(w, drop(w.runtime.ended().await)))
            .given(go!(w, assert!(w.runtime.shutdown().await.is_empty())))
            .leaving(After::AnswersTheNextRuntime),
    ]
}

fn sessions() -> Vec<Driver> {
    vec![
        Driver::new("Runtime::create", go!(w, drop(w.another("other").await)))
            .effect(go!(w, w.has("other")))
            .then(go!(w, w.works("other").await)),
        Driver::new(
            "Runtime::open_or_create",
            go!(w, drop(w.runtime.open_or_create(w.options().id("other".parse().unwrap())).await.unwrap())),
        )
        .effect(go!(w, w.has("other")))
        .once()
        .then(go!(w, w.works("other").await)),
        Driver::new("Runtime::exists", go!(w, assert!(w.runtime.exists(&id()).await.unwrap()))),
        Driver::new("Runtime::find", go!(w, assert!(w.runtime.find(&id()).await.unwrap().is_some()))),
        Driver::new("Runtime::delete", go!(w, drop(w.runtime.delete(&"other".parse().unwrap()).await)))
            .given(go!(w, drop(w.another("other").await)))
            .effect(go!(w, 1 - w.has("other"))),
        Driver::new("Runtime::open", go!(w, drop(w.runtime.open(&id()).await.unwrap())))
            .given(go!(w, w.runtime.passivate(&id()).await.unwrap()))
            .effect(go!(w, w.runtime.awake().len()))
            .once(),
        Driver::new("Runtime::open_heard", go!(w, drop(w.runtime.open_heard(&id()).await.unwrap())))
            .given(go!(w, w.runtime.passivate(&id()).await.unwrap()))
            .effect(go!(w, w.runtime.awake().len()))
            .once(),
        Driver::new("Runtime::passivate", go!(w, w.runtime.passivate(&id()).await.unwrap()))
            .given(go!(w, w.session.wait().await.unwrap()))
            .effect(go!(w, usize::from(w.runtime.awake().is_empty())))
            .once(),
    ]
}

fn labelled() -> Vec<Driver> {
    fn tenant(w: &World) -> Labelled {
        w.runtime.labelled(Labels::new([("tenant", "acme")]).unwrap()).unwrap()
    }
    async fn other(w: &World) {
        let labels = Labels::new([("tenant", "acme")]).unwrap();
        drop(w.runtime.create(w.options().id("other".parse().unwrap()).labels(labels)).await.unwrap());
    }
    vec![
        Driver::new("Labelled::sessions", go!(w, drop(tenant(w).sessions().await.unwrap())))
            .given(go!(w, other(w).await)),
        Driver::new("Labelled::bill", go!(w, assert_eq!(tenant(w).bill().await.unwrap().sessions, 1)))
            .given(go!(w, other(w).await)),
        Driver::new("Labelled::asks", go!(w, drop(tenant(w).asks().await))).given(go!(w, other(w).await)),
        Driver::new("Labelled::drain", go!(w, drop(tenant(w).drain(Duration::from_secs(3)).await.unwrap())))
            .given(go!(w, other(w).await))
            .effect(go!(w, {
                let other = w.runtime.session(&"other".parse().unwrap());
                usize::from(matches!(other.prompt("now").await, Err(SendError::Draining)))
            })),
        Driver::new("Labelled::delete", go!(w, drop(tenant(w).delete().await.unwrap())))
            .given(go!(w, other(w).await))
            .effect(go!(w, 1 - w.has("other"))),
    ]
}

fn stores() -> Vec<Driver> {
    vec![
        Driver::new("Runtime::sessions", go!(w, drop(w.runtime.sessions(SessionQuery::default()).await.unwrap()))),
        Driver::new("Runtime::list", go!(w, drop(w.runtime.list().await.unwrap()))),
        Driver::new("Runtime::search", go!(w, drop(w.runtime.search(Query::new("fine")).await.unwrap()))),
        Driver::new("Runtime::sweep_plan", go!(w, drop(w.runtime.sweep_plan(all()).await.unwrap()))),
        Driver::new("Runtime::sweep", go!(w, drop(w.runtime.sweep(all()).await.unwrap())))
            .given(go!(w, {
                drop(w.another("old").await);
                w.runtime.passivate(&"old".parse().unwrap()).await.unwrap();
            }))
            .effect(go!(w, 1 - w.has("old")))
            .once(),
        Driver::new("Runtime::protect", go!(w, w.runtime.protect(&id()).await.unwrap()))
            .effect(go!(w, w.store().protected_sessions().unwrap().len()))
            .once(),
        Driver::new("Runtime::unprotect", go!(w, w.runtime.unprotect(&id()).await.unwrap()))
            .given(go!(w, w.runtime.protect(&id()).await.unwrap()))
            .effect(go!(w, 1 - w.store().protected_sessions().unwrap().len()))
            .once(),
    ]
}

fn levers() -> Vec<Driver> {
    vec![
        Driver::new("Operator::stop", go!(w, drop(w.runtime.operate().stop(id().as_str()).await)))
            .effect(go!(w, usize::from(w.runtime.awake().is_empty())))
            .once(),
        Driver::new("Operator::restart", go!(w, w.runtime.operate().restart(id().as_str()).await.unwrap()))
            .effect(go!(w, w.incarnation() - 1)),
        Driver::new(
            "Operator::restart, of a parked one",
            go!(w, w.runtime.operate().restart(id().as_str()).await.unwrap()),
        )
        .given(go!(w, w.runtime.operate().park(id().as_str()).await.unwrap()))
        .effect(go!(w, w.is_up()))
        .once()
        .then(go!(w, w.unpark().await)),
        Driver::new("Operator::passivate", go!(w, drop(w.runtime.operate().passivate(id().as_str()).await)))
            .given(go!(w, w.session.wait().await.unwrap()))
            .effect(go!(w, usize::from(w.runtime.awake().is_empty()))),
        Driver::new("Operator::park", go!(w, drop(w.runtime.operate().park(id().as_str()).await)))
            .effect(go!(w, {
                let parked = w.store().parked_sessions().unwrap().len();
                assert_eq!(
                    (w.runtime.parked().len(), 1 - w.is_up()),
                    (parked, parked),
                    "the store knows what the tree knows"
                );
                parked
            }))
            .once()
            .then(go!(w, w.unpark().await)),
        Driver::new("Operator::unpark", go!(w, drop(w.runtime.operate().unpark(id().as_str()).await)))
            .given(go!(w, w.runtime.operate().park(id().as_str()).await.unwrap()))
            .effect(go!(w, {
                let parked = w.store().parked_sessions().unwrap().len();
                assert_eq!(
                    (w.runtime.parked().len(), 1 - w.is_up()),
                    (parked, parked),
                    "the store knows what the tree knows"
                );
                1 - parked
            }))
            .once(),
        // Where the session does not answer within two seconds, the wish stays noted; asking again waits for it.
        Driver::new(
            "Operator::pause",
            go!(w, {
                if w.runtime.operate().pause(id().as_str()).await.is_err() {
                    w.session.pause().await.unwrap();
                }
            }),
        )
        .effect(go!(w, w.count("paused")))
        .once()
        .then(go!(w, w.session.resume().await.unwrap())),
        Driver::new(
            "Operator::resume",
            go!(w, {
                if w.runtime.operate().resume(id().as_str()).await.is_err() {
                    w.session.resume().await.unwrap();
                }
            }),
        )
        .given(go!(w, w.session.pause().await.unwrap()))
        .effect(go!(w, w.count("resumed")))
        .once()
        .then(go!(w, w.session.resume().await.unwrap())),
    ]
}

/// Takes all that may go.
fn all() -> SweepPolicy {
    let mut policy = SweepPolicy::default();
    policy.keep_newest = Some(0);
    policy
}

fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

impl World {
    /// A session of that name can be made, where there is none, and answers.
    async fn works(&mut self, of: &str) {
        let session = match self.has(of) {
            0 => self.another(of).await,
            _ => within(self.runtime.open(&of.parse().unwrap())).await.unwrap(),
        };
        within(async { session.prompt("fine").await.unwrap().wait().await.unwrap() }).await;
    }

    fn incarnation(&self) -> usize {
        let tree = self.runtime.tree();
        tree.find(id().as_str()).map_or(0, |node| usize::try_from(node.incarnation).unwrap())
    }

    fn is_up(&self) -> usize {
        usize::from(self.runtime.tree().find(id().as_str()).is_some_and(|node| node.status == Status::Running))
    }

    /// Whatever became of the lever, the session can be parked no longer.
    async fn unpark(&mut self) {
        drop(self.runtime.operate().unpark(id().as_str()).await);
    }
}
