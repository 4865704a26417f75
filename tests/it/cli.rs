//! The `tamtam` binary, as a shell and its scripts see it: the real process, real tools, real files; scripted models.

mod begin;
mod branch;
mod budget;
mod commands;
mod compaction;
mod cost;
mod demo;
mod edges;
mod errors;
mod faults;
mod files;
mod grants;
pub(crate) mod lab;
mod loops;
mod plan;
mod replay;
mod rescue;
mod sandbox;
mod search;
mod sessions;
mod shell;
mod steering;
mod stop;
mod terminal;
mod tools;
