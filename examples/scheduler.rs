//! A host's own scheduler and connector in the tree of the runtime: started, restarted, parked and stopped with it.
//!
//! The connector takes messages from outside (here: a channel) and sends them to a session; its line breaks once, and its
//! supervisor brings it back. The scheduler has a separate start and asks the session something from time to time.
//!
//! `cargo run --example scheduler`: no key, no network.

use std::{sync::Arc, time::Duration};

use tamtam::{
    Runtime, SessionOptions,
    model::{Reply, Scripted},
    supervisor::{ChildSpec, Done, Start},
};
use tokio::sync::{Mutex, mpsc};

type Failed = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let model = Scripted::new((1..=4).map(|n| Reply::text(format!("Answer {n}."))));
    let runtime = Runtime::builder().store(folder.path()).model(Arc::new(model)).start().await?;
    let session = runtime.create(SessionOptions::new(folder.path())).await?;

    // What outlives a crash of the connector is the host's: the queue is not in its future.
    let (outside, queue) = mpsc::channel::<&str>(16);
    let queue = Arc::new(Mutex::new(queue));
    let (answers, mut answered) = mpsc::channel::<String>(16);
    let connector = {
        let (session, answers) = (session.clone(), answers.clone());
        ChildSpec::new("connector", move |cx| {
            let (session, queue, answers) = (session.clone(), queue.clone(), answers.clone());
            async move {
                let mut queue = queue.lock().await;
                loop {
                    cx.node().doing("waits for a message");
                    let message = tokio::select! {
                        message = queue.recv() => message.ok_or("the other side has gone")?,
                        () = cx.stopping() => return Ok(()),
                    };
                    if message == "(line breaks)" {
                        return Err("the line broke".into());
                    }
                    cx.node().doing("asks the session");
                    let answer = session.prompt(message).await?.wait().await?;
                    answers.send(format!("connector, incarnation {}: {}", cx.incarnation(), answer.text)).await?;
                }
            }
        })
    };
    let scheduler = ChildSpec::with_start("scheduler", move |cx| {
        let (session, answers) = (session.clone(), answers.clone());
        async move {
            // A start may connect, bind or read; the next line of `main` waits for it.
            let every = Duration::from_millis(300);
            let work = async move {
                let mut ticks = tokio::time::interval(every);
                ticks.tick().await;
                loop {
                    tokio::select! {
                        _ = ticks.tick() => {}
                        () = cx.stopping() => return Ok(()),
                    }
                    let answer = session.prompt("What is due?").await?.wait().await?;
                    answers.send(format!("scheduler: {}", answer.text)).await?;
                }
            };
            Ok(Start::run(work).with(format!("every {} ms", every.as_millis())))
        }
    });

    runtime.host().start_child(connector).await?;
    if let Done::StartedWith(said) = runtime.host().start_child(scheduler).await? {
        println!("the scheduler runs {said}");
    }
    for message in ["Hello?", "(line breaks)", "Still there?"] {
        outside.send(message).await?;
    }
    for _ in 0..3 {
        println!("{}", answered.recv().await.ok_or("nobody answers")?);
    }
    print!("{}", runtime.tree());
    for crash in runtime.crashes() {
        println!("crash: {} {}: {}, {}", crash.offender, crash.context, crash.reason, crash.decision);
    }
    let leftover = runtime.shutdown().await;
    println!("left over: {}", if leftover.is_empty() { "nothing" } else { "something" });
    Ok(())
}
