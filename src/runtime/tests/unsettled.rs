//! Who ends, stops or parks a session while a message is on its way to its tape: the sender gets the result, once the disk has
//! answered.

use std::sync::Arc;

use super::*;
use crate::{
    SendError,
    session::receipt::Receipt,
    tape::{
        Store,
        tests::support::{FakeDisk, own_folder, small, store_on},
    },
    words::{ids::Seq, message::Message},
};

/// What takes a session's actor away.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ends {
    Shutdown,
    Stop,
    Park,
}

const ALL: [Ends; 3] = [Ends::Shutdown, Ends::Stop, Ends::Park];

/// A sent message on its way to a stalled disk, and a session that is taken away meanwhile.
struct Scene {
    disk: Arc<FakeDisk>,
    store: Store,
    runtime: Runtime,
    session: Session,
    sent: tokio::task::JoinHandle<Result<Receipt, SendError>>,
    ended: tokio::task::JoinHandle<()>,
    _folder: tempfile::TempDir,
}

async fn scene(ends: Ends) -> Scene {
    let (folder, disk) = (own_folder(), FakeDisk::new());
    let store = store_on(&folder.path().join("store"), small(), &disk);
    let runtime = Runtime::builder().tapes(Arc::new(store.clone())).model(counts()).start().await.unwrap();
    let session = create(&runtime, folder.path()).await;
    assert_eq!(ask(&session, "one").await, "1");
    // The first slow write makes the store leave the next ones to its thread.
    disk.be_slow();
    session.set_title(Some("slow".to_owned())).await.unwrap();
    disk.shut();
    let sender = session.clone();
    let sent = tokio::spawn(async move { sender.prompt(Message::user("two").with_id("m".into())).await });
    let waiting = disk.clone();
    tokio::task::spawn_blocking(move || waiting.wait_until_one_waits()).await.unwrap();
    let (ending, id) = (runtime.clone(), session.id().clone());
    let ended = tokio::spawn(async move {
        match ends {
            Ends::Shutdown => assert!(ending.shutdown().await.is_empty()),
            Ends::Stop => ending.operate().stop(id.as_str()).await.unwrap(),
            Ends::Park => ending.operate().park(id.as_str()).await.unwrap(),
        }
    });
    let is_gone = || match ends {
        Ends::Park => !runtime.parked().is_empty(),
        _ => session.slot.phase() == Phase::Passive,
    };
    until("its actor is gone", is_gone).await;
    Scene { disk, store, runtime, session, sent, ended, _folder: folder }
}

impl Scene {
    /// Releases the disk, and returns the sender's answer and how often the tape has the message.
    async fn go_on(self) -> (Result<Receipt, SendError>, usize) {
        self.disk.open_up();
        let told = timeout(SOON, self.sent).await.expect("the sender is told").unwrap();
        timeout(SOON, self.ended).await.expect("it ends").unwrap();
        drop(self.runtime.shutdown().await);
        let lines = self.store.read(self.session.id(), Seq::ZERO).unwrap();
        let accepted = lines.iter().filter(|line| line.kind == "accepted" && line.data.get().contains("two"));
        (told, accepted.count())
    }
}

/// Promise 1. On a refusal, a host would send it again under another id, and it would be done twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_message_that_reaches_the_tape_is_acknowledged_though_its_session_is_taken_away() {
    for ends in ALL {
        let scene = scene(ends).await;
        assert!(!scene.sent.is_finished(), "{ends:?}: the disk has not answered yet");
        // A message that comes now was not taken yet. It would wake a stopped session.
        if ends != Ends::Stop {
            let late = scene.session.prompt("late").await;
            assert!(matches!(late, Err(SendError::Closed | SendError::Parked)), "{ends:?}: {late:?}");
        }
        let (told, on_tape) = scene.go_on().await;
        assert_eq!((told.unwrap().message, on_tape), ("m".into(), 1), "{ends:?}");
    }
}

/// The side that must not happen: what the disk refused is not acknowledged, and the sender learns that nothing was recorded.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_message_that_the_disk_refuses_is_refused_in_the_words_of_what_took_its_session_away() {
    for ends in ALL {
        let scene = scene(ends).await;
        scene.disk.fail_from(0, 1);
        let (told, on_tape) = scene.go_on().await;
        let told = told.unwrap_err();
        let words = match ends {
            Ends::Shutdown => matches!(told, SendError::Closed),
            Ends::Park => matches!(told, SendError::Parked),
            Ends::Stop => matches!(told, SendError::Stopped),
        };
        assert!(words && on_tape == 0, "{ends:?}: {told}, {on_tape} on the tape");
    }
}
