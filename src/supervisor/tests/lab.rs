//! A supervisor with children that do as they are told, and a diary of what they did.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::sync::mpsc;

use crate::{
    actors::shell::{Behaviour, Context as Cx, ExitError, Init},
    supervisor::*,
};

/// What a child can be told.
pub(super) enum Order {
    Return,
    Fail,
    Panic,
}

#[derive(Default)]
struct Diary {
    lines: Vec<String>,
    orders: HashMap<String, mpsc::UnboundedSender<Order>>,
    alive: HashMap<String, u32>,
    overlaps: u32,
}

#[derive(Clone, Default)]
pub(super) struct Children(Arc<Mutex<Diary>>);

struct Alive(Children, String);

impl Drop for Alive {
    fn drop(&mut self) {
        let mut diary = self.0.0.lock().unwrap();
        *diary.alive.get_mut(&self.1).unwrap() -= 1;
        let line = format!("-{}", self.1);
        diary.lines.push(line);
    }
}

impl Children {
    /// A child that runs until it is told otherwise, and ends `linger` after it was asked to stop.
    pub(super) fn spec(&self, id: &str, restart: Restart, linger: Duration) -> ChildSpec {
        let (all, name) = (self.clone(), id.to_owned());
        ChildSpec::new(id, move |cx| {
            let (all, name) = (all.clone(), name.clone());
            async move {
                let (tell, mut orders) = mpsc::unbounded_channel();
                let _alive = all.born(&name, tell);
                tokio::select! {
                    order = orders.recv() => match order {
                        Some(Order::Panic) => panic!("boom"),
                        Some(Order::Fail) => Err("it failed".into()),
                        Some(Order::Return) | None => Ok(()),
                    },
                    () = cx.stopping() => {
                        tokio::time::sleep(linger).await;
                        Ok(())
                    }
                }
            }
        })
        .restart(restart)
    }

    fn born(&self, name: &str, tell: mpsc::UnboundedSender<Order>) -> Alive {
        let mut diary = self.0.lock().unwrap();
        diary.orders.insert(name.to_owned(), tell);
        let alive = diary.alive.entry(name.to_owned()).or_default();
        *alive += 1;
        if *alive > 1 {
            diary.overlaps += 1;
        }
        diary.lines.push(format!("+{name}"));
        Alive(self.clone(), name.to_owned())
    }

    pub(super) fn order(&self, id: &str, order: Order) {
        // One that has ended needs no order.
        let _ = self.0.lock().unwrap().orders[id].send(order);
    }

    pub(super) fn take_diary(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap().lines)
    }

    pub(super) fn alive(&self) -> u32 {
        self.0.lock().unwrap().alive.values().sum()
    }

    pub(super) fn overlaps(&self) -> u32 {
        self.0.lock().unwrap().overlaps
    }
}

pub(super) struct Lab {
    pub(super) registry: Registry,
    pub(super) sup: SupervisorHandle,
    pub(super) children: Children,
}

impl Lab {
    pub(super) async fn start(spec: SupervisorSpec) -> Lab {
        Lab::with(Children::default(), spec).await
    }

    pub(super) async fn with(children: Children, spec: SupervisorSpec) -> Lab {
        let registry = Registry::new();
        let sup = Supervisor::start(spec, &registry).await.unwrap();
        settle().await;
        Lab { registry, sup, children }
    }

    pub(super) async fn add(&self, id: &str, restart: Restart) {
        let spec = self.children.spec(id, restart, Duration::ZERO);
        assert_eq!(self.sup.start_child(spec).await, Ok(Done::Started));
        settle().await;
    }

    pub(super) async fn crash(&self, id: &str) {
        self.children.order(id, Order::Panic);
        settle().await;
    }

    pub(super) async fn info(&self, id: &str) -> ChildInfo {
        self.sup.which_child(id).await.unwrap()
    }

    /// Waits until a child runs in this incarnation.
    pub(super) async fn until(&self, id: &str, incarnation: u64) {
        self.wait_for(id, |info| info.incarnation == incarnation && info.status == Status::Running).await;
        settle().await;
    }

    pub(super) async fn until_status(&self, id: &str, status: Status) {
        self.wait_for(id, |info| info.status == status).await;
    }

    async fn wait_for(&self, id: &str, fits: impl Fn(&ChildInfo) -> bool) {
        let mut last = None;
        for _ in 0..1000 {
            let info = self.sup.which_child(id).await;
            if info.as_ref().is_ok_and(&fits) {
                return;
            }
            last = Some(info);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{id} never got there: {last:?}");
    }

    /// Stops everything, and checks that nothing is left.
    pub(super) async fn end(self) -> Down {
        let down = self.sup.shutdown().await;
        assert_eq!(self.children.alive(), 0);
        assert_eq!(self.children.overlaps(), 0, "two copies of one child were alive");
        assert!(self.registry.snapshot().is_empty(), "{:?}", self.registry.snapshot());
        down
    }
}

/// Lets every task run that can.
pub(super) async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

/// What the start of an [`Odd`] child does.
#[derive(Clone, Copy)]
enum Beginning {
    Fails,
    Panics,
    Hangs,
    IsIdle,
}

struct Odd(Beginning);

impl Behaviour for Odd {
    type Msg = ();

    async fn init(&mut self, _: &mut Cx<()>) -> Result<Init, ExitError> {
        match self.0 {
            Beginning::Fails => Err(ExitError::Failed("no luck".into())),
            Beginning::Panics => panic!("no nerve"),
            Beginning::Hangs => std::future::pending().await,
            Beginning::IsIdle => Ok(Init::Ignore),
        }
    }

    async fn handle(&mut self, (): (), _: &mut Cx<()>) -> Result<(), ExitError> {
        Ok(())
    }
}

fn odd(id: &str, beginning: Beginning) -> ChildSpec {
    ChildSpec::behaviour(id, "odd", move || Odd(beginning))
}

pub(super) fn broken(id: &str) -> ChildSpec {
    odd(id, Beginning::Fails)
}

pub(super) fn panicky(id: &str) -> ChildSpec {
    odd(id, Beginning::Panics)
}

pub(super) fn hanging(id: &str) -> ChildSpec {
    odd(id, Beginning::Hangs)
}

pub(super) fn idle(id: &str) -> ChildSpec {
    odd(id, Beginning::IsIdle)
}
