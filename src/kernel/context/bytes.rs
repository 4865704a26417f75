//! How large a request is in bytes, and what is done where that is too much.
//!
//! Providers and the gateways before them refuse a body that is too large, whatever its tokens are. How large it may be, few of them
//! say. So a session learns it: after such a refusal, three quarters of the refused size count as the limit of the model, on the
//! tape as the learned window does (`RequestFailed`). Before any refusal, the limit is that of the largest body that every large
//! provider takes.
//!
//! A request over the limit is first made without its oldest files, then without old outputs, and then a summary replaces
//! its older part (`compact.rs`).
//!
//! A change must keep this: sizes are our estimate, of which only the proportion counts; and what is left out stays on the tape.

use crate::{
    kernel::{
        Record,
        context::{bytes_of, fullness, with_files},
        draft::Draft,
    },
    model::{Item, UserItem},
    words::message::ModelRef,
};

/// The most bytes of a request before a provider has refused one. The messages API takes 32 MB.
const REQUEST_BYTES_MAX: u64 = 30 << 20;

/// The bytes of the next request, by our estimate.
pub(in crate::kernel) fn of_request(draft: &Draft<'_>) -> u64 {
    let state = &draft.state;
    // Schemas of tools are ASCII, of which four characters count as a token.
    let tools = draft.env.tools_tokens(&state.env).saturating_mul(4);
    state.context.bytes.saturating_add(state.settings.system.len() as u64).saturating_add(tools)
}

/// The bytes of the next request, with the steering messages that will join it.
fn with_steering(draft: &Draft<'_>) -> u64 {
    let waiting = draft.state.steering.iter().map(|waiting| {
        let (id, parts) = (waiting.message.id.clone(), waiting.message.parts.clone());
        bytes_of(&Item::User(UserItem { id, parts, fragment: Default::default() }))
    });
    of_request(draft).saturating_add(waiting.sum())
}

/// The limit that the refusal of the present request teaches.
pub(in crate::kernel) fn learned(draft: &Draft<'_>) -> u64 {
    of_request(draft) / 4 * 3
}

/// The limit of a model that a refusal taught; `None` where there was none.
pub(in crate::kernel) fn limit_of(draft: &Draft<'_>, model: &ModelRef) -> Option<u64> {
    let learned = &draft.state.context.learned_bytes;
    learned.iter().find(|(of, _)| of == model).map(|(_, limit)| *limit)
}

/// The limit of the next request.
fn limit(draft: &Draft<'_>) -> u64 {
    limit_of(draft, fullness::model_of(draft)).unwrap_or(REQUEST_BYTES_MAX)
}

/// Whether the next request is within its limit.
pub(in crate::kernel) fn fit(draft: &Draft<'_>) -> bool {
    with_steering(draft) < limit(draft)
}

/// Leaves out the oldest files of a request that is over its limit, until a quarter of the limit is free. Gives whether any could go.
pub(in crate::kernel) fn leave_out_files(draft: &mut Draft<'_>) -> bool {
    if fit(draft) {
        return false;
    }
    let over = with_steering(draft).saturating_sub(limit(draft) / 4 * 3);
    let files = with_files(&draft.state.history, over);
    if files.is_empty() {
        return false;
    }
    draft.write(None, Record::Pruned { results: Vec::new(), files });
    true
}
