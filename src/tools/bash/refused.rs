//! Finds in the result of a confined command what the kernel refused it.
//! The kernel reports a refusal only to the program, and the program says it in its output, or not at all. So this reads the
//! output, and may be wrong: a file may be refused by its mode as well. The finding decides only whether a person is asked, and
//! what a model reads; a change must let nothing else depend on it. The code is pure.

use crate::tool::{ToolResult, one_line};

/// What programs say of a refusal, in small letters.
const SIGNS: &[&str] = &[
    "permission denied",
    "operation not permitted",
    "read-only file system",
    "eacces",
    "eperm",
    "access denied",
    "not a git repository",
    "could not resolve host",
    "couldn't resolve host",
    "temporary failure in name resolution",
    "name or service not known",
    "eai_again",
    "network is unreachable",
    "dns error",
];

/// How many lines are shown to people and models.
const LINES_MAX: usize = 3;

/// What the kernel refused to a command, or why it could not confine it.
pub(super) struct Refused {
    /// Lines of the command's output, or a sentence.
    why: String,
    how: How,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    /// It ran to its end without what was refused.
    WentOn,
    /// It failed over it.
    Failed,
    /// It did not run.
    NotRun,
}

/// The lines of a result in which a program says that it was refused something.
pub(super) fn of(result: &ToolResult) -> Option<Refused> {
    let says = |line: &&str| {
        let line = line.to_ascii_lowercase();
        SIGNS.iter().any(|sign| line.contains(sign))
    };
    let lines: Vec<_> = result.content.lines().filter(says).take(LINES_MAX).map(|line| one_line(line.trim())).collect();
    let how = if result.details["exit_code"] == 0 { How::WentOn } else { How::Failed };
    // A command that timed out or was stopped is not run again.
    let ended = !result.is_error() && result.details["timed_out"] != true;
    (!lines.is_empty() && ended).then(|| Refused { why: lines.join("\n"), how })
}

impl Refused {
    /// A command that could not be confined.
    pub(super) fn unheld(why: String) -> Refused {
        Refused { why, how: How::NotRun }
    }

    /// Whether a person is asked if it may run as it is.
    pub(super) fn asks(&self) -> bool {
        self.how != How::WentOn
    }

    /// What is asked.
    pub(super) fn title(&self) -> &'static str {
        if self.how == How::NotRun { "Run it without confinement?" } else { "Run it again without confinement?" }
    }

    /// What a person reads before the answer.
    pub(super) fn details(&self) -> String {
        let what = match self.how {
            How::NotRun => "Nobody was asked about this command, so it would have to run confined, and it did not run:",
            How::Failed | How::WentOn => {
                "Nobody was asked about this command, so it ran confined: it may read, and has no network, starts no program of the \
                 workspace, and writes no file but those of its redirects that the rules let it write. That did not do:"
            }
        };
        format!("{what}\n{}", self.why)
    }

    /// What the model reads after the output.
    pub(super) fn note(&self, answer: &str) -> String {
        let why = self.why.replace('\n', "; ");
        match self.how {
            How::NotRun => format!("the command was not run: nobody was asked about it, and {why}. {answer}"),
            How::Failed | How::WentOn => format!(
                "\n\n[Nobody was asked about this command, so it ran confined: no network, no program of the workspace, no writes but \
                 to $TMPDIR and allowed redirects. Refused: {why} {answer}]"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_refusal_is_found_where_a_program_says_so() {
        let refused = |text: &str, code: i32| {
            of(&ToolResult::ok(text).with_details(json!({ "exit_code": code, "timed_out": false })))
                .map(|refused| (refused.asks(), refused.why))
        };
        let touch = "touch: cannot touch 'x': Permission denied";
        assert_eq!(refused(&format!("a\n  {touch}\nb"), 1), Some((true, touch.to_owned())));
        assert_eq!(refused(touch, 0), Some((false, touch.to_owned())));
        assert_eq!(refused("curl: (6) Could not resolve host: x", 6).map(|(asks, _)| asks), Some(true));
        assert_eq!(refused("no such file", 1), None);
        let late = ToolResult::ok(touch).with_details(json!({ "exit_code": null, "timed_out": true }));
        assert!(of(&late).is_none());
    }
}
