//! Describes tool calls of opencode in ACP's terms: title, kind, status, content and locations.

use super::part::ToolCall;
use serde_json::{Map, Value, json};
use turnstream_adapter::{file_name, one_line};
use turnstream_model::event::{Tool, ToolKind, ToolStatus};

/// A tool call of opencode.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Call<'a> {
    /// The name of the tool. A call whose arguments cannot be read becomes `invalid`.
    pub name: &'a str,
    /// opencode's status: `pending`, `running`, `completed`, `error`.
    pub status: &'a str,
    /// The arguments. Empty while the model writes them.
    pub input: Option<&'a Value>,
    /// The result.
    pub output: Option<&'a Value>,
    /// Why it failed.
    pub error: Option<&'a str>,
    /// Details besides the result.
    pub metadata: Option<&'a Value>,
}

/// How the calls of one tool are described.
struct Entry {
    name: &'static str,
    kind: ToolKind,
    verb: &'static str,
    /// The arguments that hold the subject of the title.
    subject: &'static [&'static str],
    shows: Shows,
}

/// The content of a call besides its raw arguments and result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shows {
    /// None: clients use the raw result.
    Nothing,
    /// The output.
    Output,
    /// The change as a diff.
    Diff,
    /// Only the location: the arguments do not have the old text.
    Place,
}

const PATH: &[&str] = &["filePath", "file_path", "path"];
const OLD: &[&str] = &["oldString", "oldText", "old_string"];
const NEW: &[&str] = &["newString", "newText", "new_string"];

const TABLE: &[Entry] = &[
    entry(COMMAND, ToolKind::Execute, "Run", &["command"], Shows::Nothing),
    entry("read", ToolKind::Read, "Read", PATH, Shows::Output),
    entry("write", ToolKind::Edit, "Write", PATH, Shows::Place),
    entry("edit", ToolKind::Edit, "Edit", PATH, Shows::Diff),
    entry("patch", ToolKind::Edit, "Patch", PATH, Shows::Diff),
    entry("apply_patch", ToolKind::Edit, "Apply patch", &[], Shows::Nothing),
    entry("glob", ToolKind::Search, "Find files", &["pattern"], Shows::Nothing),
    entry("grep", ToolKind::Search, "Search", &["pattern"], Shows::Nothing),
    entry("list", ToolKind::Search, "List", &["path"], Shows::Nothing),
    entry("websearch", ToolKind::Search, "Search the web for", &["query"], Shows::Nothing),
    entry("webfetch", ToolKind::Fetch, "Fetch", &["url"], Shows::Nothing),
    entry(TASK, ToolKind::Other, "Run subagent:", &["description"], Shows::Nothing),
    entry("todowrite", ToolKind::Other, "Update the to-do list", &[], Shows::Nothing),
    entry("todoread", ToolKind::Other, "Read the to-do list", &[], Shows::Nothing),
    entry("lsp", ToolKind::Other, "Check code", &[], Shows::Nothing),
    entry("skill", ToolKind::Other, "Use skill", &["name"], Shows::Nothing),
    entry("question", ToolKind::Other, "Ask", &[], Shows::Nothing),
    entry("invalid", ToolKind::Other, "Broken call of", &["tool"], Shows::Nothing),
];

const fn entry(
    name: &'static str,
    kind: ToolKind,
    verb: &'static str,
    subject: &'static [&'static str],
    shows: Shows,
) -> Entry {
    Entry { name, kind, verb, subject, shows }
}

/// The tool that runs commands.
const COMMAND: &str = "bash";
/// The tool whose calls are subagents.
const TASK: &str = "task";

impl<'a> Call<'a> {
    /// The call of a part of type `tool`; `None` for other parts.
    pub fn of(part: &'a Value) -> Option<Self> {
        let (name, state) = (part.get("tool")?.as_str()?, part.get("state")?);
        Some(Self {
            name,
            status: state.get("status").and_then(Value::as_str).unwrap_or_default(),
            input: state.get("input"),
            output: state.get("output"),
            error: state.get("error").and_then(Value::as_str),
            metadata: state.get("metadata"),
        })
    }

    /// The call of a part.
    pub fn of_part(call: &'a ToolCall) -> Self {
        let state = &call.state;
        Self {
            name: &call.tool,
            status: &state.status,
            input: Some(&state.input),
            output: state.output.as_ref(),
            error: state.error.as_deref(),
            metadata: Some(&state.metadata),
        }
    }

    /// The call in the form of the log.
    pub fn describe(&self) -> Tool {
        let entry = TABLE.iter().find(|entry| entry.name == self.name);
        let shows = entry.map_or(Shows::Nothing, |entry| entry.shows);
        Tool {
            name: Some(self.name.to_owned()),
            kind: Some(entry.map_or(ToolKind::Other, |entry| entry.kind)),
            title: Some(self.title(entry)),
            status: Some(self.status()),
            input: self.input.filter(|input| !is_empty(input)).cloned(),
            output: self.raw_output(),
            content: self.content(shows),
            locations: self.locations(shows),
            extra: self.subagent(),
        }
    }

    fn title(&self, entry: Option<&Entry>) -> String {
        let Some(Entry { verb, subject, .. }) = entry else { return self.name.to_owned() };
        match self.argument(subject).filter(|subject| !subject.trim().is_empty()) {
            Some(path) if *subject == PATH => format!("{verb} {}", file_name(path)),
            Some(subject) => format!("{verb} {}", one_line(subject)),
            None => verb.trim_end_matches(':').to_owned(),
        }
    }

    fn status(&self) -> ToolStatus {
        match self.status {
            "running" => ToolStatus::InProgress,
            "completed" if !self.has_failed() => ToolStatus::Completed,
            "completed" | "error" | "failed" | "cancelled" => ToolStatus::Failed,
            _ => ToolStatus::Pending,
        }
    }

    /// opencode reports a command that exits with 1 as `completed`. So is an aborted one, whose exit code
    /// is null (capture f2).
    fn has_failed(&self) -> bool {
        match self.metadata.and_then(|metadata| metadata.get("exit")) {
            Some(Value::Number(exit)) => exit.as_i64() != Some(0),
            Some(Value::Null) => self.name == COMMAND,
            _ => false,
        }
    }

    /// The raw result. Clients read the text from its member `output`.
    fn raw_output(&self) -> Option<Value> {
        let text = match self.output {
            None | Some(Value::Null) => self.error.filter(|error| !error.is_empty())?.to_owned(),
            Some(Value::String(text)) => text.clone(),
            Some(object @ Value::Object(_)) => return Some(object.clone()),
            Some(other) => other.to_string(),
        };
        let mut output = Map::from_iter([("output".to_owned(), Value::String(text))]);
        if let Some(metadata) = self.metadata.filter(|metadata| !is_empty(metadata)) {
            output.insert("metadata".to_owned(), metadata.clone());
        }
        Some(Value::Object(output))
    }

    fn content(&self, shows: Shows) -> Option<Vec<Value>> {
        match shows {
            Shows::Nothing | Shows::Place => None,
            Shows::Output => {
                let text = self.output?.as_str()?;
                Some(vec![json!({"type": "content", "content": {"type": "text", "text": text}})])
            }
            Shows::Diff => {
                let path = self.argument(PATH).unwrap_or_default();
                let (old, new) = (self.argument(OLD), self.argument(NEW).unwrap_or_default());
                if path.is_empty() && old.unwrap_or_default().is_empty() && new.is_empty() {
                    return None;
                }
                let mut diff = json!({"type": "diff", "path": path, "newText": new});
                if let (Some(members), Some(old)) = (diff.as_object_mut(), old) {
                    members.insert("oldText".to_owned(), Value::from(old));
                }
                Some(vec![diff])
            }
        }
    }

    fn locations(&self, shows: Shows) -> Option<Vec<Value>> {
        if shows == Shows::Nothing {
            return None;
        }
        let path = self.argument(PATH).filter(|path| !path.is_empty())?;
        let shown = self.metadata.and_then(|metadata| metadata.get("display")?.get("lineStart")?.as_u64());
        Some(vec![match shown {
            Some(line) => json!({"path": path, "line": line}),
            None => json!({ "path": path }),
        }])
    }

    /// The session of a subagent.
    fn subagent(&self) -> Map<String, Value> {
        let session = self.metadata.and_then(|metadata| metadata.get("sessionId"));
        let session = session.filter(|session| self.name == TASK && session.is_string());
        session.map(|session| ("subagent_session".to_owned(), session.clone())).into_iter().collect()
    }

    /// The first of these arguments that exists.
    fn argument(&self, names: &[&str]) -> Option<&'a str> {
        let input = self.input?;
        names.iter().find_map(|name| input.get(*name)?.as_str())
    }
}

/// The kind of the tool with this name.
pub fn kind(name: &str) -> ToolKind {
    TABLE.iter().find(|entry| entry.name == name).map_or(ToolKind::Other, |entry| entry.kind)
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(Map::is_empty)
}

#[cfg(test)]
mod tests {
    use super::Call;
    use serde_json::{Value, json};
    use std::collections::BTreeMap;

    /// Every state of every tool part of a capture, in order, by the call's name at the agent.
    fn calls(capture: &str) -> BTreeMap<String, Vec<Value>> {
        let path = format!("{}/../../fixtures/opencode/{capture}.sse", env!("CARGO_MANIFEST_DIR"));
        let mut calls: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for line in std::fs::read_to_string(path).unwrap().lines() {
            let Some(data) = line.strip_prefix("data: ") else { continue };
            let event: Value = serde_json::from_str(data).unwrap();
            let part = &event["properties"]["part"];
            if let (Some(id), Some(call)) = (part["callID"].as_str(), Call::of(part)) {
                let tool = serde_json::to_value(call.describe()).unwrap();
                let states = calls.entry(id.to_owned()).or_default();
                if states.last() != Some(&tool) {
                    states.push(tool);
                }
            }
        }
        calls
    }

    /// The last state of each call, without the long members that other tests look at.
    fn ends(capture: &str) -> Vec<(String, String, String, String)> {
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let last = |states: Vec<Value>| states.last().cloned().unwrap();
        let short = |tool: Value| {
            (word(&tool["name"]), word(&tool["kind"]), word(&tool["title"]), word(&tool["status"]))
        };
        calls(capture).into_values().map(last).map(short).collect()
    }

    fn end(name: &str, kind: &str, title: &str, status: &str) -> (String, String, String, String) {
        (name.into(), kind.into(), title.into(), status.into())
    }

    #[test]
    fn a_multi_step_turn_is_told_in_acps_words() {
        let calls = calls("c-multistep");
        let read: Vec<&Value> = calls.values().flatten().filter(|tool| tool["name"] == "read").collect();
        let path = json!({"filePath": "/workspace/README.md"});
        let text = "<path>/workspace/README.md</path>\n<type>file</type>\n<content>\n1: # Sample project\n2: Second line.\n\n(End of file - total 2 lines)\n</content>";
        let metadata = json!({
            "preview": "# Sample project\nSecond line.", "truncated": false, "loaded": [],
            "display": {"type": "file", "path": "/workspace/README.md", "text": "# Sample project\nSecond line.",
                "lineStart": 1, "lineEnd": 2, "totalLines": 2, "truncated": false}
        });
        assert_eq!(
            read,
            [
                &json!({"name": "read", "kind": "read", "title": "Read", "status": "pending"}),
                &json!({"name": "read", "kind": "read", "title": "Read README.md", "status": "in_progress", "input": path,
                    "locations": [{"path": "/workspace/README.md"}]}),
                &json!({"name": "read", "kind": "read", "title": "Read README.md", "status": "completed", "input": path,
                    "output": {"output": text, "metadata": metadata},
                    "content": [{"type": "content", "content": {"type": "text", "text": text}}],
                    "locations": [{"path": "/workspace/README.md", "line": 1}]}),
            ]
        );
        let edit: Vec<&Value> = calls.values().flatten().filter(|tool| tool["name"] == "edit").collect();
        assert_eq!(edit.len(), 3);
        for edit in &edit[1..] {
            let diff = json!([{"type": "diff", "path": "/workspace/README.md", "oldText": "Second line.\n",
                "newText": "Second line.\nAdded by the agent.\n"}]);
            assert_eq!(edit["content"], diff);
            assert_eq!(edit["title"], "Edit README.md");
        }
        assert_eq!(edit[2]["output"]["output"], "Edit applied successfully.");
        let bash =
            calls.values().flatten().find(|tool| tool["name"] == "bash" && tool["status"] == "completed");
        let bash = bash.unwrap();
        assert_eq!(bash["content"], Value::Null);
        assert_eq!(bash["output"]["output"], "step 1\nstep 2\nstep 3\n3 README.md\n");
        assert_eq!(bash["output"]["metadata"]["exit"], 0);
    }

    #[test]
    fn every_captured_call_ends_with_its_kind_title_and_status() {
        let table = [
            (
                "c2-parallel-tools",
                vec![
                    end("read", "read", "Read README.md", "completed"),
                    end("read", "read", "Read missing.txt", "failed"),
                ],
            ),
            ("d1-permission-once", vec![end("bash", "execute", "Run echo guarded", "completed")]),
            ("d2-permission-reject", vec![end("bash", "execute", "Run echo guarded", "failed")]),
            // opencode calls an aborted command completed; it has no exit code.
            ("f2-abort-tool", vec![end("bash", "execute", "Run echo begin; sleep 30; echo end", "failed")]),
            ("e1-question-reply", vec![end("question", "other", "Ask", "completed")]),
            ("s1-todo", vec![end("todowrite", "other", "Update the to-do list", "completed"); 2]),
            (
                "j6-broken-tool-calls",
                vec![
                    end("invalid", "other", "Broken call of read", "completed"),
                    end("invalid", "other", "Broken call of no_such_tool", "completed"),
                ],
            ),
        ];
        for (capture, want) in table {
            assert_eq!(ends(capture), want, "{capture}");
        }
    }

    #[test]
    fn a_failed_call_shows_its_error_as_output() {
        let calls = calls("d2-permission-reject");
        let last = calls.values().next().unwrap().last().unwrap();
        assert_eq!(
            last["output"],
            json!({"output": "The user rejected permission to use this specific tool call."})
        );
    }

    #[test]
    fn only_a_task_names_the_session_of_a_subagent() {
        let calls = calls("m-subagent");
        let sessions: Vec<(&Value, &Value)> = calls
            .values()
            .filter_map(|states| states.last())
            .map(|tool| (&tool["name"], &tool["subagent_session"]))
            .collect();
        let task = json!("task");
        let child = json!("ses_e1f3a3928ffeCc8ixvu0MdZVDj");
        assert!(sessions.contains(&(&task, &child)), "{sessions:?}");
        assert!(sessions.iter().all(|(name, session)| **name == task || session.is_null()), "{sessions:?}");
    }

    #[test]
    fn a_command_that_fails_is_failed_also_when_it_is_seen_for_the_first_time() {
        // The captures have no command that fails; only the number is changed.
        let calls_of = |exit: Value| {
            let metadata = json!({ "exit": exit });
            Call { name: "bash", status: "completed", metadata: Some(&metadata), ..Call::default() }
                .describe()
                .status
        };
        let status = |word: &str| turnstream_model::event::ToolStatus::from_word(word);
        assert_eq!(calls_of(json!(0)), status("completed"));
        assert_eq!(calls_of(json!(1)), status("failed"));
        assert_eq!(calls_of(json!(-9)), status("failed"));
        assert_eq!(calls_of(Value::Null), status("failed"));
    }

    #[test]
    fn other_spellings_of_an_edit_are_read_and_an_empty_one_shows_nothing() {
        let describe = |input: Value| {
            let call = Call { name: "patch", status: "running", input: Some(&input), ..Call::default() };
            serde_json::to_value(call.describe()).unwrap()
        };
        let diff = json!([{"type": "diff", "path": "/a", "oldText": "o", "newText": "n"}]);
        for input in [
            json!({"file_path": "/a", "old_string": "o", "new_string": "n"}),
            json!({"path": "/a", "oldText": "o", "newText": "n"}),
        ] {
            assert_eq!(describe(input)["content"], diff);
        }
        assert_eq!(
            describe(json!({"filePath": "", "oldString": "", "newString": ""}))["content"],
            Value::Null
        );
        assert_eq!(describe(json!({}))["content"], Value::Null);
    }

    #[test]
    fn a_result_that_is_no_text_is_kept() {
        let describe = |output: Value| {
            Call { name: "x", status: "completed", output: Some(&output), ..Call::default() }
                .describe()
                .output
        };
        assert_eq!(describe(json!({"a": 1})), Some(json!({"a": 1})));
        assert_eq!(describe(json!([1, 2])), Some(json!({"output": "[1,2]"})));
        assert_eq!(describe(Value::Null), None);
    }

    #[test]
    fn a_title_is_one_short_line() {
        let title = |command: &str| {
            let input = json!({ "command": command });
            Call { name: "bash", input: Some(&input), ..Call::default() }.describe().title.unwrap()
        };
        assert_eq!(title("ls\nrm x"), "Run ls…");
        assert_eq!(title(&"é".repeat(100)), format!("Run {}…", "é".repeat(80)));
        assert_eq!(title("  "), "Run");
    }
}
