//! How many tokens a provider reads for an answer that it begins ahead: by its own figures for the answer before, else by our estimate.

use std::sync::Arc;

use crate::model::{
    ModelAnswer, Request, ToolSpec, UserItem,
    estimate::{of_answer, of_item, of_text, of_user},
};

/// The tokens of a request, of its answer, and of the messages that came then.
pub(super) fn reads(request: &Request, answer: &ModelAnswer, read: &[Arc<UserItem>]) -> u64 {
    let before = match answer.usage.if_read().total() {
        0 => {
            let tool =
                |tool: &ToolSpec| of_text(&tool.name) + of_text(&tool.description) + of_text(&tool.schema.to_string());
            let beside = of_text(&request.system) + request.tools.iter().map(tool).sum::<u64>();
            beside + request.history.iter().map(|item| of_item(item)).sum::<u64>() + of_answer(answer)
        }
        total => total - answer.usage.reasoning,
    };
    before + read.iter().map(|item| of_user(item)).sum::<u64>()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::{
        model::Item,
        words::{
            message::{Finish, Part},
            usage::Usage,
        },
    };

    /// A provider that counts only what it wrote has said nothing of what it read.
    #[test]
    fn figures_that_cannot_be_true_are_none() {
        let user = |parts| UserItem::new("a".into(), parts);
        let request = Request::new([Item::User(user(vec![Part::text("look")]))].into_iter().collect());
        let reads_after = |usage| {
            let answer = ModelAnswer { usage, ..ModelAnswer::new(Vec::new(), Finish::Steered) };
            reads(&request, &answer, &[])
        };
        assert_eq!(reads_after(Usage::default()), 5);
        assert_eq!(reads_after(Usage::new(0, 5)), reads_after(Usage::default()));
        assert_eq!(reads_after(Usage::new(900, 5)), 905);
        // An image is read as an image, and not as the text of its bytes.
        let answer = ModelAnswer { usage: Usage::new(900, 5), ..ModelAnswer::new(Vec::new(), Finish::Steered) };
        let image = user(vec![Part::file("image/png", None, &[0; 900_000])]);
        assert_eq!(reads(&request, &answer, &[Arc::new(image)]) - 905, 1_204);
    }
}
