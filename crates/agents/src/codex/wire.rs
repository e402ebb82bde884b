//! The messages of `codex app-server`, as far as the adapter reads them. Members that it does not read are
//! skipped, and every member may be missing.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// One message: a notification, a request of the server, or its response to one of ours. Its ids and ours
/// are two sets: both begin at zero.
#[derive(Deserialize)]
pub(super) struct Message<'a> {
    #[serde(default, borrow)]
    pub(super) method: Cow<'a, str>,
    #[serde(default)]
    pub(super) id: Option<Value>,
    #[serde(default, borrow)]
    pub(super) params: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(super) result: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) error: Option<RpcError>,
}

/// Why a request was refused.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RpcError {
    pub(super) message: String,
}

/// A piece of an item's text or output.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Delta<'a> {
    #[serde(borrow)]
    pub(super) thread_id: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) turn_id: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) item_id: Cow<'a, str>,
    #[serde(default)]
    pub(super) delta: String,
    /// The part of a reasoning's summary that a new part begins.
    #[serde(default)]
    pub(super) summary_index: u64,
}

/// An item that has begun or ended.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ItemLine {
    pub(super) thread_id: String,
    pub(super) turn_id: String,
    pub(super) item: Item,
}

/// An item. Its type says which members it has.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Item {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) id: String,
    pub(super) status: Option<Value>,
    /// The same in its messages and in a list. Another item with the same id has another one.
    pub(super) started_at_ms: Option<u64>,
    // === userMessage ===
    pub(super) client_id: Option<String>,
    // === agentMessage, plan ===
    pub(super) text: Option<String>,
    // === reasoning ===
    pub(super) summary: Vec<String>,
    /// A list of texts in a reasoning. Other types have other contents.
    pub(super) content: Option<Value>,
    // === commandExecution ===
    pub(super) command: Option<String>,
    pub(super) cwd: Option<String>,
    pub(super) command_actions: Vec<CommandAction>,
    pub(super) aggregated_output: Option<String>,
    pub(super) exit_code: Option<i64>,
    pub(super) duration_ms: Option<u64>,
    // === fileChange ===
    pub(super) changes: Vec<FileChange>,
    // === mcpToolCall, dynamicToolCall, collabAgentToolCall ===
    pub(super) server: Option<String>,
    pub(super) tool: Option<String>,
    pub(super) arguments: Option<Value>,
    pub(super) result: Option<Value>,
    pub(super) error: Option<Value>,
    pub(super) content_items: Option<Value>,
    pub(super) success: Option<bool>,
    pub(super) prompt: Option<String>,
    pub(super) receiver_thread_ids: Vec<String>,
    // === webSearch ===
    pub(super) query: Option<String>,
    pub(super) action: Option<Value>,
    pub(super) results: Option<Value>,
    // === imageView, imageGeneration ===
    pub(super) path: Option<String>,
    pub(super) saved_path: Option<String>,
    pub(super) revised_prompt: Option<String>,
    pub(super) failure: Option<Value>,
}

/// What a part of a command does, as Codex understands it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CommandAction {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) command: String,
    pub(super) path: Option<String>,
}

/// The change of one file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct FileChange {
    pub(super) path: String,
    pub(super) kind: ChangeKind,
    /// A unified diff; the whole content of a file that is added or deleted.
    pub(super) diff: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ChangeKind {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) move_path: Option<String>,
}

/// A turn that has begun or ended.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TurnLine {
    pub(super) thread_id: String,
    pub(super) turn: Turn,
}

/// A turn. Its items are whole only in a list that asked for them.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Turn {
    pub(super) id: String,
    /// The turn of the main thread, for one of a subagent.
    pub(super) root_turn_id: String,
    pub(super) status: String,
    pub(super) error: Option<TurnFailure>,
    pub(super) items: Vec<Item>,
}

/// An error of a turn, also of one that goes on.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ErrorLine {
    pub(super) thread_id: String,
    pub(super) turn_id: String,
    pub(super) error: TurnFailure,
    #[serde(default)]
    pub(super) will_retry: bool,
}

/// What went wrong in a turn.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct TurnFailure {
    pub(super) message: String,
    /// A word, or an object with a word and details.
    pub(super) codex_error_info: Option<Value>,
    pub(super) additional_details: Option<String>,
}

/// Tokens of a thread.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct UsageLine {
    pub(super) thread_id: String,
    #[serde(default)]
    pub(super) turn_id: String,
    pub(super) token_usage: TokenUsage,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct TokenUsage {
    pub(super) total: Tokens,
    pub(super) last: Tokens,
    pub(super) model_context_window: Option<u64>,
}

/// Tokens of a call, or a total. The file of a thread writes the same names with underscores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Tokens {
    #[serde(alias = "total_tokens")]
    pub(super) total_tokens: u64,
    #[serde(alias = "input_tokens")]
    pub(super) input_tokens: u64,
    #[serde(alias = "cached_input_tokens")]
    pub(super) cached_input_tokens: u64,
    #[serde(alias = "cache_write_input_tokens")]
    pub(super) cache_write_input_tokens: u64,
    #[serde(alias = "output_tokens")]
    pub(super) output_tokens: u64,
    #[serde(alias = "reasoning_output_tokens")]
    pub(super) reasoning_output_tokens: u64,
}

/// The task list of a turn.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PlanLine {
    #[serde(default)]
    pub(super) thread_id: Option<String>,
    pub(super) turn_id: String,
    #[serde(default)]
    pub(super) plan: Vec<PlanStep>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct PlanStep {
    pub(super) step: String,
    pub(super) status: String,
}

/// A server request that needs no answer any more.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResolvedLine {
    pub(super) request_id: Value,
}

/// A request of the server for a permission or for answers.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct AskParams {
    pub(super) thread_id: String,
    pub(super) turn_id: String,
    pub(super) item_id: String,
    pub(super) reason: Option<String>,
    pub(super) command: Option<String>,
    pub(super) cwd: Option<String>,
    pub(super) command_actions: Option<Vec<CommandAction>>,
    pub(super) available_decisions: Option<Vec<Value>>,
    /// The host of a request for the network.
    pub(super) network_approval_context: Option<NetworkContext>,
    /// What `item/permissions/requestApproval` asks for.
    pub(super) permissions: Option<Value>,
    pub(super) grant_root: Option<String>,
    pub(super) questions: Vec<AskedQuestion>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct NetworkContext {
    pub(super) host: String,
    pub(super) protocol: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct AskedQuestion {
    pub(super) id: String,
    pub(super) header: String,
    pub(super) question: String,
    pub(super) is_other: bool,
    pub(super) is_secret: bool,
    pub(super) options: Option<Vec<AskedChoice>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct AskedChoice {
    pub(super) label: String,
    pub(super) description: String,
}

/// A request of an MCP server that Codex passes on. Codex asks for a permission for a tool in the same way.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Elicitation {
    pub(super) thread_id: String,
    pub(super) turn_id: Option<String>,
    pub(super) server_name: String,
    pub(super) mode: String,
    pub(super) message: String,
    pub(super) requested_schema: Option<Value>,
    #[serde(rename = "_meta")]
    pub(super) meta: Option<ElicitationMeta>,
}

/// What Codex adds to a request for a permission. The meta of a form is the server's own.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct ElicitationMeta {
    #[serde(rename = "codex_approval_kind")]
    pub(super) approval_kind: Option<Value>,
    /// For how long the permission can be given: `session`, `always`.
    pub(super) persist: Option<Value>,
    /// The arguments of the call.
    pub(super) tool_params: Option<Value>,
}

/// How an MCP server of the thread starts.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct McpStartup {
    pub(super) thread_id: Option<String>,
    pub(super) name: String,
    pub(super) status: String,
    pub(super) error: Option<String>,
}

/// The answer to `thread/start` and `thread/resume`.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct OpenedThread {
    pub(super) thread: Thread,
    pub(super) model: Option<String>,
    pub(super) approval_policy: Option<Value>,
    pub(super) sandbox: Option<Sandbox>,
    pub(super) collaboration_mode: Option<CollaborationMode>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Thread {
    pub(super) id: String,
    /// The file in which Codex keeps it.
    pub(super) path: Option<String>,
    pub(super) status: ThreadStatus,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ThreadStatus {
    #[serde(rename = "type")]
    pub(super) kind: String,
    /// What the thread waits for.
    pub(super) active_flags: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Sandbox {
    #[serde(rename = "type")]
    pub(super) kind: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct CollaborationMode {
    pub(super) mode: String,
}

/// The answer to `turn/start`.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct StartedTurn {
    pub(super) turn: Turn,
}

/// The answer to `thread/turns/list`, newest first.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct TurnList {
    pub(super) data: Vec<Turn>,
}

/// The answer to `model/list`.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct ModelList {
    pub(super) data: Vec<Model>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Model {
    pub(super) id: String,
    pub(super) model: String,
    pub(super) description: String,
    pub(super) hidden: bool,
}

// === impl Item ===

impl Item {
    /// The word of its status. An object has it as `type`.
    pub(super) fn status(&self) -> &str {
        let status = self.status.as_ref();
        let word = status.and_then(|status| status.as_str().or_else(|| status.get("type")?.as_str()));
        word.unwrap_or_default()
    }

    /// Whether it has begun and not ended. Images have a word of their own (capture `n_image_generation`).
    pub(super) fn is_in_progress(&self) -> bool {
        matches!(self.status(), "inProgress" | "in_progress")
    }
}
