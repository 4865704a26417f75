//! Drivers of supervisors, and of those who listen.

use tamtam::{
    EventStream,
    supervisor::{
        ChildContext, ChildSpec, Registry, Status, Strategy, Supervisor, SupervisorHandle, SupervisorSpec, Watch,
    },
};

use super::{
    matrix::{After, Driver, go},
    world::{World, within},
};

pub(super) fn drivers() -> Vec<Driver> {
    [starts(), levers(), questions(), listeners()].into_iter().flatten().collect()
}

/// A child that runs until it is stopped, and does not come up in one step.
fn child(id: &'static str) -> ChildSpec {
    ChildSpec::with_start(id, |cx| async move {
        tokio::task::yield_now().await;
        Ok(tamtam::supervisor::Start::run(async move {
            cx.stopping().await;
            Ok(())
        }))
    })
}

fn starts() -> Vec<Driver> {
    vec![
        Driver::new(
            "Supervisor::start",
            go!(w, {
                let registry = w.kept::<Registry>().clone();
                let spec = SupervisorSpec::new("mine", Strategy::OneForOne).child(child("one")).child(child("two"));
                let started = Supervisor::start(spec, &registry).await.unwrap();
                w.keep(started);
            }),
        )
        .given(go!(w, w.keep(Registry::new())))
        .effect(go!(w, w.kept::<Registry>().snapshot().len()))
        .then(go!(w, {
            if let Some(started) = w.take::<SupervisorHandle>() {
                within(started.shutdown()).await;
            }
            assert!(w.kept::<Registry>().snapshot().is_empty());
        })),
        Driver::new("SupervisorHandle::shutdown", go!(w, drop(w.kept::<SupervisorHandle>().clone().shutdown().await)))
            .given(go!(w, w.supervisor().await))
            .effect(go!(w, usize::from(w.kept::<Registry>().snapshot().is_empty())))
            .then(go!(w, drop(within(w.kept::<SupervisorHandle>().clone().shutdown()).await))),
        Driver::new("SupervisorHandle::ended", go!(w, drop(w.kept::<SupervisorHandle>().clone().ended().await)))
            .given(go!(w, w.supervisor().await))
            .then(go!(w, drop(within(w.kept::<SupervisorHandle>().clone().shutdown()).await))),
    ]
}

fn levers() -> Vec<Driver> {
    vec![
        Driver::new("SupervisorHandle::start_child", go!(w, drop(w.runtime.host().start_child(child("one")).await)))
            .effect(go!(w, w.is(Status::Running).await))
            .once(),
        Driver::new("SupervisorHandle::terminate_child", go!(w, drop(w.runtime.host().terminate_child("one").await)))
            .given(go!(w, w.child().await))
            .effect(go!(w, 1 - w.is(Status::Running).await))
            .once(),
        Driver::new(
            "SupervisorHandle::restart_child",
            go!(w, drop(w.kept::<SupervisorHandle>().restart_child("one").await)),
        )
        .given(go!(w, {
            w.supervisor().await;
            w.kept::<SupervisorHandle>().terminate_child("one").await.unwrap();
        }))
        .effect(go!(w, w.kept::<SupervisorHandle>().count_children().await.unwrap().active))
        .once()
        .then(go!(w, drop(within(w.kept::<SupervisorHandle>().clone().shutdown()).await))),
        Driver::new(
            "SupervisorHandle::recycle_child",
            go!(w, drop(w.runtime.host().recycle_child("one").await.unwrap())),
        )
        .given(go!(w, w.child().await))
        .effect(go!(w, {
            let child = w.runtime.host().which_child("one").await.unwrap();
            usize::try_from(child.incarnation).unwrap() - 1
        })),
        Driver::new(
            "SupervisorHandle::delete_child",
            go!(w, drop(w.kept::<SupervisorHandle>().delete_child("one").await)),
        )
        .given(go!(w, {
            w.supervisor().await;
            w.kept::<SupervisorHandle>().terminate_child("one").await.unwrap();
        }))
        .effect(go!(w, 1 - w.kept::<SupervisorHandle>().count_children().await.unwrap().specs))
        .once()
        .then(go!(w, drop(within(w.kept::<SupervisorHandle>().clone().shutdown()).await))),
        Driver::new("SupervisorHandle::park", go!(w, drop(w.runtime.host().park("one").await)))
            .given(go!(w, w.child().await))
            .effect(go!(w, w.is(Status::Parked).await))
            .once(),
        Driver::new("SupervisorHandle::unpark", go!(w, drop(w.runtime.host().unpark("one").await)))
            .given(go!(w, {
                w.child().await;
                w.runtime.host().park("one").await.unwrap();
            }))
            .effect(go!(w, w.is(Status::Running).await))
            .once(),
    ]
}

fn questions() -> Vec<Driver> {
    vec![
        Driver::new("SupervisorHandle::which_children", go!(w, drop(w.runtime.host().which_children().await.unwrap())))
            .given(go!(w, w.child().await)),
        Driver::new("SupervisorHandle::which_child", go!(w, drop(w.runtime.host().which_child("one").await.unwrap())))
            .given(go!(w, w.child().await)),
        Driver::new(
            "SupervisorHandle::count_children",
            go!(w, assert_eq!(w.runtime.host().count_children().await.unwrap().active, 1)),
        )
        .given(go!(w, w.child().await)),
    ]
}

/// Two listeners, and what the first one heard.
struct Heard {
    dropped: EventStream,
    whole: EventStream,
    events: Vec<String>,
}

/// What a dropped wait has not given, the next one gives.
fn listeners() -> Vec<Driver> {
    vec![
        Driver::new(
            "EventStream::poll_next",
            go!(w, drop(futures_util::StreamExt::next(w.kept::<tamtam::EventStream>()).await)),
        )
        .given(go!(w, {
            let events = w.session.events();
            w.keep(events);
        })),
        Driver::new("Steers::next", go!(_w, drop(tamtam::model::Steers::default().next().await))),
        Driver::new("EventStream::next", go!(w, w.hear().await))
            .given(go!(w, {
                let heard = Heard { dropped: w.session.events(), whole: w.session.events(), events: Vec::new() };
                w.keep(heard);
                w.say("fine").await;
            }))
            .then(go!(w, {
                assert!(w.runtime.shutdown().await.is_empty());
                w.hear().await;
                let Heard { whole, events, .. } = w.kept();
                let mut all = Vec::new();
                while let Some(next) = whole.next().await {
                    all.push(format!("{next:?}"));
                }
                assert_eq!(*events, all, "what another listener heard, who was not dropped");
            }))
            .leaving(After::AnswersTheNextRuntime),
        Driver::new("Watch::next", go!(w, drop(w.kept::<Watch>().next().await.unwrap()))).given(go!(w, {
            w.keep(w.runtime.watch_all());
            w.child().await;
        })),
        Driver::new("ChildContext::stopping", go!(w, w.kept::<ChildContext>().stopping().await)).given(go!(w, {
            let (give, given) = tokio::sync::oneshot::channel();
            let give = std::sync::Mutex::new(Some(give));
            let spec = ChildSpec::new("one", move |cx: ChildContext| {
                drop(give.lock().unwrap().take().unwrap().send(cx.clone()));
                async move {
                    cx.stopping().await;
                    Ok(())
                }
            });
            w.runtime.host().start_child(spec).await.unwrap();
            w.keep(given.await.unwrap());
        })),
    ]
}

impl World {
    async fn hear(&mut self) {
        let Heard { dropped, events, .. } = self.kept();
        while let Some(next) = dropped.next().await {
            events.push(format!("{next:?}"));
        }
    }

    /// A child of the host's.
    async fn child(&mut self) {
        self.runtime.host().start_child(child("one")).await.unwrap();
    }

    async fn is(&self, status: Status) -> usize {
        let child = self.runtime.host().which_child("one").await;
        usize::from(child.is_ok_and(|child| child.status == status))
    }

    /// A supervisor of its own.
    async fn supervisor(&mut self) {
        let registry = Registry::new();
        let spec = SupervisorSpec::new("mine", Strategy::OneForOne).child(child("one"));
        let started = Supervisor::start(spec, &registry).await.unwrap();
        self.keep(started);
        self.keep(registry);
    }
}
