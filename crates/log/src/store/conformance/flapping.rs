//! A disk that fails, works, and fails again.

use super::support::*;
use super::*;
use std::collections::VecDeque;
use turnstream_model::cursor::Seq;
use turnstream_testkit::diagnostics::{Capture, Level};

/// Fails commits according to a list, where true is a failure. After its end all succeed.
struct Flapping(Box<dyn Commit>, Arc<Mutex<VecDeque<bool>>>);

impl Commit for Flapping {
    fn commit(&mut self, groups: &[Group]) -> Result<Vec<Stale>, StoreError> {
        if self.1.lock().unwrap().pop_front().unwrap_or(false) {
            return Err(StoreError::Transient(StoreFault::new("the disk flaps")));
        }
        self.0.commit(groups)
    }

    fn published(&mut self, groups: Vec<Group>) {
        self.0.published(groups);
    }
}

/// A log in this directory whose commits fail according to the list.
fn flapping_log(directory: &std::path::Path, failures: &Arc<Mutex<VecDeque<bool>>>) -> crate::Log {
    let (builder, reports) = LogBuilder::new(&support::options());
    let ready = embedded::open(directory, &support::options()).unwrap().ready;
    let (commits, store) = Embedded::start(ready, &support::options(), reports).unwrap();
    let commits = Box::new(Flapping(Box::new(commits), failures.clone()));
    builder.start(commits, Arc::new(store)).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_disk_is_logged_once_and_not_per_append_or_retry() {
    let directory = tempfile::tempdir().unwrap();
    let failures = Arc::new(Mutex::new(VecDeque::new()));
    let log = flapping_log(directory.path(), &failures);
    let mut appender = talking(&log, "s").await;
    let capture = Capture::start();
    *failures.lock().unwrap() = VecDeque::from([true; 8]);
    let mut receipts = Vec::new();
    for word in ["one", "two", "three", "four", "five"] {
        receipts.push(appender.append(vec![delta("t1", "i1", word)], NOW).await.unwrap());
    }
    for receipt in receipts {
        receipt.await.unwrap();
    }
    capture.until(|line| line.message == "writes succeed again").await;
    let lines = capture.at_least(Level::INFO);
    let told: Vec<String> = lines.iter().map(|line| format!("{} {}", line.level, line.message)).collect();
    assert_eq!(told, ["WARN writes fail; events wait and are retried", "INFO writes succeed again"]);
    assert_eq!((lines[0].field("source"), lines[0].field("error")), (Some("commit"), Some("the disk flaps")));
    drop(appender);
    log.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_waited_twice_before_it_could_be_told_has_no_number_twice() {
    let directory = tempfile::tempdir().unwrap();
    let failures = Arc::new(Mutex::new(VecDeque::new()));
    let log = flapping_log(directory.path(), &failures);
    let mut appender = talking(&log, "s").await;
    // The commit fails once, its notice fails, the next commit fails once, and from then on all succeed.
    *failures.lock().unwrap() = VecDeque::from([true, false, true, true, false]);
    append(&mut appender, vec![delta("t1", "i1", "one")]).await;
    append(&mut appender, vec![delta("t1", "i1", "two")]).await;
    append(&mut appender, vec![delta("t1", "i1", "three")]).await;
    let read = log.read(&id("s"), Seq(0), usize::MAX).unwrap();
    let numbers = seqs(&read);
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    let text = lines(&read).join("\n");
    assert!(["one", "two", "three"].iter().all(|word| text.contains(word)), "{text}");
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(log.health(), crate::Health::Sound);
    assert_eq!(log.read(&id("s"), Seq(0), usize::MAX).unwrap(), read);
    drop(appender);
    log.close().await;
    let log = crate::Log::open(directory.path(), &support::options()).unwrap().log;
    assert_eq!(log.read(&id("s"), Seq(0), usize::MAX).unwrap(), read);
}
