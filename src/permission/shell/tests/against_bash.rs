//! Random commands are run by bash, with no program to be found, and every command that bash tries to run must be one that was
//! found in its text, and every file that it makes one that was found to be written.
//!
//! The texts are made of pieces that the grammar and bash may read differently. The folder is a temporary one, and the pieces hold
//! no other path.

use std::{
    collections::BTreeSet,
    fs,
    process::{Command, Stdio},
};

use crate::permission::shell::{Analysis, Found, analyse, joined, rules::meet};

/// A pseudo-random sequence that is the same in each run.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }

    pub(super) fn of<'a>(&mut self, items: &[&'a str]) -> &'a str {
        items[self.below(items.len())]
    }
}

const SOUP: &[&str] = &[
    "c1",
    "c2",
    "a",
    "b",
    "'q q'",
    "\"d d\"",
    "$v",
    "${v}",
    "$(c3 x)",
    "`c4 y`",
    "<(c5)",
    ">f1",
    "2>f2",
    ">>f3",
    "<f0",
    "&>f4",
    ">|f5",
    "|",
    "||",
    "&&",
    ";",
    "\n",
    "&",
    "#k",
    "# k",
    "\\\n",
    "\\ ",
    "\\",
    "{",
    "}",
    "(",
    ")",
    "if",
    "then",
    "fi",
    "for i in",
    "do",
    "done",
    "case",
    "in",
    "esac",
    ";;",
    "!",
    "[[",
    "]]",
    "[",
    "]",
    "=",
    "x=1",
    "$'a\\'b'",
    "$'\\\\'",
    "<<E\n",
    "<<'E'\n",
    "E\n",
    "\nE\n",
    "<<<",
    "$((1+2))",
    "*",
    "~",
    "{a,b}",
    "time",
    "\t",
    " ",
    "$",
    "\"",
    "'",
    "`",
    "|&",
    "&>>f6",
    "2>&1",
    ">&2",
    "-n",
    "--",
    "$#",
    "$$",
    "${v#x}",
    "else",
    "elif",
    "c1 a;",
    "c2 b\n",
    "(c1 a)",
    "$(",
    "<<-E\n",
    "\tE\n",
    "=~",
    "==",
    "^",
    "%",
    "@",
    ",",
    "..",
    "{1..3}",
    "\"$(c3 \"q\")\"",
    "''",
    "\"\"",
    "a'b'c",
    "\\c1",
    ">",
    "<",
    "2",
    "+",
    "?",
    "$@",
    "${v:-d}",
    "$\"x\"",
    "{v}>f9",
    "{PATH}>&1",
    ">&'$(c9)'",
    "jobs -rx c9",
    "[ -v",
    "export",
    "~/c",
];

const WORDS: &[&str] = &[
    "a",
    "'q q'",
    "\"d d\"",
    "$v",
    "\"${v} z\"",
    "$(c3 x)",
    "`c4 y`",
    "<(c5 w)",
    "\\ x",
    "a\\ b",
    "x\\;c9",
    "#k",
    "a#b",
    "$'\\x41'",
    "-n",
    "a=b",
    "\"$(c3 \"q\" | c6)\"",
    "{a,b}",
    "''",
    "\"\"",
    "$((1+2))",
    "~",
    "a'b'\"c\"",
    "\"a\\\"b\"",
    "\"\\$(c9)\"",
    "'$(c9)'",
    "[a]",
    "${v:-d}",
    "\" # \"",
    "\"$v #\"",
    "\"\n\"",
    "!",
    "]]",
    "}",
    "then",
    "2",
    "=",
    "a\"$(c8 b)\"c",
    "\"  $(c7)  \"",
    "\\\\",
    "'\\'",
    "\"\\\\\"",
    "@{u}",
    "$",
    "a$",
    "%s\\n",
];

const REDIRECTS: &[&str] = &[
    ">f1",
    "> f2",
    "2>f3",
    "2>&1",
    ">>f4",
    "<f0",
    "&>f5",
    ">|f6",
    "< /dev/null",
    "<<<a",
    "<<< \"$(c3 h)\"",
    ">&2",
    ">f7 w",
    "2>/dev/null",
];

const LINKS: &[&str] = &[
    "; ",
    " && ",
    " || ",
    " | ",
    "\n",
    " & ",
    " |& ",
    "; ! ",
    "\n\n",
    " # k\n",
    ";",
    "&&",
    "|",
    " \\\n && ",
    " |\n",
    " &&\n ",
];

const FRAMES: &[(&str, &str)] = &[
    ("if ", "; then c1; fi"),
    ("if c1; then ", "; else c2; fi"),
    ("(", ")"),
    ("{ ", "; }"),
    ("for i in a b; do ", "; done"),
    ("! ", ""),
    ("c1 \"$(", ")\""),
    ("c1 $(", ") b"),
    ("c1 `", "`"),
    ("case a in a) ", ";; b) c2;; esac"),
    ("c1 <(", ")"),
    ("time ", ""),
    ("[[ a == a ]] && ", ""),
    ("bash -c '", "'"),
    ("cat <<E\n$(", ")\nE\n"),
    ("c1 <<E\nx\nE\n", ""),
    ("c1 <<'E' | c2\n$(c9)\nE\n", ""),
    ("c1 <<-E && ", "\n\tx\n\tE\n"),
    ("cd d && ", ""),
    ("(cd d; ", ")"),
    ("until c1; do ", "; break; done"),
];

/// A command that is mostly well made.
pub(super) fn script(random: &mut Random, depth: usize) -> String {
    let mut text = String::new();
    for at in 0..=random.below(3) {
        if at > 0 {
            text.push_str(random.of(LINKS));
        }
        if depth > 0 && random.below(3) == 0 {
            let (before, behind) = FRAMES[random.below(FRAMES.len())];
            text.push_str(before);
            text.push_str(&script(random, depth - 1));
            text.push_str(behind);
            continue;
        }
        if random.below(8) == 0 {
            text.push_str(random.of(&["x=1 ", "x=$(c3 e) ", "CI=1 ", ">f8 ", "2>&1 "]));
        }
        text.push_str(random.of(&[
            "c1",
            "c2",
            "'c1'",
            "c\"2\"",
            "\\c1",
            "command c2",
            "env c1",
            "timeout 5 c2",
            "nohup c1",
            "/bin/c2",
        ]));
        for _ in 0..random.below(4) {
            text.push_str(random.of(&[" ", " ", " ", "  ", "\t", " \\\n"]));
            text.push_str(if random.below(4) == 0 { random.of(REDIRECTS) } else { random.of(WORDS) });
        }
    }
    text
}

/// A text of which some pieces were taken out, put in or moved together.
fn mutated(random: &mut Random, text: &str) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for _ in 0..random.below(3) {
        let at = random.below(chars.len() + 1);
        match random.below(3) {
            0 if at < chars.len() => drop(chars.remove(at)),
            1 => drop(chars.splice(at..at, random.of(SOUP).chars())),
            _ => chars.insert(at, ['\'', '"', '\\', ' ', '\n', '#', '$', '`', '(', ')'][random.below(10)]),
        }
    }
    chars.into_iter().collect()
}

/// Writes what bash tries to run, each command at once: line breaks would be written apart.
const PRELUDE: &str = r#"command_not_found_handle() { local IFS=' '; printf '%s\0' "${*//$'\n'/¶}" >> "$TAMTAM_LOG"; return 127; }
ulimit -t 2
"#;

/// The commands that bash runs for a text, and the files that it makes.
fn run(text: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    // A folder for each: what is left behind in the background may still write.
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let place = folder.path().join("place");
    fs::create_dir_all(place.join("d/d/d")).unwrap();
    fs::write(&log, "").unwrap();
    let mut bash = Command::new("/bin/bash");
    bash.args(["--norc", "--noprofile", "-c", &format!("{PRELUDE}{text}\nwait")])
        .env_clear()
        .env("PATH", "/nonexistent");
    bash.env("TAMTAM_LOG", &log).current_dir(&place).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    bash.status().unwrap();
    let ran = fs::read(&log).unwrap();
    let ran = ran
        .split(|byte| *byte == 0)
        .map(|line| String::from_utf8_lossy(line).into_owned())
        .filter(|line| !line.is_empty());
    let mut files = BTreeSet::new();
    for folder in ["", "d/", "d/d/", "d/d/d/"] {
        let names =
            fs::read_dir(place.join(folder)).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        files.extend(names.filter(|name| name != "d").map(|name| format!("{folder}{name}")));
    }
    (ran.collect(), files)
}

/// The first command or file of a run that was not found in the text.
fn missed(found: &Found, ran: &BTreeSet<String>, files: &BTreeSet<String>) -> Option<String> {
    let texts: Vec<_> = found.commands.iter().map(|simple| joined(&simple.text()).into_owned()).collect();
    let known = |line: &&String| {
        // Nothing is found in the folders for programs either, and wrappers are not run.
        let line = line.trim_start_matches("/bin/").replace('¶', "\n");
        let line = line.replace("/dev/fd/62", "/dev/fd/63").replace("/dev/fd/61", "/dev/fd/63");
        texts.iter().any(|text| meet(&line, text) || line == *text)
    };
    let command = ran.iter().find(|line| !known(line)).map(|line| format!("ran `{line}`"));
    command.or_else(|| files.iter().find(|file| !found.writes.contains(file)).map(|file| format!("wrote {file}")))
}

/// Every command that bash runs was found. `TAMTAM_SHELL_TEXTS` says how many random texts are tried.
#[test]
fn what_bash_runs_was_found() {
    let texts = std::env::var("TAMTAM_SHELL_TEXTS").ok().and_then(|n| n.parse().ok()).unwrap_or(400);
    let seed = std::env::var("TAMTAM_SHELL_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let mut random = Random(seed);
    let (mut read, mut tried, mut wrong) = (0, 0, Vec::new());
    while tried < texts {
        let text = match random.below(4) {
            0 => {
                (0..1 + random.below(8)).map(|_| format!("{}{}", random.of(SOUP), random.of(&["", " ", " "]))).collect()
            }
            1 => script(&mut random, 2),
            _ => {
                let whole = script(&mut random, 2);
                mutated(&mut random, &whole)
            }
        };
        tried += 1;
        let Analysis::Found(found) = analyse(&text, "") else { continue };
        read += 1;
        let (ran, files) = run(&text);
        if let Some(missed) = missed(&found, &ran, &files) {
            let texts: Vec<_> = found.commands.iter().map(|simple| joined(&simple.text()).into_owned()).collect();
            wrong.push(format!("{missed} in\n{text}\nwhere {texts:?} write {:?}\n", found.writes));
        }
    }
    println!("{read} of {tried} texts were read");
    assert!(read * 10 > tried * 2, "too few are read: {read} of {tried}");
    assert!(wrong.is_empty(), "{} of {read}:\n{}", wrong.len(), wrong[..wrong.len().min(25)].join("---\n"));
}
