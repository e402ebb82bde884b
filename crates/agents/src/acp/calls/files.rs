//! `fs/read_text_file` and `fs/write_text_file`.

use super::{bad_params, done, path_error, required};
use crate::acp::wire::RpcError;
use rustix::fs::{Mode, OFlags, mkdirat, openat};
use serde_json::{Map, Value, json};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::{Component, Path, PathBuf};
use turnstream_adapter::WorkingDirectory;

/// The most bytes that are read or written at once.
const MOST_BYTES: u64 = 16 << 20;

/// Serves a call. Blocks.
pub(super) fn serve(
    root: &WorkingDirectory,
    method: &str,
    params: &Map<String, Value>,
) -> Result<Value, RpcError> {
    let path = required(params, "path")?;
    if !Path::new(path).is_absolute() {
        return Err(bad_params(format!("{path:?} is not an absolute path")));
    }
    if method == "fs/read_text_file" {
        let number = |name: &str| params.get(name).and_then(Value::as_u64);
        let text = read(root, Path::new(path)).map_err(|error| path_error("read", path, &error))?;
        return Ok(json!({"content": lines(&text, number("line"), number("limit"))}));
    }
    let content = params.get("content").and_then(Value::as_str);
    let content = content.ok_or_else(|| bad_params("\"content\" is missing, or is no text"))?;
    write(root, Path::new(path), content).map_err(|error| path_error("write", path, &error))?;
    Ok(done())
}

fn read(root: &WorkingDirectory, path: &Path) -> io::Result<String> {
    // A link as the last part is followed here, and the directory of its target is checked.
    let path = path.canonicalize()?;
    let (directory, name) = parent(root, &path)?;
    let file = File::from(openat(&directory, name, OFlags::RDONLY | plain(), Mode::empty())?);
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file"));
    }
    if found.len() > MOST_BYTES {
        let message = format!("it has {} bytes, and at most {MOST_BYTES} are read", found.len());
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    let mut text = String::new();
    file.take(MOST_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

fn write(root: &WorkingDirectory, path: &Path, content: &str) -> io::Result<()> {
    if content.len() as u64 > MOST_BYTES {
        let message = format!("it has {} bytes, and at most {MOST_BYTES} are written", content.len());
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    let path = match path.canonicalize() {
        Ok(path) => path,
        Err(error) if error.kind() == io::ErrorKind::NotFound => with_directories(root, path)?,
        Err(error) => return Err(error),
    };
    let (directory, name) = parent(root, &path)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | plain();
    let mut file = File::from(openat(&directory, name, flags, Mode::from_raw_mode(0o666))?);
    file.write_all(content.as_bytes())
}

/// Never follows a link as the last part, and never waits for the other end of a pipe.
fn plain() -> OFlags {
    OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK
}

/// The directory of a file, opened and below the root, and the name of the file.
fn parent<'a>(root: &WorkingDirectory, path: &'a Path) -> io::Result<(WorkingDirectory, &'a OsStr)> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it names no file"));
    };
    let directory = WorkingDirectory::open(directory)?;
    check(root, &directory)?;
    Ok((directory, name))
}

/// Refuses a directory that is not below the root.
pub(super) fn check(root: &WorkingDirectory, directory: &WorkingDirectory) -> io::Result<()> {
    if directory.is_below(std::slice::from_ref(root))? {
        return Ok(());
    }
    let message = format!("it is outside of the session's directory {}", root.path().display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
}

/// Makes the directories that a new file lacks, below the root. Returns the path without links.
fn with_directories(root: &WorkingDirectory, path: &Path) -> io::Result<PathBuf> {
    if path.components().any(|part| part == Component::ParentDir) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a path to a new file has no `..`"));
    }
    let is_missing = |directory: &&Path| !directory.exists();
    let missing: Vec<&Path> = path.ancestors().skip(1).take_while(is_missing).collect();
    let existing = path.ancestors().skip(1).nth(missing.len()).unwrap_or(Path::new("/"));
    let mut directory = WorkingDirectory::open(existing)?;
    check(root, &directory)?;
    for name in missing.iter().rev().filter_map(|missing| missing.file_name()) {
        mkdirat(directory.as_fd(), name, Mode::from_raw_mode(0o777))?;
        directory = WorkingDirectory::open(&directory.path().join(name))?;
    }
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    Ok(directory.path().join(name))
}

/// The lines from `line` on, counted from 1, and at most `limit` of them.
fn lines(text: &str, line: Option<u64>, limit: Option<u64>) -> String {
    let skip = usize::try_from(line.unwrap_or(1).saturating_sub(1)).unwrap_or(usize::MAX);
    let take = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    text.split_inclusive('\n').skip(skip).take(take).collect()
}

#[cfg(test)]
mod tests {
    use super::serve;
    use serde_json::{Map, Value, json};
    use std::os::unix::fs::symlink;
    use std::path::Path;
    use turnstream_adapter::WorkingDirectory;

    fn call(root: &Path, method: &str, params: Value) -> Result<Value, (i64, String)> {
        let root = WorkingDirectory::open(root).unwrap();
        let params: Map<String, Value> = params.as_object().unwrap().clone();
        serve(&root, method, &params).map_err(|error| (error.code, error.message))
    }

    #[test]
    fn a_file_is_written_and_read_back_with_the_directories_it_lacks() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("src/deep/new.txt");
        let written =
            call(home.path(), "fs/write_text_file", json!({"path": path, "content": "one\ntwo\nthree\n"}));
        assert_eq!(written, Ok(json!({})));
        let read = |more: Value| {
            let mut params = json!({"path": path});
            params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            call(home.path(), "fs/read_text_file", params).unwrap()["content"].clone()
        };
        assert_eq!(read(json!({})), "one\ntwo\nthree\n");
        assert_eq!(read(json!({"line": 2, "limit": 1})), "two\n");
        assert_eq!(read(json!({"line": 9})), "");
        assert_eq!(read(json!({"line": 0, "limit": 0})), "");
        let shorter = json!({"path": path, "content": "1"});
        assert_eq!(call(home.path(), "fs/write_text_file", shorter), Ok(json!({})));
        assert_eq!(read(json!({})), "1");
    }

    #[test]
    fn nothing_outside_of_the_root_is_read_or_written() {
        let home = tempfile::tempdir().unwrap();
        let (root, outside) = (home.path().join("root"), home.path().join("outside"));
        std::fs::create_dir_all(root.join("inner")).unwrap();
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("secret"), "secret").unwrap();
        symlink(&outside, root.join("out")).unwrap();
        symlink(outside.join("secret"), root.join("link")).unwrap();
        symlink(outside.join("none"), root.join("dangling")).unwrap();
        let paths = [
            outside.join("secret"),
            root.join("out/secret"),
            root.join("link"),
            root.join("inner/../../outside/secret"),
        ];
        for path in &paths {
            for method in ["fs/read_text_file", "fs/write_text_file"] {
                let params = json!({"path": path, "content": "taken"});
                let (_, message) = call(&root, method, params).unwrap_err();
                assert!(message.contains("outside of the session's directory"), "{method}: {message}");
            }
        }
        for path in [root.join("dangling"), root.join("out/new/file"), root.join("../outside/new")] {
            assert!(call(&root, "fs/write_text_file", json!({"path": path, "content": "x"})).is_err());
        }
        assert_eq!(std::fs::read_to_string(outside.join("secret")).unwrap(), "secret");
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1);
    }

    #[test]
    fn a_call_that_cannot_be_served_says_why() {
        let home = tempfile::tempdir().unwrap();
        let refused = |params: Value| call(home.path(), "fs/read_text_file", params).unwrap_err();
        assert_eq!(refused(json!({})), (-32602, "\"path\" is missing, or is no text".to_owned()));
        assert_eq!(refused(json!({"path": "a"})), (-32602, "\"a\" is not an absolute path".to_owned()));
        let (code, message) = refused(json!({"path": home.path().join("none")}));
        assert!(code == -32002 && message.contains("none"), "{code} {message}");
        let (_, message) = refused(json!({"path": home.path().join(".")}));
        assert!(message.contains("cannot read"), "{message}");
        std::fs::write(home.path().join("bytes"), [0xff, 0xfe]).unwrap();
        let (_, message) = refused(json!({"path": home.path().join("bytes")}));
        assert!(message.contains("UTF-8"), "{message}");
    }
}
