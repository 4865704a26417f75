//! Unfolds programs that run another one: the inner command is judged as if it stood alone, and the wrapper counts as well.
//!
//! The first table ([`WRAPPERS`]) says which options a wrapper may have. A wrapper with another one is unclear, because what looks
//! like the inner command may be the value of an option. A change must list an option with a value only if the value may be a
//! separate word; else the name of the inner command would be skipped. Programs that run commands in other ways are in
//! `runners.rs`.

use crate::permission::shell::{ANY, Arg, GLOB, Role, Simple, Unclear, scan::Scan, unclear, variables};

/// A program that runs the command after its own options.
pub(super) struct Wrapper {
    name: &'static str,
    /// Options of one letter without a value, and with one.
    letters: &'static str,
    valued: &'static str,
    /// Options with long names; one that ends with `=` has a value. It is optional if the name is listed here without a `=` too,
    /// and is then never a separate word.
    longs: &'static [&'static str],
    /// How many words precede the command.
    words: usize,
    /// Assignments may precede the command.
    assigns: bool,
    /// Whether a rule must allow the wrapper too, because it changes rights.
    role: Role,
}

const fn wrapper(
    name: &'static str,
    letters: &'static str,
    valued: &'static str,
    longs: &'static [&'static str],
) -> Wrapper {
    Wrapper { name, letters, valued, longs, words: 0, assigns: false, role: Role::Also }
}

const WRAPPERS: &[Wrapper] = &[
    Wrapper {
        assigns: true,
        role: Role::Command,
        ..wrapper("sudo", "EnSHkA", "ugpC", &["non-interactive", "preserve-env", "preserve-env=", "user=", "group="])
    },
    Wrapper { role: Role::Command, ..wrapper("doas", "n", "u", &[]) },
    Wrapper { assigns: true, ..wrapper("env", "i0", "u", &["ignore-environment", "unset="]) },
    wrapper("time", "p", "", &[]),
    wrapper("nohup", "", "", &[]),
    Wrapper {
        words: 1,
        ..wrapper("timeout", "v", "sk", &["signal=", "kill-after=", "preserve-status", "foreground", "verbose"])
    },
    wrapper("nice", "0123456789", "n", &["adjustment="]),
    wrapper("ionice", "t", "cn", &["class=", "classdata="]),
    wrapper("stdbuf", "", "ioe", &["input=", "output=", "error="]),
    wrapper("setsid", "cfw", "", &["fork", "wait", "ctty"]),
    wrapper(
        "xargs",
        "0rtx",
        "nPILds",
        &[
            "null",
            "no-run-if-empty",
            "verbose",
            "exit",
            "max-args=",
            "max-procs=",
            "max-lines",
            "max-lines=",
            "delimiter=",
            "replace",
            "replace=",
        ],
    ),
    wrapper("command", "p", "", &[]),
    wrapper("builtin", "", "", &[]),
    wrapper("exec", "", "", &[]),
    wrapper("coproc", "", "", &[]),
    wrapper("busybox", "", "", &[]),
];

/// The wrapper of a name.
pub(super) fn named(name: &str) -> Option<&'static Wrapper> {
    WRAPPERS.iter().find(|wrapper| wrapper.name == name)
}

impl Wrapper {
    /// How many of the arguments are its own, and its replacement text.
    fn own(&self, args: &[Arg]) -> Result<(usize, Option<String>), Unclear> {
        let odd = |arg: &Arg| unclear(format!("it passes {} the option {}", self.name, arg.shown()));
        let value_at = |at: usize| match args.get(at).filter(|arg| arg.may_be_a_value()) {
            Some(value) => Ok(value.text.clone()),
            None => unclear(format!("it passes {} an option whose value is not visible", self.name)),
        };
        let mut at = 0;
        let mut replaced = None;
        let (mut words, mut counted) = (self.words, false);
        while let Some(arg) = args.get(at) {
            let text = arg.text.as_str();
            if arg.is_unknown() && (words > 0 || text.starts_with('-') || arg.splits) {
                return unclear(format!("it passes {} a word that is not known before it runs", self.name));
            }
            if text == "--" {
                at += 1 + words;
                break;
            }
            if let Some(long) = text.strip_prefix("--") {
                let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
                let valued = self.longs.iter().any(|known| known.strip_suffix('=') == Some(name));
                let alone = self.longs.contains(&name);
                if !(valued || alone && value.is_none()) {
                    return odd(arg);
                }
                at += 1;
                if valued && value.is_none() && !alone {
                    value_at(at)?;
                    at += 1;
                }
                counted |= matches!(name, "max-args" | "max-lines");
                if name == "replace" {
                    replaced = Some(value.unwrap_or("{}").to_owned());
                }
                continue;
            }
            if let Some(letters) = text.strip_prefix('-').filter(|letters| !letters.is_empty()) {
                at += 1;
                for (place, letter) in letters.char_indices() {
                    if self.valued.contains(letter) {
                        let rest = &letters[place + letter.len_utf8()..];
                        let value = if rest.is_empty() { value_at(at)? } else { rest.to_owned() };
                        at += usize::from(rest.is_empty());
                        if self.name == "xargs" && letter == 'I' {
                            replaced = Some(value);
                        }
                        counted |= matches!(letter, 'n' | 'L');
                        break;
                    }
                    if !self.letters.contains(letter) {
                        return odd(arg);
                    }
                }
                continue;
            }
            match text.split_once('=') {
                Some((name, _)) if self.assigns && words == 0 => variables::may_be_given(name)?,
                _ if words > 0 => words -= 1,
                _ => break,
            }
            at += 1;
        }
        // With both options, some versions put the words after the command, in place of the mark or next to it.
        if replaced.as_ref().is_some_and(|mark| counted || mark.contains([ANY, GLOB])) {
            return unclear(format!("where {} puts its words is not known before it runs", self.name));
        }
        Ok((at, replaced))
    }
}

impl Scan {
    /// A wrapper, and the command that it runs.
    pub(super) fn wrapped(&mut self, wrapper: &Wrapper, name: &str, args: Vec<Arg>) -> Result<(), Unclear> {
        if name == "command" && args.first().is_some_and(|arg| matches!(arg.text.as_str(), "-v" | "-V")) {
            return self.found(Simple::reporting(name, args));
        }
        if name == "exec" && args.is_empty() {
            // It only redirects.
            return Ok(());
        }
        let (own, replaced) = wrapper.own(&args)?;
        let Some((inner, rest)) = args.get(own..).and_then(<[Arg]>::split_first) else {
            return self.found(Simple { name: name.to_owned(), args, role: Role::Command, reads: None });
        };
        let mut rest = rest.to_vec();
        let mut inner = inner.clone();
        if name == "xargs" {
            match replaced.filter(|mark| !mark.is_empty()) {
                Some(mark) => {
                    inner = inner.with_unknown(&mark);
                    rest = rest.iter().map(|arg| arg.with_unknown(&mark)).collect();
                }
                None => rest.push(Arg { splits: true, ..Arg::unknown() }),
            }
        }
        self.found(Simple { name: name.to_owned(), args, role: wrapper.role, reads: None })?;
        self.command(&inner, rest)
    }
}
