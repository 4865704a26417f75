//! `tamtam doctor`: what this system has of what the binary needs, one line each.
//!
//! What the command looks at may be broken: that is a line with the way out, and no line keeps another from being printed. Only a
//! store that cannot be written, or a database that `serve` is to use and cannot, makes the command fail; all else is somebody's choice.
//!
//! A change must keep this: of a key only the name of its variable is shown, and of an address nothing that may be a password. One
//! file is written beside the tapes and removed again, because only a write shows that a disk is full; no folder is made. The one
//! request asks a local server for its first model, as `run` would.

mod health;

use std::{
    io::IsTerminal as _,
    path::{Path, PathBuf},
};

use tamtam::{model::PROVIDERS, tools::process::SandboxLevel};

use super::{
    abort,
    arguments::{StoreArguments, TurnArguments},
    catalogue::can,
    config::{self, Config},
    environment::Environment,
    escape,
    failure::{Exit, Failure},
    models::{self, key_of},
    network::NetworkArguments,
    print, tapes,
    trust::Trust,
};

/// Carries out the command.
pub(super) async fn doctor(given: &StoreArguments, environment: &Environment) -> Result<Exit, Failure> {
    let workspace = environment.workspace(None);
    let config = workspace.clone().and_then(|workspace| Config::load(environment, &workspace, None));
    let turn = config.as_ref().map(|config| config.over(&TurnArguments::default(), None).0);
    let (writable, store) = stores(given, environment);
    let mut lines = vec![
        (
            "version",
            format!("tamtam {} ({} {})", env!("CARGO_PKG_VERSION"), std::env::consts::OS, std::env::consts::ARCH),
        ),
        ("config", config_files(environment, config.as_ref().err())),
        ("trust", said(workspace.and_then(|workspace| Trust::of(environment).standing(&workspace)))),
        ("model", model(turn.as_ref().ok(), environment).await),
        ("keys", keys(environment)),
        ("network", network(turn.as_ref().ok().map(|turn| &turn.model.network), environment)),
    ];
    lines.extend(store);
    // As with `serve`, a folder that is named means files.
    let database = match given.store {
        Some(_) => None,
        None => database(turn.as_ref().ok(), environment).await,
    };
    let is_usable = database.as_ref().is_none_or(|(is_usable, _)| *is_usable);
    lines.extend(database.map(|(_, said)| ("database", said)));
    lines.push(("terminal", terminal(std::io::stdin().is_terminal(), std::io::stderr().is_terminal())));
    lines.push(("sandbox", sandbox(&SandboxLevel::probe())));
    let text: String = lines.iter().map(|(what, said)| format!("{what:9} {}\n", escape::line(said))).collect();
    print(&text)?;
    Ok(if writable && is_usable { Exit::Done } else { Exit::Failed })
}

/// The words, or why there are none.
fn said(found: Result<String, Failure>) -> String {
    found.unwrap_or_else(|failure| format!("no: {}", failure.message))
}

/// The user's file, and the first mistake of all files that count here.
fn config_files(environment: &Environment, mistake: Option<&Failure>) -> String {
    if let Some(mistake) = mistake {
        return format!("no: {}; `tamtam run` refuses to start until that is corrected", mistake.message);
    }
    let Some(folder) = environment.config_folder() else {
        return "none: no folder for it is known: set HOME".to_owned();
    };
    let path = folder.join("config.toml");
    let is_there = std::fs::symlink_metadata(&path).is_ok();
    format!("{}{}", path.display(), if is_there { "" } else { " (not there; the defaults apply)" })
}

/// The model of a new session, and why it is that one.
async fn model(turn: Option<&TurnArguments>, environment: &Environment) -> String {
    let Some(turn) = turn else { return "no: the configuration has a mistake".to_owned() };
    match models::choose(&turn.model, None, environment).await {
        Ok(choice) => {
            let why = choice.found.unwrap_or_else(|| "from the configuration".to_owned());
            format!("{} ({why}); it {}", choice.model, can(&choice.model.to_string()))
        }
        Err(failure) => format!("none: {}", failure.message),
    }
}

fn keys(environment: &Environment) -> String {
    let found = PROVIDERS.iter().filter_map(|provider| key_of(provider.key_variables, environment));
    let mut names: Vec<_> = found.map(|(name, key)| format!("{name}{}", odd(name, key))).collect();
    names.dedup();
    if names.is_empty() {
        return "none: set one such as OPENAI_API_KEY or ANTHROPIC_API_KEY, or run a local server".to_owned();
    }
    names.join(", ")
}

/// What looks wrong with a key, with the way out; empty where nothing does. The key itself is not shown.
fn odd(name: &str, key: &str) -> String {
    // The beginnings of keys that people paste under another name.
    let of_another = [("sk-ant-", "ANTHROPIC_API_KEY"), ("gsk_", "GROQ_API_KEY"), ("sk-or-", "OPENROUTER_API_KEY")];
    let other = of_another.iter().find(|(beginning, of)| key.starts_with(beginning) && *of != name);
    if let Some((_, of)) = other.filter(|_| name != "LOCAL_API_KEY") {
        return format!(" (looks like a key for {of}: set that one)");
    }
    if key.starts_with(['"', '\'']) || key.ends_with(['"', '\'']) {
        return " (has a quote at its end: set it without)".to_owned();
    }
    let is_plain = key.bytes().all(|byte| byte.is_ascii_graphic());
    if is_plain { String::new() } else { " (has a space or a letter that no key has: copy it again)".to_owned() }
}

/// The proxies and the additional certificates.
fn network(given: Option<&NetworkArguments>, environment: &Environment) -> String {
    let given = given.cloned().unwrap_or_default();
    let proxy = |scheme: &str| {
        let named = given.proxy_for(scheme, environment)?;
        Ok::<_, Failure>(named.map(|named| format!("{} ({})", named.shown(), named.by)))
    };
    let told = || {
        given.options(environment)?;
        let proxies = match (proxy("https")?, proxy("http")?) {
            (None, None) => "no proxy".to_owned(),
            (Some(https), Some(http)) if https == http => format!("proxy {https}"),
            (https, http) => {
                let shown =
                    |scheme, proxy: Option<String>| format!("{scheme}: {}", proxy.as_deref().unwrap_or("no proxy"));
                format!("{}; {}", shown("https", https), shown("http", http))
            }
        };
        let ca = given.ca.as_ref().map(|file| format!("; certificates of {} too", file.display()));
        Ok(proxies + &ca.unwrap_or_default())
    };
    said(told())
}

/// The lines about the store, and whether it can be written.
fn stores(given: &StoreArguments, environment: &Environment) -> (bool, Vec<(&'static str, String)>) {
    // A mistake in the user's file is told on its own line.
    let named = given.store.as_deref().map(|given| environment.absolute(given));
    let path = match named.or_else(|| config::user_store(environment).0).or_else(|| environment.data()) {
        Some(path) => path,
        None => {
            return (
                false,
                vec![("store", "no: no folder for the tapes is known: name one with --store or set HOME".to_owned())],
            );
        }
    };
    let (written, store) = writable(&path);
    let mut lines = vec![("store", store), ("turns", abort::cut_off(&path)), ("space", health::space(&nearest(&path)))];
    let opened = if path.is_dir() { tapes::open(&path) } else { Ok(None) };
    let (index, newest) = match opened {
        Ok(Some(store)) => health::index(&store),
        Ok(None) => ("none yet".to_owned(), None),
        Err(error) => (format!("no: the store cannot be read: {}", Failure::from(error).message), None),
    };
    lines.push(("index", index));
    let written_at = written.as_ref().ok().copied().flatten();
    lines.push(("clock", health::clock(std::time::SystemTime::now(), written_at, newest)));
    (written.is_ok(), lines)
}

/// What is said of the database that `serve` is to use, if there is one, and whether it could.
#[cfg(feature = "postgres")]
async fn database(turn: Option<&TurnArguments>, environment: &Environment) -> Option<(bool, String)> {
    super::postgres::examined(turn.and_then(|turn| turn.postgres.as_deref()), environment).await
}

/// Built without PostgreSQL, there is none.
#[cfg(not(feature = "postgres"))]
async fn database(_: Option<&TurnArguments>, _: &Environment) -> Option<(bool, String)> {
    None
}

/// The nearest folder above a path, or the path itself, that is there.
fn nearest(path: &Path) -> PathBuf {
    path.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/")).to_path_buf()
}

/// Whether the store can be written, or made, and what is said of it. Where it can, the file system's time of the write.
fn writable(store: &Path) -> (Result<Option<std::time::SystemTime>, ()>, String) {
    let nearest = nearest(store);
    if !nearest.is_dir() {
        return (Err(()), format!("no: {} is not a folder: choose one with --store", nearest.display()));
    }
    match health::write(&nearest) {
        Err(error) => (Err(()), format!("no: {} cannot be written: {}", nearest.display(), health::way_out(&error))),
        Ok(written) if nearest == store => (Ok(written), format!("{} can be written", store.display())),
        Ok(written) => (Ok(written), format!("{} is made with the first session", store.display())),
    }
}

fn terminal(stdin: bool, stderr: bool) -> String {
    match (stdin, stderr) {
        (true, true) => "yes: you are asked about calls that need approval".to_owned(),
        _ => "none: approvals are not possible; `tamtam run` uses the headless profile unless you pass --permission"
            .to_owned(),
    }
}

fn sandbox(level: &SandboxLevel) -> String {
    match level.holds() {
        true => format!(
            "{level}; for commands that nobody was asked about, and for all with --sandbox or `sandbox` in a file"
        ),
        false => format!(
            "{level}; commands are asked about, or denied where nobody can be asked, unless you pass --run-unheld"
        ),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_store_is_there_or_can_be_made_or_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let said = |path: PathBuf| writable(&path);
        assert!(said(folder.path().to_path_buf()).1.ends_with("can be written"));
        let new = said(folder.path().join("a/b"));
        assert!(new.0.is_ok() && new.1.ends_with("made with the first session"), "{}", new.1);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the file of the try is gone");
        std::fs::write(folder.path().join("file"), "").unwrap();
        let refused = said(folder.path().join("file/store"));
        assert!(refused.0.is_err() && refused.1.contains("--store"), "{}", refused.1);
    }

    #[test]
    fn keys_are_shown_by_name_only() {
        let environment = Environment::of(&[("OPENAI_API_KEY", "sk-value"), ("GROQ_API_KEY", "gsk-value")]);
        let said = keys(&environment);
        assert!(said.contains("OPENAI_API_KEY") && said.contains("GROQ_API_KEY") && !said.contains("value"), "{said}");
        assert!(keys(&Environment::of(&[])).starts_with("none: set"));
        let said = |name, key| keys(&Environment::of(&[(name, key)]));
        assert_eq!(said("ANTHROPIC_API_KEY", "sk-ant-x"), "ANTHROPIC_API_KEY");
        for (key, why) in [
            ("sk-ant-CANARY", "looks like a key for ANTHROPIC_API_KEY: set that one"),
            ("\"CANARY\"", "has a quote at its end: set it without"),
            ("CAN ARY", "has a space or a letter that no key has: copy it again"),
        ] {
            assert_eq!(said("OPENAI_API_KEY", key), format!("OPENAI_API_KEY ({why})"));
        }
    }

    #[test]
    fn a_proxy_is_shown_without_its_password() {
        let environment = Environment::of(&[("HTTPS_PROXY", "http://user:CANARY@proxy:3128")]);
        assert_eq!(network(None, &environment), "https: http://proxy:3128 (HTTPS_PROXY); http: no proxy");
        let environment = Environment::of(&[("ALL_PROXY", "proxy:3128")]);
        assert_eq!(network(None, &environment), "proxy http://proxy:3128 (ALL_PROXY)");
        let environment = Environment::of(&[("ALL_PROXY", "socks5://CANARY@proxy")]);
        let refused = network(None, &environment);
        assert!(refused.starts_with("no: ALL_PROXY") && !refused.contains("CANARY"), "{refused}");
        assert_eq!(network(None, &Environment::default()), "no proxy");
    }

    #[test]
    fn what_is_held_of_a_sandbox_is_said_and_why_nothing_is() {
        let none = sandbox(&SandboxLevel::none("the kernel has no Landlock"));
        assert!(none.starts_with("none: the kernel has no Landlock; commands are asked about"), "{none}");
        let level = SandboxLevel::probe();
        assert_eq!(sandbox(&level).starts_with("files"), level.holds());
    }
}
