//! A chat bot: a conversation for each name, kept in the folder `chats`; answers piece by piece; a hook that takes passwords out.
//!
//! `cargo run --example chat`: no key, no network. Then write lines such as `ada: hello there`, `ada: /steer in French, please`,
//! `ada: /stop` or `ben: hello`. The end of stdin ends the bot; started again, it continues the conversations.

use std::{collections::HashMap, io::stdin, path::Path, sync::Arc, time::Duration};

use tamtam::{
    EventKind, EventStream, Message, Outcome, Part, Runtime, Session, SessionOptions,
    hook::{Hook, HookContext, Input},
    model::{BoxFuture, Model, Reply, Request, Scripted, transcript},
    session::Next,
};
use tokio::{sync::mpsc, task::JoinSet};

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Shows a piece of an answer: the name of the conversation, and the text.
pub type Show = Arc<dyn Fn(&str, &str) + Send + Sync>;

/// Takes passwords out of messages before the model and the tape get them. If it fails, the message is refused.
/// `Hook::on_answer` does the same for answers, but then an answer is shown only when it is whole.
struct NoPasswords;

impl Hook for NoPasswords {
    fn name(&self) -> &str {
        "no passwords"
    }

    fn on_input<'a>(&'a self, _: &'a HookContext, mut message: Message) -> BoxFuture<'a, Input> {
        for part in &mut message.parts {
            if let Part::Text(text) = part {
                let words = text.text.split(' ').map(|word| if word.starts_with("pw:") { "[password]" } else { word });
                text.text = words.collect::<Vec<_>>().join(" ");
            }
        }
        Box::pin(async { Input::Pass(Box::new(message)) })
    }
}

/// The conversations by name, and the tasks that show them.
struct Bot {
    runtime: Runtime,
    chats: HashMap<String, Session>,
    listeners: JoinSet<()>,
    show: Show,
}

impl Bot {
    /// Carries out one line.
    async fn line(&mut self, line: &str) -> Result {
        let (name, words) = line.split_once(':').ok_or("write `name: words`")?;
        let (chat, words) = (self.chat(name.trim()).await?, words.trim());
        match words.strip_prefix("/steer ") {
            _ if words == "/stop" => chat.abort("the person said stop").await.map(drop)?,
            // The running turn reads the words at its next step; an idle conversation begins a turn.
            Some(words) => chat.steer(words).await.map(drop)?,
            // Gets its own answer, after the running one.
            None => chat.prompt(words).await.map(drop)?,
        }
        Ok(())
    }

    /// The conversation of a name. Its first line here opens it, or makes it.
    async fn chat(&mut self, name: &str) -> Result<Session> {
        if let Some(chat) = self.chats.get(name) {
            return Ok(chat.clone());
        }
        let chat = self.runtime.open_or_create(SessionOptions::new(".").id(name.parse()?)).await?;
        self.listeners.spawn(listen(chat.events(), name.to_owned(), self.show.clone()));
        self.chats.insert(name.to_owned(), chat.clone());
        Ok(chat)
    }
}

/// Shows what is said in a conversation, until the runtime ends.
async fn listen(mut events: EventStream, name: String, show: Show) {
    while let Some(next) = events.next().await {
        let Next::Event(event) = next else { continue };
        match &event.kind {
            EventKind::TextDelta { text } => show(&name, text),
            EventKind::Steered { .. } => show(&name, "(steered)"),
            EventKind::TurnFinished { outcome: Outcome::Done, .. } => show(&name, "(done)"),
            EventKind::TurnFinished { outcome: Outcome::Aborted { .. }, .. } => show(&name, "(stopped)"),
            EventKind::TurnFinished { outcome, .. } => show(&name, &format!("({outcome:?})")),
            _ => {}
        }
    }
}

/// The bot, until its lines end.
pub async fn chat(store: &Path, model: Arc<dyn Model>, mut lines: mpsc::Receiver<String>, show: Show) -> Result {
    let runtime = Runtime::builder().store(store).model(model).hook(NoPasswords).start().await?;
    let mut bot = Bot { runtime, chats: HashMap::new(), listeners: JoinSet::new(), show };
    while let Some(line) = lines.recv().await {
        bot.line(&line).await.unwrap_or_else(|error| (bot.show)("bot", &error.to_string()));
    }
    // Running turns finish; a longer one continues at the next start. The listeners end with the runtime.
    bot.runtime.drain(Duration::from_secs(10)).await;
    bot.runtime.shutdown().await;
    bot.listeners.join_all().await;
    Ok(())
}

/// The scripted model says again what a person said, word by word.
pub fn echo(request: &Request) -> Reply {
    let said = transcript(request);
    let words = said.lines().rev().find_map(|line| line.strip_prefix("user: ")).unwrap_or_default();
    let slowly = |reply: Reply, word| reply.waiting(Duration::from_millis(50)).with_text(word);
    words.split_inclusive(' ').fold(Reply::text("You said: "), slowly)
}

#[tokio::main]
async fn main() -> Result {
    let (send, lines) = mpsc::channel(16);
    // Reading stdin blocks, so it has its own thread.
    std::thread::spawn(move || stdin().lines().map_while(|line| line.ok()).try_for_each(|it| send.blocking_send(it)));
    let show = |name: &str, text: &str| println!("[{name}] {text}");
    chat(Path::new("chats"), Arc::new(Scripted::from_fn(echo)), lines, Arc::new(show)).await
}
