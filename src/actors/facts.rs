//! What tools say of calls before these are judged, asked beside the session: their code may panic, and may hang.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;

use crate::tool::{CallFacts, Toolbox};

/// How long a tool may take to say what a call wants. It only looks at the arguments.
const LIMIT: Duration = Duration::from_secs(5);

/// Asks what each call wants, by the name of its tool and its arguments, in that order: all at once, and each on a thread of its own.
/// One whose tool does not say in time cannot run.
pub(crate) async fn ask(toolbox: &Toolbox, calls: impl IntoIterator<Item = (String, Arc<str>)>) -> Vec<CallFacts> {
    let asked = calls.into_iter().map(|(name, input)| {
        let (toolbox, tool) = (toolbox.clone(), name.clone());
        let said = tokio::task::spawn_blocking(move || toolbox.facts(&name, &input));
        async move {
            match tokio::time::timeout(LIMIT, said).await {
                Ok(Ok(facts)) => facts,
                Ok(Err(_)) => CallFacts::unknown(&tool, "crashed over these arguments"),
                Err(_) => CallFacts::unknown(&tool, "did not say in time what this call wants"),
            }
        }
    });
    join_all(asked).await
}
