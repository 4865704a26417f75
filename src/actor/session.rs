//! A session's actor: the shell round the core. It takes inputs out of its mailbox, asks the core for a decision, has the
//! entries written, and then does as the state says. Its handler never awaits a model, a tool, a hook, a person or a slow disk; its
//! start may wait for the tape (up to [`LOAD_WAIT`]) and for what tools say of open calls.
//!
//! **The tape is the state.** The actor holds no state of the conversation that is not on the tape, except the one decision that
//! is being written. Until the tape has it, its inputs stay in the mailbox and the state is what it was. After a crash, a panic of
//! a tape engine or a slow disk, the inputs are still there; the mailbox (`kernel/mailbox.rs`) decides what becomes of them.
//!
//! `load.rs` prepares an incarnation; `live.rs` holds a running one and takes its work; `append.rs` takes a decision to the tape;
//! `work.rs` starts and stops the workers; `build.rs` makes requests and calls from the state, `present.rs` describes the session for
//! the tree, and `logged.rs` for the log. The workers and the timer of an incarnation end with it, and the next one starts them from the
//! state.
//!
//! A change must not start work, answer a command or publish before the append is recorded, and must not let a stop wait for it.
//! [`Behaviour::MAY_WAIT`] is `false`: a handler that waits panics in debug builds.

mod append;
mod build;
#[cfg(feature = "fault-injection")]
mod held_back;
mod live;
mod load;
mod logged;
mod present;
mod spans;
#[cfg(test)]
mod tests;
mod work;

pub(crate) use load::LOAD_WAIT;

use live::{Live, Then};

use std::sync::Arc;

use crate::{
    actor::{
        shared::Shared,
        slot::{Prepared, Slot, Wake},
    },
    kernel::Input,
    supervisor::{
        ExitReason,
        shell::{Behaviour, Context, ExitError, Init},
    },
};
#[cfg(feature = "fault-injection")]
use held_back::Tape;

/// The behaviour of a session's actor. Each incarnation rebuilds its state from the tape.
pub(crate) struct SessionActor {
    shared: Arc<Shared>,
    slot: Arc<Slot>,
    live: Option<Live>,
}

impl SessionActor {
    pub(crate) fn new(shared: Arc<Shared>, slot: Arc<Slot>) -> SessionActor {
        SessionActor { shared, slot, live: None }
    }
}

impl Behaviour for SessionActor {
    type Msg = Wake;

    const TELLS_ITS_WORK: bool = true;
    const MAY_WAIT: bool = false;

    async fn init(&mut self, cx: &mut Context<Wake>) -> Result<Init, ExitError> {
        self.load(cx.node()).await?;
        let Some(Prepared { tape, state, flight }) = self.slot.prepared() else {
            return Err(ExitError(ExitReason::Error("its tape went to another start".to_owned())));
        };
        let unpublished = self.unpublished(&state).await;
        let calls = self.facts(&state).await;
        #[cfg(feature = "fault-injection")]
        let tape = Tape::new(tape, self.shared.hold_back_appends);
        fault!(self.shared.store.faults(), "session.init", self.slot.id.as_str());
        let state = Arc::new(state);
        let recover = Input::Recover { calls };
        let incarnation = self.slot.begin_incarnation(cx.mailbox(), cx.node(), recover, &state, flight);
        if self.shared.slots.unpark(&self.slot.id) {
            // The parking was noted after the session had been unparked: correct the record.
            let (shared, id) = (self.shared.clone(), self.slot.id.clone());
            self.shared.tasks.spawn_on(async move { drop(shared.write_parked(&id).await) }, &self.shared.tokio);
        }
        fault!(self.shared.store.faults(), "session.begun", self.slot.id.as_str());
        let mut live = Live::new(self.shared.clone(), self.slot.clone(), cx.node().clone(), incarnation, tape, state);
        live.publish_first(unpublished);
        // Only the recovery: the rest is done in `handle`, so that a crash over it is no failed start.
        live.recover()?;
        fault!(self.shared.store.faults(), "session.recovered", self.slot.id.as_str());
        self.live = Some(live);
        Ok(Init::Run)
    }

    async fn handle(&mut self, _: Wake, cx: &mut Context<Wake>) -> Result<(), ExitError> {
        let Some(live) = &mut self.live else { return Ok(()) };
        match live.work()? {
            Then::GoOn => return Ok(()),
            Then::Sleep => {}
            Then::Leave(why) => self.slot.lost(why),
        }
        // Dropping `live` gives the tape back; the next message finds the session passive.
        self.live = None;
        cx.exit();
        Ok(())
    }

    async fn terminate(&mut self, reason: &ExitReason, _: &mut Context<Wake>) {
        if let Some(mut live) = self.live.take()
            && !reason.is_abnormal()
        {
            live.note_stop();
        }
    }

    fn describe(_: &Wake) -> &'static str {
        "wake"
    }
}
