//! What people write about an agent: in a file, in a table of a configuration, in JSON. Everything may be left out.
//!
//! [`AgentSpec`] is the one form that all of these are read as, and its JSON schema is `docs/schema/agent.json`. An unknown field
//! is an error. A spec changes only what it names; its rules come after the agent's own.
//!
//! Hosts and people keep the form in files: a change may add a field, and must not rename or remove one.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::Value;

use crate::{
    agent::{Agent, AgentLimits, AgentMode},
    kernel::Fallback,
    model::Thinking,
    permission::Rule,
    words::message::ModelRef,
};

/// What is said of an agent. What is left out stays as it is: as the agent of that name has it, or as in [`Agent::new`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "agent-files", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct AgentSpec {
    /// The name, if the path of the text does not give it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What the agent is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What it may be chosen for: `primary` for sessions, `subagent` for tasks, or `all`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<AgentMode>,
    /// The system prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The model, as `provider/model`.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "model")]
    #[cfg_attr(feature = "agent-files", schemars(with = "Option<String>"))]
    pub model: Option<ModelRef>,
    /// The models that go on with a turn where this one fails, in this order: each with the failures that it stands in for, such as
    /// `overloaded` or `auth`; left out, those that may pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Vec<Fallback>>,
    /// The tools: a list of names and patterns, or a map that switches them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<ToolChoice>,
    /// The rules of permission, as in a file of rules: a map such as `{"edit": "deny", "bash": {"git *": "allow"}}`, or a list.
    /// Serde reads only the list; the readers of files read both.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "agent-files", schemars(with = "Option<Value>"))]
    pub permission: Option<Vec<Rule>>,
    /// Model requests a turn may make. Also written `maxSteps`.
    #[serde(skip_serializing_if = "Option::is_none", alias = "maxSteps")]
    pub steps: Option<u32>,
    /// Tokens of one answer, at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_max: Option<u64>,
    /// Both limits in one table, as the JSON form of an [`Agent`] has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<AgentLimits>,
    /// Sampling temperature, from 0 to 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// Nucleus sampling, from 0 to 1. Also written `topP`.
    #[serde(skip_serializing_if = "Option::is_none", alias = "topP")]
    pub top_p: Option<f32>,
    /// How much the model thinks before it answers: off, minimal, low, medium, high or xhigh.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<Thinking>,
    /// Further options, put into the body of each request as they are.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub options: Value,
    /// A color for programs that show the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub color: Option<String>,
    /// Whether lists leave the agent out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hidden: Option<bool>,
    /// Whether sessions that name no agent work as it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<bool>,
    /// `true` takes the agent away, also if it is built in or defined by another source.
    #[serde(skip_serializing_if = "Option::is_none", alias = "disabled")]
    pub disable: Option<bool>,
}

/// Which tools an agent has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "agent-files", derive(schemars::JsonSchema))]
#[serde(untagged)]
#[non_exhaustive]
pub enum ToolChoice {
    /// These, and no others.
    List(BTreeSet<String>),
    /// Those that it would have anyway, with these on or off; `{"*": false, "read": true}` leaves only `read`.
    Map(BTreeMap<String, bool>),
}

impl<'de> Deserialize<'de> for ToolChoice {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<ToolChoice, D::Error> {
        struct Choice;
        impl<'de> de::Visitor<'de> for Choice {
            type Value = ToolChoice;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(
                    "a list of tools, their names with commas between them, or a map such as {\"write\": false}",
                )
            }

            fn visit_str<E: de::Error>(self, names: &str) -> Result<ToolChoice, E> {
                let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
                Ok(ToolChoice::List(names.map(str::to_owned).collect()))
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, items: A) -> Result<ToolChoice, A::Error> {
                Deserialize::deserialize(de::value::SeqAccessDeserializer::new(items)).map(ToolChoice::List)
            }

            fn visit_map<A: de::MapAccess<'de>>(self, fields: A) -> Result<ToolChoice, A::Error> {
                Deserialize::deserialize(de::value::MapAccessDeserializer::new(fields)).map(ToolChoice::Map)
            }
        }
        from.deserialize_any(Choice)
    }
}

impl ToolChoice {
    /// The set of tools that this makes of another one; `None` is all tools.
    pub(super) fn over(&self, own: Option<BTreeSet<String>>) -> Option<BTreeSet<String>> {
        let switches = match self {
            ToolChoice::List(tools) => return Some(tools.clone()),
            ToolChoice::Map(switches) => switches,
        };
        let mut tools = match switches.get("*") {
            Some(true) => None,
            Some(false) => Some(BTreeSet::new()),
            None => own,
        };
        for (name, on) in switches.iter().filter(|(name, _)| *name != "*") {
            let out = format!("!{name}");
            match (&mut tools, on) {
                (None, true) => {}
                (None, false) => tools = Some(["*".to_owned(), out].into()),
                (Some(tools), true) => {
                    tools.remove(&out);
                    tools.insert(name.clone());
                }
                (Some(tools), false) => {
                    tools.remove(name);
                    tools.insert(out);
                }
            }
        }
        tools
    }
}

/// A model as `provider/model`, or as the JSON form of a [`ModelRef`].
pub(super) fn model<'de, D: Deserializer<'de>>(from: D) -> Result<Option<ModelRef>, D::Error> {
    match Value::deserialize(from)? {
        Value::Null => Ok(None),
        Value::String(name) => name.parse().map(Some).map_err(de::Error::custom),
        other @ Value::Object(_) => serde_json::from_value(other).map(Some).map_err(de::Error::custom),
        other => other.to_string().parse().map(Some).map_err(de::Error::custom),
    }
}

impl Agent {
    /// Changes what a text says, and nothing else.
    pub(super) fn change(&mut self, spec: &AgentSpec) {
        let AgentSpec { description, prompt, mode, model, tools, permission, color, hidden, options, .. } = spec;
        if let Some(description) = description {
            self.description.clone_from(description);
        }
        if let Some(tools) = tools {
            self.tools = tools.over(self.tools.take());
        }
        self.mode = mode.unwrap_or(self.mode);
        self.hidden = hidden.unwrap_or(self.hidden);
        self.prompt = prompt.clone().or(self.prompt.take());
        self.model = model.clone().or(self.model.take());
        self.fallback = spec.fallback.clone().unwrap_or(std::mem::take(&mut self.fallback));
        self.color = color.clone().or(self.color.take());
        // After the existing ones: the last rule that matches counts.
        self.permission.extend(permission.iter().flatten().cloned());
        let both = spec.limits.unwrap_or_default();
        self.limits.steps_max = spec.steps.or(both.steps_max).or(self.limits.steps_max);
        self.limits.output_max = spec.output_max.or(both.output_max).or(self.limits.output_max);
        self.temperature = spec.temperature.or(self.temperature);
        self.top_p = spec.top_p.or(self.top_p);
        self.thinking = spec.thinking.or(self.thinking);
        match (&mut self.options, options) {
            (_, Value::Null) => {}
            (Value::Object(own), Value::Object(new)) => own.extend(new.clone()),
            (own, new) => *own = new.clone(),
        }
    }
}

#[cfg(feature = "agent-files")]
impl AgentSpec {
    /// The JSON schema of the form, for editors and for other programs that write agents.
    #[must_use]
    pub fn json_schema() -> Value {
        schemars::schema_for!(AgentSpec).to_value()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// M-15: the schema is checked in, so that a change of the form is seen. `UPDATE_SCHEMAS=1` rewrites it.
    #[cfg(feature = "agent-files")]
    #[test]
    fn the_schema_is_the_one_that_is_checked_in() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/schema/agent.json");
        let schema = serde_json::to_string_pretty(&AgentSpec::json_schema()).unwrap() + "\n";
        if std::env::var_os("UPDATE_SCHEMAS").is_some() {
            std::fs::write(path, &schema).unwrap();
        }
        assert_eq!(std::fs::read_to_string(path).unwrap(), schema, "the form has changed");
    }

    fn tools(of: &str, own: Option<&[&str]>) -> Option<Vec<String>> {
        let choice: ToolChoice = serde_json::from_str(of).unwrap();
        let own = own.map(|own| own.iter().map(|tool| (*tool).to_owned()).collect());
        choice.over(own).map(|tools| tools.into_iter().collect())
    }

    /// M-01: the three forms of tools, over an agent that has all, and over one that has some.
    #[test]
    fn tools_are_a_list_or_switches() {
        let some: Option<&[&str]> = Some(&["read", "bash"]);
        for (text, own, expected) in [
            (r#"["read","grep"]"#, None, Some(vec!["grep", "read"])),
            (r#""read, grep,""#, None, Some(vec!["grep", "read"])),
            ("[]", some, Some(vec![])),
            (r#"{"write":false}"#, None, Some(vec!["!write", "*"])),
            (r#"{"write":true}"#, None, None),
            (r#"{"*":false,"read":true}"#, None, Some(vec!["read"])),
            (r#"{"*":true,"bash":false}"#, some, Some(vec!["!bash", "*"])),
            (r#"{"bash":false,"grep":true}"#, some, Some(vec!["!bash", "grep", "read"])),
            ("{}", some, Some(vec!["bash", "read"])),
        ] {
            let expected = expected.map(|tools| tools.into_iter().map(str::to_owned).collect());
            assert_eq!(tools(text, own), expected, "{text} over {own:?}");
        }
    }
}
