//! Titles and summaries of conversations, written on request by the hidden agents `title` and `summary`.
//!
//! The writer is a child session of the session: it is supervised as every child is, runs alongside the session's turn, and draws
//! on the session's budget. The two built-in agents have no tools. The writer gets texts of the conversation as data: for a title
//! the first ones, for a summary the newest ones, at most 32 KiB.
//!
//! A change must keep the link [`Link::ATTACHED`]: with a link that wakes the parent, the DOWN (the report that the writer is done)
//! would begin a turn of the session.
//!
//! Rejected: to make each title and summary a ticket of the core, as the summary of a compaction is. A compaction changes what
//! the model sees, so a turn waits for it; a title changes only what lists show.

use crate::{
    error::SpawnError,
    kernel::{DownReason, Link},
    runtime::options::SessionOptions,
    session::Session,
    words::message::{Message, NOT_THE_USER, Role},
};

/// The most bytes of the conversation that a writer gets: of its beginning for a title, of its end for a summary.
const TOLD_BYTES_MAX: usize = 32 * 1_024;
/// The most bytes of one message.
const MESSAGE_BYTES_MAX: usize = 4 * 1_024;

impl Session {
    /// Lets the agent `title` write a title, sets its first line as [`Session::set_title`] does, and returns it. The conversation
    /// continues meanwhile, and does not see it. An agent of that name in the configuration may name a small model.
    ///
    /// If the process ends before the title is written, no title is set. Dropping the future sets none either, unless the title was
    /// being set by then; a writer that has begun still ends.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tamtam::{Runtime, SessionOptions, model::{Reply, Scripted}};
    ///
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
    /// # let folder = tempfile::tempdir()?;
    /// let model = Arc::new(Scripted::new([Reply::text("It is 4."), Reply::text("A sum")]));
    /// let runtime = Runtime::builder().in_memory().model(model).start().await?;
    /// let session = runtime.create(SessionOptions::new(folder.path())).await?;
    /// session.prompt("What is 2 + 2?").await?.wait().await?;
    /// assert_eq!(session.write_title().await?, "A sum");
    /// assert_eq!(session.state().await?.settings.title.as_deref(), Some("A sum"));
    /// runtime.shutdown().await;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`SpawnError::Unwritten`] if nothing was said yet, or the agent wrote no text; others as [`Session::spawn_child`] and
    /// [`Session::set_title`].
    pub async fn write_title(&self) -> Result<String, SpawnError> {
        let told = told(self.messages().await?.iter());
        let text = self.written_by("title", told).await?;
        let title = text.lines().next().unwrap_or_default().trim().to_owned();
        self.set_title(Some(title.clone())).await?;
        Ok(title)
    }

    /// Has the agent `summary` say in two sentences what the conversation did, and returns them; nothing keeps them. Otherwise as
    /// [`Session::write_title`].
    ///
    /// # Errors
    /// As [`Session::write_title`].
    pub async fn write_summary(&self) -> Result<String, SpawnError> {
        let mut newest = told(self.messages().await?.iter().rev());
        newest.reverse();
        self.written_by("summary", newest).await
    }

    /// Has the agent of this name read these texts, in a child session, and returns what it wrote.
    async fn written_by(&self, agent: &str, told: Vec<String>) -> Result<String, SpawnError> {
        let unwritten = |why: String| SpawnError::Unwritten { why };
        if told.is_empty() {
            return Err(unwritten("nothing was said yet".to_owned()));
        }
        let agents = self.shared.agents.lock().clone();
        let writer = agents.get(agent).ok_or_else(|| unwritten(format!("there is no agent {agent}")))?;
        let workspace = self.state().await?.settings.workspace.clone();
        let mut options =
            SessionOptions::from_agent(writer, workspace).map_err(|error| unwritten(error.to_string()))?;
        options.title = Some(format!("{agent} of {}", self.id()));
        let prompt = format!("{NOT_THE_USER}\nThe conversation:\n\n{}", told.join("\n\n"));
        let down = self.spawn_child(options, prompt, Link::ATTACHED).await?.down().await?;
        match &down.reason {
            DownReason::Done if !down.text.trim().is_empty() => Ok(down.text.trim().to_owned()),
            DownReason::Done => Err(unwritten(format!("the agent {agent} wrote nothing"))),
            reason => Err(unwritten(format!("the agent {agent} did not end well: {reason}"))),
        }
    }
}

/// The texts of these messages, each cut to [`MESSAGE_BYTES_MAX`], up to the first that no longer fits in [`TOLD_BYTES_MAX`].
fn told<'a>(messages: impl Iterator<Item = &'a Message>) -> Vec<String> {
    let mut room = TOLD_BYTES_MAX;
    let texts = messages.filter_map(|message| {
        let text = message.text();
        let who = if message.role == Role::User { "user" } else { "assistant" };
        let cut = text.floor_char_boundary(MESSAGE_BYTES_MAX);
        (!text.trim().is_empty()).then(|| format!("{who}: {}", &text[..cut]))
    });
    let fits = |text: &String| {
        let left = room.checked_sub(text.len());
        room = left.unwrap_or_default();
        left.is_some()
    };
    texts.take_while(fits).collect()
}
