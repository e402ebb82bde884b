//! Which content an agent takes in prompts. Each agent checks blocks itself, so it is asked with samples.

use crate::gateway::Gateway;
use serde_json::{Value, json};

impl Gateway {
    /// The content that an agent takes: types of blocks, and `pdf` for a resource that is a PDF.
    pub fn content_types(&self, agent: &str) -> Vec<&'static str> {
        let shared = self.shared();
        let Some(agent) = shared.agents().get(agent) else { return Vec::new() };
        let takes = |(_, block): &(&str, Value)| agent.check_block(block).is_ok();
        samples().into_iter().filter(takes).map(|(kind, _)| kind).collect()
    }
}

fn samples() -> [(&'static str, Value); 6] {
    let (text, pdf) = (
        json!({"uri": "file:///a", "mimeType": "text/plain", "text": "a"}),
        json!({"uri": "file:///a", "mimeType": "application/pdf", "blob": "AA=="}),
    );
    [
        ("text", json!({"type": "text", "text": "a"})),
        ("image", json!({"type": "image", "mimeType": "image/png", "data": "AA=="})),
        ("audio", json!({"type": "audio", "mimeType": "audio/wav", "data": "AA=="})),
        ("resource_link", json!({"type": "resource_link", "uri": "file:///a", "name": "a"})),
        ("resource", json!({"type": "resource", "resource": text})),
        ("pdf", json!({"type": "resource", "resource": pdf})),
    ]
}
