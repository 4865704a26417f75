//! Reads a shell with the text that it runs (`-c`), as far as that shell reads the text as bash does.
//!
//! The grammar here is that of bash. Other shells read some texts otherwise: for dash `$'…'` is a `$` and a string, `[[ a > f ]]` a
//! command that writes a file, and `a &> f` two commands. So a text for another shell is judged if it has nothing but what all
//! shells read alike, and unclear otherwise. A shell that is given no text and no script reads its commands from where no rule sees
//! them (a pipe, a heredoc, a string), so it is unclear too.

use crate::permission::shell::{Arg, Role, Simple, Unclear, scan::Scan, unclear};

/// How far a shell reads a text as bash does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kin {
    Bash,
    /// It reads what POSIX says, and differs in what it does not say.
    Posix,
    /// Words, quotes and lists are the same.
    Distant,
    /// Nothing is known about it.
    Unknown,
}

const SHELLS: &[(&str, Kin)] = &[
    ("ash", Kin::Posix),
    ("bash", Kin::Bash),
    ("bash-static", Kin::Bash),
    ("csh", Kin::Distant),
    ("dash", Kin::Posix),
    ("elvish", Kin::Unknown),
    ("es", Kin::Unknown),
    ("fish", Kin::Distant),
    ("hush", Kin::Posix),
    ("ion", Kin::Unknown),
    ("ksh", Kin::Distant),
    ("lksh", Kin::Distant),
    ("mksh", Kin::Distant),
    ("nu", Kin::Unknown),
    ("oksh", Kin::Distant),
    ("osh", Kin::Unknown),
    ("pdksh", Kin::Distant),
    ("posh", Kin::Posix),
    ("pwsh", Kin::Unknown),
    ("rbash", Kin::Bash),
    ("rc", Kin::Unknown),
    ("rksh", Kin::Distant),
    ("rzsh", Kin::Distant),
    ("sash", Kin::Unknown),
    ("sh", Kin::Posix),
    ("static-sh", Kin::Posix),
    ("tcsh", Kin::Distant),
    ("xonsh", Kin::Unknown),
    ("yash", Kin::Posix),
    ("ysh", Kin::Unknown),
    ("zsh", Kin::Distant),
];

/// Words that are syntax, or run the words after them, in some shells only.
const WORDS_APART: &[&str] = &[
    "alias",
    "and",
    "begin",
    "breaksw",
    "builtin",
    "case",
    "command",
    "coproc",
    "def",
    "default",
    "do",
    "done",
    "elif",
    "else",
    "end",
    "endif",
    "endsw",
    "esac",
    "eval",
    "exec",
    "fi",
    "for",
    "foreach",
    "function",
    "hashstat",
    "if",
    "in",
    "let",
    "limit",
    "namespace",
    "nice",
    "nocorrect",
    "noglob",
    "nohup",
    "not",
    "onintr",
    "or",
    "print",
    "private",
    "repeat",
    "select",
    "setenv",
    "source",
    "switch",
    "then",
    "time",
    "try",
    "typeset",
    "unsetenv",
    "until",
    "while",
];

/// The kin of the shell of a name. A version after the name makes no other shell.
pub(super) fn named(name: &str) -> Option<Kin> {
    let bare = name.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-'));
    SHELLS.iter().find(|(shell, _)| *shell == bare).map(|(_, kin)| *kin)
}

impl Kin {
    /// Whether bash reads a text as this shell does.
    fn reads_alike(self, text: &str) -> bool {
        let common = |c: char| c.is_ascii_alphanumeric() || " _./:,@%+-\"';&|".contains(c);
        // For bash `|&` is a pipe; elsewhere, if at all, it is a pipe and a separate sign.
        let signs = ["|&", "&|", ";&", ";|", ";;"].iter().any(|sign| text.contains(sign));
        let bare = text.replace(['"', '\''], "");
        let word_apart = || bare.split([' ', ';', '&', '|', '\n', '(']).any(|word| WORDS_APART.contains(&word));
        match self {
            Kin::Bash => true,
            Kin::Unknown => false,
            Kin::Distant => text.chars().all(common) && !signs && !word_apart(),
            Kin::Posix => posix(text) && !signs,
        }
    }
}

/// Whether a text has no more than plain words, quotes, lists, files and simple substitutions, as POSIX has them.
fn posix(text: &str) -> bool {
    let chars: Vec<char> = text.chars().collect();
    let at = |place: usize| chars.get(place).copied().unwrap_or(' ');
    let word_of_bash = ["function", "select", "coproc", "let", "declare", "typeset", "source", "time"];
    if text.split([' ', ';', '&', '|', '\n', '(']).any(|word| word_of_bash.contains(&word)) {
        return false;
    }
    chars.iter().enumerate().all(|(place, c)| {
        let next = at(place + 1);
        let last = if place == 0 { ' ' } else { at(place - 1) };
        match c {
            '\n' => true,
            '$' => next.is_ascii_alphabetic() || next == '_' || (next == '(' && at(place + 2) != '('),
            // No arithmetic, no subshell in a substitution that looks like it, no process substitution, no pattern of ksh.
            '(' => next != '(' && (last == '$' || last.is_ascii_whitespace() || ";&|".contains(last)),
            ')' => true,
            // As the name of `[` and its last word; no `[[`, no index, and no set of characters, whose signs differ.
            '[' => next == ' ' && (last.is_ascii_whitespace() || ";&|(".contains(last)),
            ']' => last == ' ' && (next.is_ascii_whitespace() || ";&|)".contains(next)),
            '!' => next == ' ' && last.is_ascii_whitespace(),
            // No `&>`, `>&word`, `<<`, `<(`, and no descriptor of two digits.
            '>' => {
                last != '&'
                    && !(last.is_ascii_digit() && at(place.wrapping_sub(2)).is_ascii_digit())
                    && match next {
                        '&' => matches!(at(place + 2), '1' | '2') && !at(place + 3).is_ascii_alphanumeric(),
                        next => !matches!(next, '(' | '<'),
                    }
            }
            '<' => !matches!(next, '<' | '(' | '&' | '>') && !last.is_ascii_digit(),
            '=' => last != '+' && next != '(',
            c => c.is_ascii_alphanumeric() || " _./:,@%+-\"';&|*?".contains(*c),
        }
    })
}

impl Scan {
    /// A shell: with `-c` the text that it runs, with a script a program like any other.
    pub(super) fn shell(&mut self, name: &str, kin: Kin, args: Vec<Arg>) -> Result<(), Unclear> {
        if matches!(args.as_slice(), [only] if matches!(only.text.as_str(), "--version" | "--help")) {
            return self.plain(name, args);
        }
        let mut rest = args.iter();
        let mut runs_text = false;
        let text = loop {
            let Some(arg) = rest.next() else { break None };
            let text = arg.text.as_str();
            if arg.is_unknown() {
                return unclear(format!("it passes {name} a text that is not known before it runs"));
            }
            match text {
                "--login" | "--noprofile" | "--norc" => {}
                "--" => break rest.next(),
                _ if text.starts_with(['-', '+']) => {
                    let letters = &text[1..];
                    let value = if letters.contains('o') { rest.next() } else { None };
                    let known =
                        value.is_none_or(|value| matches!(value.text.as_str(), "pipefail" | "errexit" | "nounset"));
                    runs_text |= text.starts_with('-') && letters.contains('c');
                    if !known || letters.is_empty() || !letters.chars().all(|c| "ceflnouvxC".contains(c)) {
                        return unclear(format!("it passes {name} the option {}", arg.shown()));
                    }
                }
                _ => break Some(arg),
            }
        };
        match text {
            Some(arg) if arg.is_unknown() => {
                unclear(format!("it passes {name} a text that is not known before it runs"))
            }
            Some(arg) if runs_text => {
                if !kin.reads_alike(&arg.text) {
                    return unclear(format!("it passes {name} a text that bash may read otherwise"));
                }
                let text = arg.text.clone();
                self.found(Simple { name: name.to_owned(), args, role: Role::Also, reads: None })?;
                self.text(&text)
            }
            Some(script) if !["/dev/", "/proc/"].iter().any(|folder| script.text.starts_with(folder)) => {
                self.plain(name, args)
            }
            _ => unclear(format!("it makes {name} run what it reads")),
        }
    }
}
