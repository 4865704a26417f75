//! Knows the options by which a program runs another one, and refuses an unknown word in a place where such an option could be.
//!
//! A rule that allows `tar *` means tar, and not what `--to-command` names. So a listed program with such an option makes a command
//! unclear, and so does a variable, a substitution, a list in braces or a wildcard at the beginning of a word that could turn out to
//! be one. No option can come after `--`, or as the value of an option before it; the options with values that people give
//! variables to are listed ([`VALUED`]). A change must list an option there only if the program always takes the next word.

use crate::permission::shell::{ANY, Arg, GLOB, HOME, Unclear, reports::FIND_VALUED, unclear};

/// A program, the letters and the long names of its options that make it run another one. A long name may be shortened, and may have
/// a single dash.
type Runs = (&'static str, &'static str, &'static [&'static str]);

const RUNS: &[Runs] = &[
    ("apt", "oc", &["option", "config-file"]),
    ("apt-get", "oc", &["option", "config-file"]),
    ("bat", "", &["pager"]),
    ("c++", "B", &["wrapper", "specs", "fplugin", "fuse-ld"]),
    ("cargo", "", &["config"]),
    ("cc", "B", &["wrapper", "specs", "fplugin", "fuse-ld"]),
    ("clang", "B", &["fplugin", "fuse-ld"]),
    ("clang++", "B", &["fplugin", "fuse-ld"]),
    ("cpio", "", &["rsh-command", "rmt-command"]),
    ("docker", "", &[]),
    ("fd", "xX", &["exec", "exec-batch"]),
    ("fdfind", "xX", &["exec", "exec-batch"]),
    ("fzf", "", &["preview", "bind"]),
    ("g++", "B", &["wrapper", "specs", "fplugin", "fuse-ld"]),
    ("gcc", "B", &["wrapper", "specs", "fplugin", "fuse-ld"]),
    ("go", "", &["exec", "toolexec", "vettool"]),
    ("gpg", "", &["agent-program", "dirmngr-program", "photo-viewer", "pinentry-program"]),
    ("hg", "", &["config", "ssh", "remotecmd", "tool"]),
    ("java", "", &["agentpath", "agentlib", "javaagent", "XX:OnError", "XX:OnOutOfMemoryError"]),
    ("make", "E", &["eval"]),
    ("man", "CPH", &["pager", "html", "config-file"]),
    ("npm", "", &["script-shell", "node-options", "init-module", "userconfig", "globalconfig"]),
    ("pnpm", "", &["script-shell", "node-options"]),
    ("podman", "", &[]),
    ("rg", "", &["pre", "hostname-bin"]),
    ("rpm", "ED", &["eval", "define", "pipe", "load"]),
    ("rsync", "eM", &["rsh", "rsync-path", "remote-option", "daemon", "config"]),
    ("scp", "oSDF", &[]),
    ("sftp", "oSDFb", &[]),
    ("sort", "", &["compress-program"]),
    ("split", "", &["filter"]),
    ("ssh", "oFIE", &[]),
    ("svn", "", &["diff-cmd", "diff3-cmd", "merge-cmd", "editor-cmd", "config-option", "config-dir"]),
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
    ("tcpdump", "z", &[]),
    ("wget", "e", &["use-askpass", "execute"]),
    ("zip", "T", &["unzip-command"]),
];

/// Programs that read more options from a file that is named after a `@`.
const READ_OPTIONS: &[&str] = &["c++", "cc", "clang", "clang++", "g++", "gcc", "java"];

/// Options that always take the next word as their value: the program (of git, also its command).
const VALUED: &[(&str, &[&str])] = &[
    ("cc", &["-o", "-I", "-L"]),
    (
        "docker",
        &["-e", "-v", "-w", "-u", "-p", "-t", "-f", "--env", "--volume", "--name", "--workdir", "--tag", "--file"],
    ),
    ("fd", &["-e", "-t", "-d", "-E"]),
    ("gcc", &["-o", "-I", "-L"]),
    ("git commit", &["-m", "-F", "-C", "--message", "--file", "--author", "--date"]),
    ("git grep", &["-e"]),
    ("git merge", &["-m"]),
    ("git notes", &["-m"]),
    ("git stash", &["-m", "--message"]),
    ("git tag", &["-m", "-F", "--message"]),
    ("go", &["-run"]),
    ("make", &["-C", "-f"]),
    ("rg", &["-e", "-g", "-t", "-A", "-B", "-C", "-m", "--regexp", "--glob", "--type"]),
    ("sort", &["-k", "-t", "-o"]),
    ("split", &["-l", "-b", "-n", "-a"]),
    ("ssh", &["-i", "-p", "-l"]),
    ("scp", &["-i", "-P"]),
    ("tar", &["-C", "-f", "--directory", "--file", "--exclude"]),
    ("wget", &["-O", "-P", "-o"]),
];

/// Whether an argument before `--` is one of these options, or may turn out to be any.
pub(super) fn checked(name: &str, args: &[Arg]) -> Result<(), Unclear> {
    let Some(runs) = RUNS.iter().find(|(program, ..)| *program == name) else { return Ok(()) };
    // Tar takes its letters without a dash too.
    let bare = name == "tar" && args.first().is_some_and(|arg| is_bundle(arg) && arg.text.contains(['I', 'F']));
    // A file of options, which no rule sees.
    let from_file = READ_OPTIONS.contains(&name) && args.iter().any(|arg| arg.text.starts_with('@'));
    if bare || from_file || run_another(runs, args) {
        return unclear(format!("it makes {name} run another program"));
    }
    let row = match name {
        "podman" => "docker",
        "fdfind" => "fd",
        "clang" | "g++" | "clang++" | "c++" => "cc",
        name => name,
    };
    known(name, row, args)
}

/// Whether an argument before `--` is one of the options of a row.
pub(super) fn run_another((_, letters, longs): &Runs, args: &[Arg]) -> bool {
    let long = |text: &str| {
        let name = text.split('=').next().unwrap_or_default();
        !name.is_empty() && longs.iter().any(|known| known.starts_with(name))
    };
    let in_arg = |arg: &Arg| match arg.text.strip_prefix("--") {
        Some(text) => long(text),
        None => arg.text.strip_prefix('-').is_some_and(|short| {
            let name = short.split('=').next().unwrap_or_default();
            // A letter in the text of a long name with one dash counts as well: such a command is asked about.
            short.contains(|c| letters.contains(c)) || longs.iter().any(|known| name.starts_with(known))
        }),
    };
    args.iter().take_while(|arg| arg.text != "--").any(in_arg)
}

/// Refuses a word that may turn out to be an option of `program`, whose options with values are listed under `row`.
pub(super) fn known(program: &str, row: &str, args: &[Arg]) -> Result<(), Unclear> {
    let valued = VALUED.iter().find(|(name, _)| *name == row).map_or(&[][..], |(_, valued)| valued);
    for (at, arg) in args.iter().enumerate().take_while(|(_, arg)| arg.text != "--") {
        let before = at.checked_sub(1).and_then(|before| args.get(before));
        let is_value = before.is_some_and(|before| takes_next(row, valued, before, at));
        let letters = arg.text.strip_prefix('-').map(|rest| rest.split('=').next().unwrap_or_default());
        let unknown_name = letters.is_some_and(|name| name.contains([ANY, GLOB, HOME]));
        if (unknown_name || arg.may_be_an_option()) && (!is_value || arg.splits) {
            return unclear(format!("it passes {program} a word that may turn out to be an option"));
        }
    }
    Ok(())
}

/// Whether an option takes the next word, which is the argument `at`.
fn takes_next(row: &str, valued: &[&str], option: &Arg, at: usize) -> bool {
    let text = option.text.as_str();
    match row {
        // `-am` and the like: all letters before the last one have no value.
        "git commit" if text.len() > 2 && !text.starts_with("--") => text
            .strip_prefix('-')
            .and_then(|all| all.strip_suffix('m'))
            .is_some_and(|all| all.chars().all(|c| "aqsvne".contains(c))),
        // `xzf` and `-xzf`: only the last letter has a value.
        "tar" if at == 1 && !text.starts_with("--") && !valued.contains(&text) => text
            .trim_start_matches('-')
            .strip_suffix('f')
            .is_some_and(|all| all.chars().all(|c| "xctuzjJavpkmOh".contains(c))),
        _ => valued.contains(&text),
    }
}

/// Whether a word of tar is letters without a dash.
fn is_bundle(arg: &Arg) -> bool {
    !arg.text.starts_with('-')
}
/// Whether a word of `find` may turn out to be an expression; `before` is the word in front of it.
pub(super) fn may_be_an_expression(before: Option<&Arg>, arg: &Arg) -> bool {
    let is_value = before.is_some_and(|before| FIND_VALUED.contains(&before.text.as_str()));
    let odd = arg.text.starts_with('-') && arg.is_unknown();
    (odd || arg.may_be_an_option()) && (!is_value || arg.splits)
}
