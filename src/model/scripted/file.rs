//! A script as a JSON file. The format is described in `docs/FORMATS.md`, under "Scripted model file".

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use super::{By, Reply, Scripted};
use crate::{
    model::{ErrorKind, ModelError, ModelLimits, Price},
    words::message::{Finish, ModelRef},
    words::usage::{MicroUsd, Usage},
};

/// A text that is no script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bad script: {place}: {what}")]
pub struct BadScript {
    /// Where, such as `replies[2].calls[0].name`.
    pub place: String,
    /// What is wrong there.
    pub what: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptFile {
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    by: By,
    #[serde(default)]
    limits: LimitsFile,
    /// By `provider/model`.
    #[serde(default)]
    prices: BTreeMap<String, PriceFile>,
    replies: Vec<Value>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct LimitsFile {
    context: Option<u64>,
    output: Option<u64>,
    images: Option<bool>,
}

/// US dollars for a million tokens.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceFile {
    input: f64,
    output: f64,
    reasoning: Option<f64>,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ReplyFile {
    when: Vec<String>,
    answers: Option<usize>,
    expect: Vec<String>,
    barrier: Option<String>,
    delay_ms: Option<u64>,
    reasoning: Option<String>,
    text: Option<Pieces>,
    chunk_delay_ms: Option<u64>,
    calls: Vec<CallFile>,
    beats: Vec<BeatFile>,
    usage: Usage,
    finish: Option<Finish>,
    error: Option<ErrorFile>,
    truncated: bool,
    hang: bool,
    panic: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Pieces {
    One(String),
    Many(Vec<String>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallFile {
    name: String,
    #[serde(default)]
    id: String,
    /// The arguments as a value …
    #[serde(default)]
    input: Option<Value>,
    /// … or as the text that the model writes, which need not be JSON.
    #[serde(default)]
    input_text: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum BeatFile {
    Text(String),
    Reasoning(String),
    Call(CallFile),
    DelayMs(u64),
    Barrier(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ErrorFile {
    kind: ErrorKind,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    status: Option<u16>,
    #[serde(default)]
    retry_after_ms: Option<u64>,
}

pub(super) fn parse(text: &str) -> Result<Scripted, BadScript> {
    let value: Value = serde_json::from_str(text)
        .map_err(|error| BadScript { place: "the file".to_owned(), what: error.to_string() })?;
    let file: ScriptFile = read(value, "")?;
    let mut replies = Vec::with_capacity(file.replies.len());
    for (i, reply) in file.replies.into_iter().enumerate() {
        replies.push(match reply {
            Value::String(text) => Reply::text(text),
            other => read::<ReplyFile>(other, &format!("replies[{i}]"))?.into_reply(),
        });
    }
    let usual = ModelLimits::default();
    let mut script = Scripted::from_list(replies, file.by).with_limits(ModelLimits {
        context: file.limits.context.unwrap_or(usual.context),
        output: file.limits.output.unwrap_or(usual.output),
        images: file.limits.images.unwrap_or(usual.images),
    });
    if let Some(name) = file.model {
        let name: ModelRef = name.parse().map_err(|error: crate::words::message::BadModelRef| BadScript {
            place: "model".to_owned(),
            what: error.to_string(),
        })?;
        script = script.named(name);
    }
    for (name, price) in file.prices {
        let bad = |what: String| BadScript { place: format!("prices.{name}"), what };
        let model: ModelRef =
            name.parse().map_err(|error: crate::words::message::BadModelRef| bad(error.to_string()))?;
        script = script.with_price(model, price.read().ok_or_else(|| bad("a price is a number from 0 up".to_owned()))?);
    }
    Ok(script)
}

impl PriceFile {
    fn read(&self) -> Option<Price> {
        let some = |usd: Option<f64>| usd.map(|usd| micro(usd).ok_or(())).transpose().ok();
        Some(Price {
            reasoning: some(self.reasoning)?,
            cache_read: some(self.cache_read)?,
            cache_write: some(self.cache_write)?,
            ..Price::new(micro(self.input)?, micro(self.output)?)
        })
    }
}

/// Dollars as millionths of them. A script is written by hand, with a few decimals: these come out exactly.
fn micro(usd: f64) -> Option<MicroUsd> {
    let micro = (usd * 1e6).round();
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked in the line before")]
    (0.0..1e15).contains(&micro).then_some(MicroUsd(micro as u64))
}

fn read<T: DeserializeOwned>(value: Value, within: &str) -> Result<T, BadScript> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let place = match (within, error.path().to_string().as_str()) {
            ("", ".") => "the file".to_owned(),
            ("", path) => path.to_owned(),
            (within, ".") => within.to_owned(),
            (within, path) => format!("{within}.{path}"),
        };
        BadScript { place, what: error.into_inner().to_string() }
    })
}

impl ReplyFile {
    /// The short form is played in this order: barrier, delay, reasoning, text, calls, beats.
    fn into_reply(self) -> Reply {
        let mut reply = Reply { when: self.when, answers: self.answers, expect: self.expect, ..Reply::default() };
        if let Some(name) = self.barrier {
            reply = reply.at_barrier(name);
        }
        if let Some(ms) = self.delay_ms {
            reply = reply.waiting(Duration::from_millis(ms));
        }
        if let Some(text) = self.reasoning {
            reply = reply.with_reasoning(text);
        }
        let pieces = match self.text {
            None => Vec::new(),
            Some(Pieces::One(text)) => vec![text],
            Some(Pieces::Many(texts)) => texts,
        };
        for (i, piece) in pieces.into_iter().enumerate() {
            if let Some(ms) = self.chunk_delay_ms.filter(|_| i > 0) {
                reply = reply.waiting(Duration::from_millis(ms));
            }
            reply = reply.with_text(piece);
        }
        for call in self.calls {
            reply = call.add_to(reply);
        }
        for beat in self.beats {
            reply = match beat {
                BeatFile::Text(text) => reply.with_text(text),
                BeatFile::Reasoning(text) => reply.with_reasoning(text),
                BeatFile::Call(call) => call.add_to(reply),
                BeatFile::DelayMs(ms) => reply.waiting(Duration::from_millis(ms)),
                BeatFile::Barrier(name) => reply.at_barrier(name),
            };
        }
        reply = reply.with_usage(self.usage);
        reply.finish = self.finish;
        if self.truncated {
            reply = reply.truncated();
        }
        if self.hang {
            reply = reply.hanging();
        }
        if let Some(message) = self.panic {
            reply = reply.panicking(message);
        }
        if let Some(error) = self.error {
            let message = error.message.unwrap_or_else(|| "the script fails here".to_owned());
            let mut failure = ModelError::new(error.kind, message);
            failure.status = error.status;
            failure.retry_after_ms = error.retry_after_ms;
            reply = reply.failing(failure);
        }
        reply
    }
}

impl CallFile {
    fn add_to(self, reply: Reply) -> Reply {
        let input = match (self.input_text, self.input) {
            (Some(text), _) => text,
            (None, Some(value)) => value.to_string(),
            (None, None) => "{}".to_owned(),
        };
        reply.with_raw_call(self.id, self.name, input)
    }
}
