//! What a host may say about how `bash` runs commands.
//!
//! By default a command is not confined ([`BashOptions::sandbox`]). Of the environment that the host hands in, a command gets the
//! variables that are not private ([`is_private`](crate::process::is_private)), and besides a few of our own: the tag of its call,
//! a usual `PATH` and `LANG` if there is none, and such as keep programs from asking (`PAGER`, `GIT_EDITOR`).
//!
//! A change must not let a default hand on more of the host's environment. It must also keep that `Debug` shows no value of the
//! environment, because the values may be secrets.

use std::{ffi::OsString, fmt, path::PathBuf, time::Duration};

use crate::{
    process::Streams,
    tool::truncate::{Limits, SPILL_BYTES_MAX},
    tools::bash::{LookLimits, Sandbox},
};

/// How the tool runs commands.
#[derive(Clone)]
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
    pub limits: Limits,
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
            limits: Limits::default(),
            spill_bytes_max: SPILL_BYTES_MAX,
            grace: Duration::from_millis(300),
            processes_max: None,
            memory_bytes_max: None,
            look: Some(LookLimits::default()),
            sandbox: Sandbox::off(),
        }
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
