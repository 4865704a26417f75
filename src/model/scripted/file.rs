//! Reads a script from a JSON file. `docs/FORMATS.md` describes the format under "Scripted model file".
//!
//! An unknown field or a wrong value is an error that names its place, such as `replies[2].calls[0].name`; only inside of `usage`
//! an unknown field is ignored. Hosts keep such files, so a change may add a field with a default, and must not rename one or
//! change its default.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use super::{
    Reply, ScriptBy, Scripted,
    reply::{Beat, Call, End},
};
use crate::{
    model::{ErrorKind, ModelError, ModelLimits, Price},
    words::message::{BadModelRef, Finish, ModelRef},
    words::usage::{MicroUsd, Usage},
};

/// Why a text is not a script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bad script: {place}: {what}")]
#[non_exhaustive]
pub struct BadScript {
    /// The place in the text, such as `replies[2].calls[0].name`.
    pub place: String,
    /// What is wrong there.
    pub what: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptFile {
    #[serde(default)]
    model: Option<Name>,
    #[serde(default)]
    by: ScriptBy,
    #[serde(default)]
    limits: ModelLimits,
    #[serde(default)]
    prices: BTreeMap<Name, PriceFile>,
    replies: Vec<Value>,
}

/// A model by `provider/model`.
#[derive(PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
struct Name(ModelRef);

impl TryFrom<String> for Name {
    type Error = BadModelRef;

    fn try_from(name: String) -> Result<Name, BadModelRef> {
        name.parse().map(Name)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceFile {
    input: Dollars,
    output: Dollars,
    reasoning: Option<Dollars>,
    cache_read: Option<Dollars>,
    cache_write: Option<Dollars>,
}

/// US dollars for a million tokens.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "f64")]
struct Dollars(MicroUsd);

impl TryFrom<f64> for Dollars {
    type Error = &'static str;

    /// Rounds to millionths of a dollar. Prices are written by hand with a few decimals, so they come out exactly.
    fn try_from(usd: f64) -> Result<Dollars, &'static str> {
        let micro = (usd * 1e6).round();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked in the same line")]
        let dollars = (0.0..1e15).contains(&micro).then_some(Dollars(MicroUsd(micro as u64)));
        dollars.ok_or("a price is a number from 0 up")
    }
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
    calls: Vec<Call>,
    beats: Vec<Beat>,
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
    let mut script = Scripted::from_list(replies, file.by).with_limits(file.limits);
    if let Some(Name(name)) = file.model {
        script = script.named(name);
    }
    for (Name(name), PriceFile { input, output, reasoning, cache_read, cache_write }) in file.prices {
        let price = Price {
            reasoning: reasoning.map(|usd| usd.0),
            cache_read: cache_read.map(|usd| usd.0),
            cache_write: cache_write.map(|usd| usd.0),
            ..Price::new(input.0, output.0)
        };
        script = script.with_price(name, price);
    }
    Ok(script)
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
        let wait = |ms| Beat::Wait(Duration::from_millis(ms));
        let mut beats: Vec<Beat> = self.barrier.map(Beat::Barrier).into_iter().collect();
        beats.extend(self.delay_ms.map(wait));
        beats.extend(self.reasoning.map(Beat::Reasoning));
        let pieces = match self.text {
            None => Vec::new(),
            Some(Pieces::One(text)) => vec![text],
            Some(Pieces::Many(texts)) => texts,
        };
        for (i, piece) in pieces.into_iter().enumerate() {
            beats.extend(self.chunk_delay_ms.filter(|_| i > 0).map(wait));
            beats.push(Beat::Text(piece));
        }
        beats.extend(self.calls.into_iter().map(Beat::Call));
        beats.extend(self.beats);
        let end = match (self.error, self.panic) {
            (Some(error), _) => {
                let message = error.message.unwrap_or_else(|| "the script fails here".to_owned());
                let ErrorFile { kind, status, retry_after_ms, .. } = error;
                End::Error(ModelError { status, retry_after_ms, ..ModelError::new(kind, message) })
            }
            (None, Some(message)) => End::Panic(message),
            (None, None) if self.hang => End::Hang,
            (None, None) if self.truncated => End::cut_off(),
            (None, None) => End::Answer,
        };
        let (usage, finish, expect, when) = (self.usage, self.finish, self.expect, self.when);
        Reply { beats, end, usage, finish, expect, when, answers: self.answers }
    }
}
