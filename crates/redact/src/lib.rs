//! Takes secrets out of text while it streams.

mod after;
mod assign;
mod block;
mod builder;
mod class;
mod custom;
mod fragment;
mod gate;
mod header;
#[cfg(feature = "json")]
mod json;
mod jwt;
mod name;
mod query;
mod rules;
mod scan;
mod stream;
mod token;
mod url;
mod value;
mod view;

pub use builder::{Builder, LONGEST_LITERAL, Pattern, RuleError, SHORTEST_LITERAL, SHORTEST_PREFIX, kinds};
pub use rules::Rules;
pub use stream::{Held, Stream};
