//! Enters and leaves plan mode for a running call (`tools/plan.rs`).
//!
//! Entering or leaving is a command to the session, like one of a host: it is on the tape before the call is told that it worked,
//! and holds from the next border of a step on (when no request, no call and no retry wait is open). A tool may keep its context
//! for longer than the call, and the runtime owns the tool. So a change must keep that [`Modes`] holds the slot only, which does
//! not own the runtime.

use std::sync::Arc;

use crate::{
    actor::slot::Slot,
    kernel::{AgentChoice, SwitchAgent},
    tool::{Entered, Mode, Modes},
};

/// The modes of a call's session. `plan_file` is the file of the plan while the session is in plan mode.
pub(super) fn modes(slot: &Arc<Slot>, plan_file: Option<String>) -> Modes {
    let slot = slot.clone();
    let switch = move |mode| {
        let slot = slot.clone();
        let changed: crate::model::BoxFuture<'static, _> = Box::pin(async move { change(&slot, mode).await });
        changed
    };
    Modes { plan_file, switch: Some(Arc::new(switch)) }
}

/// The agent `plan` as the runtime has it now: a file may have changed it.
fn plan(slot: &Slot) -> Result<AgentChoice, String> {
    let shared = slot.shared().ok_or("The runtime is going down.")?;
    let agents = shared.agents.lock().clone();
    let choice = agents.primary("plan").and_then(|plan| plan.for_session(&slot.id));
    choice.map_err(|error| error.to_string())
}

async fn change(slot: &Arc<Slot>, mode: Mode) -> Result<Entered, String> {
    let failed = |error: crate::error::SendError| format!("The mode was not changed: {error}.");
    let choice = match mode {
        Mode::Own => AgentChoice::Own,
        Mode::Plan => plan(slot)?,
    };
    slot.ask(SwitchAgent { choice: choice.clone() }).await.map_err(failed)?;
    let state = slot.now().await.map_err(failed)?;
    let settings = state.settings.with_agent(&choice);
    Ok(Entered { agent: settings.agent.clone(), plan_file: settings.plan_file().map(str::to_owned) })
}
