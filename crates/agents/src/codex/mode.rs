//! The modes of a session: what Codex may do without asking. They have the names of Codex's own presets.

use super::wire::OpenedThread;
use serde_json::{Value, json};

/// The mode in which Codex plans, and may ask questions.
pub(super) const PLAN: &str = "plan";

/// A preset: when it asks, and what its sandbox allows.
pub(super) struct Preset {
    name: &'static str,
    approval_policy: &'static str,
    /// The word for `thread/start`.
    pub(super) sandbox: &'static str,
    /// The type of the policy for `turn/start`.
    sandbox_type: &'static str,
}

const PRESETS: &[Preset] = &[
    preset("read-only", "on-request", "read-only", "readOnly"),
    preset("auto", "on-request", "workspace-write", "workspaceWrite"),
    preset("full-access", "never", "danger-full-access", "dangerFullAccess"),
];

const fn preset(
    name: &'static str,
    approval_policy: &'static str,
    sandbox: &'static str,
    sandbox_type: &'static str,
) -> Preset {
    Preset { name, approval_policy, sandbox, sandbox_type }
}

/// Whether Codex has this mode.
pub(super) fn exists(mode: &str) -> bool {
    mode == PLAN || find(mode).is_some()
}

/// All modes, for a message.
pub(super) fn names() -> String {
    PRESETS.iter().map(|preset| preset.name).chain([PLAN]).collect::<Vec<_>>().join(", ")
}

fn find(mode: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == mode)
}

/// Adds a mode to the parameters of `thread/start` or `thread/resume`. Without one, the configuration of
/// Codex decides.
pub(super) fn add_to_thread(params: &mut Value, mode: Option<&str>) {
    if let Some(preset) = mode.and_then(find) {
        params["approvalPolicy"] = Value::from(preset.approval_policy);
        params["sandbox"] = Value::from(preset.sandbox);
    }
}

/// Adds a mode that was chosen since the last turn to the parameters of `turn/start`.
pub(super) fn add_to_turn(params: &mut Value, mode: &str, model: &str) {
    if let Some(preset) = find(mode) {
        params["approvalPolicy"] = Value::from(preset.approval_policy);
        params["sandboxPolicy"] = match preset.sandbox_type {
            "workspaceWrite" => json!({"type": "workspaceWrite", "writableRoots": [], "networkAccess": false,
                "excludeTmpdirEnvVar": false, "excludeSlashTmp": false}),
            "readOnly" => json!({"type": "readOnly", "networkAccess": false}),
            kind => json!({"type": kind}),
        };
    }
    let collaboration = if mode == PLAN { PLAN } else { "default" };
    let settings = json!({"model": model, "reasoning_effort": null, "developer_instructions": null});
    params["collaborationMode"] = json!({"mode": collaboration, "settings": settings});
}

/// The mode of a thread, if it is one of the presets.
pub(super) fn of_thread(opened: &OpenedThread) -> Option<&'static str> {
    if opened.collaboration_mode.as_ref().is_some_and(|collaboration| collaboration.mode == PLAN) {
        return Some(PLAN);
    }
    let policy = opened.approval_policy.as_ref()?.as_str()?;
    let sandbox = opened.sandbox.as_ref()?.kind.as_str();
    let is_it = |preset: &&Preset| preset.approval_policy == policy && preset.sandbox_type == sandbox;
    PRESETS.iter().find(is_it).map(|preset| preset.name)
}
