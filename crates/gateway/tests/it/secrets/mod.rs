//! No secret reaches the disk, the wire or the agent's prompt, however it is cut (L9, I16).

mod choices;
mod crash;
mod held;
mod people;
mod stream;

use turnstream_agents::Observer;
use turnstream_model::event::{Field, ItemKind, Role};
use turnstream_model::id::Key;
use turnstream_model::signal::{ItemSeen, Signal};

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
