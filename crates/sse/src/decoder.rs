//! The decoder: splits lines, adds them to the open block, and returns frames.

use crate::block::{Block, DEFAULT_TYPE};
use crate::carry_over::{CarryOver, Chunk};
use crate::frame::{Anomaly, AnomalyKind, Comment, Cut, Event, Frame, Residue, Text};
use crate::line::{Line, parse_retry, without_space};
use memchr::memchr2;
use std::ops::Range;

/// The default cap on the bytes of one event.
pub const DEFAULT_LIMIT: usize = 16 * 1024 * 1024;

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// Decodes one stream, read by read.
///
/// Each byte is searched for line endings once, however the input is split. An event within one read is not
/// copied. An event that spans reads is collected in a buffer that the cap bounds. At worst the decoder
/// needs a small multiple of the cap, and between events almost nothing.
#[derive(Debug)]
pub struct Decoder {
    limit: u64,
    /// Offset of the next byte.
    at: u64,
    /// Offset of the first byte of the current line.
    line: u64,
    /// The last byte was a CR. An LF directly after it belongs to the same line ending.
    after_cr: bool,
    /// The bytes of a byte order mark at the beginning of the stream.
    bom: usize,
    /// Discarding an oversize event: from where on, and where its last line so far ended.
    skipping: Option<Range<u64>>,
    carried: CarryOver,
    block: Block,
    last_id: String,
    stage: Stage,
    /// The end of a read whose [`Frames`] are not finished.
    reading: Option<u64>,
}

/// What the caller got last, and may still borrow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing to drop.
    Reading,
    /// The invalid UTF-8 of an event; the event itself comes next.
    Flagged,
    /// The block. It is dropped with the next call, when the caller no longer borrows it.
    BlockHandedOut,
    /// A carried line outside of a block, dropped in the same way.
    LineHandedOut,
    /// The stream is over; the next read starts another one.
    Finished,
}

/// A frame before it borrows anything.
enum Found {
    /// An event of one data line within this read. Streams of OpenAI and opencode consist of these.
    OneLine(Range<u64>),
    Block,
    Comment(Range<u64>),
    Anomaly(AnomalyKind, Range<u64>),
}

/// The frames that one read completes: `while let Some(frame) = frames.next_frame()`.
///
/// Dropping it early decodes the rest of the read and discards those frames, so that the decoder stays in
/// sync. Leaking it (`mem::forget`) loses the rest of the read and the open event.
#[derive(Debug)]
#[must_use = "frames are only decoded as they are asked for"]
pub struct Frames<'d> {
    decoder: &'d mut Decoder,
    bytes: &'d [u8],
    at: u64,
}

// === impl Decoder ===

impl Default for Decoder {
    fn default() -> Self {
        Self::with_limit(DEFAULT_LIMIT)
    }
}

impl Decoder {
    /// A decoder at the beginning of a stream, with the [`DEFAULT_LIMIT`].
    pub fn new() -> Self {
        Self::default()
    }

    /// A decoder that discards an event, or a comment or other line, of more than `limit` bytes.
    pub fn with_limit(limit: usize) -> Self {
        Self {
            limit: limit as u64,
            at: 0,
            line: 0,
            after_cr: false,
            bom: 0,
            skipping: None,
            carried: CarryOver::default(),
            block: Block::default(),
            last_id: String::new(),
            stage: Stage::Reading,
            reading: None,
        }
    }

    /// Decodes the next read.
    ///
    /// After [`finish`](Self::finish) this starts a new stream: offsets start at 0, and the last event id
    /// is kept, as after a reconnection.
    #[inline]
    pub fn feed<'d>(&'d mut self, read: &'d [u8]) -> Frames<'d> {
        if self.stage == Stage::Finished {
            self.restart();
        }
        self.forget_leaked();
        let at = self.at;
        if at < BOM.len() as u64 {
            self.pass_bom(read);
        }
        self.reading = Some(at + read.len() as u64);
        Frames { at, bytes: read, decoder: self }
    }

    /// Ends the input, and returns what is incomplete.
    ///
    /// That is a [`Frame::Residue`], or the last [`AnomalyKind::Skipped`] if an oversize event was being
    /// discarded. It is kept until the next `feed` or `finish`.
    pub fn finish(&mut self) -> Option<Frame<'_>> {
        if self.stage == Stage::Finished {
            self.block.reset();
            self.carried.clear();
            return None;
        }
        self.forget_leaked();
        self.drop_handed_out();
        self.stage = Stage::Finished;
        if let Some(skipped) = &self.skipping {
            let in_line = self.line < self.at;
            let range = skipped.start..if in_line { self.at } else { skipped.end };
            return Some(Frame::Anomaly(Anomaly { kind: AnomalyKind::Skipped, raw: &[], range }));
        }
        let nothing = Chunk { bytes: &[], at: self.at };
        let line = self.line..self.at;
        if self.exceeds(&line) {
            // A partial byte order mark, under an even smaller cap.
            return Some(Frame::Anomaly(Anomaly { kind: AnomalyKind::Skipped, raw: &[], range: line }));
        }
        self.carried.cover(nothing, &line);
        let cut = if line.is_empty() { Cut::AfterLine } else { Cut::InLine };
        if !line.is_empty() {
            let bytes = self.carried.slice(nothing, &line);
            // Without a colon the name itself may be cut: `data` of `database: …`.
            if bytes.starts_with(b"data:")
                && let Line::Data(value) = Line::parse(bytes)
            {
                self.block.push_data(&self.carried, nothing, &line, value.len());
            }
            self.block.accept(&line);
            self.block.extend_to(line.end);
        }
        self.block.start()?;
        Some(Frame::Residue(Residue { parsed: self.block.event(&self.carried, nothing, &self.last_id), cut }))
    }

    /// The stream's last event id, set by complete blocks. Empty at first.
    pub fn last_event_id(&self) -> &str {
        &self.last_id
    }

    /// The number of decoded bytes.
    pub fn offset(&self) -> u64 {
        self.at
    }

    /// The number of bytes that are kept of the open event or the residue.
    ///
    /// At most about twice the cap, if several data lines are also kept joined.
    pub fn held(&self) -> usize {
        self.carried.len() + self.block.joined_len()
    }

    fn restart(&mut self) {
        let last_id = std::mem::take(&mut self.last_id);
        *self = Self { last_id, limit: self.limit, ..Self::new() };
    }

    /// Skips a byte order mark at the beginning. It does not count against the cap, in any split.
    fn pass_bom(&mut self, read: &[u8]) {
        // After any other byte, `at` is ahead of what matched.
        if self.bom as u64 != self.at {
            return;
        }
        let more = read.iter().zip(&BOM[self.bom..]).take_while(|(byte, wanted)| byte == wanted);
        self.bom += more.count();
        if self.bom == BOM.len() {
            self.at = BOM.len() as u64;
            self.line = self.at;
            self.carried.clear();
        }
    }

    /// If the frames of the previous read were leaked, its bytes and the open event are lost.
    #[inline]
    fn forget_leaked(&mut self) {
        if let Some(end) = self.reading.take() {
            self.skip_to(end);
        }
    }

    #[cold]
    fn skip_to(&mut self, end: u64) {
        self.block.reset();
        self.carried.clear();
        self.skipping = None;
        self.after_cr = false;
        self.stage = Stage::Reading;
        self.at = end;
        self.line = end;
    }

    /// Drops what the caller got last. It is no longer borrowed.
    fn drop_handed_out(&mut self) {
        match self.stage {
            Stage::BlockHandedOut => self.block.reset(),
            Stage::LineHandedOut => {}
            Stage::Reading | Stage::Flagged | Stage::Finished => return,
        }
        self.carried.clear();
        self.stage = Stage::Reading;
    }

    /// Decodes to the next frame in the read, or to the end of the read.
    #[inline]
    fn advance(&mut self, chunk: Chunk<'_>) -> Option<Found> {
        if self.stage != Stage::Reading {
            self.drop_handed_out();
            if self.stage == Stage::Flagged {
                return Some(Found::Block);
            }
        }
        loop {
            let mut rest = chunk.from(self.at);
            if self.after_cr && !rest.is_empty() {
                self.after_cr = false;
                if rest[0] == b'\n' {
                    self.at += 1;
                    self.line += 1;
                    rest = &rest[1..];
                }
            }
            // After an event, a blank line or the end of the read is common. It needs no search.
            let length = match rest.first() {
                None if self.line == self.at && self.block.start().is_none() => return None,
                None => return self.end_of_read(chunk),
                Some(b'\n') => 0,
                Some(_) => match memchr2(b'\n', b'\r', rest) {
                    Some(length) => length,
                    None => return self.end_of_read(chunk),
                },
            };
            let end = self.at + length as u64;
            let line = self.line..end;
            if self.is_one_line_event(rest, length) {
                self.at = end + 2;
                self.line = end + 2;
                return Some(Found::OneLine(line));
            }
            self.after_cr = rest[length] == b'\r';
            self.at = end + 1;
            self.line = end + 1;
            if let Some(found) = self.take_line(chunk, line) {
                return Some(found);
            }
        }
    }

    /// Whether no block is open, and the read continues with one data line of this length and a blank line.
    ///
    /// Such an event needs no [`Block`]. With one, small events took 1.6 times as long.
    #[inline]
    fn is_one_line_event(&self, rest: &[u8], length: usize) -> bool {
        rest[length..].starts_with(b"\n\n")
            && rest.starts_with(b"data:")
            && self.line == self.at
            && self.block.start().is_none()
            && self.skipping.is_none()
            && length as u64 <= self.limit
    }

    /// Carries unfinished bytes over to the next read.
    #[inline(never)]
    fn end_of_read(&mut self, chunk: Chunk<'_>) -> Option<Found> {
        self.at = chunk.end();
        if self.skipping.is_some() {
            return None;
        }
        let partial = self.line..self.at;
        // A partial byte order mark may become a complete one, which does not count against the cap.
        let may_be_bom = self.bom as u64 == self.at;
        if self.exceeds(&partial) && !may_be_bom {
            return Some(self.begin_skipping(chunk, &partial));
        }
        let start = self.block.start().unwrap_or(partial.start);
        if start < self.at {
            self.carried.keep(chunk, start);
        }
        None
    }

    /// Handles a complete line, without its ending.
    ///
    /// Not inlined: with this, `end_of_read` and `show` inlined, one-line events took 5 to 15 % longer,
    /// although they never get here.
    #[inline(never)]
    fn take_line(&mut self, chunk: Chunk<'_>, line: Range<u64>) -> Option<Found> {
        if let Some(skipped) = &mut self.skipping {
            if !line.is_empty() {
                skipped.end = line.end;
                return None;
            }
            let skipped = skipped.clone();
            self.skipping = None;
            return Some(Found::Anomaly(AnomalyKind::Skipped, skipped));
        }
        self.carried.cover(chunk, &line);
        if self.exceeds(&line) {
            return Some(self.begin_skipping(chunk, &line));
        }
        if line.is_empty() {
            return self.end_of_block(chunk);
        }
        let found = self.take_field(chunk, &line);
        self.block.extend_to(line.end);
        if self.block.start().is_none() && self.carried.len() > 0 {
            self.stage = Stage::LineHandedOut;
        }
        found
    }

    #[inline]
    fn take_field(&mut self, chunk: Chunk<'_>, line: &Range<u64>) -> Option<Found> {
        let anomaly = |kind| Some(Found::Anomaly(kind, line.clone()));
        match Line::parse(self.carried.slice(chunk, line)) {
            Line::Data(value) => {
                let length = value.len();
                self.block.push_data(&self.carried, chunk, line, length);
                None
            }
            Line::Event(value) => {
                let valid = self.block.set_event(line, value);
                if valid { None } else { anomaly(AnomalyKind::InvalidUtf8) }
            }
            Line::Id(value) if value.contains(&0) => anomaly(AnomalyKind::NulInId),
            Line::Id(value) => {
                let valid = self.block.set_id(line, value);
                if valid { None } else { anomaly(AnomalyKind::InvalidUtf8) }
            }
            Line::Retry(value) => match parse_retry(value) {
                Some(milliseconds) => {
                    self.block.set_retry(line, milliseconds);
                    None
                }
                None => anomaly(AnomalyKind::BadRetry),
            },
            Line::Comment(_) => Some(Found::Comment(line.clone())),
            Line::UnknownField => anomaly(AnomalyKind::UnknownField),
            Line::NotAField => anomaly(AnomalyKind::NotAField),
        }
    }

    #[inline]
    fn end_of_block(&mut self, chunk: Chunk<'_>) -> Option<Found> {
        if self.block.start().is_none() {
            self.carried.clear();
            return None;
        }
        if let Some(id) = self.block.id() {
            self.last_id.clear();
            self.last_id.push_str(id);
        }
        self.carried.cover(chunk, self.block.range());
        Some(Found::Block)
    }

    /// Whether the bytes up to the end of this line's content exceed the cap.
    ///
    /// Line endings do not count: at the end of a read their length is unknown, and the answer must not
    /// depend on the split.
    #[inline]
    fn exceeds(&self, line: &Range<u64>) -> bool {
        let start = self.block.start().unwrap_or(line.start);
        !line.is_empty() && line.end - start > self.limit
    }

    fn begin_skipping(&mut self, chunk: Chunk<'_>, line: &Range<u64>) -> Found {
        let start = self.block.start().unwrap_or(line.start);
        let range = start..start + self.limit;
        self.carried.cover(chunk, &range);
        self.skipping = Some(range.end..line.end);
        self.stage = Stage::BlockHandedOut;
        Found::Anomaly(AnomalyKind::Oversize, range)
    }

    /// An event of one line; or the anomaly that it is not UTF-8, after which it is returned as a block.
    #[inline]
    fn show_one_line<'a>(&'a mut self, chunk: Chunk<'a>, range: Range<u64>) -> Frame<'a> {
        let raw = chunk.slice(range.clone());
        match Text::new(without_space(&raw[b"data:".len()..])) {
            data @ Text::Utf8(_) => Frame::Event(Event {
                event: DEFAULT_TYPE,
                id: None,
                last_id: &self.last_id,
                retry: None,
                data,
                raw,
                range,
            }),
            Text::Broken(value) => {
                self.block.push_data(&self.carried, chunk, &range, value.len());
                self.stage = Stage::Flagged;
                Frame::Anomaly(Anomaly { kind: AnomalyKind::InvalidUtf8, raw, range })
            }
        }
    }

    #[inline(never)]
    fn show<'a>(&'a mut self, chunk: Chunk<'a>, found: Found) -> Frame<'a> {
        match found {
            Found::OneLine(range) => self.show_one_line(chunk, range),
            Found::Block => {
                let event = self.block.event(&self.carried, chunk, &self.last_id);
                if event.data.utf8().is_none() && self.stage != Stage::Flagged {
                    self.stage = Stage::Flagged;
                    let kind = AnomalyKind::InvalidUtf8;
                    return Frame::Anomaly(Anomaly { kind, raw: event.raw, range: event.range });
                }
                self.stage = Stage::BlockHandedOut;
                if self.block.has_data() { Frame::Event(event) } else { Frame::Undispatched(event) }
            }
            Found::Comment(range) => {
                let line = self.carried.slice(chunk, &range);
                Frame::Comment(Comment { text: Text::new(without_space(&line[1..])), range })
            }
            Found::Anomaly(kind, range) => {
                let raw = match kind {
                    AnomalyKind::Skipped => &[],
                    AnomalyKind::NotAField
                    | AnomalyKind::UnknownField
                    | AnomalyKind::NulInId
                    | AnomalyKind::BadRetry
                    | AnomalyKind::InvalidUtf8
                    | AnomalyKind::Oversize => self.carried.slice(chunk, &range),
                };
                Frame::Anomaly(Anomaly { kind, raw, range })
            }
        }
    }
}

// === impl Frames ===

impl Frames<'_> {
    /// The next frame that this read completes.
    #[inline]
    pub fn next_frame(&mut self) -> Option<Frame<'_>> {
        let chunk = Chunk { bytes: self.bytes, at: self.at };
        match self.decoder.advance(chunk) {
            Some(Found::OneLine(range)) => Some(self.decoder.show_one_line(chunk, range)),
            Some(found) => Some(self.decoder.show(chunk, found)),
            None => {
                self.decoder.reading = None;
                None
            }
        }
    }

    #[inline(never)]
    fn discard(&mut self) {
        while self.next_frame().is_some() {}
    }
}

impl Drop for Frames<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.decoder.reading.is_some() {
            self.discard();
        }
    }
}
