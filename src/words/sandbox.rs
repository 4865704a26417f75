//! What the commands of a session are confined to, as its tape keeps it ([`SandboxTerms`]). Plain values: what holds them is in
//! `process/sandbox.rs`, and who makes them is a tool ([`Tool::sandbox`](crate::tool::Tool::sandbox)).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// Which sockets a confined program may make. Ordered from the strictest to the widest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Network {
    /// None. Pairs of connected sockets inside of the program are allowed.
    #[default]
    Off,
    /// IPv4 and IPv6, to every address, the machine's own services among them, and the kernel's list of interfaces (netlink). No
    /// others: through the Unix socket of a service such as Docker a program would leave the sandbox.
    Ip,
    /// All that the user may.
    All,
}

impl Network {
    /// Its name in results and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Network::Off => "off",
            Network::Ip => "ip",
            Network::All => "all",
        }
    }
}

/// The sandbox that a session began with: it is in its settings, and calls of a tool with a weaker one are refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SandboxTerms {
    /// Whether no command runs if the sandbox cannot be enforced.
    pub required: bool,
    /// Which sockets commands may make.
    pub network: Network,
    /// What they may read besides the usual paths.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub read: BTreeSet<String>,
    /// What they may write next to the workspace and the usual paths.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub write: BTreeSet<String>,
}

impl SandboxTerms {
    /// Whether a sandbox (`None`: there is none) lets no command do more than these terms.
    #[must_use]
    pub fn are_kept_by(&self, sandbox: Option<&SandboxTerms>) -> bool {
        sandbox.is_some_and(|sandbox| {
            // What may be written may be read too.
            let reads = |path: &String| self.read.contains(path) || self.write.contains(path);
            sandbox.required >= self.required
                && sandbox.network <= self.network
                && sandbox.read.iter().all(reads)
                && sandbox.write.is_subset(&self.write)
        })
    }

    /// The terms in a few words.
    #[must_use]
    pub fn in_words(&self) -> String {
        let paths = |what: &str, paths: &BTreeSet<String>| {
            let paths: Vec<_> = paths.iter().map(String::as_str).collect();
            if paths.is_empty() { String::new() } else { format!(", {what} {}", paths.join(" ")) }
        };
        let mode = if self.required { "required" } else { "preferred" };
        format!("{mode}, network {}{}{}", self.network.name(), paths("read", &self.read), paths("write", &self.write))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Less is kept, more is not: each term separately.
    #[test]
    fn a_sandbox_keeps_terms_that_it_does_not_widen() {
        let set = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect::<BTreeSet<_>>();
        let terms = SandboxTerms { required: true, network: Network::Ip, read: set(&["/r"]), write: set(&["/w"]) };
        assert!(terms.are_kept_by(Some(&terms)) && !terms.are_kept_by(None));
        let with = |change: fn(&mut SandboxTerms)| {
            let mut other = terms.clone();
            change(&mut other);
            terms.are_kept_by(Some(&other))
        };
        assert!(with(|other| other.network = Network::Off));
        assert!(with(|other| other.read.clear()) && with(|other| other.write.clear()));
        assert!(with(|other| _ = other.read.insert("/w".to_owned())));
        assert!(!with(|other| other.required = false) && !with(|other| other.network = Network::All));
        assert!(!with(|other| _ = other.read.insert("/more".to_owned())));
        assert!(!with(|other| _ = other.write.insert("/r".to_owned())));
        assert_eq!(terms.in_words(), "required, network ip, read /r, write /w");
    }
}
