//! Text for a terminal: broken at a width, coloured when wanted, Markdown made readable.

use super::escape::escape;
use crate::model::verdict::Severity;
use std::fmt::Write;

/// Text that grows piece by piece, and lays itself out in lines at most so many columns wide.
#[derive(Debug)]
pub struct Page {
    pieces: Vec<Piece>,
    width: usize,
    color: bool,
}

/// A piece of a page before it is laid out: what it is, not where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// Space between pieces.
    Gap,
    /// A line that is not broken.
    Line(String, Look),
    /// Prose without an indent, in a look.
    Loud(String, Look),
    /// A label and what stands beside it; without a label it goes on with the one before.
    Field {
        label: String,
        text: String,
        indent: usize,
    },
    /// A mark, empty for a paragraph, and text hanging beside it.
    Hang {
        mark: String,
        text: String,
        indent: usize,
        look: Look,
    },
    /// A line of code.
    Code(String),
}

impl Page {
    /// An empty page. Narrower than 40 columns nothing can be laid out; wider than 100 no prose
    /// can be read.
    #[must_use]
    pub fn new(width: usize, color: bool) -> Self {
        Self {
            pieces: Vec::new(),
            width: width.clamp(40, 100),
            color,
        }
    }

    /// What is on it, laid out.
    #[must_use]
    pub fn into_text(self) -> String {
        let mut out = Layout {
            text: String::new(),
            width: self.width,
            color: self.color,
        };
        for piece in &self.pieces {
            out.piece(piece);
        }
        // They have held together what should not be broken.
        out.text.replace('\u{a0}', " ")
    }

    /// What is on it, for another medium to lay out.
    pub(super) fn into_pieces(self) -> Vec<Piece> {
        self.pieces
    }

    /// Columns of a line.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// An empty line, but never two, and none at the top.
    pub fn gap(&mut self) {
        self.pieces.push(Piece::Gap);
    }

    /// A line in `look`, as long as it is.
    pub fn line(&mut self, text: &str, look: Look) {
        self.pieces.push(Piece::Line(text.to_owned(), look));
    }

    /// Prose, each line after `indent` spaces.
    pub fn prose(&mut self, text: &str, indent: usize) {
        self.hang("", text, indent, Look::Plain);
    }

    /// Prose in `look`.
    pub fn loud(&mut self, text: &str, look: Look) {
        self.pieces.push(Piece::Loud(text.to_owned(), look));
    }

    /// `label` after `indent` spaces, and the text beside it in a column of its own.
    pub fn field(&mut self, label: &str, text: &str, indent: usize) {
        self.pieces.push(Piece::Field {
            label: label.to_owned(),
            text: text.to_owned(),
            indent,
        });
    }

    /// `mark` after `indent` spaces, and `text` hanging beside it.
    pub fn hang(&mut self, mark: &str, text: &str, indent: usize, look: Look) {
        self.pieces.push(Piece::Hang {
            mark: mark.to_owned(),
            text: text.to_owned(),
            indent,
            look,
        });
    }

    /// Markdown: headings in bold, paragraphs and lists broken, code as it is. Links, emphasis
    /// and tables stay as written, which reads well enough.
    pub fn markdown(&mut self, source: &str) {
        let mut block = Block::default();
        let mut code = false;
        for line in source.lines() {
            let bare = line.trim();
            if bare.starts_with("```") {
                block.flush(self);
                code = !code;
                self.gap();
            } else if code {
                self.pieces.push(Piece::Code(escape(line).into_owned()));
            } else if bare.is_empty() {
                block.flush(self);
                self.gap();
            } else if bare.starts_with('#') {
                block.flush(self);
                self.gap();
                self.line(bare.trim_start_matches('#').trim(), Look::Heading);
            } else if bare.starts_with('|') {
                block.flush(self);
                self.line(bare, Look::Plain);
            } else if let Some((mark, rest)) = list_item(line) {
                block.flush(self);
                block.mark = mark;
                block.text = rest.to_owned();
            } else {
                if !block.text.is_empty() {
                    block.text.push(' ');
                }
                block.text.push_str(bare);
            }
        }
        block.flush(self);
    }
}

/// Pieces in lines.
struct Layout {
    text: String,
    width: usize,
    color: bool,
}

impl Layout {
    fn piece(&mut self, piece: &Piece) {
        match piece {
            Piece::Gap if self.text.is_empty() || self.text.ends_with("\n\n") => {}
            Piece::Gap => self.text.push('\n'),
            Piece::Line(text, look) => self.line(text, *look),
            Piece::Loud(text, look) => {
                for line in wrap(text, self.width) {
                    self.line(&line, *look);
                }
            }
            Piece::Field {
                label,
                text,
                indent,
            } => self.hang(&format!("{label:<LABEL$}"), text, *indent, Look::Dim),
            Piece::Hang {
                mark,
                text,
                indent,
                look,
            } => self.hang(mark, text, *indent, *look),
            Piece::Code(line) => {
                let _ = writeln!(self.text, "    {}", line.trim_end());
            }
        }
    }

    fn line(&mut self, text: &str, look: Look) {
        let painted = self.paint(text, look);
        self.text.push_str(&painted);
        self.text.push('\n');
    }

    fn hang(&mut self, mark: &str, text: &str, indent: usize, look: Look) {
        let hang = indent + mark.chars().count();
        let lines = wrap(text, self.width.saturating_sub(hang));
        for (number, line) in lines.iter().enumerate() {
            if number == 0 {
                let mark = self.paint(mark, look);
                let _ = writeln!(self.text, "{:indent$}{mark}{line}", "");
            } else {
                let _ = writeln!(self.text, "{:hang$}{line}", "");
            }
        }
    }

    /// `text` with the escape sequences of `look`, when there are colours.
    fn paint(&self, text: &str, look: Look) -> String {
        let style = look.style();
        if self.color && !text.is_empty() && look != Look::Plain {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }
}

/// How a piece of text looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// As it is.
    Plain,
    /// Bold.
    Heading,
    /// In the background.
    Dim,
    /// All is well.
    Good,
    /// By how bad it is.
    Severity(Severity),
}

impl Look {
    const fn style(self) -> anstyle::Style {
        use anstyle::AnsiColor::{Cyan, Green, Magenta, Red, Yellow};
        let plain = anstyle::Style::new();
        match self {
            Self::Plain => plain,
            Self::Heading => plain.bold(),
            Self::Dim => plain.dimmed(),
            Self::Good => Green.on_default(),
            Self::Severity(Severity::Fork) => Red.on_default().bold(),
            Self::Severity(Severity::Loss) => Magenta.on_default().bold(),
            Self::Severity(Severity::Warning) => Yellow.on_default(),
            Self::Severity(Severity::Info) => Cyan.on_default(),
        }
    }
}

/// `text` in lines of at most `width` characters, broken at spaces; a longer word is cut.
#[must_use]
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(8);
    let mut lines = Vec::new();
    let (mut line, mut length) = (String::new(), 0);
    for word in text.split_ascii_whitespace() {
        let mut word = word;
        let mut letters = word.chars().count();
        if length > 0 && length + 1 + letters > width {
            lines.push(std::mem::take(&mut line));
            length = 0;
        }
        while letters > width {
            let cut = word
                .char_indices()
                .nth(width)
                .map_or(word.len(), |(at, _)| at);
            let (head, tail) = word.split_at_checked(cut).unwrap_or((word, ""));
            lines.push(head.to_owned());
            word = tail;
            letters -= width;
        }
        if length > 0 {
            line.push(' ');
            length += 1;
        }
        line.push_str(word);
        length += letters;
    }
    if length > 0 || lines.is_empty() {
        lines.push(line);
    }
    lines
}

/// Text from the wire as a terminal may see it: hidden characters escaped, at most `most`
/// characters of it.
#[must_use]
pub fn shown(text: &str, most: usize) -> String {
    clip(&escape(text), most)
}

/// `text`, or its first characters and `…` when there are more than `most`.
#[must_use]
pub fn clip(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some(_) => {
            let mut cut: String = text.chars().take(most.saturating_sub(1)).collect();
            cut.push('…');
            cut
        }
    }
}

/// A paragraph or an item of a list that is being collected.
#[derive(Default)]
struct Block {
    mark: String,
    text: String,
}

impl Block {
    fn flush(&mut self, page: &mut Page) {
        if !self.text.is_empty() {
            page.hang(&self.mark, &escape(&self.text), 2, Look::Plain);
        }
        *self = Self::default();
    }
}

/// The mark of an item (`- ` or `1. `, as deep as it was) and its first line.
fn list_item(line: &str) -> Option<(String, &str)> {
    let bare = line.trim_start();
    let indent = " ".repeat(line.len() - bare.len());
    if let Some(rest) = bare.strip_prefix("- ").or_else(|| bare.strip_prefix("* ")) {
        return Some((format!("{indent}- "), rest));
    }
    let (number, rest) = bare.split_once(". ")?;
    (!number.is_empty() && number.len() < 3 && number.bytes().all(|b| b.is_ascii_digit()))
        .then(|| (format!("{indent}{number}. "), rest))
}

/// Columns of a label.
const LABEL: usize = 11;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn breaks_at_spaces_and_cuts_longer_words() {
        assert_eq!(wrap("one two three", 8), ["one two", "three"]);
        assert_eq!(
            wrap("a 0123456789abcdef b", 8),
            ["a", "01234567", "89abcdef", "b"]
        );
        assert_eq!(wrap("", 8), [""]);
    }

    #[test]
    fn clips_by_characters() {
        assert_eq!(clip("äöü", 3), "äöü");
        assert_eq!(clip("äöüß", 3), "äö…");
    }

    #[test]
    fn paints_only_when_asked() {
        let painted = |color| {
            let mut page = Page::new(80, color);
            page.line("x", Look::Heading);
            page.into_text()
        };
        assert_eq!(painted(false), "x\n");
        assert_eq!(painted(true), "\x1b[1mx\x1b[0m\n");
    }

    #[test]
    fn renders_markdown() {
        let mut page = Page::new(40, false);
        page.markdown(
            "## What it reports\n\nThe first message of a resume has an id\nthat is old.\n\n\
             - one item that is long enough to be broken\n- two\n\n1. first\n\n```text\n  id: 1\n```\n",
        );
        assert_eq!(
            page.into_text(),
            "What it reports\n\n  The first message of a resume has an\n  id that is old.\n\n  \
             - one item that is long enough to be\n    broken\n  - two\n\n  1. first\n\n      id: 1\n\n"
        );
    }

    proptest! {
        #[test]
        fn keeps_every_word_and_the_width(text in ".{0,200}", width in 8_usize..60) {
            let lines = wrap(&text, width);
            prop_assert!(lines.iter().all(|line| line.chars().count() <= width));
            let squeezed = |text: &str| text.split_ascii_whitespace().collect::<String>();
            prop_assert_eq!(squeezed(&lines.concat()), squeezed(&text));
        }
    }
}
