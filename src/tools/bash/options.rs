//! What a host may say about how `bash` runs commands.
//!
//! By default a command is not confined ([`BashOptions::sandbox`]). Of the environment that the host hands in, a command gets the
//! variables that are not private (`process/environment.rs`), and besides a few of our own: the tag of its call,
//! a usual `PATH` and `LANG` if there is none, and such as keep programs from asking (`PAGER`, `GIT_EDITOR`).
//!
//! A change must not let a default hand on more of the host's environment. It must also keep that `Debug` shows no value of the
//! environment, because the values may be secrets.

use std::{ffi::OsString, fmt, path::PathBuf, time::Duration};

use crate::{
    process::Streams,
    tool::truncate::{CutLimits, SPILL_BYTES_MAX},
    tools::bash::{LookLimits, Sandbox},
};

/// How the tool runs commands.
#[derive(Clone)]
#[non_exhaustive]
pub struct BashOptions {
    /// The environment of the host; [private](crate::process::is_private) variables are left out. The library reads no
    /// environment: without one, commands have a usual `PATH`, a UTF-8 locale, and no home.
    pub environment: Vec<(OsString, OsString)>,
    /// If set, only the variables of these names are handed on from the environment, private or not; those of our own come on top.
    pub allow: Option<Vec<String>>,
    /// The shell. `None`: `bash` on the `PATH` of the environment, else `/bin/bash`.
    pub shell: Option<PathBuf>,
    /// How the two streams are taken in; together by default, so that the model reads them in their order.
    pub streams: Streams,
    /// Lines that are put before every command.
    pub prefix: Option<String>,
    /// How much of the output the model is given.
    pub limits: CutLimits,
    /// How many bytes of a long output are kept in a file, at most.
    pub spill_bytes_max: u64,
    /// How long the processes of a command have time to end, once a timeout or an abort has asked them to; then they are killed.
    pub grace: Duration,
    /// How many processes the user may have while a command runs; not enforced for root. `None`: no limit.
    pub processes_max: Option<u64>,
    /// How much address space each process of a command may take, in bytes. `None`: no limit.
    pub memory_bytes_max: Option<u64>,
    /// How much of the workspace is checked before and after a command, to list the files that it changed. `None`: there is no
    /// check, and the results say that their changes are not known.
    pub look: Option<LookLimits>,
    /// What commands may reach; by default all that the user may.
    pub sandbox: Sandbox,
}

impl BashOptions {
    /// The usual options, with this environment to hand on.
    #[must_use]
    pub fn new(environment: impl IntoIterator<Item = (OsString, OsString)>) -> BashOptions {
        BashOptions {
            environment: environment.into_iter().collect(),
            allow: None,
            shell: None,
            streams: Streams::Together,
            prefix: None,
            limits: CutLimits::default(),
            spill_bytes_max: SPILL_BYTES_MAX,
            grace: Duration::from_millis(300),
            processes_max: None,
            memory_bytes_max: None,
            look: Some(LookLimits::default()),
            sandbox: Sandbox::off(),
        }
    }

    crate::words::setters::setters! {
        /// Hands on only the [variables of these names](#structfield.allow).
        allow: impl IntoIterator<Item = impl Into<String>> = Some(allow.into_iter().map(Into::into).collect());
        /// Sets the [shell](#structfield.shell).
        shell: impl Into<PathBuf> = Some(shell.into());
        /// Sets how the [two streams](#structfield.streams) are taken in.
        streams: Streams;
        /// Sets the [lines before every command](#structfield.prefix).
        prefix: impl Into<String> = Some(prefix.into());
        /// Sets how much of the [output](#structfield.limits) the model is given.
        limits: CutLimits;
        /// Limits the [kept output](#structfield.spill_bytes_max), in bytes.
        spill_bytes_max: u64;
        /// Sets how long processes have [to end](#structfield.grace).
        grace: Duration;
        /// Limits the [processes](#structfield.processes_max) of the user.
        processes_max: u64 = Some(processes_max);
        /// Limits the [address space](#structfield.memory_bytes_max) of a process, in bytes.
        memory_bytes_max: u64 = Some(memory_bytes_max);
        /// Sets how much of the workspace is [checked](#structfield.look); `None` for nothing.
        look: Option<LookLimits>;
        /// Sets [what commands may reach](#structfield.sandbox).
        sandbox: Sandbox;
    }
}

/// Without the values of the environment, which may be secrets.
impl fmt::Debug for BashOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BashOptions")
            .field("variables", &self.environment.len())
            .field("allow", &self.allow)
            .field("shell", &self.shell)
            .field("streams", &self.streams)
            .finish_non_exhaustive()
    }
}
