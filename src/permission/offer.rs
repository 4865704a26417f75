//! Offers of an ask: the rules that a person may grant for more than one call. First what was asked, then at most one wider step.
//!
//! The first offer takes exactly what was asked. The second one, if there is one, widens each access that can be widened: to the
//! same command with other arguments, the same folder, or the same tool. Each offer says in one sentence what it allows. All
//! offers of an ask follow from its accesses alone ([`offers`]), so they are computed where they are needed and are stored nowhere;
//! the rules that a person chose are stored.
//!
//! A change must keep four bounds. An offer has the permissions of the accesses that were asked about, and no other. A command
//! with shell syntax, or of a program that is listed here because it runs other programs, is offered exactly or not at all. Where
//! one part of a command decides what another one does ([`bound_text`]), only the whole text is offered, exactly: `sh` means what is
//! piped into it, and `make` what the folder has. A command with words that are known only when it runs is not offered, because equal texts may be different commands. A granted
//! rule with a wildcard takes no command with shell syntax, no command that reads a file outside of the workspace, and no hidden
//! path; [`grants`] checks this again whenever such a rule is matched, because the pattern alone would take more: a command that
//! was not split into its parts is one text, and a `*` takes any text.
//!
//! The code is pure: the core calls it, and replay calls it again.

use serde::{Deserialize, Serialize};

use crate::{
    permission::{
        Action, Globs, Rule,
        shell::{ANY, GLOB, is_plain, words_of},
    },
    tool::{Access, ShellPart},
};

/// Most characters of a command or a path in the sentence of an offer.
const SHOWN_MAX: usize = 200;

/// Programs of which the second word says what they do, so that `git log` and `git push` are two commands.
const TWO_WORDS: &str = "apt apt-get brew bundle cargo composer dnf docker dotnet gh git glab go gradle helm hg jj kubectl mix mvn \
                         npm pip pip3 pnpm podman poetry rustup systemctl terraform uv yarn";

/// Second words of such programs with which they run their arguments.
const RUNS_OTHERS: &str = "alias bisect compose config create debug difftool dlx env exec extension filter-branch foreach generate \
                           init mergetool plugin rebase run-script shell submodule tool tools toolexec x";

/// Programs whose `run` runs a script that a file of the project names: the name of the script belongs to the command.
const RUNS_SCRIPTS: &str = "composer npm pnpm yarn";

/// Programs that run what their arguments say: interpreters, wrappers, editors and pagers, tools with an option for a command.
const RUNS_ARGUMENTS: &str = "ash at awk bash batch builtin bun bunx busybox bwrap chroot chrt command coproc csh dash deno doas ed \
     elixir emacs entr env erl eval ex exec expect faketime fd find firejail fish flock gawk gdb ghci groovy guile hyperfine iex \
     ionice irb java julia just ksh less lldb ltrace lua make man mawk more nano nawk nc ncat nice node nodejs nohup npx nsenter nu \
     nvim ocaml osascript parallel perf perl php pkexec powershell prlimit proot pwsh python rg rlwrap rscript rsync ruby runuser \
     scp screen script sed setpriv setsid sh socat source ssh stdbuf strace su sudo systemd-run tar tclsh tcsh time timeout tmux \
     toybox ts-node tsx unshare uvx vi view vim watch xargs zip zsh";

fn is_among(names: &str, name: &str) -> bool {
    names.split_ascii_whitespace().any(|one| one == name)
}

/// Something that a person may allow for more than one call, when a call is asked about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Offer {
    /// The number of the offer among those of its ask, from 1. The answer names it.
    pub offer: u32,
    /// The rules that it grants, all of them `allow`.
    pub rules: Vec<Rule>,
    /// What it allows, in one sentence for a person.
    pub allows: String,
}

/// The offers of an ask about these accesses, the narrower one first, at most two. Empty where nothing can be granted
/// for more than one call: the call names no access, one of its permissions has a wildcard in its name, or its command is not
/// known whole before it runs.
///
/// ```
/// use tamtam::{permission::offers, tool::Access};
/// let said: Vec<_> = offers(&[Access::new("bash", "cargo test --lib")]).into_iter().map(|offer| offer.allows).collect();
/// assert_eq!(said, ["Allows the command `cargo test --lib`, exactly.", "Allows `cargo test` with any arguments."]);
/// ```
#[must_use]
pub fn offers(accesses: &[Access]) -> Vec<Offer> {
    let Some(ladders) = accesses.iter().map(ladder).collect::<Option<Vec<_>>>() else { return Vec::new() };
    if let Some(text) = bound_text(accesses) {
        let others = ladders.into_iter().zip(accesses).filter(|(_, access)| access.permission != "bash");
        let whole = Rule { exact: true, ..allow("bash", text) };
        let exactly = others.filter_map(|(ladder, _)| ladder.into_iter().next()).flatten();
        let rules: Vec<_> = std::iter::once(whole).chain(exactly).collect();
        return vec![Offer { offer: 1, allows: allows(&rules), rules }];
    }
    let is_told_apart =
        |access: &Access| !matches!(access.part, Some(ShellPart::Also { .. } | ShellPart::Unread { .. }));
    let steps = match accesses.iter().all(is_told_apart) {
        true => ladders.iter().map(Vec::len).max().unwrap_or_default(),
        false => 1,
    };
    // An access with fewer steps stays at its widest one while the others continue.
    let rules = (0..steps).map(|step| {
        let mut rules: Vec<Rule> = Vec::new();
        let chosen = ladders.iter().filter_map(|ladder| ladder.get(step).or(ladder.last()));
        for rule in chosen.flatten() {
            if !rules.contains(rule) {
                rules.push(rule.clone());
            }
        }
        rules
    });
    (1..).zip(rules).map(|(offer, rules)| Offer { offer, allows: allows(&rules), rules }).collect()
}

fn allow(permission: &str, pattern: impl Into<String>) -> Rule {
    Rule::new(permission, pattern, Action::Allow)
}

/// Whether one of these granted rules takes the access. A wildcard takes no command with shell syntax, no command that reads a file
/// outside of the workspace, and no hidden path.
pub(crate) fn grants<'a>(rules: impl IntoIterator<Item = &'a Rule>, access: &Access, globs: &Globs) -> bool {
    is_whole(access)
        && rules.into_iter().any(|rule| {
            let by_name = rule.exact || !has_wildcard(&rule.permission, &rule.pattern);
            rule.action == Action::Allow && rule.matches(access, globs) && (by_name || is_ordinary(access))
        })
}

/// The text of a command in which one part decides what another one does, so that the parts mean nothing alone; `None` if each
/// part is independent. Parts depend on each other if one changes the folder, or if one runs what it gets, and gets more than its
/// words: by a pipe, a redirect or a text in the command.
pub(crate) fn bound_text(accesses: &[Access]) -> Option<String> {
    let whole = accesses.iter().find(|access| access.part == Some(ShellPart::Whole));
    let is_command = |access: &&Access| matches!(access.part, Some(ShellPart::Command { .. }));
    let command = accesses.iter().filter(is_command).find(|access| !moves(access));
    // Without a separate text the one command is the text, and all its input is in its words.
    let text = whole.or(command)?.pattern.as_str();
    if !accesses.iter().any(|access| moves(access) || (whole.is_some() && is_fed(access))) {
        return None;
    }
    // A folder that the call names besides its command precedes the text.
    let before = accesses.iter().filter(|access| moves(access) && !text.contains(&access.pattern));
    let texts: Vec<_> = before.map(|access| access.pattern.as_str()).chain([text]).collect();
    Some(texts.join(" && "))
}

/// Whether a part must be shown and granted with the others of its command: it decides what they do, or they decide what it does.
pub(crate) fn binds(access: &Access) -> bool {
    moves(access) || is_fed(access) || access.part == Some(ShellPart::Whole)
}

/// Whether a part of a command changes the folder that what is behind it runs in.
fn moves(access: &Access) -> bool {
    matches!(access.part, Some(ShellPart::Command { .. }))
        && matches!(access.pattern.split(' ').next(), Some("cd" | "pushd" | "popd"))
}

/// Whether a part of a command may run its input: its arguments may be commands, or it names its standard input.
fn is_fed(access: &Access) -> bool {
    let is_stdin = |word: &&str| matches!(*word, "-" | "/dev/stdin" | "/dev/fd/0");
    let is_fed = |words: &[&str]| {
        let named = words_of_the_command(words).map(|count| &words[1..count.min(words.len())]);
        // An option before the word that says what the program does may hide that word.
        let runs = |names: &[&str]| names.iter().any(|name| is_among(RUNS_OTHERS, name) || name.starts_with('-'));
        runs_arguments(words[0])
            || named.is_none_or(|names| words.len() > 2 && runs(names))
            || words.iter().any(is_stdin)
    };
    matches!(access.part, Some(ShellPart::Command { .. }))
        && words_of(&access.pattern).is_none_or(|words| is_fed(&words.iter().map(AsRef::as_ref).collect::<Vec<_>>()))
}

/// Whether a part of a command goes to the folder where the command begins anyway.
pub(crate) fn stays_in(access: &Access, workspace: &str) -> bool {
    let to = access.pattern.strip_prefix("cd ").filter(|_| matches!(access.part, Some(ShellPart::Command { .. })));
    let to = to.map(|to| to.trim_end_matches('/'));
    to.is_some_and(|to| to == "." || (!workspace.is_empty() && to == workspace.trim_end_matches('/')))
}

/// The rules for one access, from the narrowest to the widest; `None` if it cannot be granted.
fn ladder(access: &Access) -> Option<Vec<Vec<Rule>>> {
    let Access { permission, pattern, .. } = access;
    // A permission with a wildcard would be a rule about others as well.
    if !is_whole(access) || permission.contains(['*', '?']) {
        return None;
    }
    let wider = match permission.as_str() {
        _ if !is_ordinary(access) => None,
        "bash" => with_any_arguments(access),
        "read" | "edit" => folder(pattern).map(|folder| vec![allow(permission, format!("{folder}/**"))]),
        "external_directory" => folder(pattern).map(|folder| vec![allow(permission, format!("{folder}/*"))]),
        // Such an access names the tool and nothing finer.
        _ if pattern == "*" => return Some(vec![vec![allow(permission, "*")]]),
        _ => Some(vec![allow(permission, "*")]),
    };
    let exact = Rule { exact: has_wildcard(permission, pattern), ..allow(permission, pattern) };
    Some([vec![exact]].into_iter().chain(wider).collect())
}

/// The rules for a command with any arguments; `None` if its arguments may be commands.
fn with_any_arguments(access: &Access) -> Option<Vec<Rule>> {
    let words = words_of(&access.pattern)?;
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    // A text read into words is one command, for any words; for other text that is certain only with plain characters.
    let is_one = access.part.is_some() || (access.pattern.chars().all(is_plain) && !words.contains(&""));
    if !is_one || !words[0].chars().all(is_plain) || words[0].contains(' ') || runs_arguments(words[0]) {
        return None;
    }
    let prefix = words.get(..words_of_the_command(&words)?)?;
    let is_name = |word: &&str| {
        word.starts_with(|c: char| c.is_ascii_alphabetic())
            && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_:".contains(c))
    };
    let names = &prefix[1..];
    if !names.iter().all(is_name) || names.iter().any(|name| is_among(RUNS_OTHERS, name)) {
        return None;
    }
    let prefix = prefix.join(" ");
    Some(vec![allow("bash", &prefix), allow("bash", format!("{prefix} *"))])
}

/// Whether the first word of a command is not a program, or is one that runs its arguments.
fn runs_arguments(program: &str) -> bool {
    let name = name_of(program);
    // `python3.11` is `python`.
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    let is_no_program = program.contains('=') || program.starts_with('-') || stem.is_empty();
    is_no_program || is_among(RUNS_ARGUMENTS, stem) || is_among(RUNS_ARGUMENTS, &name)
}

/// The name of a program without its folder.
fn name_of(program: &str) -> String {
    program.rsplit('/').next().unwrap_or(program).to_ascii_lowercase()
}

/// How many words name the command, so that the rest are its arguments; `None` if it runs its arguments.
fn words_of_the_command(words: &[&str]) -> Option<usize> {
    let name = name_of(words[0]);
    match words.get(1) {
        _ if !is_among(TWO_WORDS, &name) => Some(1),
        Some(&"run") if is_among(RUNS_SCRIPTS, &name) => Some(3),
        Some(&"run") if name != "cargo" => None,
        _ => Some(2),
    }
}

/// The folder of a path, where a pattern can name it and it is neither the whole workspace nor hidden.
fn folder(path: &str) -> Option<&str> {
    let (folder, _) = path.rsplit_once('/')?;
    let is_named = !folder.is_empty()
        && !folder.ends_with('/')
        && !has_wildcard("edit", folder)
        && !folder.chars().any(char::is_control);
    (is_named && !is_hidden(path)).then_some(folder)
}

/// Whether a path has a name that begins with a dot: such files decide how other programs work, and `..` climbs.
fn is_hidden(path: &str) -> bool {
    path.split('/').any(|name| name.starts_with('.'))
}

/// Whether all of the access is known before the call runs.
fn is_whole(access: &Access) -> bool {
    access.is_known() && !access.pattern.contains([ANY, GLOB])
}

/// Whether a granted rule with a wildcard may take the access. Of a shell command these are its simple commands, except one that
/// reads a file outside of the workspace; a command that was not read into parts must have plain characters only.
fn is_ordinary(access: &Access) -> bool {
    match (access.permission.as_str(), &access.part) {
        ("bash", Some(ShellPart::Command { reads, .. })) => reads.iter().flatten().all(|read| !read.outside),
        ("bash", Some(_)) => false,
        ("bash", None) => access.pattern.chars().all(is_plain),
        ("read" | "edit" | "external_directory", _) => !is_hidden(&access.pattern),
        _ => true,
    }
}

/// Whether a pattern means more than its own text.
fn has_wildcard(permission: &str, pattern: &str) -> bool {
    match permission {
        "read" | "edit" => pattern.contains(['*', '?', '[', ']', '{', '}', '\\']),
        _ => pattern.contains(['*', '?']),
    }
}

/// What these granted rules allow, in one sentence for a person.
pub(crate) fn allows(rules: &[Rule]) -> String {
    let with_arguments = |rule: &Rule| format!("{} *", rule.pattern);
    let is_said = |rule: &&Rule| {
        // A command without arguments is said together with the rule for any arguments.
        rule.permission != "bash" || rules.iter().all(|other| other.exact || other.pattern != with_arguments(rule))
    };
    let said: Vec<_> = rules.iter().filter(is_said).map(of_rule).collect();
    format!("Allows {}.", said.join("; "))
}

fn of_rule(rule: &Rule) -> String {
    let Rule { permission, pattern, exact, .. } = rule;
    let is_exact = *exact || !has_wildcard(permission, pattern);
    let shown = shown(pattern);
    let in_folder = || {
        let folder = self::shown(pattern.trim_end_matches('*').trim_end_matches('/'));
        format!("in the folder `{folder}` and below it, except hidden ones")
    };
    match permission.as_str() {
        "bash" if is_exact => format!("the command `{shown}`, exactly"),
        "bash" => format!("`{}` with any arguments", self::shown(pattern.trim_end_matches(" *"))),
        "read" if is_exact => format!("reading `{shown}`"),
        "read" => format!("reading all files {}", in_folder()),
        "edit" if is_exact => format!("changing `{shown}`"),
        "edit" => format!("changing all files {}", in_folder()),
        "external_directory" if is_exact => format!("access to `{shown}`, outside the workspace"),
        "external_directory" => format!("access outside the workspace to all files {}", in_folder()),
        "doom_loop" => format!("repeating the same call of `{shown}`"),
        tool if pattern == "*" && !exact => format!("every use of {tool}"),
        tool => format!("{tool} for `{shown}`"),
    }
}

fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
