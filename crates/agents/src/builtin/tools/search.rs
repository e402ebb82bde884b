//! The tool search: lines of files that contain a text. Links are not followed.

use super::Search;
use super::below::{open_directory, open_entry};
use super::files::FileError;
use rustix::fs::Dir;
use std::fmt::Write;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use turnstream_adapter::WorkingDirectory;

/// The most lines that are found.
const MOST_LINES: usize = 200;
/// The most files that are read, the most directories, and the largest file.
const MOST_FILES: usize = 50_000;
const MOST_DIRECTORIES: usize = 50_000;
const MOST_BYTES: u64 = 2 << 20;
/// How long a search may take.
const LONGEST: Duration = Duration::from_secs(60);
/// The most characters of a line that are shown.
const MOST_SHOWN: usize = 300;
/// Directories that hold no files of a person.
const SKIPPED: &[&str] = &[".git", "node_modules", "target"];

/// What is left to look at, and what was found.
struct Walk<'a> {
    text: String,
    ignores_case: bool,
    is_stopped: &'a dyn Fn() -> bool,
    until: Instant,
    directories: usize,
    files: usize,
    lines: usize,
    found: String,
}

/// Searches until everything was read, or `is_stopped`.
pub(super) fn search(
    root: &WorkingDirectory,
    call: &Search,
    is_stopped: &dyn Fn() -> bool,
) -> Result<String, FileError> {
    let path = call.path.as_deref().unwrap_or(".");
    let ignores_case = call.ignore_case;
    let text = if ignores_case { call.text.to_lowercase() } else { call.text.clone() };
    let until = Instant::now() + LONGEST;
    let (directories, files, lines, found) = (0, 0, 0, String::new());
    let mut walk = Walk { text, ignores_case, is_stopped, until, directories, files, lines, found };
    let mut below = walk.directory(open_directory(root, path)?, Path::new(path));
    while let Some(at) = below.pop().filter(|_| !walk.is_over()) {
        // Opened only now: a wide tree has more directories than a process may have open files.
        if let Some(directory) = at.to_str().and_then(|path| open_directory(root, path).ok()) {
            below.extend(walk.directory(directory, &at));
        }
    }
    let is_cut = walk.directories == MOST_DIRECTORIES || Instant::now() >= until;
    let Walk { files, lines, mut found, .. } = walk;
    // Writing to a String does not fail.
    let _ = match lines {
        MOST_LINES => write!(found, "[there may be more: only {MOST_LINES} lines are shown]"),
        _ if is_cut => write!(found, "[there may be more: the search stopped after {files} files]"),
        0 => write!(found, "[no line contains it; {files} files were searched]"),
        _ if files == MOST_FILES => write!(found, "[there may be more: only {files} files were searched]"),
        _ => Ok(()),
    };
    Ok(found)
}

impl Walk<'_> {
    fn is_over(&self) -> bool {
        let is_full = self.lines == MOST_LINES || self.files == MOST_FILES;
        is_full || self.directories == MOST_DIRECTORIES || Instant::now() >= self.until || (self.is_stopped)()
    }

    /// Reads the files of a directory. Returns the directories in it, the first one last. What cannot be read
    /// is left out.
    fn directory(&mut self, directory: OwnedFd, at: &Path) -> Vec<PathBuf> {
        self.directories += 1;
        let Ok(entries) = Dir::read_from(&directory) else { return Vec::new() };
        let names = entries.flatten().map(|entry| entry.file_name().to_bytes().to_vec());
        let mut names: Vec<Vec<u8>> = names.filter(|name| name != b"." && name != b"..").collect();
        names.sort();
        let mut below = Vec::new();
        for name in names {
            if self.is_over() {
                break;
            }
            let name = std::ffi::OsStr::from_bytes(&name);
            let Ok(mut file) = open_entry(&directory, name) else { continue };
            let Ok(found) = file.metadata() else { continue };
            let path = if at == Path::new(".") { PathBuf::from(name) } else { at.join(name) };
            if found.is_dir() {
                if !SKIPPED.iter().any(|skipped| name == *skipped) {
                    below.push(path);
                }
            } else if found.is_file() && found.len() <= MOST_BYTES {
                self.files += 1;
                let mut text = String::new();
                // A file that is no text has no lines.
                if file.by_ref().take(MOST_BYTES).read_to_string(&mut text).is_ok() {
                    self.lines_of(&text, &path);
                }
            }
        }
        below.reverse();
        below
    }

    fn lines_of(&mut self, text: &str, path: &Path) {
        for (number, line) in text.lines().enumerate() {
            let is_found = match self.ignores_case {
                true => line.to_lowercase().contains(&self.text),
                false => line.contains(&self.text),
            };
            if is_found && self.lines < MOST_LINES {
                self.lines += 1;
                let shown: String = line.chars().take(MOST_SHOWN).collect();
                // Writing to a String does not fail.
                let _ = writeln!(self.found, "{}:{}: {shown}", path.display(), number + 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Search;
    use super::search;
    use std::fs;
    use turnstream_adapter::WorkingDirectory;

    #[test]
    fn lines_are_found_below_a_directory_and_never_through_a_link() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join("root");
        fs::create_dir_all(root.join("b/.git")).unwrap();
        fs::write(root.join("a.txt"), "no\nthe Needle\n").unwrap();
        fs::write(root.join("b/c.txt"), "needle\n").unwrap();
        fs::write(root.join("b/.git/d.txt"), "needle\n").unwrap();
        fs::write(root.join("b/e.bin"), [0xff, 0xfe]).unwrap();
        fs::write(home.path().join("secret"), "needle outside\n").unwrap();
        std::os::unix::fs::symlink(home.path(), root.join("up")).unwrap();
        std::os::unix::fs::symlink(home.path().join("secret"), root.join("f.txt")).unwrap();
        let root = WorkingDirectory::open(&root).unwrap();
        let look = |text: &str, path: Option<&str>, ignore_case: bool| {
            let (text, path) = (text.to_owned(), path.map(str::to_owned));
            search(&root, &Search { text, path, ignore_case }, &|| false).unwrap()
        };
        assert_eq!(look("needle", None, false), "b/c.txt:1: needle\n");
        assert_eq!(look("needle", None, true), "a.txt:2: the Needle\nb/c.txt:1: needle\n");
        assert_eq!(look("needle", Some("b"), true), "b/c.txt:1: needle\n");
        assert_eq!(look("none", None, false), "[no line contains it; 3 files were searched]");
        let stopped = Search { text: "needle".to_owned(), path: None, ignore_case: false };
        let found = search(&root, &stopped, &|| true).unwrap();
        assert_eq!(found, "[no line contains it; 0 files were searched]");
    }
}
