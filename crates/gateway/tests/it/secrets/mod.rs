//! No secret reaches the disk, the wire or the agent's prompt, however it is cut (L9, I16).

mod choices;
mod crash;
mod held;
mod people;
mod stream;

use std::path::Path;
use turnstream_agents::Observer;
use turnstream_model::event::{Field, ItemKind, Role};
use turnstream_model::id::Key;
use turnstream_model::signal::{ItemSeen, Signal};

/// The length of a piece by which a secret would be recognised.
const PIECE: usize = 12;

/// Secrets of several forms, made here so that none is in this repository. The same for the same seed.
fn secrets(seed: u64) -> Vec<String> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut random = |length: usize| -> String { (0..length).map(|_| rng.alphanumeric()).collect() };
    let lines: Vec<String> = (0..3).map(|_| random(64)).collect();
    vec![
        format!("sk-ant-api03-{}-{}AA", random(48), random(40)),
        format!("sk-proj-{}", random(96)),
        format!("ghp_{}", random(36)),
        format!("AKIA{}", random(16).to_uppercase()),
        format!("eyJ{}.eyJ{}.{}", random(30), random(60), random(43)),
        format!("xoxb-{}-{}-{}", 123_456_789_012_u64, 987_654_321_098_u64, random(24)),
        format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----", lines.join("\n")),
    ]
}

/// The places of these secrets in which a piece of one stands, in every file below.
pub(crate) fn leaks_in(directory: &Path, secrets: &[String]) -> Vec<String> {
    let mut leaks = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                // One that goes away meanwhile holds nothing.
                let bytes = std::fs::read(&path).unwrap_or_default();
                leaks.extend(
                    leaks_of(&bytes, secrets).into_iter().map(|leak| format!("{}: {leak}", path.display())),
                );
            }
        }
    }
    leaks
}

/// Pieces of these secrets in these bytes. The frame around a key block is no secret.
pub(crate) fn leaks_of(bytes: &[u8], secrets: &[String]) -> Vec<String> {
    let pieces: std::collections::HashSet<&[u8]> = secrets
        .iter()
        .flat_map(|secret| secret.lines().filter(|line| !line.starts_with("-----")))
        .flat_map(|line| line.as_bytes().windows(PIECE))
        .collect();
    // Two bytes tell nearly all that is no piece, above all the zeros that files are filled with.
    let mut begins = vec![false; 1 << 16];
    let place = |piece: &[u8]| usize::from(u16::from_le_bytes([piece[0], piece[1]]));
    for piece in &pieces {
        begins[place(piece)] = true;
    }
    let found = bytes.windows(PIECE).filter(|window| begins[place(window)] && pieces.contains(window));
    found.map(|piece| String::from_utf8_lossy(piece).into_owned()).collect()
}

/// Introduces an item.
async fn item(observer: &Observer, key: &str, kind: ItemKind) {
    let seen =
        ItemSeen { key: Key::from(key), parent: None, kind, role: Some(Role::Assistant), synthetic: false };
    let _ = observer.signal(Signal::ItemSeen(seen)).await;
}

/// Lets an item grow.
async fn grow(observer: &Observer, key: &str, text: &str) {
    let (key, text) = (Key::from(key), text.to_owned());
    let _ = observer.signal(Signal::TextDelta { key, field: Field::Text, text }).await;
}
