//! Planted texts, such as secrets, that must not be found in bytes or in files.

use std::collections::HashSet;
use std::path::Path;

/// The length of a piece by which a text is recognised.
const PIECE: usize = 12;

/// So many bytes are skipped at once where a file is empty.
const BLOCK: usize = 4096;

/// The pieces of texts, made once for many files.
struct Pieces<'a> {
    all: HashSet<&'a [u8]>,
    /// The first two bytes of each: they tell nearly all that is no piece.
    begins: Vec<bool>,
}

/// The pieces of these texts in these bytes. The frame around a key block is no secret.
pub fn leaks_of<T: AsRef<str>>(bytes: &[u8], texts: &[T]) -> Vec<String> {
    let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
    Pieces::of(&texts).found_in(bytes)
}

/// The files below a directory with pieces of these texts: how many, and the first one.
///
/// # Panics
///
/// If the directory cannot be listed.
pub fn leaks_below<T: AsRef<str>>(directory: &Path, texts: &[T]) -> Vec<String> {
    let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
    Pieces::of(&texts).found_below(directory)
}

// === impl Pieces ===

impl<'a> Pieces<'a> {
    fn of(texts: &[&'a str]) -> Self {
        let lines = texts.iter().flat_map(|text| text.lines().filter(|line| !line.starts_with("-----")));
        let all: HashSet<&[u8]> = lines.flat_map(|line| line.as_bytes().windows(PIECE)).collect();
        let mut begins = vec![false; 1 << 16];
        for piece in &all {
            begins[begin(piece)] = true;
        }
        Self { all, begins }
    }

    fn found_in(&self, bytes: &[u8]) -> Vec<String> {
        let mut found = Vec::new();
        for (number, block) in bytes.chunks(BLOCK).enumerate() {
            // Files are filled with zeros, and no piece begins with one.
            if *block == [0; BLOCK][..block.len()] {
                continue;
            }
            let start = number * BLOCK;
            let reach = &bytes[start..bytes.len().min(start + BLOCK + PIECE - 1)];
            let leaks =
                reach.windows(PIECE).filter(|window| self.begins[begin(window)] && self.all.contains(window));
            found.extend(leaks.map(|piece| String::from_utf8_lossy(piece).into_owned()));
        }
        found
    }

    fn found_below(&self, directory: &Path) -> Vec<String> {
        let mut leaks = Vec::new();
        let mut open = vec![directory.to_owned()];
        while let Some(directory) = open.pop() {
            let entries = std::fs::read_dir(&directory)
                .unwrap_or_else(|error| panic!("{} cannot be listed: {error}", directory.display()));
            for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
                if path.is_dir() {
                    open.push(path);
                    continue;
                }
                // A file that goes away meanwhile holds nothing.
                let found = self.found_in(&std::fs::read(&path).unwrap_or_default());
                if let Some(first) = found.first() {
                    leaks.push(format!("{}: {} pieces, the first is {first}", path.display(), found.len()));
                }
            }
        }
        leaks
    }
}

fn begin(piece: &[u8]) -> usize {
    usize::from(u16::from_le_bytes([piece[0], piece[1]]))
}

#[cfg(test)]
mod tests {
    use super::{BLOCK, leaks_of};

    #[test]
    fn a_piece_is_found_at_the_edge_of_a_block_and_after_an_empty_one() {
        let mut bytes = vec![0; BLOCK - 3];
        bytes.extend_from_slice(b"abcdefghijkl");
        bytes.resize(3 * BLOCK, 0);
        bytes.extend_from_slice(b"xabcdefghijkl");
        assert_eq!(leaks_of(&bytes, &["-----frame-of-a-key", "abcdefghijkl"]), ["abcdefghijkl"; 2]);
        assert_eq!(leaks_of(&bytes, &["-----abcdefghijkl"]), [""; 0]);
    }
}
