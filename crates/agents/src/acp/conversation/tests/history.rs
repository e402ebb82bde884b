//! A session goes on in another process: what the agent repeats is in the log already, and ids may come
//! again. The agent's lines are those of captures.

use super::super::{Conversation, ConversationSettings};
use super::commands::{answer, opened, outputs, requests};
use super::playback::{Desk, Playback, conversation};
use crate::desk::{Driver, End};
use serde_json::{Value, json};
use std::path::Path;
use turnstream_adapter::LoggedPart;
use turnstream_model::event::StopReason::EndTurn;
use turnstream_model::event::{Body, ItemKind, Role};
use turnstream_testkit::lawful::Tail;

const DONE: End = End::Completed(EndTurn);
const AGENTS: &[&str] = &["claude-agent-acp_0.99.1", "codex-acp_2.6.0", "opencode_acp_1.18.33"];

fn capture(agent: &str) -> String {
    let file = format!("../../fixtures/acp/{agent}_load.ndjson");
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap()
}

/// A session that was loaded in a second process.
struct Loaded {
    /// The log of the first process, which has ended.
    desk: Desk,
    /// The answers to `initialize`, `session/load` and the prompt.
    responses: Vec<Value>,
    /// What the second process repeated.
    replay: Vec<Value>,
    /// What it showed after the prompt.
    live: Vec<Value>,
}

impl Loaded {
    fn of(agent: &str) -> Self {
        Self::read(&capture(agent))
    }

    /// The ids of tool calls have colons, as those of some models have.
    fn with_colons(agent: &str) -> Self {
        let text = capture(agent);
        let (_, id) = text.split_once("\"toolCallId\":\"").unwrap();
        let (id, _) = id.split_once('"').unwrap();
        Self::read(&text.replace(id, "functions.bash:0"))
    }

    fn read(text: &str) -> Self {
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let (mut desk, mut driver) = (Playback::desk(), Playback::default());
        for (place, line) in lines.iter().enumerate().filter(|(_, line)| line["proc"].is_null()) {
            match line["dir"] == "out" {
                true => desk.line(&driver.answered(&desk, &line["line"]).to_string()),
                false => driver.drive(&mut desk, &line["line"], place),
            }
        }
        desk.exit();
        let second: Vec<&Value> = lines.iter().filter(|line| line["proc"] == 1).collect();
        let prompted = second.iter().position(|line| line["line"]["method"] == "session/prompt").unwrap();
        let content = |lines: &[&Value]| -> Vec<Value> {
            let is_shown = |line: &Value| {
                let update = &line["params"]["update"];
                let kind = update["sessionUpdate"].as_str().unwrap_or_default();
                // codex-acp writes a warning about its machine among the history.
                let is_warning = update["content"]["text"].as_str().is_some_and(|t| t.starts_with("Config"));
                (kind.ends_with("_chunk") || kind.starts_with("tool_call")) && !is_warning
            };
            lines.iter().map(|line| line["line"].clone()).filter(is_shown).collect()
        };
        let is_response = |line: &&&Value| line["dir"] == "out" && line["line"]["method"].is_null();
        let responses = second.iter().filter(is_response).map(|line| line["line"].clone()).collect();
        let (replay, live) = (content(&second[..prompted]), content(&second[prompted..]));
        Self { desk, responses, replay, live }
    }

    /// Leaves out the ids of messages, as agents without such ids do.
    fn without_ids(mut self) -> Self {
        for line in self.replay.iter_mut().chain(&mut self.live) {
            line["params"]["update"].as_object_mut().unwrap().remove("messageId");
        }
        self
    }

    /// The second process repeats so many lines before the prompt, and the others after it.
    fn play(mut self, before: usize) -> Desk {
        let desk = &mut self.desk;
        let state = desk.state();
        desk.conversation = Conversation::new(ConversationSettings {
            cwd: "/workspace".to_owned(),
            native_id: state.session.native_id.clone(),
            epoch: "e2".to_owned(),
            known: LoggedPart::of(&state),
            ..ConversationSettings::default()
        });
        desk.drain();
        let mut can_only_load = self.responses[0].clone();
        can_only_load["result"]["agentCapabilities"]["sessionCapabilities"] = json!({});
        let greeting = requests(desk, "initialize").pop().unwrap();
        desk.lines(&[answer(&greeting, &can_only_load)]);
        let load = requests(desk, "session/load").pop().unwrap();
        desk.lines(&self.replay[..before]);
        desk.lines(&[answer(&load, &self.responses[1])]);
        desk.say("p2", "Two");
        desk.lines(&self.replay[before..]);
        desk.lines(&self.live);
        let prompt = requests(desk, "session/prompt").pop().unwrap();
        desk.lines(&[answer(&prompt, &self.responses[2])]);
        desk.assert_lawful(Tail::Live);
        self.desk
    }
}

/// The texts of the agent's messages, and the number of tool calls.
fn shown(desk: &Desk) -> (Vec<String>, usize) {
    let items = desk.state().items;
    let messages = items.iter().filter(|item| item.role == Some(Role::Assistant));
    let tools = items.iter().filter(|item| item.kind == ItemKind::Tool).count();
    (messages.filter_map(|item| item.text.clone()).collect(), tools)
}

#[test]
fn history_that_goes_on_after_the_prompt_is_dropped_with_and_without_ids() {
    for agent in AGENTS {
        let makers: [fn(&str) -> Loaded; 3] =
            [Loaded::of, |agent| Loaded::of(agent).without_ids(), Loaded::with_colons];
        for make in makers {
            let replayed = make(agent).replay.len();
            for before in 0..=replayed {
                let desk = make(agent).play(before);
                let expected = ["I read.", "First answer.", "Second answer."].map(str::to_owned);
                assert_eq!(shown(&desk), (expected.to_vec(), 1), "{agent}: {before} of {replayed}");
                assert_eq!(desk.ends(), [DONE, DONE], "{agent}: {before} of {replayed}");
            }
        }
    }
}

/// Its beginning is held back while it may be history, and nothing of it is lost.
#[test]
fn an_answer_that_begins_like_a_message_of_the_history_is_shown() {
    for agent in AGENTS {
        let mut loaded = Loaded::of(agent).without_ids();
        let first = loaded.replay.pop().unwrap();
        let said = |text: &str| {
            let mut line = first.clone();
            line["params"]["update"]["content"]["text"] = json!(text);
            line
        };
        loaded.live = vec![said("First answ"), said("er, or is it?")];
        let before = loaded.replay.len();
        let (texts, _) = shown(&loaded.play(before));
        assert_eq!(texts, ["I read.", "First answer.", "First answer, or is it?"], "{agent}");
    }
}

/// Only the agent knows whether it repeats something. An answer is not lost if it does not.
#[test]
fn an_answer_like_an_earlier_one_is_shown_although_nothing_was_repeated() {
    for agent in AGENTS {
        let mut loaded = Loaded::of(agent).without_ids();
        loaded.live = vec![loaded.replay.pop().unwrap()];
        loaded.replay.clear();
        let desk = loaded.play(0);
        assert_eq!(shown(&desk).0, ["I read.", "First answer.", "First answer."], "{agent}");
        assert_eq!(desk.ends(), [DONE, DONE], "{agent}");
    }
}

/// The turn ends while it is held back.
#[test]
fn an_answer_that_is_the_beginning_of_a_message_of_the_history_is_shown() {
    let mut loaded = Loaded::of(AGENTS[0]).without_ids();
    let mut line = loaded.replay.pop().unwrap();
    line["params"]["update"]["content"]["text"] = json!("First");
    loaded.live = vec![line];
    let before = loaded.replay.len();
    assert_eq!(shown(&loaded.play(before)).0, ["I read.", "First answer.", "First"]);
}

#[test]
fn ids_that_come_again_in_the_next_turn_or_process_are_other_messages_and_calls() {
    for name in ["claude_multi_step", "codex_multi_step", "opencode_acp_1.18.33_multi_step"] {
        let lines = outputs(name);
        let is_prompted = |line: &Value| line["result"]["stopReason"].is_string();
        let end = lines.iter().position(is_prompted).unwrap();
        let updates: Vec<Value> =
            lines[..end].iter().filter(|line| line["method"] == "session/update").cloned().collect();
        let mut desk = opened(name);
        let turn = |desk: &mut Desk, prompt: &str| {
            desk.say(prompt, "Again");
            desk.lines(&updates);
            let sent = requests(desk, "session/prompt").pop().unwrap();
            desk.lines(&[answer(&sent, &lines[end])]);
        };
        turn(&mut desk, "p1");
        let (texts, calls) = shown(&desk);
        assert!(!texts.is_empty() && calls > 0, "{name}");
        turn(&mut desk, "p2");
        desk.exit();
        desk.conversation = conversation(desk.state().session.native_id, "e2");
        desk.drain();
        let greeting = requests(&desk, "initialize").pop().unwrap();
        desk.lines(&[answer(&greeting, &lines[0])]);
        let asked = desk.written.last().unwrap().clone();
        desk.lines(&[answer(&asked, &lines[1])]);
        turn(&mut desk, "p3");
        assert_eq!(desk.ends(), [DONE; 3], "{name}");
        assert_eq!(shown(&desk), ([&texts[..]; 3].concat(), 3 * calls), "{name}");
        let is_revised =
            |event: &turnstream_model::event::Event| matches!(event.draft.body, Body::ItemRevised { .. });
        assert!(!desk.log.iter().any(is_revised), "{name}");
    }
}

/// It does not repeat the session, gives its ids anew, and begins as it did before.
#[test]
fn a_turn_that_begins_like_the_history_of_an_agent_that_repeats_nothing_is_whole() {
    for agent in AGENTS {
        for make in [Loaded::of, |agent: &str| Loaded::of(agent).without_ids()] {
            let mut loaded = make(agent);
            let mut live: Vec<Value> = loaded.replay.drain(..).collect();
            live.retain(|line| line["params"]["update"]["sessionUpdate"] != "user_message_chunk");
            let answer = live.pop().unwrap();
            let expected = ["I read.", "First answer.", "I read.", "Second answer."].map(str::to_owned);
            loaded.live.splice(..0, live.clone());
            assert_eq!(shown(&loaded.play(0)), (expected.to_vec(), 2), "{agent}");
            // The whole turn is like the one before.
            let mut loaded = make(agent);
            loaded.replay.clear();
            live.push(answer);
            loaded.live = live;
            let expected = ["I read.", "First answer.", "I read.", "First answer."].map(str::to_owned);
            assert_eq!(shown(&loaded.play(0)), (expected.to_vec(), 2), "{agent}");
        }
    }
}
