//! How OS processes of tools are started, watched and ended.
//!
//! Every process that belongs to a call carries that call's [`Mark`], and so does whatever it starts, however it hides:
//! `setsid`, a double fork, `nohup`, an empty environment. [`Process`] runs one program in a session of its own (or a process
//! group where there is no `setsid`), with nothing on its standard input, and hands over its output as it comes. When it is
//! ended or dropped, the whole tree goes: first the group, then everything that a look at the process table finds by the
//! mark, until a look finds nothing ([`sweep`]).
//!
//! Guaranteed on Linux: nothing that carries the mark is left, or [`Swept::left`] names what could not be killed. The host is
//! never forked by hand, and nothing about it is changed: no signal mask, no sub-reaper, no limit.
//! On other Unix systems only the process group is killed; what left the group stays.
//!
//! Not guaranteed: that a program which wants to get away cannot. It may raise its own limits back and clear its environment;
//! a program of another user cannot be killed. This is tidiness, not a sandbox.
//!
//! There is no unsafe code here.

mod environment;
mod mark;
mod output;
mod run;
pub mod sweep;
mod table;

pub use environment::{is_private, scrub};
pub use mark::{CALL_VARIABLE, Mark, Owner};
pub use output::{Output, Rolling, Stream};
pub use run::{Event, Folder, Process, Spec};
pub use sweep::{Swept, Whose};
