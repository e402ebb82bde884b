//! Files below the directory of a request: search by name, lists, contents, and the branch of a repository.

use super::answer::{Answer, Failure, Json, off_thread};
use super::catalog::location;
use super::request::Asked;
use crate::app::App;
use axum::extract::State as Shared;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::Semaphore;
use turnstream_gateway::{EntryKind, FileEntry, FileQuery, Gateway, RequestError};

/// The number of results without `limit`, as in opencode.
const USUAL: u64 = 10;
/// The greatest `limit`, as in opencode.
const MOST: u64 = 200;
/// How many of these requests read the disk at the same time. A client searches with every key.
static READERS: Semaphore = Semaphore::const_new(4);

/// Reads the disk on another thread.
async fn read<T: Send + 'static>(
    app: &App,
    work: impl FnOnce(&Gateway) -> Result<T, RequestError> + Send + 'static,
) -> Result<T, Failure> {
    let _turn = READERS.acquire().await.map_err(|error| Failure::failed(error.to_string()))?;
    let gateway = app.gateway.clone();
    Ok(tokio::task::spawn_blocking(move || work(&gateway)).await.map_err(off_thread)??)
}

fn kind_name(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::File => "file",
        EntryKind::Directory => "directory",
    }
}

/// The kind of entries that a search is for.
fn wanted(asked: &Asked) -> Result<Option<EntryKind>, Failure> {
    match (asked.get("type"), asked.get("dirs")) {
        (Some("file"), _) | (None, Some("false")) => Ok(Some(EntryKind::File)),
        (Some("directory"), _) => Ok(Some(EntryKind::Directory)),
        (None, None | Some("true")) => Ok(None),
        (Some(_), _) => Err(Failure::bad("type must be file or directory")),
        (None, Some(_)) => Err(Failure::bad("dirs must be true or false")),
    }
}

async fn found(app: &App, asked: &Asked) -> Result<Vec<FileEntry>, Failure> {
    let text = asked.text("query").ok_or_else(|| Failure::bad("query is missing"))?.to_owned();
    let kind = wanted(asked)?;
    let limit = asked.number("limit")?.unwrap_or(USUAL);
    if !(1..=MOST).contains(&limit) {
        return Err(Failure::bad(format!("limit must be from 1 to {MOST}")));
    }
    let directory = PathBuf::from(asked.directory_or_own());
    read(app, move |gateway| {
        gateway.find_files(&directory, FileQuery { text: &text, kind, limit: limit as usize })
    })
    .await
}

/// Paths that match, the best one first.
pub(super) async fn find(Shared(app): Shared<Arc<App>>, asked: Asked) -> Answer {
    let paths = found(&app, &asked).await?.into_iter().map(|entry| json!(entry.path));
    Ok(Json(paths.collect()))
}

/// The same in the form of the newer API, which the TUI uses.
pub(super) async fn find_here(Shared(app): Shared<Arc<App>>, asked: Asked) -> Answer {
    let entries = found(&app, &asked).await?.into_iter();
    let data: Value =
        entries.map(|entry| json!({"path": entry.path, "type": kind_name(entry.kind)})).collect();
    Ok(Json(json!({"location": location(&asked), "data": data})))
}

/// The directory of a request, and the path below it.
fn place(asked: &Asked) -> Result<(PathBuf, String), Failure> {
    let path = asked.text("path").ok_or_else(|| Failure::bad("path is missing"))?;
    Ok((PathBuf::from(asked.directory_or_own()), path.to_owned()))
}

/// The files and directories in a directory.
pub(super) async fn list(Shared(app): Shared<Arc<App>>, asked: Asked) -> Answer {
    let (directory, path) = place(&asked)?;
    let top = directory.clone();
    let entries = read(&app, move |gateway| gateway.list_files(&directory, &path)).await?;
    let node = |FileEntry { path, kind, left_out }: FileEntry| {
        let path = path.trim_end_matches('/');
        let name = path.rsplit('/').next().unwrap_or(path);
        json!({
            "name": name, "path": path, "absolute": top.join(path), "type": kind_name(kind),
            "ignored": left_out,
        })
    };
    Ok(Json(entries.into_iter().map(node).collect()))
}

/// A file, as text or as base64. One that does not exist is an empty text, as in opencode.
pub(super) async fn content(Shared(app): Shared<Arc<App>>, asked: Asked) -> Answer {
    let (directory, path) = place(&asked)?;
    let mime = mime_of(Path::new(&path));
    let bytes = read(&app, move |gateway| gateway.read_file(&directory, &path)).await?.unwrap_or_default();
    let text = std::str::from_utf8(&bytes).ok().filter(|text| !text.contains('\0'));
    Ok(Json(match text {
        Some(text) => json!({"type": "text", "content": text.trim()}),
        None => json!({
            "type": "binary", "content": BASE64_STANDARD.encode(&bytes), "encoding": "base64",
            "mimeType": mime,
        }),
    }))
}

/// The type of a file that is no text, by its name: what a page can show.
fn mime_of(path: &Path) -> &'static str {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    match extension.to_ascii_lowercase().as_str() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "pdf" => "application/pdf",
        _ => "application/octet-stream",
    }
}

/// The branch of the repository in the directory. Clients ask this for every directory, so one that cannot be
/// read, or that has no repository, has no branch.
pub(super) async fn vcs(Shared(app): Shared<Arc<App>>, asked: Asked) -> Json {
    let directory = PathBuf::from(asked.directory_or_own());
    let head = read(&app, move |gateway| gateway.read_file(&directory, ".git/HEAD")).await;
    let head = head.ok().flatten().and_then(|head| String::from_utf8(head).ok()).unwrap_or_default();
    match head.trim().strip_prefix("ref: refs/heads/") {
        Some(branch) => Json(json!({"branch": branch})),
        None => Json(json!({})),
    }
}
