//! A question that a running call puts to a person: [`Question`] is what it asks, [`QuestionAnswer`] what comes back.
//!
//! A tool that finds out while it runs that it needs a permission, or an answer of a person, calls [`ToolContext::ask`]. The
//! accesses of the question are judged by the rules like those that the call had named before. If the rules ask, or the question
//! has no access, the question is on the tape as an ask of the call, and ends with the call (`actor/questions.rs`,
//! `kernel/turn/question.rs`). Both types are on tapes: a change must not rename or retype a field or a variant, and must give each
//! new field a serde default. A question comes from a tool, so its size must be bounded here, before it reaches the core: texts
//! are cut, and a question with too many accesses is refused, because a person would grant what was cut off.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    model::BoxFuture,
    tool::{Access, ToolContext},
};

/// The longest title of a question, in bytes.
pub const QUESTION_TITLE_BYTES_MAX: usize = 1_024;
/// The longest details of a question, in bytes.
pub const QUESTION_DETAILS_BYTES_MAX: usize = 64 * 1_024;
/// The most accesses of one question, and the most bytes of their permissions and patterns together.
const ACCESS_MAX: usize = 64;
const ACCESS_BYTES_MAX: usize = 64 * 1_024;
/// The mark at the end of a text that was cut.
const CUT: &str = "\n... [truncated]";

/// A question to a person.
///
/// With at least one access the question is about a permission, and the rules may answer it. Without an access no rule can answer
/// it, and a person always is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Question {
    /// What is asked, in one line.
    pub title: String,
    /// What a person should read before the answer, such as the text of a plan; empty for none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub details: String,
    /// What the call wants to do if the answer is yes. Empty on tapes: there the accesses are next to the question.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub access: Vec<Access>,
}

impl Question {
    /// A question that only a person answers.
    #[must_use]
    pub fn new(title: impl Into<String>) -> Question {
        Question { title: title.into(), details: String::new(), access: Vec::new() }
    }

    /// A question about a permission: the rules answer it where they can.
    #[must_use]
    pub fn about(title: impl Into<String>, access: impl IntoIterator<Item = Access>) -> Question {
        Question { access: access.into_iter().collect(), ..Question::new(title) }
    }

    /// Sets what a person should read before the answer.
    #[must_use]
    pub fn with_details(mut self, details: impl Into<String>) -> Question {
        self.details = details.into();
        self
    }

    /// The size of its texts in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.title.len() + self.details.len()
    }

    /// The same question with texts of a bounded size, or why it cannot be asked. Accesses are never cut: what a person did not
    /// read would be granted.
    fn bounded(mut self) -> Result<Question, QuestionAnswer> {
        let patterns = self.access.iter().map(|access| access.permission.len() + access.pattern.len()).sum::<usize>();
        if self.access.len() > ACCESS_MAX || patterns > ACCESS_BYTES_MAX {
            let why =
                format!("a question may name {ACCESS_MAX} accesses and {ACCESS_BYTES_MAX} bytes of patterns at most");
            return Err(QuestionAnswer::Refused { why });
        }
        self.title = cut(self.title, QUESTION_TITLE_BYTES_MAX);
        self.details = cut(self.details, QUESTION_DETAILS_BYTES_MAX);
        Ok(self)
    }
}

fn cut(mut text: String, bytes_max: usize) -> String {
    if text.len() > bytes_max {
        text.truncate(text.floor_char_boundary(bytes_max - CUT.len()));
        text.push_str(CUT);
    }
    text
}

/// The answer to a [`Question`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum QuestionAnswer {
    /// Yes: a person says so, a rule allows it, or a person granted the same before for longer than once.
    Granted,
    /// A person says no. Without a message the turn is ended, and the call gets a stop.
    Rejected {
        /// What the person says.
        message: Option<String>,
    },
    /// A rule denies it. No one was asked.
    Denied {
        /// The layer and the rule that decided.
        by: String,
    },
    /// A person was asked, and did not answer in time.
    Expired,
    /// A person would have to be asked, but no listener could answer.
    Unheard,
    /// The question was withdrawn: the call was stopped, has ended, or a steering message came first.
    Cancelled,
    /// It cannot be asked: too many questions of one call, a question that is too large, or a disk that takes no entry.
    Refused {
        /// Why.
        why: String,
    },
}

impl QuestionAnswer {
    /// Whether the answer is yes.
    #[must_use]
    pub fn is_granted(&self) -> bool {
        matches!(self, QuestionAnswer::Granted)
    }
}

impl std::fmt::Display for QuestionAnswer {
    /// The answer in words for a model.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            QuestionAnswer::Granted => f.write_str("The user agreed."),
            QuestionAnswer::Rejected { message: Some(message) } => write!(f, "The user said no, and says: {message}"),
            QuestionAnswer::Rejected { message: None } => f.write_str("The user said no."),
            QuestionAnswer::Denied { by } => write!(f, "Permission denied by {by}."),
            QuestionAnswer::Expired => f.write_str("Permission denied: nobody answered the question in time."),
            QuestionAnswer::Unheard => {
                f.write_str("Permission denied: a person must be asked, and nobody listens who could answer.")
            }
            QuestionAnswer::Cancelled => f.write_str("The question was withdrawn before it was answered."),
            QuestionAnswer::Refused { why } => write!(f, "The question could not be asked: {why}."),
        }
    }
}

/// The way of a call's questions to its session. Without a session no one can be asked.
#[derive(Clone, Default)]
pub(crate) struct Asks(pub(crate) Option<Arc<PutQuestion>>);

/// Puts a question to the session. The future must end with the call.
type PutQuestion = dyn Fn(Question) -> BoxFuture<'static, QuestionAnswer> + Send + Sync;

impl ToolContext {
    /// Asks a person, or the rules, while the call runs.
    ///
    /// The rules judge the accesses of the question first: if they allow all of them, the answer is
    /// [`Granted`](QuestionAnswer::Granted) at once, and if they deny one, it is [`Denied`](QuestionAnswer::Denied) at once. Else
    /// a durable ask is on the session's tape. It reaches the listeners of the session, or of a child's topmost session, and is
    /// answered like every other ask ([`Session::answer_as`](crate::Session::answer_as)). It [expires](QuestionAnswer::Expired)
    /// at the session's limit for asks. The time that a call waits here does not count towards the
    /// [limit](crate::tool::Tool::limit) of the call.
    ///
    /// The ask ends with the call. It is also withdrawn if the call gets a stop, and if a steering message skips the calls that
    /// ask. If the process dies, the ask stays open with the time that it had left. A call that runs again and asks an equal
    /// question (the same texts and accesses) joins it, or has the answer that a person gave meanwhile.
    ///
    /// A call has at most 8 open questions at the same time and 64 in all; a further one is
    /// [refused](QuestionAnswer::Refused). The title is cut at 1 KiB and the details at 64 KiB. Title and details pass the output
    /// filters of hooks, because they are stored.
    ///
    /// **Cancellation.** Dropping the future takes nothing back: the ask stays open until the call ends.
    ///
    /// A [detached](ToolContext::detached) call cannot ask: the answer is [`Unheard`](QuestionAnswer::Unheard).
    ///
    /// ```
    /// use tamtam::tool::{self, Access, NoArguments, Question};
    ///
    /// let deploy = tool::typed("deploy", "Deploys what is built.", |_: NoArguments, cx| async move {
    ///     let question = Question::about("Deploy to production?", [Access::new("deploy", "production")]);
    ///     match cx.ask(question.with_details("3 services change.")).await {
    ///         answer if answer.is_granted() => Ok("Deployed."),
    ///         answer => Err(answer.to_string()),
    ///     }
    /// });
    /// # drop(deploy);
    /// ```
    pub async fn ask(&self, question: Question) -> QuestionAnswer {
        let Some(put) = &self.asks.0 else { return QuestionAnswer::Unheard };
        let filtered = Question {
            title: self.filters.text(question.title),
            details: self.filters.text(question.details),
            access: question.access,
        };
        let question = match filtered.bounded() {
            Ok(question) => question,
            Err(answer) => return answer,
        };
        tokio::select! {
            // A call that must stop hears so before the disk has the record of the stop.
            biased;
            () = self.cancelled() => QuestionAnswer::Cancelled,
            answer = put(question) => answer,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// E-10: what a tool says is bounded, and no access is left out of what a person reads.
    #[test]
    fn a_question_has_a_bounded_size() {
        let long = Question::new("é".repeat(1_000)).with_details("x".repeat(100_000));
        let long = long.bounded().unwrap();
        assert!(long.title.len() <= QUESTION_TITLE_BYTES_MAX && long.title.ends_with(CUT));
        assert!(long.details.len() <= QUESTION_DETAILS_BYTES_MAX && long.details.ends_with(CUT));
        let short = Question::new("Go on?").with_details("all of it");
        assert_eq!(short.clone().bounded().unwrap(), short);
        let many = Question::about("All?", (0..65).map(|n| Access::new("edit", n.to_string())));
        assert!(matches!(many.bounded().unwrap_err(), QuestionAnswer::Refused { .. }));
    }
}
