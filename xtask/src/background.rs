//! Work that needs no attention while the checks go on, such as an installation.

use std::thread::JoinHandle;

/// Work on a thread of its own. A command that it runs ends with xtask.
#[derive(Debug)]
pub(crate) struct Background<T> {
    what: &'static str,
    thread: JoinHandle<T>,
}

// === impl Background ===

impl<T: Send + 'static> Background<T> {
    pub(crate) fn start(what: &'static str, work: impl FnOnce() -> T + Send + 'static) -> Self {
        Self { what, thread: std::thread::spawn(work) }
    }

    /// Waits for the result. An error says that the work panicked; standard error has the panic.
    pub(crate) fn wait(self) -> Result<T, String> {
        self.thread.join().map_err(|_| format!("{} panicked", self.what))
    }
}

#[cfg(test)]
mod tests {
    use super::Background;

    #[test]
    fn a_panic_in_the_background_is_an_error_that_names_the_work() {
        assert_eq!(Background::start("a sum", || 1 + 1).wait(), Ok(2));
        let panics = Background::start("an installation", || assert_eq!(1, 2));
        assert_eq!(panics.wait(), Err("an installation panicked".to_owned()));
    }
}
