//! How OS processes of tools are started, watched and ended (promise 10).
//!
//! [`Processes`] are those of one runtime; its [`Owner`] is their family name. Every process that belongs to a call carries that
//! call's [`Mark`], and so does whatever it starts, however it hides: `setsid`, a double fork, `nohup`, an empty environment.
//! [`Process`] runs one program in a session of its own (or a process group where there is no `setsid`), with nothing on its
//! standard input, and hands over its output as it comes.
//!
//! | when | what ends the processes | what it finds |
//! |---|---|---|
//! | a call ends, is aborted or dropped | [`Process`]: first the group, then looks at the process table until one finds nothing | whatever carries the call's mark, and the family of its first process |
//! | the runtime shuts down | [`Processes::close`] | whatever carries the owner's mark |
//! | the host is killed | the watcher, a small process whose pipe closes then: see [`Watch`] | the same |
//! | the host starts again | [`sweep_dead`], by the ledger in the store | the same, of owners that are dead |
//!
//! Guaranteed on Linux: nothing that carries the mark is left, or [`Swept::left`] names what could not be killed. The host is
//! never forked by hand, and nothing about it is changed: no signal mask, no sub-reaper, no limit.
//! On other Unix systems only the process group is killed, when its call ends; what left the group stays, and so does all of
//! it where the host is killed.
//!
//! Not guaranteed: that a program which wants to get away cannot. It may raise its own limits back and clear its environment;
//! a program of another user cannot be killed. This is tidiness, not a sandbox.
//!
//! There is no unsafe code here.

mod environment;
mod ledger;
mod mark;
mod output;
mod processes;
mod run;
mod sweep;
mod sweeper;
mod table;
mod watcher;

#[cfg(test)]
mod tests;

pub use environment::{is_private, scrub};
pub use ledger::sweep_dead;
pub use mark::{CALL_VARIABLE, Mark, Owner};
pub use output::{Output, Rolling, Stream};
pub use processes::Processes;
pub use run::{Event, Folder, Process, Spec, Streams};
pub use sweep::{SWEEP_MAX, Swept, Whose, sweep};
pub use watcher::{Watch, watch};
