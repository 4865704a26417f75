//! Reads one command of a shell: what it is called, what it runs in turn, and what it opens.
//!
//! A command is known by the name of its program, without the folder; a program in an unusual folder has its path for a name, and
//! counts under its bare name as well, for the rules that deny or ask. A program that runs another one is unfolded (`wrappers.rs`;
//! a shell with `-c`, and `find -exec`, here). A program that an option makes run another one ([`RUNS`]), and a command that
//! changes what later ones mean ([`UNSEEN`]), make the whole unclear. Every other program is a name for the rules, however much it
//! can do.
//!
//! A change must keep that a command either stands in the result with all that it is known to run, or is an error: a command that
//! is dropped here is judged by no rule.

use crate::permission::shell::{
    ANY, Arg, GLOB, Role, Simple, Unclear, paths, reports, statements::Scan, unclear, variables, words::SUBSTITUTED,
    wrappers,
};

/// Commands of the shell that run a text, or that change what a later command means.
const UNSEEN: &[&str] = &[
    ".",
    "alias",
    "bind",
    "complete",
    "compgen",
    "compopt",
    "declare",
    "enable",
    "eval",
    "fc",
    "getopts",
    "hash",
    "history",
    "let",
    "local",
    "logout",
    "mapfile",
    "popd",
    "pushd",
    "readarray",
    "readonly",
    "shopt",
    "source",
    "suspend",
    "trap",
    "typeset",
    "unalias",
    "unset",
];

/// Words of the syntax. Where the grammar takes one for a command, it has read another command than bash does.
const RESERVED: &[&str] = &[
    "!", "[[", "]]", "case", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in", "select",
    "then", "until", "while", "{", "}",
];

/// Folders whose programs are known by their names alone.
const PROGRAM_FOLDERS: &[&str] = &["/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"];

/// Options that make a program run another one: the program, letters, long names. A long name may be shortened.
const RUNS: &[(&str, &str, &[&str])] = &[
    ("cargo", "", &["config"]),
    ("fd", "xX", &["exec", "exec-batch"]),
    ("fdfind", "xX", &["exec", "exec-batch"]),
    ("git", "", &["upload-pack", "receive-pack", "exec", "ext-diff", "extcmd", "open-files-in-pager", "exec-path"]),
    ("man", "PH", &["pager", "html"]),
    ("rg", "", &["pre", "hostname-bin"]),
    ("rsync", "e", &["rsh", "rsync-path"]),
    ("scp", "oSD", &[]),
    ("sftp", "oSD", &[]),
    ("sort", "", &["compress-program"]),
    ("split", "", &["filter"]),
    ("ssh", "oF", &[]),
    (
        "tar",
        "IF",
        &[
            "checkpoint-action",
            "info-script",
            "new-volume-script",
            "rmt-command",
            "rsh-command",
            "to-command",
            "use-compress-program",
        ],
    ),
    ("wget", "", &["use-askpass"]),
    ("zip", "T", &["unzip-command"]),
];

impl Scan {
    /// Takes a command with its words, and everything that it runs in turn.
    pub(super) fn command(&mut self, name: &Arg, args: Vec<Arg>) -> Result<(), Unclear> {
        self.enter()?;
        let (path, base) = named(name)?;
        // A program by its path may be another one than its name says.
        if let Some(path) = path {
            self.found(Simple { name: path.to_owned(), args: args.clone(), role: Role::Command, reads: None })?;
            self.looked_at_only(|scan| scan.command(&Arg::plain(base), args))?;
        } else if let Some(wrapper) = wrappers::named(base) {
            self.wrapped(wrapper, base, args)?;
        } else {
            self.program(base, args)?;
        }
        self.leave();
        Ok(())
    }

    fn program(&mut self, name: &str, args: Vec<Arg>) -> Result<(), Unclear> {
        if UNSEEN.contains(&name) {
            return unclear(format!("it has the command `{name}`"));
        }
        if runs(name, &args) {
            return unclear(format!("it makes {name} run another program"));
        }
        match name {
            "cd" => self.cd(args),
            "set" => set(&args).and_then(|()| self.found(Simple::reporting(name, args))),
            "read" => read(&args).and_then(|()| self.found(Simple::reporting(name, args))),
            "test" | "["
                if args.iter().any(|arg| matches!(arg.text.as_str(), "-v" | "-R")) || !tests_as_written(&args) =>
            {
                unclear("it makes test evaluate a name")
            }
            // `-v NAME` would evaluate an index in the name.
            "printf" if args.first().is_none_or(|format| format.text.starts_with(['-', ANY, GLOB])) => {
                unclear("it makes printf evaluate a name")
            }
            "wait" if args.iter().any(|arg| arg.is_unknown() || arg.text.starts_with('-')) => {
                unclear("it makes wait evaluate a name")
            }
            "jobs" if args.iter().any(|arg| arg.text.starts_with("-x")) => unclear("it makes jobs run a command"),
            "sh" | "bash" | "dash" | "ash" | "ksh" | "zsh" | "fish" => self.shell(name, args),
            "find" => self.find(args),
            "git" => self.git(args),
            "tee" => self.tee(args),
            _ => self.plain(name, args),
        }
    }

    /// A command that is what it is called. Where it only reports, that is noted with what it reads.
    pub(super) fn plain(&mut self, name: &str, args: Vec<Arg>) -> Result<(), Unclear> {
        if wrappers::is_runner(name) {
            self.may_run(&args)?;
        }
        let reads = reports::reads(name, &args);
        let reads = reads.map(|paths| paths.iter().flat_map(|path| self.places(path)).collect());
        self.found(Simple { name: name.to_owned(), args, role: Role::Command, reads })
    }

    /// `tee` writes its files and nothing else. With a file or an option that is not known it is a program like any other.
    fn tee(&mut self, args: Vec<Arg>) -> Result<(), Unclear> {
        let is_option = |arg: &&Arg| matches!(arg.text.as_str(), "-a" | "-i" | "-ai" | "-ia" | "--append");
        let files: Vec<_> = args.iter().filter(|arg| !is_option(arg)).collect();
        if files.iter().any(|file| file.is_unknown() || file.text.starts_with('-')) {
            return self.plain("tee", args);
        }
        let places: Vec<_> =
            files.iter().filter(|file| file.text != SUBSTITUTED).flat_map(|file| self.places(&file.text)).collect();
        self.found.writes.extend(places);
        self.found(Simple::reporting("tee", args))
    }

    fn cd(&mut self, args: Vec<Arg>) -> Result<(), Unclear> {
        let [to] = args.as_slice() else { return unclear("it changes to a folder that is not known before it runs") };
        self.change_folder(to)?;
        let reads = Some(self.places(&to.text));
        self.found(Simple { name: "cd".into(), args, role: Role::Command, reads })
    }

    /// A shell: with `-c` the text that it runs, else a program like any other.
    fn shell(&mut self, name: &str, args: Vec<Arg>) -> Result<(), Unclear> {
        let mut rest = args.iter();
        let mut runs_text = false;
        let text = loop {
            let Some(arg) = rest.next() else { break None };
            let text = arg.text.as_str();
            if arg.is_unknown() {
                return unclear(format!("it gives {name} a text that is not known before it runs"));
            }
            match text {
                "--login" | "--noprofile" | "--norc" | "--posix" => {}
                _ if text.starts_with(['-', '+']) && text.len() > 1 => {
                    let letters = &text[1..];
                    if letters.contains('o') {
                        rest.next();
                    }
                    runs_text |= text.starts_with('-') && letters.contains('c');
                    if !letters.chars().all(|c| "ceflnouvxC".contains(c)) {
                        return if runs_text {
                            unclear(format!("it gives {name} the option {text}"))
                        } else {
                            self.plain(name, args)
                        };
                    }
                }
                _ => break Some(text),
            }
        };
        match text {
            Some(text) if runs_text => {
                // The shells differ beyond these characters.
                let common = |c: char| c.is_ascii_alphanumeric() || " _./:,@%+-\"';&|".contains(c);
                if matches!(name, "zsh" | "ksh" | "fish") && !text.chars().all(common) {
                    return unclear(format!("it gives {name} a text that is not of bash"));
                }
                self.found(Simple { name: name.to_owned(), args: args.clone(), role: Role::Also, reads: None })?;
                self.text(text)
            }
            _ => self.plain(name, args),
        }
    }

    /// `find`, with the commands that it runs for each file.
    fn find(&mut self, args: Vec<Arg>) -> Result<(), Unclear> {
        let mut at = 0;
        while let Some(arg) = args.get(at) {
            at += 1;
            match arg.text.as_str() {
                "-exec" | "-execdir" | "-ok" | "-okdir" => {
                    let rest = &args[at..];
                    let Some(end) = rest.iter().position(|arg| matches!(arg.text.as_str(), ";" | "+")) else {
                        return unclear("it has a find whose command does not end");
                    };
                    let mut inner = rest[..end].iter().map(|arg| arg.with_unknown("{}"));
                    let Some(name) = inner.next() else { return unclear("it has a find without a command") };
                    let inner = inner.collect();
                    at += end + 1;
                    self.command(&name, inner)?;
                }
                "-delete" => self.command(&Arg::plain("rm"), vec![Arg::unknown()])?,
                "-fprint" | "-fprint0" | "-fprintf" | "-fls" => match args.get(at) {
                    Some(file) if !file.is_unknown() => {
                        let places = self.places(&file.text);
                        self.found.writes.extend(places);
                    }
                    _ => return unclear("it has a find that writes to a file that is not known"),
                },
                _ => {}
            }
        }
        self.plain("find", args)
    }

    /// `git`, without the options before its command that change nothing.
    fn git(&mut self, args: Vec<Arg>) -> Result<(), Unclear> {
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
                option if option.starts_with('-') => return unclear(format!("it gives git the option {option}")),
                _ => {
                    kept.push(arg);
                    break;
                }
            }
        }
        kept.extend(rest);
        let words: Vec<_> = kept.iter().map(|arg| arg.text.as_str()).collect();
        let shell =
            matches!(words.as_slice(), ["submodule", "foreach", ..] | ["bisect", "run", ..] | ["filter-branch", ..])
                || (words.first() == Some(&"rebase") && words.iter().any(|word| word.starts_with("-x")))
                || (words.first() == Some(&"grep") && words.iter().any(|word| word.starts_with("-O")))
                || words.iter().any(|word| word.starts_with("ext::"));
        if shell {
            return unclear("it makes git run another program");
        }
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

/// The name of a command: its path, where that is not a usual place for programs, and the name without folder.
fn named(name: &Arg) -> Result<(Option<&str>, &str), Unclear> {
    if name.is_unknown() {
        return unclear("the name of a command is not known before it runs");
    }
    let (folder, base) = match name.text.rsplit_once('/') {
        Some((folder, base)) => (Some(folder), base),
        None => (None, name.text.as_str()),
    };
    let letters = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "._+-/:[@".contains(c));
    if base.is_empty() || RESERVED.contains(&base) || !letters(base) || !letters(folder.unwrap_or_default()) {
        return unclear("it has a command with an odd name");
    }
    let usual = folder.is_none_or(|folder| PROGRAM_FOLDERS.contains(&paths::joined("", folder).as_str()));
    Ok(((!usual).then_some(name.text.as_str()), base))
}

/// Whether an option makes a program run another one.
fn runs(name: &str, args: &[Arg]) -> bool {
    let Some((_, letters, longs)) = RUNS.iter().find(|(program, ..)| *program == name) else { return false };
    // Tar takes its letters without a dash too.
    let bare =
        name == "tar" && args.first().is_some_and(|arg| !arg.text.starts_with('-') && arg.text.contains(['I', 'F']));
    let in_arg = |arg: &Arg| match arg.text.strip_prefix("--") {
        Some(long) => {
            let long = long.split('=').next().unwrap_or_default();
            !long.is_empty() && longs.iter().any(|known| known.starts_with(long))
        }
        None => arg.text.strip_prefix('-').is_some_and(|short| short.contains(|c| letters.contains(c))),
    };
    bare || args.iter().take_while(|arg| arg.text != "--").any(in_arg)
}

/// `set` with the options that say at which errors a script ends, or that only print.
fn set(args: &[Arg]) -> Result<(), Unclear> {
    let strict = |arg: &Arg| {
        matches!(arg.text.as_str(), "pipefail" | "errexit" | "nounset")
            || arg.text.strip_prefix(['-', '+']).is_some_and(|letters| letters.chars().all(|c| "euo".contains(c)))
    };
    if args.iter().all(strict) { Ok(()) } else { unclear("it changes how the shell works") }
}

/// `read` into the command's own variables.
fn read(args: &[Arg]) -> Result<(), Unclear> {
    let own = |arg: &Arg| {
        arg.text == "-r"
            || (!arg.text.is_empty()
                && arg.text.chars().all(|c| c.is_ascii_lowercase() || c == '_')
                && variables::may_be_set(&arg.text).is_ok())
    };
    if args.iter().all(own) { Ok(()) } else { unclear("it reads into a name that the shell evaluates") }
}

/// Whether the words of a `[` test are read as they are written. A value could be the operator `-v`, which evaluates an index in
/// the next word, so what is not known has an operator behind it, or nothing.
pub(super) fn tests_as_written(words: &[Arg]) -> bool {
    let is_operator = |word: &Arg| {
        matches!(
            word.text.as_str(),
            "]" | "="
                | "=="
                | "!="
                | "<"
                | ">"
                | "-a"
                | "-o"
                | "-eq"
                | "-ne"
                | "-lt"
                | "-le"
                | "-gt"
                | "-ge"
                | "-nt"
                | "-ot"
                | "-ef"
        )
    };
    let known = |at: usize| !words[at].is_unknown() || (!words[at].splits && words.get(at + 1).is_none_or(is_operator));
    (0..words.len()).all(known)
}

/// Whether a setting of git only changes how it prints.
fn only_shows(setting: &str) -> bool {
    let setting = setting.to_ascii_lowercase();
    setting.starts_with("color.")
        || setting.starts_with("advice.")
        || matches!(setting.as_str(), "core.quotepath=off" | "core.quotepath=false" | "core.pager=cat")
}
