//! How full the context of the next request is: the model that is asked, its window, and our estimate of the request.
//!
//! A change must keep this: the window of a model is never larger than a refusal of its provider taught. Nothing here writes an
//! entry; `compact.rs` decides what follows.

use crate::{
    kernel::{
        context::{Window, of_item, of_text},
        draft::Draft,
    },
    model::{Item, UserItem},
    words::message::ModelRef,
};

/// The window of the running turn's model (between turns, of the session's), and the tokens that the next request would take.
pub(in crate::kernel) fn fullness(draft: &Draft<'_>) -> (Window, u64) {
    let window = window_of(draft, model_of(draft));
    (window, draft.state.context.meter.used(estimated(draft)))
}

/// The model of the running turn; between turns, of the session.
pub(in crate::kernel) fn model_of<'d>(draft: &'d Draft<'_>) -> &'d ModelRef {
    draft.state.model_now()
}

/// The window of a model: as the host knows it, or smaller if the provider refused a request that should have fitted.
pub(super) fn window_of(draft: &Draft<'_>, model: &ModelRef) -> Window {
    let window = draft.model(model).window;
    let learned = draft.state.context.learned.iter().find(|(of, learned)| of == model && *learned < window.context);
    let window = learned.map_or(window, |(_, learned)| Window::new(*learned, window.output));
    match draft.state.settings.compaction.reserve {
        Some(reserve) if learned.is_none() || reserve < window.reserve => window.with_reserve(reserve),
        _ => window,
    }
}

/// The same as [`fullness`], with the steering messages that will join the next request.
pub(in crate::kernel) fn with_steering(draft: &Draft<'_>) -> (Window, u64) {
    let (window, used) = fullness(draft);
    let waiting = draft.state.steering.iter().map(|waiting| {
        let parts = waiting.message.parts.clone();
        of_item(&Item::User(UserItem { id: waiting.message.id.clone(), parts, fragment: Default::default() }))
    });
    (window, used.saturating_add(draft.state.context.meter.corrected(waiting.sum())))
}

/// Our estimate of the whole next request, in tokens.
pub(in crate::kernel) fn estimated(draft: &Draft<'_>) -> u64 {
    let state = &draft.state;
    let added = state.turn.as_ref().map_or(0, |turn| of_text(&turn.system));
    let beside =
        of_text(&state.settings.system).saturating_add(draft.env.tools_tokens(&state.env)).saturating_add(added);
    state.context.estimated.saturating_add(beside)
}
