//! What a person chooses in the editor: the agent (as a mode), the model, and the profile of permission.
//!
//! The choices are in the settings of the session, so every door shows the same.

use serde_json::{Value, json};
use tamtam::{
    Runtime, Session,
    permission::Profile,
    session::{AgentChoice, Settings, State},
};

use crate::{options::AcpOptions, rpc::Fault};

/// The profiles that make sense where a person can be asked.
const PROFILES: [(Profile, &str); 5] = [
    (Profile::Strict, "Every call is asked about."),
    (Profile::Ask, "Reads are allowed, the rest is asked about."),
    (Profile::Edits, "Edits in the workspace are allowed too."),
    (Profile::Auto, "Nearly all is allowed."),
    (Profile::Readonly, "Reads are allowed, the rest is denied."),
];

/// The modes: the agents that a session may work as.
pub(crate) fn modes(state: &State, runtime: &Runtime) -> Value {
    let modes = agents(state, runtime)
        .into_iter()
        .map(|(name, description)| json!({ "id": name, "name": name, "description": description }));
    json!({ "currentModeId": state.settings.agent, "availableModes": modes.collect::<Vec<_>>() })
}

/// The agents with their descriptions; that in force is among them.
fn agents(state: &State, runtime: &Runtime) -> Vec<(String, String)> {
    let known = runtime.agents();
    let shown = known.primaries().filter(|agent| !agent.hidden);
    let mut agents: Vec<_> = shown.map(|agent| (agent.name.clone(), agent.description.clone())).collect();
    if !agents.iter().any(|(name, _)| *name == state.settings.agent) {
        agents.push((state.settings.agent.clone(), String::new()));
    }
    agents
}

/// The options: agent, model, and profile where the host lets a client choose one.
pub(crate) fn options(state: &State, runtime: &Runtime, options: &AcpOptions) -> Value {
    let select = |id: &str, name: &str, category: Option<&str>, current: &str, values: Vec<Value>| {
        let mut option =
            json!({ "id": id, "name": name, "type": "select", "currentValue": current, "options": values });
        if let Some(category) = category {
            option["category"] = category.into();
        }
        option
    };
    let value =
        |(value, description): (String, String)| json!({ "value": value, "name": value, "description": description });
    let modes = agents(state, runtime).into_iter().map(value).collect();
    let model = state.settings.model.to_string();
    let mut models: Vec<_> = options.models.iter().map(ToString::to_string).collect();
    if !models.contains(&model) {
        models.insert(0, model.clone());
    }
    let models = models.into_iter().map(|model| json!({ "value": model, "name": model })).collect();
    let mut shown = vec![
        select("mode", "Agent", Some("mode"), &state.settings.agent, modes),
        select("model", "Model", Some("model"), &model, models),
    ];
    if options.rights.is_some() {
        let current = profile(state);
        let mut profiles: Vec<_> =
            PROFILES.iter().map(|(profile, words)| value((profile.name().to_owned(), (*words).to_owned()))).collect();
        if !PROFILES.iter().any(|(profile, _)| profile.name() == current) {
            profiles.push(value((current.clone(), "The rules that the session was made with.".to_owned())));
        }
        shown.push(select("permission", "Permission", None, &current, profiles));
    }
    shown.into()
}

/// The profile that the session's rules began with; `own` for others.
fn profile(state: &State) -> String {
    let names = state.settings.rules.iter().rev().filter_map(|rules| rules.name.strip_prefix("profile "));
    names.map(|name| name.split(',').next().unwrap_or_default().to_owned()).next().unwrap_or_else(|| "own".to_owned())
}

/// Has the session work as another agent.
pub(crate) async fn set_mode(session: &Session, name: &str) -> Result<(), Fault> {
    let state = session.state().await?;
    if state.settings.agent == name {
        return Ok(());
    }
    let own = state.settings.switched.as_deref().map(|switched| switched.own.agent.as_str());
    let choice = match own == Some(name) {
        true => AgentChoice::Own,
        false => {
            let agents = session.agents();
            let agent = agents.primary(name).map_err(Fault::bad_params)?;
            agent.for_session(session.id()).map_err(Fault::bad_params)?
        }
    };
    session.switch_agent(choice).await?;
    Ok(())
}

/// Sets one option.
pub(crate) async fn set(session: &Session, options: &AcpOptions, id: &str, value: &str) -> Result<(), Fault> {
    let unknown = |what: &str| Fault::bad_params(format!("value: {value:?} is no {what} of this session"));
    match id {
        "mode" => set_mode(session, value).await,
        "model" => {
            let model = options.models.iter().find(|model| model.to_string() == value);
            if session.state().await?.settings.model.to_string() == value {
                return Ok(());
            }
            let model = model.ok_or_else(|| unknown("model"))?;
            let choose = |settings: &mut Settings| {
                settings.model.clone_from(model);
                // The chain stood behind the model before.
                settings.fallback.clear();
            };
            Ok(session.configure(choose).await?)
        }
        "permission" => {
            let rights = options.rights.clone().ok_or_else(|| unknown("profile"))?;
            let found = PROFILES.iter().find(|(profile, _)| profile.name() == value);
            let (profile, _) = found.ok_or_else(|| unknown("profile"))?;
            let (workspace, profile) = (session.state().await?.settings.workspace.clone(), *profile);
            let rules = tokio::task::spawn_blocking(move || rights(workspace.as_ref(), profile)).await;
            let rules = rules.map_err(Fault::failed)?.map_err(Fault::failed)?;
            Ok(session.configure(|settings| settings.choose_rules(rules.iter().cloned())).await?)
        }
        _ => Err(Fault::bad_params(format!("configId: there is no option {id:?}: mode, model and permission are"))),
    }
}
