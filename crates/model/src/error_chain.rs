//! An error with everything that caused it, for one line of a log.

use std::error::Error;
use std::fmt;

/// Shows an error and its sources: `could not open the log: permission denied`.
///
/// A source whose text the error before it already repeats is left out.
pub struct Chain<'a>(pub &'a dyn Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = self.0.to_string();
        out.write_str(&shown)?;
        let mut source = self.0.source();
        while let Some(error) = source {
            let text = error.to_string();
            if !shown.contains(&text) {
                write!(out, ": {text}")?;
            }
            shown = text;
            source = error.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Chain;
    use std::io;

    #[derive(Debug, thiserror::Error)]
    #[error("could not open the log")]
    struct Outer(#[source] io::Error);

    #[derive(Debug, thiserror::Error)]
    #[error("start failed: {0}; try again")]
    struct Repeating(#[source] Outer);

    #[test]
    fn a_chain_names_every_source_once() {
        let error = Repeating(Outer(io::Error::other("disk on fire")));
        assert_eq!(
            Chain(&error).to_string(),
            "start failed: could not open the log; try again: disk on fire"
        );
    }
}
