//! What an agent prints, redacted, in a file. It is read from a pipe and redacted before anything is on disk.

use crate::pipe;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::unix::pipe::Receiver;
use tokio::task::AbortHandle;
use turnstream_redact::{Held, Rules, Stream};

/// The bytes of its end that are shown.
const TAIL: u64 = 4 * 1024;
/// A file larger than this is emptied.
const CAP: u64 = 4 * 1024 * 1024;
/// How long output is held back that could be the start of a secret.
const BRIEFLY: Duration = Duration::from_millis(50);
/// The size of one read.
const PIECE: usize = 16 * 1024;
/// Written in the place of output that may be incomplete, because the pipe was nearly full.
const LOST: &str = "\n[output lost]\n";
/// Reads in a row before other tasks run: an agent can print without end.
const PIECES: usize = 256;

/// What an agent prints, in a file of at most 4 MiB. Clones share it.
#[derive(Debug, Clone)]
pub struct Output {
    path: PathBuf,
    rules: Rules,
    reading: Arc<Mutex<Option<Reading>>>,
}

/// A running reader. Dropping it stops reading; unread output stays in the pipe.
#[derive(Debug)]
struct Reading {
    sink: Arc<Mutex<Sink>>,
    task: AbortHandle,
}

/// Reads the pipe, redacts, and writes the file.
#[derive(Debug)]
struct Sink {
    pipe: Arc<Receiver>,
    rules: Rules,
    stream: Stream,
    /// The first bytes of an incomplete character.
    partial: Vec<u8>,
    file: File,
    /// Bytes since the pipe was last empty. Above [`pipe::unbroken`] some may have been lost.
    since_empty: usize,
    unbroken: usize,
    /// The last write failed, and was logged.
    write_failed: bool,
}

/// When to read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum More {
    /// At once.
    Now,
    /// When the agent prints again.
    Later,
    /// Never: no writer is left.
    Never,
}

// === impl Output ===

impl Output {
    /// The output in this file, redacted by these rules.
    pub fn new(path: impl Into<PathBuf>, rules: Rules) -> Self {
        Self { path: path.into(), rules, reading: Arc::default() }
    }

    /// Empties the file, and creates the pipe for an agent with this mark. Returns the end to print to.
    pub fn begin(&self, mark: &str) -> io::Result<File> {
        // The last output of the previous process is dropped with the old contents.
        locked(&self.reading).take();
        let file = self.open()?;
        file.set_len(0)?;
        let (reader, printed) = pipe::make(mark)?;
        self.read(reader, file, Stream::new(&self.rules));
        Ok(printed)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Continues to read the output of a running agent with this first process.
    pub fn resume(&self, mark: &str, process: i32) -> io::Result<()> {
        let file = self.open()?;
        self.read(pipe::read_on(mark, process)?, file, Stream::in_the_middle(&self.rules));
        Ok(())
    }

    /// Opens the file for appending, so that it can be emptied while it is open.
    fn open(&self) -> io::Result<File> {
        OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path)
    }

    fn read(&self, pipe: Receiver, file: File, stream: Stream) {
        let pipe = Arc::new(pipe);
        let rules = self.rules.clone();
        let (partial, unbroken) = (Vec::new(), pipe::unbroken(&pipe));
        let sink = Sink {
            pipe: pipe.clone(),
            rules,
            stream,
            partial,
            file,
            since_empty: 0,
            unbroken,
            write_failed: false,
        };
        let sink = Arc::new(Mutex::new(sink));
        let task = tokio::spawn(keep_reading(pipe, sink.clone())).abort_handle();
        *locked(&self.reading) = Some(Reading { sink, task });
    }

    /// The end of the output so far.
    pub fn tail(&self) -> String {
        if let Some(reading) = &*locked(&self.reading) {
            locked(&reading.sink).drain();
        }
        let read = || -> io::Result<Vec<u8>> {
            let mut file = File::open(&self.path)?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
            let mut tail = Vec::new();
            file.take(TAIL).read_to_end(&mut tail)?;
            Ok(tail)
        };
        let tail = read().unwrap_or_else(|error| {
            tracing::debug!(path = %self.path.display(), %error, "cannot read the output of an agent");
            Vec::new()
        });
        String::from_utf8_lossy(&tail).trim().to_owned()
    }
}

// === impl Reading ===

impl Drop for Reading {
    fn drop(&mut self) {
        self.task.abort();
        let mut sink = locked(&self.sink);
        sink.drain();
        sink.settle();
    }
}

async fn keep_reading(pipe: Arc<Receiver>, sink: Arc<Mutex<Sink>>) {
    loop {
        let held = locked(&sink).stream.holds();
        let ready = async {
            match held {
                Held::Brief => tokio::time::timeout(BRIEFLY, pipe.readable()).await.ok(),
                Held::Nothing | Held::Firm => Some(pipe.readable().await),
            }
        };
        match ready.await {
            Some(Ok(())) => {
                // `WouldBlock` makes the runtime wait for more.
                let drained = pipe.try_io(|| match locked(&sink).drain() {
                    More::Later => Err(io::ErrorKind::WouldBlock.into()),
                    more @ (More::Now | More::Never) => Ok(more),
                });
                if matches!(drained, Ok(More::Never)) {
                    return;
                }
                tokio::task::yield_now().await;
            }
            Some(Err(error)) => {
                tracing::warn!(%error, "cannot read the output of an agent");
                return;
            }
            None => locked(&sink).release(),
        }
    }
}

// === impl Sink ===

impl Sink {
    /// Reads what is in the pipe.
    fn drain(&mut self) -> More {
        let mut buffer = [0; PIECE];
        for _ in 0..PIECES {
            match pipe::take(&self.pipe, &mut buffer) {
                Err(error) => {
                    tracing::warn!(%error, "cannot read the output of an agent");
                    self.finish();
                    return More::Never;
                }
                Ok(Some(0)) => {
                    self.finish();
                    return More::Never;
                }
                Ok(Some(length)) => self.take(&buffer[..length]),
                Ok(None) => {
                    self.since_empty = 0;
                    return More::Later;
                }
            }
        }
        More::Now
    }

    /// Output after a loss may be the rest of a secret, and the place of the loss is not known. So from the
    /// first possible place on, everything is dropped until the pipe is empty.
    fn take(&mut self, bytes: &[u8]) {
        let before = self.since_empty;
        self.since_empty += bytes.len();
        if self.since_empty <= self.unbroken {
            self.push(bytes);
        } else if before <= self.unbroken {
            self.push(&bytes[..self.unbroken - before]);
            self.finish();
            self.partial.clear();
            self.write(LOST);
        }
    }

    /// Redacts and writes bytes. Invalid UTF-8 becomes U+FFFD.
    fn push(&mut self, bytes: &[u8]) {
        self.partial.extend_from_slice(bytes);
        let mut passed = String::new();
        let mut done = 0;
        loop {
            let rest = &self.partial[done..];
            match std::str::from_utf8(rest) {
                Ok(text) => {
                    self.stream.push(text, &mut passed);
                    done = self.partial.len();
                    break;
                }
                Err(error) => {
                    let (text, _) = rest.split_at(error.valid_up_to());
                    self.stream.push(&String::from_utf8_lossy(text), &mut passed);
                    done += error.valid_up_to();
                    let Some(wrong) = error.error_len() else { break };
                    self.stream.push("\u{fffd}", &mut passed);
                    done += wrong;
                }
            }
        }
        self.partial.drain(..done);
        self.write(&passed);
    }

    /// Writes what was held back for long enough.
    fn release(&mut self) {
        let mut passed = String::new();
        self.stream.release(&mut passed);
        self.write(&passed);
    }

    /// Writes what is safe to write before another reader continues.
    fn settle(&mut self) {
        let mut passed = String::new();
        self.stream.settle(&mut passed);
        self.write(&passed);
    }

    /// Writes the rest: the output has ended.
    fn finish(&mut self) {
        let mut passed = String::new();
        std::mem::replace(&mut self.stream, Stream::in_the_middle(&self.rules)).finish(&mut passed);
        self.write(&passed);
    }

    /// Writes to the file. If the disk refuses, the output is lost: the agent must not wait for it.
    fn write(&mut self, text: &str) {
        let too_long = self.file.metadata().is_ok_and(|file| file.len() > CAP);
        let emptied = if too_long { self.file.set_len(0) } else { Ok(()) };
        let written = emptied.and_then(|()| self.file.write_all(text.as_bytes()));
        match written {
            Ok(()) => self.write_failed = false,
            // Once until it works again: a full disk must not flood the log.
            Err(error) if !std::mem::replace(&mut self.write_failed, true) => {
                tracing::warn!(%error, "cannot write the output of an agent");
            }
            Err(_) => {}
        }
    }
}

/// A poisoned lock is fine: no operation leaves its data inconsistent.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark() -> String {
        crate::random_mark().unwrap()
    }

    #[tokio::test]
    async fn only_the_end_is_shown_and_a_long_file_begins_anew_under_its_writer() {
        let state = tempfile::tempdir().unwrap();
        let output = Output::new(state.path().join("agent.log"), Rules::standard());
        let mark = mark();
        let mut printed = output.begin(&mark).unwrap();
        let text = format!("{}\n", "x ".repeat(512));
        for _ in 0..=CAP / 1024 {
            printed.write_all(text.as_bytes()).unwrap();
            output.tail();
        }
        printed.write_all(b"the end\n").unwrap();
        let tail = output.tail();
        assert!(tail.ends_with("x \nthe end"), "{tail}");
        assert!(std::fs::metadata(&output.path).unwrap().len() < CAP, "it began anew");
        pipe::remove(&mark);
    }

    #[tokio::test]
    async fn a_secret_in_pieces_and_characters_in_pieces_are_put_together() {
        let state = tempfile::tempdir().unwrap();
        let output = Output::new(state.path().join("agent.log"), Rules::standard());
        let mark = mark();
        let mut printed = output.begin(&mark).unwrap();
        let secret = format!("ghp_{}", "Ab3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5");
        let text = format!("schön: {secret} → \n");
        for byte in text.as_bytes() {
            printed.write_all(&[*byte]).unwrap();
            output.tail();
        }
        printed.write_all(b"\xff\xc3 and on\n").unwrap();
        assert_eq!(output.tail(), "schön: [redacted:github] → \n\u{fffd}\u{fffd} and on");
        pipe::remove(&mark);
    }

    #[tokio::test]
    async fn behind_a_loss_nothing_is_taken_for_the_rest_of_what_was_before_it() {
        let state = tempfile::tempdir().unwrap();
        let output = Output::new(state.path().join("agent.log"), Rules::standard());
        let mark = mark();
        let mut printed = output.begin(&mark).unwrap();
        let text = "so much that it does not fit\n".repeat(64);
        while printed.write(text.as_bytes()).is_ok() {}
        while printed.write(b"\n").is_ok() {}
        let line = "MIIEpAIBAAKCAQEAx7Kq9Zt2Lm4Wp8Rs6Vb1Yd3Nf5Gh7Jk9Mn1Pq3Rs5Tv7Wx9Y";
        let lost = printed.write(b"-----BEGIN PRIVATE KEY-----\n").unwrap_err();
        assert_eq!(lost.kind(), io::ErrorKind::WouldBlock);
        // Some room, and the key goes on.
        let reader = pipe::read_on(&mark, 0).unwrap();
        pipe::take(&reader, &mut [0; PIECE]).unwrap();
        write!(printed, "{line}\n{line}\n").unwrap();
        assert!(output.tail().ends_with("\n[output lost]"), "{}", output.tail());
        write!(printed, "{line}\n-----END PRIVATE KEY-----\nafter\n").unwrap();
        let tail = output.tail();
        assert!(tail.ends_with("\n[output lost]\n[redacted:fragment]\nafter"), "{tail}");
        assert!(!std::fs::read_to_string(&output.path).unwrap().contains(&line[..12]));
        pipe::remove(&mark);
    }

    #[tokio::test]
    async fn a_key_over_several_lines_is_no_output_also_when_another_reads_on_within_it() {
        let state = tempfile::tempdir().unwrap();
        let mark = mark();
        let line = "MIIEpAIBAAKCAQEAx7Kq9Zt2Lm4Wp8Rs6Vb1Yd3Nf5Gh7Jk9Mn1Pq3Rs5Tv7Wx9Y";
        let first = Output::new(state.path().join("agent.log"), Rules::standard());
        let mut printed = first.begin(&mark).unwrap();
        write!(printed, "before\n-----BEGIN PRIVATE KEY-----\n{line}\n{}", &line[..20]).unwrap();
        first.tail();
        drop(first);
        write!(printed, "{}\n{line}\n-----END PRIVATE KEY-----\nafter\n", &line[20..]).unwrap();
        let second = Output::new(state.path().join("agent.log"), Rules::standard());
        second.resume(&mark, 0).unwrap();
        assert_eq!(second.tail(), "before\n[redacted:private_key][redacted:fragment]\nafter");
        pipe::remove(&mark);
    }
}
