//! The processes of a runtime. Each is a [`shell::Behaviour`] that the one shell runs as an actor.

pub(crate) mod shell;
