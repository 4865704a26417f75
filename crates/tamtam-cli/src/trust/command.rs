//! `tamtam trust`: shows the files of a project, asks, and trusts them; lists what is trusted, and takes it back.
//!
//! The text of each file is shown. A person at a terminal is asked; without a terminal `--yes` says that somebody has read it. A
//! configuration that is not understood is an error, and then nothing is trusted.
//!
//! A change must keep this: the bytes that are shown are those that are trusted, read once; and names and texts of a project, which
//! a stranger may have written, are escaped.

use std::{
    io::{BufRead as _, IsTerminal as _, Read as _, Write as _},
    path::{Path, PathBuf},
};

use serde_json::json;

use super::{CONFIG, Project, Trust, look, project, stored::Entry};
use crate::{
    arguments::TrustArguments,
    config::{self, Layer},
    environment::Environment,
    escape,
    failure::{Exit, Failure},
    grants::listed,
    print, print_to_be_read,
    sessions::count,
    tapes,
};

/// How much of a file is shown before the question: lines, and bytes.
const LINES_MAX: usize = 300;
const BYTES_MAX: usize = 32 << 10;
/// The longest answer to the question.
const ANSWER_BYTES_MAX: u64 = 64;

/// Carries out `trust`.
pub(crate) fn trust(given: &TrustArguments, environment: &Environment) -> Result<Exit, Failure> {
    let trust = Trust::of(environment);
    // The folder may be gone: then the path is what it was.
    let real = |dir: &PathBuf| std::fs::canonicalize(dir).unwrap_or_else(|_| environment.absolute(dir));
    let path = given.dir.as_ref().map(real);
    if given.list {
        return list(path.as_deref(), given.json, &trust);
    }
    let path =
        path.ok_or_else(|| Failure::usage("no folder named: use `tamtam trust DIR` or `tamtam trust --list`"))?;
    if let Some(id) = given.revoke {
        let mut text = String::new();
        for granted in trust.revoke(&path, id)? {
            text += &line(&format!("revoked: {}", granted.allows()));
        }
        if id.is_none() {
            text += &line(&format!("{} is no longer trusted", path.display()));
        }
        return print(&text);
    }
    if !path.is_dir() {
        return Err(Failure::usage(format!("{} is not a folder: name the folder of a project", path.display())));
    }
    let workspace = environment.workspace(given.dir.as_deref())?;
    let refused = |why: String| Failure::usage(format!("cannot trust {}: {why}", workspace.display()));
    let files = project::read(&workspace, &project::all()).map_err(refused)?;
    let stored = trust.read()?;
    let known = stored.of(&workspace).map(|entry| &entry.files);
    let lines_max = if given.show { usize::MAX } else { LINES_MAX };
    let shown = shown(&workspace, &files, known, lines_max)?;
    if given.show {
        return print(&shown);
    }
    if given.yes {
        print(&shown)?;
    } else {
        print_to_be_read(&shown)?;
        agreed(&workspace, files.len())?;
    }
    trust.trust(&workspace, &files)?;
    let end = match files.is_empty() {
        true => "New configuration, agents, commands and rule files are ignored until you trust the folder again.",
        false => "If a file changes, it is ignored until you trust the folder again.",
    };
    print(&(line(&format!("trusted: {}", workspace.display())) + end + "\n"))
}

/// Asks the person at the terminal. An error where the answer is no, and where nobody is there to give it.
fn agreed(workspace: &Path, files: usize) -> Result<(), Failure> {
    if !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
        let dir = workspace.display();
        let how = format!("read the files with `tamtam trust --show {dir}`, then run `tamtam trust --yes {dir}`");
        return Err(Failure::usage(format!("not trusted: there is no terminal to ask on: {how}")));
    }
    let question = format!("Trust {} with {}? [y/N] ", workspace.display(), count(files as u64, "file"));
    let mut stderr = std::io::stderr();
    // Where the question cannot be written, the answer is most likely not a yes to it.
    drop(stderr.write_all(escape::line(&question).as_bytes()).and_then(|()| stderr.flush()));
    let mut answer = String::new();
    let read = std::io::stdin().lock().take(ANSWER_BYTES_MAX).read_line(&mut answer);
    match (read, answer.trim().to_lowercase().as_str()) {
        (Ok(_), "y" | "yes") => Ok(()),
        _ => Err(Failure { exit: Exit::Stopped, ..Failure::failed("not trusted: you did not say yes") }),
    }
}

/// The text of each file, and how the file stands to what was trusted before (`known`). A file that is as it was trusted is only
/// named, and of a long file the first lines are shown, unless `lines_max` has no bound. An error where the configuration is not
/// understood: it could not be used.
fn shown(
    workspace: &Path,
    files: &project::Files,
    known: Option<&project::Files>,
    lines_max: usize,
) -> Result<String, Failure> {
    let mut text = line(&workspace.display().to_string());
    for (name, content) in files {
        let before = known.and_then(|known| known.get(name));
        let standing = match before {
            None if known.is_none() => "",
            None => ", new since you trusted the folder",
            Some(hash) if *hash == project::hash(content) => ", as you trusted it",
            Some(_) => ", changed since you trusted it (its old text is not kept)",
        };
        text += &line(&format!("{name} ({} bytes{standing})", content.len()));
        if CONFIG.has(name) {
            config::parse(Layer::Project, &workspace.join(name), content)?;
        }
        if standing != ", as you trusted it" || lines_max == usize::MAX {
            text += &quoted(workspace, content, lines_max);
        }
    }
    for name in known.into_iter().flatten().map(|(name, _)| name).filter(|name| !files.contains_key(*name)) {
        text += &line(&format!("{name} (gone since you trusted the folder)"));
    }
    if files.is_empty() {
        text += "It has no configuration, agents, commands or rule files.\n";
    }
    Ok(text)
}

/// A text line by line, behind a border that no line of it can leave, and what of it is not shown.
fn quoted(workspace: &Path, content: &str, lines_max: usize) -> String {
    let bytes_max = if lines_max == usize::MAX { usize::MAX } else { BYTES_MAX };
    let (mut text, mut bytes) = (String::new(), 0);
    for (at, shown) in content.split_inclusive('\n').enumerate() {
        if at == lines_max || bytes + shown.len() > bytes_max {
            let rest = content.len() - bytes;
            let how = format!("`tamtam trust --show {}` shows all", workspace.display());
            return text + &line(&format!("    [{rest} of {} bytes are NOT shown here: {how}]", content.len()));
        }
        text += &format!("    | {}\n", escape::text(shown.strip_suffix('\n').unwrap_or(shown)));
        bytes += shown.len();
    }
    text
}

fn line(text: &str) -> String {
    escape::line(text) + "\n"
}

fn list(only: Option<&Path>, as_json: bool, trust: &Trust) -> Result<Exit, Failure> {
    let stored = trust.read()?;
    let mut text = String::new();
    for entry in stored.projects.iter().filter(|entry| only.is_none_or(|only| only == Path::new(&entry.path))) {
        let Entry { path, files, granted, time, .. } = entry;
        let standing = standing(entry, stored.of(Path::new(path)));
        if as_json {
            let granted: Vec<_> = granted.iter().map(listed).collect();
            let shown = json!({"path": path, "standing": standing, "files": files, "granted": granted, "time": time});
            text += &format!("{shown}\n");
            continue;
        }
        text += &line(&format!("{path}  {standing}, since {}", tapes::moment(*time)));
        for granted in granted {
            let who = granted.who.as_deref().map(|who| format!(" by {who}")).unwrap_or_default();
            let when = tapes::moment(granted.time);
            text += &line(&format!("{:>6}  {when}{who}  {}", granted.id.0, granted.allows()));
        }
    }
    if text.is_empty() && !as_json {
        "nothing is trusted\n".clone_into(&mut text);
    }
    print(&text)
}

/// How an entry stands to what is on the disk now; `current` is the entry if it is about the folder that is there.
fn standing(entry: &Entry, current: Option<&Entry>) -> String {
    let workspace = Path::new(&entry.path);
    match current {
        None if workspace.is_dir() => "replaced by a new folder, so not trusted".to_owned(),
        None => "gone".to_owned(),
        Some(_) => match look(current, workspace, &project::all()) {
            Project::Untrusted(why) => format!("not trusted ({why})"),
            _ => "trusted".to_owned(),
        },
    }
}
