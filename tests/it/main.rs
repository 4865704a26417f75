//! The tests of behaviour: one binary, one module per subject. What is tested is what a host can see; names are claims.
#![allow(clippy::unwrap_used, clippy::panic)]

#[cfg(feature = "tools")]
mod adapter;
#[cfg(feature = "cli")]
mod aimock;
mod answers;
mod back;
mod branch;
mod call_input;
#[cfg(feature = "cli")]
mod canary;
#[cfg(feature = "cli")]
mod cancel;
#[cfg(feature = "cli")]
mod cli;
mod compaction;
mod crash_points;
#[cfg(feature = "sqlite")]
mod deleted;
#[cfg(feature = "cli")]
mod depth;
mod engines;
#[cfg(feature = "tools")]
mod examples;
mod files;
#[cfg(feature = "cli")]
mod flood;
mod forks;
mod formats;
#[cfg(feature = "tools")]
mod hinted;
mod host_children;
mod host_code;
mod host_context;
#[cfg(feature = "cli")]
mod kill;
mod layering;
mod links;
#[cfg(feature = "sqlite")]
mod listing;
#[cfg(feature = "cli")]
mod logged;
mod loops;
mod misuse;
mod modes;
mod odd_servers;
mod operate;
mod otp;
#[cfg(feature = "tools")]
mod outside;
#[cfg(feature = "http")]
mod overflow;
mod pages;
mod panic_abort;
mod passive;
#[cfg(all(feature = "http", feature = "tools"))]
mod prefix;
#[cfg(feature = "cli")]
mod processes;
#[cfg(feature = "cli")]
mod prompts;
mod published;
mod questions;
#[cfg(feature = "tools")]
mod race;
mod recorded;
mod records;
#[cfg(feature = "tools")]
mod replay;
mod restarts;
mod rights;
mod runtime;
mod sending;
mod service;
mod size;
#[cfg(feature = "cli")]
mod soak;
mod steered;
mod storm;
mod support;
mod sweep;
#[cfg(feature = "http")]
mod switching;
mod team;
#[cfg(feature = "tools")]
mod todo;
#[cfg(feature = "tools")]
mod transcript;
mod typed_tools;
#[cfg(feature = "http")]
mod wire;
#[cfg(all(feature = "http", feature = "tools"))]
mod wired;
