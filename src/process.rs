//! Starts, watches and ends the OS processes of tools, so that none is left behind when its call, its runtime or its host ends.
//!
//! Every process of a call carries the call's [`Tag`] in its environment. A child process inherits the tag, also through `setsid`,
//! a double fork or `nohup`; if the tool sets the tag's file size limit too (`bash` does), also with an empty environment.
//! [`Process`] runs one program in a new session (without `setsid`: a process group) and passes on its output; it has no stdin, if
//! its spec asks for none.
//!
//! | when | what ends the processes | what it finds |
//! |---|---|---|
//! | a call ends, is aborted or dropped | [`Process`] kills the group, then all that the process table shows of the call, until nothing is left | processes with the call's tag, and the descendants of the first one |
//! | the runtime shuts down | [`Processes::close`] | processes with a tag of this owner |
//! | the host is killed | the watcher, a small process whose pipe closes then | processes with a tag of this owner; a script ([`WatchBy::Shell`]) finds them by their environment only |
//! | the host starts again | [`sweep_dead`], which reads the owners in the ledger of the store | processes with a tag of a dead owner |
//!
//! Guaranteed on Linux: after one of these no process with the tag is left, or the result names each one that could not be killed
//! ([`Swept::left`]; the watcher reports to no one). On other Unix systems only the process group is killed, and only when its call
//! ends: a process that left the group stays, and so does the group of a killed host.
//!
//! Not guaranteed: anything about a program that wants to escape (it may raise its limits and clear its environment), or that
//! belongs to another user. Ending does not confine: [`Confinement`] does, through [`Spec::confinement`]. A change must add no
//! unsafe code, must not fork the host by hand, and must change nothing about the host (no signal mask, no sub-reaper, no limit).

mod environment;
mod ledger;
mod output;
mod processes;
mod run;
mod sandbox;
mod sweep;
mod sweeper;
mod table;
mod tag;
mod watcher;

#[cfg(test)]
mod tests;

pub use environment::scrub;
pub(crate) use ledger::sweep_dead;
pub use output::Stream;
pub(crate) use output::{Output, Rolling};
pub use processes::Processes;
pub use run::{Folder, Process, ProcessEvent, ProcessInput, Spec, Streams};
pub use sandbox::{Confinement, SandboxLevel};
pub use sweep::{Swept, Whose, sweep};
pub(crate) use tag::CALL_VARIABLE;
pub use tag::{Owner, Tag};
pub use watcher::{WatchBy, watch};
