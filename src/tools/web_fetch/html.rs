//! HTML as text for a model: headings, lists, tables as lines, links with their addresses; no scripts and no styles.
//!
//! One pass over the tokens of the document, without a tree: what it costs grows with the page and not with what a page nests. A tree
//! as browsers build it grows with the product of the two (an unclosed `<b>` is opened again in each paragraph), and a page is a
//! stranger's. A change must keep that, and a bound for each thing that is remembered.

use html5gum::{DefaultEmitter, HtmlString, StartTag, Token, Tokenizer};

/// How many links may be open in each other; further ones are text.
const LINKS_MAX: usize = 16;
/// The longest address of a link that is shown, in bytes.
const HREF_BYTES_MAX: usize = 500;

/// Elements that begin a line.
const BLOCKS: &[&str] = &[
    "address",
    "article",
    "aside",
    "blockquote",
    "br",
    "dd",
    "details",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "header",
    "hr",
    "li",
    "main",
    "nav",
    "ol",
    "option",
    "section",
    "summary",
    "tr",
    "ul",
];
/// Those with an empty line before and behind.
const PARAGRAPHS: &[&str] = &["h1", "h2", "h3", "h4", "h5", "h6", "p", "pre", "table", "title"];
/// Those that nobody reads.
const SILENT: &[&str] = &["script", "style", "svg", "template"];

/// The text of a page.
pub(super) fn text(page: &str) -> String {
    let mut emitter = DefaultEmitter::default();
    emitter.naively_switch_states(true);
    let mut text = Text::default();
    // A text is read, so no token is an error.
    for token in Tokenizer::new_with_emitter(page, emitter).flatten() {
        match token {
            Token::StartTag(tag) => text.start(&tag),
            Token::EndTag(tag) => text.end(&name(&tag.name)),
            Token::String(said) => text.said(&String::from_utf8_lossy(&said.value)),
            Token::Comment(_) | Token::Doctype(_) | Token::Error(_) => {}
        }
    }
    text.out
}

fn name(name: &HtmlString) -> String {
    String::from_utf8_lossy(name).into_owned()
}

fn attribute(tag: &StartTag<()>, name: &str) -> Option<String> {
    let value = tag.attributes.get(name.as_bytes())?;
    Some(String::from_utf8_lossy(value).trim().to_owned())
}

#[derive(Default)]
struct Text {
    out: String,
    /// The end of the element that is passed over.
    silent: Option<String>,
    /// How many elements are open whose white space counts.
    pre: u32,
    /// Line breaks that the next word has before it.
    breaks: usize,
    /// Whether it has a space before it.
    space: bool,
    /// Where each open link begins, and where it leads.
    links: Vec<(usize, String)>,
}

impl Text {
    fn start(&mut self, tag: &StartTag<()>) {
        if self.silent.is_some() {
            return;
        }
        let name = name(&tag.name);
        if SILENT.contains(&name.as_str()) && !tag.self_closing {
            self.silent = Some(name);
            return;
        }
        self.border(&name);
        match name.as_str() {
            "h1" | "title" => self.put("# "),
            "h2" => self.put("## "),
            "h3" => self.put("### "),
            "h4" | "h5" | "h6" => self.put("#### "),
            "li" => self.put("* "),
            "hr" => self.put("---"),
            "td" | "th" if self.breaks == 0 && !self.out.is_empty() => self.put(" | "),
            "pre" | "textarea" => self.pre += 1,
            "img" => {
                let said = attribute(tag, "alt").filter(|said| !said.is_empty());
                said.iter().for_each(|said| self.said(&format!("[image: {said}]")));
            }
            "a" if self.links.len() < LINKS_MAX => {
                let leads =
                    |href: &String| !href.is_empty() && !href.starts_with('#') && !href.starts_with("javascript:");
                let href = attribute(tag, "href").filter(leads).filter(|href| href.len() <= HREF_BYTES_MAX);
                self.links.push((self.out.len(), href.unwrap_or_default()));
            }
            _ => {}
        }
    }

    fn end(&mut self, name: &str) {
        if let Some(silent) = &self.silent {
            if silent == name {
                self.silent = None;
            }
            return;
        }
        match name {
            "pre" | "textarea" => self.pre = self.pre.saturating_sub(1),
            "a" => {
                // A link without words leads nowhere that anybody could name.
                if let Some((from, href)) = self.links.pop()
                    && !href.is_empty()
                    && self.out.len() > from
                {
                    let at = from + self.out[from..].len() - self.out[from..].trim_start().len();
                    self.out.insert(at, '[');
                    self.out.push_str("](");
                    self.out.push_str(&href);
                    self.out.push(')');
                }
            }
            _ => {}
        }
        self.border(name);
    }

    /// The lines that part an element from its neighbours.
    fn border(&mut self, name: &str) {
        let breaks = if PARAGRAPHS.contains(&name) { 2 } else { usize::from(BLOCKS.contains(&name)) };
        self.breaks = self.breaks.max(breaks);
    }

    fn said(&mut self, said: &str) {
        if self.silent.is_some() {
            return;
        }
        if self.pre > 0 {
            if !said.is_empty() {
                self.put(said);
            }
            return;
        }
        for (at, word) in said.split(|c: char| c.is_ascii_whitespace()).enumerate() {
            self.space |= at > 0;
            if !word.is_empty() {
                self.put(word);
            }
        }
    }

    /// Writes a text, with what parts it from the one before.
    fn put(&mut self, text: &str) {
        let breaks = if self.out.is_empty() { 0 } else { std::mem::take(&mut self.breaks) };
        if breaks > 0 {
            self.out.push_str(&"\n\n"[..breaks]);
        } else if self.space && !self.out.is_empty() && !self.out.ends_with([' ', '\n']) {
            self.out.push(' ');
        }
        (self.breaks, self.space) = (0, false);
        self.out.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_as_a_person_reads_it() {
        let page = "<!doctype html><html><head><title>A &amp; B</title><style>p{}</style><script>if (a < b) x('</p>')</script></head>\
            <body><nav><a href='/'>Home</a> <a href='#top'>Top</a></nav><h1>Title</h1>\n<p>Some <b>bold</b>\n  and <a href=\"/next?a=1&amp;b=2\">a  link</a>.\
            <p>Next<br>line<ul><li>one<li>two <i>three</i></ul><table><tr><th>a<th>b<tr><td>1<td>2</table>\
            <pre>  keep\n   this</pre><img alt='A cat' src=x><svg><text>no</text></svg><template>no</template>end";
        assert_eq!(
            text(page),
            "# A & B\n\n[Home](/) Top\n\n# Title\n\nSome bold and [a link](/next?a=1&b=2).\n\nNext\nline\n* one\n* two three\n\n\
             a | b\n1 | 2\n\n  keep\n   this\n\n[image: A cat]end"
        );
    }

    /// What a page costs grows with its length alone, however it is nested, and whatever is never closed.
    #[test]
    fn a_hostile_page_costs_its_length() {
        for piece in [
            "<div>",
            "<b>",
            "<b><p>",
            "<table><tr><td>",
            "<ul><li>",
            "<a href=x>y",
            "<a href=x>",
            "</a>",
            "<pre>",
            "<!--",
            "<",
            "&",
            "<p ",
            "<p a='",
            "\u{0}",
            "é<",
        ] {
            let page = piece.repeat((1 << 20) / piece.len());
            let said = text(&page);
            assert!(said.len() <= page.len() * 3, "{piece}: {} bytes", said.len());
        }
        let names: String = (0..50_000).map(|n| format!(" a{n}=1")).collect();
        assert_eq!(text(&format!("<p{names}>x")), "x");
        assert_eq!(text("<script>never closed <p>x"), "");
        assert_eq!((text(""), text("plain")), (String::new(), "plain".to_owned()));
    }
}
