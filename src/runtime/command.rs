//! Carries out commands: lines that begin with `/`, the same for a terminal, for programs and for hosts.
//!
//! Which commands there are and what their texts say is `agent/command.rs`. A change must keep that a command is carried out whole
//! or not at all: the name of the command, its agent, and the model that `/model` names are looked up before anything is recorded.
//! (The model of a command that says something is looked up by the worker that asks it, as for any message.)

use std::fmt::Write as _;

use crate::{
    agent::{BadAgent, BadCommand, Called, CommandAct, Commands, Does},
    error::{Kind, SendError, SpawnError},
    kernel::{AgentChoice, Delivery},
    model::{BadThinking, ModelError, PRICES, Thinking},
    runtime::TaskOptions,
    session::{BranchError, Session, receipt::Receipt},
    task::TaskRequest,
    words::{
        ids::{NAME_BYTES_MAX, SessionId},
        message::{BadModelRef, Message, ModelRef},
    },
};

/// What came of a command.
#[derive(Debug)]
#[non_exhaustive]
pub enum Commanded {
    /// A message was sent, and the model answers it.
    Sent(Receipt),
    /// Something was done or looked up, and this is said about it. The model hears nothing of it.
    Said(String),
    /// A task was given to this child; the model learns of its end.
    Task(SessionId),
}

/// Why a command was not carried out. Nothing of it was recorded, unless the variant says otherwise.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// No command has that name, or it takes other arguments.
    #[error(transparent)]
    Command(#[from] BadCommand),
    /// No agent has that name.
    #[error(transparent)]
    Agent(#[from] BadAgent),
    /// The text names no model.
    #[error(transparent)]
    ModelName(#[from] BadModelRef),
    /// The text names no level of thinking.
    #[error(transparent)]
    Thinking(#[from] BadThinking),
    /// The model cannot be reached.
    #[error("{0}")]
    Model(#[source] ModelError),
    /// The task of the command could not be given, or the agent of the command wrote nothing.
    #[error(transparent)]
    Task(#[from] SpawnError),
    /// The conversation did not go back or forward.
    #[error(transparent)]
    Branch(#[from] BranchError),
    /// The session did not take it.
    #[error(transparent)]
    Session(#[from] SendError),
}

impl CommandError {
    /// What a caller can do about it.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            CommandError::Command(BadCommand::Unknown { .. }) | CommandError::Agent(_) => Kind::NotFound,
            CommandError::Command(_)
            | CommandError::ModelName(_)
            | CommandError::Thinking(_)
            | CommandError::Model(_) => Kind::Invalid,
            CommandError::Task(error) => error.kind(),
            CommandError::Branch(error) => error.kind(),
            CommandError::Session(error) => error.kind(),
        }
    }
}

impl Session {
    /// The commands of the session's runtime, as they are now.
    #[must_use]
    pub fn commands(&self) -> Commands {
        self.shared.commands.lock().clone()
    }

    /// Carries out a line that begins with `/`; any other line is a message. `delivery` says what a message does where the session
    /// is busy.
    ///
    /// A command with an agent or a model is answered by that agent and that model, and what comes after it is not. A command with
    /// `subtask` (such as `/review`), or with an agent that is for tasks only, is a task in the background (as by
    /// [`Session::delegate`]) of that agent, also of one that is for sessions, and that model: the conversation gets its end, and
    /// nothing of its way.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tamtam::{Delivery, Runtime, SessionOptions, model::{Reply, Scripted}, runtime::Commanded};
    ///
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
    /// # let folder = tempfile::tempdir()?;
    /// let model = Arc::new(Scripted::new([Reply::text("There is a file already.")]));
    /// let runtime = Runtime::builder().in_memory().model(model).start().await?;
    /// let session = runtime.create(SessionOptions::new(folder.path())).await?;
    /// let Commanded::Sent(receipt) = session.command("/init", Delivery::Queue).await? else { panic!() };
    /// assert_eq!(receipt.wait().await?.text, "There is a file already.");
    /// let Commanded::Said(words) = session.command("/undo", Delivery::Queue).await? else { panic!() };
    /// assert!(words.starts_with("Undid 1 message; /redo restores it. Files were not changed back"));
    /// runtime.shutdown().await;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`CommandError`] says what is wrong with the command, or why the session did not take it.
    pub async fn command(&self, line: &str, delivery: Delivery) -> Result<Commanded, CommandError> {
        let Some(called) = self.commands().read(line) else {
            return Ok(Commanded::Sent(self.send(line, delivery).await?));
        };
        let called = called?;
        match called.command.does {
            Does::Act(act) => self.act(act, &called).await.map(Commanded::Said),
            Does::Say(_) => match self.as_task(&called) {
                Some(request) => {
                    let options =
                        TaskOptions { model: called.command.model.clone(), is_command: true, ..TaskOptions::default() };
                    let child = self.delegate(request, options).await?;
                    Ok(Commanded::Task(child.session().id().clone()))
                }
                None => self.say(&called, delivery).await.map(Commanded::Sent),
            },
        }
    }

    /// The task that a command is, where it is one.
    fn as_task(&self, called: &Called) -> Option<TaskRequest> {
        let (command, agents) = (&called.command, self.agents());
        let is_for_tasks = |name: &str| agents.primary(name).is_err() && agents.subagent(name).is_ok();
        if !command.subtask && !command.agent.as_deref().is_some_and(is_for_tasks) {
            return None;
        }
        let agent = command.agent.clone().unwrap_or_else(|| "general".to_owned());
        Some(TaskRequest::new(agent, format!("/{}", command.name), called.text().unwrap_or_default()))
    }

    async fn say(&self, called: &Called, delivery: Delivery) -> Result<Receipt, CommandError> {
        let command = &called.command;
        let mut message = Message::user(called.text().unwrap_or_default());
        message.model.clone_from(&command.model);
        message.agent.clone_from(&command.agent);
        Ok(self.send(message, delivery).await?)
    }

    async fn act(&self, act: CommandAct, called: &Called) -> Result<String, CommandError> {
        if !matches!(act, CommandAct::Agent | CommandAct::Model | CommandAct::Models | CommandAct::Thinking) {
            called.no_word()?;
        }
        Ok(match act {
            CommandAct::Undo => {
                let gone = self.undo().await?.gone.len();
                format!(
                    "Undid {}; /redo restores {}. Files were not changed back: `tamtam tape restore {}` shows them.",
                    messages(gone),
                    if gone == 1 { "it" } else { "them" },
                    self.id()
                )
            }
            CommandAct::Redo => format!("Restored {}.", messages(self.redo().await?.again.len())),
            CommandAct::Compact => {
                self.compact().await?;
                "Summarizing the older part of the conversation.".to_owned()
            }
            CommandAct::Help => self.help(),
            CommandAct::Agents => self.agent_list().await?,
            CommandAct::Agent => {
                let name = called.only_word()?;
                let choice = self.choice_of(name).await?;
                self.switch_agent(choice).await?;
                format!("Switched to agent {name}.")
            }
            CommandAct::Models => models(&called.arguments),
            CommandAct::Model => {
                let model: ModelRef = called.only_word()?.parse()?;
                self.shared.models.find(&model).map_err(CommandError::Model)?;
                // The chain stood behind the model before.
                self.configure(|settings| (settings.model, settings.fallback) = (model.clone(), Vec::new())).await?;
                format!("Switched to {model}.")
            }
            CommandAct::Thinking => {
                let level: Thinking = called.only_word()?.parse()?;
                self.set_thinking(Some(level)).await?;
                self.thinking_set(level).await?
            }
            CommandAct::Title => format!("Title: {}", self.write_title().await?),
            CommandAct::Summary => self.write_summary().await?,
        })
    }

    /// The agent that a message names, for its turn. One that was taken before gets its receipt, whatever became of its agent.
    pub(crate) async fn agent_of(&self, message: &Message) -> Result<Option<AgentChoice>, SendError> {
        // A name out of its bounds is refused by the session, as the other names in a message are.
        let Some(name) = message.agent.as_deref().filter(|name| (1..=NAME_BYTES_MAX).contains(&name.len())) else {
            return Ok(None);
        };
        match self.choice_of(name).await {
            Ok(choice) => Ok(Some(choice)),
            Err(CommandError::Session(error)) => Err(error),
            Err(_) if self.state().await?.seen.get(&message.id).is_some() => Ok(None),
            Err(error) => Err(SendError::NoAgent { why: error.to_string() }),
        }
    }

    /// The agent of that name, for this session; its own one too.
    async fn choice_of(&self, name: &str) -> Result<AgentChoice, CommandError> {
        let settings = self.state().await?.settings;
        let names = |agent: &str| settings.names_agent(agent, &self.shared.globs);
        let own = settings.switched.as_deref().map_or(&settings.agent, |switched| &switched.own.agent);
        Ok(match name == own {
            true => AgentChoice::Own,
            false => self.agents().primary_among(name, names)?.for_session(self.id())?,
        })
    }

    /// What is said of a level that was set.
    async fn thinking_set(&self, level: Thinking) -> Result<String, CommandError> {
        let model = self.state().await?.settings.model.clone();
        let less = level.instead(&model).map(|less| format!(" ({less})")).unwrap_or_default();
        Ok(format!("Thinking: {level}, from the next request on{less}."))
    }

    fn help(&self) -> String {
        let mut text = String::new();
        for command in self.commands().list() {
            let arguments = command.arguments.as_deref().map(|arguments| format!(" {arguments}")).unwrap_or_default();
            line(&mut text, &format!("/{}{arguments}", command.name), &command.description);
        }
        text
    }

    async fn agent_list(&self) -> Result<String, CommandError> {
        let settings = self.state().await?.settings;
        let in_force = &settings.agent;
        let mut text = String::new();
        let names = |agent: &str| agent == in_force || settings.names_agent(agent, &self.shared.globs);
        for agent in self.agents().list().filter(|agent| names(&agent.name)) {
            let mark = if agent.name == *in_force { "* " } else { "  " };
            line(&mut text, &format!("{mark}{}", agent.name), &agent.description);
        }
        Ok(text)
    }
}

fn messages(count: usize) -> String {
    if count == 1 { "1 message".to_owned() } else { format!("{count} messages") }
}

/// One line of a list: a name, and the first line of what is said about it.
fn line(text: &mut String, name: &str, about: &str) {
    let gap = if text.is_empty() { "" } else { "\n" };
    // Writing to a String cannot fail.
    let _ = write!(text, "{gap}{name:<24} {}", about.lines().next().unwrap_or_default());
}

fn models(part: &str) -> String {
    let names = PRICES.iter().map(|known| format!("{}/{}", known.provider, known.model));
    names.filter(|name| name.contains(part)).collect::<Vec<_>>().join("\n")
}
