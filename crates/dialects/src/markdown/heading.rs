//! The top of a page: what conversation this is.

use super::Page;
use super::text::{code_cell, inline};
use super::time::minute;
use turnstream_model::export::Header;
use turnstream_model::fold::State;
use turnstream_model::time::Time;

pub(super) fn write(state: &State, header: &Header, page: &mut Page) {
    let session = &state.session;
    let title = session.title.as_deref().filter(|title| !title.trim().is_empty());
    page.block(&format!("# {}", title.map_or_else(|| "Conversation".to_owned(), inline)));
    let mut table = "| | |\n|---|---|".to_owned();
    let mut row = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            table.push_str(&format!("\n| {name} | {value} |"));
        }
    };
    row("Agent", Some(inline(&session.agent)));
    row("Model", session.model.as_deref().map(code_cell));
    row("Mode", session.mode.as_deref().map(inline));
    row("Directory", Some(code_cell(&session.cwd)));
    row("Date", session.created.map(|begin| span(begin, last_time(state))));
    row("Session", Some(code_cell(header.session.as_str())));
    row("Ended", session.ended.as_deref().map(inline));
    page.block(&table);
    if header.first.0 > 1 {
        page.block("*The beginning of this conversation was not kept any more.*");
    }
    if header.left_out > 0 {
        page.block(
            "*The conversation was going on when this was written; its last, unfinished part is not in it.*",
        );
    }
}

fn span(begin: Time, end: Option<Time>) -> String {
    let begin = minute(begin);
    match end.map(minute) {
        Some(end) if end != begin => format!("{begin} to {end}"),
        _ => begin,
    }
}

/// When it was last worked on.
fn last_time(state: &State) -> Option<Time> {
    let turns = state.turns.iter().filter_map(|turn| turn.ended);
    turns.chain(state.items.iter().map(|item| item.time)).max()
}
