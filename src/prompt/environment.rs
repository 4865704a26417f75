//! The providers of the environment: the texts about a session's surroundings, and how they are collected.
//!
//! Each provider is asked once for a session, in its own task, under a time limit. A provider that fails, panics or is slow is
//! left out, and its section says so; the session is still made. A change must keep that, and that a provider's text is bounded:
//! providers are code of a host, the session cannot be used before they have answered, and each request pays for their text.

use std::{path::PathBuf, sync::Arc, time::Duration};

use futures_util::future::join_all;
use tokio::{runtime::Handle, time::timeout};
use tokio_util::task::AbortOnDropHandle;

use super::text::cut_at_line;
use crate::{
    kernel::{Layer, PromptSection},
    model::BoxFuture,
    words::{message::ModelRef, pointers::pointers},
};

/// How long a provider may take. The session cannot be used before.
const LIMIT: Duration = Duration::from_secs(2);

/// Bytes of all texts of one provider.
const BYTES_MAX: usize = 64 * 1024;

/// Sections of one provider.
const SECTIONS_MAX: usize = 256;

/// Tells new sessions of their surroundings: of a repository, of a language server, of the rules of a project.
///
/// A runtime asks its providers ([`Builder::environment`](crate::runtime::Builder::environment)) once for each session that is
/// made: not again for the next message, after a crash, or for a fork. A child that works in its parent's folder has its parent's
/// sections. So a text must stay useful for the whole session. It is on the tape.
///
/// ```
/// use std::sync::Arc;
/// use tamtam::{
///     Runtime, SessionOptions,
///     model::{BoxFuture, Scripted},
///     runtime::{EnvironmentProvider, Layer, Place, Section},
/// };
///
/// struct Tenant;
///
/// impl EnvironmentProvider for Tenant {
///     fn name(&self) -> &str {
///         "tenant"
///     }
///
///     fn sections<'a>(&'a self, _: &'a Place) -> BoxFuture<'a, Result<Vec<Section>, String>> {
///         Box::pin(async { Ok(vec![Section::new(Layer::Environment, "tenant", "You work for Acme.")]) })
///     }
/// }
///
/// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
/// # let folder = tempfile::tempdir()?;
/// let model = Arc::new(Scripted::new([]));
/// let runtime = Runtime::builder().in_memory().model(model).environment(Tenant).start().await?;
/// let session = runtime.create(SessionOptions::new(folder.path())).await?;
/// assert!(session.state().await?.settings.system.ends_with("You work for Acme."));
/// runtime.shutdown().await;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub trait EnvironmentProvider: Send + Sync + 'static {
    /// Its name, for people.
    fn name(&self) -> &str;

    /// What it has to say. An error is shown to people in its place, and the session is made without it. Sections without a text
    /// and a note are left out, as are those behind the 256th, which a note says; all texts together may have 64 KiB, and what is
    /// beyond is cut off and marked.
    ///
    /// The future is dropped after two seconds, and when the caller of `create` goes away. Work that blocks belongs on a blocking
    /// thread.
    fn sections<'a>(&'a self, place: &'a Place) -> BoxFuture<'a, Result<Vec<Section>, String>>;
}

pointers!(EnvironmentProvider {
    fn name(&self) -> &str;
    fn sections<'a>(&'a self, place: &'a Place) -> BoxFuture<'a, Result<Vec<Section>, String>>;
});

/// What a provider may know of the session that is made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// The folder that the session works in: absolute, and without links.
    pub workspace: PathBuf,
    /// The model that answers, until another is chosen.
    pub model: ModelRef,
}

impl Place {
    /// A place, for the tests of a provider.
    #[must_use]
    pub fn new(workspace: impl Into<PathBuf>, model: ModelRef) -> Place {
        Place { workspace: workspace.into(), model }
    }
}

/// One section of a system prompt, with its text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Section {
    /// Its layer: its position in the prompt.
    pub layer: Layer,
    /// Its name.
    pub name: String,
    /// Where it comes from: a path, or the name of the provider if it is empty.
    pub origin: String,
    /// The text. Empty for a section that was left out.
    pub text: String,
    /// Why it was cut or left out, for people; the model does not see it.
    pub note: Option<String>,
}

impl Section {
    /// A section of this text.
    #[must_use]
    pub fn new(layer: Layer, name: impl Into<String>, text: impl Into<String>) -> Section {
        Section { layer, name: name.into(), origin: String::new(), text: text.into(), note: None }
    }

    /// A section that was left out, and why.
    #[must_use]
    pub fn left_out(layer: Layer, name: impl Into<String>, why: impl Into<String>) -> Section {
        Section { note: Some(why.into()), ..Section::new(layer, name, "") }
    }

    /// Sets where it comes from.
    #[must_use]
    pub fn from_origin(mut self, origin: impl Into<String>) -> Section {
        self.origin = origin.into();
        self
    }

    pub(super) fn sized(&self) -> PromptSection {
        let section = PromptSection::new(self.layer, self.name.clone());
        PromptSection { origin: self.origin.clone(), note: self.note.clone(), ..section }
    }
}

/// A provider and its name.
pub(crate) type Named = (String, Arc<dyn EnvironmentProvider>);

/// Asks all providers at once. Their sections come in the order of the providers. Dropping the future ends what is asked.
pub(crate) async fn ask(providers: &[Named], place: Place, tokio: &Handle) -> Vec<Section> {
    let place = Arc::new(place);
    let asked = providers.iter().map(|(name, provider)| {
        let (provider, place) = (provider.clone(), place.clone());
        let asked = AbortOnDropHandle::new(tokio.spawn(async move { provider.sections(&place).await }));
        async move {
            let why = match timeout(LIMIT, asked).await {
                Ok(Ok(Ok(sections))) => return bounded(name, sections),
                Ok(Ok(Err(why))) => cut_at_line(&why, 1_000).0.to_owned(),
                Ok(Err(_)) => "it crashed".to_owned(),
                Err(_) => format!("it did not answer within {} s", LIMIT.as_secs()),
            };
            vec![Section::left_out(Layer::Environment, name.as_str(), why).from_origin(name.as_str())]
        }
    });
    join_all(asked).await.into_iter().flatten().collect()
}

/// The sections of one provider, as far as there is room for them.
fn bounded(provider: &str, mut sections: Vec<Section>) -> Vec<Section> {
    sections.retain(|section| !section.text.trim().is_empty() || section.note.is_some());
    if let Some(more) = sections.len().checked_sub(SECTIONS_MAX).filter(|more| *more > 0) {
        sections.truncate(SECTIONS_MAX);
        let why = format!("a provider may have {SECTIONS_MAX} sections: {more} are left out");
        sections.push(Section::left_out(Layer::Environment, provider, why));
    }
    let mut room = BYTES_MAX;
    for section in &mut sections {
        let (text, is_cut) = cut_at_line(section.text.trim(), room);
        if is_cut {
            section.note = Some(format!("cut: a provider may say {BYTES_MAX} bytes in all"));
        }
        section.text = text.to_owned();
        room -= section.text.len();
        if section.origin.is_empty() {
            provider.clone_into(&mut section.origin);
        }
    }
    sections
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    /// A provider that does one thing.
    struct Odd(&'static str);

    impl EnvironmentProvider for Odd {
        fn name(&self) -> &str {
            self.0
        }

        fn sections<'a>(&'a self, _: &'a Place) -> BoxFuture<'a, Result<Vec<Section>, String>> {
            Box::pin(async {
                let said = |text: String| Ok(vec![Section::new(Layer::Environment, "said", text)]);
                match self.0 {
                    "hangs" => std::future::pending().await,
                    "crashes" => std::panic::panic_any("odd"),
                    "fails" => Err("no server".to_owned()),
                    "shouts" => said("a line\n".repeat(BYTES_MAX)),
                    "lists" => Ok((0..300).map(|n| Section::new(Layer::Rules, n.to_string(), "x")).collect()),
                    _ => said(" here \n".to_owned()),
                }
            })
        }
    }

    /// C-36: a provider that hangs, crashes, fails or says too much costs its own section and says so; the others are heard in
    /// their order.
    #[tokio::test(start_paused = true)]
    async fn a_provider_that_does_not_answer_costs_its_own_section() {
        let named = |name| (String::from(name), Arc::new(Odd(name)) as Arc<dyn EnvironmentProvider>);
        let providers = ["hangs", "crashes", "fails", "shouts", "works"].map(named);
        let began = tokio::time::Instant::now();
        let said = ask(&providers, Place::new("/w", "p/m".parse().unwrap()), &Handle::current()).await;
        assert_eq!(began.elapsed(), LIMIT);
        let notes: Vec<_> = said.iter().map(|section| section.note.as_deref().unwrap_or_default()).collect();
        let cut = "cut: a provider may say 65536 bytes in all";
        assert_eq!(notes, ["it did not answer within 2 s", "it crashed", "no server", cut, ""]);
        let texts: Vec<_> = said.iter().map(|section| section.text.as_str()).collect();
        assert_eq!([texts[0], texts[1], texts[2], texts[4]], ["", "", "", "here"]);
        assert!(texts[3].len() <= BYTES_MAX && texts[3].ends_with("a line"));
        assert_eq!(
            said.iter().map(|section| section.origin.as_str()).collect::<Vec<_>>(),
            providers.map(|(name, _)| name)
        );
    }

    /// What is left out is counted.
    #[tokio::test]
    async fn a_provider_with_too_many_sections_says_so() {
        let providers = [("lists".to_owned(), Arc::new(Odd("lists")) as Arc<dyn EnvironmentProvider>)];
        let said = ask(&providers, Place::new("/w", "p/m".parse().unwrap()), &Handle::current()).await;
        assert_eq!(said.len(), SECTIONS_MAX + 1);
        assert_eq!(said[SECTIONS_MAX].note.as_deref(), Some("a provider may have 256 sections: 44 are left out"));
    }
}
