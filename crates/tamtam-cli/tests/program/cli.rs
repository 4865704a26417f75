//! The `tamtam` binary, as a shell and its scripts see it: the real process, real tools, real files; scripted models.

mod begin;
mod branch;
mod budget;
mod commands;
mod compaction;
mod config;
mod cost;
mod curl;
#[cfg(feature = "postgres")]
mod database;
mod demo;
mod edges;
mod errors;
mod faults;
mod files;
mod grants;
mod hooks;
mod killed;
pub(crate) mod lab;
mod loops;
mod mcp;
#[cfg(feature = "postgres")]
mod nodes;
mod operator;
mod plan;
mod program;
mod replay;
mod rescue;
mod sandbox;
mod search;
mod serve;
mod sessions;
mod shell;
mod skill;
mod steering;
mod stop;
mod strangers;
mod team;
mod terminal;
mod thinking;
mod tools;
mod trust;
