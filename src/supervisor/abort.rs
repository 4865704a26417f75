//! Refuses to supervise in a program that was built with `panic = "abort"`: supervision needs panics that unwind.
//!
//! The answer is fixed when the program is built. This file must use nothing but `std`, so that a test (`tests/it/panic_abort.rs`)
//! can build it alone with `panic = "abort"` and see it refuse.

/// The program was built so that a panic ends the whole process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PanicAbort;

impl std::fmt::Display for PanicAbort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(
            "this program is built with `panic = \"abort\"`, where no crash can be supervised: use `panic = \"unwind\"`",
        )
    }
}

impl std::error::Error for PanicAbort {}

/// Refuses to run in a program where a panic cannot be caught.
pub fn refuse_panic_abort() -> Result<(), PanicAbort> {
    if cfg!(panic = "abort") { Err(PanicAbort) } else { Ok(()) }
}
