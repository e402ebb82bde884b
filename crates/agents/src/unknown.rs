//! What an agent sends that its adapter does not know: kept raw, as notices, bounded for each turn.

use crate::foreign_error::shorten;
use serde_json::Value;
use turnstream_model::event::NoticeCode;
use turnstream_model::signal::Signal;

/// The most bytes of a turn that are kept.
const MOST_BYTES: usize = 64 << 10;
/// What a notice needs beside its raw content.
const NOTICE_BYTES: usize = 256;

/// How much of the turn was kept.
#[derive(Debug, Default)]
pub(crate) struct Unknown {
    bytes: usize,
}

impl Unknown {
    /// A turn begins.
    pub(crate) fn reset(&mut self) {
        self.bytes = 0;
    }

    /// The notice about something that is not known; `None` if the turn had too much of it.
    pub(crate) fn notice(&mut self, sender: &str, what: &str, raw: Value) -> Option<Signal> {
        if self.bytes > MOST_BYTES {
            return None;
        }
        self.bytes += NOTICE_BYTES + raw.to_string().len();
        let mut message = format!("{sender} sent {:?}, which is not known", shorten(what));
        let detail = (self.bytes <= MOST_BYTES).then_some(raw);
        if detail.is_none() {
            message.push_str("; its content and further ones of this turn are not kept");
        }
        Some(Signal::Notice { code: NoticeCode::UnknownEvent, message, detail })
    }
}
