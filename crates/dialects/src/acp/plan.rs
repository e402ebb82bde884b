//! Plans: the text of a plan item as ACP's entries.
//!
//! A plan's text is a JSON array of entries (`content`, `status`, `priority`, as in opencode's to-do list),
//! or lines for a person. Lines are read as a checklist if there is one, else each line is an entry.

use super::tag::meta;
use agent_client_protocol_schema::v1::{PlanEntry, PlanEntryPriority, PlanEntryStatus};
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
struct Entry {
    content: String,
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    priority: Option<String>,
}

/// The entries of a plan's text.
pub(super) fn entries(text: &str) -> Vec<PlanEntry> {
    if text.trim_start().starts_with('[')
        && let Ok(entries) = turnstream_json::from_str::<Vec<Entry>>(text)
    {
        return entries.into_iter().map(from_entry).collect();
    }
    let items: Vec<PlanEntry> = text.lines().filter_map(checklist_line).collect();
    if !items.is_empty() {
        return items;
    }
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(|line| entry(line, PlanEntryPriority::Medium, PlanEntryStatus::Pending)).collect()
}

/// The entries of a plan's text: what is to be done, and how far it is, in ACP's words.
pub(crate) fn contents(text: &str) -> Vec<(String, String)> {
    let word = |status: PlanEntryStatus| match status {
        PlanEntryStatus::InProgress => "in_progress",
        PlanEntryStatus::Completed => "completed",
        _ => "pending",
    };
    entries(text).into_iter().map(|entry| (entry.content, word(entry.status).to_owned())).collect()
}

fn from_entry(from: Entry) -> PlanEntry {
    let priority = match from.priority.as_deref() {
        Some("high") => PlanEntryPriority::High,
        Some("low") => PlanEntryPriority::Low,
        _ => PlanEntryPriority::Medium,
    };
    let status = match from.status.as_deref() {
        Some("in_progress") => PlanEntryStatus::InProgress,
        // ACP has no status for a cancelled entry. It counts as completed, and `_meta` has the agent's own
        // status.
        Some("completed" | "cancelled") => PlanEntryStatus::Completed,
        _ => PlanEntryStatus::Pending,
    };
    let given_up = from.status.as_deref() == Some("cancelled");
    let note = given_up.then(|| meta(&json!({ "status": "cancelled" }))).flatten();
    entry(&from.content, priority, status).meta(note)
}

/// Reads `- [ ] to do`, `* [x] done`, `1. [~] under way`, and list items without a box.
fn checklist_line(line: &str) -> Option<PlanEntry> {
    let line = line.trim_start();
    let rest = line.strip_prefix(['-', '*', '+']).or_else(|| {
        let digits = line.find(|c: char| !c.is_ascii_digit()).filter(|&end| end > 0)?;
        line[digits..].strip_prefix(['.', ')'])
    })?;
    let rest = rest.strip_prefix(' ')?.trim();
    let (status, content) = match rest.get(..3) {
        Some("[ ]") => (PlanEntryStatus::Pending, &rest[3..]),
        Some("[x]" | "[X]") => (PlanEntryStatus::Completed, &rest[3..]),
        Some("[~]" | "[-]") => (PlanEntryStatus::InProgress, &rest[3..]),
        _ => (PlanEntryStatus::Pending, rest),
    };
    Some(entry(content.trim(), PlanEntryPriority::Medium, status))
}

fn entry(content: &str, priority: PlanEntryPriority, status: PlanEntryStatus) -> PlanEntry {
    PlanEntry::new(content, priority, status)
}

#[cfg(test)]
mod tests {
    use super::entries;
    use serde_json::{Value, json};

    fn read(text: &str) -> Value {
        serde_json::to_value(entries(text)).unwrap()
    }

    #[test]
    fn a_to_do_list_keeps_status_and_priority() {
        let todos = r#"[{"content":"Read","status":"in_progress","priority":"high"},{"content":"Drop","status":"cancelled","priority":"low"}]"#;
        let want = json!([
            {"content": "Read", "priority": "high", "status": "in_progress"},
            {"content": "Drop", "priority": "low", "status": "completed", "_meta": {"turnstream": {"status": "cancelled"}}},
        ]);
        assert_eq!(read(todos), want);
    }

    #[test]
    fn a_checklist_is_read_and_what_surrounds_it_is_not() {
        let text = "# Plan\n- [x] one\n* [ ] two\n1. [~] three\n2) é four\n";
        let status =
            |content: &str, status: &str| json!({"content": content, "priority": "medium", "status": status});
        let want = json!([
            status("one", "completed"),
            status("two", "pending"),
            status("three", "in_progress"),
            status("é four", "pending")
        ]);
        assert_eq!(read(text), want);
    }

    #[test]
    fn plain_lines_are_entries_and_nothing_is_an_empty_plan() {
        assert_eq!(
            read("first\n\n second "),
            json!([
                {"content": "first", "priority": "medium", "status": "pending"},
                {"content": "second", "priority": "medium", "status": "pending"}
            ])
        );
        assert_eq!(read(""), json!([]));
        assert_eq!(
            read("[half a lis"),
            json!([{"content": "[half a lis", "priority": "medium", "status": "pending"}])
        );
    }
}
