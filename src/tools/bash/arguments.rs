//! What a model may ask of bash.

use serde::Deserialize;
use serde_json::Value;

use crate::{
    tool::{BadArguments, parse_arguments},
    tools::bash::{COMMAND_BYTES_MAX, TIMEOUT_SECONDS, TIMEOUT_SECONDS_MAX},
};

/// The arguments, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Arguments {
    pub(super) command: String,
    /// In seconds, within its bounds.
    pub(super) timeout: u64,
    /// `None` for the workspace.
    pub(super) cwd: Option<String>,
}

#[derive(Deserialize)]
struct Raw {
    command: Option<String>,
    #[serde(default)]
    timeout: Value,
    cwd: Option<String>,
}

impl Arguments {
    pub(super) fn parse(arguments: Value) -> Result<Arguments, BadArguments> {
        let bad = |field: &str, message: String| BadArguments { field: format!("`{field}`: "), message };
        if arguments.is_array() {
            return Err(BadArguments {
                field: String::new(),
                message: "they must be an object, not a list".to_owned(),
            });
        }
        let arguments = if arguments.is_null() { Value::Object(serde_json::Map::new()) } else { arguments };
        let raw: Raw = parse_arguments(arguments)?;
        let Some(command) = raw.command else { return Err(bad("command", "command is required".to_owned())) };
        if command.is_empty() {
            return Err(bad("command", "command cannot be empty".to_owned()));
        }
        if command.contains('\0') {
            return Err(bad("command", "command cannot contain a NUL byte".to_owned()));
        }
        if command.len() > COMMAND_BYTES_MAX {
            let message = format!(
                "command is too long ({} bytes, at most {COMMAND_BYTES_MAX}): write it to a file and run that",
                command.len()
            );
            return Err(bad("command", message));
        }
        let timeout = match &raw.timeout {
            Value::Null => Some(TIMEOUT_SECONDS),
            // Some models write numbers as text.
            Value::String(text) => text.trim().parse().ok(),
            Value::Number(number) => number.as_u64().or_else(|| whole(number.as_f64()?)),
            _ => None,
        };
        match timeout.filter(|seconds| (1..=TIMEOUT_SECONDS_MAX).contains(seconds)) {
            Some(timeout) => Ok(Arguments { command, timeout, cwd: raw.cwd.filter(|cwd| !cwd.is_empty()) }),
            None => {
                let message = format!("must be 1 to {TIMEOUT_SECONDS_MAX} whole seconds, not {}", raw.timeout);
                Err(bad("timeout", message))
            }
        }
    }
}

/// `5.0` is 5.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked")]
fn whole(number: f64) -> Option<u64> {
    (number.fract() == 0.0 && (0.0..=1e9).contains(&number)).then_some(number as u64)
}
