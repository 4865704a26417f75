//! A [`Barrier`]: a place with a name in a script, where the scripted model waits until a test releases it.
//!
//! A released barrier stays open. A reply at a barrier that is never released hangs until its request is dropped; a change must
//! keep waiting free of timeouts, because tests decide about time.

use tokio::sync::watch;

/// Holds replies at a named place. Once released, it stays open. Clones are the same barrier.
///
/// A reply that is never released hangs. Only a host can release the barriers of a script file
/// ([`Scripted::barrier`](super::Scripted::barrier)).
#[derive(Clone, Debug)]
pub struct Barrier {
    state: std::sync::Arc<watch::Sender<State>>,
}

#[derive(Debug, Default)]
struct State {
    reached: u64,
    is_open: bool,
}

impl Default for Barrier {
    fn default() -> Barrier {
        Barrier { state: std::sync::Arc::new(watch::Sender::new(State::default())) }
    }
}

impl Barrier {
    /// Waits until a reply has come to the barrier, even if it has continued since.
    pub async fn reached(&self) {
        self.reached_times(1).await;
    }

    /// Waits until replies have come to the barrier `times` times.
    pub async fn reached_times(&self, times: u64) {
        // This value holds the sender, so the channel cannot be closed.
        let _ = self.state.subscribe().wait_for(|state| state.reached >= times).await;
    }

    /// Releases all replies that wait here, and all that come later.
    pub fn release(&self) {
        self.state.send_modify(|state| state.is_open = true);
    }

    pub(super) async fn pass(&self) {
        self.state.send_modify(|state| state.reached += 1);
        let _ = self.state.subscribe().wait_for(|state| state.is_open).await;
    }
}
