//! Converts the ACP content blocks of a prompt into parts of a message of opencode.

use super::ids;
use super::prompt::{Model, PartContent, Prompt, PromptPart};
use serde_json::Value;
use turnstream_adapter::{ACP_CONTENT, RefusedBlock};
use turnstream_model::event::{ErrorClass, TurnError};

/// The prompt for this message id. The same id gives the same part ids, so that a repeat is not a second
/// prompt.
pub(super) fn prompt(
    message: &str,
    content: &[Value],
    model: Option<&str>,
    mode: Option<&str>,
) -> Result<Prompt, TurnError> {
    let model = match model {
        Some(name) => Some(Model::parse(name).ok_or_else(|| {
            let problem = format!("the model {name:?} is not PROVIDER/MODEL; change it or leave it out");
            TurnError::new(ErrorClass::ModelUnavailable, problem)
        })?),
        None => None,
    };
    let part = |(place, block): (usize, &Value)| {
        let id = ids::part_of(message, place as u32);
        let content = part_content(block)
            .map_err(|refused| TurnError::new(ErrorClass::InvalidRequest, refused.to_string()))?;
        Ok(PromptPart { id, content })
    };
    let parts = content.iter().enumerate().map(part).collect::<Result<_, TurnError>>()?;
    Ok(Prompt { message_id: message.to_owned(), parts, model, agent: mode.map(str::to_owned) })
}

/// Refuses a content block that opencode cannot take.
pub fn check(block: &Value) -> Result<(), RefusedBlock> {
    part_content(block).map(drop)
}

fn part_content(block: &Value) -> Result<PartContent, RefusedBlock> {
    let text = |member: &str| block[member].as_str().map(str::to_owned);
    let kind = block["type"].as_str().unwrap_or_default();
    let content = match kind {
        "text" => text("text").map(PartContent::Text),
        "image" | "audio" => {
            let url = |mime: &str| {
                let data = text("data").map(|data| format!("data:{mime};base64,{data}"));
                data.or_else(|| text("uri"))
            };
            text("mimeType")
                .and_then(|mime| Some(PartContent::File { url: url(&mime)?, mime, filename: None }))
        }
        "resource_link" => text("uri").map(|url| {
            let mime = text("mimeType").unwrap_or_else(|| "text/plain".to_owned());
            PartContent::File { mime, filename: text("name"), url }
        }),
        "resource" => resource(&block["resource"]),
        _ => None,
    };
    content.ok_or_else(|| RefusedBlock::Unsupported {
        agent: "opencode",
        kind: kind.to_owned(),
        takes: ACP_CONTENT,
    })
}

/// An embedded resource: text with its URI, or a file.
fn resource(resource: &Value) -> Option<PartContent> {
    let text = |member: &str| resource[member].as_str();
    let uri = text("uri")?;
    if let Some(content) = text("text") {
        return Some(PartContent::Text(format!("<resource uri=\"{uri}\">\n{content}\n</resource>")));
    }
    let mime = text("mimeType").unwrap_or("application/octet-stream").to_owned();
    let url = format!("data:{mime};base64,{}", text("blob")?);
    let filename = uri.rsplit('/').next().map(str::to_owned);
    Some(PartContent::File { mime, filename, url })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_kind_of_block_has_its_part_and_a_repeat_has_the_same_names() {
        let content = [
            json!({"type": "text", "text": "Look"}),
            json!({"type": "image", "mimeType": "image/png", "data": "AA=="}),
            json!({"type": "resource_link", "uri": "file:///w/a.rs", "name": "a.rs"}),
            json!({"type": "resource", "resource": {"uri": "file:///w/b.txt", "text": "b"}}),
        ];
        let message = "msg_1e0c7c950001junpDUYjBLrG2b";
        let sent = prompt(message, &content, Some("lab/m"), Some("plan")).unwrap();
        let parts: Vec<PartContent> = sent.parts.iter().map(|part| part.content.clone()).collect();
        let file = |mime: &str, filename: Option<&str>, url: &str| PartContent::File {
            mime: mime.to_owned(),
            filename: filename.map(str::to_owned),
            url: url.to_owned(),
        };
        assert_eq!(
            parts,
            [
                PartContent::Text("Look".to_owned()),
                file("image/png", None, "data:image/png;base64,AA=="),
                file("text/plain", Some("a.rs"), "file:///w/a.rs"),
                PartContent::Text("<resource uri=\"file:///w/b.txt\">\nb\n</resource>".to_owned()),
            ]
        );
        assert_eq!(prompt(message, &content, Some("lab/m"), Some("plan")).unwrap(), sent);
        assert!(sent.parts.is_sorted_by_key(|part| part.id.clone()), "parts ascend");
    }

    #[test]
    fn what_opencode_cannot_take_is_refused_by_its_name() {
        let refused = |block: Value| prompt("msg_1e0c7c950001x", &[block], None, None).unwrap_err();
        assert!(refused(json!({"type": "video"})).message.contains("\"video\""));
        assert_eq!(refused(json!({"type": "image"})).class, ErrorClass::InvalidRequest);
        let half = prompt("msg_1e0c7c950001x", &[], Some("lab"), None).unwrap_err();
        assert_eq!(half.class, ErrorClass::ModelUnavailable);
    }
}
