//! A conversation as a Markdown page that a person would send to a colleague.
//!
//! [`document`] writes the conversation of a session in order: messages, collapsed reasoning, tool calls
//! with input and output, diffs, approvals, the ends of turns, and the cost. Incomplete items are named and
//! not shown (L10). Superseded and removed items are not in the state. The same state gives the same page.

mod ask;
mod conversation;
mod heading;
mod item;
mod prose;
mod summary;
mod text;
mod time;
mod tool;

use turnstream_model::export::Header;
use turnstream_model::fold::State;

/// The page of a session, as it was exported.
pub fn document(state: &State, header: &Header) -> String {
    let mut page = Page::default();
    heading::write(state, header, &mut page);
    conversation::write(state, &mut page);
    summary::write(state, &mut page);
    page.finish()
}

/// What is written so far: blocks with a blank line between them.
#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    /// Adds a block, which has no blank line at either end. An empty one is none.
    fn block(&mut self, block: &str) {
        let block = block.trim_end_matches([' ', '\n']);
        if block.trim().is_empty() {
            return;
        }
        if !self.text.is_empty() {
            self.text.push_str("\n\n");
        }
        self.text.push_str(block);
    }

    /// Adds a collapsed section that a reader can open.
    fn folded(&mut self, summary: &str, inside: impl FnOnce(&mut Self)) {
        let mut page = Self::default();
        inside(&mut page);
        if !page.text.is_empty() {
            self.block(&format!("<details>\n<summary>{}</summary>", text::html(summary)));
            self.block(&page.text);
            self.block("</details>");
        }
    }

    fn finish(mut self) -> String {
        self.text.push('\n');
        self.text
    }
}
