//! A fast parser for the most frequent events: one pass over known members.
//!
//! It reads a subset of JSON and gives up on everything else, which then goes to the full parser. It must
//! never accept what the full parser refuses, or read it differently. With the feature `compare` every
//! event is read by both and compared.

mod chat;
mod messages;
mod responses;
mod text;

pub(crate) use chat::chat;
pub(crate) use messages::messages;
pub(crate) use responses::responses;

use super::Str;
use std::borrow::Cow;

/// Reads a payload from its beginning. Every `None` means: give up, and use the full parser.
struct Quick<'a> {
    data: &'a str,
    at: usize,
    nulls: u32,
}

/// Members that may be null. A payload with a repeated member goes to the full parser.
#[derive(Debug, Clone, Copy)]
enum Nullable {
    Id,
    Object,
    Model,
    Fingerprint,
    Usage,
    FinishReason,
    Role,
    Content,
    Refusal,
    ReasoningContent,
    Reasoning,
    CallId,
    Name,
    Arguments,
}

impl<'a> Quick<'a> {
    fn new(data: &'a str) -> Self {
        Self { data, at: 0, nulls: 0 }
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.data.as_bytes().get(self.at).copied()
    }

    #[inline]
    fn eat(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    /// Skips blanks, which some providers write after colons and commas.
    #[inline]
    fn blanks(&mut self) {
        while self.peek() == Some(b' ') {
            self.at += 1;
        }
    }

    /// Reads an object. `read_member` gets the name of each member and reads its value.
    #[inline]
    fn object(&mut self, mut read_member: impl FnMut(&mut Self, &'a str) -> Option<()>) -> Option<()> {
        self.eat(b'{')?;
        if self.peek() == Some(b'}') {
            return self.eat(b'}');
        }
        loop {
            let name = self.plain()?;
            self.eat(b':')?;
            self.blanks();
            read_member(self, name)?;
            match self.peek()? {
                b',' => {
                    self.at += 1;
                    self.blanks();
                }
                _ => return self.eat(b'}'),
            }
        }
    }

    /// Checks that nothing follows.
    fn end(&self) -> Option<()> {
        (self.at == self.data.len()).then_some(())
    }

    /// Reads a string without escapes.
    #[inline]
    fn plain(&mut self) -> Option<&'a str> {
        self.eat(b'"')?;
        let begin = self.at;
        self.at = text::special(self.data.as_bytes(), begin)?;
        let plain = &self.data[begin..self.at];
        self.eat(b'"')?;
        Some(plain)
    }

    /// Reads a string.
    #[inline]
    fn text(&mut self) -> Option<Cow<'a, str>> {
        self.eat(b'"')?;
        let begin = self.at;
        let first = text::special(self.data.as_bytes(), begin)?;
        if self.data.as_bytes()[first] == b'"' {
            self.at = first + 1;
            return Some(Cow::Borrowed(&self.data[begin..first]));
        }
        let (text, end) = text::unescaped(self.data, begin, first)?;
        self.at = end;
        Some(Cow::Owned(text))
    }

    /// Reads a string into a member that is not set yet.
    #[inline]
    fn text_into(&mut self, member: &mut Option<Str<'a>>) -> Option<()> {
        if member.is_some() {
            return None;
        }
        *member = Some(Str::whole(self.text()?));
        Some(())
    }

    /// Reads a string or null into a member that is not set yet.
    #[inline]
    fn text_or_null_into(&mut self, member: &mut Option<Str<'a>>, name: Nullable) -> Option<()> {
        match self.peek()? {
            b'n' if member.is_none() => self.null(name),
            _ if self.was_null(name) => None,
            _ => self.text_into(member),
        }
    }

    /// Reads null for a member that was not null before.
    #[inline]
    fn null(&mut self, name: Nullable) -> Option<()> {
        if self.was_null(name) {
            return None;
        }
        self.nulls |= 1 << name as u32;
        self.word("null")
    }

    #[inline]
    fn was_null(&self, name: Nullable) -> bool {
        self.nulls & (1 << name as u32) != 0
    }

    fn word(&mut self, word: &str) -> Option<()> {
        self.data[self.at..].starts_with(word).then(|| self.at += word.len())
    }

    /// Reads an unsigned integer of at most 18 digits.
    #[inline]
    fn number(&mut self) -> Option<u64> {
        let begin = self.at;
        let mut number = 0;
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            number = number * 10 + u64::from(digit - b'0');
            self.at += 1;
            if self.at - begin > 18 {
                return None;
            }
        }
        let digits = &self.data[begin..self.at];
        let is_whole = matches!(self.peek()?, b',' | b'}' | b']');
        (is_whole && !digits.is_empty() && (digits == "0" || !digits.starts_with('0'))).then_some(number)
    }

    /// Reads an unsigned integer into a member that is not set yet.
    fn number_into<N: TryFrom<u64>>(&mut self, member: &mut Option<N>) -> Option<()> {
        if member.is_some() {
            return None;
        }
        *member = Some(N::try_from(self.number()?).ok()?);
        Some(())
    }

    /// Skips an unknown value that nobody misses: not a text, a list or an object with content.
    fn skip_without_content(&mut self) -> Option<()> {
        match self.peek()? {
            b'"' => self.word("\"\""),
            _ => self.skip(),
        }
    }

    /// Skips an unused value: anything except lists and objects with content.
    fn skip(&mut self) -> Option<()> {
        match self.peek()? {
            b'"' => self.text().map(drop),
            b'n' => self.word("null"),
            b't' => self.word("true"),
            b'f' => self.word("false"),
            b'[' => self.word("[]"),
            b'{' => self.word("{}"),
            _ => self.number().map(drop),
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
