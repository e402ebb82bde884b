//! `COMMAND --version`: asked once per file, in the background.

use rustix::process::{Pid, Signal, kill_process_group};
use std::cmp::Ordering;
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use turnstream_agent_process::with_user_umask;

/// How long the command may take. Real agents took up to 4 s on two busy cores.
const DEADLINE: Duration = Duration::from_secs(30);

/// How much of the output is read.
const LONGEST_OUTPUT: u64 = 64 << 10;

/// The longest version that is shown.
const LONGEST_VERSION: usize = 40;

/// What the command said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum VersionAnswer {
    Version(String),
    /// It ended well, and printed no version.
    NoVersion,
    /// It could not be started, or failed.
    Failed(String),
    /// It did not end in time, or cannot be started at this moment. The next caller asks again.
    Late,
}

/// The version command of one program.
#[derive(Debug, Default)]
pub(super) struct VersionCommand {
    asked: Mutex<Option<Asked>>,
}

/// The last time that the command was started.
#[derive(Debug)]
struct Asked {
    file: FileVersion,
    answer: watch::Receiver<Option<VersionAnswer>>,
    task: AbortHandle,
}

/// A program file, as it was when it was asked. The time of change is needed besides that of modification:
/// npm gives all files of a package the same time of modification.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FileVersion {
    path: PathBuf,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl VersionCommand {
    /// The answer for this program, if it was asked before and has not been replaced since.
    pub(super) fn known(&self, program: &Path) -> Option<VersionAnswer> {
        let file = FileVersion::of(program).ok()?;
        let asked = self.asked();
        asked.as_ref().filter(|asked| asked.file == file).and_then(|asked| asked.answer.borrow().clone())
    }

    /// The answer for this program. It is asked unless the answer is known or on its way. `None` if that
    /// takes longer than `patience`: the command goes on, and a later call has the answer.
    pub(super) async fn ask(
        &self,
        program: &Path,
        env: &[(OsString, OsString)],
        patience: Duration,
    ) -> Option<VersionAnswer> {
        let file = match FileVersion::of(program) {
            Ok(file) => file,
            Err(error) => return Some(VersionAnswer::Failed(error.to_string())),
        };
        let mut answer = {
            let mut asked = self.asked();
            let is_late = |asked: &Asked| *asked.answer.borrow() == Some(VersionAnswer::Late);
            let current = asked.as_ref().filter(|asked| asked.file == file && !is_late(asked));
            match current.map(|asked| asked.answer.clone()) {
                Some(answer) => answer,
                None => {
                    let started = Asked::start(file, program.to_owned(), env.to_vec());
                    let answer = started.answer.clone();
                    if let Some(before) = asked.replace(started) {
                        before.task.abort();
                    }
                    answer
                }
            }
        };
        let answered = tokio::time::timeout(patience, answer.wait_for(Option::is_some)).await;
        answered.ok()?.ok()?.clone()
    }

    /// Ends the command, if it runs.
    pub(super) fn stop(&self) {
        if let Some(asked) = self.asked().take() {
            asked.task.abort();
        }
    }

    fn asked(&self) -> MutexGuard<'_, Option<Asked>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Asked {
    fn start(file: FileVersion, program: PathBuf, env: Vec<(OsString, OsString)>) -> Self {
        let (sender, answer) = watch::channel(None);
        let task = tokio::spawn(async move {
            let asked = run(&program, &env);
            let answer = tokio::time::timeout(DEADLINE, asked).await;
            let answer = match answer {
                Ok(Ok((status, output))) => read(status, &output),
                // It is being written, for example by an update.
                Ok(Err(error)) if error.kind() == io::ErrorKind::ExecutableFileBusy => VersionAnswer::Late,
                Ok(Err(error)) => VersionAnswer::Failed(error.to_string()),
                Err(_) => VersionAnswer::Late,
            };
            sender.send_replace(Some(answer));
        });
        Self { file, answer, task: task.abort_handle() }
    }
}

impl FileVersion {
    fn of(program: &Path) -> io::Result<Self> {
        let path = program.canonicalize()?;
        let found = path.metadata()?;
        Ok(Self {
            path,
            inode: found.ino(),
            size: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        })
    }
}

/// Runs the command in the environment of the agent. If the future is dropped, the command is killed with
/// everything it started in its group.
async fn run(program: &Path, env: &[(OsString, OsString)]) -> io::Result<(ExitStatus, Vec<u8>)> {
    let mut command = Command::new(program);
    command.arg("--version").env_clear().envs(env.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.current_dir("/").process_group(0).kill_on_drop(true);
    let mut child = with_user_umask(|| command.spawn())?;
    let mut group = KillGroup(child.id());
    let stdout = child.stdout.take();
    let output = async {
        let mut output = Vec::new();
        if let Some(stdout) = stdout {
            stdout.take(LONGEST_OUTPUT).read_to_end(&mut output).await?;
        }
        io::Result::Ok(output)
    };
    let (output, status) = tokio::join!(output, child.wait());
    // The leader was waited for: its id may be another process's from here on.
    group.0 = None;
    Ok((status?, output?))
}

/// Kills the process group of a leader that was not waited for.
struct KillGroup(Option<u32>);

impl Drop for KillGroup {
    fn drop(&mut self) {
        let group = self.0.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(group) = group
            && let Err(error) = kill_process_group(group, Signal::KILL)
        {
            tracing::debug!(%error, "a version command has ended by itself");
        }
    }
}

fn read(status: ExitStatus, output: &[u8]) -> VersionAnswer {
    if !status.success() {
        return VersionAnswer::Failed(status.to_string());
    }
    let output = String::from_utf8_lossy(output);
    match output.split_whitespace().find_map(version_of_word) {
        Some(version) => VersionAnswer::Version(version),
        None => VersionAnswer::NoVersion,
    }
}

/// A version begins with a digit, has a dot, and consists of plain characters: `2.1.197`, `v1.0.0-beta`.
fn version_of_word(word: &str) -> Option<String> {
    let version = word.strip_prefix('v').unwrap_or(word);
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-+_".contains(&byte);
    let is_version = version.starts_with(|first: char| first.is_ascii_digit())
        && version.contains('.')
        && version.len() <= LONGEST_VERSION
        && version.bytes().all(plain);
    is_version.then(|| version.to_owned())
}

/// What to tell about a version in comparison with the tested ones, oldest first. Nothing if it was tested,
/// or is between two that were.
pub(super) fn notice(version: &str, tested: &[&str]) -> Option<String> {
    let (oldest, newest) = (tested.first()?, tested.last()?);
    if compare(version, newest) == Ordering::Greater {
        Some(format!("version {version} is newer than {newest}, the newest that was tested"))
    } else if compare(version, oldest) == Ordering::Less {
        Some(format!("version {version} is older than {oldest}, the oldest that was tested"))
    } else {
        None
    }
}

/// Compares versions by their numbers. With equal numbers, one with a suffix (`1.0.0-beta`) comes first.
fn compare(one: &str, other: &str) -> Ordering {
    let split = |version: &str| {
        let end = version.find(|character: char| !character.is_ascii_digit() && character != '.');
        let (numbers, suffix) = version.split_at(end.unwrap_or(version.len()));
        let numbers: Vec<u64> = numbers.split('.').map(|number| number.parse().unwrap_or(u64::MAX)).collect();
        (numbers, suffix.is_empty())
    };
    split(one).cmp(&split(other))
}

#[cfg(test)]
mod tests {
    use super::{VersionAnswer, VersionCommand, compare, notice, version_of_word};
    use std::cmp::Ordering;
    use std::ffi::OsString;
    use std::os::unix::fs::PermissionsExt;
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    const PATIENCE: Duration = Duration::from_secs(300);

    /// A program with this body. It is written under another name first, as installers do.
    fn program(directory: &Path, body: &str) -> PathBuf {
        let (new, path) = (directory.join("new"), directory.join("agent"));
        std::fs::write(&new, format!("#!/bin/sh\n{body}\n")).unwrap();
        std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::rename(&new, &path).unwrap();
        path
    }

    fn env() -> Vec<(OsString, OsString)> {
        vec![("PATH".into(), std::env::var_os("PATH").unwrap())]
    }

    #[tokio::test]
    async fn a_program_is_asked_once_and_again_when_it_was_replaced() {
        let home = tempfile::tempdir().unwrap();
        let count = home.path().join("count");
        let body = |version: &str| format!("echo asked >> {}\necho \"{version} (Agent)\"", count.display());
        let path = program(home.path(), &body("1.2.3"));
        let command = VersionCommand::default();
        assert_eq!(command.known(&path), None);
        for _ in 0..2 {
            let answer = command.ask(&path, &env(), PATIENCE).await;
            assert_eq!(answer, Some(VersionAnswer::Version("1.2.3".to_owned())));
        }
        assert_eq!(command.known(&path), Some(VersionAnswer::Version("1.2.3".to_owned())));
        assert_eq!(std::fs::read_to_string(&count).unwrap(), "asked\n");
        let path = program(home.path(), &body("1.2.4"));
        assert_eq!(command.known(&path), None);
        let answer = command.ask(&path, &env(), PATIENCE).await;
        assert_eq!(answer, Some(VersionAnswer::Version("1.2.4".to_owned())));
    }

    #[tokio::test]
    async fn a_program_that_fails_or_prints_no_version_says_so() {
        let home = tempfile::tempdir().unwrap();
        let failing = program(home.path(), "exit 3");
        let answer = VersionCommand::default().ask(&failing, &env(), PATIENCE).await;
        assert_eq!(answer, Some(VersionAnswer::Failed("exit status: 3".to_owned())));
        let silent = program(home.path(), "echo hello");
        let answer = VersionCommand::default().ask(&silent, &env(), PATIENCE).await;
        assert_eq!(answer, Some(VersionAnswer::NoVersion));
    }

    #[tokio::test]
    async fn a_slow_program_is_not_waited_for_and_ends_with_its_agent() {
        let home = tempfile::tempdir().unwrap();
        let pipe = home.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        // The shell and its child hold the writing end. Both have ended when the reader sees the end.
        let path = program(home.path(), &format!("exec 3> {}\necho begun >&3\nsleep 3600", pipe.display()));
        let command = VersionCommand::default();
        assert_eq!(command.ask(&path, &env(), Duration::ZERO).await, None);
        let mut reader = tokio::io::BufReader::new(tokio::fs::File::open(&pipe).await.unwrap());
        let mut line = String::new();
        tokio::io::AsyncBufReadExt::read_line(&mut reader, &mut line).await.unwrap();
        assert_eq!(line, "begun\n");
        command.stop();
        let mut rest = String::new();
        let ended = tokio::io::AsyncReadExt::read_to_string(&mut reader, &mut rest);
        tokio::time::timeout(PATIENCE, ended).await.unwrap().unwrap();
    }

    #[test]
    fn versions_are_read_from_what_real_agents_print() {
        let read = |output: &str| output.split_whitespace().find_map(version_of_word);
        assert_eq!(read("1.18.33\n").as_deref(), Some("1.18.33"));
        assert_eq!(read("2.1.197 (Claude Code)\n").as_deref(), Some("2.1.197"));
        assert_eq!(read("codex-cli 0.166.0\n").as_deref(), Some("0.166.0"));
        assert_eq!(read("tool v1.2.0-beta.1").as_deref(), Some("1.2.0-beta.1"));
        assert_eq!(read("3 \u{1b}[1m1.0\u{1b}[0m none"), None);
    }

    #[test]
    fn versions_are_compared_by_number() {
        assert_eq!(compare("2.1.9", "2.1.10"), Ordering::Less);
        assert_eq!(compare("2.1.10-beta", "2.1.10"), Ordering::Less);
        assert_eq!(compare("2.2", "2.1.10"), Ordering::Greater);
        let tested = ["2.1.197", "2.1.325"];
        assert_eq!(notice("2.1.197", &tested), None);
        assert_eq!(notice("2.1.300", &tested), None);
        assert_eq!(
            notice("2.2.0", &tested).as_deref(),
            Some("version 2.2.0 is newer than 2.1.325, the newest that was tested")
        );
        assert_eq!(
            notice("2.1.9", &tested).as_deref(),
            Some("version 2.1.9 is older than 2.1.197, the oldest that was tested")
        );
        assert_eq!(notice("1.0", &[]), None);
    }
}
