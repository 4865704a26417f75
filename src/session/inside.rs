//! The way from inside a call or a hook to the handle of its session.
//!
//! The contexts of calls and hooks refer to the slot of their session (the part that outlives its actor), and the slot does not own
//! the runtime; see `tool/context.rs`. Each request makes a new handle, as long as the runtime is in memory. A change must not
//! keep a handle in a context: a handle owns the memory of the runtime, and a tool that kept its context would then keep the
//! runtime for ever.

use crate::{
    actor::slot::Slot,
    hook::{HookCall, HookContext},
    session::Session,
    tool::{SessionRef, ToolContext},
};

fn handle(of: &SessionRef) -> Option<Session> {
    let slot = of.get::<Slot>()?;
    let shared = slot.shared()?;
    Some(Session { shared, slot })
}

impl ToolContext {
    /// The session that the call belongs to: a tool can read its state, steer it, or give a task to a child of it.
    ///
    /// `None` for a [detached](ToolContext::detached) context, and for one kept past the end of its runtime. A running call of a
    /// session always has one.
    ///
    /// **Waits that never end.** The turn ends when its calls have ended. So a call that waits for the end of its own turn waits
    /// until its limit. Such waits are the one for the [receipt](crate::Receipt::wait) of a message to its own session, and the
    /// one for the session to be [idle](Session::wait). [`Session::abort`], [`Session::end`] and `Runtime::shutdown` stop the
    /// call that makes them: it is dropped while it waits. A method that needs an idle session, such as [`Session::handoff`], is
    /// refused as busy. A call may wait for the [DOWN](crate::runtime::Child::down) of a child.
    ///
    /// **What to keep.** A handle owns the memory of its runtime. A tool that must know its session later keeps the context or the
    /// id, and not the handle: the runtime owns the tool, so neither would ever be freed.
    ///
    /// ```
    /// use tamtam::{SessionOptions, session::Link, tool::{self, NoArguments}};
    ///
    /// let delegate = tool::typed("delegate", "Delegates the test run.", |_: NoArguments, cx| async move {
    ///     let session = cx.session().ok_or("this call belongs to no session")?;
    ///     let options = SessionOptions::new(&*cx.workspace);
    ///     let child = session.spawn_child(options, "Run the tests.", Link::default()).await.map_err(|error| error.to_string())?;
    ///     Ok::<_, String>(format!("{} is at work", child.session().id()))
    /// });
    /// # drop(delegate);
    /// ```
    #[must_use]
    pub fn session(&self) -> Option<Session> {
        handle(&self.session_ref)
    }
}

impl HookContext {
    /// The session whose message or answer the hook sees.
    ///
    /// `None` for a [detached](HookContext::detached) context, and for one kept past the end of its runtime.
    ///
    /// A hook must return within its [limit](crate::hook::Hook::limit), five seconds by default, so it should not wait for a turn. An input
    /// hook that sends a message to the session is called again for that message. An answer hook runs inside of the turn: the
    /// end of the turn does not come before it returns. What [`ToolContext::session`] says about keeping holds here too.
    #[must_use]
    pub fn session(&self) -> Option<Session> {
        handle(&self.session_ref)
    }
}

impl HookCall {
    /// The session that makes the call. As [`HookContext::session`]; the turn does not end before the hook returns.
    #[must_use]
    pub fn session(&self) -> Option<Session> {
        handle(&self.session_ref)
    }
}
