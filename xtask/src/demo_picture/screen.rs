//! The text of a terminal, with the time at which each piece appeared. It knows what the demo writes: lines,
//! styles, and a status line that is erased.

/// The longest time in which nothing happens. A longer one is cut.
const LONGEST_GAP: f64 = 1.5;
/// Pieces of the same line and style that are closer than this are one.
const SAME_TIME: f64 = 0.03;

/// All that a terminal showed.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Shown {
    pub(super) pieces: Vec<Piece>,
    pub(super) lines: usize,
    /// When the last piece appeared, in seconds.
    pub(super) end: f64,
}

/// A piece of a line.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Piece {
    pub(super) line: usize,
    pub(super) column: usize,
    pub(super) text: String,
    pub(super) style: Style,
    pub(super) from: f64,
    /// When it was erased.
    pub(super) until: Option<f64>,
}

/// A style of the demo.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Style {
    #[default]
    Plain,
    Strong,
    Faint,
    Green,
    Yellow,
}

/// Reads what was written, chunk by chunk.
pub(super) fn read(chunks: &[(f64, String)]) -> Shown {
    let mut shown = Shown::default();
    let (mut column, mut style, mut last) = (0, Style::Plain, 0.0);
    for (time, text) in chunks {
        shown.end += (time - last).min(LONGEST_GAP);
        last = *time;
        let mut rest = text.as_str();
        while let Some(first) = rest.chars().next() {
            if let Some(sequence) = rest.strip_prefix("\x1b[") {
                let end = sequence.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(0);
                match &sequence[..=end] {
                    "K" => shown.erase(column),
                    sgr => style = style_of(sgr),
                }
                rest = &sequence[end + 1..];
                continue;
            }
            match first {
                '\n' => (shown.lines, column) = (shown.lines + 1, 0),
                '\r' => column = 0,
                _ => {
                    let end = rest.find(['\x1b', '\n', '\r']).unwrap_or(rest.len());
                    column += shown.add(column, &rest[..end], style);
                    rest = &rest[end..];
                    continue;
                }
            }
            rest = &rest[1..];
        }
    }
    shown
}

fn style_of(sgr: &str) -> Style {
    match sgr {
        "1m" => Style::Strong,
        "2m" => Style::Faint,
        "32m" => Style::Green,
        "33m" => Style::Yellow,
        _ => Style::Plain,
    }
}

impl Shown {
    /// Adds a piece, and returns its width.
    fn add(&mut self, column: usize, text: &str, style: Style) -> usize {
        let (line, now, width) = (self.lines, self.end, text.chars().count());
        match self.pieces.last_mut() {
            Some(piece)
                if piece.line == line
                    && piece.style == style
                    && piece.until.is_none()
                    && piece.column + piece.text.chars().count() == column
                    && now - piece.from < SAME_TIME =>
            {
                piece.text.push_str(text);
            }
            _ => {
                self.pieces.push(Piece { line, column, text: text.to_owned(), style, from: now, until: None })
            }
        }
        width
    }

    /// Erases the rest of the line.
    fn erase(&mut self, column: usize) {
        let (line, now) = (self.lines, self.end);
        for piece in self.pieces.iter_mut().rev().take_while(|piece| piece.line == line) {
            if piece.column >= column && piece.until.is_none() {
                piece.until = Some(now);
            }
        }
    }

    /// When each line appeared.
    pub(super) fn line_times(&self) -> Vec<(usize, f64)> {
        let mut times: Vec<(usize, f64)> = Vec::new();
        for piece in &self.pieces {
            if times.last().is_none_or(|(line, _)| *line < piece.line) {
                times.push((piece.line, piece.from));
            }
        }
        times
    }
}

#[cfg(test)]
mod tests {
    use super::{Piece, Style, read};

    #[test]
    fn pieces_have_a_place_a_style_and_a_time() {
        let chunks = [
            (0.0, "\x1b[1mHead\x1b[0m\r\n  a".to_owned()),
            (0.5, "b".to_owned()),
            (9.0, "\r\n\x1b[2m3 s\x1b[0m".to_owned()),
            (9.5, "\r\x1b[Kdone\r\n".to_owned()),
        ];
        let shown = read(&chunks);
        let piece = |line, column, text: &str, style, from, until| Piece {
            line,
            column,
            text: text.to_owned(),
            style,
            from,
            until,
        };
        let expected = [
            piece(0, 0, "Head", Style::Strong, 0.0, None),
            piece(1, 0, "  a", Style::Plain, 0.0, None),
            piece(1, 3, "b", Style::Plain, 0.5, None),
            piece(2, 0, "3 s", Style::Faint, 2.0, Some(2.5)),
            piece(2, 0, "done", Style::Plain, 2.5, None),
        ];
        assert_eq!(shown.pieces, expected);
        assert_eq!((shown.lines, shown.end), (3, 2.5));
        assert_eq!(shown.line_times(), [(0, 0.0), (1, 0.0), (2, 2.0)]);
    }
}
