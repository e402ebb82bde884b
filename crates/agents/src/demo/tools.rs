//! Tool calls, permissions and questions: what a person decides, and the effects.

use super::act::{Asking, Call, Effect, IfRejected, Wait};
use super::effects;
use super::memory::{Decision, End, Record, ToolResult};
use super::player::{Played, Player, STOP_OPTION, Stop};
use super::scene::{delta, ended};
use super::steps::StepPlace;
use serde_json::{Map, Value, json};
use std::time::Duration;
use turnstream_model::event::{
    ApprovalOption, Field, ItemState, OptionKind, StopReason, Tool, ToolKind, ToolStatus,
};
use turnstream_model::id::Key;
use turnstream_model::signal::Signal;

impl Player {
    pub(super) async fn tool(&mut self, place: &StepPlace, call: &Call) -> Played {
        let key = place.key("");
        let ask = self.introduce(&key, call).await?;
        self.await_decisions(ask.as_slice()).await?;
        let decision = ask.and_then(|ask| self.memory.decision(&ask).cloned());
        self.settle(&key, call, decision.as_ref(), place.pace).await?;
        self.judge(decision.iter().map(|decision| (decision, call.if_rejected)))
    }

    pub(super) async fn question(&mut self, place: &StepPlace, asking: &Asking) -> Played {
        let key = place.key("");
        self.show(Signal::Question { key: key.clone(), item: None, questions: asking.questions.clone() })
            .await?;
        self.await_decisions(std::slice::from_ref(&key)).await?;
        let decision = self.memory.decision(&key).cloned();
        self.judge(decision.iter().map(|decision| (decision, asking.if_rejected)))
    }

    /// Asks all, waits for all answers in any order, and then runs the allowed ones.
    pub(super) async fn at_once(&mut self, place: &StepPlace, waits: &[Wait]) -> Played {
        let mut asked: Vec<Option<Key>> = Vec::new();
        for (part, wait) in waits.iter().enumerate() {
            let key = place.key(&format!(".{}", part + 1));
            asked.push(match wait {
                Wait::Tool(call) => self.introduce(&key, call).await?,
                Wait::Question(asking) => {
                    let questions = asking.questions.clone();
                    self.show(Signal::Question { key: key.clone(), item: None, questions }).await?;
                    Some(key)
                }
            });
        }
        let keys: Vec<Key> = asked.iter().flatten().cloned().collect();
        self.await_decisions(&keys).await?;
        let mut decisions = Vec::new();
        for (part, (wait, ask)) in waits.iter().zip(&asked).enumerate() {
            let decision = ask.as_ref().and_then(|ask| self.memory.decision(ask).cloned());
            let if_rejected = match wait {
                Wait::Tool(call) => {
                    let key = place.key(&format!(".{}", part + 1));
                    self.settle(&key, call, decision.as_ref(), place.pace).await?;
                    call.if_rejected
                }
                Wait::Question(asking) => asking.if_rejected,
            };
            decisions.extend(decision.map(|decision| (decision, if_rejected)));
        }
        self.judge(decisions.iter().map(|(decision, if_rejected)| (decision, *if_rejected)))
    }

    /// What the decisions mean for the following steps.
    fn judge<'a>(&mut self, decisions: impl Iterator<Item = (&'a Decision, IfRejected)>) -> Played {
        for (index, (decision, if_rejected)) in decisions.enumerate() {
            self.allowed = Some(decision.allowed && (index == 0 || self.allowed == Some(true)));
            if !decision.allowed && (decision.stop || if_rejected == IfRejected::Stop) {
                return Err(Stop::End(End::Done(StopReason::Rejected)));
            }
        }
        Ok(())
    }

    /// Reports a call before it runs, with a permission if the script wants one.
    async fn introduce(&mut self, key: &Key, call: &Call) -> Played<Option<Key>> {
        let tool = described(call);
        self.show(Signal::ToolSeen { key: key.clone(), parent: None, tool: tool.clone() }).await?;
        if !call.ask {
            return Ok(None);
        }
        let ask = Key::from(format!("{key}?"));
        let (item, tool) = (Some(key.clone()), Some(Tool { status: None, ..tool }));
        self.show(Signal::Ask { key: ask.clone(), item, tool, options: options() }).await?;
        Ok(Some(ask))
    }

    /// Runs an allowed call, and fails a rejected one.
    async fn settle(
        &mut self,
        key: &Key,
        call: &Call,
        decision: Option<&Decision>,
        pace: Duration,
    ) -> Played {
        let Some(refused) = decision.filter(|decision| !decision.allowed) else {
            return self.run_call(key, call, pace).await;
        };
        let words = match &refused.message {
            Some(message) => format!("Not allowed: {message}"),
            None => "Not allowed.".to_owned(),
        };
        self.show(finished(key, call, &ToolResult::Failed(words))).await
    }

    /// Runs a call. One that was begun before a restart is not run again: its result is reported, if known.
    async fn run_call(&mut self, key: &Key, call: &Call, pace: Duration) -> Played {
        let before = match self.memory.tool_result(key) {
            Some(result) => Some(result.clone()),
            None if self.memory.tool_began(key) => {
                let record = Record::ToolDone { key: key.clone(), result: ToolResult::Unknown };
                self.memory.note(record).await?;
                Some(ToolResult::Unknown)
            }
            None => {
                self.go_live().await?;
                self.handle_commands().await?;
                self.memory.note(Record::ToolBegan { key: key.clone() }).await?;
                None
            }
        };
        let running = Tool { status: Some(ToolStatus::InProgress), ..Tool::default() };
        self.show(Signal::ToolSeen { key: key.clone(), parent: None, tool: running }).await?;
        let result = match before {
            Some(ToolResult::Unknown) => return self.show(ended(key, ItemState::Unknown)).await,
            Some(result) => {
                self.print(key, call, Duration::ZERO).await?;
                result
            }
            None => {
                let result = self.perform(call).await;
                self.print(key, call, pace).await?;
                self.pause(Duration::from_millis(call.takes_ms)).await?;
                self.memory.note(Record::ToolDone { key: key.clone(), result: result.clone() }).await?;
                result
            }
        };
        self.show(finished(key, call, &result)).await
    }

    async fn print(&mut self, key: &Key, call: &Call, pace: Duration) -> Played {
        for piece in &call.output {
            self.show(delta(key, Field::Output, piece)).await?;
            self.pause_between_pieces(pace).await?;
        }
        Ok(())
    }

    async fn perform(&mut self, call: &Call) -> ToolResult {
        if let Some(words) = &call.fail {
            return ToolResult::Failed(words.clone());
        }
        let Some(effect) = call.effect.clone() else { return ToolResult::Done(json!(call.output.concat())) };
        let cwd = self.cwd.clone();
        match tokio::task::spawn_blocking(move || effects::perform(&effect, &cwd)).await {
            Ok(Ok(output)) => ToolResult::Done(output),
            Ok(Err(error)) => ToolResult::Failed(error.to_string()),
            Err(error) => ToolResult::Failed(format!("the tool broke: {error}")),
        }
    }
}

/// A call before it runs.
fn described(call: &Call) -> Tool {
    let effect = call.effect.as_ref();
    let name = call.name.clone().unwrap_or_else(|| effect.map_or("tool", Effect::name).to_owned());
    let title = call.title.clone().unwrap_or_else(|| match effect {
        Some(effect) => format!("{name} {}", effect.path()),
        None => name.clone(),
    });
    let kind = match effect {
        Some(Effect::Write { .. } | Effect::Append { .. }) => ToolKind::Edit,
        Some(Effect::Read { .. } | Effect::Count { .. }) => ToolKind::Read,
        None => ToolKind::Other,
    };
    let input = call.input.clone().or_else(|| effect.map(arguments)).unwrap_or_else(|| json!({}));
    Tool {
        name: Some(name),
        kind: Some(kind),
        title: Some(title),
        status: Some(ToolStatus::Pending),
        input: Some(input),
        output: None,
        content: None,
        locations: effect.map(|effect| vec![json!({ "path": effect.path() })]),
        extra: Map::new(),
    }
}

fn arguments(effect: &Effect) -> Value {
    match effect {
        Effect::Write { path, text } | Effect::Append { path, text } => json!({ "path": path, "text": text }),
        Effect::Read { path } | Effect::Count { path } => json!({ "path": path }),
    }
}

/// A finished call.
fn finished(key: &Key, call: &Call, result: &ToolResult) -> Signal {
    let text = |text: &str| json!({"type": "content", "content": {"type": "text", "text": text}});
    let (status, output, shown) = match result {
        ToolResult::Done(output) => {
            let shown = match &call.effect {
                Some(Effect::Write { path, text }) => {
                    json!({"type": "diff", "path": path, "oldText": null, "newText": text})
                }
                Some(Effect::Read { .. }) => text(output.get("text").and_then(Value::as_str).unwrap_or("")),
                Some(Effect::Append { .. } | Effect::Count { .. }) => text(&output.to_string()),
                None => text(output.as_str().unwrap_or("")),
            };
            (ToolStatus::Completed, output.clone(), shown)
        }
        ToolResult::Failed(words) => (ToolStatus::Failed, json!({ "error": words }), text(words)),
        ToolResult::Unknown => return ended(key, ItemState::Unknown),
    };
    let tool =
        Tool { status: Some(status), output: Some(output), content: Some(vec![shown]), ..Tool::default() };
    Signal::ToolSeen { key: key.clone(), parent: None, tool }
}

/// The options of a permission.
fn options() -> Vec<ApprovalOption> {
    let option = |id: &str, kind, name: &str| ApprovalOption {
        id: id.to_owned(),
        kind,
        name: name.to_owned(),
        extra: Map::new(),
    };
    vec![
        option("allow", OptionKind::AllowOnce, "Allow"),
        option("always", OptionKind::AllowAlways, "Always allow"),
        option("reject", OptionKind::RejectOnce, "Reject"),
        option(STOP_OPTION, OptionKind::RejectOnce, "Reject and stop"),
    ]
}
