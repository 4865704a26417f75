//! The tools of a runtime as they are now ([`HostTools`]), and one set of them ([`Toolset`]) with what a decision needs to know of it.
//!
//! A host swaps its set whole. A session takes the new set with its next model request: the decision that opens the request reads
//! hash, size and permissions of the set of that moment, and the tape gets those that changed. From then on the session's slot keeps
//! the set (`Slot::keep_tools`): the request, what is asked about its calls and the calls
//! themselves use that one, also after a crash of the actor, whatever the host sets meanwhile.
//!
//! A change must keep two rules. No code of a tool runs under the lock, and none where an actor handles its inputs: hash and
//! permissions are made in the caller of the swap. And a set is not half new: a decision takes the set once.

use std::{panic::AssertUnwindSafe, sync::Arc};

use crate::{
    kernel::tools_tokens,
    lock::Lock,
    tool::{Tool, Toolbox},
    words::sandbox::SandboxTerms,
};

/// A set of tools, and what a decision reads of it.
pub(crate) struct Toolset {
    /// The tools that the host gave.
    pub(crate) of_host: Toolbox,
    /// These, and the runtime's own.
    pub(crate) toolbox: Toolbox,
    /// The hash of what models are told of them.
    pub(crate) hash: String,
    /// The estimated size of their descriptions in a request, in tokens.
    pub(crate) tokens: u64,
    /// What their programs are confined to.
    pub(crate) sandbox: Option<Arc<SandboxTerms>>,
}

impl Toolset {
    /// # Errors
    /// Why no model can be shown these tools.
    fn new(of_host: Toolbox, own: &[Arc<dyn Tool>]) -> Result<Toolset, String> {
        let toolbox = of_host.with_all(own.iter().cloned());
        if let Some(flaw) = toolbox.flaw() {
            return Err(flaw);
        }
        let (hash, tokens, sandbox) = (toolbox.hash(), tools_tokens(&toolbox), toolbox.sandbox().map(Arc::new));
        // Made here, and not by the first session that decides.
        toolbox.permissions();
        Ok(Toolset { of_host, toolbox, hash, tokens, sandbox })
    }
}

impl Drop for Toolset {
    /// The last user of a set may be an actor, and a tool's drop is the host's code.
    fn drop(&mut self) {
        let tools = (std::mem::take(&mut self.of_host), std::mem::take(&mut self.toolbox));
        if std::panic::catch_unwind(AssertUnwindSafe(|| drop(tools))).is_err() {
            tracing::warn!("a tool panicked when it was dropped");
        }
    }
}

/// The tools of a runtime. See the module.
pub(crate) struct HostTools {
    now: Lock<Arc<Toolset>>,
    /// The tools that the runtime adds to each set of the host's.
    own: Vec<Arc<dyn Tool>>,
}

impl HostTools {
    /// # Errors
    /// As [`HostTools::change`].
    pub(crate) fn new(of_host: Toolbox, own: Vec<Arc<dyn Tool>>) -> Result<HostTools, String> {
        Ok(HostTools { now: Lock::new(Arc::new(Toolset::new(of_host, &own)?)), own })
    }

    /// The set as it is now.
    pub(crate) fn now(&self) -> Arc<Toolset> {
        self.now.lock().clone()
    }

    /// Swaps the host's tools for what `change` makes of them. Where another swap comes between, `change` is asked again.
    ///
    /// # Errors
    /// Why no model can be shown the new tools; the old ones stay.
    pub(crate) fn change(&self, mut change: impl FnMut(&Toolbox) -> Toolbox) -> Result<(), String> {
        loop {
            let seen = self.now();
            let new = Arc::new(Toolset::new(change(&seen.of_host), &self.own)?);
            let mut now = self.now.lock();
            if Arc::ptr_eq(&now, &seen) {
                let old = std::mem::replace(&mut *now, new);
                drop(now);
                drop(old);
                return Ok(());
            }
        }
    }
}
