//! The tests of behaviour: one binary, one module per subject. What is tested is what a host can see; names are claims.
#![allow(clippy::unwrap_used, clippy::panic)]

#[cfg(feature = "tools")]
mod adapter;
#[cfg(all(unix, feature = "websocket"))]
mod ahead;
mod answers;
mod back;
mod branch;
mod call_input;
#[cfg(feature = "tools")]
mod cancel;
mod circles;
mod compaction;
mod crash_points;
#[cfg(feature = "http")]
mod crossed;
mod data;
#[cfg(feature = "sqlite")]
mod deleted;
#[cfg(feature = "tools")]
mod depth;
mod engines;
#[cfg(feature = "tools")]
mod examples;
#[cfg(feature = "http")]
mod exchanges;
mod face;
#[cfg(feature = "http")]
mod faults;
#[cfg(feature = "web-fetch")]
mod fetched;
mod files;
mod forks;
mod formats;
mod gates;
#[cfg(feature = "http")]
mod governed;
#[cfg(feature = "tools")]
mod hinted;
mod hooked;
mod host_children;
mod host_code;
mod host_context;
mod labelled;
mod layering;
mod links;
#[cfg(feature = "sqlite")]
mod listing;
#[cfg(feature = "tools")]
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
mod peeked;
#[cfg(all(feature = "http", feature = "tools"))]
mod prefix;
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
#[cfg(feature = "http")]
mod shaped;
mod size;
mod skills;
#[cfg(feature = "tools")]
mod soak;
mod steered;
mod storm;
#[cfg(feature = "http")]
mod strict;
mod support;
mod swapped;
mod sweep;
#[cfg(feature = "http")]
mod switching;
mod team;
#[cfg(feature = "http")]
mod thinking;
#[cfg(feature = "tools")]
mod todo;
mod traced;
#[cfg(feature = "tools")]
mod transcript;
mod typed_tools;
#[cfg(feature = "http")]
mod wire;
#[cfg(all(feature = "http", feature = "tools"))]
mod wired;
