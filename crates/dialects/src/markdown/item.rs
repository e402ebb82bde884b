//! One thing that was said or done.

use super::Page;
use super::prose::prose;
use turnstream_model::event::{ItemKind, Role};
use turnstream_model::fold::{Item, ItemStage};

/// Whether all of it is there: only then it is shown (L10).
pub(super) fn is_whole(item: &Item) -> bool {
    matches!(item.state, ItemStage::Completed | ItemStage::Failed) && !item.incomplete
}

/// An item that is no tool call.
pub(super) fn write(item: &Item, page: &mut Page) {
    let text = item.text.as_deref().unwrap_or_default();
    if !is_whole(item) {
        return page.block(cut_off(item));
    }
    match item.kind {
        ItemKind::Message if item.role == Some(Role::User) && item.synthetic => {
            page.folded("Written by the agent in the user's name", |page| page.block(&prose(text)));
        }
        ItemKind::Message | ItemKind::Tool => page.block(&prose(text)),
        ItemKind::Reasoning => page.folded("Reasoning", |page| page.block(&prose(text))),
        ItemKind::Plan => {
            page.block("**Plan**");
            page.block(&prose(text));
        }
        ItemKind::File => page.block(&format!("**File** {}", super::text::inline(text))),
        ItemKind::Compaction if text.trim().is_empty() => page.block("*The history was summarised here.*"),
        ItemKind::Compaction => {
            page.folded("The history was summarised here", |page| page.block(&prose(text)));
        }
    }
}

fn cut_off(item: &Item) -> &'static str {
    match item.kind {
        ItemKind::Message => "*A message was cut off here and is not shown.*",
        ItemKind::Reasoning => "*Reasoning was cut off here and is not shown.*",
        ItemKind::Tool => "*A tool call was cut off here.*",
        ItemKind::Plan => "*A plan was left unfinished here and is not shown.*",
        ItemKind::File => "*A file was cut off here and is not shown.*",
        ItemKind::Compaction => "*A summary of the history was cut off here and is not shown.*",
    }
}
