//! Keeps the sandbox that a session began with: its terms for the tape, and the refusal of a call if the tool has a weaker one.
//!
//! The sandbox is the toolbox's, and a session outlives a toolbox: it may be resumed by a host with another one. A change must
//! keep that no command of such a session runs with less than its settings say (`docs/SECURITY.md`, "The sandbox").

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use serde_json::json;

use crate::{
    tool::{ToolContext, ToolResult},
    tools::bash::{Sandbox, SandboxMode},
    words::sandbox::SandboxTerms,
};

impl Sandbox {
    /// What a session's tape keeps of the sandbox: of its paths those beyond the usual ones. `None` if it is off.
    #[must_use]
    pub fn terms(&self) -> Option<SandboxTerms> {
        let required = match self.mode {
            SandboxMode::Off => return None,
            SandboxMode::Preferred => false,
            SandboxMode::Required => true,
        };
        let usual = Sandbox::new(self.mode);
        let beyond = |paths: &[PathBuf], usual: &[PathBuf]| -> BTreeSet<String> {
            paths.iter().filter(|path| !usual.contains(path)).map(|path| path.display().to_string()).collect()
        };
        let (read, write) = (beyond(&self.read, &usual.read), beyond(&self.write, &usual.write));
        let mut terms = SandboxTerms::default();
        (terms.required, terms.network, terms.read, terms.write) = (required, self.network, read, write);
        Some(terms)
    }

    /// The sandbox of these terms, with the usual paths; [`Sandbox::off`] for `None`.
    #[must_use]
    pub fn of_terms(terms: Option<&SandboxTerms>) -> Sandbox {
        let Some(terms) = terms else { return Sandbox::off() };
        let mut sandbox = if terms.required { Sandbox::required() } else { Sandbox::preferred() };
        sandbox.network = terms.network;
        sandbox.read.extend(terms.read.iter().map(|path| Path::new(path).to_owned()));
        sandbox.write.extend(terms.write.iter().map(|path| Path::new(path).to_owned()));
        sandbox
    }
}

/// The result of a call whose session began with a stricter sandbox than the tool has; the reason is shown in the tree. `None` if
/// the call may continue.
pub(super) fn refusal(sandbox: &Sandbox, context: &ToolContext) -> Option<ToolResult> {
    let kept = context.sandbox.as_ref()?;
    let own = sandbox.terms();
    if kept.are_kept_by(own.as_ref()) {
        return None;
    }
    let own = own.map_or_else(|| "off".to_owned(), |own| own.in_words());
    context.progress.plain_title("sandbox: weaker than the session's".to_owned());
    Some(
        ToolResult::error(format!(
            "the command was not run: this session began with a sandbox ({}), and here the sandbox is weaker ({own}). The host has \
             to give its commands that sandbox again, or change the session's settings. The other tools work.",
            kept.in_words()
        ))
        .with_details(json!({ "sandbox": { "kept": kept.in_words(), "here": own } })),
    )
}
