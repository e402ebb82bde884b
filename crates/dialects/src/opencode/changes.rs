//! Changes of files: what one call changes, and what a session or a turn has changed, as unified diffs.

use crate::text_diff;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use turnstream_model::event::{Tool, ToolKind};

/// What happened to a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileStatus {
    /// It is new, or its old text is not known.
    Added,
    /// Its text has changed.
    #[default]
    Modified,
    /// It is gone.
    Deleted,
}

/// What a session, a turn or a call changed in one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// The path of the file.
    pub file: String,
    /// The change as a unified diff. Lines are counted from the beginning of the first change.
    pub patch: String,
    /// The number of added lines.
    pub additions: usize,
    /// The number of removed lines.
    pub deletions: usize,
    /// What happened to the file.
    #[serde(default)]
    pub status: FileStatus,
}

impl FileChange {
    /// Those in the metadata of a call: `files` of a patch, or `filediff` of an edit.
    pub(super) fn in_metadata(metadata: &Value) -> Vec<Self> {
        let of_file = |file: &Value| {
            let count = |member: &str| file[member].as_u64().unwrap_or_default() as usize;
            let status = match file["type"].as_str()? {
                "add" => FileStatus::Added,
                "delete" => FileStatus::Deleted,
                _ => FileStatus::Modified,
            };
            let (additions, deletions) = (count("additions"), count("deletions"));
            let (file, patch) = (file["filePath"].as_str()?.to_owned(), file["patch"].as_str()?.to_owned());
            Some(Self { file, patch, additions, deletions, status })
        };
        match metadata["files"].as_array() {
            Some(files) => files.iter().filter_map(of_file).collect(),
            None => Self::deserialize(&metadata["filediff"]).into_iter().collect(),
        }
    }

    /// Adds a later change of the same file.
    fn then(&mut self, later: &Self) {
        let hunks = later.patch.find("@@ ").map_or("", |start| &later.patch[start..]);
        self.patch.push_str(hunks);
        self.additions += later.additions;
        self.deletions += later.deletions;
        self.status = match (self.status, later.status) {
            (FileStatus::Added, FileStatus::Added | FileStatus::Modified) => FileStatus::Added,
            (_, FileStatus::Deleted) => FileStatus::Deleted,
            (FileStatus::Modified | FileStatus::Deleted, _) => FileStatus::Modified,
        };
    }
}

/// Changes in their order as one change per file, in the order of the first ones.
pub fn by_file(changes: impl IntoIterator<Item = FileChange>) -> Vec<FileChange> {
    let mut files: Vec<FileChange> = Vec::new();
    for change in changes {
        match files.iter_mut().find(|known| known.file == change.file) {
            Some(known) => known.then(&change),
            None => files.push(change),
        }
    }
    files
}

/// What one call changes in one file. Each hunk is an old and a new text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Edit {
    pub(super) path: String,
    moved_to: Option<String>,
    status: FileStatus,
    hunks: Vec<(String, String)>,
}

impl Edit {
    /// An edit that its arguments describe. Without an old text the file is new, as far as is known.
    pub(super) fn new(path: &str, old: &str, new: &str) -> Self {
        let status = if old.is_empty() { FileStatus::Added } else { FileStatus::Modified };
        let hunks = vec![(old.to_owned(), new.to_owned())];
        Self { path: path.to_owned(), moved_to: None, status, hunks }
    }

    /// The edits that a call shows, one for each file. `path` is for blocks that name none.
    pub(super) fn shown(tool: &Tool, path: Option<&str>) -> Vec<Self> {
        let mut edits: Vec<Self> = Vec::new();
        for block in blocks(tool) {
            let (Some(path), Some(new)) = (block["path"].as_str().or(path), block["newText"].as_str()) else {
                continue;
            };
            let old = block["oldText"].as_str();
            let hunk = (old.unwrap_or_default().to_owned(), new.to_owned());
            match edits.iter_mut().find(|known| known.path == path) {
                Some(known) => known.hunks.push(hunk),
                None => {
                    // Codex lists its changes.
                    let mut listed =
                        tool.input.iter().flat_map(|input| input["changes"].as_array()).flatten();
                    let listed = listed.find(|change| change["path"] == path);
                    let is_deleted = listed
                        .map_or(tool.kind == Some(ToolKind::Delete), |change| change["kind"] == "delete");
                    let status = match old {
                        _ if is_deleted => FileStatus::Deleted,
                        None => FileStatus::Added,
                        Some(_) => FileStatus::Modified,
                    };
                    let moved_to = listed.and_then(|change| change["movePath"].as_str()).map(str::to_owned);
                    edits.push(Self { path: path.to_owned(), moved_to, status, hunks: vec![hunk] });
                }
            }
        }
        edits
    }

    /// The change as a unified diff.
    pub(super) fn change(&self) -> FileChange {
        let Self { path, status, hunks, .. } = self;
        let mut patch = Patch::of(path);
        hunks.iter().for_each(|(old, new)| patch.add(None, old, new));
        let Patch { text, additions, deletions, .. } = patch;
        FileChange { file: path.clone(), patch: text, additions, deletions, status: *status }
    }

    /// The change as one of the `files` of opencode's `apply_patch`.
    pub(super) fn file(&self, relative: &str) -> Value {
        let FileChange { file, patch, additions, deletions, status } = self.change();
        let kind = match (status, &self.moved_to) {
            (_, Some(_)) => "move",
            (FileStatus::Added, None) => "add",
            (FileStatus::Modified, None) => "update",
            (FileStatus::Deleted, None) => "delete",
        };
        let mut told = Map::from_iter([
            ("filePath".to_owned(), json!(file)),
            ("relativePath".to_owned(), json!(relative)),
            ("type".to_owned(), json!(kind)),
            ("patch".to_owned(), json!(patch)),
            ("additions".to_owned(), json!(additions)),
            ("deletions".to_owned(), json!(deletions)),
        ]);
        told.extend(self.moved_to.as_ref().map(|path| ("movePath".to_owned(), json!(path))));
        Value::Object(told)
    }
}

/// The diffs among what a call shows.
pub(super) fn blocks(tool: &Tool) -> impl Iterator<Item = &Value> {
    tool.content.iter().flatten().filter(|block| block["type"] == "diff")
}

/// All edits of a call in one patch, for the dialog of a permission. The TUI shows only the first file of a
/// patch (1.18.33). So the edits of several files are hunks of one, and each begins with its file's name.
pub(super) fn for_dialog(edits: &[Edit]) -> Option<String> {
    if let [edit] = edits {
        return Some(edit.change().patch);
    }
    let mut patch = Patch::of(&format!("{} files", edits.len()));
    for Edit { path, moved_to, status, hunks } in edits {
        let what = match (status, moved_to) {
            (_, Some(to)) => format!("{path} (moved to {to})"),
            (FileStatus::Added, None) => format!("{path} (new)"),
            (FileStatus::Modified, None) => path.clone(),
            (FileStatus::Deleted, None) => format!("{path} (deleted)"),
        };
        hunks.iter().for_each(|(old, new)| patch.add(Some(&what), old, new));
    }
    (!edits.is_empty()).then_some(patch.text)
}

/// A unified diff of one file. The places in the file are not known: lines are counted from the beginning of
/// the first hunk.
struct Patch {
    text: String,
    additions: usize,
    deletions: usize,
    /// The lines so far, before and after the change.
    before: usize,
    after: usize,
}

impl Patch {
    fn of(file: &str) -> Self {
        let text = format!("--- {file}\n+++ {file}\n");
        Self { text, additions: 0, deletions: 0, before: 0, after: 0 }
    }

    /// Adds a hunk. `title` is shown before it, as a line that does not change.
    fn add(&mut self, title: Option<&str>, old: &str, new: &str) {
        let title = title.map(|title| format!(" {title}"));
        let lines: Vec<String> = title.into_iter().chain(text_diff::lines(old, new)).collect();
        let count = |mark: char| lines.iter().filter(|line| line.starts_with(mark)).count();
        let (additions, deletions, same) = (count('+'), count('-'), count(' '));
        let (before, after) = (deletions + same, additions + same);
        let start = |earlier: usize, lines: usize| earlier + usize::from(lines > 0);
        let (from, to) = (start(self.before, before), start(self.after, after));
        self.text += &format!("@@ -{from},{before} +{to},{after} @@\n");
        self.text.extend(lines.iter().flat_map(|line| [line.as_str(), "\n"]));
        self.before += before;
        self.after += after;
        self.additions += additions;
        self.deletions += deletions;
    }
}

#[cfg(test)]
mod tests {
    use super::{Edit, FileStatus, by_file, for_dialog};
    use serde_json::json;
    use turnstream_model::event::{Tool, ToolKind};

    /// As Codex shows a change of three files: one block for each hunk.
    fn tool() -> Tool {
        let diff = |path: &str, old: Option<&str>, new: &str| match old {
            Some(old) => json!({"type": "diff", "path": path, "oldText": old, "newText": new}),
            None => json!({"type": "diff", "path": path, "newText": new}),
        };
        let blocks = vec![
            diff("/a", Some("x\no\n"), "x\nn\n"),
            diff("/a", Some("p\n"), "q\n"),
            diff("/b", None, "n"),
            diff("/c", Some("gone\n"), ""),
        ];
        let changes = json!([{"path": "/a", "kind": "update"}, {"path": "/b", "kind": "add"}, {"path": "/c", "kind": "delete"}]);
        Tool {
            kind: Some(ToolKind::Edit),
            content: Some(blocks),
            input: Some(json!({"changes": changes})),
            ..Tool::default()
        }
    }

    #[test]
    fn a_change_of_several_files_has_one_patch_for_each_with_all_its_hunks() {
        let changes: Vec<_> = Edit::shown(&tool(), None).iter().map(Edit::change).collect();
        let want = "--- /a\n+++ /a\n@@ -1,2 +1,2 @@\n x\n-o\n+n\n@@ -3,1 +3,1 @@\n-p\n+q\n";
        assert_eq!((changes[0].patch.as_str(), changes[0].additions, changes[0].deletions), (want, 2, 2));
        let added = "--- /b\n+++ /b\n@@ -0,0 +1,1 @@\n+n\n";
        assert_eq!((changes[1].patch.as_str(), changes[1].status), (added, FileStatus::Added));
        assert_eq!((changes.len(), changes[2].status), (3, FileStatus::Deleted));
    }

    #[test]
    fn a_dialog_shows_all_files_in_one_patch() {
        let want = "--- 3 files\n+++ 3 files\n@@ -1,3 +1,3 @@\n /a\n x\n-o\n+n\n@@ -4,2 +4,2 @@\n /a\n-p\n+q\n\
                    @@ -6,1 +6,2 @@\n /b (new)\n+n\n@@ -7,2 +8,1 @@\n /c (deleted)\n-gone\n";
        assert_eq!(for_dialog(&Edit::shown(&tool(), None)).as_deref(), Some(want));
    }

    #[test]
    fn a_file_that_is_changed_twice_is_one_change() {
        let twice = [Edit::new("/a", "", "1\n"), Edit::new("/b", "x", "y"), Edit::new("/a", "1\n", "2\n")];
        let files = by_file(twice.iter().map(Edit::change));
        assert_eq!(files.iter().map(|change| change.file.as_str()).collect::<Vec<_>>(), ["/a", "/b"]);
        let want = "--- /a\n+++ /a\n@@ -0,0 +1,1 @@\n+1\n@@ -1,1 +1,1 @@\n-1\n+2\n";
        assert_eq!((files[0].patch.as_str(), files[0].status), (want, FileStatus::Added));
        assert_eq!((files[0].additions, files[0].deletions), (2, 1));
    }
}
