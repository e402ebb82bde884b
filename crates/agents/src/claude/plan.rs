//! The agent's task list, as the plan of a turn. The results of its task tools have what changed.

use serde_json::Value;
use std::collections::BTreeMap;

/// The tasks of a session, as far as this process showed them.
#[derive(Default)]
pub(super) struct Plan {
    /// By number, so that the order is that of the agent.
    tasks: BTreeMap<u64, Task>,
}

struct Task {
    subject: String,
    status: String,
}

impl Plan {
    /// Applies the structured result of a task tool. Returns the new list if it changed.
    pub(super) fn apply(&mut self, tool: &str, details: &Value) -> Option<String> {
        match tool {
            "TaskCreate" => self.set(details.get("task")?)?,
            "TaskList" => {
                self.tasks.clear();
                for task in details.get("tasks")?.as_array()? {
                    self.set(task);
                }
            }
            "TaskUpdate" => {
                let number = number(details.get("taskId")?)?;
                let status = details.get("statusChange")?.get("to")?.as_str()?;
                if status == "deleted" {
                    self.tasks.remove(&number)?;
                } else {
                    status.clone_into(&mut self.tasks.get_mut(&number)?.status);
                }
            }
            _ => return None,
        }
        Some(self.text())
    }

    fn set(&mut self, task: &Value) -> Option<()> {
        let subject = task.get("subject")?.as_str()?.to_owned();
        let status = task.get("status").and_then(Value::as_str).unwrap_or("pending").to_owned();
        self.tasks.insert(number(task.get("id")?)?, Task { subject, status });
        Some(())
    }

    /// One line per task, as other adapters write plans.
    fn text(&self) -> String {
        let line = |task: &Task| {
            let mark = match task.status.as_str() {
                "completed" => 'x',
                "in_progress" => '~',
                _ => ' ',
            };
            format!("- [{mark}] {}", task.subject)
        };
        self.tasks.values().map(line).collect::<Vec<_>>().join("\n")
    }
}

fn number(id: &Value) -> Option<u64> {
    id.as_u64().or_else(|| id.as_str()?.parse().ok())
}
