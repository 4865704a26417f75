//! The source location of a panic, for hosts that ask for it.
//!
//! Only a panic hook is told of the place, and the hook belongs to the whole process; so the library sets one only when the
//! host asks for it, and calls the one that was there before.

use std::{cell::RefCell, sync::Once};

thread_local! {
    /// Where the last panic of this thread happened. It is read on the same thread, by whoever catches that panic.
    static LAST: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// From now on crash reports say where a panic happened. Without it they say `unknown`.
///
/// Puts a hook before the process's panic hook and calls that one afterwards, so what is printed stays the same. It is the
/// only thing in this crate that changes something for the whole process. Calling it again changes nothing.
///
/// ```
/// tamtam::supervisor::locate_panics();
/// ```
pub fn locate_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let place = panic.location().map(ToString::to_string);
            // A thread that is being taken down may have given up its locals already; then the place stays unknown.
            let _ = LAST.try_with(|last| last.replace(place));
            before(panic);
        }));
    });
}

/// Where the panic happened that this thread has just caught, where that is known. It is told once.
pub(crate) fn last_location() -> Option<String> {
    LAST.try_with(|last| last.take()).ok().flatten()
}
