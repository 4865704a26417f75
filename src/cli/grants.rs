//! `tamtam tape grants`, and what the commands about standing grants share: what people allowed for more than one call.
//!
//! The list is read from the tape, beside whatever runs. A revoke needs a session at rest; in a running one it is the command
//! `revoke` of `--json`.
//!
//! A change must keep this: there is no store for the rules of a project yet, so an answer with the scope `project` is refused
//! before it reaches the session.

use std::{fmt::Write as _, path::Path};

use serde_json::{Value, json};
use tamtam::{
    SendError, Seq,
    session::{Grant, Granted, Refusal, Scope},
    tape::TapeError,
};

use super::{
    arguments::GrantsArguments,
    branch,
    environment::Environment,
    escape,
    failure::{Exit, Failure},
    print, tapes,
};

/// Carries out `grants`: lists the standing grants of a session, or revokes one.
pub(super) async fn grants(given: &GrantsArguments, store: &Path, environment: &Environment) -> Result<Exit, Failure> {
    let GrantsArguments { id, revoke, json } = given;
    if let Some(grant) = revoke {
        branch::resting(store, id)?;
        let runtime = branch::start(store, None, environment).await?;
        let revoked = match runtime.open(id).await {
            Ok(session) => session.revoke(Seq(*grant)).await.map_err(|error| match error {
                SendError::Refused(Refusal::NoSuchGrant { .. }) => Failure::usage(format!(
                    "no standing grant of session {id} has the id {grant}: `tamtam tape grants {id}` lists them"
                )),
                error => error.into(),
            }),
            Err(error) => Err(error.into()),
        };
        drop(runtime.shutdown().await);
        revoked?;
        return print(&format!("grant {grant} of session {id} is revoked: what it allowed is asked about again\n"));
    }
    let state = tapes::state(store, id)?.ok_or_else(|| TapeError::Missing { session: id.clone() })?;
    let mut text = String::new();
    for granted in state.grants.iter() {
        // Writing to a String cannot fail.
        let _ = match json {
            true => writeln!(text, "{}", listed(granted)),
            false => writeln!(text, "{}", in_words(granted)),
        };
    }
    if state.grants.is_empty() && !json {
        text = format!("session {id} has no standing grants\n");
    }
    print(&text)
}

/// A standing grant as JSON, with its words.
pub(super) fn listed(granted: &Granted) -> Value {
    let mut listed = json!(granted);
    listed["allows"] = granted.allows().into();
    listed
}

fn in_words(granted: &Granted) -> String {
    let scope = match granted.scope {
        Scope::Turn => "turn",
        Scope::Session => "session",
        Scope::Project => "project",
    };
    let who = granted.who.as_ref().map_or_else(String::new, |who| format!(" by {}", escape::line(who)));
    let (time, allows) = (tapes::moment(granted.time), escape::line(&granted.allows()));
    format!("{:>6}  {scope:<7}  {time}{who}  {allows}", granted.id.0)
}

/// The answer that grants an offer for more than one call.
pub(super) fn standing(scope: Scope, offer: u32) -> Grant {
    if offer == 1 { Grant::Always(scope) } else { Grant::Offered { scope, offer } }
}

/// Why an answer is refused before it reaches the session; `None` where it is not.
pub(super) fn unstored(grant: &Grant) -> Option<&'static str> {
    let (scope, _) = grant.standing()?;
    (scope == Scope::Project)
        .then_some("nothing stores grants for the project yet, so nothing was granted: answer with the scope session")
}
