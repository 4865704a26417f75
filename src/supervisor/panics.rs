//! The source location of a panic, for hosts that ask for it.
//!
//! Only a panic hook learns the location, and the hook belongs to the whole OS process. So a change must keep that the library sets
//! one only when the host asks for it ([`locate_panics`]), and that it calls the previous hook. The one exception is a filter for the
//! moment of a question (`runtime/builder/timer.rs`). The hook keeps the location of the newest panic of each thread in a
//! thread-local; the code that caught the panic takes it, on that thread. On another thread it is unknown.

use std::{cell::RefCell, sync::Once};

thread_local! {
    /// The location of the last panic of this thread. The code that catches the panic reads it on the same thread.
    static LAST: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// From now on crash reports say where a panic happened. Without it their text says `unknown`, and their JSON has no location.
///
/// Sets a panic hook for the whole OS process, which calls the previous hook afterwards, so the printed text stays the same. The
/// runtime never sets it. Calling this again changes nothing.
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
            // A thread that is ending may have dropped its locals already; then the place stays unknown.
            let _ = LAST.try_with(|last| last.replace(place));
            before(panic);
        }));
    });
}

/// Takes the location of the panic that this thread has just caught, if it is known.
pub(crate) fn last_location() -> Option<String> {
    LAST.try_with(|last| last.take()).ok().flatten()
}
