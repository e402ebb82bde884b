//! The tools of the built-in agent: what the model is told about them, their calls, and how they run.

mod bash;
mod below;
mod files;
mod search;

pub(crate) use bash::{Shell, end_leftover};
pub(crate) use below::open_file;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, watch};
use turnstream_adapter::{WorkingDirectory, file_name, one_line};
use turnstream_model::event::{Tool, ToolKind, ToolStatus};

/// A call with its arguments.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    Read(Read),
    Write(Write),
    Edit(Edit),
    List(List),
    Search(Search),
    Bash(Bash),
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Read {
    path: String,
    first_line: Option<u64>,
    lines: Option<u64>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Write {
    path: String,
    content: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Edit {
    path: String,
    old_text: String,
    new_text: String,
    #[serde(default)]
    replace_all: bool,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct List {
    path: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Search {
    text: String,
    path: Option<String>,
    #[serde(default)]
    ignore_case: bool,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Bash {
    command: String,
    timeout_seconds: Option<u64>,
}

/// What a model is told about a tool.
pub(crate) struct Definition {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    /// A JSON schema.
    pub(crate) parameters: Value,
}

/// What may be allowed for the rest of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Rule {
    /// Every change of files by write and edit.
    Changes,
    /// Exactly this command.
    Command(String),
}

/// The result of a call. The model reads the text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ToolResult {
    #[serde(rename = "failed", default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_failed: bool,
    pub(crate) text: String,
}

/// Stops a running tool. Dropping it stops the tool too.
pub(crate) struct Stopper(watch::Sender<bool>);

/// Tells a running tool that it has to stop.
pub(crate) struct Stopped(watch::Receiver<bool>);

/// A way to stop a tool.
pub(crate) fn stopper() -> (Stopper, Stopped) {
    let (sender, receiver) = watch::channel(false);
    (Stopper(sender), Stopped(receiver))
}

impl Stopper {
    pub(crate) fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Stopped {
    async fn wait(&mut self) {
        // The sender is gone: its session has ended.
        let _stopped = self.0.wait_for(|stopped| *stopped).await;
    }

    fn is_now(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }
}

impl ToolResult {
    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self { is_failed: true, text: text.into() }
    }

    /// What the log shows of it.
    pub(crate) fn shown(&self) -> Tool {
        let status = if self.is_failed { ToolStatus::Failed } else { ToolStatus::Completed };
        Tool { status: Some(status), output: Some(json!({"output": self.text})), ..Tool::default() }
    }
}

/// All tools.
pub(crate) fn definitions() -> Vec<Definition> {
    let text = |about: &str| json!({"type": "string", "description": about});
    let number = |about: &str| json!({"type": "integer", "minimum": 1, "description": about});
    let flag = |about: &str| json!({"type": "boolean", "description": about});
    let object = |members: Value, required: &[&str]| {
        json!({
            "type": "object", "properties": members, "required": required, "additionalProperties": false,
        })
    };
    let path = || text("A path below the working directory, relative or absolute.");
    vec![
        Definition {
            name: "read",
            description: "Reads a text file. Long files are cut; ask for the lines that you need.",
            parameters: object(
                json!({"path": path(), "first_line": number("The first line, from 1."), "lines": number("The number of lines.")}),
                &["path"],
            ),
        },
        Definition {
            name: "write",
            description: "Creates a file, or replaces its content. Missing directories are made.",
            parameters: object(
                json!({"path": path(), "content": text("The whole content.")}),
                &["path", "content"],
            ),
        },
        Definition {
            name: "edit",
            description: "Replaces a text in a file. The text must occur exactly once.",
            parameters: object(
                json!({
                    "path": path(),
                    "old_text": text("The exact text to replace."),
                    "new_text": text("What stands there afterwards."),
                    "replace_all": flag("Replace every occurrence."),
                }),
                &["path", "old_text", "new_text"],
            ),
        },
        Definition {
            name: "list",
            description: "Lists a directory. Directories end with /, links with @.",
            parameters: object(json!({"path": path()}), &[]),
        },
        Definition {
            name: "search",
            description: "Finds lines that contain a text, in all files below a directory.",
            parameters: object(
                json!({"text": text("The text, not a pattern."), "path": path(), "ignore_case": flag("Ignore upper and lower case.")}),
                &["text"],
            ),
        },
        Definition {
            name: "bash",
            description: "Runs a shell command in the working directory. Processes that it leaves in the \
                          background are ended with it.",
            parameters: object(
                json!({"command": text("The command."), "timeout_seconds": number("After which it is killed. Default: 120.")}),
                &["command"],
            ),
        },
    ]
}

impl Call {
    /// Reads a call of a model. The error is for the model.
    pub(crate) fn parse(name: &str, arguments: &str) -> Result<Self, String> {
        fn read<T: for<'a> Deserialize<'a>>(name: &str, arguments: &str) -> Result<T, String> {
            turnstream_json::from_str(arguments)
                .map_err(|error| format!("the arguments of {name} cannot be used: {error}"))
        }
        match name {
            "read" => read(name, arguments).map(Self::Read),
            "write" => read(name, arguments).map(Self::Write),
            "edit" => read(name, arguments).map(Self::Edit),
            "list" => read(name, arguments).map(Self::List),
            "search" => read(name, arguments).map(Self::Search),
            "bash" => read(name, arguments).map(Self::Bash),
            other => {
                let known: Vec<&str> = definitions().iter().map(|tool| tool.name).collect();
                Err(format!("there is no tool {other:?}; the tools are {}", known.join(", ")))
            }
        }
    }

    /// What the log shows of the call, besides its name and its arguments.
    pub(crate) fn describe(&self) -> Tool {
        let (kind, verb, subject) = match self {
            Self::Read(call) => (ToolKind::Read, "Read", file_name(&call.path)),
            Self::Write(call) => (ToolKind::Edit, "Write", file_name(&call.path)),
            Self::Edit(call) => (ToolKind::Edit, "Edit", file_name(&call.path)),
            Self::List(call) => (ToolKind::Read, "List", call.path.as_deref().unwrap_or(".")),
            Self::Search(call) => (ToolKind::Search, "Search", call.text.as_str()),
            Self::Bash(call) => (ToolKind::Execute, "Run", call.command.as_str()),
        };
        let diff = |path: &str, old: Option<&str>, new: &str| {
            Some(vec![json!({"type": "diff", "path": path, "oldText": old, "newText": new})])
        };
        let content = match self {
            Self::Write(call) => diff(&call.path, None, &call.content),
            Self::Edit(call) => diff(&call.path, Some(&call.old_text), &call.new_text),
            Self::Read(_) | Self::List(_) | Self::Search(_) | Self::Bash(_) => None,
        };
        let location = match self {
            Self::Read(Read { path, .. })
            | Self::Write(Write { path, .. })
            | Self::Edit(Edit { path, .. }) => Some(path),
            Self::List(_) | Self::Search(_) | Self::Bash(_) => None,
        };
        Tool {
            kind: Some(kind),
            title: Some(format!("{verb} {}", one_line(subject))),
            content,
            locations: location.map(|path| vec![json!({"path": path})]),
            extra: Map::new(),
            ..Tool::default()
        }
    }

    /// The permission that the call needs. Tools that only read below the session's directory need none.
    pub(crate) fn permission(&self) -> Option<Rule> {
        match self {
            Self::Read(_) | Self::List(_) | Self::Search(_) => None,
            Self::Write(_) | Self::Edit(_) => Some(Rule::Changes),
            Self::Bash(call) => Some(Rule::Command(call.command.clone())),
        }
    }

    /// Runs the call to its end, or until it is stopped. `shown` gets output as it comes.
    pub(crate) async fn run(
        self,
        root: WorkingDirectory,
        shell: Shell,
        shown: mpsc::Sender<String>,
        mut stopped: Stopped,
    ) -> ToolResult {
        if let Self::Bash(call) = &self {
            return shell.run(call, shown, &mut stopped).await;
        }
        let work = move || match &self {
            Self::Read(call) => files::read(&root, call),
            Self::Write(call) => files::write(&root, call),
            Self::Edit(call) => files::edit(&root, call),
            Self::List(call) => files::list(&root, call),
            Self::Search(call) => search::search(&root, call, &|| stopped.is_now()),
            // It was run above.
            Self::Bash(_) => Ok(String::new()),
        };
        match tokio::task::spawn_blocking(work).await {
            Ok(Ok(text)) => ToolResult { is_failed: false, text },
            Ok(Err(error)) => ToolResult::failed(error.to_string()),
            Err(error) => ToolResult::failed(format!("the tool failed: {error}")),
        }
    }
}

impl Rule {
    /// What it allows, for a person.
    pub(crate) fn covers(&self) -> String {
        match self {
            Self::Changes => {
                "Allow all changes of files below the working directory, in this session".to_owned()
            }
            Self::Command(command) => format!("Always allow exactly this command in this session: {command}"),
        }
    }
}
