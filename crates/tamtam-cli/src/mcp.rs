//! The MCP servers of this user and of a workspace: which files name them ([`Configured`]), how a runtime gets them
//! ([`Configured::offer`]), and `tamtam mcp`, which lists, checks and adds them.
//!
//! The user's own are in `mcp.json` in the configuration folder. Those of a workspace are in files of other programs
//! (`docs/MCP.md`), and are programs that a stranger may have named: a change must start none of them before the user has trusted
//! these files as they are. Of two servers of one name the user's counts, so that a workspace cannot put another program in its place.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    io::Write as _,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::{Value, json};
use tamtam::{
    Runtime,
    model::{HttpOptions, Scripted},
};
use tamtam_mcp::{Dialect, Listed, ServerConfig, ServerFigures, Servers, Transport};

use super::{
    arguments::{McpAddArguments, McpArguments, McpCheckArguments, McpCommand},
    environment::Environment,
    escape,
    failure::{Exit, Failure},
    models, named_file,
    network::NetworkArguments,
    print, serve,
    trust::{MCP, Project, Trust},
};

/// The name of the user's file, in the user's configuration folder.
const NAME: &str = "mcp.json";
/// Largest file, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The servers that there are, each with the file that names it.
#[derive(Debug, Default)]
pub(super) struct Configured {
    servers: Vec<(ServerConfig, String)>,
    /// What is not used, a line for each.
    pub(super) not_used: Vec<String>,
}

impl Configured {
    /// Those of the user's own file.
    pub(super) fn of_user(environment: &Environment) -> Configured {
        let mut found = Configured::default();
        let Some(path) = file(environment) else { return found };
        if path.exists() {
            let folder = environment.get("HOME").map(PathBuf::from);
            match named_file::text(&path, FILE_BYTES_MAX) {
                Ok(text) => found.add(&text, Dialect::Claude, &path.display().to_string(), folder, environment),
                Err(why) => found.not_used.push(format!("not used: {}: {why}", path.display())),
            }
        }
        found
    }

    /// Their names.
    pub(super) fn names(&self) -> Vec<String> {
        self.servers.iter().map(|(server, _)| server.name.clone()).collect()
    }

    /// Those of the user, and those of the workspace if its files are unchanged since the user trusted them.
    pub(super) fn load(workspace: &Path, environment: &Environment) -> Result<Configured, Failure> {
        let mut found = Configured::of_user(environment);
        match Trust::of(environment).look(workspace, &MCP)? {
            Project::Nothing => {}
            Project::Trusted { files, .. } => {
                for (name, text) in &files {
                    let dialect = match Path::new(name).extension().and_then(|ending| ending.to_str()) {
                        Some("toml") => Dialect::Codex,
                        _ if name.ends_with("opencode.json") => Dialect::OpenCode,
                        _ => Dialect::Claude,
                    };
                    found.add(text, dialect, name, Some(workspace.to_owned()), environment);
                }
            }
            Project::Untrusted(why) => found.not_used.push(format!("not used: {why}")),
        }
        Ok(found)
    }

    /// Adds those of one file. The folder is that in which its programs start.
    fn add(&mut self, text: &str, dialect: Dialect, from: &str, folder: Option<PathBuf>, environment: &Environment) {
        let (servers, skipped) = match tamtam_mcp::read(text, dialect, &environment.all()) {
            Ok(read) => read,
            Err(bad) => return self.not_used.push(format!("not used: {from}: {bad}")),
        };
        for skipped in skipped {
            self.not_used.push(format!("not used: {from}: the MCP server {}: {}", skipped.name, skipped.why));
        }
        for mut server in servers {
            if let Some((_, other)) =
                self.servers.iter().find(|(known, _)| known.name.eq_ignore_ascii_case(&server.name))
            {
                self.not_used
                    .push(format!("not used: {from}: the MCP server {}: {other} has one of this name", server.name));
                continue;
            }
            if let Transport::Stdio(program) = &mut server.transport {
                program.folder = program.folder.take().or_else(|| folder.clone());
            }
            self.servers.push((server, from.to_owned()));
        }
    }

    /// Starts the servers in a runtime, and offers their tools to its sessions, also when they change. A server that does not start,
    /// and a tool that is not offered, is a line of what is returned, beside the servers. Starts nothing, and waits for nothing, without a server.
    pub(super) async fn offer(
        self,
        runtime: &Runtime,
        http: HttpOptions,
    ) -> Result<(Option<Servers>, Vec<String>), Failure> {
        if self.servers.is_empty() {
            return Ok((None, Vec::new()));
        }
        let servers = started(self.servers.into_iter().map(|(server, _)| server), runtime, http).await?;
        let listed = servers.list().await;
        servers.offer(runtime).map_err(not_started)?;
        let errors = listed.iter().filter_map(|listed| listed.error.as_ref()).map(|error| format!("not used: {error}"));
        let refused = listed.iter().filter(|listed| !listed.refused.is_empty()).map(|listed| {
            let (server, count) = (&listed.server, listed.refused.len());
            format!("not used: {count} tools of the MCP server {server}: see `tamtam mcp check {server}`")
        });
        let notes = errors.chain(refused).collect();
        let (runtime, kept) = (runtime.clone(), servers.clone());
        // It holds the runtime, which each command shuts down; the task ends with the process.
        tokio::spawn(async move { kept.keep_offered(&runtime).await });
        Ok((Some(servers), notes))
    }
}

async fn started(
    configs: impl Iterator<Item = ServerConfig>,
    runtime: &Runtime,
    http: HttpOptions,
) -> Result<Servers, Failure> {
    let servers = Servers::new(configs).map_err(|bad| Failure::usage(bad.to_string()))?.http_options(http);
    servers.start_in(runtime).await.map_err(not_started)?;
    Ok(servers)
}

fn not_started(error: impl std::fmt::Display) -> Failure {
    Failure::failed(format!("failed to start MCP servers: {error}"))
}

/// Starts the servers in a runtime of their own, asks each for its tools, and ends them.
async fn asked(
    configs: impl Iterator<Item = ServerConfig>,
    http: HttpOptions,
) -> Result<(Vec<Listed>, Vec<ServerFigures>), Failure> {
    let model = Arc::new(Scripted::new([]));
    let runtime = Runtime::builder().in_memory().model(model).watch(Environment::watch()).start().await?;
    let answers = match started(configs, &runtime, http).await {
        Ok(servers) => {
            let listed = servers.list().await;
            let figures = listed.iter().filter_map(|listed| servers.figures(&listed.server)).collect();
            Ok((listed, figures))
        }
        Err(error) => Err(error),
    };
    drop(runtime.shutdown().await);
    answers
}

/// The user's file; `None` where the environment names no place.
fn file(environment: &Environment) -> Option<PathBuf> {
    environment.config_folder().map(|folder| folder.join(NAME))
}

/// Carries out `mcp`.
pub(super) async fn mcp(command: McpCommand, environment: &Environment) -> Result<Exit, Failure> {
    match command {
        McpCommand::List(given) => list(&given, environment),
        McpCommand::Check(given) => check(&given, environment).await,
        McpCommand::Add(given) => add(&given, environment),
        McpCommand::Serve(given) => serve::over_mcp(*given, environment).await,
    }
}

fn list(given: &McpArguments, environment: &Environment) -> Result<Exit, Failure> {
    let workspace = environment.workspace(given.workspace.as_deref())?;
    let found = Configured::load(&workspace, environment)?;
    let mut text = String::new();
    for (server, from) in &found.servers {
        // Values of variables and of headers may be secrets.
        let (line, words) = match &server.transport {
            Transport::Stdio(program) => {
                let variables: Vec<_> = program.environment.iter().map(|(name, _)| name).collect();
                let words: Vec<_> =
                    std::iter::once(&program.command).chain(&program.arguments).map(String::as_str).collect();
                let line = json!({
                    "name": server.name, "from": from, "command": program.command, "arguments": program.arguments,
                    "folder": program.folder, "variables": variables,
                });
                (line, words.join(" "))
            }
            Transport::Http(address) => {
                let headers: Vec<_> = address.headers.iter().map(|(name, _)| name).collect();
                let url = models::shown(&address.url);
                (json!({ "name": server.name, "from": from, "url": url, "headers": headers }), url)
            }
            other => (json!({ "name": server.name, "from": from }), format!("{other:?}")),
        };
        if given.json {
            let _ = writeln!(text, "{line}");
        } else {
            let _ = writeln!(text, "{}  {}  ({})", server.name, escape::line(&words), escape::line(from));
        }
    }
    if given.json {
        found.not_used.iter().for_each(|why| super::note(why));
    } else {
        found.not_used.iter().for_each(|why| text.push_str(&format!("{}\n", escape::line(why))));
        if text.is_empty() {
            text = "no MCP servers: name one with `tamtam mcp add NAME -- COMMAND`, or in .mcp.json\n".to_owned();
        }
    }
    print(&text)
}

/// Starts the servers, and shows what each offers.
async fn check(given: &McpCheckArguments, environment: &Environment) -> Result<Exit, Failure> {
    let workspace = environment.workspace(given.of.workspace.as_deref())?;
    let found = Configured::load(&workspace, environment)?;
    found.not_used.iter().for_each(|why| super::note(why));
    let is_meant = |name: &str| given.name.as_deref().is_none_or(|wanted| wanted.eq_ignore_ascii_case(name));
    let configs: Vec<_> =
        found.servers.into_iter().map(|(server, _)| server).filter(|server| is_meant(&server.name)).collect();
    if let (true, Some(name)) = (configs.is_empty(), &given.name) {
        return Err(Failure::usage(format!("no MCP server is called {name}: see `tamtam mcp list`")));
    }
    let (listed, figures) = asked(configs.into_iter(), NetworkArguments::default().options(environment)?).await?;
    let mut text = String::new();
    for (listed, figures) in listed.iter().zip(&figures) {
        if given.of.json {
            let refused: Vec<_> = listed.refused.iter().map(|refused| json!(refused)).collect();
            let line = json!({
                "name": listed.server, "error": listed.error, "server": figures.server, "protocol": figures.protocol,
                "tools": listed.tools, "refused": refused,
            });
            let _ = writeln!(text, "{line}");
            continue;
        }
        match &listed.error {
            Some(error) => {
                let _ = writeln!(text, "{}  failed: {}", listed.server, escape::line(error));
            }
            None => {
                let (count, server) = (listed.tools.len(), escape::line(&figures.server));
                let _ = writeln!(text, "{}  {count} tools  ({server}, MCP {})", listed.server, figures.protocol);
            }
        }
        listed.tools.iter().for_each(|tool| text.push_str(&format!("  {tool}\n")));
        for refused in &listed.refused {
            let _ = writeln!(text, "  not offered: {}: {}", escape::line(&refused.tool), escape::line(&refused.why));
        }
    }
    print(&text)?;
    Ok(if listed.iter().any(|listed| listed.error.is_some()) { Exit::Failed } else { Exit::Done })
}

/// Writes a server into the user's file.
fn add(given: &McpAddArguments, environment: &Environment) -> Result<Exit, Failure> {
    let path = file(environment).ok_or_else(|| Failure::usage("no folder for the configuration is known: set HOME"))?;
    let bad = |why: String| Failure::usage(format!("{}: {why}", path.display()));
    let mut whole: Value = match path.exists() {
        true => {
            let text = named_file::text(&path, FILE_BYTES_MAX).map_err(bad)?;
            serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?
        }
        false => json!({}),
    };
    let servers = whole.as_object_mut().map(|whole| whole.entry("mcpServers").or_insert_with(|| json!({})));
    let servers =
        servers.and_then(Value::as_object_mut).ok_or_else(|| bad("`mcpServers` is not a table".to_owned()))?;
    let known: BTreeSet<String> = servers.keys().map(|name| name.to_lowercase()).collect();
    if known.contains(&given.name.to_lowercase()) {
        return Err(bad(format!("there is a server {} already", given.name)));
    }
    let mut server = match (&given.url, given.command.split_first()) {
        (Some(url), _) => json!({ "type": "http", "url": url }),
        (None, Some((command, arguments))) => json!({ "command": command, "args": arguments }),
        (None, None) => {
            return Err(Failure::usage("name the command of the server after --, or its address with --url"));
        }
    };
    for (field, values) in [("env", &given.env), ("headers", &given.header)] {
        for value in values {
            // The text is not repeated: it may be a key.
            let (name, value) = value.split_once('=').ok_or_else(|| Failure::usage("write it as NAME=VALUE"))?;
            server[field][name] = value.into();
        }
    }
    // What cannot be used is not written.
    let alone = json!({ "mcpServers": { &given.name: &server } }).to_string();
    let (_, skipped) =
        tamtam_mcp::read(&alone, Dialect::Claude, &environment.all()).map_err(|bad| Failure::usage(bad.to_string()))?;
    if let Some(skipped) = skipped.first() {
        return Err(Failure::usage(skipped.why.clone()));
    }
    servers.insert(given.name.clone(), server);
    let text = serde_json::to_string_pretty(&whole).map_err(|error| Failure::failed(error.to_string()))?;
    write(&path, &text).map_err(|error| Failure::failed(format!("failed to write {}: {error}", path.display())))?;
    print(&format!("added to {}; see what it offers with `tamtam mcp check {}`\n", path.display(), given.name))
}

/// Writes the file whole, for its owner alone: it may have keys.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let new = path.with_extension("json.new");
    let mut file = std::fs::File::options().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(text.as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    std::fs::rename(&new, path)
}
