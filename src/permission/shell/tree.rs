//! Parses a command with the grammar of bash, and refuses what the grammar did not understand.
//!
//! The grammar is written for editors: it repairs what is broken, and reads some texts in another way than bash does. So a tree
//! alone proves nothing. Three checks accompany it: the whole text is searched for characters that the two read differently, no
//! tree with an error is used, and the readers of the tree check the bytes between its nodes ([`gap`]).
//!
//! What a text may cost is bounded before and while it is parsed (`bounds.rs`).

use std::ops::ControlFlow;

use tree_sitter::{Node, ParseOptions, ParseState, Parser, Tree};

use crate::permission::shell::{
    Unclear,
    bounds::{NODES_MAX, PARSER_REPORTS_MAX, fits},
    unclear,
};

/// The syntax tree of a command; an error where it is too much of a text, has a character that hides what runs, or is not understood.
pub(super) fn parse(text: &str) -> Result<Tree, Unclear> {
    fits(text)?;
    if let Some(hidden) = text.chars().find(|c| hides(*c)) {
        return unclear(format!("it has the character U+{:04X}", u32::from(hidden)));
    }
    let mut parser = Parser::new();
    if parser.set_language(&tree_sitter_bash::LANGUAGE.into()).is_err() {
        return unclear("its grammar does not fit its parser");
    }
    let mut reports = 0;
    // Once every reading of the text is in error, the tree would have one too: to repair it is work for nothing.
    let mut hopeless = false;
    let mut bounded = |state: &ParseState| {
        reports += 1;
        hopeless = state.has_error();
        if hopeless || reports > PARSER_REPORTS_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let options = ParseOptions::new().progress_callback(&mut bounded);
    let bytes = text.as_bytes();
    let tree = parser.parse_with_options(&mut |at, _| bytes.get(at..).unwrap_or_default(), None, Some(options));
    match tree {
        Some(tree) if tree.root_node().has_error() => unclear("its syntax is not understood"),
        Some(tree) if tree.root_node().descendant_count() > NODES_MAX => unclear("it has too much syntax to be judged"),
        Some(tree) => Ok(tree),
        None if hopeless => unclear("its syntax is not understood"),
        None => unclear("it takes too much work to be judged"),
    }
}

/// Whether a character shows another command than the one that runs, or is a blank for one reader and a letter for the other:
/// controls, blanks that are not ASCII, marks that turn the direction of writing, and letters without a shape.
fn hides(c: char) -> bool {
    let shapeless = matches!(u32::from(c),
        0xAD | 0x34F | 0x61C | 0x115F | 0x1160 | 0x17B4 | 0x17B5 | 0x180B..=0x180F | 0x200B..=0x200F | 0x202A..=0x202E
        | 0x2060..=0x206F | 0x3164 | 0xFE00..=0xFE0F | 0xFEFF | 0xFFA0 | 0xFFF0..=0xFFFB | 0xE0000..=0xE0FFF);
    (c.is_control() && !matches!(c, '\t' | '\n')) || (c.is_whitespace() && !c.is_ascii()) || shapeless
}

/// The text between two neighbours of a tree.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Gap {
    /// Nothing.
    None,
    /// Blanks, and line breaks after a backslash.
    Blank,
    /// Blanks and line breaks.
    Line,
}

/// The text between two nodes. A backslash that joins two lines is accepted only next to a blank: in `ec\`, line break, `ho` bash
/// sees one word and the grammar two.
pub(super) fn gap(between: &str) -> Result<Gap, Unclear> {
    let plain = between.replace("\\\n", "");
    if !plain.chars().all(|c| matches!(c, ' ' | '\t' | '\n')) || (plain.is_empty() && !between.is_empty()) {
        return unclear("it has a backslash where bash and the grammar differ");
    }
    Ok(match plain.contains('\n') {
        true => Gap::Line,
        false if plain.is_empty() => Gap::None,
        false => Gap::Blank,
    })
}

/// A command's text next to its tree.
#[derive(Clone, Copy)]
pub(super) struct Source<'s>(pub(super) &'s str);

impl<'s> Source<'s> {
    /// The text of a node.
    pub(super) fn of(self, node: Node<'_>) -> &'s str {
        self.between(node.start_byte(), node.end_byte())
    }

    /// The text between two places; empty where they are none.
    pub(super) fn between(self, from: usize, to: usize) -> &'s str {
        self.0.get(from..to).unwrap_or_default()
    }

    /// The children of a node without its comments, each with the text before it, checked: the first one begins where the node
    /// does, the last one ends where it does, and nothing but blanks is between them.
    pub(super) fn children<'t>(self, node: Node<'t>) -> Result<Vec<(Gap, Node<'t>)>, Unclear> {
        let mut at = node.start_byte();
        let mut before = Gap::None;
        let mut children = Vec::new();
        for child in node.children(&mut node.walk()) {
            let here = gap(self.between(at, child.start_byte()))?;
            before = if before == Gap::None {
                here
            } else if here == Gap::Line {
                Gap::Line
            } else {
                before
            };
            at = child.end_byte();
            if child.kind() == "comment" {
                self.comment(child)?;
                // What is behind a comment is on the next line.
                before = Gap::Line;
                continue;
            }
            children.push((before, child));
            before = Gap::None;
        }
        gap(self.between(at, node.end_byte()))?;
        Ok(children)
    }

    /// A comment begins where bash begins one: at the start of a word.
    fn comment(self, node: Node<'_>) -> Result<(), Unclear> {
        match self.0.get(..node.start_byte()).and_then(|before| before.chars().next_back()) {
            None | Some(' ' | '\t' | '\n' | ';') => Ok(()),
            Some(_) => unclear("it has a comment where bash has none"),
        }
    }
}
