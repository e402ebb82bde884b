//! What a server prints, redacted, in a file. It comes through a pipe, and nothing of it is on disk before it was
//! looked at.

use super::{ServeError, pipe};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::unix::pipe::Receiver;
use tokio::task::AbortHandle;
use turnstream_redact::{Held, Rules, Stream};

/// The file below the server's state directory.
const FILE: &str = "opencode.log";
/// How much of its end is kept and shown.
const TAIL: u64 = 4 * 1024;
/// From this size on it begins anew.
const CAP: u64 = 4 * 1024 * 1024;
/// How long output may be held back that could become a secret and shows no sign of one.
const BRIEFLY: Duration = Duration::from_millis(50);
/// So much is read at once.
const PIECE: usize = 16 * 1024;
/// Shown in the place of output that was not read, because there was so much at once that some of it may have been lost.
const LOST: &str = "\n[output lost]\n";
/// So many pieces are read before others get their turn: a server can print without end.
const PIECES: usize = 256;

/// The file a server prints to, by way of its redaction. A clone is another handle to the same one.
#[derive(Debug, Clone)]
pub(super) struct Output {
    path: PathBuf,
    rules: Rules,
    reading: Arc<Mutex<Option<Reading>>>,
}

/// Output that is being read. Dropped, it is not read any more, and stays in the pipe for whoever reads on.
#[derive(Debug)]
struct Reading {
    sink: Arc<Mutex<Sink>>,
    task: AbortHandle,
}

/// From the pipe to the file.
#[derive(Debug)]
struct Sink {
    pipe: Arc<Receiver>,
    rules: Rules,
    stream: Stream,
    /// The beginning of a character that is not there as a whole.
    partial: Vec<u8>,
    file: File,
    /// Bytes since the pipe was seen empty. From [`pipe::unbroken`] on some may be missing between them.
    since_empty: usize,
    unbroken: usize,
}

/// When there is more to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum More {
    /// At once.
    Now,
    /// As soon as the server prints again.
    Later,
    /// Nobody is left who could print.
    Never,
}

// === impl Output ===

impl Output {
    pub(super) fn new(state: &Path, rules: Rules) -> Self {
        Self { path: state.join(FILE), rules, reading: Arc::default() }
    }

    /// An empty file, and what a server with this mark is to print to.
    pub(super) fn begin(&self, mark: &str) -> Result<File, ServeError> {
        // What the one before printed last belongs to what is emptied now.
        locked(&self.reading).take();
        let begun = || -> io::Result<File> {
            let file = self.open()?;
            file.set_len(0)?;
            let (reader, printed) = pipe::make(mark)?;
            self.read(reader, file, Stream::new(&self.rules));
            Ok(printed)
        };
        begun().map_err(|error| ServeError::Io { what: "write", path: self.path.clone(), error })
    }

    /// Reads on what a server prints that was left running, of which this is the first process.
    pub(super) fn go_on(&self, mark: &str, process: i32) -> io::Result<()> {
        let file = self.open()?;
        self.read(pipe::read_on(mark, process)?, file, Stream::in_the_middle(&self.rules));
        Ok(())
    }

    /// Always written at its end, so that it can be cut while it is open.
    fn open(&self) -> io::Result<File> {
        OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path)
    }

    fn read(&self, pipe: Receiver, file: File, stream: Stream) {
        let pipe = Arc::new(pipe);
        let rules = self.rules.clone();
        let (partial, unbroken) = (Vec::new(), pipe::unbroken(&pipe));
        let sink = Sink { pipe: pipe.clone(), rules, stream, partial, file, since_empty: 0, unbroken };
        let sink = Arc::new(Mutex::new(sink));
        let task = tokio::spawn(keep_reading(pipe, sink.clone())).abort_handle();
        *locked(&self.reading) = Some(Reading { sink, task });
    }

    /// The end of what was printed up to now.
    pub(super) fn tail(&self) -> String {
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
        String::from_utf8_lossy(&read().unwrap_or_default()).trim().to_owned()
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
                // That it would have to wait tells the runtime to look for more.
                let drained = pipe.try_io(|| match locked(&sink).drain() {
                    More::Later => Err(io::ErrorKind::WouldBlock.into()),
                    more @ (More::Now | More::Never) => Ok(more),
                });
                if matches!(drained, Ok(More::Never)) {
                    return;
                }
                tokio::task::yield_now().await;
            }
            Some(Err(_)) => return,
            None => locked(&sink).release(),
        }
    }
}

// === impl Sink ===

impl Sink {
    /// Takes what is in the pipe.
    fn drain(&mut self) -> More {
        let mut buffer = [0; PIECE];
        for _ in 0..PIECES {
            match pipe::take(&self.pipe, &mut buffer) {
                Ok(Some(0)) | Err(_) => {
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

    /// What comes behind a loss may be the rest of a secret, and where the loss is cannot be told. So from the first place
    /// it can be at nothing is taken until the pipe is empty.
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

    /// What is no text is shown as the sign for that.
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

    /// What was held for long enough and shows no sign of a secret.
    fn release(&mut self) {
        let mut passed = String::new();
        self.stream.release(&mut passed);
        self.write(&passed);
    }

    /// Somebody else may read on.
    fn settle(&mut self) {
        let mut passed = String::new();
        self.stream.settle(&mut passed);
        self.write(&passed);
    }

    /// That was all.
    fn finish(&mut self) {
        let mut passed = String::new();
        std::mem::replace(&mut self.stream, Stream::in_the_middle(&self.rules)).finish(&mut passed);
        self.write(&passed);
    }

    /// A disk that takes nothing costs the output and not the server, which must not wait.
    fn write(&mut self, text: &str) {
        let too_long = self.file.metadata().is_ok_and(|file| file.len() > CAP);
        if too_long {
            let _ = self.file.set_len(0);
        }
        let _ = self.file.write_all(text.as_bytes());
    }
}

/// Nothing that runs under these locks leaves half of something behind.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark() -> String {
        super::super::launch::random().unwrap()
    }

    #[tokio::test]
    async fn only_the_end_is_shown_and_a_long_file_begins_anew_under_its_writer() {
        let state = tempfile::tempdir().unwrap();
        let output = Output::new(state.path(), Rules::standard());
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
        let output = Output::new(state.path(), Rules::standard());
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
        let output = Output::new(state.path(), Rules::standard());
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
        let first = Output::new(state.path(), Rules::standard());
        let mut printed = first.begin(&mark).unwrap();
        write!(printed, "before\n-----BEGIN PRIVATE KEY-----\n{line}\n{}", &line[..20]).unwrap();
        first.tail();
        drop(first);
        write!(printed, "{}\n{line}\n-----END PRIVATE KEY-----\nafter\n", &line[20..]).unwrap();
        let second = Output::new(state.path(), Rules::standard());
        second.go_on(&mark, 0).unwrap();
        assert_eq!(second.tail(), "before\n[redacted:private_key][redacted:fragment]\nafter");
        pipe::remove(&mark);
    }
}
