//! Plan mode (a session works as the agent `plan`), as the tools `plan_enter` and `plan_exit` see it: the file of the plan, and a
//! function that changes the mode of the call's session.
//!
//! A change of mode is a command to the session, and holds from the next step on (the next request to the model): calls of the same
//! answer are still judged by the old agent's rules. Outside of a session a change of mode is an error.
//!
//! A change must keep that this room knows no session and holds no agent: what entering and leaving mean is decided above
//! (`actor/modes.rs`), and the function must not own the runtime, because a tool may keep its context.

use std::sync::Arc;

use crate::model::BoxFuture;

/// The agent that a call asks its session to switch to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The agent `plan`.
    Plan,
    /// The session's own agent.
    Own,
}

/// The new agent: its name, and the file of its plan if it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entered {
    pub(crate) agent: String,
    pub(crate) plan_file: Option<String>,
}

type Switch = dyn Fn(Mode) -> BoxFuture<'static, Result<Entered, String>> + Send + Sync;

/// The mode of a call's session. Without a session there is none to change.
#[derive(Clone, Default)]
pub(crate) struct Modes {
    /// The file of the plan, relative to the workspace, while the session is in plan mode.
    pub(crate) plan_file: Option<String>,
    /// Changes the mode of the session; `None` outside of any session.
    pub(crate) switch: Option<Arc<Switch>>,
}

impl Modes {
    /// Has the session record the other mode; it holds from the next step on. The error is words for the model.
    pub(crate) async fn change(&self, to: Mode) -> Result<Entered, String> {
        match &self.switch {
            Some(switch) => switch(to).await,
            None => Err("This call belongs to no session, so there is no mode to change.".to_owned()),
        }
    }
}
