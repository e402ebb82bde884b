//! The conversation of a session as one text, for an agent that has forgotten it, or for the agent of another
//! session. Only finished items are in it (L10). It is bounded: the newest entries stay.

use serde_json::Value;
use std::collections::BTreeSet;
use turnstream_model::event::{ItemKind, Outcome, Role, Tool};
use turnstream_model::fold::{Item, ItemStage, Session, State, Turn};
use turnstream_model::time::Time;

/// Most bytes of a text: small beside the context of the models that agents use.
const MOST: usize = 200 << 10;
/// Most bytes of the sentence about what is left out.
const LONGEST_NOTE: usize = 128;
/// Most bytes of one message. The rest of it is left out.
const LONGEST_MESSAGE: usize = 64 << 10;
/// Most bytes of a tool's input, of its output, and of the files that it changed.
const LONGEST_TOOL_TEXT: usize = 8 << 10;
/// Most bytes of a tool's name.
const LONGEST_TOOL_NAME: usize = 1 << 10;

const HEAD: &str = "Earlier conversation of this session, restored by Turnstream. The agent's own record of it is lost. \
                    Use it as context; the user's new message follows after its end.";
const END: &str = "End of the earlier conversation.";
const SEPARATOR: &str = "\n\n";

/// A conversation as one text.
pub(crate) struct Transcript {
    pub(crate) text: String,
    /// How many entries are in it.
    pub(crate) entries: usize,
    /// How many of the oldest entries did not fit.
    pub(crate) left_out: usize,
}

/// The finished conversation before this time.
pub(crate) fn transcript(state: &State, until: Time) -> String {
    bounded(HEAD.to_owned(), entries(state, until), MOST, state).text
}

/// The finished items of a session, for a new session that goes on from them. What the session itself took
/// over stands before them, and counts as one entry.
pub(crate) fn handed_over(state: &State, inherited: Option<String>) -> Transcript {
    let Session { id, agent, cwd, .. } = &state.session;
    let id = id.as_ref().map_or("", |id| id.as_str());
    let head = format!(
        "Conversation of another session, handed over by Turnstream: session {id}, agent {agent}, working \
         directory {cwd}. Another agent said and did what follows. Use it as context; the user's new message \
         follows after its end."
    );
    let own = bounded(head, entries(state, Time(u64::MAX)), MOST, state);
    let Some(inherited) = inherited else { return own };
    if own.entries + own.left_out == 0 {
        return Transcript { text: inherited, entries: 1, left_out: 0 };
    }
    let room = MOST - own.text.len().min(MOST);
    match newest(&inherited, room.saturating_sub(SEPARATOR.len())) {
        Some(older) => {
            let text = [older, own.text].join(SEPARATOR);
            Transcript { text, entries: own.entries + 1, left_out: own.left_out }
        }
        None => Transcript { left_out: own.left_out + 1, ..own },
    }
}

/// The end of a text that was taken over; `None` if too little fits.
fn newest(inherited: &str, room: usize) -> Option<String> {
    if inherited.len() <= room {
        return Some(inherited.to_owned());
    }
    let room = room.checked_sub(LONGEST_NOTE).filter(|room| *room > LONGEST_NOTE)?;
    let rest = &inherited[inherited.ceil_char_boundary(inherited.len() - room)..];
    let missing = inherited.len() - rest.len();
    Some(format!("(An older conversation. Its first {missing} bytes are left out here.)\n\n{rest}"))
}

/// The newest entries that fit. The files that were changed are named in any case.
fn bounded(head: String, entries: Vec<String>, most: usize, state: &State) -> Transcript {
    let trimmed = "(The oldest turns were removed from the log, and are not here.)".to_owned();
    let before: Vec<String> =
        [Some(head), state.trimmed.is_some().then_some(trimmed)].into_iter().flatten().collect();
    let after: Vec<String> = [files_changed(state), Some(END.to_owned())].into_iter().flatten().collect();
    let size_of = |part: &String| part.len() + SEPARATOR.len();
    let mut size = LONGEST_NOTE + before.iter().chain(&after).map(size_of).sum::<usize>();
    let kept = entries.iter().rev().take_while(|entry| {
        size += size_of(entry);
        size <= most
    });
    let kept = kept.count();
    let (left_out, kept) = entries.split_at(entries.len() - kept);
    let mut parts = before;
    if !left_out.is_empty() {
        let bytes: usize = left_out.iter().map(String::len).sum();
        let count = left_out.len();
        parts.push(format!("(The oldest {count} entries, {bytes} bytes, are left out here.)"));
    }
    parts.extend_from_slice(kept);
    parts.extend(after);
    Transcript { text: parts.join(SEPARATOR), entries: kept.len(), left_out: left_out.len() }
}

/// The files that finished calls have changed, each once.
fn files_changed(state: &State) -> Option<String> {
    let finished = state.items.iter().filter(|item| item.state == ItemStage::Completed && !item.incomplete);
    let tools = finished.filter_map(|item| item.tool.as_deref());
    let paths: BTreeSet<&str> = tools.flat_map(changed_paths).collect();
    if paths.is_empty() {
        return None;
    }
    let (count, paths) = (paths.len(), paths.into_iter().collect::<Vec<_>>().join("\n"));
    Some(cut(&format!("Files changed in this conversation ({count}):\n{paths}"), LONGEST_TOOL_TEXT))
}

/// The files of which a call shows a diff.
fn changed_paths(tool: &Tool) -> impl Iterator<Item = &str> {
    let diffs = tool.content.iter().flatten().filter(|content| content["type"] == "diff");
    diffs.filter_map(|diff| diff["path"].as_str())
}

/// The entries in the order of time.
fn entries(state: &State, until: Time) -> Vec<String> {
    let mut parts: Vec<(Time, Vec<String>)> = Vec::new();
    for turn in state.turns.iter().filter(|turn| turn.started < until) {
        parts.push((turn.started, of_turn(state, turn)));
    }
    // Background work of the agent itself; that of a subagent belongs to its tool call.
    let loose = state.items.iter().filter(|item| item.turn.is_none() && item.time < until);
    parts.extend(loose.map(|item| (item.time, of_item(item, &[]).into_iter().collect())));
    parts.sort_by_key(|(time, _)| *time);
    parts.into_iter().flat_map(|(_, entries)| entries).collect()
}

fn of_turn(state: &State, turn: &Turn) -> Vec<String> {
    let prompts = state.prompts.iter().filter(|prompt| prompt.turn.as_ref() == Some(&turn.turn));
    let prompts: Vec<String> = prompts.map(|prompt| prompt_text(&prompt.content)).collect();
    let mut entries: Vec<String> = prompts.iter().map(|text| entry("User", text)).collect();
    let items = state.items.iter().filter(|item| item.turn.as_ref() == Some(&turn.turn));
    entries.extend(items.filter_map(|item| of_item(item, &prompts)));
    match turn.outcome {
        Some(Outcome::Cancelled) => entries.push("(The turn was cancelled here.)".to_owned()),
        Some(Outcome::Failed) => entries.push("(The turn failed here.)".to_owned()),
        Some(Outcome::Lost) => entries.push("(It is not known how the turn ended.)".to_owned()),
        Some(Outcome::Completed) => {}
        None => entries.push("(The turn was still running when this was written.)".to_owned()),
    }
    entries
}

/// A finished item; `None` for one that is not shown. An agent may repeat the prompts of the turn.
fn of_item(item: &Item, prompts: &[String]) -> Option<String> {
    let is_finished = match item.state {
        ItemStage::Completed | ItemStage::Failed => !item.incomplete,
        ItemStage::Streaming | ItemStage::Abandoned | ItemStage::Unknown => false,
    };
    if !is_finished || item.parent.is_some() {
        return None;
    }
    let text = item.text.as_deref().unwrap_or_default().trim();
    match item.kind {
        ItemKind::Tool => item.tool.as_deref().map(|tool| of_tool(item, tool)),
        // Agents do not take reasoning back. A file is in the working directory.
        ItemKind::Reasoning | ItemKind::File => None,
        ItemKind::Message | ItemKind::Plan | ItemKind::Compaction if text.is_empty() => None,
        ItemKind::Plan => Some(entry("Plan", text)),
        ItemKind::Compaction => Some(entry("Summary of what came before", text)),
        ItemKind::Message if item.role == Some(Role::User) => {
            let is_repeated = prompts.iter().any(|prompt| prompt == text);
            (!is_repeated && !item.synthetic).then(|| entry("User", text))
        }
        ItemKind::Message => Some(entry("Assistant", text)),
    }
}

fn of_tool(item: &Item, tool: &Tool) -> String {
    let name = tool.name.as_deref().or(tool.title.as_deref()).unwrap_or("tool");
    let outcome = if item.state == ItemStage::Failed { " (failed)" } else { "" };
    let mut text = format!("Tool call: {}{outcome}", cut(name, LONGEST_TOOL_NAME));
    let input = tool.input.as_ref().filter(|input| !input.is_null()).map(Value::to_string);
    if let Some(input) = input {
        text.push_str(&format!("\nInput: {}", cut(&input, LONGEST_TOOL_TEXT)));
    }
    let is_completed = item.state == ItemStage::Completed;
    let changed: BTreeSet<&str> = changed_paths(tool).filter(|_| is_completed).collect();
    let changed: String = changed.into_iter().map(|path| format!("\nChanged: {path}")).collect();
    text.push_str(&cut(&changed, LONGEST_TOOL_TEXT));
    if let Some(output) = output(item, tool).filter(|output| !output.trim().is_empty()) {
        text.push_str(&format!("\nOutput:\n{}", cut(output.trim_end(), LONGEST_TOOL_TEXT)));
    }
    text
}

/// The result as text: what was shown, or the raw result.
fn output(item: &Item, tool: &Tool) -> Option<String> {
    let contents = tool.content.iter().flatten();
    let texts: Vec<&str> = contents.filter_map(|content| content["content"]["text"].as_str()).collect();
    if !texts.is_empty() {
        return Some(texts.join("\n"));
    }
    let raw = || {
        let output = tool.output.as_ref().filter(|output| !output.is_null())?;
        Some(output.as_str().map_or_else(|| output.to_string(), str::to_owned))
    };
    item.output.clone().or_else(raw)
}

/// The text blocks of a prompt. Other blocks are named.
fn prompt_text(content: &[Value]) -> String {
    let text = |block: &Value| match block["type"].as_str() {
        Some("text") => block["text"].as_str().unwrap_or_default().trim().to_owned(),
        kind => {
            let name = block["name"].as_str().or_else(|| block["uri"].as_str()).unwrap_or_default();
            format!("[{} {name}]", kind.unwrap_or("attachment"))
        }
    };
    content.iter().map(text).collect::<Vec<_>>().join("\n")
}

fn entry(who: &str, text: &str) -> String {
    format!("{who}:\n{}", cut(text, LONGEST_MESSAGE))
}

/// The beginning of a long text, and how much is missing.
fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let (kept, rest) = text.split_at(text.floor_char_boundary(most));
    format!("{kept}… ({} bytes more)", rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use turnstream_model::cursor::Seq;
    use turnstream_model::event::Event;
    use turnstream_model::fold::Fold;

    /// The fold of events, given without their place. Each has the time of its place.
    fn state(events: &[Value]) -> State {
        let mut fold = Fold::new();
        for (place, event) in (1_u64..).zip(events) {
            let mut event = event.clone();
            event["seq"] = json!(place);
            event["time"] = json!(place);
            fold.apply(&Event::from_json(&event.to_string()).unwrap());
        }
        assert_eq!(fold.state().seq, Seq(events.len() as u64));
        fold.into_state()
    }

    fn turn(number: u32, answer: &str) -> Vec<Value> {
        let (turn, prompt) = (format!("t{number}"), format!("p{number}"));
        let (said, called, cut) = (format!("i{number}"), format!("c{number}"), format!("x{number}"));
        vec![
            json!({"type": "prompt.accepted", "prompt": prompt, "content": [{"type": "text", "text": format!("Question {number}")}]}),
            json!({"type": "turn.started", "turn": turn, "origin": "prompt", "prompts": [prompt]}),
            json!({"type": "prompt.taken", "turn": turn, "prompt": prompt}),
            json!({"type": "item.started", "turn": turn, "item": called, "kind": "tool", "tool": {"name": "read", "input": {"path": "a"}}}),
            json!({"type": "item.updated", "turn": turn, "item": called, "tool": {"content": [{"type": "content", "content": {"type": "text", "text": "of a"}}]}}),
            json!({"type": "item.ended", "turn": turn, "item": called, "state": "completed"}),
            json!({"type": "item.started", "turn": turn, "item": cut, "kind": "message", "role": "assistant", "text": "cut o"}),
            json!({"type": "item.ended", "turn": turn, "item": cut, "state": "abandoned", "incomplete": true}),
            json!({"type": "item.started", "turn": turn, "item": said, "kind": "message", "role": "assistant", "text": answer}),
            json!({"type": "item.ended", "turn": turn, "item": said, "state": "completed"}),
            json!({"type": "turn.ended", "turn": turn, "outcome": "completed", "stop_reason": "end_turn"}),
        ]
    }

    #[test]
    fn what_was_finished_before_the_resume_is_in_the_transcript_and_nothing_else() {
        let before = turn(1, "Answer 1");
        let until = Time(before.len() as u64 + 1);
        let all =
            [before.clone(), vec![json!({"type": "session.resumed", "as": "transcript"})], turn(2, "Later")];
        let text = transcript(&state(&all.concat()), until);
        let expected = format!(
            "{HEAD}\n\nUser:\nQuestion 1\n\nTool call: read\nInput: {{\"path\":\"a\"}}\nOutput:\nof a\n\nAssistant:\nAnswer \
             1\n\n{END}"
        );
        assert_eq!(text, expected);
        assert_eq!(transcript(&state(&before), until), expected, "the same, whatever came later");
    }

    #[test]
    fn a_long_conversation_keeps_its_newest_part_and_says_what_is_missing() {
        let turns: Vec<Value> = (1..=20).flat_map(|number| turn(number, &"long ".repeat(4_000))).collect();
        let text = transcript(&state(&turns), Time(u64::MAX));
        assert!(text.len() <= MOST, "{} bytes", text.len());
        assert!(text.contains("Question 20") && !text.contains("Question 5\n"));
        let missing = text.lines().find(|line| line.starts_with("(The oldest")).unwrap();
        assert!(missing.ends_with("bytes, are left out here.)"), "{missing}");
        let huge = transcript(&state(&turn(1, &"é".repeat(100_000))), Time(u64::MAX));
        assert!(huge.contains("Question 1") && huge.contains("… (134464 bytes more)"), "{}", &huge[..300]);
    }

    #[test]
    fn a_call_that_changed_very_many_files_does_not_empty_the_transcript() {
        let diff = |number: u32| {
            let path = format!("/w/{}", "f".repeat(100) + &number.to_string());
            json!({"type": "diff", "path": path, "oldText": "a", "newText": "b"})
        };
        let diffs: Vec<Value> = (0..5_000).map(diff).collect();
        let edit = [
            json!({"type": "turn.started", "turn": "t2", "origin": "agent", "prompts": []}),
            json!({"type": "item.started", "turn": "t2", "item": "e1", "kind": "tool",
                   "tool": {"name": "n".repeat(300_000), "content": diffs}}),
            json!({"type": "item.ended", "turn": "t2", "item": "e1", "state": "completed"}),
        ];
        let handed = handed_over(&state(&[turn(1, "Answer 1"), edit.to_vec()].concat()), None);
        assert_eq!((handed.entries, handed.left_out), (5, 0));
        assert!(handed.text.contains("Answer 1") && handed.text.len() < 40_000, "{}", handed.text.len());
    }

    #[test]
    fn what_is_handed_over_names_its_source_and_the_files_that_were_changed() {
        let created =
            json!({"type": "session.created", "session": "ses_1", "agent": "opencode", "cwd": "/w"});
        let changed = |item: &str, path: &str, end: &str| {
            let diff = json!({"type": "diff", "path": path, "oldText": "a", "newText": "b"});
            [
                json!({"type": "item.started", "turn": "t9", "item": item, "kind": "tool",
                       "tool": {"name": "edit", "content": [diff]}}),
                json!({"type": "item.ended", "turn": "t9", "item": item, "state": end}),
            ]
        };
        let begun = json!({"type": "turn.started", "turn": "t9", "origin": "agent", "prompts": []});
        let edits = [changed("e1", "/w/b.rs", "completed"), changed("e2", "/w/a.rs", "failed")].concat();
        let log = [vec![created], turn(1, "Answer 1"), vec![begun], edits].concat();
        let Transcript { text, entries, left_out } = handed_over(&state(&log), None);
        assert!(text.starts_with(
            "Conversation of another session, handed over by Turnstream: session ses_1, agent opencode, working \
             directory /w. "
        ));
        let end = format!(
            "Assistant:\nAnswer 1\n\nTool call: edit\nChanged: /w/b.rs\n\nTool call: edit (failed)\n\n\
             (The turn was still running when this was written.)\n\nFiles changed in this conversation (1):\n/w/b.rs\n\n{END}"
        );
        assert!(text.ends_with(&end), "{text}");
        assert_eq!((entries, left_out), (6, 0));
        let state = state(&log);
        let small = bounded(String::new(), super::entries(&state, Time(u64::MAX)), 400, &state);
        assert_eq!(small.entries + small.left_out, entries);
        assert!(small.left_out > 0 && small.text.contains("are left out here.)"), "{}", small.text);
        assert!(small.text.contains("Files changed in this conversation (1):"), "{}", small.text);
        assert!(small.entries > 0 && small.text.len() <= 400, "{}", small.text);
    }

    #[test]
    fn what_a_session_took_over_is_handed_on_as_far_as_it_fits() {
        let handed = |answer: &str, inherited: &str| {
            let log: Vec<Value> = (1..=20).flat_map(|number| turn(number, answer)).collect();
            handed_over(&state(&log), Some(inherited.to_owned()))
        };
        let Transcript { text, entries, left_out } = handed("short", "Of the first session.");
        assert!(text.starts_with("Of the first session.\n\nConversation of another session"), "{text}");
        assert_eq!((entries, left_out), (61, 0));
        let long = "é".repeat(MOST) + "the newest";
        let Transcript { text, entries, left_out } = handed("short", &long);
        assert!(
            text.starts_with("(An older conversation. Its first ") && text.len() <= MOST,
            "{}",
            text.len()
        );
        assert!(text.contains("the newest\n\nConversation of another session"));
        assert_eq!((entries, left_out), (61, 0));
        let full = handed(&"long ".repeat(2_600), &long);
        assert!(full.text.len() <= MOST && full.left_out > 0, "{} bytes", full.text.len());
        let nothing = handed_over(&state(&[]), Some("Of the first session.".to_owned()));
        assert_eq!((nothing.text.as_str(), nothing.entries), ("Of the first session.", 1));
    }
}
