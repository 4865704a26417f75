//! The shell over a disk that is slow or refuses.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::atomic::Ordering;

use tokio::sync::oneshot;

use super::*;
use crate::{
    hook::Hooks,
    ids::SessionId,
    message::{Message, ModelRef},
    model::{ErrorKind, ModelError, Models, Scripted},
    session::{Delivery, Held, Settings},
    supervisor::{Registry, card::Shown},
    tape::{
        Store,
        tests::support::{FakeDisk, own_folder, small, store_on},
    },
    tool::Toolbox,
};

/// Far more operations than a test makes.
const ALL: usize = 10_000;

struct Script(Arc<Scripted>);

impl Models for Script {
    fn find(&self, _: &ModelRef) -> Result<Arc<dyn crate::model::Model>, ModelError> {
        Ok(self.0.clone())
    }
}

/// One life of a session on a disk that a test breaks.
struct Bench {
    live: Live,
    disk: Arc<FakeDisk>,
    store: Store,
    _card: Shown,
    _folder: tempfile::TempDir,
}

fn bench() -> Bench {
    let (folder, disk, registry) = (own_folder(), FakeDisk::new(), Registry::new());
    let store = store_on(folder.path(), small(), &disk);
    let models = Arc::new(Script(Arc::new(Scripted::new([]))));
    let hooks = Hooks(Arc::new([]));
    let passivation = crate::actors::timekeeper::Passivation::default();
    let host = Host::new(store.clone(), Toolbox::default(), models, hooks, registry.clone(), passivation);
    let host = Arc::new(host);
    let id: SessionId = "s".parse().unwrap();
    let slot = host.slot(&id);
    // As if it were awake.
    slot.begin_activation().unwrap().land(Ok(()));
    let mut tape = store.create(&id, build::notify(&slot)).unwrap();
    let now = host.clock.now();
    let mut state = State::new(id, Settings::new("/w", "fake/model".parse().unwrap()), now);
    let record = Record::State(Arc::new(state.clone()));
    let first = Entry { seq: Seq(1), time: now, cause: None, turn: None, step: None, ticket: None, record };
    assert!(matches!(tape.append(&[first.to_tape().unwrap()]), Appended::Now(Ok(_))));
    state.apply(&first);
    #[cfg(feature = "fault-injection")]
    let tape = Tape::new(tape, None);
    let card = registry.show(None, "s", "session");
    let live = Live::new(host, slot, card.0.clone(), 0, tape, state);
    Bench { live, disk, store, _card: card, _folder: folder }
}

impl Bench {
    fn send(&self, id: &str) -> oneshot::Receiver<Result<Held, SendError>> {
        let message = Message::user("go").with_id(id.into());
        let send = |reply| Signal::Send { message, delivery: Delivery::Queue, expect_turn: None, reply };
        self.live.slot.input(send).unwrap()
    }
}

/// While the disk refuses, a moment that is due is decided about when the disk is tried again, and not at every wake: else
/// each try would set the next one off at once.
#[tokio::test(start_paused = true)]
async fn a_disk_that_refuses_is_not_asked_again_by_every_tick() {
    let mut bench = bench();
    let _receipt = bench.send("m");
    bench.live.work();
    let ticket = bench.live.state.request().unwrap().0;
    bench.live.on(Signal::Failed { ticket, error: ModelError::new(ErrorKind::Network, "gone") });
    let due = bench.live.state.due().unwrap();
    bench.disk.fail_from(0, ALL);
    tokio::time::advance(due.since(bench.live.now()) + std::time::Duration::from_millis(1)).await;
    bench.live.after_work();
    assert_eq!((bench.live.held.len(), bench.live.due()), (1, None));

    let tried = bench.disk.operations.load(Ordering::SeqCst);
    (0..20).for_each(|_| bench.live.after_work());
    assert_eq!(bench.disk.operations.load(Ordering::SeqCst), tried);
    assert_eq!(bench.live.timer.as_ref().map(|(at, _)| *at), bench.live.storage_retry);

    bench.disk.heal();
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    bench.live.after_work();
    assert!(bench.live.held.is_empty() && bench.live.state.request().is_some());
}

/// A receipt that only waits with an append for the disk speaks of what that append records: where it fails, whoever waits for
/// it is told so, and can send again.
#[tokio::test]
async fn replies_behind_a_failed_append_are_told_of_it() {
    let mut bench = bench();
    bench.disk.be_slow();
    // The first slow write makes the store leave the next ones to its thread.
    bench
        .live
        .on(Signal::Configure { settings: Box::new(other_settings(&bench.live)), reply: crate::session::ReplyTo(0) });
    bench.disk.shut();
    let (first, again) = (bench.send("m"), bench.send("m"));
    bench.live.work();
    assert_eq!(bench.live.pending.len(), 1);
    bench.disk.fail_from(0, ALL);
    bench.disk.open_up();
    assert!(bench.store.settle(std::time::Duration::from_secs(60)));
    bench.live.work();
    for reply in [first, again] {
        assert!(matches!(reply.await.unwrap(), Err(SendError::Storage(_))));
    }
    assert!(bench.live.pending.is_empty() && bench.live.state.turn.is_none());
}

fn other_settings(live: &Live) -> Settings {
    let mut settings = (*live.state.settings).clone();
    settings.retries_max = 2;
    settings
}
