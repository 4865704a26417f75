//! Decides which variables of the host's environment a tool's process may see.
//!
//! A variable is withheld if its name looks like a secret, belongs to a model provider or a cloud, or controls what programs
//! load or where they run, or if its value is an address with a password in it. These are lists of known names, not proof that no
//! secret gets through. A change must not take a name off a list without a reason: the variable would reach every command that a
//! model runs. The code is pure: it reads no environment.

use std::ffi::{OsStr, OsString};

/// Parts of a name by which a secret is known.
const SECRET_WORDS: &[&str] = &[
    "KEY",
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "CREDENTIAL",
    "PRIVATE",
    "COOKIE",
    "BEARER",
    "_PAT",
    "_DSN",
    "ASKPASS",
    "NETRC",
];

/// Beginnings of names that belong to model providers and clouds, and to this program.
const PROVIDERS: &[&str] = &[
    "ANTHROPIC_",
    "AWS_",
    "AZURE_",
    "CEREBRAS_",
    "CLAUDE_",
    "COHERE_",
    "DASHSCOPE_",
    "DEEPSEEK_",
    "FIREWORKS_",
    "GEMINI_",
    "GOOGLE_",
    "GROQ_",
    "HF_",
    "HUGGINGFACE_",
    "HUGGING_FACE_",
    "MISTRAL_",
    "MOONSHOT_",
    "OLLAMA_",
    "OPENAI_",
    "OPENROUTER_",
    "PERPLEXITY_",
    "TAMTAM_",
    "TOGETHER_",
    "VERTEX_",
    "XAI_",
    "ZHIPU_",
];

/// Beginnings of names that change what a program loads, or where git works.
const STEERING: &[&str] = &["LD_", "DYLD_", "GIT_", "BASH_FUNC_"];

/// Names that change how a shell starts, or that describe the host's own folder.
const STEERING_NAMES: &[&str] =
    &["BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "PROMPT_COMMAND", "PS4", "IFS", "CDPATH", "PWD", "OLDPWD"];

/// Whether a variable is withheld from tools: it looks like a secret, belongs to a provider, controls what programs load or where
/// they work, or its value is an address with a password in it.
#[must_use]
fn is_private(name: &OsStr, value: &OsStr) -> bool {
    let upper = name.to_string_lossy().to_uppercase();
    SECRET_WORDS.iter().any(|word| upper.contains(word))
        || PROVIDERS.iter().chain(STEERING).any(|start| upper.starts_with(start))
        || STEERING_NAMES.contains(&upper.as_str())
        || holds_password(&value.to_string_lossy())
}

/// The variables that a tool's process may see, in order of their names.
pub fn scrub(environment: impl IntoIterator<Item = (OsString, OsString)>) -> Vec<(OsString, OsString)> {
    let mut kept: Vec<_> = environment.into_iter().filter(|(name, value)| !is_private(name, value)).collect();
    kept.sort();
    kept
}

/// Whether a value is an address with a password in it: `scheme://user:password@host`.
fn holds_password(value: &str) -> bool {
    value.split("://").skip(1).any(|rest| {
        let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
        authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'))
    })
}
