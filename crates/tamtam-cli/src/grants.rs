//! `tamtam tape grants`: lists the standing grants of a session, which are what people allowed for more than one call, or revokes
//! one. Also [`Host::answer`], by which `run` and `resume` answer a question.
//!
//! The list is read from the tape, so the session may be running. A revoke needs a session at rest; a running one takes the command
//! `revoke` of `--json`.
//!
//! An answer with the scope `project` is given to the session first; then its rules are written to the trust file of the user. A
//! change must keep that order: the trust file must have no rule that no tape has. Where the process ends between the two, a person
//! is asked once more.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use tamtam::{
    EventKind, Runtime, SendError, Seq, Session,
    permission::Rule,
    session::{Grant, Granted, Next, Open, Refusal, Scope},
    tape::TapeError,
};

use super::{
    arguments::GrantsArguments,
    branch,
    environment::Environment,
    escape,
    failure::{Exit, Failure},
    print, tapes,
    trust::{CONFIG, Project, Trust, untrusted},
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
        _ => "other",
    };
    let who = granted.who.as_ref().map_or_else(String::new, |who| format!(" by {}", escape::line(who)));
    let (time, allows) = (tapes::moment(granted.time), escape::line(&granted.allows()));
    format!("{:>6}  {scope:<7}  {time}{who}  {allows}", granted.id.0)
}

/// The answer that grants an offer for more than one call.
pub(super) fn standing(scope: Scope, offer: u32) -> Grant {
    if offer == 1 { Grant::Always(scope) } else { Grant::Offered { scope, offer } }
}

/// The session that is driven, the runtime that has it, and where answers with the scope `project` are kept.
pub(super) struct Host {
    pub(super) runtime: Runtime,
    pub(super) session: Session,
    pub(super) trust: Trust,
}

/// Why an answer did not do all that it was to do.
#[derive(Debug, thiserror::Error)]
pub(super) enum AnswerError {
    /// The session refused it.
    #[error(transparent)]
    Send(#[from] SendError),
    /// It cannot be kept for the project. `kind` is a word for programs.
    #[error("{message}")]
    Project { kind: &'static str, message: String },
}

impl Host {
    /// Answers an ask. With the scope `project`, the rules are kept for the folder of the session that makes the call, which must
    /// be trusted: else nothing is granted at all.
    pub(super) async fn answer(
        &self,
        ask: Seq,
        grant: Grant,
        who: Option<String>,
        digest: Option<String>,
    ) -> Result<(), AnswerError> {
        let folder = match grant.standing() {
            Some((Scope::Project, _)) => Some(self.trusted_folder(ask).await?),
            _ => None,
        };
        match (digest, who) {
            (Some(digest), who) => self.session.answer_shown(ask, grant, digest, who).await?,
            (None, Some(who)) => self.session.answer_as(ask, grant, who).await?,
            (None, None) => self.session.answer(ask, grant).await?,
        }
        match folder {
            Some(folder) => self.keep(folder, ask).await,
            None => Ok(()),
        }
    }

    /// The folder of the session that asks: this one, or a child whose question has come here.
    async fn trusted_folder(&self, ask: Seq) -> Result<PathBuf, AnswerError> {
        let state = self.session.state().await?;
        let mut folder = PathBuf::from(&state.settings.workspace);
        if let Some(Open::TaskAsk(open)) = state.open.get(&ask)
            && let Some(caller) = open.asked.from.last()
        {
            folder = self.runtime.session(&caller.session).state().await?.settings.workspace.clone().into();
        }
        let (trust, looked) = (self.trust.clone(), folder.clone());
        let refused = |why: &str| {
            let message = format!("not granted: {why}, or allow it for this session");
            AnswerError::Project { kind: "not_trusted", message }
        };
        match blocking(move || trust.look(&looked, &[CONFIG])).await {
            Ok(Project::Trusted { .. }) => Ok(folder),
            Ok(Project::Nothing) => Err(refused(&untrusted(&folder))),
            Ok(Project::Untrusted(why)) => Err(refused(&why)),
            Err(failure) => Err(refused(&failure.message)),
        }
    }

    /// Keeps the rules that stand since the ask was answered.
    async fn keep(&self, folder: PathBuf, ask: Seq) -> Result<(), AnswerError> {
        let lost = |why: String| {
            let message = format!("it is allowed in this session, and not kept for the project: {why}");
            AnswerError::Project { kind: "not_kept", message }
        };
        let (rules, who) = self.chosen(ask).await.map_err(lost)?;
        if rules.is_empty() {
            // Nothing could be granted for more than this call.
            return Ok(());
        }
        let trust = self.trust.clone();
        let kept = blocking(move || trust.add_project_rules(&folder, &rules, who.as_deref())).await;
        kept.map_err(|failure| lost(failure.message))
    }

    /// The rules that the tape has of the answer to an ask, and who gave it.
    async fn chosen(&self, ask: Seq) -> Result<(Vec<Rule>, Option<String>), String> {
        let listen = || async { self.session.events_after(ask).await.map_err(|error| error.to_string()) };
        let mut events = listen().await?;
        loop {
            let event = match events.next().await {
                Some(Next::Event(event)) => event,
                Some(Next::Lagged(_)) => {
                    events = listen().await?;
                    continue;
                }
                Some(_) => continue,
                None => return Err(SendError::Closed.to_string()),
            };
            match &event.kind {
                EventKind::AskClosed { ask: closed, rules, who, .. } if *closed == ask => {
                    return Ok((rules.clone(), who.clone()));
                }
                _ => {}
            }
        }
    }
}

/// Works on the disk, and may wait for the lock of another process.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Failure> + Send + 'static) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(Failure::failed(error.to_string())))
}
