//! A shortcut for the events that streams mostly consist of: one pass over members that are known, without a table of all that
//! there could be. It reads less than JSON is and gives up on everything else, which then goes to the parser; so it must never
//! accept what the parser would not, or read it otherwise. With the feature `compare` every event is read both ways and compared.

mod chat;
mod messages;
mod responses;
mod text;

pub(crate) use chat::chat;
pub(crate) use messages::messages;
pub(crate) use responses::responses;

use super::Str;
use std::borrow::Cow;

/// Reads a payload from its beginning. `None` is always: give up.
struct Quick<'a> {
    data: &'a str,
    at: usize,
    nulls: u32,
}

/// Members that may be null, of all objects of a payload: one that comes again is the parser's.
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

    /// Blanks, which some write behind colons and commas.
    #[inline]
    fn blanks(&mut self) {
        while self.peek() == Some(b' ') {
            self.at += 1;
        }
    }

    /// An object, member by member. `take` is given the name and reads the value.
    #[inline]
    fn object(&mut self, mut take: impl FnMut(&mut Self, &'a str) -> Option<()>) -> Option<()> {
        self.eat(b'{')?;
        if self.peek() == Some(b'}') {
            return self.eat(b'}');
        }
        loop {
            let name = self.plain()?;
            self.eat(b':')?;
            self.blanks();
            take(self, name)?;
            match self.peek()? {
                b',' => {
                    self.at += 1;
                    self.blanks();
                }
                _ => return self.eat(b'}'),
            }
        }
    }

    /// Nothing may follow.
    fn end(&self) -> Option<()> {
        (self.at == self.data.len()).then_some(())
    }

    /// A string without escapes.
    #[inline]
    fn plain(&mut self) -> Option<&'a str> {
        self.eat(b'"')?;
        let begin = self.at;
        self.at = text::special(self.data.as_bytes(), begin)?;
        let plain = &self.data[begin..self.at];
        self.eat(b'"')?;
        Some(plain)
    }

    /// A string.
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

    /// A string for a member that has none yet: one that comes twice is the parser's.
    #[inline]
    fn text_into(&mut self, member: &mut Option<Str<'a>>) -> Option<()> {
        if member.is_some() {
            return None;
        }
        *member = Some(Str::whole(self.text()?));
        Some(())
    }

    /// The same, or null.
    #[inline]
    fn text_or_null_into(&mut self, member: &mut Option<Str<'a>>, name: Nullable) -> Option<()> {
        match self.peek()? {
            b'n' if member.is_none() => self.null(name),
            _ if self.was_null(name) => None,
            _ => self.text_into(member),
        }
    }

    /// Null, for a member that was not.
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

    /// A whole number of at most 18 digits.
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

    /// A whole number for a member that has none yet.
    fn number_into<N: TryFrom<u64>>(&mut self, member: &mut Option<N>) -> Option<()> {
        if member.is_some() {
            return None;
        }
        *member = Some(N::try_from(self.number()?).ok()?);
        Some(())
    }

    /// A value that nobody reads: anything but lists and objects with something in them.
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
mod tests;
