//! Planted texts, such as secrets, that must not be found in bytes or in files.

use std::collections::HashSet;
use std::path::Path;

/// The length of a piece by which a text is recognised.
const PIECE: usize = 12;

/// So many bytes are skipped at once where a file is empty.
const BLOCK: usize = 4096;

/// The pieces of these texts in these bytes. The frame around a key block is no secret.
pub fn leaks_of<T: AsRef<str>>(bytes: &[u8], texts: &[T]) -> Vec<String> {
    let pieces: HashSet<&[u8]> = texts
        .iter()
        .flat_map(|text| text.as_ref().lines().filter(|line| !line.starts_with("-----")))
        .flat_map(|line| line.as_bytes().windows(PIECE))
        .collect();
    // Two bytes tell nearly all that is no piece.
    let mut begins = vec![false; 1 << 16];
    let place = |piece: &[u8]| usize::from(u16::from_le_bytes([piece[0], piece[1]]));
    for piece in &pieces {
        begins[place(piece)] = true;
    }
    let mut found = Vec::new();
    for (number, block) in bytes.chunks(BLOCK).enumerate() {
        // Files are filled with zeros, and no piece begins with one.
        if *block == [0; BLOCK][..block.len()] {
            continue;
        }
        let start = number * BLOCK;
        let reach = &bytes[start..bytes.len().min(start + BLOCK + PIECE - 1)];
        let leaks = reach.windows(PIECE).filter(|window| begins[place(window)] && pieces.contains(window));
        found.extend(leaks.map(|piece| String::from_utf8_lossy(piece).into_owned()));
    }
    found
}

/// The files below a directory with pieces of these texts: how many, and the first one.
///
/// # Panics
///
/// If the directory cannot be listed.
pub fn leaks_below<T: AsRef<str>>(directory: &Path, texts: &[T]) -> Vec<String> {
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
            let found = leaks_of(&std::fs::read(&path).unwrap_or_default(), texts);
            if let Some(first) = found.first() {
                leaks.push(format!("{}: {} pieces, the first is {first}", path.display(), found.len()));
            }
        }
    }
    leaks
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
