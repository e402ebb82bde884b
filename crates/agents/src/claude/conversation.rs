//! stub
use serde_json::Value;
use turnstream_adapter::{Command, Observed, RefusedBlock};
use turnstream_model::event::TurnError;
use turnstream_model::time::Time;
#[derive(Default)]
pub(super) struct ConversationSettings {}
pub(super) struct Conversation {}
pub(super) fn check_block(_block: &Value) -> Result<(), RefusedBlock> {
    Ok(())
}
impl Conversation {
    pub(super) fn new(_s: ConversationSettings) -> Self {
        Self {}
    }
    pub(super) fn command(&mut self, _c: Command, _now: Time) {}
    pub(super) fn line(&mut self, _l: &[u8], _now: Time) {}
    pub(super) fn oversized(&mut self, _b: u64, _now: Time) {}
    pub(super) fn exited(&mut self, _e: TurnError) {}
    pub(super) fn deadline(&self) -> Option<Time> {
        None
    }
    pub(super) fn tick(&mut self, _now: Time) {}
    pub(super) fn observed(&mut self, _o: Observed) {}
    pub(super) fn next_observed(&mut self) -> Option<Observed> {
        None
    }
    pub(super) fn next_line(&mut self) -> Option<String> {
        None
    }
}
