//! A chat bot: one conversation for each name, a message into a running turn steers it, answers come piece by piece, and a hook takes
//! secrets out of what people write. Conversations are kept in `chats/`: start it again, and they continue.
//!
//! `cargo run --example chat`, then lines such as `ada: hello`, `ada: /stop` or `ben: hello`; the end of stdin ends it. No key, no
//! network: a scripted model answers.

use std::{
    io::{BufRead, Write},
    path::Path,
    sync::Arc,
    time::Duration,
};

use tamtam::{
    EventKind, Message, Runtime, Session, SessionId, SessionOptions,
    hook::{Hook, HookContext, Input},
    model::{BoxFuture, Reply, Scripted},
    session::{Next, Part},
};

/// Takes passwords out of messages before anybody sees them. If it fails, the message is refused: a hook guards by default.
struct NoPasswords;

impl Hook for NoPasswords {
    fn name(&self) -> &str {
        "no passwords"
    }

    fn on_input<'a>(&'a self, _: &'a HookContext, message: Message) -> BoxFuture<'a, Input> {
        Box::pin(async move {
            let words = message.text();
            let words: Vec<_> =
                words.split(' ').map(|word| if word.starts_with("pw:") { "[password]" } else { word }).collect();
            let message = Message { parts: vec![Part::text(words.join(" "))], ..message };
            Input::Pass(Box::new(message))
        })
    }
}

/// The conversation of a name, and a task that prints what its agent says.
async fn conversation(runtime: &Runtime, name: &str, out: Out) -> Result<Session, Box<dyn std::error::Error>> {
    let id: SessionId = format!("chat-{name}").parse()?;
    let session = runtime.open_or_create(SessionOptions::new(".").id(id)).await?;
    let (mut events, name) = (session.events(), name.to_owned());
    tokio::spawn(async move {
        while let Some(next) = events.next().await {
            let Next::Event(event) = next else { continue };
            match &event.kind {
                EventKind::TextDelta { text } => say(&out, &format!("[{name}] {text}")),
                EventKind::Steered { message, .. } => say(&out, &format!("[{name}] (taken up: {})", message.text())),
                EventKind::TurnFinished { outcome, .. } => say(&out, &format!("[{name}] ({outcome:?})")),
                _ => {}
            }
        }
    });
    Ok(session)
}

/// Carries out one line: `name: words`, or `name: /stop`.
async fn line(runtime: &Runtime, line: &str, out: &Out) -> Result<(), Box<dyn std::error::Error>> {
    let Some((name, words)) = line.split_once(':') else {
        say(out, "write `name: words`");
        return Ok(());
    };
    let id: SessionId = format!("chat-{}", name.trim()).parse()?;
    let session = match runtime.awake().contains(&id) {
        true => runtime.session(&id),
        false => conversation(runtime, name.trim(), out.clone()).await?,
    };
    match words.trim() {
        "/stop" => drop(session.abort("the person said stop").await?),
        // An idle session begins a turn; a running one reads the words at its next step.
        words => drop(session.steer(words).await?),
    }
    Ok(())
}

type Out = Arc<dyn Fn(&str) + Send + Sync>;

fn say(out: &Out, words: &str) {
    out(words);
}

/// The whole bot over any lines.
pub async fn chat(chats: &Path, lines: impl BufRead, out: Out) -> Result<(), Box<dyn std::error::Error>> {
    let model = Scripted::from_fn(|request| {
        let asked = tamtam::model::transcript(request);
        let words = asked.lines().rev().find_map(|line| line.strip_prefix("user: ")).unwrap_or_default();
        Reply::text(format!("You said: {words}.")).waiting(Duration::from_millis(20))
    });
    let runtime = Runtime::builder().store(chats).model(Arc::new(model)).hook(NoPasswords).start().await?;
    for words in lines.lines() {
        if let Err(error) = line(&runtime, &words?, &out).await {
            say(&out, &format!("not done: {error}"));
        }
    }
    // Running turns finish, what waits is kept, and nothing is left running.
    runtime.drain(Duration::from_secs(10)).await;
    runtime.shutdown().await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let out: Out = Arc::new(|words| {
        drop(writeln!(std::io::stdout(), "{words}"));
    });
    chat(Path::new("chats"), std::io::stdin().lock(), out).await
}
