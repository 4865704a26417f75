//! The arguments of the `bash` tool, read and checked.
//!
//! After [`Arguments::of`] the command is not empty, holds no NUL and alone fits one argument of the system, and the timeout is
//! within its bounds. The folder (`cwd`) is checked when the call opens it.
//!
//! The tool's time limit for a call is made of the timeout that is read here, and the permission rules judge the command that is
//! read here (`Bash::access`). A change must keep that, or a call could run longer than its limit, or run a command that was not
//! judged. The code is pure.

use serde::Deserialize;
use serde_json::Value;

use crate::{
    tool::ToolResult,
    tools::{
        arguments::{or_default, parse},
        bash::{COMMAND_BYTES_MAX, TIMEOUT_SECONDS, TIMEOUT_SECONDS_MAX},
    },
};

/// The arguments, checked.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Arguments {
    #[serde(default, deserialize_with = "or_default")]
    pub(super) command: String,
    timeout: Option<u64>,
    /// The folder to run in; empty for the workspace.
    #[serde(default, deserialize_with = "or_default")]
    pub(super) cwd: String,
}

impl Arguments {
    /// Reads and checks the arguments of a call. The error is the result for the model.
    pub(super) fn of(arguments: &Value) -> Result<Arguments, ToolResult> {
        let (arguments, _) = parse::<Arguments>(arguments)?;
        let bad = |field: &str, problem: String| ToolResult::error(format!("bad arguments: `{field}`: {problem}"));
        let bytes = arguments.command.len();
        if bytes == 0 {
            return Err(bad("command", "command is required, and cannot be empty".to_owned()));
        }
        if arguments.command.contains('\0') {
            return Err(bad("command", "command cannot contain a NUL byte".to_owned()));
        }
        if bytes > COMMAND_BYTES_MAX {
            let limit = format!("({bytes} bytes, at most {COMMAND_BYTES_MAX})");
            return Err(bad("command", format!("command is too long {limit}: write it to a file and run that")));
        }
        match arguments.timeout() {
            1..=TIMEOUT_SECONDS_MAX => Ok(arguments),
            other => Err(bad("timeout", format!("must be 1 to {TIMEOUT_SECONDS_MAX} whole seconds, not {other}"))),
        }
    }

    /// The timeout in seconds; the default where none was given.
    pub(super) fn timeout(&self) -> u64 {
        self.timeout.unwrap_or(TIMEOUT_SECONDS)
    }
}
