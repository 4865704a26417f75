//! Exchanges with a provider are recorded into a file, and a host's test is answered from it, without a server.

use std::{path::Path, sync::Arc, time::Duration};

use serde_json::Value;
use tamtam::{
    Answer, Outcome, Runtime, SessionOptions,
    model::{Api, ErrorKind, Exchanges, HttpOptions, Provider, Router, Secret},
};

use crate::support::{
    fault_server::{Act, FaultServer, chunk, chunked_head, refusal},
    streams::answer,
    taped,
};

const KEY: &str = "sk-CANARY-0123456789";

/// Says these things in one session over these exchanges.
async fn talk(folder: &Path, url: &str, exchanges: Exchanges, said: &[&str]) -> Vec<Answer> {
    let mut options = HttpOptions::default();
    options.exchanges = Some(exchanges);
    let provider = Provider::known("openai").unwrap().with_key(Secret::new(KEY)).with_base_url(url);
    let router = Arc::new(Router::new(options).with(provider));
    let runtime = Runtime::builder().in_memory().models(router, "openai/gpt-5.1".parse().unwrap());
    let runtime = runtime.start().await.unwrap();
    let session = runtime.create(SessionOptions::new(folder)).await.unwrap();
    let mut answers = Vec::new();
    for text in said {
        answers.push(session.prompt(*text).await.unwrap().wait().await.unwrap());
    }
    assert!(runtime.shutdown().await.is_empty());
    answers
}

fn texts(answers: &[Answer]) -> Vec<(&str, &Outcome)> {
    answers.iter().map(|answer| (&*answer.text, &answer.outcome)).collect()
}

/// What was recorded is played to the same end with nobody there: refusals and their waits, pieces that part a character, and no
/// secret. What was not recorded is refused with what is nearest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_recorded_is_played_without_a_server() {
    let folder = taped::folder();
    let file = folder.path().join("exchanges.jsonl");
    let mut parted = answer(Api::OpenAiChat, "voil\u{e0}", &[]);
    let Some(Act::Send(body)) = parted.pop() else { panic!("an answer is sent") };
    let within = body.windows(2).position(|two| two == "\u{e0}".as_bytes()).unwrap() + 1;
    let (first, rest) = body.split_at(within);
    parted.extend([Act::Send(first.to_vec()), Act::Wait(Duration::from_millis(30)), Act::Send(rest.to_vec())]);
    let told = format!(r#"{{"error":{{"message":"slow down, {KEY}"}}}}"#);
    let busy = refusal("429 Too Many Requests", &["retry-after-ms: 1"], &told);
    let server = FaultServer::start([busy, parted, answer(Api::OpenAiChat, "two", &[])]).await;
    let base = server.url();
    let said = ["one?", &format!("is {KEY} a key?")];
    let recorded = talk(folder.path(), &base, Exchanges::record(&file).unwrap(), &said).await;
    assert_eq!(texts(&recorded), [("voil\u{e0}", &Outcome::Done), ("two", &Outcome::Done)]);
    assert_eq!(server.seen().len(), 3);
    drop(server);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!text.contains("CANARY") && !text.to_lowercase().contains("authorization"), "{text}");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.iter().map(|line| line["status"].as_u64().unwrap()).collect::<Vec<_>>(), [429, 200, 200]);
    assert_eq!(lines[0]["headers"]["retry-after-ms"], "1");
    assert!(lines[1]["chunks"].as_array().unwrap().len() > 1, "{text}");
    let played = talk(folder.path(), &base, Exchanges::play(&file).unwrap(), &said).await;
    assert_eq!(texts(&played), texts(&recorded));
    let other = talk(folder.path(), &base, Exchanges::play(&file).unwrap(), &["another?"]).await;
    let Outcome::Failed { error } = &other[0].outcome else { panic!("{other:?}") };
    assert!(
        error.contains("exchanges.jsonl answers no request to") && error.contains("the nearest, line 1, differs in 1"),
        "{error}"
    );
    let used = Exchanges::play(&file).unwrap();
    talk(folder.path(), &base, used.clone(), &said).await;
    let again = talk(folder.path(), &base, used, &said[..1]).await;
    let Outcome::Failed { error } = &again[0].outcome else { panic!("{again:?}") };
    assert!(error.contains("was played already"), "{error}");
    std::fs::write(&file, "{}").unwrap();
    let bad = Exchanges::play(&file).err().unwrap();
    assert!(bad.kind == ErrorKind::InvalidRequest && bad.message.contains("line 1"), "{bad}");
}

/// An answer that breaks off is not recorded: the file plays the one that came whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_breaks_off_is_not_recorded() {
    let folder = taped::folder();
    let file = folder.path().join("exchanges.jsonl");
    let half = "data: {\"choices\":[{\"delta\":{\"content\":\"half\"}}]}\n\n";
    let broken = vec![chunked_head(), chunk(half), Act::Wait(Duration::from_millis(20)), Act::Reset];
    let server = FaultServer::start([broken, answer(Api::OpenAiChat, "whole", &[])]).await;
    let recorded = talk(folder.path(), &server.url(), Exchanges::record(&file).unwrap(), &["one?"]).await;
    assert_eq!((server.seen().len(), texts(&recorded)), (2, vec![("whole", &Outcome::Done)]));
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.lines().count() == 1 && !text.contains("half"), "{text}");
    let played = talk(folder.path(), &server.url(), Exchanges::play(&file).unwrap(), &["one?"]).await;
    assert_eq!(texts(&played), texts(&recorded));
}
