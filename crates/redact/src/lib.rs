//! Takes secrets out of text while it streams.
//!
//! A [`Stream`] is fed one growing text in any pieces and gives out the same text with `[redacted:kind]` in
//! place of every secret: keys of model providers, clouds and forges, bearer and basic credentials,
//! passwords in URLs, web tokens, private key blocks, values behind names like `password`, and values and
//! expressions from configuration. The longest end of the text that may still become a secret is held back,
//! so that no flush, no crash and no subscriber ever sees the first half of a key.
//!
//! ```
//! use turnstream_redact::{Held, Rules, Stream};
//!
//! let rules = Rules::builder().literal("database", "correct horse battery")?.build();
//! let mut stream = Stream::new(&rules);
//! let mut out = String::new();
//!
//! stream.push("DB_PASSWORD=x7!kq", &mut out);
//! assert_eq!((&out[..], stream.holds()), ("DB_PASSWORD=", Held::Firm));
//! stream.push("9zt2\nor was it corr", &mut out);
//! stream.push("ect horse battery? As", &mut out);
//! assert_eq!(out, "DB_PASSWORD=[redacted:password]\nor was it [redacted:database]? As");
//! stream.push("k s", &mut out);
//! assert_eq!(stream.holds(), Held::Brief); // `s` may begin `sk-...`
//! stream.release(&mut out); // 50 ms later
//! stream.push("omeone.", &mut out);
//! stream.finish(&mut out); // the text has ended
//! assert_eq!(out, "DB_PASSWORD=[redacted:password]\nor was it [redacted:database]? Ask someone.");
//!
//! // What is there as a whole:
//! assert_eq!(rules.redact("postgres://app:x7kq9zt2@db/main"), "postgres://app:[redacted:url_password]@db/main");
//! # Ok::<(), turnstream_redact::RuleError>(())
//! ```
//!
//! # What is promised
//!
//! - **Pieces make no difference.** Without [`Stream::release`], the pieces pushed and then finished give
//!   what [`Rules::redact`] gives for the whole.
//! - **Time gives out little.** [`Stream::release`] gives out only what has no distinctive beginning: less
//!   than 12 bytes of a secret, nothing of a value behind a name. What follows is still redacted.
//! - **Ends may be stale.** [`Stream::settle`] gives out less than 12 bytes of what has begun like a secret
//!   and redacts the rest of it, also if there is more after all. Only [`Stream::finish`] takes what looks
//!   like a word for one: then nothing follows that could make a secret of it.
//! - **Redacting twice is redacting once**, unless an expression from configuration looks at what follows it.
//! - **Memory is bounded**: a few kilobytes per stream. A longer run is redacted without being held.
//!
//! # What is not found
//!
//! Secrets without a form of their own and without a name before them; passwords of words only, with
//! spaces, or with brackets; secrets that are encoded (base64 of a key, other than of a key block), split
//! over lines or spelled out. A literal given with [`Builder::literal`] is always found, as it is and as
//! JSON and URLs write it.

mod after;
mod assign;
mod block;
mod builder;
mod class;
mod command;
mod custom;
mod fragment;
mod gate;
mod header;
#[cfg(feature = "json")]
mod json;
mod jwt;
mod name;
mod putty;
mod query;
mod rules;
mod scan;
mod spaced;
mod stream;
mod token;
mod url;
mod value;
mod view;

pub use builder::{Builder, LONGEST_LITERAL, Pattern, RuleError, SHORTEST_LITERAL, SHORTEST_PREFIX, kinds};
pub use rules::{Rules, has_marker};
pub use stream::{Held, Stream};
