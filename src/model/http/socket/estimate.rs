//! How many tokens a provider reads for an answer that it begins ahead: by its own figures for the answer before, else by our estimate.

use std::sync::Arc;

use super::super::HttpModel;
use crate::model::{ModelAnswer, Request, UserItem, responses::create};

/// Our estimate of the tokens of a text with this many bytes.
pub(super) fn tokens(bytes: usize) -> u64 {
    bytes.div_ceil(4) as u64
}

/// The tokens of a request, of its answer, and of the messages that came then.
pub(super) fn reads(model: &HttpModel, request: &Request, answer: &ModelAnswer, read: &[Arc<UserItem>]) -> u64 {
    let before = match answer.usage.if_read().total() {
        0 => tokens(create(&model.endpoint, &model.rendering, request).len() + answer.text().len()),
        total => total - answer.usage.reasoning,
    };
    before + read.iter().map(|item| tokens(item.text().len())).sum::<u64>()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::{
        model::{Api, Endpoint, HttpOptions, Item},
        words::{
            message::{Finish, Part},
            usage::Usage,
        },
    };

    /// A provider that counts only what it wrote has said nothing of what it read.
    #[test]
    fn figures_that_cannot_be_true_are_none() {
        let endpoint = Endpoint::new(Api::OpenAiResponses, "p", "http://127.0.0.1:1", "m");
        let model = HttpModel::new(endpoint, HttpOptions::default()).unwrap();
        let request =
            Request::new([Item::User(UserItem::new("a".into(), vec![Part::text("look")]))].into_iter().collect());
        let reads_after = |usage| {
            let answer = ModelAnswer { usage, ..ModelAnswer::new(Vec::new(), Finish::Steered) };
            reads(&model, &request, &answer, &[])
        };
        assert!(reads_after(Usage::default()) > 5);
        assert_eq!(reads_after(Usage::new(0, 5)), reads_after(Usage::default()));
        assert_eq!(reads_after(Usage::new(900, 5)), 905);
    }
}
