//! The standing grants of a conversation: what people allowed for more than one call, and taking that back.
//!
//! The list is read from a snapshot of the state. A revoke is a command to the session; a second one of the same grant changes
//! nothing. A change must decide nothing here: the kernel decides what is granted and revoked (`kernel/turn/grants.rs`), so that a
//! replay of the tape decides it again.

use std::sync::Arc;

use crate::{
    error::SendError,
    kernel::{RevokeAll, RevokeGrant},
    session::{Granted, Session},
    words::ids::Seq,
};

impl Session {
    /// The standing grants, oldest first: what people allowed in answers to asks, for the running turn or for longer
    /// ([`Granted::allows`] says it in words). Those of its children are on the children's tapes.
    ///
    /// # Errors
    /// Among others [`SendError::Closed`] and [`SendError::Parked`].
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use tamtam::{Runtime, SessionOptions, EventKind, model::{Reply, Scripted}, permission::Profile, session::{Grant, Next, Scope}};
    /// # #[cfg(all(unix, feature = "tools"))]
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
    /// # let folder = tempfile::tempdir()?;
    /// let read = r#"{"path":"notes.txt"}"#;
    /// let model = Scripted::new([Reply::empty().with_raw_call("", "read", read), Reply::text("Read.")]);
    /// let runtime = Runtime::builder().store(folder.path()).model(Arc::new(model)).tools(tamtam::tools::full()).start().await?;
    /// let mut options = SessionOptions::new(folder.path());
    /// options.rules = Some(Profile::Strict.ruleset());
    /// let session = runtime.create(options).await?;
    /// let mut events = session.events();
    /// let receipt = session.prompt("Read my notes.").await?;
    /// while let Some(next) = events.next().await {
    ///     let Next::Event(event) = next else { continue };
    ///     match event.kind {
    ///         EventKind::Ask { ask, .. } => session.answer(ask, Grant::Always(Scope::Session)).await?,
    ///         EventKind::TurnFinished { .. } => break,
    ///         _ => {}
    ///     }
    /// }
    /// receipt.wait().await?;
    /// let grants = session.grants().await?;
    /// assert_eq!(grants[0].allows(), "Allows reading `notes.txt`.");
    /// session.revoke(grants[0].id).await?;
    /// assert!(session.grants().await?.is_empty());
    /// runtime.shutdown().await;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub async fn grants(&self) -> Result<Vec<Granted>, SendError> {
        Ok(Arc::unwrap_or_clone(self.state().await?.grants))
    }

    /// Revokes a standing grant, by its id. From the next decision on, what it allowed is asked about again, including calls of
    /// the running turn that have not started. A running call continues, and so does the call that the answer was about.
    ///
    /// # Errors
    /// [`Refusal::NoSuchGrant`](crate::session::Refusal::NoSuchGrant) if the grant does not exist, or no longer exists: a second
    /// revoke of the same grant changes nothing. Others as [`Session::answer`].
    pub async fn revoke(&self, grant: Seq) -> Result<(), SendError> {
        self.record(RevokeGrant { grant }).await.map(drop)
    }

    /// Revokes all standing grants of the session, in one append: also one that was given after the caller last looked. Otherwise as
    /// [`Session::revoke`]. Grants of its children, and those that the host stores ([`Settings::granted`](crate::session::Settings::granted)),
    /// stay. Without a grant nothing is recorded.
    ///
    /// # Errors
    /// As [`Session::revoke`], without [`Refusal::NoSuchGrant`](crate::session::Refusal::NoSuchGrant).
    pub async fn revoke_all(&self) -> Result<(), SendError> {
        self.record(RevokeAll).await.map(drop)
    }
}
