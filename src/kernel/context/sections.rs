//! The sections of a system prompt: which part of the text is whose, so that an agent can replace its own part, and people see what
//! is sent.
//!
//! The text of a prompt is [`Settings::system`], whole. Beside it are the sections, each with its size in bytes; so no text is
//! stored twice. Where the sizes do not fit the text, a host has set the prompt since: then it counts as one text without sections.
//!
//! A change must keep that a prompt without sections is replaced whole: it is the host's own. [`PromptSection`]
//! is a stored format. The functions here are of values: no file is read, and no one is asked for the text of a section.

use std::sync::Arc;

use crate::kernel::{Layer, PromptSection, Settings};

/// What stands between two sections.
const BETWEEN: &str = "\n\n";

impl Settings {
    /// The sections of the system prompt in their order, each with its text; those that were left out have none. One section
    /// `system` where the prompt was given whole. The texts, with an empty line between each two, are [`Settings::system`].
    #[must_use]
    pub fn sections(&self) -> Vec<(PromptSection, &str)> {
        self.divided().unwrap_or_else(|| {
            let whole = PromptSection::new(Layer::Agent, "system");
            vec![(PromptSection { bytes: self.system.len(), ..whole }, &self.system)]
        })
    }

    /// The sections; `None` where the sizes do not add up to the prompt.
    fn divided(&self) -> Option<Vec<(PromptSection, &str)>> {
        let (mut found, mut rest) = (Vec::new(), &*self.system);
        for section in &self.sections {
            if section.bytes > 0 && rest.len() < self.system.len() {
                rest = rest.strip_prefix(BETWEEN)?;
            }
            let (text, behind) = rest.split_at_checked(section.bytes)?;
            found.push((section.clone(), text));
            rest = behind;
        }
        (rest.is_empty() && !found.is_empty()).then_some(found)
    }

    /// Makes the system prompt of these sections, in the order of their layers. Sections of one layer keep their order.
    pub(crate) fn assemble<'a>(&mut self, sections: impl IntoIterator<Item = (PromptSection, &'a str)>) {
        let mut sections: Vec<_> = sections.into_iter().collect();
        sections.sort_by_key(|(section, _)| section.layer);
        let texts: Vec<&str> = sections.iter().map(|(_, text)| *text).filter(|text| !text.is_empty()).collect();
        self.system = texts.join(BETWEEN).into();
        let sized = |(section, text): (PromptSection, &str)| PromptSection { bytes: text.len(), ..section };
        self.sections = sections.into_iter().map(sized).collect();
    }

    /// Puts the prompt of the agent `name` in the place of the one that is there. A prompt without sections is replaced whole.
    pub(crate) fn set_persona(&mut self, name: &str, text: &Arc<str>) {
        let before = self.clone();
        let Some(mut sections) = before.divided() else {
            (self.system, self.sections) = (text.clone(), Vec::new());
            return;
        };
        let own = PromptSection::new(Layer::Agent, name);
        match sections.iter_mut().find(|(section, _)| section.layer == Layer::Agent) {
            Some(found) => *found = (own, text),
            None => sections.push((own, text)),
        }
        self.assemble(sections);
    }

    /// Adds words of the agent `name` behind the prompt.
    pub(crate) fn add_to_prompt(&mut self, name: &str, text: &str) {
        if self.divided().is_some() {
            let section = PromptSection::new(Layer::Addition, name);
            self.sections.push(PromptSection { bytes: text.len(), ..section });
        }
        self.system = format!("{}{BETWEEN}{text}", self.system).into();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn settings() -> Settings {
        Settings::new("/w", "p/m".parse().unwrap())
    }

    fn layered() -> Settings {
        let mut settings = settings();
        let section = |layer, name| PromptSection::new(layer, name);
        settings.assemble([
            (section(Layer::Rules, "AGENTS.md"), "Obey."),
            (section(Layer::Environment, "env"), "Here."),
            (section(Layer::Rules, "late"), ""),
            (section(Layer::Agent, "build"), "You are one."),
        ]);
        settings
    }

    fn told(settings: &Settings) -> Vec<(Layer, String, &str)> {
        settings.sections().into_iter().map(|(section, text)| (section.layer, section.name, text)).collect()
    }

    /// P-01, P-07, D-07: the layers stand in their order whatever order they came in, and each section is found again in the text.
    #[test]
    fn the_sections_of_a_prompt_stand_in_the_order_of_their_layers() {
        let settings = layered();
        assert_eq!(&*settings.system, "You are one.\n\nHere.\n\nObey.");
        let expected = [
            (Layer::Agent, "build", "You are one."),
            (Layer::Environment, "env", "Here."),
            (Layer::Rules, "AGENTS.md", "Obey."),
            (Layer::Rules, "late", ""),
        ];
        assert_eq!(told(&settings), expected.map(|(layer, name, text)| (layer, name.to_owned(), text)));
    }

    /// D-07: an agent replaces its own section and adds words at the end; the environment and the rules stay. A prompt that has no
    /// sections, or that a host has set since, is replaced whole.
    #[test]
    fn an_agent_replaces_its_own_section_and_no_other() {
        let mut settings = layered();
        settings.set_persona("review", &"You review.".into());
        settings.add_to_prompt("plan", "Plan.");
        assert_eq!(&*settings.system, "You review.\n\nHere.\n\nObey.\n\nPlan.");
        let last = settings.sections().pop().unwrap();
        assert_eq!((last.0.layer, last.0.name.as_str(), last.1), (Layer::Addition, "plan", "Plan."));
        settings.system = "set by the host".into();
        assert_eq!(told(&settings), [(Layer::Agent, "system".to_owned(), "set by the host")]);
        settings.set_persona("review", &"You review.".into());
        assert_eq!(&*settings.system, "You review.");
        settings.add_to_prompt("plan", "Plan.");
        assert_eq!(&*settings.system, "You review.\n\nPlan.");
    }
}
