//! The law checker as an assertion.

use std::fmt::Write;
use turnstream_model::check::Checker;
pub use turnstream_model::check::Tail;

/// Asserts that these lines, one event each, break no law. Panics with every violation and the log.
#[track_caller]
pub fn assert_lawful<'a>(lines: impl IntoIterator<Item = &'a str>, tail: Tail) {
    let mut checker = Checker::new();
    let mut log = String::new();
    for line in lines {
        checker.line(line);
        log.push_str(line);
        log.push('\n');
    }
    let report = checker.finish(tail);
    if report.violations.is_empty() {
        return;
    }
    let mut broken = String::new();
    for violation in &report.violations {
        // Writing to a String does not fail.
        let _ = writeln!(broken, "  {violation}");
    }
    panic!("the log breaks the law:\n{broken}\nthe log:\n{log}");
}

#[cfg(test)]
mod tests {
    use super::{Tail, assert_lawful};

    const CREATED: &str =
        r#"{"seq":1,"time":1,"type":"session.created","session":"s","agent":"a","cwd":"/w"}"#;

    #[test]
    fn a_lawful_log_passes() {
        assert_lawful([CREATED], Tail::Settled);
    }

    #[test]
    #[should_panic(expected = "line 2, seq 3: seq: 3 follows 1")]
    fn an_unlawful_log_panics_with_what_it_breaks() {
        assert_lawful(
            [CREATED, r#"{"seq":3,"time":1,"type":"session.status","status":"idle"}"#],
            Tail::Settled,
        );
    }
}
