//! Removes secrets from text while it streams.
//!
//! A [`Stream`] takes one growing text in any pieces. It gives out the same text with `[redacted:kind]` in
//! place of every secret:
//!
//! - keys of model providers, clouds and forges;
//! - bearer and basic credentials, passwords in URLs, web tokens and private key blocks;
//! - values after names like `password`;
//! - values and expressions from the configuration.
//!
//! The end of the text that may still become a secret is held back. So no flush, crash or subscriber ever
//! sees the first half of a key.
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
//! // A complete text:
//! assert_eq!(rules.redact("postgres://app:x7kq9zt2@db/main"), "postgres://app:[redacted:url_password]@db/main");
//! # Ok::<(), turnstream_redact::RuleError>(())
//! ```
//!
//! # What is promised
//!
//! - **Pieces make no difference.** Without [`Stream::release`], pushing pieces and finishing gives the
//!   same as [`Rules::redact`] for the whole text.
//! - **Time releases little.** [`Stream::release`] gives out only text without a distinctive beginning:
//!   less than 12 bytes of a secret, and nothing of a value after a name. The rest is still redacted.
//! - **An end may not be final.** [`Stream::settle`] gives out less than 12 bytes of text that begins like
//!   a secret. It redacts the rest, even if more follows. Only [`Stream::finish`] shows what looks like a
//!   word, because nothing can follow that makes it a secret.
//! - **Redacting twice is the same as redacting once**, unless an expression from the configuration looks
//!   at what follows it.
//! - **Memory is bounded**: a few kilobytes per stream. A longer run is redacted without being held.
//!
//! # What is not found
//!
//! - Secrets without a form of their own and without a name before them.
//! - Passwords of words only, with spaces, or with brackets.
//! - Encoded secrets (base64 of a key, other than of a key block), and secrets split over lines or spelled
//!   out.
//!
//! A literal given with [`Builder::literal`] is always found, as it is and as JSON and URLs write it.

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
