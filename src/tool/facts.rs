//! The facts about a call that the core needs to judge it. The tool is asked outside of the core, and the facts come in with the
//! model's answer that has the call.
//!
//! What a tool says of its arguments is the host's code. It may panic or hang, so whoever asks does so beside the session
//! (`actor/facts.rs`) and says within a limit what came of it. The core holds what it was told with the call's ticket: what was
//! judged is what runs, and a replay judges again without any tool.

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::tool::{Access, Effect, Toolbox, toolbox::Known};

/// What the core must know of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallFacts {
    /// The tool, by the name it has here; as the model wrote it where there is none.
    pub tool: String,
    /// What may be done after a crash.
    pub effect: Effect,
    /// Whether it may run beside others.
    pub parallel: bool,
    /// What the call wants to do, as its tool says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub access: Vec<Access>,
    /// Why it cannot run at all, where that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unusable: Option<Unusable>,
}

/// Why a call cannot run at all, in the words that the model is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Unusable {
    /// There is no such tool.
    NoTool(String),
    /// Its tool crashed over the arguments when it was asked what the call wants, or did not say in time.
    Crashed(String),
}

impl CallFacts {
    /// What is known of a call of which nobody said anything: it does not run.
    #[must_use]
    pub fn unknown(tool: &str, why: &str) -> CallFacts {
        let text = format!("The tool {tool} {why}; the call was not run. Try other arguments.");
        CallFacts::unusable(tool, Effect::Once, Unusable::Crashed(text))
    }

    fn unusable(tool: &str, effect: Effect, why: Unusable) -> CallFacts {
        CallFacts { tool: tool.to_owned(), effect, parallel: false, access: Vec::new(), unusable: Some(why) }
    }
}

impl Toolbox {
    /// What the core must know of a call of that name with that input. Runs the tool's own code, which may hang; where it panics
    /// the call is one that cannot run.
    ///
    /// The arguments are the model's, and the code may be the host's: a panic must cost this call, and not the session, which
    /// would meet the same call in each of its incarnations.
    #[must_use]
    pub fn facts(&self, name: &str, input: &str) -> CallFacts {
        let Some(Known { tool, effect, parallel, .. }) = self.known(name) else {
            return CallFacts::unusable(name, Effect::Read, Unusable::NoTool(self.unknown_tool(name)));
        };
        let access = match arguments(input) {
            Ok(arguments) => catch_unwind(AssertUnwindSafe(|| tool.access(&arguments))).map_err(|_| ()),
            // The core sees that for itself.
            Err(_) => Ok(Vec::new()),
        };
        let crashed = || CallFacts::unknown(tool.name(), "crashed over these arguments").unusable;
        CallFacts {
            tool: tool.name().to_owned(),
            effect: *effect,
            parallel: *parallel,
            unusable: access.is_err().then(crashed).flatten(),
            access: access.unwrap_or_default(),
        }
    }
}

/// The arguments of a call as an object. Nothing at all counts as an empty one.
pub(crate) fn arguments(input: &str) -> Result<Value, String> {
    if input.trim().is_empty() {
        return Ok(Value::Object(Default::default()));
    }
    // `null` is as good as nothing.
    match serde_json::from_str::<Option<serde_json::Map<String, Value>>>(input) {
        Ok(fields) => Ok(Value::Object(fields.unwrap_or_default())),
        Err(error) => Err(format!("The arguments are not a JSON object ({error}); the call was not run.")),
    }
}
