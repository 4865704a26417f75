//! Sleep against everything that may come in: nothing is lost, nothing is doubled, in any order.

use std::sync::atomic::{AtomicUsize, Ordering};

use tamtam::{
    Message, SendError,
    session::{PassivateError, Refusal},
};

use super::{Arc, ask, counts, create, said, start};

use crate::support::taped;

/// Cheap random numbers, the same for the same seed.
struct Dice(u64);

impl Dice {
    fn up_to(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % (most + 1)
    }
}

/// Invariant 17 (supervision §8), promise 1: 10,000 sends against as many attempts to put their sessions to sleep, each at a
/// random moment: every message that was acknowledged is in the model's context exactly once and in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn invariant_17_passivate_against_send_loses_and_doubles_nothing() {
    const SESSIONS: usize = 100;
    const SENDS: usize = 100;
    let folder = taped::folder();
    let model = counts();
    let runtime = start(folder.path(), model.clone()).await;
    let slept = Arc::new(AtomicUsize::new(0));
    let mut tasks = Vec::new();
    for n in 0..SESSIONS {
        let id = create(&runtime, folder.path()).await.id().clone();
        let sends = tokio::spawn({
            let (runtime, id) = (runtime.clone(), id.clone());
            async move {
                let mut dice = Dice(0x9e37_79b9 + n as u64);
                for sent in 0..SENDS {
                    // A handle of its own each time, so that slots come and go too.
                    let receipt = runtime.session(&id).prompt(sent.to_string()).await.unwrap();
                    if dice.up_to(3) == 0 {
                        receipt.wait().await.unwrap();
                    }
                    for _ in 0..dice.up_to(20) {
                        tokio::task::yield_now().await;
                    }
                    if dice.up_to(40) == 0 {
                        runtime.session(&id).wait().await.unwrap();
                    }
                }
                runtime.session(&id).wait().await.unwrap();
            }
        });
        let sleeps = tokio::spawn({
            let (runtime, id, slept, stop) = (runtime.clone(), id.clone(), slept.clone(), sends.abort_handle());
            async move {
                let mut dice = Dice(0x51_7cc1 + n as u64);
                while !stop.is_finished() {
                    match runtime.passivate(&id).await {
                        Ok(()) => drop(slept.fetch_add(1, Ordering::Relaxed)),
                        Err(PassivateError::Busy { .. }) => {}
                        Err(other) => panic!("{other}"),
                    }
                    for _ in 0..dice.up_to(30) {
                        tokio::task::yield_now().await;
                    }
                }
            }
        });
        tasks.push((id, sends, sleeps));
    }
    let expected: Vec<String> = (0..SENDS).map(|sent| sent.to_string()).chain(["last".to_owned()]).collect();
    let mut ids = Vec::new();
    for (id, sends, sleeps) in tasks {
        sends.await.unwrap();
        sleeps.await.unwrap();
        assert_eq!(ask(&runtime.session(&id), "last").await, (SENDS + 1).to_string());
        ids.push(id);
    }
    let requests = model.requests();
    for id in ids {
        let last = requests.iter().rev().find(|request| request.key.starts_with(id.as_str())).unwrap();
        assert_eq!(said(last), expected);
    }
    assert!(slept.load(Ordering::Relaxed) > 100, "the race was not run: {slept:?} sleeps");
    assert_eq!(runtime.crashes(), []);
    assert!(runtime.shutdown().await.is_empty());
}

/// Invariant 17, the same against restarts of the actor.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn invariant_17_restart_against_send_and_sleep_loses_and_doubles_nothing() {
    const SENDS: usize = 300;
    let folder = taped::folder();
    let model = counts();
    let runtime = start(folder.path(), model.clone()).await;
    let id = create(&runtime, folder.path()).await.id().clone();
    let sends = tokio::spawn({
        let (runtime, id) = (runtime.clone(), id.clone());
        async move {
            for sent in 0..SENDS {
                let message = Message::user(sent.to_string());
                // What does not fit is sent again, and is the same message.
                while let Err(full) = runtime.session(&id).prompt(message.clone()).await {
                    assert!(matches!(full, SendError::Refused(Refusal::InboxFull { .. })), "{full}");
                    tokio::task::yield_now().await;
                }
            }
        }
    });
    let mut dice = Dice(7);
    while !sends.is_finished() {
        if dice.up_to(2) == 0 {
            runtime.operate().restart(id.as_str()).await.unwrap();
        } else {
            drop(runtime.passivate(&id).await);
        }
    }
    sends.await.unwrap();
    let session = runtime.session(&id);
    // A turn that was cut off twice with nothing new in between waits to be told to go on.
    while !session.state().await.unwrap().is_idle() {
        session.go_on().await.unwrap();
        tokio::task::yield_now().await;
    }
    assert_eq!(ask(&session, "last").await, (SENDS + 1).to_string());
    let expected: Vec<String> = (0..SENDS).map(|sent| sent.to_string()).chain(["last".to_owned()]).collect();
    assert_eq!(said(model.requests().last().unwrap()), expected);
    assert!(runtime.shutdown().await.is_empty());
}
