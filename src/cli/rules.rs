//! Builds the rules of a session: those of a profile, followed by those of a file.
//!
//! Where nobody can be asked, the default profile is `headless`, which denies instead of asking. A change must keep this: a line
//! of the file that is not understood is an error that names the line. A rule that was left out would allow more.

use std::path::Path;

use serde::Deserialize;
use tamtam::permission::{Action, Profile, Rule, Ruleset};

use super::{arguments::PermissionArguments, failure::Failure, named_file};

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

/// The rules that the arguments ask for, or the default ones.
///
/// The rules of the file follow those of the profile in one layer, and the last matching rule wins. So a file can loosen a profile
/// as well as tighten it.
pub(super) fn ruleset(arguments: &PermissionArguments, audience: Audience) -> Result<Ruleset, Failure> {
    let profile = arguments.permission.unwrap_or(match audience {
        Audience::Someone => Profile::Ask,
        Audience::Nobody => Profile::Headless,
    });
    let mut ruleset = profile.ruleset();
    if let Some(path) = &arguments.rules {
        ruleset.rules.extend(read(path)?);
        ruleset.name = format!("{}, then {}", ruleset.name, path.display());
    }
    Ok(ruleset)
}

fn read(path: &Path) -> Result<Vec<Rule>, Failure> {
    let refused = |why: &dyn std::fmt::Display| Failure::usage(format!("bad rules file {}: {why}", path.display()));
    let text = named_file::text(path, RULES_BYTES_MAX).map_err(|why| refused(&why))?;
    parse(&text).map_err(|why| refused(&why))
}

/// Reads one rule a line; empty lines and lines that begin with `#` are skipped.
fn parse(text: &str) -> Result<Vec<Rule>, String> {
    let lines = text.lines().enumerate().map(|(n, line)| (n + 1, line.trim()));
    let rules = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    rules.map(|(n, line)| parse_line(line).map_err(|why| format!("line {n}: {why}"))).collect()
}

/// One line. Unknown fields are errors: a misspelt field must not become another rule.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleLine {
    permission: String,
    pattern: String,
    action: Action,
}

fn parse_line(line: &str) -> Result<Rule, String> {
    let read: Result<RuleLine, _> = serde_json::from_str(line);
    read.map(|rule| Rule::new(rule.permission, rule.pattern, rule.action)).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_rules_file_has_one_rule_a_line() {
        let text = "# who may what\n\n{\"permission\":\"bash\",\"pattern\":\"cargo *\",\"action\":\"allow\"}\n";
        assert_eq!(parse(text).unwrap(), [Rule::new("bash", "cargo *", Action::Allow)]);
    }

    #[test]
    fn a_bad_rule_is_named_by_its_line() {
        let bad = [
            "{\"permission\":\"bash\",\"pattern\":\"*\",\"action\":\"perhaps\"}",
            "{\"permission\":\"bash\",\"patern\":\"*\",\"action\":\"deny\"}",
            "{\"permission\":\"bash\"}",
            "[]",
            "deny all",
        ];
        for line in bad {
            assert!(parse(&format!("#\n{line}")).unwrap_err().starts_with("line 2: "), "{line}");
        }
    }
}
