//! The content of a prompt: which blocks an agent takes, by its `promptCapabilities`.

use super::conversation::Capabilities;
use serde_json::Value;
use turnstream_adapter::RefusedBlock;

impl Capabilities {
    /// Refuses a block that the agent has not said to take, or that lacks a member.
    pub(super) fn check(&self, block: &Value) -> Result<(), RefusedBlock> {
        let kind = block["type"].as_str().unwrap_or_default();
        let takes = self.takes();
        if takes.contains(&kind) && is_whole(kind, block) {
            return Ok(());
        }
        Err(RefusedBlock::Unsupported { agent: "this ACP agent", kind: kind.to_owned(), takes })
    }

    /// The types of blocks that it takes. Text and links are for every agent.
    fn takes(&self) -> &'static [&'static str] {
        match (self.image, self.audio, self.embedded) {
            (false, false, false) => &["text", "resource_link"],
            (true, false, false) => &["text", "resource_link", "image"],
            (false, true, false) => &["text", "resource_link", "audio"],
            (true, true, false) => &["text", "resource_link", "image", "audio"],
            (false, false, true) => &["text", "resource_link", "resource"],
            (true, false, true) => &["text", "resource_link", "image", "resource"],
            (false, true, true) => &["text", "resource_link", "audio", "resource"],
            (true, true, true) => &["text", "resource_link", "image", "audio", "resource"],
        }
    }
}

/// Whether a block has the members that ACP requires.
fn is_whole(kind: &str, block: &Value) -> bool {
    let has = |value: &Value, member: &str| value[member].is_string();
    match kind {
        "text" => has(block, "text"),
        "image" | "audio" => has(block, "data") && has(block, "mimeType"),
        "resource_link" => has(block, "uri"),
        "resource" => {
            let resource = &block["resource"];
            has(resource, "uri") && (has(resource, "text") || has(resource, "blob"))
        }
        _ => false,
    }
}

/// The blocks as ACP has them: a link has a name.
pub(super) fn blocks(mut content: Vec<Value>) -> Vec<Value> {
    for block in &mut content {
        if block["type"] == "resource_link" && !block["name"].is_string() {
            block["name"] = block["uri"].clone();
        }
    }
    content
}
