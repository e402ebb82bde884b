//! Named places in product code where a test can stop the process, to kill it exactly there.
//!
//! Product code calls [`reach`] and depends on this crate without features: the call is then empty and
//! compiles to nothing. `turnstream-testkit` turns the feature `armed` on, so every crate that has the testkit
//! as a dev-dependency gets live failpoints in its tests without a feature of its own. A build of the
//! whole workspace arms them too; they then do nothing unless [`VARIABLE`] is set.

/// Names the failpoint to stop at, as `name` (first time) or `name:nth` (counted from 1).
pub const VARIABLE: &str = "TURNSTREAM_FAILPOINT";

/// Starts the line a process prints on its standard output when it has stopped; the name follows.
pub const MARKER: &str = "TURNSTREAM_FAILPOINT_REACHED ";

/// Stops the calling thread for good if [`VARIABLE`] names this failpoint and this is the chosen time.
///
/// Other threads go on until the harness, which reads the marker line, kills the process.
#[inline(always)]
pub fn reach(name: &str) {
    #[cfg(feature = "armed")]
    armed::reach(name);
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

    /// A name may hold colons: only a number after the last one is a count.
    fn parse(text: &str) -> Target {
        let counted = text.rsplit_once(':').and_then(|(name, nth)| Some((name, nth.parse().ok()?)));
        let (name, nth) = counted.unwrap_or((text, 1));
        Target { name: name.to_owned(), nth, seen: AtomicU64::new(0) }
    }

    fn stop(name: &str) {
        let mut stdout = std::io::stdout().lock();
        // The first line feed ends whatever line another thread was in. A closed pipe means that nobody
        // waits for the marker; stopping is still what was asked for.
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
