//! Starts, watches and ends the OS processes of tools, so that none is left behind when its call, its runtime or its host ends.
//!
//! [`Processes`] stands for the processes of one runtime, and its [`Owner`] names that runtime. Every process of a call carries
//! the call's [`Tag`] in its environment. A child process inherits the tag, also through `setsid`, a double fork or `nohup`; where
//! the tool sets the tag's file size limit too (`bash` does), also with an empty environment.
//! [`Process`] runs one program in a session of its own (or a process group where there is no `setsid`), with nothing on its
//! standard input, and hands over the program's output as it comes.
//!
//! | when | what ends the processes | what it finds |
//! |---|---|---|
//! | a call ends, is aborted or dropped | [`Process`] kills the group, and then whatever the process table shows of the call, until a look at the table shows nothing more | processes with the call's tag, and the descendants of the first one |
//! | the runtime shuts down | [`Processes::close`] | processes with a tag of this owner |
//! | the host is killed | the watcher, a small process whose pipe closes then | processes with a tag of this owner; a watcher that is a script ([`Watch::Shell`]) finds them by their environment only |
//! | the host starts again | [`sweep_dead`], which reads in the ledger of the store which owners there were | processes with a tag of an owner that is dead |
//!
//! Guaranteed on Linux: after one of these no process that carries the tag is left, or the result names each one that could not be
//! killed ([`Swept::left`]). The watcher has nobody to tell.
//! On other Unix systems only the process group is killed, and only when its call ends. A process that left the group stays, and
//! the whole group stays where the host is killed.
//!
//! Not guaranteed: anything about a program that wants to get away. Such a program may raise its limits back and clear its
//! environment. Nor can a program of another user be killed. Ending keeps order, and confines nothing: a program is confined
//! where its [`Spec::confinement`] says so, and as far as [`Confinement`] says.
//!
//! A change must keep three rules: no unsafe code, no fork of the host by hand, and nothing about the host is changed (no signal
//! mask, no sub-reaper, no limit).

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

pub use environment::{is_private, scrub};
pub use ledger::sweep_dead;
pub use output::{Output, Rolling, Stream};
pub use processes::Processes;
pub use run::{Event, Folder, Process, Spec, Streams};
pub use sandbox::{Confinement, Network, SandboxLevel};
pub use sweep::{SWEEP_MAX, Swept, Whose, sweep};
pub use tag::{CALL_VARIABLE, Owner, Tag};
pub use watcher::{Watch, watch};
