//! Gives an incarnation of a session what it needs before its first input: its tape and its state, the facts that tools state
//! about the calls that are not over, and the entries that the previous incarnation did not publish. The tape store opens and
//! folds the tape; this file waits for it.
//!
//! A tape that cannot be read just now is not a crash: the incarnation tries again for [`LOAD_WAIT`], so that open work goes on
//! by itself. After about three seconds it tells callers why the session does not come up. Any other failure, such as a tape that
//! is missing or damaged, ends the start at once.
//!
//! A change must keep [`LOAD_WAIT`] longer than the window of 60 s in which the supervisor counts the crashes of a session
//! (`runtime/tree.rs`): otherwise a bad disk would park sessions.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

use crate::{
    actor::{facts, session::SessionActor, shared::Shared, tape_store::Opening},
    error::OpenError,
    kernel::{Entry, State},
    ops::taped,
    supervisor::NodeState,
    tape::TapeStoreExt as _,
    tool::CallFacts,
    words::ids::{Seq, SessionId},
};

/// How long an incarnation waits for a tape that cannot be read just now; after that its start fails, which counts as a crash.
/// Longer than the window in which the crashes of a session are counted, so that two failed starts do not count together:
/// otherwise a bad disk would park the session. A session with a restart policy other than the default has no such window: there
/// each failed start counts.
pub(crate) const LOAD_WAIT: Duration = Duration::from_secs(65);

/// The first wait before the next try; each further wait is twice as long.
const LOAD_AGAIN_MIN: Duration = Duration::from_millis(50);

/// The longest such wait. From the first wait of this length on, about three seconds after the first try, callers are told why
/// the session does not come up.
const LOAD_AGAIN_MAX: Duration = Duration::from_secs(2);

impl SessionActor {
    /// Has the tape and the state put into the slot, unless they are there. Tries again while the tape cannot be read, so that open
    /// work goes on by itself; callers wait a few seconds only.
    pub(super) async fn load(&self, node: &NodeState) -> Result<(), OpenError> {
        let (until, mut wait, mut tries) = (Instant::now() + LOAD_WAIT, LOAD_AGAIN_MIN, 0_u32);
        while !self.slot.is_prepared() {
            let error = match self.shared.orders.open(&self.slot.id, Opening::Load).await {
                Err(error) if error.may_pass() && Instant::now() < until => error,
                opened => return opened,
            };
            tries += 1;
            if tries.is_power_of_two() {
                tracing::warn!(session = %self.slot.id, %error, looks = tries, "cannot read the tape; retrying");
            }
            node.doing(format!("its tape cannot be read just now: {error}"));
            if wait >= LOAD_AGAIN_MAX {
                self.slot.cannot_be_read(error);
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LOAD_AGAIN_MAX);
        }
        Ok(())
    }

    /// Asks the tools again about the calls that are not over.
    pub(super) async fn facts(&self, state: &State) -> BTreeMap<u32, CallFacts> {
        let tools = self.slot.kept_tools().unwrap_or_else(|| self.shared.tools.now());
        let (places, calls): (Vec<_>, Vec<_>) =
            state.calls_to_ask().into_iter().map(|(index, name, input)| (index, (name, input))).unzip();
        places.into_iter().zip(facts::ask(&tools.toolbox, calls).await).collect()
    }

    /// The entries that an earlier incarnation had put on the tape and did not publish, because it died before or right after the
    /// disk answered; with the state before them.
    pub(super) async fn unpublished(&self, state: &State) -> Option<(State, Vec<Entry>)> {
        let told = self.slot.told();
        if told == Seq::ZERO || told >= state.seq {
            return None;
        }
        let id = self.slot.id.clone();
        match self.shared.blocking(move |shared| since(shared, &id, told)).await {
            Ok(unpublished) => Some(unpublished),
            Err(error) => {
                tracing::warn!(session = %self.slot.id, ?error, "what happened before a crash could not be told");
                None
            }
        }
    }
}

/// The state at entry `seq`, and the entries after it.
fn since(shared: &Shared, id: &SessionId, seq: Seq) -> Result<(State, Vec<Entry>), OpenError> {
    let before = taped::state(id, &shared.store.read_to(id, seq)?.entries)?;
    Ok((before, taped::entries(id, &shared.store.read(id, seq)?)?))
}
