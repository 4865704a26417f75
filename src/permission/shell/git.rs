//! `git`, without the options before its command that change nothing, and the options and commands by which it runs another program.
//!
//! Git runs programs in more ways than any other tool that people allow by name: by options of its commands, by settings, by
//! addresses with their own transport. A command with one of those that are listed here is unclear, so `allow git *` does not
//! allow it. Programs that a repository's own settings make git run, and its hooks, are not checked.

use crate::permission::shell::{ANY, Arg, Role, Simple, Unclear, options, scan::Scan, unclear};

/// Commands that run a program, a server or a shell, or that reveal secrets, with any arguments.
const COMMANDS: &[&str] = &[
    "archimport",
    "citool",
    "credential",
    "credential-cache",
    "credential-store",
    "cvsexportcommit",
    "cvsimport",
    "cvsserver",
    "daemon",
    "filter-branch",
    "for-each-repo",
    "fsmonitor--daemon",
    "gui",
    "hook",
    "http-backend",
    "imap-send",
    "instaweb",
    "merge-index",
    "p4",
    "quiltimport",
    "receive-pack",
    "remote-ext",
    "remote-fd",
    "send-email",
    "shell",
    "svn",
    "upload-archive",
    "upload-pack",
    "web--browse",
];

/// Options of any command that run a program.
const ANYWHERE: (&str, &str, &[&str]) =
    ("", "", &["upload-pack", "receive-pack", "exec", "ext-diff", "extcmd", "open-files-in-pager", "exec-path"]);

/// Options of one command that run a program, or make later ones run one.
const RUNS: &[(&str, &str, &[&str])] = &[
    ("archive", "", &["remote"]),
    ("clone", "uc", &["template", "config"]),
    // The name of a tool is a path of a script beneath git's own folder, and may climb out of it.
    ("difftool", "xt", &["tool"]),
    ("help", "wim", &["web", "info", "man"]),
    ("init", "", &["template"]),
    ("mergetool", "t", &["tool"]),
    ("rebase", "xi", &["interactive", "edit-todo"]),
];

/// Commands with a first word that runs a program.
const WORDS: &[(&str, &[&str])] = &[
    ("bisect", &["run", "visualize", "view"]),
    ("maintenance", &["start", "register"]),
    ("submodule", &["foreach", "update"]),
    ("submodule--helper", &["foreach", "update"]),
];

/// Commands that are given addresses.
const REMOTES: &[&str] = &["archive", "clone", "fetch", "ls-remote", "pull", "push", "remote", "submodule"];

impl Scan {
    pub(super) fn git(&mut self, args: Vec<Arg>) -> Result<(), Unclear> {
        let mut rest = args.into_iter();
        let mut kept: Vec<Arg> = Vec::new();
        while let Some(arg) = rest.next() {
            match arg.text.as_str() {
                "--no-pager"
                | "-P"
                | "-p"
                | "--paginate"
                | "--no-optional-locks"
                | "--no-replace-objects"
                | "--literal-pathspecs"
                | "--glob-pathspecs"
                | "--noglob-pathspecs"
                | "--icase-pathspecs" => {}
                "-C" => match rest.next() {
                    Some(folder) => self.change_folder(&folder)?,
                    None => return unclear("it has a git without a command"),
                },
                "-c" if rest.as_slice().first().is_some_and(|set| only_shows(&set.text)) => drop(rest.next()),
                "--version" | "--help" | "--exec-path" | "--html-path" | "--man-path" => {
                    kept.push(arg);
                    break;
                }
                option if option.starts_with('-') => {
                    return unclear(format!("it passes git the option {}", arg.shown()));
                }
                _ => {
                    kept.push(arg);
                    break;
                }
            }
        }
        kept.extend(rest);
        runs(&kept)?;
        if self.folders == [""] {
            return self.plain("git", kept);
        }
        // Another folder may be another repository, whose settings make git run a program. So no rule that names git allows it, and
        // those that deny it are about it.
        let elsewhere = format!("{ANY}git");
        self.found(Simple { name: elsewhere, args: kept.clone(), role: Role::Command, reads: None })?;
        self.found(Simple { name: "git".into(), args: kept, role: Role::Also, reads: None })
    }
}

/// An error where a command of git runs another program, or may do so.
fn runs(words: &[Arg]) -> Result<(), Unclear> {
    let Some((command, args)) = words.split_first() else { return Ok(()) };
    if command.is_unknown() {
        return unclear("it has a git whose command is not known before it runs");
    }
    let command = command.text.as_str();
    let is_word = |words: &[&str]| args.iter().any(|arg| words.contains(&arg.text.as_str()));
    let row = RUNS.iter().find(|(name, ..)| *name == command);
    let another = COMMANDS.contains(&command)
        || command.starts_with("credential")
        || options::run_another(&ANYWHERE, args)
        || row.is_some_and(|row| options::run_another(row, args))
        || WORDS.iter().any(|(name, first)| *name == command && is_word(first))
        || (command == "grep" && args.iter().any(opens))
        || (command == "config" && !only_reads(args))
        || args.iter().any(|arg| has_transport(command, &arg.text));
    if another {
        return unclear("it makes git run another program");
    }
    options::known("git", &format!("git {command}"), args)
}

/// `-O` of `git grep` opens the found files with a program: the letter counts in front of the first one that has a value.
fn opens(arg: &Arg) -> bool {
    let letters = arg.text.strip_prefix('-').filter(|letters| !letters.starts_with('-')).unwrap_or_default();
    letters.chars().take_while(|letter| !"efABCm".contains(*letter)).any(|letter| letter == 'O')
}

/// Whether `git config` only shows settings. The next command may run a setting that is set.
fn only_reads(args: &[Arg]) -> bool {
    let shows = |arg: &Arg| {
        matches!(
            arg.text.as_str(),
            "--get" | "--get-all" | "--get-regexp" | "--get-urlmatch" | "--list" | "-l" | "get" | "list"
        )
    };
    let edits = |arg: &Arg| {
        let text = arg.text.as_str();
        matches!(text, "-e" | "edit" | "set" | "unset")
            || ["--e", "--a", "--u", "--rep", "--ren", "--rem"].iter().any(|option| text.starts_with(option))
    };
    let scope = |arg: &Arg| arg.text.starts_with("--") && !edits(arg);
    match args.iter().find(|arg| !scope(arg) || shows(arg)) {
        Some(first) if shows(first) => !args.iter().any(edits),
        Some(name) => {
            let words = args.iter().filter(|arg| !scope(arg)).count();
            words == 1 && !name.text.starts_with('-') && !edits(name) && !name.is_unknown()
        }
        None => false,
    }
}

/// Whether a word is an address with a transport, which is a program: `ext::sh -c …` runs any command.
fn has_transport(command: &str, word: &str) -> bool {
    let transport = word.split_once("::").map_or("", |(transport, _)| transport);
    let name = !transport.is_empty() && transport.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    matches!(transport, "ext" | "fd") || (name && REMOTES.contains(&command))
}

/// Whether a setting of git only changes how it prints.
fn only_shows(setting: &str) -> bool {
    let setting = setting.to_ascii_lowercase();
    setting.starts_with("color.")
        || setting.starts_with("advice.")
        || matches!(setting.as_str(), "core.quotepath=off" | "core.quotepath=false" | "core.pager=cat")
}
