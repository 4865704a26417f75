//! How a host changes a session: its settings in general, its agent, its labels, its title.
//!
//! New settings are worked out here from the newest ones, and the core refuses them if they were worked out from older ones. Then
//! they are worked out again, up to 32 times. An edit of this file must keep that: where two hosts change different settings at
//! the same time, neither change is lost.

use super::Session;
use crate::{
    error::SendError,
    kernel::{AgentChoice, Configure, Refusal, Settings, SwitchAgent},
    model::Thinking,
    words::ids::Seq,
    words::labels::Labels,
};

/// How often [`Session::configure`] tries, where others change the settings at the same time.
const CONFIGURE_TRIES_MAX: u32 = 32;

impl Session {
    /// Changes the settings. The new settings hold from the next step on.
    ///
    /// If another caller changes the settings at the same time, `change` is called again with the newer settings, so that neither
    /// change overwrites the other unseen. `change` cannot reach the rules of the host or those of a child's ancestors: its
    /// changes to [`Settings::host`] and [`Settings::above`] are ignored.
    ///
    /// # Errors
    /// [`SendError::Storage`] if the settings could not be written; [`Refusal::Reconfigured`] (as [`SendError::Refused`]) if
    /// other callers changed them during each of 32 tries.
    pub async fn configure(&self, change: impl Fn(&mut Settings)) -> Result<(), SendError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let before = self.state().await?.settings;
            let mut settings = Box::new((*before).clone());
            change(&mut settings);
            let done = self.ask(Configure { before: Some(before), settings }).await;
            match done {
                Err(SendError::Refused(Refusal::Reconfigured)) if tries < CONFIGURE_TRIES_MAX => {}
                done => return done.map(drop),
            }
        }
    }

    /// Has the session work as another agent, or as its own one again ([`AgentChoice::Own`]): prompt, model, tools and limits are
    /// those of the agent, where it sets them. The choice is recorded at once and holds from the next step on: calls that were
    /// asked for before are judged by the rules of before. Returns the entry that recorded the choice, or the newest one where that
    /// agent is chosen already.
    ///
    /// The session's own rules and tools stay: a switch removes rights and adds none, except what the built-in agent `plan`
    /// needs.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tamtam::{Runtime, SessionOptions, model::Scripted, session::AgentChoice};
    ///
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
    /// # let folder = tempfile::tempdir()?;
    /// let runtime = Runtime::builder().store(folder.path()).model(Arc::new(Scripted::new([]))).start().await?;
    /// let session = runtime.create(SessionOptions::new(folder.path())).await?;
    /// let agents = session.agents();
    /// session.switch_agent(agents.primary("plan")?.for_session(session.id())?).await?;
    /// assert_eq!(session.state().await?.settings.agent, "plan");
    /// session.switch_agent(AgentChoice::Own).await?;
    /// assert_eq!(session.state().await?.settings.agent, "build");
    /// runtime.shutdown().await;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`Refusal::Ended`] (as [`SendError::Refused`]) if the session has ended; others as [`Session::configure`].
    pub async fn switch_agent(&self, choice: AgentChoice) -> Result<Seq, SendError> {
        self.record(SwitchAgent { choice }).await
    }

    /// Replaces the labels by which lists and searches find the session; see [`Settings::labels`]. Its forks and children keep
    /// those that they have. Labels that the session has already are not recorded again.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tamtam::{Runtime, SessionOptions, model::Scripted, ops::SessionQuery, session::Labels};
    ///
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
    /// # let folder = tempfile::tempdir()?;
    /// let runtime = Runtime::builder().store(folder.path()).model(Arc::new(Scripted::new([]))).start().await?;
    /// let mut options = SessionOptions::new(folder.path());
    /// options.labels = Labels::new([("tenant", "acme")])?;
    /// let session = runtime.create(options).await?;
    /// session.set_labels(Labels::new([("tenant", "acme"), ("user", "ann")])?).await?;
    /// let mut query = SessionQuery::default();
    /// query.labels = Labels::new([("user", "ann")])?;
    /// # query.wait = std::time::Duration::from_secs(60);
    /// let page = runtime.sessions(query).await?;
    /// assert_eq!(page.sessions[0].labels.get("tenant"), Some("acme"));
    /// runtime.shutdown().await;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`Session::configure`].
    pub async fn set_labels(&self, labels: Labels) -> Result<(), SendError> {
        self.configure(|settings| settings.labels.clone_from(&labels)).await
    }

    /// Sets how much the model thinks, from its next request on; `None` leaves it to the provider. A request that is open stays as it
    /// is. A model that lacks the level is asked for the nearest one that it has ([`Thinking::among`]).
    ///
    /// # Errors
    /// As [`Session::configure`].
    pub async fn set_thinking(&self, level: Option<Thinking>) -> Result<(), SendError> {
        self.configure(|settings| settings.params.thinking = level).await
    }

    /// Sets the title that lists show; `None` for the first words of the first message.
    ///
    /// # Errors
    /// As [`Session::configure`].
    pub async fn set_title(&self, title: Option<String>) -> Result<(), SendError> {
        self.configure(|settings| settings.title.clone_from(&title)).await
    }
}
