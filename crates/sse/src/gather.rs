//! Bytes that come in pieces, checked for UTF-8 piece by piece.
//!
//! Each piece is checked while it is in the cache; a look at the whole at the end, from memory, made an event of
//! 16 MiB in small reads take 1.5 times as long. And what was pushed to a `String` can be given out as `&str`.

use crate::hold::KEPT_CAPACITY;

/// Text as long as it can be text, bytes from then on.
#[derive(Debug)]
pub(crate) enum Gathered {
    /// Valid so far; `tail` is the beginning of a character whose other bytes have not come, at most 3 bytes.
    Text { text: String, tail: Vec<u8> },
    /// Not UTF-8.
    Bytes(Vec<u8>),
}

impl Default for Gathered {
    fn default() -> Self {
        Self::Text { text: String::new(), tail: Vec::new() }
    }
}

impl Gathered {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Text { text, tail } => text.len() + tail.len(),
            Self::Bytes(bytes) => bytes.len(),
        }
    }

    pub(crate) fn extend(&mut self, mut piece: &[u8]) {
        let Self::Text { text, tail } = self else { return self.extend_bytes(piece) };
        while !tail.is_empty() {
            let Some((byte, rest)) = piece.split_first() else { return };
            tail.push(*byte);
            piece = rest;
            match std::str::from_utf8(tail) {
                Ok(character) => {
                    text.push_str(character);
                    tail.clear();
                }
                Err(error) if error.error_len().is_none() => {}
                Err(_) => return self.extend_bytes(piece),
            }
        }
        match std::str::from_utf8(piece) {
            Ok(valid) => text.push_str(valid),
            Err(error) if error.error_len().is_none() => {
                let (valid, rest) = piece.split_at(error.valid_up_to());
                // Lossless: this is the part that was found valid.
                text.push_str(&String::from_utf8_lossy(valid));
                tail.extend_from_slice(rest);
            }
            Err(_) => self.extend_bytes(piece),
        }
    }

    /// Gives up on text.
    fn extend_bytes(&mut self, piece: &[u8]) {
        let mut bytes = match std::mem::take(self) {
            Self::Text { text, mut tail } => {
                let mut bytes = text.into_bytes();
                bytes.append(&mut tail);
                bytes
            }
            Self::Bytes(bytes) => bytes,
        };
        bytes.extend_from_slice(piece);
        *self = Self::Bytes(bytes);
    }

    /// No more bytes of the last character will come.
    pub(crate) fn settle(&mut self) {
        if matches!(self, Self::Text { tail, .. } if !tail.is_empty()) {
            self.extend_bytes(&[]);
        }
    }

    /// Everything that is settled.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Text { text, .. } => text.as_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }

    /// Everything, if it is text.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text { text, .. } => Some(text),
            Self::Bytes(_) => None,
        }
    }

    pub(crate) fn clear(&mut self) {
        match self {
            Self::Text { text, tail } if text.capacity() <= KEPT_CAPACITY => {
                text.clear();
                tail.clear();
            }
            Self::Text { .. } | Self::Bytes(_) => *self = Self::default(),
        }
    }
}
