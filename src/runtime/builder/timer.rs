//! Whether the tokio runtime of a start has a time driver.
//!
//! tokio says so only by a panic. The panic hook belongs to the host, and may alert someone, so it must not see this one: during
//! the question, a filter precedes the hook, and passes on the panics of all other threads.
//!
//! A change must keep that the host's hook is restored afterwards, even one that the host sets meanwhile; that the filter exists
//! no longer than the question; and that no second question is asked meanwhile.
//!
//! Rejected: to keep the filter, because a process would have a hook that its host did not ask for; to ask no question, because a
//! panic in a task of the tree would reach the hook too, and the start would hang.

use std::{
    panic::{catch_unwind, set_hook, take_hook},
    ptr::addr_eq,
    sync::Arc,
    thread,
    time::Duration,
};

use crate::lock::Lock;

/// Held while a question is asked.
static ASKING: Lock<()> = Lock::new(());

/// Whether this thread's tokio runtime has a time driver.
pub(super) fn has_timer() -> bool {
    let ask = || catch_unwind(|| drop(tokio::time::sleep(Duration::ZERO))).is_ok();
    if thread::panicking() {
        // A thread that panics must not touch the hook.
        return ask();
    }
    let _one = ASKING.lock();
    let (me, hook) = (thread::current().id(), Arc::new(take_hook()));
    let others = hook.clone();
    let filter: Box<dyn Fn(&std::panic::PanicHookInfo<'_>) + Send + Sync> = Box::new(move |panic| {
        if thread::current().id() != me {
            others(panic);
        }
    });
    let address = &raw const *filter;
    set_hook(filter);
    let has_timer = ask();
    let now = take_hook();
    if addr_eq(&raw const *now, address) {
        drop(now);
        // The filter was the only other owner.
        set_hook(Arc::try_unwrap(hook).unwrap_or_else(|hook| Box::new(move |panic| hook(panic))));
    } else {
        // The host has set another one.
        set_hook(now);
    }
    has_timer
}
