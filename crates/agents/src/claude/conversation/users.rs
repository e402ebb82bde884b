//! Lines of the type `user`: results of tools, echoes of prompts, and texts in the user's name.

use super::{Conversation, KnownCall};
use crate::claude::wire::{Block, Content, Line};
use serde_json::Value;
use turnstream_model::event::{Field, ItemKind, ItemState, Role, ToolStatus};
use turnstream_model::id::Key;
use turnstream_model::signal::{Finality, ItemSeen, Signal};

impl Conversation {
    pub(super) fn user(&mut self, line: Line<'_>) {
        let Some(message) = line.message else { return };
        let parent = line.parent_tool_use_id.as_deref();
        let key = Key::from(&*line.uuid);
        match message.content {
            Content::Blocks(blocks) => {
                let (results, texts): (Vec<Block>, Vec<Block>) =
                    blocks.into_iter().partition(Block::is_result);
                for result in &results {
                    self.tool_result(result, line.tool_use_result.as_ref(), parent);
                }
                if line.is_replay {
                    self.echo(&line.uuid);
                } else if line.is_synthetic && results.is_empty() && parent.is_none() {
                    let text: String = texts.into_iter().filter_map(|block| block.text).collect();
                    self.in_users_name(key, text);
                }
                // Other texts are the prompt of a subagent, which its call has, or the mark of an interrupt.
            }
            Content::Text(text) if parent.is_none() && (line.is_synthetic || line.is_replay) => {
                match self.compaction.clone().filter(|_| line.is_synthetic) {
                    Some(compaction) => {
                        let (field, finality) = (Field::Text, Finality::Final);
                        self.signal(Signal::TextSnapshot { key: compaction, field, text, finality });
                        self.end_compaction();
                    }
                    // Also the output of a local command, such as `/compact`.
                    None => self.in_users_name(key, text),
                }
            }
            Content::Text(_) => {}
        }
    }

    /// The agent repeats a prompt that it has read. The prompt may have joined the open turn.
    fn echo(&mut self, uuid: &str) {
        let Some(place) = self.prompts.iter().position(|prompt| prompt.native_id == uuid) else { return };
        match &mut self.turn {
            Some(turn) => {
                turn.prompts.push(uuid.to_owned());
                let unwanted = self.prompts.remove(place).is_some_and(|prompt| prompt.unwanted);
                self.signal(Signal::PromptTaken(uuid.to_owned()));
                if unwanted {
                    self.interrupt();
                }
            }
            // A turn may follow, or an idle: then the agent had the prompt already.
            None => self.prompts[place].echoed = true,
        }
    }

    /// A text that the agent wrote in the user's name. It neither begins nor ends a turn.
    fn in_users_name(&mut self, key: Key, text: String) {
        if self.turn.is_none() || text.is_empty() {
            return;
        }
        let (kind, role, parent) = (ItemKind::Message, Some(Role::User), None);
        self.signal(Signal::ItemSeen(ItemSeen { key: key.clone(), kind, role, parent, synthetic: true }));
        let (field, finality) = (Field::Text, Finality::Final);
        self.signal(Signal::TextSnapshot { key: key.clone(), field, text, finality });
        self.signal(Signal::ItemEnded { key, state: ItemState::Completed, reason: None });
    }

    pub(super) fn tool_result(&mut self, block: &Block, details: Option<&Value>, parent: Option<&str>) {
        let Some(id) = block.tool_use_id.as_deref() else { return };
        let known = self.calls.remove(id);
        // A result without its call and without a turn would look like the beginning of one.
        if known.is_none() && self.turn.is_none() {
            return;
        }
        // A foreground subagent has ended with its call.
        self.threads.remove(&Some(id.to_owned()));
        let (key, is_main) = (Key::from(id), parent.is_none());
        let call = known.map(|KnownCall { call, .. }| call).unwrap_or_default();
        let tool = call.result(block, details);
        // The agent says of every interrupted call that it was refused, also if it ran. So its text is not
        // shown (capture e_interrupt_mid_tool_short).
        let is_unknown = tool.status == Some(ToolStatus::Failed)
            && self.turn.as_ref().is_some_and(|turn| turn.interrupted && !turn.refused.contains(id));
        if is_unknown {
            let reason = Some("interrupted".to_owned());
            return self.signal(Signal::ItemEnded { key, state: ItemState::Unknown, reason });
        }
        let parent = parent.map(Key::from);
        self.signal(Signal::ToolSeen { key: key.clone(), parent, tool });
        if let Some(text) =
            details.filter(|_| is_main).and_then(|details| self.plan.apply(&call.name, details))
        {
            self.show_plan(&key, text);
        }
    }

    /// Shows the task list. There is one per turn, under the key of the call that first changed it.
    fn show_plan(&mut self, call: &Key, text: String) {
        let Some(turn) = &mut self.turn else { return };
        let key = turn.plan.get_or_insert_with(|| Key::from(format!("{}:plan", call.as_str()))).clone();
        let (kind, role, parent, synthetic) = (ItemKind::Plan, None, None, false);
        self.signal(Signal::ItemSeen(ItemSeen { key: key.clone(), kind, role, parent, synthetic }));
        let (field, finality) = (Field::Text, Finality::Final);
        self.signal(Signal::TextSnapshot { key, field, text, finality });
    }
}
