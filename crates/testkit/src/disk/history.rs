//! The history of a disk: which changes of files and names are durable.

use super::DiskError;
use super::durable_base::{Base, BaseNode};
use super::journal::{Journal, What};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::PathBuf;

/// All files that ever existed, and all changes of names, in order.
pub(super) struct History<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) first_names: BTreeMap<String, Node>,
    pub(super) files: Vec<FileHistory>,
    pub(super) names: Vec<NameChange>,
    /// The file of an inode number at the end. Inode numbers of removed files are reused.
    pub(super) inodes: HashMap<u64, usize>,
}

/// What a name refers to: a directory, or the file with this index in [`History::files`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node {
    Directory,
    File(usize),
}

/// One file, from its creation or from the base.
pub(super) struct FileHistory {
    pub(super) inode: u64,
    pub(super) mode: u32,
    pub(super) base: Option<PathBuf>,
    pub(super) changes: Vec<Change>,
}

/// One change of a file's content.
pub(super) struct Change {
    pub(super) at: u64,
    pub(super) state: State,
    pub(super) what: Content,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Not synced yet.
    Pending,
    /// Covered by a completed sync.
    Durable,
    /// Covered by a failed sync. Linux marks the pages clean, so a later sync does not write them.
    Abandoned,
}

#[derive(Debug)]
pub(super) enum Content {
    Write { offset: u64, data: Range<usize> },
    Truncate(u64),
    Extend(u64),
}

/// One change of names. It is durable when all its directories were synced afterwards.
pub(super) struct NameChange {
    pub(super) at: u64,
    pub(super) unsynced: Vec<String>,
    pub(super) what: Naming,
}

#[derive(Debug)]
pub(super) enum Naming {
    Bind { path: String, node: Node },
    Move { from: String, to: String, node: Node },
    Remove { path: String },
}

// === impl History ===

impl<'a> History<'a> {
    pub(super) fn read(base: &Base, journal: &'a Journal) -> Result<Self, DiskError> {
        let mut history = Self {
            bytes: &journal.bytes,
            first_names: BTreeMap::new(),
            files: Vec::new(),
            names: Vec::new(),
            inodes: HashMap::new(),
        };
        for (path, node) in &base.nodes {
            let node = match node {
                BaseNode::Directory => Node::Directory,
                BaseNode::File { inode, mode, copy } => history.add_file(*inode, *mode, Some(copy.clone())),
            };
            history.first_names.insert(path.clone(), node);
        }
        for record in &journal.records {
            history.apply(record.end, &record.what)?;
        }
        Ok(history)
    }

    fn apply(&mut self, at: u64, what: &What) -> Result<(), DiskError> {
        match what {
            What::Write { inode, offset, data } => {
                let what = Content::Write { offset: *offset, data: data.clone() };
                self.change(self.known(*inode)?, at, what);
            }
            What::Truncate { inode, length } => {
                self.change(self.known(*inode)?, at, Content::Truncate(*length));
            }
            What::Extend { inode, length } => {
                self.change(self.known(*inode)?, at, Content::Extend(*length));
            }
            What::Sync { inode, covers } => self.settle(self.known(*inode)?, *covers, State::Durable),
            What::SyncFailed { inode, covers } => self.settle(self.known(*inode)?, *covers, State::Abandoned),
            What::SyncDirectory { path, covers } => {
                for change in self.names.iter_mut().filter(|change| change.at <= *covers) {
                    change.unsynced.retain(|directory| directory != path);
                }
            }
            What::SyncAll { covers } => {
                for file in 0..self.files.len() {
                    self.settle(file, *covers, State::Durable);
                }
                for change in self.names.iter_mut().filter(|change| change.at <= *covers) {
                    change.unsynced.clear();
                }
            }
            What::Create { inode, mode, path } => {
                let node = self.add_file(*inode, *mode, None);
                self.rename(at, &[path], Naming::Bind { path: path.clone(), node });
            }
            What::MakeDirectory { path } => {
                self.rename(at, &[path], Naming::Bind { path: path.clone(), node: Node::Directory });
            }
            What::Link { inode, path } => {
                let node = Node::File(self.known(*inode)?);
                self.rename(at, &[path], Naming::Bind { path: path.clone(), node });
            }
            What::Rename { inode, from, to } => {
                let node = Node::File(self.known(*inode)?);
                self.rename(at, &[from, to], Naming::Move { from: from.clone(), to: to.clone(), node });
            }
            What::Remove { path } => self.rename(at, &[path], Naming::Remove { path: path.clone() }),
            What::Unmodelled { path, what } => {
                return Err(DiskError::Unmodelled { path: path.clone(), what: what.clone() });
            }
        }
        Ok(())
    }

    fn known(&self, inode: u64) -> Result<usize, DiskError> {
        self.inodes.get(&inode).copied().ok_or_else(|| DiskError::Unmodelled {
            path: format!("the file with inode {inode}"),
            what: "was created by a call that the shim does not see".to_owned(),
        })
    }

    fn add_file(&mut self, inode: u64, mode: u32, base: Option<PathBuf>) -> Node {
        self.inodes.insert(inode, self.files.len());
        self.files.push(FileHistory { inode, mode, base, changes: Vec::new() });
        Node::File(self.files.len() - 1)
    }

    fn change(&mut self, file: usize, at: u64, what: Content) {
        self.files[file].changes.push(Change { at, state: State::Pending, what });
    }

    fn settle(&mut self, file: usize, covers: u64, state: State) {
        let pending = |change: &&mut Change| change.at <= covers && change.state == State::Pending;
        for change in self.files[file].changes.iter_mut().rev().filter(pending) {
            change.state = state;
        }
    }

    fn rename(&mut self, at: u64, paths: &[&String], what: Naming) {
        let unsynced = paths.iter().map(|path| parent(path).to_owned()).collect();
        self.names.push(NameChange { at, unsynced, what });
    }
}

/// The parent of a relative path. The watched directory is the empty path.
pub(super) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}
