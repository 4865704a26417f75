//! What a command used: tokens and cost of the session, of its tasks and of its summaries, as the difference of two states.
//!
//! The sums of a state are on its tape, those of a task with its end. So nothing is counted twice or forgotten, whatever crashes, and
//! no second book is kept. A task that is not over is not in the sums yet.

use serde_json::{Map, Value, json};
use tamtam::{
    ModelRef,
    model::known_price,
    session::{Spent, State},
};

use super::Hints;
use crate::{models, sessions::count};

/// What was used, by the session itself and by its tasks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Used {
    own: Spent,
    by_tasks: Spent,
}

impl Used {
    /// All that a session used up to a state.
    pub(super) fn of(state: &State) -> Used {
        Used { own: state.spent, by_tasks: state.spent_by_tasks }
    }

    /// What was used since an earlier moment.
    pub(super) fn since(&self, before: &Used) -> Used {
        Used { own: self.own.since(&before.own), by_tasks: self.by_tasks.since(&before.by_tasks) }
    }

    fn in_all(&self) -> Spent {
        self.own.plus(&self.by_tasks)
    }

    /// The fields of the result: all that was used, and the part of the tasks.
    pub(super) fn fields(&self) -> Map<String, Value> {
        let in_all = self.in_all();
        let mut fields = Map::new();
        fields.insert("usage".to_owned(), json!(in_all.usage));
        if in_all.estimated > 0 {
            fields.insert("estimated".to_owned(), json!(in_all.estimated));
        }
        if let Value::Object(cost) = json!(in_all.cost.shown()) {
            fields.extend(cost);
        }
        if let Some(tasks) = self.by_tasks.shown_as_tasks(self.own.tasks) {
            fields.insert("tasks".to_owned(), json!(tasks));
        }
        fields
    }

    /// The last line for people; `None` if no request was made.
    pub(super) fn line(&self, hints: &Hints) -> Option<String> {
        let Spent { requests, estimated, usage, cost, .. } = self.in_all();
        let read = usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
        let written = usage.output.saturating_add(usage.reasoning);
        let about = if estimated > 0 { "about " } else { "" };
        let why = match cost.exact() {
            Some(_) => String::new(),
            None => format!(" ({})", unpriced(&hints.model, &models::shown(&hints.base_url))),
        };
        let tasks = match self.by_tasks.shown_as_tasks(self.own.tasks) {
            Some(tasks) => {
                format!(
                    "; {} of it: {} tokens, {}",
                    count(tasks.count, "task"),
                    tasks.usage.total(),
                    self.by_tasks.cost
                )
            }
            None => String::new(),
        };
        (requests > 0).then(|| format!("{about}{read} tokens in, {written} out; cost {cost}{why}{tasks}"))
    }
}

/// Why the cost of a model's requests is not known.
fn unpriced(model: &ModelRef, at: &str) -> String {
    match known_price(&model.provider, &model.model) {
        Some(_) if !at.is_empty() => format!(
            "the price of {model} in `tamtam models` holds at its provider's own address, and {at} is another: give it with \
             --price IN/OUT"
        ),
        _ => format!("no price of {model} is known: give it with --price IN/OUT"),
    }
}
