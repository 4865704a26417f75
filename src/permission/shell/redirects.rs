//! Reads redirects: which files a command opens for reading or writing without running a program for it.
//!
//! Each file that a redirect opens is noted as read or written, in every folder that the command may be in; `/dev/null` and the
//! standard streams are not. A redirect whose file or operator is not known makes the command unclear. A change must keep that: a
//! file that is not noted here is judged by no rule.
//!
//! The grammar reads every word after the target of a redirect as one more target, and bash reads it as a word of the command;
//! this code follows bash. The end of a heredoc is found a second time, line by line, because everything after that line is
//! commands.

use tree_sitter::Node;

use crate::permission::shell::{
    Arg, Unclear,
    statements::Reader,
    tree::{Gap, gap},
    unclear,
    words::apart,
};

impl Reader<'_> {
    /// A redirect of a file. Words behind its target go to `behind`, if there is a command that takes them.
    pub(super) fn redirect(&mut self, node: Node<'_>, behind: Option<&mut Vec<Arg>>) -> Result<(), Unclear> {
        self.descriptor(node)?;
        let mut operator = "";
        let mut words = Vec::new();
        for (before, child) in self.source.children(node)? {
            if before == Gap::Line {
                return unclear("it has a line break in a redirect");
            }
            match child.kind() {
                "file_descriptor" => {}
                _ if !child.is_named() && operator.is_empty() => operator = child.kind(),
                kind => {
                    if !words.is_empty() {
                        apart(before)?;
                    }
                    words.push((kind, self.word(child)?, self.source.of(child)));
                }
            }
        }
        let mut words = words.into_iter();
        if !matches!(operator, "<&-" | ">&-") {
            let Some((kind, target, written)) = words.next() else {
                return unclear("it has a redirect without a target");
            };
            // Bash expands the word after these twice: a quoted `$(…)` would run.
            let plain = |c: char| c.is_ascii_alphanumeric() || "_./-+,:@%".contains(c);
            if matches!(operator, ">&" | "<&") && !written.chars().all(plain) {
                return unclear("it has a redirect whose word bash expands twice");
            }
            if kind != "process_substitution" {
                self.opened(operator, &target)?;
            }
        }
        match behind {
            Some(behind) => behind.extend(words.map(|(_, word, _)| word)),
            None if words.next().is_some() => return unclear("it has words behind a redirect"),
            None => {}
        }
        Ok(())
    }

    /// A number before a redirect is its descriptor only at the start of a word.
    pub(super) fn descriptor(&self, node: Node<'_>) -> Result<(), Unclear> {
        if names_a_variable(self.source.between(0, node.start_byte())) {
            return unclear("it has a redirect that sets a variable");
        }
        let Some(first) = node.child(0).filter(|child| child.kind() == "file_descriptor") else { return Ok(()) };
        let starts = self.source.between(0, node.start_byte()).chars().next_back();
        let starts = starts.is_none_or(|c| c.is_whitespace() || ";&|()".contains(c));
        match starts && self.source.of(first).chars().all(|c| c.is_ascii_digit()) {
            true => Ok(()),
            false => unclear("it has a number before a redirect that bash and the grammar read differently"),
        }
    }

    /// A file that is opened.
    fn opened(&mut self, operator: &str, target: &Arg) -> Result<(), Unclear> {
        let path = target.text.as_str();
        let is_number = !path.is_empty() && path.trim_end_matches('-').chars().all(|c| c.is_ascii_digit());
        if matches!(operator, "<&" | ">&") && is_number {
            return Ok(());
        }
        if target.is_unknown() || path.is_empty() {
            return unclear("it has a redirect whose file is not known before it runs");
        }
        if path.starts_with("/dev/tcp/") || path.starts_with("/dev/udp/") {
            return unclear("it has a redirect to the network");
        }
        if matches!(path, "/dev/null" | "/dev/stdin" | "/dev/stdout" | "/dev/stderr") {
            return Ok(());
        }
        let places = self.scan.places(path)?;
        match operator {
            "<" => self.scan.found.reads.extend(places),
            ">" | ">>" | ">|" | "&>" | "&>>" | ">&" => self.scan.found.writes.extend(places),
            _ => return unclear(format!("it has the redirect `{operator}`")),
        }
        Ok(())
    }

    /// A heredoc, with the rest of the line after its mark.
    pub(super) fn heredoc(&mut self, node: Node<'_>, behind: &mut Vec<Arg>) -> Result<(), Unclear> {
        self.descriptor(node)?;
        let children: Vec<_> = node.children(&mut node.walk()).collect();
        let place = |kind: &str| children.iter().position(|child| child.kind() == kind);
        let (Some(start), Some(body), Some(end)) =
            (place("heredoc_start"), place("heredoc_body"), place("heredoc_end"))
        else {
            return unclear("it has a heredoc that is not understood");
        };
        let tabs = children[..start].iter().any(|child| child.kind() == "<<-");
        let (mark, quoted) = mark(self.source.of(children[start]))?;
        let line_end = self.ends_at(children[start], children[body], children[end], mark, tabs)?;
        let mut at = children[start].end_byte();
        for child in &children[start + 1..body] {
            if !child.is_named() && self.source.of(*child) == "\n" {
                continue;
            }
            let before = gap(self.source.between(at, child.start_byte()))?;
            at = child.end_byte();
            if before == Gap::Line || at > line_end {
                return unclear("it has a heredoc with a command of several lines");
            }
            match child.kind() {
                "&&" | "||" | "|" | "|&" => {}
                "file_redirect" => self.redirect(*child, Some(behind))?,
                "herestring_redirect" => return unclear("it has a heredoc beside a string"),
                "word" | "string" | "raw_string" | "concatenation" | "number" => {
                    apart(before)?;
                    behind.push(self.word(*child)?);
                }
                _ => self.statement(*child)?,
            }
        }
        gap(self.source.between(at, line_end))?;
        if quoted { Ok(()) } else { self.heredoc_body(children[body]) }
    }

    /// Where the line of a heredoc's mark ends; an error where the grammar saw its body at another place than bash does.
    fn ends_at(
        &self,
        start: Node<'_>,
        body: Node<'_>,
        end: Node<'_>,
        mark: &str,
        tabs: bool,
    ) -> Result<usize, Unclear> {
        let text = self.source.0;
        let rest = self.source.between(start.end_byte(), text.len());
        let Some(line) = rest.find('\n') else { return unclear("it has a heredoc without a body") };
        let line_end = start.end_byte() + line;
        let mut at = line_end + 1;
        for line in self.source.between(at, text.len()).split('\n') {
            let shown = if tabs { line.trim_start_matches('\t') } else { line };
            if shown == mark {
                let marks = end.end_byte() == at + line.len();
                let inside = body.start_byte() >= line_end && body.end_byte() <= at + line.len() - shown.len();
                return if marks && inside {
                    Ok(line_end)
                } else {
                    unclear("it has a heredoc that bash ends elsewhere")
                };
            }
            at += line.len() + 1;
        }
        unclear("it has a heredoc without an end")
    }
}

/// Whether a redirect after this text has the name of a variable before it: bash sets `{name}` to the number of a descriptor.
fn names_a_variable(before: &str) -> bool {
    let Some((start, name)) = before.strip_suffix('}').and_then(|rest| rest.rsplit_once('{')) else { return false };
    let starts = start.chars().next_back().is_none_or(|c| c.is_whitespace() || ";&|()<>".contains(c));
    starts && !name.contains([' ', '\t', '\n', ';'])
}

/// The mark of a heredoc, and whether quotes keep its body as it is.
fn mark(given: &str) -> Result<(&str, bool), Unclear> {
    let inside = |quote: char| given.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    let (mark, quoted) = match inside('\'').or_else(|| inside('"')) {
        Some(mark) => (mark, true),
        None => (given, false),
    };
    match !mark.is_empty() && mark.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        true => Ok((mark, quoted)),
        false => unclear("it has a heredoc with an odd mark"),
    }
}
