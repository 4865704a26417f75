//! The pure core, told what happens and asked what follows: tables of `design.md` §5, loop.md §2, checklist B, C, K and T.

mod abort;
mod back;
mod batch;
mod budget;
mod bytes;
mod compact;
mod delivery;
mod finish;
mod fork;
mod handoff;
mod imported;
mod inbox;
mod judged;
pub(crate) mod line;
mod merge;
mod pause;
mod permission;
mod pin;
pub(crate) mod play;
mod recorded;
mod recover;
mod replayed;
mod retry;
mod spending;
mod tasks;
pub(crate) mod tools;
mod torn;
