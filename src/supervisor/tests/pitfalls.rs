//! What ractor alone would get wrong, and what must hold for any child.

use std::sync::{Arc, Mutex, mpsc as blocking};

use super::*;
use crate::supervisor::shell::{Behaviour, Context as Cx, ExitError};

/// P10, P5: the default of ractor ends a parent with any of its children.
#[tokio::test(start_paused = true)]
async fn p10_the_normal_end_of_a_child_ends_nobody_else() {
    let lab = Lab::start(SupervisorSpec::dynamic("s")).await;
    lab.add("a", Restart::Temporary).await;
    lab.add("b", Restart::Temporary).await;
    lab.children.order("a", Order::Return);
    tokio::time::sleep(SECOND).await;
    assert_eq!(lab.sup.count_children().await.unwrap().active, 1);
    lab.end().await;
}

/// P2: ractor kills the children of a parent that stops.
#[tokio::test(start_paused = true)]
async fn invariant_26_children_get_to_clean_up_when_their_supervisor_stops() {
    let cleaned = Arc::new(Mutex::new(0));
    let count = cleaned.clone();
    let child = ChildSpec::new("a", move |cx| {
        let count = count.clone();
        async move {
            cx.stopping().await;
            tokio::time::sleep(SECOND).await;
            *count.lock().unwrap() += 1;
            Ok(())
        }
    });
    let (inner, _) = ChildSpec::supervisor(SupervisorSpec::new("inner", Strategy::OneForOne).child(child)).unwrap();
    let lab = Lab::start(SupervisorSpec::new("s", Strategy::OneForOne).child(inner)).await;
    lab.end().await;
    assert_eq!(*cleaned.lock().unwrap(), 1);
}

/// P8.
#[tokio::test(start_paused = true)]
async fn invariant_28_shutdown_twice_side_by_side_and_from_a_child_all_return() {
    let children = Children::default();
    let slow = children.spec("slow", Restart::Permanent, SECOND);
    let lab = Lab::with(children, SupervisorSpec::new("s", Strategy::OneForOne).child(slow)).await;
    let sup = lab.sup.clone();
    let suicidal = ChildSpec::new("suicidal", move |_| {
        let sup = sup.clone();
        async move {
            sup.shutdown().await;
            Ok(())
        }
    });
    lab.sup.start_child(suicidal).await.unwrap();
    let (one, other) = tokio::join!(lab.sup.shutdown(), lab.sup.shutdown());
    assert_eq!(one, other);
    assert_eq!(lab.sup.shutdown().await, one);
    assert_eq!(lab.end().await, one);
}

/// P1, P5, and invariant 1: nothing of the old incarnation is there when the new one begins, and so its name is free.
#[tokio::test(start_paused = true)]
async fn invariant_27_a_new_life_begins_when_the_old_one_and_its_state_are_gone() {
    let lab = Lab::start(SupervisorSpec::dynamic("s").intensity(Intensity::new(1000, SECOND))).await;
    for n in 0..20 {
        lab.add(&n.to_string(), Restart::Permanent).await;
    }
    for round in 2..12 {
        for n in 0..20 {
            lab.children.order(&n.to_string(), Order::Panic);
        }
        for n in 0..20 {
            lab.until(&n.to_string(), round).await;
        }
    }
    // `end` asserts that no two copies were ever alive.
    lab.end().await;
}

/// Invariant 34, of the tree alone.
#[tokio::test(start_paused = true)]
async fn two_trees_with_the_same_ids_do_not_see_each_other() {
    let (one, other) = (Lab::start(park_after(2)).await, Lab::start(park_after(2)).await);
    one.add("a", Restart::Transient).await;
    other.add("a", Restart::Transient).await;
    one.crash("a").await;
    one.until("a", 2).await;
    assert_eq!(other.info("a").await.incarnation, 1);
    assert_eq!(other.registry.crashes(), vec![]);
    one.end().await;
    assert_eq!(other.info("a").await.status, Status::Running);
    other.end().await;
}

/// An actor that does to itself what it is ordered, with a worker task next to it.
struct Puppet {
    log: Arc<Mutex<Vec<&'static str>>>,
    mailbox: Arc<Mutex<Option<crate::supervisor::shell::Mailbox<Tell>>>>,
}

enum Tell {
    Panic,
    Wait(Duration),
    Leave,
}

impl Behaviour for Puppet {
    type Msg = Tell;

    async fn init(&mut self, cx: &mut Cx<Tell>) -> Result<crate::supervisor::shell::Init, ExitError> {
        self.log.lock().unwrap().push("init");
        *self.mailbox.lock().unwrap() = Some(cx.mailbox());
        Ok(crate::supervisor::shell::Init::Run)
    }

    async fn handle(&mut self, msg: Tell, cx: &mut Cx<Tell>) -> Result<(), ExitError> {
        match msg {
            Tell::Panic => panic!("ouch"),
            Tell::Wait(time) => {
                tokio::time::sleep(time).await;
                self.log.lock().unwrap().push("waited");
            }
            Tell::Leave => cx.exit(),
        }
        Ok(())
    }

    async fn terminate(&mut self, _: &ExitReason, _: &mut Cx<Tell>) {
        self.log.lock().unwrap().push("terminate");
    }

    fn describe(msg: &Tell) -> &'static str {
        match msg {
            Tell::Panic => "panic",
            Tell::Wait(_) => "wait",
            Tell::Leave => "leave",
        }
    }
}

#[derive(Clone, Default)]
struct Strings {
    log: Arc<Mutex<Vec<&'static str>>>,
    mailbox: Arc<Mutex<Option<crate::supervisor::shell::Mailbox<Tell>>>>,
}

impl Strings {
    fn spec(&self) -> ChildSpec {
        let strings = self.clone();
        ChildSpec::behaviour("p", "puppet", move || Puppet {
            log: strings.log.clone(),
            mailbox: strings.mailbox.clone(),
        })
    }

    fn tell(&self, tell: Tell) {
        self.mailbox.lock().unwrap().as_ref().unwrap().send(tell).unwrap();
    }

    fn log(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.log.lock().unwrap())
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_report_says_which_message_was_in_hand_and_what_came_before() {
    let lab = Lab::start(park_after(5)).await;
    let strings = Strings::default();
    lab.sup.start_child(strings.spec()).await.unwrap();
    strings.tell(Tell::Wait(SECOND));
    strings.tell(Tell::Panic);
    lab.until("p", 2).await;
    let crash = lab.registry.crashes().remove(0);
    assert_eq!(crash.supervisor, "sessions");
    assert_eq!(crash.context, Context::ChildTerminated);
    assert_eq!(crash.message.as_deref(), Some("panic"));
    assert_eq!(
        crash.recent.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["→ starting", "→ running", "wait", "panic"]
    );
    assert_eq!(crash.decision, Decision::Restart { after_ms: 0 });
    assert_eq!(strings.log(), ["init", "waited", "init"], "after a panic there is no last word");
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn p6_a_stop_waits_for_the_handler_and_a_kill_drops_it() {
    let lab = Lab::start(park_after(5)).await;
    let strings = Strings::default();
    lab.sup.start_child(strings.spec().shutdown(Shutdown::After(5 * SECOND))).await.unwrap();
    strings.tell(Tell::Wait(2 * SECOND));
    settle().await;
    lab.sup.terminate_child("p").await.unwrap();
    assert_eq!(strings.log(), ["init", "waited", "terminate"]);

    lab.sup.start_child(strings.spec().shutdown(Shutdown::After(5 * SECOND))).await.unwrap();
    strings.tell(Tell::Wait(60 * SECOND));
    settle().await;
    lab.sup.terminate_child("p").await.unwrap();
    assert_eq!(strings.log(), ["init"]);
    assert_eq!(lab.registry.crashes().last().unwrap().message.as_deref(), Some("wait"));
    lab.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_actor_that_leaves_gets_its_last_word_and_its_mailbox_says_gone() {
    let lab = Lab::start(park_after(5)).await;
    let strings = Strings::default();
    lab.sup.start_child(strings.spec().restart(Restart::Transient)).await.unwrap();
    strings.tell(Tell::Leave);
    tokio::time::sleep(SECOND).await;
    assert_eq!(strings.log(), ["init", "terminate"]);
    let mailbox = strings.mailbox.lock().unwrap().clone().unwrap();
    assert_eq!(mailbox.send(Tell::Leave), Err(crate::supervisor::shell::Gone));
    lab.end().await;
}

/// Invariant 1, for workers.
#[tokio::test(start_paused = true)]
async fn a_new_incarnation_waits_for_the_workers_of_the_old_one_but_not_for_ever() {
    let lab = Lab::start(park_after(5)).await;
    let strings = Strings::default();
    let workers = tokio_util::task::TaskTracker::new();
    lab.sup.start_child(strings.spec().workers(workers.clone(), 5 * SECOND)).await.unwrap();
    let worker = workers.spawn(tokio::time::sleep(3 * SECOND));
    strings.tell(Tell::Panic);
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!(lab.info("p").await.incarnation, 1);
    lab.until("p", 2).await;
    assert!(worker.is_finished());

    let mut events = lab.registry.watch(Some("p"));
    events.next().await.unwrap();
    let stubborn = workers.spawn(tokio::time::sleep(100 * SECOND));
    strings.tell(Tell::Panic);
    lab.until("p", 3).await;
    assert!(!stubborn.is_finished());
    assert_eq!(events.next().await.unwrap().what, Happening::WorkersLeft { count: 1 });
    stubborn.abort();
    lab.end().await;
}

/// Also invariants 6 and 38.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn invariant_07_a_child_in_code_that_never_awaits_is_reported_and_gets_no_second_copy() {
    let lab = Lab::start(SupervisorSpec::dynamic("s")).await;
    let (release, wait) = blocking::channel::<()>();
    let wait = Mutex::new(wait);
    let starts = Arc::new(Mutex::new(0));
    let count = starts.clone();
    let wait = Arc::new(wait);
    let child = ChildSpec::new("stuck", move |_| {
        let (wait, count) = (wait.clone(), count.clone());
        async move {
            *count.lock().unwrap() += 1;
            // It ends when the test lets it, or is over.
            let _ = wait.lock().unwrap().recv();
            Ok(())
        }
    });
    lab.sup.start_child(child.shutdown(Shutdown::Kill)).await.unwrap();
    while *starts.lock().unwrap() == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(lab.sup.terminate_child("stuck").await, Err(AdminError::Unkillable));
    assert_eq!(lab.info("stuck").await.status, Status::Unkillable);
    assert_eq!(lab.registry.snapshot()[0].find("stuck").unwrap().status, Status::Unkillable);
    assert_eq!(lab.sup.recycle_child("stuck").await, Err(AdminError::Unkillable));
    release.send(()).unwrap();
    while lab.sup.which_child("stuck").await.is_ok() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(*starts.lock().unwrap(), 1);
    lab.end().await;
}

/// A child in code that never awaits, and how it is let go: it counts its starts and the copies that are alive.
struct Stuck {
    release: blocking::Sender<()>,
    spec: ChildSpec,
    starts: Arc<Mutex<u32>>,
}

fn stuck() -> Stuck {
    let (release, wait) = blocking::channel::<()>();
    let wait = Arc::new(Mutex::new(wait));
    let starts = Arc::new(Mutex::new(0));
    let count = starts.clone();
    let spec = ChildSpec::new("stuck", move |cx| {
        let (wait, count) = (wait.clone(), count.clone());
        async move {
            *count.lock().unwrap() += 1;
            if cx.incarnation() == 1 && *count.lock().unwrap() == 1 {
                // It ends when the test lets it, or is over.
                let _ = wait.lock().unwrap().recv();
            }
            cx.stopping().await;
            Ok(())
        }
    });
    Stuck { release, spec: spec.shutdown(Shutdown::Kill), starts }
}

impl Stuck {
    async fn is_stuck(&self) {
        while *self.starts.lock().unwrap() == 0 {
            tokio::task::yield_now().await;
        }
    }
}

/// Promise 10: what could not be stopped deep in the tree is named at its root.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn what_is_left_deep_in_a_tree_is_named_by_the_root() {
    let stuck = stuck();
    let inner = SupervisorSpec::new("inner", Strategy::OneForOne).child(stuck.spec.clone());
    let (inner, inner_handle) = ChildSpec::supervisor(inner).unwrap();
    let (middle, _) = ChildSpec::supervisor(SupervisorSpec::new("middle", Strategy::OneForOne).child(inner)).unwrap();
    let lab = Lab::start(one_for_one().child(middle)).await;
    stuck.is_stuck().await;
    let down = lab.sup.shutdown().await;
    assert_eq!(down.leftover, ["middle/inner/stuck"]);
    assert_eq!(inner_handle.ended().await.leftover, ["stuck"]);
    stuck.release.send(()).unwrap();
}

/// Invariant 1, one level up: a supervisor that gives up next to a child that does not end comes back when that has ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn invariant_01_a_supervisor_is_not_started_again_beside_what_it_left_behind() {
    let stuck = stuck();
    let children = Children::default();
    let inner = SupervisorSpec::new("inner", Strategy::OneForOne)
        .intensity(Intensity::new(0, SECOND))
        .child(stuck.spec.clone())
        .child(children.puppet("poison", Restart::Permanent));
    let (inner, _) = ChildSpec::supervisor(inner).unwrap();
    let lab = Lab::with(children, one_for_one().child(inner)).await;
    stuck.is_stuck().await;
    lab.children.order("poison", Order::Fail);
    lab.until_status("inner", Status::Unkillable).await;
    assert_eq!(*stuck.starts.lock().unwrap(), 1, "no second copy");
    stuck.release.send(()).unwrap();
    lab.until("inner", 2).await;
    // A child is up before the first line of its code has run.
    while *stuck.starts.lock().unwrap() < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(*stuck.starts.lock().unwrap(), 2);
    assert_eq!(lab.info("inner").await.restarts, 1, "its end counts as the crash it was");
    lab.end().await;
}

/// The supervisor of a tree is killed: its children go with it, and it comes back with those of its spec.
#[tokio::test(start_paused = true)]
async fn children_of_a_killed_supervisor_are_gone_before_its_next_incarnation() {
    let children = Children::default();
    let inner = SupervisorSpec::new("inner", Strategy::OneForOne)
        .child(children.spec("a", Restart::Permanent, Duration::from_secs(60)).shutdown(Shutdown::Infinity));
    let (inner, _) = ChildSpec::supervisor(inner).unwrap();
    let lab = Lab::with(children, SupervisorSpec::new("s", Strategy::OneForOne)).await;
    lab.sup.start_child(inner.shutdown(Shutdown::Kill)).await.unwrap();
    settle().await;
    assert_eq!(lab.sup.recycle_child("inner").await, Ok(Done::Started));
    settle().await;
    assert_eq!(lab.children.take_diary(), ["+a", "-a", "+a"]);
    lab.sup.terminate_child("inner").await.unwrap();
    lab.end().await;
}

/// A caller that waits for the end of a supervisor learns of it, also if the tokio runtime ends between the end of the
/// supervisor's actor and that of its children.
#[test]
fn a_runtime_that_ends_before_the_children_of_a_killed_supervisor_tells_those_who_wait() {
    let build = || tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_all().build().unwrap();
    let (ends, stays) = (build(), build());
    let stuck = stuck();
    let inner = SupervisorSpec::new("inner", Strategy::OneForOne).child(stuck.spec.clone());
    let (inner, inner_handle) = ChildSpec::supervisor(inner).unwrap();
    let lab = ends.block_on(Lab::start(one_for_one().child(inner.shutdown(Shutdown::Kill))));
    ends.block_on(async {
        stuck.is_stuck().await;
        assert_eq!(lab.sup.terminate_child("inner").await, Err(AdminError::Unkillable));
    });
    ends.shutdown_background();
    let down = stays.block_on(async { tokio::time::timeout(Duration::from_secs(60), inner_handle.ended()).await });
    assert_eq!(down.unwrap().reason, ExitReason::Cancelled);
    stuck.release.send(()).unwrap();
}

#[test]
fn a_build_where_panics_unwind_is_not_refused() {
    assert_eq!(refuse_panic_abort(), Ok(()));
}
