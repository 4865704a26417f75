//! `tamtam config show`: every setting with its value and where it comes from, and the rules in the order in which they are judged.
//!
//! It shows what `run` with the same arguments would use for a new session, through the same code. Keys are in no configuration;
//! a URL is shown without what may be one.

use serde_json::json;

use super::{Config, settings};
use crate::cli::{
    arguments::TurnArguments,
    environment::Environment,
    escape,
    failure::{Exit, Failure},
    note, print, rules,
};

/// Where a value comes from.
struct Origin<'a> {
    layer: &'static str,
    file: Option<&'a std::path::Path>,
}

/// Prints the settings, and says what was not read.
pub(in crate::cli) fn show(given: &TurnArguments, environment: &Environment) -> Result<Exit, Failure> {
    let workspace = environment.workspace(given.workspace.as_deref())?;
    let config = Config::load(environment, &workspace, given.config.as_deref())?;
    let (turn, from) = config.over(given, None);
    let rights = rules::rights(&turn.permission, &config, rules::Audience::Someone)?;
    let shown = settings::ALL.iter().map(|setting| {
        let value = settings::get(setting.name, &turn);
        let origin = match (from.get(setting.name), &value) {
            (Some(said), _) => Origin { layer: said.layer.name(), file: Some(&said.path) },
            (None, Some(_)) => Origin { layer: "argument", file: None },
            (None, None) => Origin { layer: "default", file: None },
        };
        (setting, value, origin)
    });
    config.notes.iter().for_each(|why| note(&format!("warning: {why}")));
    if given.json {
        let settings = shown.map(|(setting, value, origin)| {
            json!({"name": setting.name, "value": value, "layer": origin.layer, "file": origin.file, "default": setting.default})
        });
        let settings: Vec<_> = settings.collect();
        let shown = json!({"settings": settings, "rules": rights.layers(), "not_read": config.notes});
        return print(&format!("{shown}\n"));
    }
    let mut text = String::new();
    for (setting, value, origin) in shown {
        let value = value.unwrap_or_else(|| format!("({})", setting.default));
        let file = origin.file.map(|path| format!(" {}", path.display())).unwrap_or_default();
        text += &escape::line(&format!("{:<14} {value}  [{}{file}]", setting.name, origin.layer));
        text.push('\n');
    }
    for layer in rights.layers() {
        let order = if layer.order == tamtam::permission::MatchOrder::First { "first" } else { "last" };
        text += &escape::line(&format!("rules of {} (the {order} match stands)", layer.name));
        text.push('\n');
        for rule in &layer.rules {
            text += &escape::line(&format!("    {rule}"));
            text.push('\n');
        }
    }
    print(&text)
}
