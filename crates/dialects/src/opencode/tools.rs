//! Tool calls in opencode's words. A call of another agent gets opencode's name and arguments where both
//! mean the same, so that clients show their own view of it. Other calls keep their name and arguments.

use super::changes::{self, Edit, FileStatus};
use serde_json::{Map, Value, json};
use turnstream_model::event::{Tool, ToolKind};

/// A call in opencode's words.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Call {
    pub(super) name: String,
    pub(super) input: Map<String, Value>,
    pub(super) title: String,
    cwd: String,
}

/// The most bytes of a command's output in the metadata of its call. opencode has the same limit.
const MOST_OUTPUT: usize = 30_000;

/// Names of the same tool: at opencode, and at other agents in small letters.
const SAME: &[(&str, &[&str])] = &[
    ("bash", &["bash", "shell", "local_shell", "exec_command", "execute_command", "run_terminal_command"]),
    ("read", &["read", "read_file", "readfile", "view_image", "notebookread"]),
    ("edit", &["edit", "multiedit", "str_replace", "replace", "notebookedit"]),
    ("write", &["write", "write_file", "create_file"]),
    ("grep", &["grep", "search_file_content", "grep_search"]),
    ("glob", &["glob", "find_files", "file_search"]),
    ("list", &["list", "ls", "list_directory", "list_dir"]),
    ("task", &["task", "agent"]),
    ("todowrite", &["todowrite", "update_plan", "todo_write"]),
    ("webfetch", &["webfetch", "web_fetch", "fetch"]),
    ("websearch", &["websearch", "web_search", "google_web_search"]),
    ("question", &["question", "askuserquestion", "request_user_input"]),
    ("apply_patch", &["apply_patch", "patch"]),
];

/// Names of the same argument: at opencode, and at other agents.
const ARGUMENTS: &[(&str, &[&str])] = &[
    ("filePath", &["file_path", "notebook_path", "absolute_path", "path"]),
    ("oldString", &["old_string", "oldText", "old_str"]),
    ("newString", &["new_string", "newText", "new_str"]),
    ("replaceAll", &["replace_all"]),
    ("command", &["cmd"]),
    ("include", &["glob"]),
    ("todos", &["plan"]),
    ("content", &["file_text", "text"]),
];

impl Call {
    /// The call of a tool.
    pub(super) fn of(tool: &Tool, cwd: &str) -> Self {
        let given = tool.name.as_deref().unwrap_or_default();
        let known = same(given).or_else(|| by_kind(tool));
        // An edit of opencode is of one file.
        let known = known.map(|name| if name == "edit" && is_patch(tool) { "apply_patch" } else { name });
        let mut input = match &tool.input {
            Some(Value::Object(members)) => members.clone(),
            None | Some(Value::Null) => Map::new(),
            Some(other) => Map::from_iter([("input".to_owned(), other.clone())]),
        };
        if let Some(name) = known {
            rename(name, &mut input);
            complete(name, tool, &mut input);
        }
        let kind = tool.kind.unwrap_or(ToolKind::Other);
        let name =
            known.or(Some(given).filter(|given| !given.is_empty())).unwrap_or(kind.as_str()).to_owned();
        let title = title(&name, &input, tool, cwd);
        Self { name, input, title, cwd: cwd.to_owned() }
    }

    fn text(&self, argument: &str) -> Option<&str> {
        self.input.get(argument)?.as_str()
    }

    /// Details for a client's view of the call. `output` is what the call has written.
    pub(super) fn metadata(&self, tool: &Tool, output: &str) -> Map<String, Value> {
        let mut metadata = match tool.output.as_ref().and_then(|output| output.get("metadata")) {
            Some(Value::Object(members)) => members.clone(),
            None | Some(_) => Map::new(),
        };
        // opencode's own `write` tells whether there was a file.
        let has_replaced = metadata.get("exists") == Some(&Value::Bool(true));
        let mut add = |name: &str, value: Value| {
            metadata.entry(name).or_insert(value);
        };
        match self.name.as_str() {
            "bash" => add("output", json!(end_of(output))),
            "edit" | "write" => {
                if let Some(edit) = self.edits(tool).first() {
                    let mut change = edit.change();
                    if has_replaced {
                        change.status = FileStatus::Modified;
                    }
                    add("diff", json!(change.patch));
                    add("filediff", json!(change));
                }
                add("diagnostics", json!({}));
            }
            "apply_patch" => {
                let edits = self.edits(tool);
                add("diff", json!(edits.iter().map(|edit| edit.change().patch).collect::<String>()));
                add("files", self.files(&edits));
                add("diagnostics", json!({}));
            }
            "todowrite" => add("todos", self.input.get("todos").cloned().unwrap_or_else(|| json!([]))),
            _ => {}
        }
        metadata
    }

    /// What the call changes, by file: as it shows it, or as its arguments tell.
    pub(super) fn edits(&self, tool: &Tool) -> Vec<Edit> {
        let file = self.text("filePath");
        let shown = Edit::shown(tool, file);
        if !shown.is_empty() {
            return shown;
        }
        let edit = match (file, self.text("oldString"), self.text("newString"), self.text("content")) {
            (Some(file), Some(old), Some(new), _) => Edit::new(file, old, new),
            (Some(file), _, _, Some(content)) => Edit::new(file, "", content),
            _ => return Vec::new(),
        };
        vec![edit]
    }

    /// The files of a patch.
    pub(super) fn files(&self, edits: &[Edit]) -> Value {
        edits.iter().map(|edit| edit.file(relative(&edit.path, &self.cwd))).collect()
    }

    /// What a permission for this call is called, and for what it is asked.
    pub(super) fn permission(&self, edits: &[Edit]) -> (String, Vec<String>) {
        let (kind, subject) = match self.name.as_str() {
            "apply_patch" if !edits.is_empty() => {
                return ("edit".to_owned(), edits.iter().map(|edit| edit.path.clone()).collect());
            }
            "bash" => ("bash", self.text("command")),
            "edit" | "write" | "apply_patch" => ("edit", self.text("filePath")),
            "read" => ("read", self.text("filePath")),
            "webfetch" => ("webfetch", self.text("url")),
            "websearch" => ("websearch", self.text("query")),
            "glob" | "grep" => (self.name.as_str(), self.text("pattern")),
            "list" => ("list", self.text("path")),
            "task" => ("task", self.text("subagent_type").or(self.text("description"))),
            other => (other, None),
        };
        (kind.to_owned(), vec![subject.unwrap_or("*").to_owned()])
    }
}

fn same(name: &str) -> Option<&'static str> {
    let name = name.to_lowercase();
    SAME.iter().find(|(_, names)| names.contains(&name.as_str())).map(|(ours, _)| *ours)
}

/// A tool without a known name, by what it does, if its arguments are those of opencode's tool.
fn by_kind(tool: &Tool) -> Option<&'static str> {
    let has = |names: &[&str]| {
        names.iter().any(|name| tool.input.as_ref().is_some_and(|input| !input[*name].is_null()))
    };
    let has_path = has(&["filePath", "file_path", "path"]) || place(tool).is_some();
    let has_diff = changes::blocks(tool).next().is_some();
    match tool.kind? {
        ToolKind::Execute if has(&["command", "cmd"]) => Some("bash"),
        ToolKind::Read if has_path => Some("read"),
        ToolKind::Edit | ToolKind::Delete if has_diff => Some("edit"),
        ToolKind::Edit if has(&["content"]) && has_path => Some("write"),
        ToolKind::Search if has(&["pattern"]) => Some("grep"),
        ToolKind::Fetch if has(&["url"]) => Some("webfetch"),
        ToolKind::Read
        | ToolKind::Edit
        | ToolKind::Delete
        | ToolKind::Move
        | ToolKind::Search
        | ToolKind::Execute
        | ToolKind::Think
        | ToolKind::Fetch
        | ToolKind::SwitchMode
        | ToolKind::Other => None,
    }
}

/// Whether a call changes several files, or deletes one.
fn is_patch(tool: &Tool) -> bool {
    let mut paths = changes::blocks(tool).map(|block| &block["path"]);
    let first = paths.next();
    tool.kind == Some(ToolKind::Delete) || paths.any(|path| Some(path) != first)
}

/// The first file that a call touches.
fn place(tool: &Tool) -> Option<&str> {
    tool.locations.as_ref()?.first()?["path"].as_str()
}

fn rename(tool: &str, input: &mut Map<String, Value>) {
    // Searches and lists have a `path` of their own, and a search for files has no `include`.
    let keeps = |name: &str| match name {
        "path" => matches!(tool, "grep" | "glob" | "list"),
        "glob" => tool != "grep",
        "plan" => tool != "todowrite",
        "text" => tool != "write",
        _ => false,
    };
    for (ours, theirs) in ARGUMENTS {
        let found = theirs.iter().find(|name| !keeps(name) && input.contains_key(**name));
        if let Some(value) = found.filter(|_| !input.contains_key(*ours)).and_then(|name| input.remove(*name))
        {
            input.insert((*ours).to_owned(), value);
        }
    }
}

/// Adds what opencode's views need and other agents say elsewhere.
fn complete(name: &str, tool: &Tool, input: &mut Map<String, Value>) {
    if matches!(name, "read" | "edit" | "write")
        && !input.contains_key("filePath")
        && let Some(path) = place(tool)
    {
        input.insert("filePath".to_owned(), json!(path));
    }
    if let Some(Value::Array(words)) = input.get("command") {
        let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
        // Codex runs a command line through a shell: the last word is what a person wrote.
        let line = match words.as_slice() {
            [shell, flag, line] if shell.ends_with("sh") && flag.ends_with('c') => (*line).to_owned(),
            words => words.join(" "),
        };
        input.insert("command".to_owned(), json!(line));
    }
    if name == "todowrite"
        && let Some(Value::Array(todos)) = input.get_mut("todos")
    {
        for todo in todos.iter_mut().filter_map(Value::as_object_mut) {
            if let Some(step) = todo.remove("step") {
                todo.entry("content").or_insert(step);
            }
            todo.entry("priority").or_insert_with(|| json!("medium"));
        }
    }
    if name == "edit"
        && !input.contains_key("oldString")
        && let Some(diff) = changes::blocks(tool).next()
    {
        // Of several hunks, none stands for the edit.
        if changes::blocks(tool).count() == 1 {
            input.insert("oldString".to_owned(), json!(diff["oldText"].as_str().unwrap_or_default()));
            input.insert("newString".to_owned(), json!(diff["newText"].as_str().unwrap_or_default()));
        }
        input.entry("filePath").or_insert_with(|| diff["path"].clone());
    }
}

fn title(name: &str, input: &Map<String, Value>, tool: &Tool, cwd: &str) -> String {
    let text = |argument: &str| input.get(argument).and_then(Value::as_str);
    let subject = match name {
        "read" | "edit" | "write" => text("filePath").map(|path| relative(path, cwd)),
        "bash" => text("command"),
        "grep" | "glob" => text("pattern"),
        "task" => text("description"),
        "webfetch" => text("url"),
        _ => None,
    };
    subject.or(tool.title.as_deref()).unwrap_or(name).to_owned()
}

fn relative<'a>(path: &'a str, cwd: &str) -> &'a str {
    let inside = path.strip_prefix(cwd).and_then(|rest| rest.strip_prefix('/'));
    inside.filter(|rest| !rest.is_empty()).unwrap_or(path)
}

/// The end of a long output.
fn end_of(output: &str) -> &str {
    let mut start = output.len().saturating_sub(MOST_OUTPUT);
    while !output.is_char_boundary(start) {
        start += 1;
    }
    &output[start..]
}

#[cfg(test)]
mod tests {
    use super::Call;
    use crate::said::output_of;
    use serde_json::{Value, json};
    use std::collections::BTreeMap;
    use turnstream_model::event::Tool;

    fn lines(capture: &str) -> Vec<Value> {
        let path = format!("{}/../../fixtures/{capture}.ndjson", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The calls of a capture of Claude Code.
    fn of_claude(capture: &str) -> Vec<Tool> {
        let mut calls = Vec::new();
        for line in lines(&format!("claude/{capture}")) {
            let blocks = line["line"]["message"]["content"].as_array().cloned().unwrap_or_default();
            for block in blocks.iter().filter(|block| block["type"] == "tool_use") {
                let name = block["name"].as_str().map(str::to_owned);
                calls.push(Tool { name, input: Some(block["input"].clone()), ..Tool::default() });
            }
        }
        calls
    }

    /// The calls of a capture of ACP, each with all that was said of it. They have no names.
    fn of_acp(capture: &str) -> Vec<Tool> {
        let mut calls: BTreeMap<String, Tool> = BTreeMap::new();
        for line in lines(&format!("acp/{capture}")) {
            let message = if line["line"].is_object() { &line["line"] } else { &line };
            let params = &message["params"];
            let told = if params["toolCall"].is_object() { &params["toolCall"] } else { &params["update"] };
            let Some(id) = told["toolCallId"].as_str() else { continue };
            let mut tool: Tool = serde_json::from_value(json!({
                "kind": told["kind"], "title": told["title"], "content": told["content"], "locations": told["locations"],
            }))
            .unwrap();
            tool.input = Some(told["rawInput"].clone()).filter(|input| !input.is_null());
            calls.entry(id.to_owned()).or_default().merge(&tool);
        }
        calls.into_values().collect()
    }

    /// The name, the title and the arguments at opencode.
    fn told(calls: &[Tool]) -> Vec<(String, String, Value)> {
        let call = |tool: &Tool| {
            let Call { name, title, input, .. } = Call::of(tool, "/workspace");
            (name, title, Value::Object(input))
        };
        calls.iter().map(call).collect()
    }

    fn call(name: &str, title: &str, input: Value) -> (String, String, Value) {
        (name.to_owned(), title.to_owned(), input)
    }

    #[test]
    fn calls_of_claude_code_have_opencodes_names_and_arguments() {
        let changed = json!({
            "filePath": "/workspace/README.md", "oldString": "First line.\n", "newString": "First line.\nAdded line.\n",
            "replaceAll": false,
        });
        assert_eq!(
            told(&of_claude("a_oneshot_process")),
            [
                call("read", "README.md", json!({"filePath": "/workspace/README.md"})),
                call("edit", "README.md", changed)
            ]
        );
        let bash = told(&of_claude("d_permission_allow_always")).remove(0);
        assert_eq!(
            bash,
            call("bash", "touch a.txt", json!({"command": "touch a.txt", "description": "Create a file"}))
        );
        let write = of_claude("n_task_list").into_iter().find(|tool| tool.name.as_deref() == Some("Write"));
        let written = json!({"filePath": "/workspace/new.txt", "content": "hello\n"});
        assert_eq!(told(&[write.unwrap()]), [call("write", "new.txt", written)]);
        let (name, title, input) = told(&of_claude("j_subagent")).remove(0);
        assert_eq!((name.as_str(), title.as_str()), ("task", "Read the file"));
        assert_eq!(input["subagent_type"], "general-purpose");
        assert_eq!(told(&of_claude("l_ask_user_question"))[0].0, "question");
        // Nothing of opencode means the same.
        let plan = told(&of_claude("m_exit_plan_mode")).remove(0);
        assert_eq!(plan, call("ExitPlanMode", "ExitPlanMode", json!({"plan": "1. Do it\n2. Test it"})));
    }

    #[test]
    fn calls_of_acp_have_no_name_and_are_known_by_what_they_do_and_touch() {
        for agent in ["claude", "codex"] {
            let calls = of_acp(&format!("{agent}_multi_step"));
            let told = told(&calls);
            for (name, title, input) in told.iter().filter(|(name, ..)| name != "bash") {
                assert!(matches!(name.as_str(), "read" | "edit"), "{agent}: {told:#?}");
                assert_eq!(
                    (title.as_str(), &input["filePath"]),
                    ("README.md", &json!("/workspace/README.md"))
                );
            }
            let edit = calls.iter().find(|tool| Call::of(tool, "").name == "edit").unwrap();
            let (call, path) = (Call::of(edit, "/workspace"), "/workspace/README.md");
            assert_eq!(call.input["oldString"], "First line.\n", "{agent}");
            let change = &call.metadata(edit, "")["filediff"];
            assert_eq!(
                (&change["file"], &change["additions"]),
                (&json!(path), &json!(1)),
                "{agent}: {change}"
            );
            let asked = super::tests::told(&of_acp(&format!("{agent}_permission_reject")));
            assert!(
                asked.iter().any(|(name, title, _)| name == "bash" && title.contains("touch made.txt")),
                "{asked:#?}"
            );
        }
    }

    #[test]
    fn the_text_of_a_result_is_found_in_the_forms_of_all_agents() {
        let of = |output: Option<Value>, streamed: Option<&str>| {
            output_of(&Tool { output, ..Tool::default() }, streamed)
        };
        assert_eq!(of(Some(json!({"output": "a"})), Some("b")), "a");
        assert_eq!(of(Some(json!("a")), None), "a");
        assert_eq!(of(Some(json!({"stdout": "a"})), None), "a");
        assert_eq!(of(Some(json!({"x": 1})), None), "{\"x\":1}");
        assert_eq!(of(None, Some("b")), "b");
        let content = vec![json!({"type": "content", "content": {"type": "text", "text": "c"}})];
        assert_eq!(output_of(&Tool { content: Some(content), ..Tool::default() }, None), "c");
    }
}
