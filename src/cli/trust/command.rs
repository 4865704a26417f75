//! `tamtam trust`: shows what the files of a project say and trusts them, lists what is trusted, and takes it back.

use serde_json::json;

use super::{Trust, project, stored::Entry};
use crate::cli::{
    arguments::TrustArguments,
    config::{self, Layer, Said},
    environment::Environment,
    escape,
    failure::{Exit, Failure},
    print,
};

/// Carries out `trust`.
pub(in crate::cli) fn trust(given: &TrustArguments, environment: &Environment) -> Result<Exit, Failure> {
    let trust = Trust::of(environment);
    if given.list {
        return list(given, &trust, environment);
    }
    let dir = given.dir.as_deref();
    let dir = dir.ok_or_else(|| Failure::usage("no folder was named: `tamtam trust DIR`, or `tamtam trust --list`"))?;
    if let Some(number) = given.revoke {
        // The folder may be gone: then the path is what it was.
        let path = std::fs::canonicalize(dir).unwrap_or_else(|_| environment.absolute(dir));
        let (rules, was_trusted) = trust.revoke(&path, number)?;
        let mut text = String::new();
        if was_trusted {
            text += &line(&format!("{} is no longer trusted", path.display()));
        }
        rules.iter().for_each(|granted| text += &line(&format!("taken back: {}", granted.rule)));
        return print(&text);
    }
    let workspace = environment.workspace(Some(dir))?;
    let place = workspace.join(project::FOLDER);
    let files =
        project::read(&workspace).map_err(|why| Failure::usage(format!("cannot trust {}: {why}", place.display())))?;
    if files.is_empty() {
        let why = format!("there is nothing to trust in {}: no {}/config.toml", workspace.display(), project::FOLDER);
        return Err(Failure::usage(why));
    }
    let said = files.iter().map(|(name, text)| config::parse(Layer::Project, &place.join(name), text));
    let said = said.collect::<Result<Vec<_>, _>>()?;
    trust.trust(&workspace, &files)?;
    print(&shown(&said))
}

/// What the files say that are trusted now.
fn shown(files: &[Said]) -> String {
    let mut text = String::new();
    for said in files {
        text += &line(&format!("trusted as it is now: {}", said.path.display()));
        for (name, value) in &said.values {
            text += &line(&format!("    {name} = {value}"));
        }
        said.rules.rules.iter().for_each(|rule| text += &line(&format!("    {rule}")));
    }
    text += "If one byte of it changes, it is not read until you trust it again.\n";
    text
}

fn line(text: &str) -> String {
    escape::line(text) + "\n"
}

fn list(given: &TrustArguments, trust: &Trust, environment: &Environment) -> Result<Exit, Failure> {
    let only = given.dir.as_deref().map(|dir| {
        let path = std::fs::canonicalize(dir).unwrap_or_else(|_| environment.absolute(dir));
        path.display().to_string()
    });
    let all = trust.read()?.projects.into_iter();
    let mut text = String::new();
    for entry in all.filter(|entry| only.as_ref().is_none_or(|only| *only == entry.path)) {
        let standing = standing(trust, &entry)?;
        if given.json {
            let Entry { path, files, rules, at, .. } = &entry;
            let shown = json!({"path": path, "standing": standing, "files": files, "rules": rules, "at": at});
            text += &format!("{shown}\n");
            continue;
        }
        text += &line(&format!("{}  {standing}, since {}", entry.path, entry.at));
        for (number, granted) in (1..).zip(&entry.rules) {
            let who = granted.who.as_deref().map(|who| format!(" by {who}")).unwrap_or_default();
            text += &line(&format!("    {number}  {}, granted{who} on {}", granted.rule, granted.at));
        }
    }
    if text.is_empty() && !given.json {
        "nothing is trusted\n".clone_into(&mut text);
    }
    print(&text)
}

/// How an entry stands to what is on the disk now.
fn standing(trust: &Trust, entry: &Entry) -> Result<&'static str, Failure> {
    let workspace = std::path::Path::new(&entry.path);
    Ok(match project::made(workspace) {
        None => "gone",
        Some(made) if made != entry.made => "made anew, so nothing holds",
        Some(_) if entry.files.is_none() => "not trusted",
        Some(_) => match trust.look(workspace)? {
            super::Project::Trusted(_) => "trusted",
            _ => "changed, so not trusted",
        },
    })
}
