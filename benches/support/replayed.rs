//! How fast tapes are replayed: each decision made again and compared with the tape, byte for byte.

use std::{sync::Arc, time::Instant};

use tamtam::{
    SessionId,
    ops::replay::Replay,
    tape::{Store, StoreOptions, TapeAccess},
};

use super::parts::{Calls, Nothing, options, runtime, scaled};

/// (r) 20 sessions of one turn each, of 1,000 steps with a call of a tool that does nothing (`TAMTAM_SESSIONS` for more or fewer).
/// The tapes are read from the disk, and that counts.
pub(crate) fn replay(tokio: &tokio::runtime::Runtime) {
    let sessions: usize = std::env::var("TAMTAM_SESSIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(scaled(20));
    let folder = tempfile::tempdir().unwrap();
    let ids: Vec<SessionId> = tokio.block_on(async {
        let runtime = runtime(folder.path(), Arc::new(Calls::new(scaled(1_000))), Nothing).await;
        let mut ids = Vec::new();
        for _ in 0..sessions {
            let session = runtime.create(options(folder.path())).await.unwrap();
            session.prompt("go").await.unwrap().wait().await.unwrap();
            ids.push(session.id().clone());
        }
        drop(runtime.shutdown().await);
        ids
    });
    let reading = StoreOptions::default().access(TapeAccess::Read);
    for _ in 0..3 {
        let store = Store::open(folder.path().join("store"), reading.clone()).unwrap();
        let (mut entries, mut decisions, start) = (0, 0, Instant::now());
        for id in &ids {
            for step in Replay::open(&store, id).unwrap() {
                assert_eq!(step.difference, None);
                entries += step.recorded.len();
                decisions += 1;
            }
        }
        let rate = entries as f64 / start.elapsed().as_secs_f64();
        println!("r: replay: {rate:.0} entries/s ({entries} entries, {decisions} decisions, {sessions} sessions)");
    }
}
