//! Knows the programs that run commands in many ways, and looks at what they may run.
//!
//! Such a program is judged by its name, and no rule that allows an inner command allows it. The commands in its arguments are
//! checked for the rules that deny or ask: each tail of them, and each text in one of them. If that cannot be read, or is not in
//! a shell's language, something unknown may run, which counts for each rule that names a command.
//!
//! The lists are a courtesy: a program that is missing on them runs what it wants unseen, alongside a rule that allows it.

use crate::permission::shell::{ANY, Arg, Role, Simple, Unclear, commands, scan::Scan};

/// Programs that run commands in many ways: a part of their arguments, or the text in one of them. They are judged by name; the
/// commands in their arguments are checked as well, for the rules that deny or ask.
const RUNNERS: &[&str] = &[
    "aarch64",
    "at",
    "autossh",
    "batch",
    "bunx",
    "bwrap",
    "caffeinate",
    "capsh",
    "cargo-watch",
    "catatonit",
    "catchsegv",
    "cgdb",
    "cgexec",
    "choom",
    "chpst",
    "chronic",
    "chroot",
    "chrt",
    "conda",
    "daemonize",
    "dbus-launch",
    "dbus-run-session",
    "distrobox",
    "docker",
    "dumb-init",
    "eatmydata",
    "entr",
    "envdir",
    "envuidgid",
    "expect",
    "fakechroot",
    "fakeroot",
    "faketime",
    "firejail",
    "flock",
    "gdb",
    "gosu",
    "gtime",
    "gtimeout",
    "heaptrack",
    "hyperfine",
    "i386",
    "i486",
    "i586",
    "i686",
    "incus",
    "keep-one-running",
    "kubectl",
    "ld.so",
    "linux32",
    "linux64",
    "lldb",
    "logsave",
    "ltrace",
    "luit",
    "lxc-attach",
    "machinectl",
    "memusage",
    "minijail0",
    "mips",
    "mips64",
    "mosh",
    "mpiexec",
    "mpirun",
    "msgexec",
    "msgfilter",
    "mtrace",
    "newgrp",
    "nix-shell",
    "nodemon",
    "not",
    "npx",
    "nsenter",
    "numactl",
    "parallel",
    "perf",
    "pg_virtualenv",
    "pipenv",
    "pipx",
    "pkexec",
    "pnpx",
    "podman",
    "poetry",
    "ppc",
    "ppc32",
    "ppc64",
    "prlimit",
    "proot",
    "proxychains",
    "proxychains4",
    "qemu-aarch64",
    "qemu-x86_64",
    "remsh",
    "rexec",
    "rlogin",
    "rlwrap",
    "rr",
    "rsh",
    "run-one",
    "run-parts",
    "run-this-one",
    "runcon",
    "runsv",
    "runuser",
    "s390",
    "s390x",
    "s6-setuidgid",
    "schroot",
    "screen",
    "script",
    "sem",
    "setarch",
    "setlock",
    "setpriv",
    "setuidgid",
    "sg",
    "slogin",
    "softlimit",
    "sotruss",
    "sparc",
    "sparc64",
    "srun",
    "ssh",
    "ssh-agent",
    "sshpass",
    "start-stop-daemon",
    "startx",
    "strace",
    "su",
    "su-exec",
    "sudoedit",
    "systemd-cat",
    "systemd-inhibit",
    "systemd-nspawn",
    "systemd-run",
    "systemd-socket-activate",
    "taskset",
    "tini",
    "tmux",
    "toolbox",
    "torify",
    "torsocks",
    "trickle",
    "tsocks",
    "uclampset",
    "uname26",
    "unbuffer",
    "unshare",
    "uv",
    "uvx",
    "valgrind",
    "watch",
    "watchexec",
    "wine",
    "x86_64",
    "xinit",
    "xvfb-run",
];

/// How many runners may run one another.
const RUNNERS_MAX: usize = 3;

/// How many arguments a runner may have, because each tail of them is checked. A command with more is unclear.
const TAILS_MAX: usize = 40;

/// Whether a program runs commands that its arguments name.
pub(super) fn is_runner(name: &str) -> bool {
    RUNNERS.contains(&name) || name.starts_with("ld-")
}

/// Languages, editors and debuggers, which run commands of the system from a text in another language than a shell's.
const LANGUAGES: &[&str] = &[
    "R",
    "Rscript",
    "awk",
    "bun",
    "clisp",
    "deno",
    "ed",
    "elixir",
    "emacs",
    "erl",
    "ex",
    "expect",
    "gawk",
    "gdb",
    "gdbtui",
    "ghci",
    "guile",
    "iex",
    "irb",
    "jrunscript",
    "jshell",
    "julia",
    "lldb",
    "lua",
    "luajit",
    "m4",
    "mawk",
    "nawk",
    "node",
    "nodejs",
    "nvim",
    "octave",
    "osascript",
    "perl",
    "php",
    "pry",
    "psql",
    "python",
    "racket",
    "red",
    "ruby",
    "rview",
    "rvim",
    "sbcl",
    "sqlite3",
    "tclsh",
    "vi",
    "view",
    "vim",
    "vimdiff",
    "wish",
];

/// Whether a program gets a text in its own language, or reads one from where no rule sees it, instead of a script.
pub(super) fn runs_code(name: &str, args: &[Arg]) -> bool {
    let bare = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let is_script = |arg: &Arg| !arg.text.starts_with(['-', '+']) && !arg.is_unknown();
    let prints = |arg: &Arg| matches!(arg.text.as_str(), "--version" | "-V" | "--help" | "-h");
    LANGUAGES.contains(&bare)
        && match args.first() {
            Some(first) if prints(first) => false,
            // Their first word is the text.
            Some(_) if bare.ends_with("awk") => {
                args.iter().any(|arg| ["system", "getline", "|", "-f"].iter().any(|word| arg.text.contains(word)))
            }
            Some(first) => !is_script(first),
            None => true,
        }
}

impl Scan {
    /// What the arguments of a runner may run: each tail of them, and each text in one of them.
    pub(super) fn may_run(&mut self, args: &[Arg]) -> Result<(), Unclear> {
        // An unchecked text could be a command that a rule denies.
        if self.runners >= RUNNERS_MAX || args.len() > TAILS_MAX {
            return self.beyond("it runs commands through too many programs");
        }
        self.runners += 1;
        for (at, arg) in args.iter().enumerate() {
            if arg.is_unknown() {
                self.may_run_anything()?;
                continue;
            }
            if arg.text.starts_with('-') {
                continue;
            }
            if arg.text.contains([' ', '\n', ';']) {
                self.looked_at_only(|scan| scan.text(&arg.text))?;
            } else {
                // A word that cannot be the name of a command is skipped, and the next one is checked.
                let is_name = commands::named(arg).is_ok();
                let tail = args[at + 1..].to_vec();
                let mut read = Ok(());
                self.looked_at_only(|scan| {
                    read = scan.command(arg, tail);
                    Ok(())
                })?;
                if is_name && read.is_err() {
                    self.may_run_anything()?;
                }
            }
        }
        self.runners -= 1;
        Ok(())
    }

    /// Something that is not known may run: it counts for each rule that denies a command by its name or asks about it.
    pub(super) fn may_run_anything(&mut self) -> Result<(), Unclear> {
        let any = Simple { name: ANY.to_string(), args: Vec::new(), role: Role::Also, reads: None };
        self.looked_at_only(|scan| scan.found(any))
    }
}
