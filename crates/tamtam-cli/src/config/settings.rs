//! The settings that a file may have. Each is an argument of `run` by the same name; `redact` is the argument `--no-redact`.
//!
//! A file only fills what no argument and no stronger file has set ([`set`]), and a value that does not fit is an error.
//!
//! A change that adds an argument which a file may set adds a line in [`ALL`] and one each in [`set`] and [`get`]. It must mark
//! with `of_user` what a stranger's project must not decide.

use std::path::PathBuf;

use tamtam::session::OnBreach;

use crate::{
    arguments::{Survives, TurnArguments},
    budget, models, network, quirks, rates,
};

/// A setting.
pub(super) struct Setting {
    pub(super) name: &'static str,
    /// What may be written there, for messages.
    pub(super) takes: &'static str,
    /// What holds without it.
    pub(super) default: &'static str,
    /// Whether a session keeps it on its tape, so that files are silent about a session that is there.
    pub(super) of_session: bool,
    /// Whether it is about the model that the file names.
    pub(super) of_model: bool,
    /// Whether a project's file cannot say it: where tapes go, and whether keys are taken out, is for the user's file or
    /// `--config`.
    pub(super) of_user: bool,
}

const fn setting(name: &'static str, takes: &'static str, default: &'static str) -> Setting {
    Setting { name, takes, default, of_session: true, of_model: false, of_user: false }
}

/// Of the process, and not of the session.
const fn process(setting: Setting) -> Setting {
    Setting { of_session: false, ..setting }
}

/// Of the server of the model.
const fn of_server(name: &'static str, takes: &'static str) -> Setting {
    Setting { of_model: true, ..process(setting(name, takes, "that of the provider")) }
}

/// Of the key of the model's provider.
const fn of_key(name: &'static str) -> Setting {
    Setting { of_model: true, ..process(setting(name, rates::TAKES, "what the provider says itself")) }
}

/// All settings, in the order in which they are shown.
pub(super) const ALL: [Setting; 44] = [
    setting("model", "PROVIDER/MODEL", "that of the first provider with a key, else of a local server"),
    Setting {
        of_model: true,
        ..setting(
            "fallback",
            "a list of PROVIDER/MODEL, or PROVIDER/MODEL on FAILURE,FAILURE",
            "those of the agent, else none",
        )
    },
    Setting {
        of_model: true,
        ..process(setting("base_url", "the URL of the model's provider", "that of the provider"))
    },
    Setting {
        of_model: true,
        ..process(setting("api", "chat, responses, messages or gemini", "that of the provider, else chat"))
    },
    Setting { of_model: true, ..process(setting("first_timeout", "a number of seconds", "600 for local, else 300")) },
    Setting {
        of_model: true,
        ..process(setting("images", "true or false", "false for local, else by the model's name"))
    },
    Setting {
        of_model: true,
        ..process(setting("reasoning_back", "never, with_calls or details", "that of the provider"))
    },
    Setting {
        of_model: true,
        ..setting("thinking", "off, minimal, low, medium, high or xhigh", "that of the agent, else of the provider")
    },
    Setting {
        of_model: true,
        ..setting("temperature", "a number from 0 to 2", "that of the agent, else of the provider")
    },
    Setting { of_model: true, ..setting("top_p", "a number from 0 to 1", "that of the agent, else of the provider") },
    of_server("quirks.max_tokens", "max_tokens or max_completion_tokens"),
    of_server("quirks.stream_options", "true or false"),
    of_server("quirks.schema", "plain or gemini"),
    of_server("quirks.thinking", "effort, record, switch or budget"),
    of_server("quirks.answer", "schema, schema_alone, json or words"),
    of_server("quirks.cache_marks", "true or false"),
    of_server("quirks.websocket", "true or false"),
    of_server("quirks.image_bytes_max", "a number of bytes"),
    of_key("rate_limits.requests"),
    of_key("rate_limits.requests_per_minute"),
    of_key("rate_limits.tokens_per_minute"),
    setting("output_schema", "a file of a JSON schema", "none: the answer is free text"),
    setting("agent", "the name of an agent", "build"),
    setting(
        "permission",
        "strict, ask, edits, auto, readonly, headless or opencode",
        "ask on a terminal and with --json, else headless",
    ),
    setting("max_steps", "a number of model requests, 1 or more", "50"),
    setting("budget_usd", "US dollars, such as 0.50", "no limit"),
    setting("budget_tokens", "a number of tokens", "no limit"),
    setting("on_budget", "ask, stop or PROVIDER/MODEL", "ask"),
    Setting {
        of_model: true,
        ..process(setting("price", "IN/OUT in US dollars for a million tokens", "that of the catalogue"))
    },
    Setting { of_user: true, ..process(setting("store", "a folder", "tamtam in the user's data folder")) },
    Setting {
        of_user: true,
        ..process(setting(
            "postgres",
            "the URL of a database, for serve",
            "none: serve keeps its sessions in the store",
        ))
    },
    Setting { of_user: true, ..process(setting("redact", "true or false", "true")) },
    Setting { of_user: true, ..setting("instructions", "a list of files", "none") },
    process(setting("web_fetch", "true or false", "false")),
    process(setting("planning", "true or false", "false")),
    process(setting("read_loop", "true or false", "false")),
    process(setting("durability", "process or power", "process")),
    Setting {
        of_user: true,
        ..process(setting("proxy", "the URL of an HTTP proxy, or none", "that of HTTPS_PROXY, HTTP_PROXY or ALL_PROXY"))
    },
    Setting { of_user: true, ..process(setting("ca", "a file of PEM certificates", "the system's certificates")) },
    setting("ask_limit", "a time such as 90s, 10m or 2h, or off", "10m"),
    process(setting("sandbox.mode", "off, preferred or required", "off")),
    process(setting("sandbox.network", "off, ip or all", "off")),
    Setting {
        of_user: true,
        ..process(setting("sandbox.read", "a list of paths", "the system's and compilers' folders"))
    },
    Setting { of_user: true, ..process(setting("sandbox.write", "a list of paths", "the workspace")) },
];

/// The setting of that name; else what to say about it.
pub(super) fn find(name: &str) -> Result<&'static Setting, String> {
    let found = ALL.iter().find(|setting| setting.name == name);
    found.ok_or_else(|| {
        let names = ALL.iter().map(|setting| setting.name).chain(["rules"]);
        let distance = |known: &str| strsim::damerau_levenshtein(&name.to_lowercase().replace('-', "_"), known);
        let near = names.clone().map(|known| (distance(known), known)).min().filter(|(distance, _)| *distance <= 3);
        let hint = near.map(|(_, known)| format!("; did you mean `{known}`?")).unwrap_or_default();
        let all: Vec<_> = names.collect();
        format!("unknown setting `{name}`{hint} (known: {})", all.join(", "))
    })
}

/// Sets an argument that was not given, from the text of a file. Returns whether it did; an error says what is wrong with the text.
pub(super) fn set(name: &str, text: &str, turn: &mut TurnArguments) -> Result<bool, String> {
    match name {
        "model" => fill(&mut turn.model.model, model(text)?),
        "fallback" => {
            let chain = text.lines().map(str::parse).collect::<Result<Vec<_>, String>>()?;
            let is_silent = turn.model.fallback.is_empty();
            if is_silent {
                turn.model.fallback = chain;
            }
            Ok(is_silent)
        }
        "base_url" => fill(&mut turn.model.base_url, url(text)?),
        "api" => fill(&mut turn.model.api, quirks::api(text)?),
        "first_timeout" => {
            let seconds = text.parse().ok().filter(|seconds: &u64| *seconds > 0);
            fill(&mut turn.model.first_timeout, seconds.ok_or_else(|| format!("{text} must be 1 or more"))?)
        }
        "images" => fill(&mut turn.model.images, text.parse().map_err(|_| format!("{text:?} is neither"))?),
        "reasoning_back" => fill(&mut turn.model.reasoning_back, models::reasoning_back(text)?),
        "thinking" => {
            fill(&mut turn.model.thinking, text.parse().map_err(|error: tamtam::model::BadThinking| error.to_string())?)
        }
        "temperature" => fill(&mut turn.model.temperature, models::temperature(text)?),
        "top_p" => fill(&mut turn.model.top_p, models::top_p(text)?),
        "output_schema" => fill(&mut turn.output_schema, PathBuf::from(named(text)?)),
        "agent" => fill(&mut turn.setup.agent, named(text)?),
        "permission" => {
            fill(&mut turn.setup.permission.permission, text.parse().map_err(|_| format!("unknown profile {text:?}"))?)
        }
        "max_steps" => {
            let steps = text.parse().ok().filter(|steps: &u32| *steps > 0);
            fill(&mut turn.max_steps, steps.ok_or_else(|| format!("{text} must be 1 or more"))?)
        }
        "budget_usd" => {
            fill(&mut turn.budget.usd, text.parse().map_err(|_| format!("{text:?} is not an amount of money"))?)
        }
        "budget_tokens" => fill(&mut turn.budget.tokens, text.parse().map_err(|_| format!("{text} is not a number"))?),
        "on_budget" => fill(&mut turn.budget.on_breach, budget::on_breach(text)?),
        "price" => fill(&mut turn.budget.price, budget::price(text)?),
        "store" => fill(&mut turn.store.store, PathBuf::from(named(text)?)),
        "postgres" => fill(&mut turn.postgres, named(text)?),
        "redact" => match text {
            "true" => Ok(false),
            // The argument can only turn it off, too.
            "false" => Ok(!std::mem::replace(&mut turn.no_redact, true)),
            _ => Err(format!("{text:?} is neither")),
        },
        "instructions" => {
            let is_silent = turn.instructions.is_empty();
            if is_silent {
                turn.instructions = text.lines().map(PathBuf::from).collect();
            }
            Ok(is_silent)
        }
        "web_fetch" => fill(&mut turn.web_fetch, text.parse().map_err(|_| format!("{text:?} is neither"))?),
        "planning" => fill(&mut turn.planning, text.parse().map_err(|_| format!("{text:?} is neither"))?),
        "read_loop" => fill(&mut turn.read_loop, text.parse().map_err(|_| format!("{text:?} is neither"))?),
        "durability" => {
            let survives = match text {
                "process" => Survives::Process,
                "power" => Survives::Power,
                _ => return Err(format!("{text:?} is neither")),
            };
            fill(&mut turn.durability, survives)
        }
        "proxy" => {
            fill(&mut turn.model.network.proxy, network::proxy(text)?.unwrap_or_else(|| network::NO_PROXY.to_owned()))
        }
        "ca" => fill(&mut turn.model.network.ca, PathBuf::from(named(text)?)),
        "ask_limit" => fill(&mut turn.ask_limit, text.parse()?),
        name if name.starts_with("sandbox.") => turn.setup.sandbox.set(name, text),
        name if name.starts_with("quirks.") => quirks::fill(&name["quirks.".len()..], text, &mut turn.model.quirk),
        name if name.starts_with("rate_limits.") => {
            rates::fill(&name["rate_limits.".len()..], text, &mut turn.model.rate_limit)
        }
        _ => Err("unknown setting".to_owned()),
    }
}

fn fill<T>(slot: &mut Option<T>, value: T) -> Result<bool, String> {
    let is_free = slot.is_none();
    if is_free {
        *slot = Some(value);
    }
    Ok(is_free)
}

fn named(text: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err("it is empty".to_owned()) } else { Ok(text.to_owned()) }
}

/// A model by its name. Whether there is such a provider is known where the model is chosen: it may be the user's own.
fn model(text: &str) -> Result<String, String> {
    if text.starts_with("scripted:") {
        return Ok(text.to_owned());
    }
    let parsed: Result<tamtam::ModelRef, _> = text.parse();
    parsed.map(|_| text.to_owned()).map_err(|error| error.to_string())
}

fn url(text: &str) -> Result<String, String> {
    let is_url = text.starts_with("http://") || text.starts_with("https://");
    if is_url { Ok(text.to_owned()) } else { Err("it must begin with https:// or http://".to_owned()) }
}

/// A setting as the arguments have it; `None` where they are silent.
pub(super) fn get(name: &str, turn: &TurnArguments) -> Option<String> {
    let budget = &turn.budget;
    match name {
        "model" => turn.model.model.clone(),
        "fallback" => {
            let names: Vec<_> = turn.model.fallback.iter().map(ToString::to_string).collect();
            (!names.is_empty()).then(|| names.join("; "))
        }
        "base_url" => turn.model.base_url.as_deref().map(models::shown),
        "api" => turn.model.api.map(|api| quirks::api_in_words(api).to_owned()),
        "first_timeout" => turn.model.first_timeout.map(|seconds| seconds.to_string()),
        "images" => turn.model.images.map(|images| images.to_string()),
        "reasoning_back" => turn.model.reasoning_back.map(|back| models::reasoning_back_in_words(back).to_owned()),
        "thinking" => turn.model.thinking.map(|level| level.to_string()),
        "temperature" => turn.model.temperature.map(|number| number.to_string()),
        "top_p" => turn.model.top_p.map(|number| number.to_string()),
        "output_schema" => turn.output_schema.as_ref().map(|file| file.display().to_string()),
        "agent" => turn.setup.agent.clone(),
        "permission" => turn.setup.permission.permission.map(|profile| profile.name().to_owned()),
        "max_steps" => turn.max_steps.map(|steps| steps.to_string()),
        "budget_usd" => budget.usd.map(|usd| usd.to_string()),
        "budget_tokens" => budget.tokens.map(|tokens| tokens.to_string()),
        "on_budget" => budget.on_breach.as_ref().map(|on_breach| match on_breach {
            OnBreach::Stop => "stop".to_owned(),
            OnBreach::Model(model) => model.to_string(),
            _ => "ask".to_owned(),
        }),
        "price" => budget.price.map(|price| {
            let cached = [price.cache_read, price.cache_write].into_iter().flatten();
            let sums = [price.input, price.output].into_iter().chain(cached);
            sums.map(|sum| sum.to_string()).collect::<Vec<_>>().join("/")
        }),
        "store" => turn.store.store.as_ref().map(|store| store.display().to_string()),
        "postgres" => turn.postgres.as_deref().map(network::database_shown),
        "redact" => turn.no_redact.then(|| "false".to_owned()),
        "instructions" => {
            let files: Vec<_> = turn.instructions.iter().map(|file| file.display().to_string()).collect();
            (!files.is_empty()).then(|| files.join(", "))
        }
        "web_fetch" => turn.web_fetch.map(|is| is.to_string()),
        "planning" => turn.planning.map(|is| is.to_string()),
        "read_loop" => turn.read_loop.map(|is| is.to_string()),
        "durability" => turn.durability.map(|survives| match survives {
            Survives::Process => "process".to_owned(),
            Survives::Power => "power".to_owned(),
        }),
        "proxy" => turn.model.network.proxy.as_deref().map(network::proxy_shown),
        "ca" => turn.model.network.ca.as_ref().map(|file| file.display().to_string()),
        "ask_limit" => turn.ask_limit.map(|limit| limit.to_string()),
        name if name.starts_with("sandbox.") => turn.setup.sandbox.get(name),
        name if name.starts_with("quirks.") => quirks::get(&name["quirks.".len()..], &turn.model.quirk),
        name if name.starts_with("rate_limits.") => rates::get(&name["rate_limits.".len()..], &turn.model.rate_limit),
        _ => None,
    }
}
