//! A place in a script where the model waits until it is let go.

use tokio::sync::watch;

/// Holds replies at a named place. Once released it stays open.
///
/// A reply that nobody releases hangs; a script file's barriers can be released by a host only.
#[derive(Clone, Debug)]
pub struct Barrier {
    state: std::sync::Arc<watch::Sender<Held>>,
}

#[derive(Debug, Default)]
struct Held {
    reached: u64,
    is_open: bool,
}

impl Default for Barrier {
    fn default() -> Barrier {
        Barrier { state: std::sync::Arc::new(watch::Sender::new(Held::default())) }
    }
}

impl Barrier {
    /// Resolves as soon as a reply has come here, also if it has gone on since.
    pub async fn reached(&self) {
        self.reached_times(1).await;
    }

    /// Resolves as soon as replies have come here that many times.
    pub async fn reached_times(&self, times: u64) {
        // The sender is ours, so the channel cannot be closed.
        let _ = self.state.subscribe().wait_for(|held| held.reached >= times).await;
    }

    /// Lets go whoever waits here, and everyone who comes later.
    pub fn release(&self) {
        self.state.send_modify(|held| held.is_open = true);
    }

    pub(super) async fn pass(&self) {
        self.state.send_modify(|held| held.reached += 1);
        let _ = self.state.subscribe().wait_for(|held| held.is_open).await;
    }
}
