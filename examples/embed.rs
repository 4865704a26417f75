//! A host that embeds the runtime: the four calls of an agent adapter, one line each.
//!
//! `cargo run --example embed`: no key, no network.

use std::sync::Arc;

use tamtam::{
    Answer, EventKind, Outcome, Runtime, Session, SessionId, SessionOptions,
    model::{Reply, Scripted},
    session::Next,
};

/// What a host's own code sees of agents.
struct Adapter(Runtime);

type Failed = Box<dyn std::error::Error + Send + Sync>;

impl Adapter {
    async fn create_session(&self, options: SessionOptions) -> Result<SessionId, Failed> {
        Ok(self.0.create(options).await?.id().clone())
    }

    async fn call(&self, session: &SessionId, input: &str) -> Result<Answer, Failed> {
        Ok(self.session(session)?.prompt(input).await?.wait().await?)
    }

    async fn stream(&self, session: &SessionId, input: &str, text: impl Fn(&str)) -> Result<Outcome, Failed> {
        let session = self.session(session)?;
        let mut events = session.events();
        session.prompt(input).await?;
        while let Some(next) = events.next().await {
            match next {
                Next::Event(event) => match &event.kind {
                    EventKind::TextDelta { text: more } => text(more),
                    EventKind::TurnFinished { outcome, .. } => return Ok(outcome.clone()),
                    _ => {}
                },
                Next::Lagged(missed) => eprintln!("{missed} events missed"),
                _ => {}
            }
        }
        Err("the runtime was shut down".into())
    }

    async fn abort(&self, session: &SessionId, reason: &str) -> Result<(), Failed> {
        self.session(session)?.abort(reason).await?;
        Ok(())
    }

    fn session(&self, id: &SessionId) -> Result<Session, Failed> {
        Ok(self.0.session(id))
    }
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let replies =
        [Reply::text("Paris."), Reply::empty().with_text("It has ").with_text("two million people."), Reply::hang()];
    let model = Arc::new(Scripted::new(replies));
    let runtime = Runtime::builder().store(folder.path().join("tapes")).model(model).start().await?;
    let adapter = Adapter(runtime.clone());

    let session = adapter.create_session(SessionOptions::new(folder.path())).await?;
    println!("call:   {}", adapter.call(&session, "What is the capital of France?").await?.text);
    print!("stream: ");
    let outcome = adapter.stream(&session, "How large is it?", |text| print!("{text}")).await?;
    println!("  ({outcome:?})");
    let hanging = adapter.session(&session)?.prompt("And now think for ever.").await?;
    adapter.abort(&session, "took too long").await?;
    println!("abort:  {:?}", hanging.wait().await?.outcome);

    let left = runtime.shutdown().await;
    println!("left behind: {}", if left.is_empty() { "nothing" } else { "something" });
    Ok(())
}
