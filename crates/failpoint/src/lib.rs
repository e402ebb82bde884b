//! Named places in product code at which a test can stop the process and kill it.
//!
//! Product code calls [`reach`] and depends on this crate without features: the call is empty and compiles to
//! nothing. `turnstream-testkit` enables the feature `armed`. So every crate with the testkit as a
//! dev-dependency has live failpoints in its tests, without a feature of its own. A build of the whole
//! workspace arms them too; they do nothing unless [`VARIABLE`] is set.

/// Names the failpoint to stop at: `name` for the first time, or `name:nth`, counted from 1.
pub const VARIABLE: &str = "TURNSTREAM_FAILPOINT";

/// The beginning of the line that a stopped process prints on its standard output; the name follows.
pub const MARKER: &str = "TURNSTREAM_FAILPOINT_REACHED ";

/// Stops the calling thread for ever if [`VARIABLE`] names this failpoint and this is the chosen time.
///
/// Other threads continue until the harness reads the marker line and kills the process.
#[inline(always)]
pub fn reach(name: &str) {
    #[cfg(feature = "armed")]
    armed::reach(name);
    // Only an armed build uses the name.
    #[cfg(not(feature = "armed"))]
    let _ = name;
}

#[cfg(feature = "armed")]
mod armed {
    use crate::{MARKER, VARIABLE};
    use std::io::Write;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    struct Target {
        name: String,
        nth: u64,
        seen: AtomicU64,
    }

    static TARGET: OnceLock<Option<Target>> = OnceLock::new();

    pub(crate) fn reach(name: &str) {
        let target = TARGET.get_or_init(|| std::env::var(VARIABLE).ok().map(|text| parse(&text)));
        let Some(target) = target else { return };
        if target.name == name && target.seen.fetch_add(1, Ordering::Relaxed) + 1 == target.nth {
            stop(name);
        }
    }

    /// A name may contain colons: only a number after the last colon is a count.
    fn parse(text: &str) -> Target {
        let counted = text.rsplit_once(':').and_then(|(name, nth)| Some((name, nth.parse().ok()?)));
        let (name, nth) = counted.unwrap_or((text, 1));
        Target { name: name.to_owned(), nth, seen: AtomicU64::new(0) }
    }

    fn stop(name: &str) {
        let mut stdout = std::io::stdout().lock();
        // The first line feed ends a line that another thread may have begun. If the pipe is closed, nobody
        // waits for the marker; the thread stops anyway.
        let _ = write!(stdout, "\n{MARKER}{name}\n").and_then(|()| stdout.flush());
        drop(stdout);
        loop {
            std::thread::park();
        }
    }

    #[cfg(test)]
    mod tests {
        use super::parse;

        #[test]
        fn a_number_after_the_last_colon_is_the_count_and_anything_else_belongs_to_the_name() {
            let read = |text| {
                let target = parse(text);
                (target.name, target.nth)
            };
            assert_eq!(read("log.commit"), ("log.commit".to_owned(), 1));
            assert_eq!(read("log.commit:7"), ("log.commit".to_owned(), 7));
            assert_eq!(read("log::commit"), ("log::commit".to_owned(), 1));
            assert_eq!(read("log::commit:2"), ("log::commit".to_owned(), 2));
        }
    }
}
