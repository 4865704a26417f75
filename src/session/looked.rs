//! What a decision saw of a model and of the tools, where nothing else that it wrote says so.
//!
//! A request that is made says what it was decided by: the model's window, its price, the size of the tools. One that a budget
//! did not allow was decided by the same, and says it here, so that a replay looks at what was seen then.

use serde::{Deserialize, Serialize};

use crate::{context::Window, message::ModelRef, model::Price, session::decide::Draft};

/// A model as a decision saw it, and what the tools would have taken in a request to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Looked {
    /// Which model.
    pub model: ModelRef,
    /// Its window, as the host knows it.
    pub window: Window,
    /// What its tokens cost, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// The tools, in estimated tokens.
    pub tools: u64,
}

impl Looked {
    /// The model as it is seen now.
    pub(super) fn at(draft: &Draft<'_>, model: &ModelRef) -> Looked {
        let windows = draft.env.windows;
        Looked {
            model: model.clone(),
            window: windows.window(model),
            price: windows.price(model),
            tools: draft.env.tools_tokens,
        }
    }
}
