//! Walks the syntax tree of a command and collects what it would run, read and write.
//! Every command counts, in any place: in a pipeline, a list, a loop, a subshell, a substitution, after a wrapper or in the text
//! of a shell. All branches count, taken or not.
//!
//! A change must refuse what it does not know: a kind of statement that is not named here is an error, and an error makes the whole
//! command unclear. A statement that is passed over would run without a judgement.

use tree_sitter::Node;

use crate::permission::shell::{
    Arg, Simple, Unclear, commands, one_line,
    scan::Scan,
    tree::{Gap, Source},
    unclear, variables,
    words::apart,
};

/// Reads the tree of one text.
pub(super) struct Reader<'s> {
    pub(super) source: Source<'s>,
    pub(super) scan: &'s mut Scan,
}

impl<'s> Reader<'s> {
    /// The statements that are children of a node; its other children are words of the syntax (`if`, `;`, `{`).
    pub(super) fn statements(&mut self, node: Node<'_>) -> Result<(), Unclear> {
        for (_, child) in self.source.children(node)? {
            if child.is_named() {
                self.statement(child)?;
            } else if child.kind() == "((" {
                return unclear("it has arithmetic over more than numbers");
            }
        }
        Ok(())
    }

    pub(super) fn statement(&mut self, node: Node<'_>) -> Result<(), Unclear> {
        self.scan.enter()?;
        self.kind_of_statement(node)?;
        self.scan.leave();
        Ok(())
    }

    fn kind_of_statement(&mut self, node: Node<'_>) -> Result<(), Unclear> {
        match node.kind() {
            "negated_command" => match self.source.children(node)?.as_slice() {
                [_, (Gap::None, _), ..] => unclear("it has a word that begins with `!`"),
                _ => self.statements(node),
            },
            "list" | "pipeline" | "subshell" | "compound_statement" | "do_group" | "if_statement" | "elif_clause"
            | "else_clause" => self.statements(node),
            "while_statement" => self.repeated(|reader| reader.statements(node)),
            "for_statement" => self.for_loop(node),
            "case_statement" | "case_item" => self.case(node),
            "command" => self.command(node, Vec::new()),
            "redirected_statement" => self.redirected(node),
            "variable_assignment" => self.assigned(node, variables::may_be_set),
            "variable_assignments" => self
                .source
                .children(node)?
                .into_iter()
                .try_for_each(|(_, child)| self.assigned(child, variables::may_be_set)),
            "declaration_command" => self.exported(node),
            "test_command" => self.test(node),
            "file_redirect" => self.redirect(node, None),
            "function_definition" => unclear("it defines a function"),
            kind => unclear(format!("it has a {}", kind.replace('_', " "))),
        }
    }

    /// A part that may run more than once.
    fn repeated(&mut self, part: impl FnOnce(&mut Self) -> Result<(), Unclear>) -> Result<(), Unclear> {
        self.scan.loops += 1;
        let result = part(self);
        self.scan.loops -= 1;
        result
    }

    fn for_loop(&mut self, node: Node<'_>) -> Result<(), Unclear> {
        for (before, child) in self.source.children(node)? {
            match child.kind() {
                "variable_name" => variables::may_be_set(self.source.of(child))?,
                "do_group" => self.repeated(|reader| reader.statements(child))?,
                _ if !child.is_named() => {}
                _ => {
                    apart(before)?;
                    self.word(child)?;
                }
            }
        }
        Ok(())
    }

    /// A case, or one of its items: patterns and words do nothing, but commands in them are checked.
    fn case(&mut self, node: Node<'_>) -> Result<(), Unclear> {
        const BEYOND: [char; 12] = ['$', '`', '(', ')', '\\', '\'', '"', '\n', ';', '&', '<', '>'];
        for at in 0..node.child_count() {
            let Some(child) = node.child(at) else { continue };
            match (node.field_name_for_child(at), child.kind()) {
                (Some("value"), "extglob_pattern") if self.source.of(child).contains(BEYOND) => {
                    return unclear("it has a pattern that is not understood");
                }
                (Some("value"), "extglob_pattern") => {}
                (Some("value"), _) => drop(self.word(child)?),
                _ if child.is_named() && child.kind() != "comment" => self.statement(child)?,
                _ => {}
            }
        }
        // The bytes between the children, and the comments.
        self.source.children(node).map(drop)
    }

    /// A command, with the words after its redirects.
    fn command(&mut self, node: Node<'_>, behind: Vec<Arg>) -> Result<(), Unclear> {
        let mut words: Vec<Arg> = Vec::new();
        let mut last_was_word = false;
        for (at, (before, child)) in self.source.children(node)?.into_iter().enumerate() {
            if at > 0 && before == Gap::Line {
                return unclear("it has a line break in a command");
            }
            let is_word = !matches!(child.kind(), "file_redirect" | "herestring_redirect");
            if last_was_word && is_word {
                apart(before)?;
            }
            last_was_word = is_word;
            match child.kind() {
                "variable_assignment" => self.assigned(child, variables::may_be_given)?,
                "file_redirect" => {
                    // The grammar takes words after the target for more targets; bash takes them for the command.
                    self.redirect(child, Some(&mut words))?;
                    last_was_word = true;
                }
                "herestring_redirect" => {
                    self.herestring(child)?;
                    last_was_word = true;
                }
                "command_name" => {
                    let inner = self.source.children(child)?;
                    let [(_, name)] = inner.as_slice() else { return unclear("it has a command without a name") };
                    let name = self.word(*name)?;
                    words.push(name);
                }
                "subshell" => return unclear("it has a command with a subshell as its argument"),
                _ => words.push(self.word(child)?),
            }
        }
        words.extend(behind);
        let mut words = words.into_iter();
        match words.next() {
            Some(name) => self.scan.command(&name, words.collect()),
            None => unclear("it has a command without a name"),
        }
    }

    /// A statement with redirects after it.
    fn redirected(&mut self, node: Node<'_>) -> Result<(), Unclear> {
        let children = self.source.children(node)?;
        if children.iter().skip(1).any(|(before, _)| *before == Gap::Line) {
            return unclear("it has a line break in a command");
        }
        let is_redirect =
            |node: &Node<'_>| matches!(node.kind(), "file_redirect" | "herestring_redirect" | "heredoc_redirect");
        let body = children.iter().map(|(_, child)| *child).find(|child| !is_redirect(child));
        let command = body.filter(|body| body.kind() == "command");
        if let Some(body) = body.filter(|_| command.is_none()) {
            // The grammar attaches the redirect of the last command to the whole list, but after a `cd` that command is in
            // another folder.
            self.statement(body)?;
        }
        let mut behind = Vec::new();
        for (_, child) in children.iter().filter(|(_, child)| is_redirect(child)) {
            match child.kind() {
                "file_redirect" => self.redirect(*child, Some(&mut behind))?,
                "herestring_redirect" => self.herestring(*child)?,
                _ => self.heredoc(*child, &mut behind)?,
            }
        }
        match command {
            Some(command) => self.command(command, behind),
            None if behind.is_empty() => Ok(()),
            None => unclear("it has words behind a redirect"),
        }
    }

    fn herestring(&mut self, node: Node<'_>) -> Result<(), Unclear> {
        for (before, child) in self.source.children(node)? {
            if before == Gap::Line {
                return unclear("it has a line break in a command");
            }
            if child.is_named() && child.kind() != "file_descriptor" {
                self.word(child)?;
            }
        }
        self.descriptor(node)
    }

    /// `[ … ]` or `[[ … ]]`: a test of strings and files. Tests that evaluate their text as arithmetic are unclear.
    fn test(&mut self, node: Node<'_>) -> Result<(), Unclear> {
        let text = self.source.of(node);
        same_line_or_blank(text)?;
        // Without blanks inside they are words of a command.
        let children = self.source.children(node)?;
        if let [_, (first, _), .., (last, _)] = children.as_slice()
            && (*first == Gap::None || *last == Gap::None)
        {
            return unclear("it has a test without blanks");
        }
        let mut words = Vec::new();
        let double = text.starts_with("[[");
        self.test_words(node, double, &mut words)?;
        if !double && !commands::tests_as_written(&words) {
            return unclear("it has a test whose operators are not known before it runs");
        }
        let arithmetic = |word: &Arg| matches!(word.text.as_str(), "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge");
        let looks_up = |word: &Arg| matches!(word.text.as_str(), "-v" | "-R");
        if words.iter().any(looks_up) || (double && words.iter().any(arithmetic)) {
            return unclear("it has a test that evaluates its text");
        }
        let name = if double { "[[" } else { "[" };
        self.scan.found(Simple::reporting(name, words))
    }

    fn test_words(&mut self, node: Node<'_>, double: bool, words: &mut Vec<Arg>) -> Result<(), Unclear> {
        self.scan.enter()?;
        for (_, child) in self.source.children(node)? {
            match child.kind() {
                "unary_expression" | "binary_expression" | "parenthesized_expression" => {
                    self.test_words(child, double, words)?;
                }
                "test_operator" => words.push(Arg::plain(self.source.of(child))),
                "[" | "[[" => {}
                "!" | "=" | "==" | "!=" | "]" | "]]" => words.push(Arg::plain(self.source.of(child))),
                // In `[` these end the command, or open a file.
                "=~" | "<" | ">" | "&&" | "||" | "(" | ")" if double => words.push(Arg::plain(self.source.of(child))),
                "regex" | "extglob_pattern" => {
                    if self.source.of(child).contains(['$', '`', '\n', ';', '&']) {
                        return unclear("it has a pattern that is not understood");
                    }
                    words.push(Arg::plain(self.source.of(child)));
                }
                "word"
                | "string"
                | "raw_string"
                | "number"
                | "concatenation"
                | "simple_expansion"
                | "expansion"
                | "command_substitution" => words.push(self.word(child)?),
                kind => return unclear(format!("it has a {} in a test", kind.replace('_', " "))),
            }
        }
        self.scan.leave();
        Ok(())
    }
}

/// A line break in a test is a blank for one reader and an end for the other.
fn same_line_or_blank(text: &str) -> Result<(), Unclear> {
    if text.contains('\n') { unclear(format!("it has a line break in the test `{}`", one_line(text))) } else { Ok(()) }
}
