//! Reads the servers from configuration files of other programs, as they are: `.mcp.json` (Claude Code and those that follow it),
//! `opencode.json`, and Codex' `config.toml`.
//!
//! A pure function of a text and an environment; it opens no file, and judges no trust: whoever calls it has done so. A server that
//! cannot be had (a variable is not set, its transport is an old one) is [`Skipped`] with a sentence, and costs the others nothing. Fields that mean
//! nothing here are passed over, because other programs add them freely.

use std::time::Duration;

use serde_json::{Map, Value};
use toml::de::{DeTable, DeValue};

use crate::config::{ServerConfig, well_known};

/// Whose form a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dialect {
    /// `.mcp.json`: `{"mcpServers": {NAME: {"command", "args", "env"}}}`, or `{"type": "http", "url", "headers"}` for an address; also
    /// with `servers` in place of `mcpServers`.
    Claude,
    /// `opencode.json`: `{"mcp": {NAME: {"type": "local", "command": [..], "environment"}}}`, or `{"type": "remote", "url",
    /// "headers"}`.
    OpenCode,
    /// `config.toml`: `[mcp_servers.NAME]` with `command`, `args`, `env`, or `url`, `bearer_token_env_var`, `http_headers`,
    /// `env_http_headers`.
    Codex,
}

/// A file that is not read at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
#[non_exhaustive]
pub struct BadFile {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong there.
    pub why: String,
}

/// A server of a file that is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skipped {
    /// Its name in the file.
    pub name: String,
    /// Why.
    pub why: String,
}

/// The servers of a file, in the order of their names, and those that are skipped.
///
/// `environment` is the host's: variables that the file names are taken from it, and each server gets what is
/// [`well_known`] of it and the file's own variables; nothing else.
///
/// # Errors
/// A text that is no JSON or TOML, or in which the servers are no table.
pub fn read(
    text: &str,
    dialect: Dialect,
    environment: &[(String, String)],
) -> Result<(Vec<ServerConfig>, Vec<Skipped>), BadFile> {
    let (mut whole, key) = match dialect {
        Dialect::Claude => (json(text)?, "mcpServers"),
        Dialect::OpenCode => (json(text)?, "mcp"),
        Dialect::Codex => (toml(text)?, "mcp_servers"),
    };
    let mut found = whole[key].take();
    if dialect == Dialect::Claude && found.is_null() {
        found = whole["servers"].take();
    }
    let servers = match found {
        Value::Null => Map::new(),
        Value::Object(servers) => servers,
        _ => return Err(BadFile { line: line_of(text, key), why: format!("`{key}` is not a table of servers") }),
    };
    let (mut used, mut skipped) = (Vec::new(), Vec::new());
    let known = well_known(environment.iter().map(|(name, value)| (name.into(), value.into())));
    for (name, said) in servers {
        let reader = Reader { dialect, environment, said: &said };
        match reader.server(&name, &known) {
            Ok(config) => used.push(config),
            Err(why) => skipped.push(Skipped { name, why }),
        }
    }
    Ok((used, skipped))
}

fn json(text: &str) -> Result<Value, BadFile> {
    serde_json::from_str(text).map_err(|error| BadFile { line: error.line().max(1), why: error.to_string() })
}

fn toml(text: &str) -> Result<Value, BadFile> {
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        BadFile { line: line_at(text, at), why: error.message().to_owned() }
    })?;
    Ok(plain(&DeValue::Table(table.into_inner())))
}

/// A value of TOML as one of JSON. A number that JSON has not, and a date, is its text.
fn plain(value: &DeValue<'_>) -> Value {
    let number = |text: &str| text.replace('_', "").parse::<serde_json::Number>().ok();
    match value {
        DeValue::String(text) => Value::String(text.clone().into_owned()),
        DeValue::Boolean(yes) => Value::Bool(*yes),
        DeValue::Integer(n) => number(n.as_str()).map_or_else(|| n.as_str().into(), Value::Number),
        DeValue::Float(n) => number(n.as_str()).map_or_else(|| n.as_str().into(), Value::Number),
        DeValue::Datetime(date) => date.to_string().into(),
        DeValue::Array(items) => items.iter().map(|item| plain(item.get_ref())).collect(),
        DeValue::Table(table) => {
            table.iter().map(|(key, value)| (key.get_ref().to_string(), plain(value.get_ref()))).collect()
        }
    }
}

fn line_of(text: &str, key: &str) -> usize {
    line_at(text, text.find(key).unwrap_or_default())
}

fn line_at(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}

/// One server of a file.
struct Reader<'a> {
    dialect: Dialect,
    environment: &'a [(String, String)],
    said: &'a Value,
}

impl Reader<'_> {
    fn server(&self, name: &str, known: &[(String, String)]) -> Result<ServerConfig, String> {
        if self.said["disabled"] == true || self.said["enabled"] == false {
            return Err("the file switches it off".to_owned());
        }
        let plain = name.replace(['_', '.', ' ', '/', '@'], "-");
        let plain = plain.trim_matches('-');
        let config = match (self.said["type"].as_str(), &self.said["url"]) {
            (Some(kind @ ("sse" | "ws")), _) => {
                return Err(format!("its transport {kind:?} is not spoken: is there an address for \"http\"?"));
            }
            (_, Value::String(url)) => self.at_address(plain, url)?,
            (Some("http" | "streamable-http" | "remote"), _) => return Err("it has no `url`".to_owned()),
            _ => self.program(plain, known)?,
        };
        let config = self.limited(config)?;
        config.check().map_err(|bad| bad.to_string())?;
        Ok(config)
    }

    /// A server at an address, with the headers that the file gives it.
    fn at_address(&self, name: &str, url: &str) -> Result<ServerConfig, String> {
        let mut config = ServerConfig::http(name, self.filled(url)?);
        let field = if self.dialect == Dialect::Codex { "http_headers" } else { "headers" };
        for (name, value) in self.table(field)? {
            config = config.header(name, self.filled(value)?);
        }
        let needed = |name: &str| self.variable(name).ok_or_else(|| not_set(name));
        if self.dialect == Dialect::Codex {
            for (name, variable) in self.table("env_http_headers")? {
                config = config.header(name, needed(variable)?);
            }
            if let Some(variable) = self.said["bearer_token_env_var"].as_str() {
                config = config.bearer(needed(variable)?);
            }
        }
        Ok(config)
    }

    /// A table of texts; empty if it is not there.
    fn table(&self, field: &str) -> Result<Vec<(&str, &str)>, String> {
        let wrong = || format!("its `{field}` is not a table of texts");
        match &self.said[field] {
            Value::Null => Ok(Vec::new()),
            Value::Object(fields) => {
                fields.iter().map(|(name, value)| Ok((name.as_str(), value.as_str().ok_or_else(wrong)?))).collect()
            }
            _ => Err(wrong()),
        }
    }

    /// A program.
    fn program(&self, name: &str, known: &[(String, String)]) -> Result<ServerConfig, String> {
        let mut command = match (self.dialect, &self.said["command"]) {
            (_, Value::String(command)) => vec![command.clone()],
            (Dialect::OpenCode, Value::Array(_)) => self.texts("command")?,
            _ => return Err("it has no `command`".to_owned()),
        };
        command.extend(self.texts("args")?);
        let command = command.iter().map(|word| self.filled(word)).collect::<Result<Vec<_>, _>>()?;
        let (program, arguments) = command.split_first().ok_or("its `command` is empty")?;
        let own = self.variables()?;
        let mut config =
            ServerConfig::stdio(name, program).arguments(arguments).environment(known.to_vec()).environment(own);
        if let Some(folder) = self.said["cwd"].as_str() {
            config = config.folder(self.filled(folder)?);
        }
        Ok(config)
    }

    /// The server with the limits and the choice of tools that the file has.
    fn limited(&self, mut config: ServerConfig) -> Result<ServerConfig, String> {
        let milliseconds = |field: &str| Some(Duration::from_millis(self.said[field].as_u64()?));
        let seconds = |field: &str| Duration::try_from_secs_f64(self.said[field].as_f64()?).ok();
        let (starts, calls) = match self.dialect {
            Dialect::OpenCode => (milliseconds("timeout"), None),
            Dialect::Codex => (
                seconds("startup_timeout_sec").or_else(|| milliseconds("startup_timeout_ms")),
                seconds("tool_timeout_sec"),
            ),
            Dialect::Claude => (None, milliseconds("timeout")),
        };
        config.start_limit = starts.unwrap_or(config.start_limit);
        config.call_limit = calls.unwrap_or(config.call_limit);
        if !self.said["enabled_tools"].is_null() {
            config = config.only(self.texts("enabled_tools")?);
        }
        Ok(config.except(self.texts("disabled_tools")?))
    }

    /// A list of texts; empty if it is not there.
    fn texts(&self, field: &str) -> Result<Vec<String>, String> {
        let wrong = || format!("its `{field}` is not a list of texts");
        match &self.said[field] {
            Value::Null => Ok(Vec::new()),
            Value::Array(items) => {
                items.iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
            }
            _ => Err(wrong()),
        }
    }

    /// The variables that the file gives the server.
    fn variables(&self) -> Result<Vec<(String, String)>, String> {
        let field = if self.dialect == Dialect::OpenCode { "environment" } else { "env" };
        let mut variables = Vec::new();
        for name in self.texts("env_vars").unwrap_or_default() {
            variables.extend(self.variable(&name).map(|value| (name, value)));
        }
        match &self.said[field] {
            Value::Null => {}
            Value::Object(fields) => {
                for (name, value) in fields {
                    let value = match value {
                        Value::String(text) => self.filled(text)?,
                        Value::Number(_) | Value::Bool(_) => value.to_string(),
                        _ => return Err(format!("its variable {name:?} is not a text")),
                    };
                    variables.push((name.clone(), value));
                }
            }
            _ => return Err(format!("its `{field}` is not a table")),
        }
        Ok(variables)
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.environment.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    }

    /// A text with the variables that it names: `${NAME}` and `${NAME:-default}`, or `{env:NAME}` for OpenCode.
    fn filled(&self, text: &str) -> Result<String, String> {
        let opening = match self.dialect {
            Dialect::Claude => "${",
            Dialect::OpenCode => "{env:",
            Dialect::Codex => return Ok(text.to_owned()),
        };
        let (mut filled, mut rest) = (String::new(), text);
        while let Some((before, after)) = rest.split_once(opening) {
            let (name, behind) =
                after.split_once('}').ok_or_else(|| format!("a `{opening}` in {text:?} is not closed"))?;
            filled.push_str(before);
            let (name, default) = name.split_once(":-").map_or((name, None), |(name, default)| (name, Some(default)));
            let value = self.variable(name).filter(|value| !value.is_empty() || default.is_none());
            let value = value.or_else(|| default.map(str::to_owned));
            filled.push_str(&value.ok_or_else(|| not_set(name))?);
            rest = behind;
        }
        filled.push_str(rest);
        Ok(filled)
    }
}

fn not_set(variable: &str) -> String {
    format!("it needs the variable {variable:?}, which is not set")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn host() -> Vec<(String, String)> {
        [("PATH", "/bin"), ("TOKEN", "t"), ("EMPTY", ""), ("OPENAI_API_KEY", "k")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec()
    }

    fn why(text: &str, dialect: Dialect) -> Vec<(String, String)> {
        let (used, skipped) = read(text, dialect, &host()).unwrap();
        assert_eq!(used, [], "{text}");
        skipped.into_iter().map(|skipped| (skipped.name, skipped.why)).collect()
    }

    #[test]
    fn claude_codes_form_is_read_as_it_is() {
        let text = r#"{"mcpServers": {
            "my_files": {"type": "stdio", "command": "npx", "args": ["-y", "x@${VERSION:-1.0}"], "env": {"KEY": "${TOKEN}", "N": 3}},
            "remote": {"type": "http", "url": "https://x/${VERSION:-1}", "headers": {"Authorization": "Bearer ${TOKEN}"}},
            "old": {"type": "sse", "url": "https://x"}, "bare": {"type": "http"}
        }, "other": 1}"#;
        let (used, skipped) = read(text, Dialect::Claude, &host()).unwrap();
        let expected = ServerConfig::stdio("my-files", "npx").arguments(["-y", "x@1.0"]).environment([
            ("PATH", "/bin"),
            ("KEY", "t"),
            ("N", "3"),
        ]);
        let remote = ServerConfig::http("remote", "https://x/1").header("Authorization", "Bearer t");
        assert_eq!(used, [expected, remote]);
        let words: Vec<_> = skipped.iter().map(|skipped| format!("{}: {}", skipped.name, skipped.why)).collect();
        let old = "old: its transport \"sse\" is not spoken: is there an address for \"http\"?";
        assert_eq!(words, ["bare: it has no `url`", old]);
        let vscode = r#"{"servers": {"a": {"command": "b"}}}"#;
        assert_eq!(read(vscode, Dialect::Claude, &[]).unwrap().0, [ServerConfig::stdio("a", "b")]);
    }

    #[test]
    fn opencodes_form_is_read_as_it_is() {
        let text = r#"{"mcp": {
            "a": {"type": "local", "command": ["bun", "x", "{env:TOKEN}"], "environment": {"K": "v"}, "enabled": true, "timeout": 5000},
            "b": {"type": "remote", "url": "https://x"},
            "c": {"type": "local", "command": ["x"], "enabled": false}
        }}"#;
        let (used, skipped) = read(text, Dialect::OpenCode, &host()).unwrap();
        let mut expected =
            ServerConfig::stdio("a", "bun").arguments(["x", "t"]).environment([("PATH", "/bin"), ("K", "v")]);
        expected.start_limit = Duration::from_secs(5);
        assert_eq!(used, [expected, ServerConfig::http("b", "https://x")]);
        assert_eq!(skipped.iter().map(|skipped| skipped.name.as_str()).collect::<Vec<_>>(), ["c"]);
    }

    #[test]
    fn codex_form_is_read_as_it_is() {
        let text = "model = \"x\"\n[mcp_servers.docs]\ncommand = \"npx\"\nargs = [\"-y\"]\nenv_vars = [\"TOKEN\", \"NONE\"]\ncwd = \"/srv\"\n\
                    startup_timeout_sec = 1.5\ntool_timeout_sec = 60\nenabled_tools = [\"a\"]\ndisabled_tools = [\"b\"]\n\
                    [mcp_servers.docs.env]\nK = \"${v}\"\n[mcp_servers.far]\nurl = \"https://x\"\n\
                    bearer_token_env_var = \"TOKEN\"\nhttp_headers = { A = \"b\" }\n[mcp_servers.poor]\nurl = \"https://x\"\n\
                    bearer_token_env_var = \"NONE\"\n";
        let (used, skipped) = read(text, Dialect::Codex, &host()).unwrap();
        let expected = ServerConfig::stdio("docs", "npx")
            .arguments(["-y"])
            .environment([("PATH", "/bin"), ("TOKEN", "t"), ("K", "${v}")])
            .folder("/srv")
            .start_limit(Duration::from_millis(1_500))
            .call_limit(Duration::from_secs(60))
            .only(["a"])
            .except(["b"]);
        let far = ServerConfig::http("far", "https://x").header("A", "b").bearer("t");
        assert_eq!(used, [expected, far]);
        let poor = "it needs the variable \"NONE\", which is not set";
        assert_eq!(skipped, [Skipped { name: "poor".to_owned(), why: poor.to_owned() }]);
    }

    /// What is broken is named, with its line where the file is, and costs no other server.
    #[test]
    fn broken_files_and_servers_are_named() {
        let bad = |text: &str, dialect| read(text, dialect, &[]).unwrap_err();
        assert_eq!(bad("{\n\"mcpServers\": {\n", Dialect::Claude).line, 3);
        assert_eq!(bad("{\n\n\"mcp\": []}", Dialect::OpenCode).to_string(), "line 3: `mcp` is not a table of servers");
        assert_eq!(bad("a = 1\nb = = 2", Dialect::Codex).line, 2);
        assert_eq!(read("{}", Dialect::Claude, &[]).unwrap(), (vec![], vec![]));
        let text = r#"{"mcpServers": {
            "a": 7, "b": {"command": 7}, "c": {"command": "x", "args": "y"}, "d": {"command": "${NONE}"},
            "e": {"command": "${TOKEN"}, "f": {"command": "x", "env": {"K": {}}}, "g": {"command": "x", "env": []},
            "h": {"command": "x", "disabled": true}, "übergrößen": {"command": "x"}, "i": {"command": ""}
        }}"#;
        let why = why(text, Dialect::Claude);
        let words: Vec<_> = why.iter().map(|(name, why)| format!("{name}: {why}")).collect();
        assert_eq!(
            words,
            [
                "a: it has no `command`",
                "b: it has no `command`",
                "c: its `args` is not a list of texts",
                "d: it needs the variable \"NONE\", which is not set",
                "e: a `${` in \"${TOKEN\" is not closed",
                "f: its variable \"K\" is not a text",
                "g: its `env` is not a table",
                "h: the file switches it off",
                "i: the server \"i\" has no command",
                "übergrößen: a server is called \"übergrößen\": a name is 1 to 28 letters of a-z A-Z 0-9 and -",
            ]
        );
    }
}
