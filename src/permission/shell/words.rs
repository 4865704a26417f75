//! Reads the words of a command as bash hands them to a program: without quotes, and with a mark for what is not known before
//! the command runs.
//!
//! Each part of a word that is only known at run time (a variable, the output of a command, a glob) is one [`ANY`] or [`GLOB`], and
//! a `~` at its beginning is [`HOME`]; a word with a list in braces is one [`ANY`]. No other text has these characters, so rules can be matched against
//! every value that the part may have. Commands in substitutions are passed on and judged separately. A part that bash would
//! evaluate as code without a substitution (`${x@P}`, `${!x}`, arithmetic over variables) makes the command unclear.
//!
//! A change must refuse what it does not know: a kind of node that is not named here is an error.

use tree_sitter::Node;

use crate::permission::shell::{ANY, Arg, GLOB, HOME, Unclear, one_line, statements::Reader, tree::Gap, unclear};

/// The path of a process substitution, as the program gets it. The number may differ.
pub(super) const SUBSTITUTED: &str = "/dev/fd/63";

/// A word under construction.
#[derive(Default)]
struct Draft {
    text: String,
    /// A part without quotes may become several words, or none.
    splits: bool,
    /// Characters without quotes that bash looks at in the whole word: braces, and what makes them a list.
    brace: bool,
    list: bool,
    /// A `$` without a name, which bash drops before a quote.
    dollar: bool,
}

impl Draft {
    fn unknown(&mut self, splits: bool) {
        self.text.push(ANY);
        self.splits |= splits;
    }

    fn glob(&mut self) {
        self.text.push(GLOB);
        self.splits = true;
    }

    fn done(self) -> Arg {
        match self.brace && self.list {
            // `{a,b}` is two words that could be read here, but few people write it; `x{1..3}` is three.
            true => Arg { text: ANY.to_string(), splits: true },
            false => Arg { text: self.text, splits: self.splits },
        }
    }
}

impl<'s> Reader<'s> {
    /// One word of a command.
    pub(super) fn word(&mut self, node: Node<'_>) -> Result<Arg, Unclear> {
        let mut draft = Draft::default();
        self.part(node, &mut draft)?;
        Ok(draft.done())
    }

    /// A part of a word.
    fn part(&mut self, node: Node<'_>, draft: &mut Draft) -> Result<(), Unclear> {
        let source = self.source;
        if draft.dollar {
            return unclear("it has a `$` in a word");
        }
        match node.kind() {
            "word" | "variable_name" | "number" if node.child_count() == 0 => unquoted(source.of(node), draft),
            "$" if source.of(node) != "$" => unclear("it has a variable that is not understood"),
            "$" | "==" | "=~" => {
                draft.dollar = node.kind() == "$";
                draft.text.push_str(source.of(node));
                Ok(())
            }
            "raw_string" => {
                draft.text.push_str(source.of(node).trim_matches('\''));
                Ok(())
            }
            "ansi_c_string" => ansi_c(source.of(node), &mut draft.text),
            "string" => self.double_quoted(node, draft),
            "concatenation" => {
                for (before, child) in source.children(node)? {
                    if before != Gap::None {
                        return unclear("it has a word with a blank in it");
                    }
                    self.part(child, draft)?;
                }
                Ok(())
            }
            "brace_expression" => {
                draft.unknown(true);
                Ok(())
            }
            _ => {
                self.expansion(node)?;
                match node.kind() {
                    "process_substitution" => draft.text.push_str(SUBSTITUTED),
                    kind => draft.unknown(kind != "arithmetic_expansion"),
                }
                Ok(())
            }
        }
    }

    /// A string in double quotes. The grammar drops blanks at the ends of its parts; they are taken from the text.
    fn double_quoted(&mut self, node: Node<'_>, draft: &mut Draft) -> Result<(), Unclear> {
        let mut at = node.start_byte();
        for child in node.children(&mut node.walk()) {
            let between = self.source.between(at, child.start_byte());
            if !between.chars().all(|c| matches!(c, ' ' | '\t' | '\n')) {
                return unclear("it has a string that bash and the grammar read differently");
            }
            draft.text.push_str(between);
            at = child.end_byte();
            let inside = self.source.of(child);
            if child.kind() != "string_content" {
                draft.text.push_str(&inside[..inside.len() - inside.trim_start_matches([' ', '\t', '\n']).len()]);
            }
            match child.kind() {
                "\"" => {}
                "$" => draft.text.push('$'),
                "string_content" if draft.text.ends_with('$') && inside.starts_with(begins_expansion) => {
                    return unclear("it has a variable that is not understood");
                }
                "string_content" => quoted(inside, "\"$`\\", &mut draft.text)?,
                _ => {
                    self.expansion(child)?;
                    // "$@" in quotes is several words as well; what a command prints is one.
                    draft.unknown(child.kind() != "command_substitution" && inside.contains('@'));
                }
            }
        }
        Ok(())
    }

    /// The body of a heredoc without quotes at its mark.
    pub(super) fn heredoc_body(&mut self, node: Node<'_>) -> Result<(), Unclear> {
        if self.source.of(node).contains("\\\n") {
            // Bash joins these lines before it reads the substitutions, also inside of quotes.
            return unclear("it has a line break behind a backslash in a heredoc");
        }
        let mut at = node.start_byte();
        for child in node.children(&mut node.walk()) {
            quoted(self.source.between(at, child.start_byte()), "$`\\", &mut String::new())?;
            at = child.end_byte();
            match child.kind() {
                "heredoc_content" => quoted(self.source.of(child), "$`\\", &mut String::new())?,
                _ => self.expansion(child)?,
            }
        }
        quoted(self.source.between(at, node.end_byte()), "$`\\", &mut String::new())
    }

    /// An expansion of any kind: its commands are passed on, and opaque ones are an error.
    fn expansion(&mut self, node: Node<'_>) -> Result<(), Unclear> {
        let text = self.source.of(node).trim_start_matches([' ', '\t', '\n']);
        match node.kind() {
            "simple_expansion" if is_variable(text) => Ok(()),
            "expansion" => parameter(text),
            "command_substitution" => {
                if text.starts_with('`') && text.contains('\\') {
                    return unclear("it has a backslash between backquotes");
                }
                self.statements(node)
            }
            "process_substitution" => self.statements(node),
            "arithmetic_expansion" => {
                // A variable in it is evaluated in turn, and its value may have a substitution in an index.
                let number = |c: char| c.is_ascii_digit() || " +-*/%()$<>=!".contains(c);
                if text.starts_with("$((") && text.chars().all(number) && !text[1..].contains('$') {
                    Ok(())
                } else {
                    unclear("it has arithmetic over more than numbers")
                }
            }
            kind => unclear(format!("it has a {} in a word", kind.replace('_', " "))),
        }
    }
}

/// `${name}`, with an operator that only changes text or none.
fn parameter(text: &str) -> Result<(), Unclear> {
    let inside = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')).unwrap_or_default();
    let name = inside.strip_prefix('#').unwrap_or(inside);
    let end = name.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(name.len());
    let (name, rest) = name.split_at(end);
    let operator = ["", ":-", ":+", "-", "+", "##", "#", "%%", "%"].into_iter().rev().find(|o| rest.starts_with(o));
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./:, *?-+=".contains(c);
    let value = rest.strip_prefix(operator.unwrap_or_default()).unwrap_or(rest);
    let simple = match operator {
        Some("") | None => rest.is_empty(),
        Some(_) => value.chars().all(plain),
    };
    let simple = simple && !name.is_empty();
    match simple {
        true => Ok(()),
        false => unclear(format!("it has the expansion `{}`", one_line(text))),
    }
}

/// Text without quotes.
fn unquoted(text: &str, draft: &mut Draft) -> Result<(), Unclear> {
    let mut chars = text.chars();
    let at_start = draft.text.is_empty();
    let mut first = true;
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('\n') | None => return unclear("it has a line break in a word"),
                Some(c) => draft.text.push(c),
            },
            ';' | '|' | '&' | '<' | '>' | '(' | ')' | '$' | '`' | '\'' | '"' | ' ' | '\t' | '\n' => {
                return unclear(format!("it has `{c}` in a word"));
            }
            '*' | '?' => draft.glob(),
            '[' if text.len() > 1 || !at_start => draft.glob(),
            '~' if first && at_start => draft.text.push(HOME),
            '~' if draft.text.ends_with(['=', ':']) => draft.unknown(false),
            _ => {
                draft.brace |= c == '{';
                draft.list |= c == ',' || c == '.';
                draft.text.push(c);
            }
        }
        first = false;
    }
    Ok(())
}

/// Text in double quotes, in which a backslash quotes the characters `quotes` only. A `$` or backquote that begins something
/// would be a separate node, so here it means that the grammar did not see it.
fn quoted(text: &str, quotes: &str, into: &mut String) -> Result<(), Unclear> {
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('\\', Some('\n')) => return unclear("it has a line break behind a backslash in a string"),
            ('\\', Some(next)) if quotes.contains(*next) => into.extend(chars.next()),
            ('`', _) => return unclear("it has a substitution that is not understood"),
            ('$', Some(next)) if begins_expansion(*next) => return unclear("it has a variable that is not understood"),
            _ => into.push(c),
        }
    }
    Ok(())
}

/// `$name`, or one of the variables of the shell with a sign for a name.
fn is_variable(text: &str) -> bool {
    let name = text.strip_prefix('$').unwrap_or_default();
    matches!(name, "*" | "@" | "?" | "!" | "#" | "$" | "-") || is_name(name) || matches!(name.as_bytes(), [b'0'..=b'9'])
}

/// Whether bash takes a text for the name of a variable.
pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Whether a `$` before this character is more than itself in double quotes.
fn begins_expansion(c: char) -> bool {
    c.is_alphanumeric() || "_@*#?$!-({['\"".contains(c)
}

/// A string of the form `$'…'`. Its escapes are the letters and numbers that people use; another one is unclear.
fn ansi_c(text: &str, into: &mut String) -> Result<(), Unclear> {
    let inside = text.strip_prefix("$'").and_then(|rest| rest.strip_suffix('\'')).unwrap_or_default();
    let mut chars = inside.chars();
    while let Some(c) = chars.next() {
        let decoded = match c {
            '\'' => return unclear("it has a quote in a quoted string"),
            '\\' => {
                let behind = chars.clone();
                match chars.next() {
                    Some(c @ ('\\' | '\'' | '"' | '?')) => Some(c),
                    Some('n') => Some('\n'),
                    Some('t') => Some('\t'),
                    Some('x') => number(&mut chars, 16, 2),
                    Some('u') => number(&mut chars, 16, 4),
                    Some('0'..='7') => {
                        chars = behind;
                        number(&mut chars, 8, 3)
                    }
                    _ => None,
                }
            }
            c => Some(c),
        };
        match decoded {
            Some(c) if c == '\n' || c == '\t' || !c.is_control() => into.push(c),
            _ => return unclear("it has an escape that is not understood"),
        }
    }
    Ok(())
}

/// A number of at most `digits_max` digits, as an ASCII character; the digits are taken.
fn number(chars: &mut std::str::Chars<'_>, radix: u32, digits_max: usize) -> Option<char> {
    let digits: String = chars.as_str().chars().take(digits_max).take_while(|c| c.is_digit(radix)).collect();
    chars.by_ref().take(digits.len()).for_each(drop);
    u32::from_str_radix(&digits, radix).ok().filter(|n| *n < 0x80).and_then(char::from_u32)
}

/// Whether two neighbours in a command are two words for bash as well.
pub(super) fn apart(before: Gap) -> Result<(), Unclear> {
    match before {
        Gap::Blank => Ok(()),
        Gap::None => unclear("it has two words that bash reads as one"),
        Gap::Line => unclear("it has a line break in a command"),
    }
}
