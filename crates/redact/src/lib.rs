//! Takes secrets out of text while it streams.

mod after;
mod builder;
mod class;
mod custom;
mod gate;
#[cfg(feature = "json")]
mod json;
mod rules;
mod scan;
mod stream;
mod token;
mod value;
mod view;

pub use builder::{Builder, LONGEST_LITERAL, Pattern, RuleError, SHORTEST_LITERAL, SHORTEST_PREFIX, kinds};
pub use rules::Rules;
pub use stream::{Held, Stream};
