//! Reads one configuration file (TOML): its settings as texts, and its rules.
//!
//! What is not understood is a usage error that names the file, the line, the field where there is one, and what is allowed there.
//! A file of a project cannot say what only its user may say ([`settings::Setting::of_user`]).
//!
//! A change must not pass anything over that is not understood: a misspelt rule would deny nothing. [`parse`] must read no disk,
//! because the text of a project is the one that was trusted, and a file that is read again may have changed.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use tamtam::permission::Ruleset;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{Layer, settings};
use crate::{arguments::TurnArguments, failure::Failure, named_file};

/// Largest configuration file, in bytes.
pub(super) const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// What one file says.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) layer: Layer,
    pub(crate) path: PathBuf,
    /// The settings, by name, as texts that `settings::set` takes.
    pub(crate) values: BTreeMap<&'static str, String>,
    pub(crate) rules: Ruleset,
}

impl Said {
    /// Whether an address or a price in this file is that of the chosen model: the file names a model of that provider, or no
    /// model is chosen.
    pub(super) fn is_about(&self, chosen: Option<&str>) -> bool {
        let provider = |model: &str| model.split(['/', ':']).next().unwrap_or_default().to_owned();
        match (chosen, self.values.get("model")) {
            (None, _) => true,
            (Some(chosen), Some(own)) => provider(chosen) == provider(own),
            (Some(_), None) => false,
        }
    }
}

/// Reads a file. Only a regular file of bounded size is read.
pub(super) fn read(layer: Layer, path: &Path) -> Result<Said, Failure> {
    let text = named_file::text(path, CONFIG_BYTES_MAX).map_err(|why| refused(path, &why))?;
    parse(layer, path, &text)
}

fn refused(path: &Path, why: &dyn std::fmt::Display) -> Failure {
    Failure::usage(format!("bad configuration {}: {why}", path.display()))
}

/// Reads the text of the file at `path`.
pub(crate) fn parse(layer: Layer, path: &Path, text: &str) -> Result<Said, Failure> {
    let at = |at: usize, why: &str| {
        let line = 1 + text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count();
        refused(path, &format_args!("line {line}: {why}"))
    };
    let table = DeTable::parse(text).map_err(|error| {
        let place = error.span().map_or(text.len(), |span| span.start);
        at(place, &format!("not TOML: {}", error.message().replace('\n', ", ")))
    })?;
    let rules = Ruleset::from_toml_table(path.display().to_string(), text, "rules");
    let rules = rules.map_err(|error| refused(path, &error))?;
    let mut said = Said { layer, path: path.to_owned(), values: BTreeMap::new(), rules };
    for (name, value) in table.get_ref() {
        if name.get_ref() == "rules" {
            continue;
        }
        let of_table = match (&**name.get_ref(), value.get_ref()) {
            ("sandbox" | "quirks" | "rate_limits", DeValue::Table(table)) => Some(table),
            _ => None,
        };
        let of = name.get_ref();
        let within = of_table.into_iter().flatten().map(|(key, value)| (key, format!("{of}.{}", key.get_ref()), value));
        let single = of_table.is_none().then(|| (name, name.get_ref().to_string(), value));
        for (key, name, value) in within.chain(single) {
            let (name, value) =
                setting(layer, path, &name, value).map_err(|why| at(key.span().start, &format!("{name}: {why}")))?;
            said.values.insert(name, value);
        }
    }
    Ok(said)
}

/// The folder of the tapes that a file names, whatever else is wrong in it.
pub(super) fn store(path: &Path) -> Option<PathBuf> {
    let text = named_file::text(path, CONFIG_BYTES_MAX).ok()?;
    let (table, _) = DeTable::parse_recoverable(&text);
    let (name, value) = table.get_ref().iter().find(|(name, _)| name.get_ref() == "store")?;
    setting(Layer::User, path, name.get_ref(), value).ok().map(|(_, store)| PathBuf::from(store))
}

/// Whether a setting is a list: of paths, or of models.
fn is_list(name: &str) -> bool {
    matches!(name, "sandbox.read" | "sandbox.write" | "instructions" | "fallback")
}

/// One setting, with its value as text; an error says what is wrong with the name or the value.
fn setting(
    layer: Layer,
    path: &Path,
    name: &str,
    value: &Spanned<DeValue<'_>>,
) -> Result<(&'static str, String), String> {
    let setting = settings::find(name)?;
    if setting.of_user && layer == Layer::Project {
        return Err("a project cannot set this: put it into your own file or the file of --config".to_owned());
    }
    let relative = |text: &str| path.parent().unwrap_or(Path::new("")).join(text).display().to_string();
    let text = match value.get_ref() {
        DeValue::Array(paths) if is_list(name) => {
            let path = |value: &Spanned<DeValue<'_>>| match value.get_ref() {
                // `~` stands for the home folder.
                DeValue::String(text) if text.starts_with('~') => Some(text.to_string()),
                DeValue::String(text) if name == "fallback" && !text.contains('\n') => Some(text.to_string()),
                DeValue::String(text) if !text.is_empty() && !text.contains('\n') => Some(relative(text)),
                _ => None,
            };
            let paths: Option<Vec<_>> = paths.iter().map(path).collect();
            paths.ok_or_else(|| format!("write {}", setting.takes))?.join("\n")
        }
        _ if is_list(name) => return Err(format!("write {}", setting.takes)),
        DeValue::String(text) => text.clone().into_owned(),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(is) => is.to_string(),
        _ => return Err(format!("write {}", setting.takes)),
    };
    let text = match name {
        // Relative to the file, so that it means the same from every folder.
        "store" | "ca" | "output_schema" => relative(&text),
        _ => text,
    };
    settings::set(setting.name, &text, &mut TurnArguments::default())
        .map_err(|why| format!("{why}: write {}", setting.takes))?;
    Ok((setting.name, text))
}
