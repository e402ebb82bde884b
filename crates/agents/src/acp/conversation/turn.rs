//! Where a turn begins and ends. In ACP a prompt is a request: the turn begins when it is sent, and the
//! response is the only end. Nothing else names a turn.

use super::Conversation;
use super::commands::Request;
use crate::acp::wire::RpcError;
use crate::acp::{outcome, prompt_content, wire};
use serde_json::{Map, Value, json};
use turnstream_model::event::{
    Context, Cost, ErrorClass, ItemState, NoticeCode, Outcome, StopReason, TurnError, Usage,
};
use turnstream_model::signal::{Ending, Signal};

/// Characters of a message that are compared with the error of its turn.
const COMPARED: usize = 100;

/// The prompt whose response is awaited.
pub(super) struct OpenPrompt {
    pub(super) native_id: String,
    /// Its text, by which an echo of it is told.
    pub(super) text: String,
    /// The agent was asked to stop it.
    pub(super) cancelled: bool,
    /// A person has rejected a permission.
    pub(super) rejected: bool,
    /// The agent has shown that it failed.
    pub(super) failed: bool,
}

/// What the agent has spent, as far as it says so. Agents report the sum since their start, or that of the
/// session.
#[derive(Default)]
pub(super) struct Spending {
    total: Option<Cost>,
    /// The total before the turn; `None` if it is not known.
    before: Option<f64>,
}

impl Spending {
    /// Nothing was spent in a new session. What an old one has cost is not known.
    pub(super) fn of_session(is_new: bool) -> Self {
        Self { total: None, before: is_new.then_some(0.0) }
    }

    /// What the turn has cost.
    fn of_turn(&mut self) -> Option<Cost> {
        let total = self.total.clone()?;
        let before = self.before.replace(total.amount);
        let amount = total.amount - before?;
        (amount > 0.0).then_some(Cost { amount, ..total })
    }
}

impl Conversation {
    pub(super) fn prompt(&mut self, native_id: String, content: Vec<Value>) {
        if self.prompt.is_some() {
            return self.waiting.push_back((native_id, content));
        }
        let refused = content.iter().find_map(|block| self.capabilities.check(block).err());
        if let Some(refused) = refused {
            let error = TurnError::new(ErrorClass::InvalidRequest, refused.to_string());
            return self.signal(Signal::PromptRefused { native_id, error });
        }
        // What is left of an unprompted turn joins this one.
        self.end_text();
        self.running_tools.clear();
        self.gaps = 0;
        self.report_counted_only();
        self.plan = None;
        self.turns += 1;
        self.history.prompted();
        let texts: Vec<&str> = content.iter().filter_map(|block| block["text"].as_str()).collect();
        let text = texts.concat();
        let prompt = prompt_content::blocks(content);
        let params = json!({"sessionId": self.native_id().unwrap_or_default(), "prompt": prompt});
        self.request("session/prompt", params, Request::Prompt(native_id.clone()));
        // An agent shows nothing when it begins, and may be silent for minutes while it repeats a call. The
        // request itself is the evidence.
        let (origin, prompts) = (None, vec![native_id.clone()]);
        self.signal(Signal::TurnBegan { origin, prompts, native_id: None });
        self.prompt = Some(OpenPrompt { native_id, text, cancelled: false, rejected: false, failed: false });
    }

    /// The response to a prompt: the end of its turn.
    pub(super) fn prompt_done(&mut self, native_id: &str, result: Result<Value, RpcError>) {
        let Some(prompt) = self.prompt.take_if(|prompt| prompt.native_id == native_id) else { return };
        if result.is_ok() && !prompt.cancelled {
            self.restore_answer();
        }
        self.end_history();
        let mut ending = match result {
            Ok(result) => self.stopped(&prompt, &result),
            Err(error) => outcome::failed(&error, prompt.cancelled),
        };
        ending.cost = self.spending.of_turn();
        self.end_work(&ending);
        self.report_counted_only();
        self.signal(Signal::TurnDone { native_id: None, ending });
        if let Some((native_id, content)) = self.waiting.pop_front() {
            self.prompt(native_id, content);
        }
    }

    fn stopped(&mut self, prompt: &OpenPrompt, result: &Value) -> Ending {
        let word = result["stopReason"].as_str().unwrap_or_default();
        let mut ending = match word {
            "end_turn" if prompt.failed => Ending::failed(self.written_error()),
            "end_turn" => Ending::completed(StopReason::EndTurn),
            "max_tokens" => Ending::completed(StopReason::MaxTokens),
            "max_turn_requests" => Ending::completed(StopReason::MaxTurnRequests),
            "refusal" => Ending::completed(StopReason::Refusal),
            // Nobody cancelled: the agent stops after a rejected permission (codex_permission_reject).
            "cancelled" if prompt.rejected && !prompt.cancelled => Ending::completed(StopReason::Rejected),
            "cancelled" => Ending::cancelled(),
            word => {
                let message = format!("the agent stopped for the reason {:?}", outcome::shorten(word));
                let (code, detail) = (NoticeCode::UnknownEvent, self.unknown.detail(result.clone()));
                self.signal(Signal::Notice { code, message, detail });
                Ending::completed(StopReason::EndTurn)
            }
        };
        ending.usage = usage(&result["usage"]);
        ending
    }

    /// The error that the agent has written as its last message.
    fn written_error(&self) -> TurnError {
        let message = self.text.as_ref().map_or("the agent gave no reason", |item| item.text.trim());
        TurnError::new(ErrorClass::AgentError, outcome::shorten(message))
    }

    /// Ends what is open in the turn, as far as the agent has shown its end.
    fn end_work(&mut self, ending: &Ending) {
        self.was_cancelled = ending.outcome == Outcome::Cancelled;
        match ending.outcome {
            Outcome::Completed => self.end_text(),
            Outcome::Failed => self.end_failed_text(ending),
            // The text is cut off, and may go on.
            Outcome::Cancelled | Outcome::Lost => self.flush_half_character(),
        }
        if let Some(item) = self.text.take() {
            self.keep_ended(item);
        }
        self.ended_texts.iter_mut().for_each(|item| item.is_over = true);
        self.cancel_asks();
        self.running_tools.clear();
        self.outputs.clear();
        if let Some(key) = self.plan.clone() {
            let (state, reason) = (ItemState::Completed, None);
            self.signal(Signal::ItemEnded { key, state, reason });
        }
    }

    /// An agent may also write its error as a message (capture claude_error).
    fn end_failed_text(&mut self, ending: &Ending) {
        let said = ending.error.as_ref().map_or("", |error| error.message.as_str());
        let is_error = self.text.as_ref().is_some_and(|item| {
            // The message of the error begins with other words, and is shortened.
            let text: String = item.text.trim().chars().take(COMPARED).collect();
            !text.is_empty() && said.contains(&text)
        });
        match self.text.take_if(|_| is_error) {
            Some(item) => {
                let (state, reason) = (ItemState::Failed, Some("the error of the turn".to_owned()));
                self.signal(Signal::ItemEnded { key: item.key, state, reason });
            }
            None => self.end_text(),
        }
    }

    pub(super) fn usage(&mut self, update: &Map<String, Value>) {
        let number = |name: &str| update.get(name).and_then(Value::as_u64);
        let cost = update.get("cost").and_then(|cost| {
            let currency = cost["currency"].as_str()?.to_owned();
            let extra = wire::others(cost, &["amount", "currency"]);
            Some(Cost { amount: cost["amount"].as_f64()?, currency, extra })
        });
        if let Some(cost) = cost {
            self.spending.total = Some(cost);
        }
        // It follows a model call. Without ids of messages, that is the only sign of where one ends.
        if self.text.as_ref().is_some_and(|item| item.message.is_none()) {
            self.end_text();
        }
        self.end_unprompted(update);
        let context = Context { used: number("used"), size: number("size"), extra: Map::new() };
        if context.used.is_some() {
            self.signal(Signal::Usage { usage: None, cost: None, context: Some(context) });
        }
    }

    /// claude-agent-acp says with the cost of a turn who asked for it. For work that nobody asked for, that
    /// is the only sign of its end (capture claude-agent-acp_0.99.1_background).
    fn end_unprompted(&mut self, update: &Map<String, Value>) {
        let origin = update.get("_meta").and_then(|meta| meta["_claude/origin"]["kind"].as_str());
        if self.prompt.is_none() && origin.is_some_and(|origin| origin != "human") {
            self.end_text();
            self.report_counted_only();
            let ending = Ending { cost: self.spending.of_turn(), ..Ending::completed(StopReason::EndTurn) };
            self.signal(Signal::TurnDone { native_id: None, ending });
        }
    }

    /// The agent's plan. There is one per turn.
    pub(super) fn show_plan(&mut self, update: &Map<String, Value>) {
        if self.history.is_replay() {
            return;
        }
        let entries = update.get("entries").and_then(Value::as_array);
        let line = |entry: &Value| {
            let mark = match entry["status"].as_str() {
                Some("completed") => 'x',
                Some("in_progress") => '~',
                Some(_) | None => ' ',
            };
            format!("- [{mark}] {}", entry["content"].as_str().unwrap_or_default())
        };
        let text = entries.into_iter().flatten().map(line).collect::<Vec<_>>().join("\n");
        let key = match self.plan.clone() {
            Some(key) => key,
            None => self.begin_plan(),
        };
        self.final_text(key, text);
    }
}

/// The members of ACP's usage. The total is the sum of the others.
const TOKENS: &[&str] =
    &["inputTokens", "outputTokens", "thoughtTokens", "cachedReadTokens", "cachedWriteTokens", "totalTokens"];

/// Tokens of a turn, in the form of the log.
fn usage(usage: &Value) -> Option<Usage> {
    let number = |name: &str| usage[name].as_u64();
    let usage = Usage {
        input: number("inputTokens"),
        output: number("outputTokens"),
        reasoning: number("thoughtTokens"),
        cache_read: number("cachedReadTokens"),
        cache_write: number("cachedWriteTokens"),
        extra: wire::others(usage, TOKENS),
    };
    // An agent that does not know says zero (capture claude-agent-acp_0.99.1_cancel).
    let counted = [usage.input, usage.output, usage.reasoning, usage.cache_read, usage.cache_write];
    counted.into_iter().flatten().any(|tokens| tokens > 0).then_some(usage)
}
