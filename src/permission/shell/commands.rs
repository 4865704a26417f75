//! Reads one command of a shell: its name, the commands that it runs, and the files that it opens.
//!
//! A command is known by the name of its program, without the folder; a program in an unusual folder has its path for a name, and
//! counts under its bare name as well, for the rules that deny or ask. A program that runs another one is unfolded (`wrappers.rs`; a
//! shell with `-c` in `shells.rs`; `find -exec` here). A program that an option makes run another one (`options.rs`, `git.rs`), and a
//! command that changes what later ones mean ([`UNSEEN`]), make the whole unclear. Every other program is a name for the rules,
//! even a powerful one.
//!
//! A change must keep that a command is either in the result with all that it is known to run, or an error: no rule judges a
//! command that is dropped here.

use crate::permission::shell::{
    ANY, Arg, GLOB, HOME, Role, Simple, Unclear, options, paths, reports, runners, scan::Scan, shells, unclear,
    variables, words::SUBSTITUTED, wrappers,
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
    "export",
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

/// Words of the syntax. If the grammar takes one for a command, it has read another command than bash does.
const RESERVED: &[&str] = &[
    "!", "[[", "]]", "case", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in", "select",
    "then", "until", "while", "{", "}",
];

/// Folders whose programs are known by their names alone.
const PROGRAM_FOLDERS: &[&str] = &["/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"];

impl Scan {
    /// Takes a command with its words, and everything that it runs in turn.
    pub(super) fn command(&mut self, name: &Arg, args: Vec<Arg>) -> Result<(), Unclear> {
        self.enter()?;
        self.take(args.iter().map(|arg| arg.text.len() + 1).sum())?;
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
        if let Some(kin) = shells::named(name) {
            return self.shell(name, kin, args);
        }
        options::checked(name, &args)?;
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
            "printf" if args.first().is_none_or(sets_by_format) => unclear("it makes printf evaluate a name"),
            "wait" if args.iter().any(|arg| arg.is_unknown() || arg.text.starts_with('-')) => {
                unclear("it makes wait evaluate a name")
            }
            "jobs"
                if args.iter().any(|arg| arg.is_unknown() || (arg.text.starts_with('-') && arg.text.contains('x'))) =>
            {
                unclear("it makes jobs run a command")
            }
            "find" => self.find(args),
            "git" => self.git(args),
            "tee" => self.tee(args),
            _ => self.plain(name, args),
        }
    }

    /// A command known by its own name. If it only reports, that is noted with what it reads.
    pub(super) fn plain(&mut self, name: &str, args: Vec<Arg>) -> Result<(), Unclear> {
        if runners::is_runner(name) {
            self.may_run(&args)?;
        }
        if runners::runs_code(name, &args) {
            self.may_run_anything()?;
        }
        let reads = self.reads(name, &args)?;
        self.found(Simple { name: name.to_owned(), args, role: Role::Command, reads })
    }

    /// The paths that a command reads by name, in each folder that it may be in; `None` if it is not known to only report. A path
    /// in a home folder is outside of the workspace, and may be any path that a rule names.
    fn reads(&mut self, name: &str, args: &[Arg]) -> Result<Option<Vec<String>>, Unclear> {
        let with_home = |arg: &Arg| Arg { text: arg.text.replace(HOME, "~"), splits: arg.splits };
        let Some(paths) = reports::reads(name, &args.iter().map(with_home).collect::<Vec<_>>()) else {
            return Ok(None);
        };
        let mut places = Vec::new();
        for path in paths {
            places.extend(self.places(&path)?);
            if path.starts_with('~') {
                let rest = path.split_once('/').map_or("", |(_, rest)| rest);
                places.extend([format!("{ANY}/{rest}"), format!("/{ANY}/{rest}")]);
            }
        }
        Ok(Some(places))
    }

    /// `tee` writes its files and nothing else. With a file or an option that is not known it is a program like any other.
    fn tee(&mut self, args: Vec<Arg>) -> Result<(), Unclear> {
        let is_option = |arg: &&Arg| matches!(arg.text.as_str(), "-a" | "-i" | "-ai" | "-ia" | "--append");
        let files: Vec<_> = args.iter().filter(|arg| !is_option(arg)).collect();
        if files.iter().any(|file| file.is_unknown() || file.text.starts_with('-')) {
            return self.plain("tee", args);
        }
        for file in files.iter().filter(|file| file.text != SUBSTITUTED) {
            let places = self.places(&file.text)?;
            self.found.writes.extend(places);
        }
        self.found(Simple::reporting("tee", args))
    }

    fn cd(&mut self, args: Vec<Arg>) -> Result<(), Unclear> {
        let [to] = args.as_slice() else { return unclear("it changes to a folder that is not known before it runs") };
        self.change_folder(to)?;
        let reads = Some(self.places(&to.text)?);
        self.found(Simple { name: "cd".into(), args, role: Role::Command, reads })
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
                        let places = self.places(&file.text)?;
                        self.found.writes.extend(places);
                    }
                    _ => return unclear("it has a find that writes to a file that is not known"),
                },
                _ if options::may_be_an_expression(at.checked_sub(2).and_then(|before| args.get(before)), arg) => {
                    return unclear("it passes find a word that may turn out to be an expression");
                }
                _ => {}
            }
        }
        self.plain("find", args)
    }
}

/// The name of a command: its path, if that is not a usual place for programs, and the name without folder.
pub(super) fn named(name: &Arg) -> Result<(Option<&str>, &str), Unclear> {
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

/// Whether the format of `printf` may set a variable: with `-v`, or with `%n`, which sets one to how much was printed. A `PATH` of
/// `3` is a folder of the workspace.
fn sets_by_format(format: &Arg) -> bool {
    let counts = |conversion: &str| {
        let letters = conversion.trim_start_matches(|c: char| !c.is_ascii_alphabetic() && c != '%');
        letters.trim_start_matches(['h', 'l', 'L', 'j', 't', 'z', 'q']).starts_with('n')
    };
    let text = format.text.replace("%%", "");
    text.starts_with(['-', ANY, GLOB, HOME])
        || text.split('%').skip(1).any(|conversion| counts(conversion) || format.is_unknown())
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
/// the next word, so what is not known has an operator after it, or nothing.
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
