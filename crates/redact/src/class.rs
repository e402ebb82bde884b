//! Classes of bytes, as tables: one load says whether a byte belongs to a token, a value, a name.

/// A set of bytes.
#[derive(Debug)]
pub(crate) struct Class([bool; 256]);

impl Class {
    /// The bytes listed, and the ranges `alnum` stands for.
    const fn new(alnum: &[u8], more: &[u8]) -> Self {
        let mut table = [false; 256];
        let mut at = 0;
        while at + 1 < alnum.len() {
            let mut byte = alnum[at];
            while byte <= alnum[at + 1] {
                table[byte as usize] = true;
                byte += 1;
            }
            at += 2;
        }
        let mut at = 0;
        while at < more.len() {
            table[more[at] as usize] = true;
            at += 1;
        }
        Self(table)
    }

    /// Everything but the bytes listed, controls and space.
    const fn visible_but(less: &[u8]) -> Self {
        let mut table = [false; 256];
        let mut byte = 0x21;
        while byte < 256 {
            table[byte] = byte != 0x7f;
            byte += 1;
        }
        let mut at = 0;
        while at < less.len() {
            table[less[at] as usize] = false;
            at += 1;
        }
        Self(table)
    }

    pub(crate) fn has(&self, byte: u8) -> bool {
        self.0[usize::from(byte)]
    }

    /// Where the run of this class that begins at `from` ends, at `limit` at the latest.
    pub(crate) fn run(&self, text: &[u8], from: usize, limit: usize) -> usize {
        let limit = limit.min(text.len());
        let mut at = from;
        while at < limit && self.has(text[at]) {
            at += 1;
        }
        at
    }
}

pub(crate) static ALNUM: Class = Class::new(b"azAZ09", b"");
/// Letters, digits, underscore: what a word boundary separates.
pub(crate) static WORD: Class = Class::new(b"azAZ09", b"_");
/// base64url, which most tokens are written in.
pub(crate) static URLSAFE: Class = Class::new(b"azAZ09", b"_-");
pub(crate) static URLSAFE_DOT: Class = Class::new(b"azAZ09", b"_-.");
pub(crate) static HEX: Class = Class::new(b"afAF09", b"");
pub(crate) static UPPER: Class = Class::new(b"AZ09", b"");
pub(crate) static BASE64: Class = Class::new(b"azAZ09", b"+/=");
/// base64 and base64url with padding, and dots: the tail of anything that is a token.
pub(crate) static TOKEN: Class = Class::new(b"azAZ09", b"_-.+/=~");
/// Labels of key blocks.
pub(crate) static LABEL: Class = Class::new(b"AZ09", b" ");
/// A value without quotes.
pub(crate) static BARE: Class = Class::new(b"azAZ09", b"_-./+=~!@#$%^*?:");
/// A value in quotes: it may hold what a bare one may not, but no space and no backslash.
pub(crate) static QUOTED: Class = Class::visible_but(b"\"'`\\");
/// The content of an element of XML.
pub(crate) static ELEMENT: Class = Class::visible_but(b"\"'`\\<");
/// An argument of a command, without quotes.
pub(crate) static ARGUMENT: Class = Class::visible_but(b"\"'`\\<>()|;&");
/// A password in a `.netrc`, which has no quotes either.
pub(crate) static ENTRY: Class = Class::visible_but(b"\"'`\\");
/// `ssh-ed25519`, `rsa-sha2-512-cert-v01@openssh.com`.
pub(crate) static ALGORITHM: Class = Class::new(b"azAZ09", b"-.@");
/// What may stand before the host of a URL. Markers begin with a bracket, and are no part of it.
pub(crate) static AUTHORITY: Class = Class::visible_but(b"\"'`\\/<>[");
/// The same without the sign that ends a password.
pub(crate) static PASSWORD: Class = Class::visible_but(b"\"'`\\/<>[@");
/// base64 in either alphabet.
pub(crate) static BASE64_OR_URLSAFE: Class = Class::new(b"azAZ09", b"+/=_-");
/// base64 in a query, percent-encoded or not.
pub(crate) static PERCENT: Class = Class::new(b"azAZ09", b"+/=%_-");
