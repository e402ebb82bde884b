//! The upper limit: lines appended to one file, with one `fdatasync` for all waiting lines.

use super::Cell;
use super::load::{Load, Sent, text};
use crate::Latencies;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

#[derive(Default)]
struct Shared {
    waiting: Mutex<(Vec<u64>, bool)>,
    arrived: Condvar,
}

pub(crate) fn run(load: &Load, path: &Path) -> Cell {
    let shared = Arc::new(Shared::default());
    let sent = Arc::new(Sent::new());
    let writer = std::thread::spawn({
        let (shared, sent) = (shared.clone(), sent.clone());
        let file = File::create(path).expect("a file in the bench directory");
        move || write(&shared, &sent, file)
    });
    let start = Instant::now();
    let mut next = 0;
    while next < load.total() {
        let due = load.due(start.elapsed());
        if next < due {
            let now = sent.micros();
            let mut waiting = shared.waiting.lock().expect("no panic");
            waiting.0.extend(std::iter::repeat_n(now, (due - next) as usize));
            drop(waiting);
            shared.arrived.notify_one();
            next = due;
        }
        std::thread::sleep(load.rest());
    }
    let elapsed = start.elapsed();
    shared.waiting.lock().expect("no panic").1 = true;
    shared.arrived.notify_one();
    let latencies = writer.join().expect("the writer ends");
    let drain = start.elapsed().saturating_sub(elapsed);
    Cell { sent: next, elapsed, durable: Latencies::of(latencies), followed: None, drain }
}

fn write(shared: &Shared, sent: &Sent, mut file: File) -> Vec<u64> {
    let mut latencies = Vec::new();
    let mut buffer = Vec::new();
    let line = format!(
        "{{\"seq\":1,\"time\":1794700000000,\"type\":\"item.delta\",\"turn\":\"t1\",\"item\":\"i1\",\"text\":\"{}\"}}\n",
        text(0)
    );
    loop {
        let mut waiting = shared.waiting.lock().expect("no panic");
        while waiting.0.is_empty() && !waiting.1 {
            waiting = shared.arrived.wait_timeout(waiting, Duration::from_millis(100)).expect("no panic").0;
        }
        let batch = std::mem::take(&mut waiting.0);
        let closed = waiting.1;
        drop(waiting);
        if batch.is_empty() && closed {
            return latencies;
        }
        buffer.clear();
        for _ in &batch {
            buffer.extend_from_slice(line.as_bytes());
        }
        file.write_all(&buffer).expect("room on the disk");
        file.sync_data().expect("a sync");
        let now = sent.micros();
        latencies.extend(batch.iter().map(|at| now - at));
    }
}
