//! Who the tenants are: their tokens, their agents, and what a session of theirs may use. A file that may be read again while it runs.
//!
//! ```json
//! { "operator": "TOKEN", "denied": ["refund"],
//!   "tenants": { "acme": { "token": "TOKEN", "micro_usd": 500000, "agents": { "support": { "description": "…", "prompt": "…" } } } } }
//! ```
//!
//! An agent `support` of `acme` is called `acme/support`, so tenants may use the same names.

use std::{collections::BTreeMap, error::Error, path::Path};

use serde::Deserialize;
use tamtam::{
    permission::{Action, Rule, Ruleset},
    runtime::{AgentSpec, Agents, AgentsConfig},
    session::Labels,
};
use tamtam_server::{Denied, Scope};

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The token of the operator, who sees all tenants.
    pub operator: String,
    pub tenants: BTreeMap<String, Tenant>,
    /// The tools that nobody may use for now.
    #[serde(default)]
    pub denied: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tenant {
    pub token: String,
    /// What a session may spend.
    pub micro_usd: u64,
    #[serde(default)]
    pub agents: BTreeMap<String, AgentSpec>,
}

impl Config {
    pub fn read(path: &Path) -> Result<Config, Box<dyn Error + Send + Sync>> {
        Ok(serde_json::from_slice(&std::fs::read(path)?)?)
    }

    /// Who has this token.
    pub fn scope(&self, token: &str) -> Result<Scope, Denied> {
        if token == self.operator {
            return Ok(Scope::All);
        }
        let tenant = self.tenants.iter().find(|(_, tenant)| tenant.token == token);
        let (name, _) = tenant.ok_or(Denied::Unauthorized)?;
        Labels::new([("tenant", name.as_str())]).map(Scope::Labels).map_err(|bad| Denied::Forbidden(bad.to_string()))
    }

    pub fn agents(&self) -> Result<Agents, Box<dyn Error + Send + Sync>> {
        let mut config = AgentsConfig::default();
        for (tenant, of) in &self.tenants {
            let named = of.agents.iter().map(|(name, agent)| (format!("{tenant}/{name}"), agent.clone(), None));
            config.agents.extend(named);
        }
        let (agents, unused) = Agents::build(&config)?;
        if unused.is_empty() { Ok(agents) } else { Err(format!("agents that cannot be used: {unused:?}").into()) }
    }

    /// What holds for all tenants.
    pub fn rules(&self) -> Ruleset {
        Ruleset::new("service", self.denied.iter().map(|tool| Rule::new(tool, "*", Action::Deny)))
    }
}

/// The tenant that a scope is for; `None` for the operator.
pub fn tenant(scope: &Scope) -> Option<&str> {
    match scope {
        Scope::Labels(labels) => labels.get("tenant"),
        _ => None,
    }
}
