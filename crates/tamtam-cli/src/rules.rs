//! Builds the rules of a session: those of a profile, of the configuration files, and of the file of `--rules`.
//!
//! They are up to four layers, the most powerful first. A layer is a ruleset whose denials no later layer can undo:
//!
//! ```text
//! 1  host     the user's rules, if they deny anything; above every session, also one that is there already
//! 2  session  the project's rules, if they deny anything
//! 3  session  the rules of --config, if they deny anything
//! 4  session  one ruleset in which the last match stands: profile, user, project, --config, --rules
//! ```
//!
//! A profile is thus no layer of its own: a file can loosen what the profile asks about or denies. A file can also loosen what an
//! earlier file asks about, but not what it denies; the layers 1 to 3 repeat the rules of files for that alone.
//!
//! Where nobody can be asked, the default profile is `headless`, which denies instead of asking. A change must keep this: a file
//! that is not understood is an error that says where. With a denial left out, the rules would allow more.

use std::path::Path;

use tamtam::permission::{Action, Profile, Rule, Ruleset};

use super::{
    arguments::PermissionArguments,
    config::{Config, Layer},
    failure::Failure,
    named_file,
};

/// Largest rules file.
const RULES_BYTES_MAX: u64 = 1 << 20;

/// Whether somebody can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Audience {
    /// A person at a terminal, or a program on the other end of `--json`.
    Someone,
    /// Nobody: a call that needs a question is denied.
    Nobody,
}

/// The rules of a session, from the most to the least powerful.
#[derive(Debug, Default)]
pub(super) struct Rights {
    /// Above every session of the runtime.
    pub(super) host: Option<Ruleset>,
    pub(super) session: Vec<Ruleset>,
}

impl Rights {
    pub(super) fn layers(&self) -> Vec<&Ruleset> {
        self.host.iter().chain(&self.session).collect()
    }
}

/// The rules that the arguments and the files ask for, or the default ones.
pub(super) fn rights(arguments: &PermissionArguments, config: &Config, audience: Audience) -> Result<Rights, Failure> {
    let profile = arguments.permission.unwrap_or(match audience {
        Audience::Someone => Profile::Ask,
        Audience::Nobody => Profile::Headless,
    });
    let mut all = profile.ruleset();
    let mut session = Vec::new();
    let named = arguments.rules.as_deref().map(read).transpose()?;
    for (layer, rules) in config.rules() {
        append(&mut all, rules);
        if layer != Layer::User && denies(rules) {
            session.push(rules.clone());
        }
    }
    if let Some(rules) = &named {
        append(&mut all, rules);
    }
    session.push(all);
    Ok(Rights { host: host(config), session })
}

/// The user's rules, if they deny anything: they stand above every session, whatever its tape says.
pub(super) fn host(config: &Config) -> Option<Ruleset> {
    let user = config.rules().find(|(layer, _)| *layer == Layer::User).map(|(_, rules)| rules);
    user.filter(|rules| denies(rules)).cloned()
}

fn denies(rules: &Ruleset) -> bool {
    rules.rules.iter().any(|rule| rule.action == Action::Deny)
}

/// Adds rules behind those of a ruleset whose last match stands. The rules of one whose first match stands come backwards.
fn append(all: &mut Ruleset, rules: &Ruleset) {
    let mut strongest_first: Vec<Rule> = rules.strongest_first().cloned().collect();
    strongest_first.reverse();
    all.rules.extend(strongest_first);
    all.name = format!("{}, then {}", all.name, rules.name);
}

/// Reads a file of rules: TOML where its name ends so, else JSON.
fn read(path: &Path) -> Result<Ruleset, Failure> {
    let refused = |why: &dyn std::fmt::Display| Failure::usage(format!("bad rules file {}: {why}", path.display()));
    let text = named_file::text(path, RULES_BYTES_MAX).map_err(|why| refused(&why))?;
    let name = path.display().to_string();
    let is_toml = path.extension().is_some_and(|ending| ending == "toml");
    let read = if is_toml { Ruleset::from_toml(name, &text) } else { Ruleset::from_json(name, &text) };
    read.map_err(|why| refused(&why))
}

#[cfg(test)]
mod tests;
