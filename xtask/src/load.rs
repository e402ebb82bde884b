//! Busy loops next to the tests: they must also pass on a busy machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Threads that keep cores busy until this is dropped.
#[derive(Debug)]
pub(crate) struct BusyLoops {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

// === impl BusyLoops ===

impl BusyLoops {
    pub(crate) fn start(count: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let spin = |stop: Arc<AtomicBool>| {
            while !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        };
        let threads = (0..count).map(|_| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || spin(stop))
        });
        Self { threads: threads.collect(), stop }
    }
}

impl Drop for BusyLoops {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A loop cannot panic.
            let _ = thread.join();
        }
    }
}
