//! How much a model thinks before it answers: the six levels, and which of them the models of a family have.
//!
//! The level is a wish. A model that lacks it gets the nearest one that it has ([`Thinking::among`]), and a model that does not think
//! is told nothing. The table is by the beginning of a model's name, as that of the limits; how a level is said to a server is the
//! wire's part. The rows were read in November 2026 in the providers' own pages and,
//! where these do not say it, in others' reports of what was refused.
//!
//! A change must keep that no wish to think becomes [`Thinking::Off`], and that a model of an unknown name is asked for what is
//! wished: its server knows better.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

#[cfg(feature = "_wire")]
use super::Endpoint;
use crate::words::message::ModelRef;

/// How much a model thinks before it answers, from not at all to as much as it can.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "agent-files", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Thinking {
    /// It answers at once.
    Off,
    /// As little as it can.
    Minimal,
    /// A little.
    Low,
    /// As much as most tasks need.
    Medium,
    /// Much.
    High,
    /// More than that, at the price of time and tokens.
    Xhigh,
}

/// A text is not the name of a level of [`Thinking`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is none of off, minimal, low, medium, high and xhigh")]
#[non_exhaustive]
pub struct BadThinking {
    /// The text, its first 64 characters.
    pub given: String,
}

impl Thinking {
    /// All levels, from the lowest to the highest.
    pub const ALL: [Thinking; 6] =
        [Thinking::Off, Thinking::Minimal, Thinking::Low, Thinking::Medium, Thinking::High, Thinking::Xhigh];

    /// Its name, such as `xhigh`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Thinking::Off => "off",
            Thinking::Minimal => "minimal",
            Thinking::Low => "low",
            Thinking::Medium => "medium",
            Thinking::High => "high",
            Thinking::Xhigh => "xhigh",
        }
    }

    /// The level that a model with these levels is asked for: this one, else the next lower one at which it thinks, else its lowest.
    /// `None` for a model without levels, which is asked for nothing.
    ///
    /// ```
    /// use tamtam::model::Thinking;
    ///
    /// assert_eq!("high".parse(), Ok(Thinking::High));
    /// let levels = [Thinking::Off, Thinking::Low, Thinking::High];
    /// assert_eq!(Thinking::Medium.among(&levels), Some(Thinking::Low));
    /// assert_eq!(Thinking::Medium.among(&[]), None, "the model does not think");
    /// ```
    #[must_use]
    pub fn among(self, levels: &[Thinking]) -> Option<Thinking> {
        let lowest = || levels.iter().min().copied();
        if self == Thinking::Off {
            return lowest();
        }
        let thinks = || levels.iter().copied().filter(|level| *level > Thinking::Off);
        thinks().filter(|level| *level <= self).max().or_else(|| thinks().min()).or_else(lowest)
    }

    /// What this model is asked for instead, in words such as `openai/gpt-5.1 has no level xhigh and is asked for high`; `None` where it
    /// has the level. A model of an unknown name has all. Of one that OpenAI lets think beside tools over Responses alone, it says so.
    #[must_use]
    pub fn instead(self, model: &ModelRef) -> Option<String> {
        let other = match self.among(known_thinking(&model.model)) {
            Some(level) if level == self => None,
            Some(level) => Some(format!("{model} has no level {self} and is asked for {level}")),
            None if self == Thinking::Off => None,
            None => Some(format!("{model} does not think, and is asked for nothing")),
        };
        let is_told = self > Thinking::Off && beside_tools(&model.provider, &model.model).is_some();
        let told = is_told.then(|| format!("{model} thinks beside tools with api = \"responses\" alone"));
        let both: Vec<String> = other.into_iter().chain(told).collect();
        (!both.is_empty()).then(|| both.join("; "))
    }

    /// The tokens of thought that it stands for, where a server takes no word.
    #[cfg(feature = "_wire")]
    pub(super) fn budget(self) -> u64 {
        match self {
            Thinking::Off => 0,
            Thinking::Minimal => BUDGET_MIN,
            Thinking::Low => 2_048,
            Thinking::Medium => 4_096,
            Thinking::High => 8_192,
            // The most that every server with budgets takes.
            Thinking::Xhigh => 24_576,
        }
    }

    /// Its word, where a server takes one; `top` is that server's word for the highest level.
    #[cfg(feature = "openai")]
    pub(super) fn effort(self, top: &'static str) -> &'static str {
        match self {
            Thinking::Off => "none",
            Thinking::Xhigh => top,
            other => other.name(),
        }
    }
}

impl fmt::Display for Thinking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Thinking {
    type Err = BadThinking;

    fn from_str(text: &str) -> Result<Thinking, BadThinking> {
        let found = Thinking::ALL.into_iter().find(|level| level.name() == text);
        found.ok_or_else(|| BadThinking { given: text.chars().take(64).collect() })
    }
}

/// The fewest tokens of thought that a server may be asked for.
#[cfg(feature = "_wire")]
const BUDGET_MIN: u64 = 1_024;

/// How a family of models is told how much to think.
#[cfg_attr(not(feature = "_wire"), allow(dead_code, reason = "only the wires say it"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// By a word.
    Effort,
    /// By a number of tokens.
    Budget,
}

mod families {
    use super::{
        By::{self, Budget, Effort},
        Thinking::{self, High, Low, Medium, Minimal, Off, Xhigh},
    };

    /// What a family has.
    pub(super) type Has = (&'static [Thinking], By);

    const NONE: Has = (&[], Effort);
    const THREE: Has = (&[Low, Medium, High], Effort);
    const SWITCH: Has = (&[Off, High], Effort);
    const BUDGETS: Has = (&Thinking::ALL, Budget);
    /// A model of which nothing is known.
    pub(super) const UNKNOWN: Has = (&Thinking::ALL, Effort);

    /// By the beginning of a name. The longest beginning that fits wins.
    pub(super) const ALL: &[(&str, Has)] = &[
        ("gpt-3.5", NONE),
        ("gpt-4", NONE),
        ("chatgpt-", NONE),
        ("gpt-5", (&[Minimal, Low, Medium, High], Effort)),
        ("gpt-5-chat", NONE),
        ("gpt-5-codex", THREE),
        ("gpt-5-pro", (&[High], Effort)),
        ("gpt-5.", (&[Off, Low, Medium, High, Xhigh], Effort)),
        ("gpt-5.2-codex", (&[Low, Medium, High, Xhigh], Effort)),
        ("gpt-5.2-pro", (&[Medium, High, Xhigh], Effort)),
        ("gpt-5.3-codex", (&[Low, Medium, High, Xhigh], Effort)),
        ("gpt-5.4-pro", (&[Medium, High, Xhigh], Effort)),
        ("gpt-5.5-pro", (&[Medium, High, Xhigh], Effort)),
        ("gpt-5.6-pro", (&[Medium, High, Xhigh], Effort)),
        ("gpt-5.1", (&[Off, Low, Medium, High], Effort)),
        ("gpt-5.1-codex", THREE),
        ("gpt-5.1-codex-max", (&[Low, Medium, High, Xhigh], Effort)),
        ("gpt-oss", THREE),
        ("o1", THREE),
        ("o1-mini", NONE),
        ("o1-preview", NONE),
        ("o3", THREE),
        ("o4-mini", THREE),
        // The families before it say it otherwise. The newest refuse to be told not to think.
        ("claude", (&[Low, Medium, High, Xhigh], Effort)),
        ("claude-haiku-5", (&[Off, Low, Medium, High, Xhigh], Effort)),
        ("claude-sonnet-5", (&[Off, Low, Medium, High, Xhigh], Effort)),
        ("claude-sonnet-5-5", (&[Low, Medium, High, Xhigh], Effort)),
        ("claude-opus-5", (&[Off, Low, Medium, High, Xhigh], Effort)),
        ("claude-opus-5-5", (&[Low, Medium, High, Xhigh], Effort)),
        ("claude-3", NONE),
        ("claude-3-7", BUDGETS),
        ("claude-sonnet-4", BUDGETS),
        ("claude-haiku-4", BUDGETS),
        ("claude-opus-4", BUDGETS),
        ("claude-sonnet-4-6", (&[Off, Low, Medium, High], Effort)),
        ("claude-opus-4-6", (&[Off, Low, Medium, High], Effort)),
        ("claude-opus-4-7", (&[Off, Low, Medium, High, Xhigh], Effort)),
        ("claude-opus-4-8", (&[Off, Low, Medium, High, Xhigh], Effort)),
        // https://api-docs.deepseek.com/guides/thinking_mode
        ("deepseek", (&[Off, Low, High, Xhigh], Effort)),
        ("llama", NONE),
        ("glm-", SWITCH),
        ("glm-4-", NONE),
        ("qwen", NONE),
        ("qwen-plus", BUDGETS),
        ("qwen3", BUDGETS),
        ("qwen3-coder", NONE),
        ("moonshot-v1", NONE),
        ("kimi-", SWITCH),
        ("kimi-k2", NONE),
        ("kimi-k2-thinking", (&[High], Effort)),
        ("kimi-k2.", SWITCH),
        ("kimi-k3", (&[High], Effort)),
        ("gemini-1", NONE),
        ("gemini-2.0", NONE),
        ("gemini-2.5", BUDGETS),
        ("gemini-2.5-pro", (&[Minimal, Low, Medium, High, Xhigh], Budget)),
        ("gemini-3", (&[Minimal, Low, Medium, High], Effort)),
        ("gemini-3-pro", (&[Low, High], Effort)),
        ("gemini-3.1-pro", (&[Low, Medium, High], Effort)),
        ("gemini-3.7", (&[Low, Medium, High], Effort)),
    ];
}

fn family(model: &str) -> families::Has {
    let name = model.rsplit('/').next().unwrap_or(model);
    let fits = families::ALL.iter().filter(|(beginning, _)| name.starts_with(beginning));
    fits.max_by_key(|(beginning, _)| beginning.len()).map_or(families::UNKNOWN, |(_, has)| *has)
}

/// What OpenAI's Chat Completions refuses beside tools.
#[cfg_attr(not(feature = "openai"), allow(dead_code, reason = "only that wire tells them apart"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// Any word for how much to think. Without one the model does not think.
    Words,
    /// Any word but `none`, and none at all: without one the model thinks.
    Thought,
}

/// What OpenAI refuses of a model beside tools over Chat Completions, where newer models think beside tools over Responses alone.
/// <https://github.com/openai/openai-openapi/issues/541>, <https://github.com/BerriAI/litellm/pull/34569>
pub(super) fn beside_tools(provider: &str, model: &str) -> Option<Refused> {
    let is = |beginnings: &[&str]| beginnings.iter().any(|beginning| model.starts_with(beginning));
    let thinks_or_not = known_thinking(model).contains(&Thinking::Off);
    if provider != "openai" || !is(&["gpt-5."]) || is(&["gpt-5.1"]) || !thinks_or_not {
        return None;
    }
    Some(if is(&["gpt-5.2", "gpt-5.3", "gpt-5.4"]) { Refused::Words } else { Refused::Thought })
}

/// The levels that a model can be asked for, from the lowest to the highest: none for one that does not think, all for one of an
/// unknown name. A leading `vendor/` (OpenRouter) is ignored.
#[must_use]
pub fn known_thinking(model: &str) -> &'static [Thinking] {
    family(model).0
}

/// What a request says about thinking: the level that the model has, and how its family is told. `None` for nothing.
#[cfg(feature = "_wire")]
pub(super) fn asked(endpoint: &Endpoint, wish: Option<Thinking>) -> Option<(Thinking, By)> {
    let (levels, by) = family(&endpoint.model);
    Some((wish?.among(levels)?, by))
}

/// The tokens of thought for a level, so that at least half of the answer is left for what is said; `None` if that leaves fewer than
/// a server may be asked for.
#[cfg(any(feature = "anthropic", feature = "gemini"))]
pub(super) fn budget(level: Thinking, output_max: u64) -> Option<u64> {
    Some(level.budget().min(output_max / 2)).filter(|budget| *budget >= BUDGET_MIN)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// THINKING-001, THINKING-002
    #[test]
    fn six_words_are_levels_and_any_other_is_refused_with_the_six() {
        for level in Thinking::ALL {
            assert_eq!(level.name().parse(), Ok(level));
        }
        let said = |text: &str| text.parse::<Thinking>().unwrap_err().to_string();
        assert_eq!(said("超高"), "\"超高\" is none of off, minimal, low, medium, high and xhigh");
        assert_eq!(said("High"), "\"High\" is none of off, minimal, low, medium, high and xhigh");
        assert!(said(&"x".repeat(9_000)).len() < 200);
    }

    /// THINKING-003, THINKING-010
    #[cfg(feature = "_wire")]
    #[test]
    fn each_level_has_a_budget_and_off_has_none() {
        let budgets = Thinking::ALL.map(Thinking::budget);
        assert_eq!(budgets, [0, 1_024, 2_048, 4_096, 8_192, 24_576]);
    }

    /// THINK-ERR-001: the answer keeps half of its tokens, whatever the level.
    #[cfg(any(feature = "anthropic", feature = "gemini"))]
    #[test]
    fn there_is_room_for_the_answer_behind_the_thought() {
        assert_eq!(budget(Thinking::High, 64_000), Some(8_192));
        assert_eq!(budget(Thinking::High, 8_192), Some(4_096));
        assert_eq!(budget(Thinking::High, 2_000), None);
        assert_eq!(budget(Thinking::Off, 64_000), None);
    }

    /// A wish to think never becomes no thought, unless the model has nothing else.
    #[test]
    fn a_level_that_a_model_lacks_becomes_the_nearest_one() {
        use Thinking::{High, Low, Medium, Minimal, Off, Xhigh};
        for (wish, levels, expected) in [
            (High, &[Low, Medium, High][..], Some(High)),
            (Xhigh, &[Low, Medium, High], Some(High)),
            (Minimal, &[Low, High], Some(Low)),
            (Medium, &[Off, High], Some(High)),
            (Off, &[Off, High], Some(Off)),
            (Off, &[Low, High], Some(Low)),
            (High, &[Off], Some(Off)),
            (High, &[], None),
        ] {
            assert_eq!(wish.among(levels), expected, "{wish} of {levels:?}");
        }
    }

    #[test]
    fn the_longest_fitting_beginning_gives_the_levels() {
        let names = |model| known_thinking(model).iter().map(|level| level.name()).collect::<Vec<_>>().join(" ");
        for (model, expected) in [
            ("gpt-4o", ""),
            ("gpt-5-mini", "minimal low medium high"),
            ("gpt-5.1", "off low medium high"),
            ("gpt-5.2", "off low medium high xhigh"),
            ("gpt-5.3-codex", "low medium high xhigh"),
            ("gpt-5.4-pro", "medium high xhigh"),
            ("kimi-k3-preview", "high"),
            ("gemini-3.7-flash", "low medium high"),
            ("openai/o3", "low medium high"),
            ("claude-3-5-haiku-20241022", ""),
            ("claude-sonnet-4-5", "off minimal low medium high xhigh"),
            ("claude-opus-5", "off low medium high xhigh"),
            ("claude-opus-5-5", "low medium high xhigh"),
            ("claude-never-heard-of", "low medium high xhigh"),
            ("gemini-2.5-pro", "minimal low medium high xhigh"),
            ("gemini-3-pro-preview", "low high"),
            ("deepseek-flash", "off low high xhigh"),
            ("never-heard-of", "off minimal low medium high xhigh"),
        ] {
            assert_eq!(names(model), expected, "{model}");
        }
    }
}
