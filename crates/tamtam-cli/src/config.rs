//! The settings that files give: which files are read, and which of several values holds.
//!
//! | layer | file | is read |
//! |---|---|---|
//! | user | `tamtam/config.toml` in the user's configuration folder | always |
//! | project | `.tamtam/config.toml` in the workspace | once that folder is trusted, and unchanged since (`trust`) |
//! | config | the file of `--config` | where it is named |
//! | flag | – | always |
//!
//! Of a setting the value of the last layer in this table holds, with two exceptions: the address and the price of a file count
//! only for the model that the file is about, and for a session that is there the files say only what its tape does not keep. Rules
//! are another matter: those of a later layer may allow what an earlier one asks about, and never what it denies
//! ([`super::rules::rights`]).
//!
//! A change must keep two things. A file that is not understood is an error, and is not passed over: it may hold the rule that
//! denies. And no file of a workspace has a say before its folder is trusted, or after the file has changed: such a file is left
//! out, and named in [`Config::notes`].

mod file;
mod settings;
mod show;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use tamtam::{
    ModelRef,
    permission::{Rule, Ruleset},
    session::Granted,
};

use super::{
    arguments::TurnArguments,
    environment::Environment,
    failure::Failure,
    trust::{CONFIG, Project, Trust},
};

pub(super) use file::{Said, parse};
pub(super) use show::show;

/// The name of the user's file, in the user's configuration folder.
const NAME: &str = "config.toml";

/// Whose file a layer is. Ordered from the weakest setting to the strongest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Layer {
    User,
    Project,
    Named,
}

impl Layer {
    pub(super) fn name(self) -> &'static str {
        match self {
            Layer::User => "user",
            Layer::Project => "project",
            Layer::Named => "config",
        }
    }
}

/// What the files of one workspace say.
#[derive(Debug, Default)]
pub(super) struct Config {
    /// From the weakest to the strongest.
    layers: Vec<Said>,
    /// What people granted for this project.
    pub(super) granted: Vec<Granted>,
    /// What was not read, and why.
    pub(super) notes: Vec<String>,
}

impl Config {
    /// Reads the files for a workspace: the user's, those of the project if it is trusted, and the named one.
    pub(super) fn load(environment: &Environment, workspace: &Path, named: Option<&Path>) -> Result<Config, Failure> {
        let mut config = Config { layers: user(environment)?, ..Config::default() };
        match Trust::of(environment).look(workspace, &[CONFIG])? {
            Project::Nothing => {}
            Project::Trusted { files, granted } => {
                for (name, text) in files {
                    config.layers.push(parse(Layer::Project, &workspace.join(name), &text)?);
                }
                config.granted = granted;
            }
            Project::Untrusted(why) => config.notes.push(why),
        }
        if let Some(path) = named {
            config.layers.push(file::read(Layer::Named, &environment.absolute(path))?);
        }
        Ok(config)
    }

    /// What the user's file and the named one say, for a command that works in no folder.
    #[cfg(feature = "postgres")]
    pub(super) fn of_user(environment: &Environment, named: Option<&Path>) -> Result<TurnArguments, Failure> {
        let mut config = Config { layers: user(environment)?, ..Config::default() };
        if let Some(path) = named {
            config.layers.push(file::read(Layer::Named, &environment.absolute(path))?);
        }
        Ok(config.over(&TurnArguments::default(), None).0)
    }

    /// The arguments, with the settings of the files where they are silent, and the layer that each of those came from.
    /// `of_session` is the model of a session that is there already: it keeps its own settings, so of the files only the others
    /// count.
    pub(super) fn over(
        &self,
        given: &TurnArguments,
        of_session: Option<&ModelRef>,
    ) -> (TurnArguments, BTreeMap<&'static str, &Said>) {
        let mut turn = given.clone();
        let mut from = BTreeMap::new();
        let is_stricter_only = |layer: &Said, name: &str| layer.layer == Layer::Project && name.starts_with("sandbox.");
        // The model that will answer, whichever layer names it: an address or a price is that of a model, and a key must not go
        // elsewhere.
        let of_files = || self.layers.iter().rev().find_map(|layer| layer.values.get("model").cloned());
        let chosen = given.model.model.clone().or(of_session.map(ModelRef::to_string)).or_else(of_files);
        for layer in self.layers.iter().rev() {
            for setting in settings::ALL {
                let Some(text) = layer.values.get(setting.name) else { continue };
                let is_kept = of_session.is_some() && setting.of_session;
                let is_elsewhere = setting.of_model && !layer.is_about(chosen.as_deref());
                if is_kept || is_elsewhere || is_stricter_only(layer, setting.name) {
                    continue;
                }
                // It was read before, so it is understood.
                if settings::set(setting.name, text, &mut turn) == Ok(true) {
                    from.insert(setting.name, layer);
                }
            }
        }
        // A project may make the sandbox stricter than the user's file, and no argument and no named file weaker or stricter.
        for (layer, (name, text)) in
            self.layers.iter().flat_map(|layer| layer.values.iter().map(move |said| (layer, said)))
        {
            let is_open =
                from.get(name).map_or(turn.setup.sandbox.get(name).is_none(), |said: &&Said| said.layer == Layer::User);
            if is_stricter_only(layer, name) && is_open && turn.setup.sandbox.set_stricter(name, text) == Ok(true) {
                from.insert(name, layer);
            }
        }
        (turn, from)
    }

    /// The rules of all that people granted for this project.
    pub(super) fn granted_rules(&self) -> Vec<Rule> {
        self.granted.iter().flat_map(|granted| &granted.rules).cloned().collect()
    }

    /// The layers that have rules, from the most to the least powerful.
    pub(super) fn rules(&self) -> impl Iterator<Item = (Layer, &Ruleset)> {
        let with_rules = self.layers.iter().filter(|layer| !layer.rules.rules.is_empty());
        with_rules.map(|layer| (layer.layer, &layer.rules))
    }
}

/// The folder of the tapes: the named one, else that of the file of `--config`, of the user's file, or the default.
pub(super) fn store(environment: &Environment, given: &TurnArguments) -> Result<PathBuf, Failure> {
    if let (None, Some(path)) = (&given.store.store, &given.config) {
        let named = file::read(Layer::Named, &environment.absolute(path))?;
        if let Some(store) = named.values.get("store") {
            return environment.store(Some(Path::new(store)));
        }
    }
    // A session may not run on settings and rules that were not understood.
    user(environment)?;
    environment.store(given.store.store.as_deref())
}

/// The folder of the tapes that the user's file names, and what is wrong with that file. Of a file with a mistake elsewhere the
/// folder still counts: a command that only works with tapes says the mistake and goes on.
pub(super) fn user_store(environment: &Environment) -> (Option<PathBuf>, Option<Failure>) {
    match user(environment) {
        Ok(layers) => (layers.iter().find_map(|layer| layer.values.get("store")).map(PathBuf::from), None),
        Err(mistake) => (environment.config_folder().and_then(|folder| file::store(&folder.join(NAME))), Some(mistake)),
    }
}

/// The user's file, if there is one.
fn user(environment: &Environment) -> Result<Vec<Said>, Failure> {
    let Some(folder) = environment.config_folder() else { return Ok(Vec::new()) };
    let path = folder.join(NAME);
    match std::fs::symlink_metadata(&path) {
        Err(error) if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
            Ok(Vec::new())
        }
        _ => Ok(vec![file::read(Layer::User, &path)?]),
    }
}

#[cfg(test)]
mod tests;
