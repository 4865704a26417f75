//! `tamtam trust`: trusts the files of a project and shows them, lists what is trusted, and takes it back.
//!
//! Of the configuration the settings and rules are shown, of every other file its name and size. A configuration that is not
//! understood is an error, and then nothing is trusted.
//!
//! A change must keep this: the bytes that are shown are those that are trusted, read once; and names and texts of a project, which
//! a stranger may have written, are escaped.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::{CONFIG, Project, Trust, look, project, stored::Entry};
use crate::cli::{
    arguments::TrustArguments,
    config::{self, Layer},
    environment::Environment,
    escape,
    failure::{Exit, Failure},
    grants::listed,
    print, tapes,
};

/// Carries out `trust`.
pub(in crate::cli) fn trust(given: &TrustArguments, environment: &Environment) -> Result<Exit, Failure> {
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
    let shown = shown(&workspace, &files)?;
    trust.trust(&workspace, &files)?;
    print(&shown)
}

/// What the files say. An error where the configuration is not understood: it could not be used.
fn shown(workspace: &Path, files: &project::Files) -> Result<String, Failure> {
    let mut text = line(&format!("trusted: {}", workspace.display()));
    for (name, content) in files {
        text += &line(&format!("    {name} as it is now ({} bytes)", content.len()));
        if !CONFIG.has(name) {
            continue;
        }
        let said = config::parse(Layer::Project, &workspace.join(name), content)?;
        for (name, value) in &said.values {
            text += &line(&format!("        {name} = {value}"));
        }
        said.rules.rules.iter().for_each(|rule| text += &line(&format!("        {rule}")));
    }
    text += match files.is_empty() {
        true => {
            "It has no configuration, agents, commands or rule files. New ones are ignored until you trust the folder again.\n"
        }
        false => "If a file changes, it is ignored until you trust the folder again.\n",
    };
    Ok(text)
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
