//! Takes the numbers of cards out of all that people and models say, before anybody else sees it.

use tamtam::{
    Message, Part,
    hook::{Hook, HookContext, Input},
    model::{AnswerPart, BoxFuture},
};

pub struct NoCards;

/// The text with `[card]` for each run of 13 to 19 digits, blanks and dashes between them included.
pub fn without_cards(text: &str) -> String {
    let (mut clean, mut run) = (String::with_capacity(text.len()), String::new());
    for c in text.chars().chain(['\0']) {
        if c.is_ascii_digit() || (!run.is_empty() && matches!(c, ' ' | '-')) {
            run.push(c);
            continue;
        }
        let digits = run.chars().filter(char::is_ascii_digit).count();
        let kept = run.trim_end_matches([' ', '-']).len();
        match digits {
            13..=19 => clean.extend(["[card]", &run[kept..]]),
            _ => clean.push_str(&run),
        }
        run.clear();
        clean.extend((c != '\0').then_some(c));
    }
    clean
}

impl Hook for NoCards {
    fn name(&self) -> &str {
        "no cards"
    }

    fn sees_answers(&self) -> bool {
        true
    }

    fn sees_events(&self) -> bool {
        false
    }

    fn on_input<'a>(&'a self, _: &'a HookContext, mut message: Message) -> BoxFuture<'a, Input> {
        for part in &mut message.parts {
            if let Part::Text(text) = part {
                text.text = without_cards(&text.text);
            }
        }
        Box::pin(async { Input::Pass(Box::new(message)) })
    }

    fn on_answer<'a>(&'a self, _: &'a HookContext, mut parts: Vec<AnswerPart>) -> BoxFuture<'a, Vec<AnswerPart>> {
        for part in &mut parts {
            if let AnswerPart::Text { text, .. } = part {
                *text = without_cards(text);
            }
        }
        Box::pin(async { parts })
    }
}
