//! A supervisor with obedient children, and a diary of what they did.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::sync::mpsc;

use crate::supervisor::{
    shell::{Behaviour, Context as Cx, ExitError, Init, Mailbox},
    *,
};

pub(super) const SECOND: Duration = Duration::from_secs(1);

/// The orders for a child.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Order {
    Return,
    Fail,
    Panic,
    /// The rest only for puppets.
    Shutdown,
    ShutdownWith(&'static str),
    Kill,
    Unlink,
}

/// What the start of a puppet does.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Beginning {
    #[default]
    Works,
    Fails,
    Panics,
    Throws,
    Hangs,
    Ignores,
    /// Works, and says this.
    Says(&'static str),
}

#[derive(Default)]
struct Diary {
    lines: Vec<String>,
    orders: HashMap<String, Box<dyn Fn(Order) + Send>>,
    beginnings: HashMap<String, Beginning>,
    alive: HashMap<String, u32>,
    overlaps: u32,
}

#[derive(Clone, Default)]
pub(super) struct Children(Arc<Mutex<Diary>>);

pub(super) struct Alive(Children, String);

impl Drop for Alive {
    fn drop(&mut self) {
        let mut diary = self.0.0.lock().unwrap();
        *diary.alive.get_mut(&self.1).unwrap() -= 1;
        let line = format!("-{}", self.1);
        diary.lines.push(line);
    }
}

impl Children {
    /// A host's function that runs until its order, and ends `linger` after it was asked to stop.
    pub(super) fn spec(&self, id: &str, restart: Restart, linger: Duration) -> ChildSpec {
        let (all, name) = (self.clone(), id.to_owned());
        ChildSpec::new(id, move |cx| {
            let (all, name) = (all.clone(), name.clone());
            async move {
                let (tell, mut orders) = mpsc::unbounded_channel();
                // One that has ended needs no order.
                let _alive = all.born(&name, move |order| {
                    let _ = tell.send(order);
                });
                tokio::select! {
                    order = orders.recv() => match order {
                        Some(Order::Panic) => panic!("boom"),
                        Some(Order::Fail) => Err("it failed".into()),
                        Some(Order::Return) | None => Ok(()),
                        Some(other) => panic!("{other:?} is for puppets"),
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

    /// An actor of the crate that does to itself what it is ordered. Its starts do what [`Children::begins`] says.
    pub(super) fn puppet(&self, id: &str, restart: Restart) -> ChildSpec {
        self.slow_puppet(id, restart, Duration::ZERO)
    }

    /// A puppet that takes so long over its last word.
    pub(super) fn slow_puppet(&self, id: &str, restart: Restart, linger: Duration) -> ChildSpec {
        let (all, name) = (self.clone(), id.to_owned());
        ChildSpec::behaviour(id, "puppet", move || Puppet { all: all.clone(), name: name.clone(), linger, alive: None })
            .restart(restart)
    }

    /// What the next starts of this puppet do.
    pub(super) fn begins(&self, id: &str, beginning: Beginning) {
        self.0.lock().unwrap().beginnings.insert(id.to_owned(), beginning);
    }

    fn beginning(&self, id: &str) -> Beginning {
        let mut diary = self.0.lock().unwrap();
        let beginning = diary.beginnings.get(id).copied().unwrap_or_default();
        if beginning != Beginning::Works {
            diary.lines.push(format!("!{id}"));
        }
        beginning
    }

    pub(super) fn born(&self, name: &str, tell: impl Fn(Order) + Send + 'static) -> Alive {
        let mut diary = self.0.lock().unwrap();
        diary.orders.insert(name.to_owned(), Box::new(tell));
        let alive = diary.alive.entry(name.to_owned()).or_default();
        *alive += 1;
        if *alive > 1 {
            diary.overlaps += 1;
        }
        diary.lines.push(format!("+{name}"));
        Alive(self.clone(), name.to_owned())
    }

    pub(super) fn order(&self, id: &str, order: Order) {
        self.0.lock().unwrap().orders[id](order);
    }

    pub(super) fn take_diary(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap().lines)
    }

    /// Forgets where a child that has ended took its orders.
    pub(super) fn forget(&self, id: &str) {
        let mut diary = self.0.lock().unwrap();
        diary.orders.remove(id);
        diary.alive.remove(id);
        diary.lines.clear();
    }

    /// The diary since it was last taken, in one line.
    pub(super) fn log(&self) -> String {
        self.take_diary().join(" ")
    }

    pub(super) fn alive(&self) -> u32 {
        self.0.lock().unwrap().alive.values().sum()
    }

    pub(super) fn overlaps(&self) -> u32 {
        self.0.lock().unwrap().overlaps
    }
}

struct Puppet {
    all: Children,
    name: String,
    linger: Duration,
    alive: Option<Alive>,
}

impl Behaviour for Puppet {
    type Msg = Order;

    async fn init(&mut self, cx: &mut Cx<Order>) -> Result<Init, ExitError> {
        let said = match self.all.beginning(&self.name) {
            Beginning::Fails => return Err(ExitError(ExitReason::Error("no luck".into()))),
            Beginning::Panics => panic!("no nerve"),
            Beginning::Throws => std::panic::panic_any(7),
            Beginning::Hangs => std::future::pending().await,
            Beginning::Ignores => return Ok(Init::Ignore),
            Beginning::Works => Init::Run,
            Beginning::Says(word) => Init::RunWith(word.into()),
        };
        let mailbox: Mailbox<Order> = cx.mailbox();
        // One that has ended needs no order.
        self.alive = Some(self.all.born(&self.name, move |order| {
            let _ = mailbox.send(order);
        }));
        Ok(said)
    }

    async fn handle(&mut self, order: Order, cx: &mut Cx<Order>) -> Result<(), ExitError> {
        match order {
            Order::Return => cx.exit(),
            Order::Fail => return Err(ExitError(ExitReason::Error("it failed".into()))),
            Order::Panic => panic!("boom"),
            Order::Shutdown => cx.exit_with("shutdown"),
            Order::ShutdownWith(word) => cx.exit_with(word),
            Order::Kill => {
                cx.mailbox().kill();
                std::future::pending::<()>().await;
            }
            Order::Unlink => cx.unlink(),
        }
        Ok(())
    }

    async fn terminate(&mut self, _: &ExitReason, _: &mut Cx<Order>) {
        tokio::time::sleep(self.linger).await;
    }

    fn describe(order: &Order) -> &'static str {
        match order {
            Order::Panic => "panic",
            _ => "order",
        }
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

    /// Adds a host's function.
    pub(super) async fn add(&self, id: &str, restart: Restart) {
        let spec = self.children.spec(id, restart, Duration::ZERO);
        assert_eq!(self.sup.start_child(spec).await, Ok(Done::Started));
        settle().await;
    }

    /// Adds a puppet.
    pub(super) async fn put(&self, id: &str, restart: Restart) {
        assert_eq!(self.sup.start_child(self.children.puppet(id, restart)).await, Ok(Done::Started));
    }

    /// Gives an order, and waits until nothing happens any more.
    pub(super) async fn order(&self, id: &str, order: Order) {
        self.children.order(id, order);
        quiet().await;
    }

    pub(super) async fn crash(&self, id: &str) {
        self.children.order(id, Order::Panic);
        settle().await;
    }

    pub(super) async fn info(&self, id: &str) -> ChildInfo {
        self.sup.which_child(id).await.unwrap()
    }

    /// All children in order: those that run with their incarnation, the others with their status. `a1 b3 c:parked`
    pub(super) async fn list(&self) -> String {
        let listed = self.sup.which_children().await.unwrap();
        let show = |info: &ChildInfo| match info.status {
            Status::Running => format!("{}{}", info.id, info.incarnation),
            other => format!("{}:{other}", info.id),
        };
        listed.iter().map(show).collect::<Vec<_>>().join(" ")
    }

    /// OTP's numbers: specs, active, supervisors, workers.
    pub(super) async fn counts(&self) -> [usize; 4] {
        let Counts { specs, active, supervisors, workers } = self.sup.count_children().await.unwrap();
        [specs, active, supervisors, workers]
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

    /// The supervisor has ended on its own: for too many restarts, with all its children.
    pub(super) async fn escalated(self) {
        let down = self.sup.ended().await;
        let ExitReason::Shutdown(text) = &down.reason else { panic!("{down:?}") };
        assert!(text.starts_with("too many restarts, the last of "), "{text}");
        self.end().await;
    }

    /// Stops everything, and checks that nothing is left.
    pub(super) async fn end(self) -> ChildDown {
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

/// Waits until nothing happens any more without time going by: the paused clock moves only when every task waits.
pub(super) async fn quiet() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// A supervisor of one kind of each strategy.
pub(super) fn one_for_one() -> SupervisorSpec {
    SupervisorSpec::new("s", Strategy::OneForOne)
}

pub(super) fn one_for_all() -> SupervisorSpec {
    SupervisorSpec::new("s", Strategy::OneForAll)
}

pub(super) fn rest_for_one() -> SupervisorSpec {
    SupervisorSpec::new("s", Strategy::RestForOne)
}

pub(super) fn dynamic() -> SupervisorSpec {
    SupervisorSpec::dynamic("s")
}

/// At most so many restarts in ten seconds.
pub(super) fn at_most(restarts: u32) -> Intensity {
    Intensity::new(restarts, 10 * SECOND)
}
