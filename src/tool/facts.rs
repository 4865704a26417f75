//! [`CallFacts`]: the facts about a call that the core (`kernel/`) needs to judge it: tool, effect, whether it may run in parallel,
//! accesses, the key by which its repetitions are known, and whether it can run at all.
//!
//! The core calls no tool. The worker of the model's answer asks the tool, and the facts come to the core with the answer; the
//! start of an actor asks again about calls that are not over. The core keeps the facts with the call's ticket.
//!
//! A tool may be code of the host that panics or hangs over the arguments. A panic is caught here. A hang is not, so in a session
//! only `actor/facts.rs` may call [`Toolbox::facts`], on a thread and with a time limit. [`CallFacts`] is on the tape, and a
//! replay with the tape's own tools judges again from it: a change must read what older versions wrote.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    model::object,
    tool::{Access, Effect, Tool, Toolbox, toolbox::Known},
};

/// The facts that the core must know about a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CallFacts {
    /// The tool's own name; the name that the model wrote if no tool has it.
    pub tool: String,
    /// What may be done about the call after a crash.
    pub effect: Effect,
    /// Whether the call may run at the same time as others.
    pub parallel: bool,
    /// What the call wants to do, as its tool says; a shell command by its parts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub access: Vec<Access>,
    /// A hash of the tool and of what its call does ([`Tool::loop_key`](crate::tool::Tool::loop_key)): the same for calls that repeat
    /// each other. A call that cannot run has one too, of its name and its text; of an answer that was cut off, of its name alone.
    /// `None` only for a call that may be repeated ([`Tool::pollable`](crate::tool::Tool::pollable)).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loop_key: Option<String>,
    /// Why the call cannot run at all; `None` for a call that can run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unusable: Option<Unusable>,
}

/// Why a call cannot run at all, in words for the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Unusable {
    /// No tool has that name.
    NoTool(String),
    /// The tool can make nothing of the arguments.
    BadArguments(String),
    /// The tool crashed over the arguments when it was asked what the call wants, or did not answer in time.
    Crashed(String),
}

impl CallFacts {
    /// The facts of a call with this input whose tool gave none: the call does not run.
    #[must_use]
    pub fn unknown(tool: &str, input: &str, why: &str) -> CallFacts {
        let text = format!("The tool {tool} {why}; the call was not run. Try other arguments.");
        CallFacts::unusable(tool, input, Effect::Once, Unusable::Crashed(text))
    }

    fn unusable(tool: &str, input: &str, effect: Effect, why: Unusable) -> CallFacts {
        CallFacts {
            tool: tool.to_owned(),
            effect,
            parallel: false,
            access: Vec::new(),
            loop_key: Some(text_key(tool, input)),
            unusable: Some(why),
        }
    }

    /// The facts of the same call where its answer was cut off. Each try is cut at another character, so all cut calls of a tool
    /// repeat each other, with any arguments.
    pub(crate) fn cut_off(self) -> CallFacts {
        CallFacts { loop_key: Some(hashed(&self.tool, "cut off")), ..self }
    }
}

impl Toolbox {
    /// The facts about a call of the tool `name` with this input. Runs the tool's own code, which may hang. If that code panics,
    /// the facts say that the call cannot run.
    ///
    /// The arguments are the model's, and the code may be the host's. A panic must cost this call and not the session, because the
    /// session would meet the same call in each of its incarnations.
    #[must_use]
    pub fn facts(&self, name: &str, input: &str) -> CallFacts {
        let Some(Known { tool, effect, parallel, .. }) = self.known(name) else {
            return CallFacts::unusable(name, input, Effect::Read, Unusable::NoTool(self.unknown_tool(name)));
        };
        let facts = CallFacts {
            tool: tool.name().to_owned(),
            effect: *effect,
            parallel: *parallel,
            access: Vec::new(),
            loop_key: Some(text_key(tool.name(), input)),
            unusable: None,
        };
        // If they are not a JSON object, the core itself finds that.
        let Ok(arguments) = arguments(input) else { return facts };
        // What bad arguments want is not asked: code that computes it may rely on good ones.
        let asked = || match tool.check(&arguments) {
            Ok(()) => (Ok(tool.access(&arguments)), loop_key(tool.as_ref(), &arguments)),
            Err(why) => (Err(why), Some(hashed(tool.name(), &canonical(&arguments)))),
        };
        match catch_unwind(AssertUnwindSafe(asked)) {
            Ok((Ok(access), loop_key)) => CallFacts { access, loop_key, ..facts },
            Ok((Err(why), loop_key)) => CallFacts { loop_key, unusable: Some(Unusable::BadArguments(why)), ..facts },
            Err(_) => CallFacts {
                unusable: CallFacts::unknown(tool.name(), input, "crashed over these arguments").unusable,
                ..facts
            },
        }
    }
}

/// The key by which calls that repeat each other are known.
fn loop_key(tool: &dyn Tool, arguments: &Value) -> Option<String> {
    (!tool.pollable(arguments)).then(|| hashed(tool.name(), &tool.loop_key(arguments)))
}

/// The key of a call that cannot run: its tool was not asked what it does.
fn text_key(tool: &str, input: &str) -> String {
    match serde_json::from_str::<Value>(input) {
        Ok(arguments) => hashed(tool, &canonical(&arguments)),
        Err(_) => hashed(tool, input),
    }
}

/// 16 hex digits, so that what a tool says does not grow the tape.
fn hashed(tool: &str, said: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(tool.as_bytes()).update(&[0]).update(said.as_bytes());
    hasher.finalize().to_hex()[..16].to_owned()
}

/// A value as JSON text, with the fields of each object in the order of their names: equal values give equal texts, however they
/// were written. A map of `serde_json` is sorted already, unless another crate switches that off.
pub(super) fn canonical(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let sorted: BTreeMap<_, _> = fields.iter().collect();
            let fields =
                sorted.into_iter().map(|(name, value)| format!("{}:{}", Value::from(name.as_str()), canonical(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
        }
        Value::Array(values) => format!("[{}]", values.iter().map(canonical).collect::<Vec<_>>().join(",")),
        other => other.to_string(),
    }
}

/// The arguments of a call as an object, or the error for the model.
pub(crate) fn arguments(input: &str) -> Result<Value, String> {
    let told = |error| format!("The arguments are not a JSON object ({error}); the call was not run.");
    object(input).map(Value::Object).map_err(told)
}
