//! `tamtam config show`: every setting with its value and where it comes from, and the rules in the order in which they are judged.
//!
//! The settings are those that `run` with the same arguments would use for a new session. The rules are those of a session where
//! somebody can be asked; elsewhere the default profile is another. No request is sent, so the model of a local server is not
//! looked up.
//!
//! A change must keep this: values and rules come from the code that `run` calls ([`Config::over`], [`rules::rights`]), or the two
//! would come to differ; and no key is shown. A file can have no key, and a URL is shown through [`models::shown`].

use serde_json::json;
use tamtam::ModelRef;

use super::{Config, settings};
use crate::{
    arguments::TurnArguments,
    environment::Environment,
    escape,
    failure::{Exit, Failure},
    grants::listed,
    models, note, print, rules,
};

/// Most characters of a rule; `--json` has it whole.
const RULE_MAX: usize = 120;

/// Where a value comes from: the layer, and its file, its variable or its flag.
struct Origin {
    layer: &'static str,
    place: Option<String>,
}

/// Prints the settings, and says what was not read.
pub(crate) fn show(given: &TurnArguments, environment: &Environment) -> Result<Exit, Failure> {
    let workspace = environment.workspace(given.setup.workspace.as_deref())?;
    let config = Config::load(environment, &workspace, given.config.as_deref())?;
    let (turn, from) = config.over(given, None);
    let rights = rules::rights(&turn.setup.permission, &config, rules::Audience::Someone)?;
    let shown = settings::ALL.iter().map(|setting| {
        let value = settings::get(setting.name, &turn);
        let (layer, place, value) = match (from.get(setting.name), value) {
            (Some(said), value) => (said.layer.name(), Some(said.path.display().to_string()), value),
            (None, Some(value)) => ("flag", Some(flag(setting.name)), Some(value)),
            (None, None) => match of_environment(setting.name, &turn, environment) {
                Some((variable, value)) => ("environment", Some(variable.to_owned()), Some(value)),
                None => ("default", None, None),
            },
        };
        (setting, value, Origin { layer, place })
    });
    config.notes.iter().for_each(|why| note(&format!("warning: {why}")));
    if given.json {
        let settings = shown.map(|(setting, value, origin)| {
            json!({"name": setting.name, "value": value, "layer": origin.layer, "place": origin.place, "default": setting.default})
        });
        let settings: Vec<_> = settings.collect();
        let granted: Vec<_> = config.granted.iter().map(listed).collect();
        let shown =
            json!({"settings": settings, "rules": rights.layers(), "granted": granted, "not_read": config.notes});
        return print(&format!("{shown}\n"));
    }
    let mut text = String::new();
    for (setting, value, origin) in shown {
        let value = value.unwrap_or_else(|| format!("({})", setting.default));
        let place = origin.place.map(|place| format!(" {place}")).unwrap_or_default();
        text += &escape::line(&format!("{:<15} {value}  [{}{place}]", setting.name, origin.layer));
        text.push('\n');
    }
    for layer in rights.layers() {
        let order = if layer.order == tamtam::permission::MatchOrder::First { "first" } else { "last" };
        text += &escape::line(&format!("rules of {} (the {order} match stands)", layer.name));
        text.push('\n');
        for rule in &layer.rules {
            text += &format!("    {}", escape::short(&rule.to_string(), RULE_MAX));
            text.push('\n');
        }
    }
    for granted in &config.granted {
        text += &escape::line(&format!("granted for this project: {}", granted.allows()));
        text.push('\n');
    }
    print(&text)
}

/// The argument of a setting.
fn flag(name: &str) -> String {
    match name {
        "redact" => "--no-redact".to_owned(),
        "sandbox.mode" => "--sandbox".to_owned(),
        name if name.starts_with("quirks.") => "--quirk".to_owned(),
        name if name.starts_with("rate_limits.") => "--rate-limit".to_owned(),
        name => format!("--{}", name.replace(['_', '.'], "-")),
    }
}

/// The variable that says a setting on which arguments and files are silent, and its value.
fn of_environment(name: &str, turn: &TurnArguments, environment: &Environment) -> Option<(&'static str, String)> {
    let found = || models::of_keys(environment).filter(|_| turn.model.model.is_none());
    match name {
        "model" => found().map(|(model, variable)| (variable, model.to_string())),
        "base_url" => {
            let named = turn.model.model.as_deref().and_then(|named| named.parse::<ModelRef>().ok());
            let model = named.or_else(|| found().map(|(model, _)| model))?;
            let (variable, url) = models::address_of(&model.provider, environment)?;
            Some((variable, models::shown(url)))
        }
        "store" => {
            let folder = environment.get("XDG_DATA_HOME").filter(|path| std::path::Path::new(path).is_absolute())?;
            Some(("XDG_DATA_HOME", format!("{folder}/tamtam")))
        }
        _ => None,
    }
}
