//! The tools read, write, edit and list. They block, and take a moment.

use super::below::{PathError, open_directory, open_file};
use super::{Edit, List, Read, Write};
use rustix::fs::{Dir, FileType, OFlags};
use std::io::{self, Read as _, Seek, Write as _};
use turnstream_adapter::WorkingDirectory;

/// The largest file that is read or changed.
pub(super) const MOST_BYTES: u64 = 16 << 20;
/// The most bytes of a file that one call returns.
const MOST_SHOWN: usize = 64 << 10;
/// The most entries of a directory that one call returns.
const MOST_ENTRIES: usize = 1_000;

/// Why a tool failed. The model reads it.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    #[error(transparent)]
    Path(#[from] PathError),
    #[error("{path:?} has {size} bytes, and at most {MOST_BYTES} are read; use bash to see a part of it")]
    TooLarge { path: String, size: u64 },
    #[error("{path:?} is no UTF-8 text")]
    NotText { path: String },
    #[error("old_text is empty; give the text that is to be replaced, or use the tool write")]
    NoOldText,
    #[error("old_text does not occur in {path:?}; read the file and give its exact text")]
    NotFound { path: String },
    #[error("old_text occurs {times} times in {path:?}; give more of its surroundings, or set replace_all")]
    Ambiguous { path: String, times: usize },
    #[error("old_text and new_text are the same")]
    Same,
    #[error("{path:?} cannot be used: {source}")]
    Io { path: String, source: io::Error },
}

pub(super) fn read(root: &WorkingDirectory, call: &Read) -> Result<String, FileError> {
    let text = whole(root, &call.path)?;
    let total = text.lines().count();
    let first = usize::try_from(call.first_line.unwrap_or(1).max(1)).unwrap_or(usize::MAX);
    let most = call.lines.map_or(usize::MAX, |lines| usize::try_from(lines).unwrap_or(usize::MAX));
    let (mut shown, mut count) = (String::new(), 0);
    for line in text.split_inclusive('\n').skip(first - 1).take(most) {
        if shown.len() + line.len() > MOST_SHOWN {
            break;
        }
        shown.push_str(line);
        count += 1;
    }
    let next = first.saturating_add(count);
    if count == 0 && total > 0 && first <= total && most > 0 {
        // One line that is too long.
        let line = text.lines().nth(first - 1).unwrap_or_default();
        let cut = line.floor_char_boundary(MOST_SHOWN);
        return Ok(format!("{}\n[the rest of line {first} is left out]", &line[..cut]));
    }
    if next <= total {
        if !shown.ends_with('\n') {
            shown.push('\n');
        }
        shown.push_str(&format!("[lines {first} to {} of {total}]", next - 1));
    }
    Ok(shown)
}

pub(super) fn write(root: &WorkingDirectory, call: &Write) -> Result<String, FileError> {
    let file = open_file(root, &call.path, OFlags::WRONLY | OFlags::CREATE)?;
    replace(file, &call.content).map_err(|source| FileError::Io { path: call.path.clone(), source })?;
    Ok(format!("wrote {} bytes to {}", call.content.len(), call.path))
}

pub(super) fn edit(root: &WorkingDirectory, call: &Edit) -> Result<String, FileError> {
    let path = || call.path.clone();
    if call.old_text.is_empty() {
        return Err(FileError::NoOldText);
    }
    if call.old_text == call.new_text {
        return Err(FileError::Same);
    }
    let mut file = open_file(root, &call.path, OFlags::RDWR)?;
    let text = text_of(&mut file, &call.path)?;
    let times = text.matches(&call.old_text).count();
    match times {
        0 => return Err(FileError::NotFound { path: path() }),
        1 => {}
        _ if call.replace_all => {}
        _ => return Err(FileError::Ambiguous { path: path(), times }),
    }
    let added = call.new_text.len().saturating_sub(call.old_text.len()).saturating_mul(times);
    let size = text.len().saturating_add(added) as u64;
    if size > MOST_BYTES {
        return Err(FileError::TooLarge { path: path(), size });
    }
    let changed = text.replace(&call.old_text, &call.new_text);
    let written = file.rewind().and_then(|()| replace(file, &changed));
    written.map_err(|source| FileError::Io { path: path(), source })?;
    let places = if times == 1 { "place" } else { "places" };
    Ok(format!("changed {times} {places} in {}", call.path))
}

pub(super) fn list(root: &WorkingDirectory, call: &List) -> Result<String, FileError> {
    let path = call.path.as_deref().unwrap_or(".");
    let failed = |error: rustix::io::Errno| FileError::Io { path: path.to_owned(), source: error.into() };
    let directory = open_directory(root, path)?;
    let mut names = Vec::new();
    for entry in Dir::new(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name == "." || name == ".." {
            continue;
        }
        let mark = match entry.file_type() {
            FileType::Directory => "/",
            FileType::Symlink => "@",
            _ => "",
        };
        names.push(name + mark);
    }
    names.sort();
    let more = names.len().saturating_sub(MOST_ENTRIES);
    names.truncate(MOST_ENTRIES);
    if names.is_empty() {
        return Ok("[no entries]".to_owned());
    }
    if more > 0 {
        names.push(format!("[{more} more entries are left out]"));
    }
    Ok(names.join("\n"))
}

fn whole(root: &WorkingDirectory, path: &str) -> Result<String, FileError> {
    text_of(&mut open_file(root, path, OFlags::RDONLY)?, path)
}

fn text_of(file: &mut std::fs::File, path: &str) -> Result<String, FileError> {
    let failed = |source| FileError::Io { path: path.to_owned(), source };
    let size = file.metadata().map_err(failed)?.len();
    if size > MOST_BYTES {
        return Err(FileError::TooLarge { path: path.to_owned(), size });
    }
    let mut bytes = Vec::new();
    // The file may have grown since.
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    let size = bytes.len() as u64;
    if size > MOST_BYTES {
        return Err(FileError::TooLarge { path: path.to_owned(), size });
    }
    String::from_utf8(bytes).map_err(|_| FileError::NotText { path: path.to_owned() })
}

/// Replaces the content, durably.
fn replace(mut file: std::fs::File, text: &str) -> io::Result<()> {
    // Only now, when it is known to be a regular file.
    file.set_len(0)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::super::{Edit, List, Read, Write};
    use super::{FileError, edit, list, read, write};
    use std::fs;
    use turnstream_adapter::WorkingDirectory;

    fn place() -> (tempfile::TempDir, WorkingDirectory) {
        let home = tempfile::tempdir().unwrap();
        let root = WorkingDirectory::open(home.path()).unwrap();
        (home, root)
    }

    fn look(root: &WorkingDirectory, first_line: Option<u64>, lines: Option<u64>) -> String {
        read(root, &Read { path: "a.txt".to_owned(), first_line, lines }).unwrap()
    }

    #[test]
    fn a_file_is_read_whole_or_by_lines_and_what_is_left_out_is_said() {
        let (home, root) = place();
        fs::write(home.path().join("a.txt"), "one\ntwo\nthree\n").unwrap();
        assert_eq!(look(&root, None, None), "one\ntwo\nthree\n");
        assert_eq!(look(&root, Some(2), Some(1)), "two\n[lines 2 to 2 of 3]");
        assert_eq!(look(&root, Some(3), None), "three\n");
        assert_eq!(look(&root, Some(9), None), "");
        fs::write(home.path().join("a.txt"), "x".repeat(100_000)).unwrap();
        assert!(look(&root, None, None).ends_with("\n[the rest of line 1 is left out]"));
        fs::write(home.path().join("a.txt"), [0xff]).unwrap();
        let refused = read(&root, &Read { path: "a.txt".to_owned(), first_line: None, lines: None });
        assert!(matches!(refused, Err(FileError::NotText { .. })));
    }

    #[test]
    fn an_edit_needs_one_place_unless_all_are_meant() {
        let (home, root) = place();
        let change = |old: &str, new: &str, replace_all: bool| {
            let (old_text, new_text) = (old.to_owned(), new.to_owned());
            edit(&root, &Edit { path: "a.txt".to_owned(), old_text, new_text, replace_all })
        };
        let content = "a long file\nb\na long line\n".to_owned();
        write(&root, &Write { path: "a.txt".to_owned(), content }).unwrap();
        assert!(matches!(change("long", "x", false), Err(FileError::Ambiguous { times: 2, .. })));
        assert!(matches!(change("none", "x", false), Err(FileError::NotFound { .. })));
        assert!(matches!(change("", "x", false), Err(FileError::NoOldText)));
        assert!(matches!(change("b", "b", false), Err(FileError::Same)));
        assert_eq!(change("b", "B", false).unwrap(), "changed 1 place in a.txt");
        assert_eq!(change("long", "x", true).unwrap(), "changed 2 places in a.txt");
        assert_eq!(fs::read_to_string(home.path().join("a.txt")).unwrap(), "a x file\nB\na x line\n");
        write(&root, &Write { path: "a.txt".to_owned(), content: "x".repeat(100_000) }).unwrap();
        let grown = change("x", &"y".repeat(1_000), true);
        assert!(matches!(grown, Err(FileError::TooLarge { size: 100_000_000, .. })), "{grown:?}");
    }

    #[test]
    fn a_list_shows_what_is_a_directory_and_what_a_link() {
        let (home, root) = place();
        assert_eq!(list(&root, &List { path: None }).unwrap(), "[no entries]");
        fs::create_dir(home.path().join("b")).unwrap();
        fs::write(home.path().join(".a"), "").unwrap();
        std::os::unix::fs::symlink("b", home.path().join("c")).unwrap();
        assert_eq!(list(&root, &List { path: Some(".".to_owned()) }).unwrap(), ".a\nb/\nc@");
    }
}
