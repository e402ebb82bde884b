//! Assigns tool deltas to calls.

use super::Chat;
use super::identity::fill;
use crate::attempt::{AnomalyKind, ItemNo, Repair};
use crate::decode::attempt::Attempt;
use crate::decode::calls::is_object;
use crate::decode::{Place, Wire};
use crate::profile::CallIndex;
use crate::wire::chat::{FunctionDelta, ToolDelta};
use crate::wire::{Str, filled, take_filled};
use turnstream_json::Seam;

/// A call that is being received.
#[derive(Debug)]
pub(super) struct OpenCall {
    pub(super) item: ItemNo,
    pub(super) index: Option<u32>,
    pub(super) id: Option<String>,
    pub(super) name: String,
    pub(super) arguments: String,
    /// Joins characters that are split between deltas.
    pub(super) seam: Seam,
    /// Members of its deltas that are not read, as received.
    pub(super) unread: Vec<String>,
    /// The number of its last delta, counted over all tool deltas.
    last_delta: u64,
}

/// The call that a tool delta belongs to.
enum Slot {
    Open(usize),
    New,
    Nowhere(AnomalyKind),
}

impl Chat {
    pub(super) fn tool_delta(
        &mut self,
        delta: &mut ToolDelta<'_>,
        unread: Option<String>,
        place: &Place<'_>,
        attempt: &mut Attempt,
    ) {
        let mut empty = FunctionDelta::default();
        let FunctionDelta { name, arguments, has_unknown: _ } = delta.function.as_mut().unwrap_or(&mut empty);
        let (id, called) = (filled(&delta.id), filled(name));
        if delta.id.as_deref().is_some_and(str::is_empty) || name.as_deref().is_some_and(str::is_empty) {
            attempt.repair(Repair::EmptyMember);
        }
        if delta.index.is_none() {
            attempt.repair(Repair::MissingIndex);
        }
        let is_whole = || called.is_some() && arguments.as_deref().is_some_and(is_object);
        let slot = match self.slot(delta.index, id, called, is_whole, attempt.profile.call_index) {
            Slot::Open(slot) => {
                self.continue_call(slot, id, called, take_filled(arguments), place, attempt);
                slot
            }
            Slot::New => {
                self.begin_call(delta.index, id, called, take_filled(arguments), place, attempt);
                self.calls.len().saturating_sub(1)
            }
            Slot::Nowhere(kind) => return self.lost(kind, place.range.clone(), attempt),
        };
        if let (Some(call), Some(raw)) = (self.calls.get_mut(slot), unread) {
            if !attempt.grow(raw.len()) {
                return self.too_much(place, attempt);
            }
            call.unread.push(raw);
        }
    }

    fn slot(
        &self,
        index: Option<u32>,
        id: Option<&str>,
        name: Option<&str>,
        is_whole: impl Fn() -> bool,
        shared: CallIndex,
    ) -> Slot {
        let by_id = || id.and_then(|id| self.calls.iter().position(|call| call.id.as_deref() == Some(id)));
        let opening = id.is_some() || name.is_some();
        let Some(index) = index else {
            return match (by_id(), self.calls.last()) {
                (Some(slot), _) => Slot::Open(slot),
                (None, _) if opening => Slot::New,
                // Calls without indexes come one after the other. With indexes the delta is ambiguous.
                (None, Some(last)) if last.index.is_none() || self.calls.len() == 1 => {
                    self.if_last(self.calls.len() - 1, |_| true)
                }
                (None, Some(_)) => Slot::Nowhere(AnomalyKind::Conflict),
                (None, None) => Slot::Nowhere(AnomalyKind::NoSuchItem),
            };
        };
        let Some(slot) = self.calls.iter().rposition(|call| call.index == Some(index)) else {
            return if opening { Slot::New } else { Slot::Nowhere(AnomalyKind::NoSuchItem) };
        };
        let differs = matches!((&self.calls[slot].id, id), (Some(ours), Some(theirs)) if ours != theirs);
        match shared {
            CallIndex::Shared if !opening => self.if_last(slot, |call| call.index == Some(index)),
            // Two calls have the index, so the delta is ambiguous.
            CallIndex::SharedByWhole
                if !opening && self.calls.iter().filter(|call| call.index == Some(index)).count() > 1 =>
            {
                Slot::Nowhere(AnomalyKind::Conflict)
            }
            CallIndex::Shared | CallIndex::SharedByWhole | CallIndex::Distinct if !differs => {
                Slot::Open(slot)
            }
            CallIndex::SharedByWhole
                if self.named
                    && by_id().is_none()
                    && is_object(&self.calls[slot].arguments)
                    && is_whole() =>
            {
                Slot::New
            }
            CallIndex::Distinct | CallIndex::SharedByWhole => Slot::Nowhere(AnomalyKind::Conflict),
            CallIndex::Shared => by_id().map_or(Slot::New, Slot::Open),
        }
    }

    /// A delta that names no call continues the last candidate. If an earlier candidate got a delta since,
    /// the target is ambiguous.
    fn if_last(&self, slot: usize, can_be: impl Fn(&OpenCall) -> bool) -> Slot {
        let last_delta = self.calls[slot].last_delta;
        match self.calls.iter().any(|call| call.last_delta > last_delta && can_be(call)) {
            true => Slot::Nowhere(AnomalyKind::Conflict),
            false => Slot::Open(slot),
        }
    }

    fn begin_call(
        &mut self,
        index: Option<u32>,
        id: Option<&str>,
        name: Option<&str>,
        arguments: Option<Str<'_>>,
        place: &Place<'_>,
        attempt: &mut Attempt,
    ) {
        let Some(item) = attempt.next_item() else { return self.too_much(place, attempt) };
        let (name_yet, arguments_yet) = (String::new(), String::new());
        self.calls.push(OpenCall {
            item,
            index,
            id: None,
            name: name_yet,
            arguments: arguments_yet,
            seam: Seam::default(),
            unread: Vec::new(),
            last_delta: 0,
        });
        self.continue_call(self.calls.len() - 1, id, name, arguments, place, attempt);
    }

    fn continue_call(
        &mut self,
        slot: usize,
        id: Option<&str>,
        name: Option<&str>,
        arguments: Option<Str<'_>>,
        place: &Place<'_>,
        attempt: &mut Attempt,
    ) {
        let call = &mut self.calls[slot];
        self.deltas += 1;
        call.last_delta = self.deltas;
        let fresh_id = id.filter(|_| call.id.is_none()).map_or(0, str::len);
        let fresh_name = name.filter(|_| call.name.is_empty()).map_or(0, str::len);
        if !attempt.grow(fresh_id + fresh_name + arguments.as_deref().map_or(0, str::len)) {
            return self.too_much(place, attempt);
        }
        fill(&mut call.id, id);
        match name {
            Some(name) if call.name.is_empty() => {
                call.name.push_str(name);
                attempt.call_started(call.item, call.id.as_deref(), name);
            }
            Some(name) if call.name != name => {
                return self.lost(AnomalyKind::Conflict, place.range.clone(), attempt);
            }
            Some(_) | None => {}
        }
        if let Some(arguments) = arguments {
            let arguments = call.seam.join(arguments);
            call.arguments.push_str(&arguments);
            attempt.arguments(call.item, arguments);
        }
    }

    /// Handles `function_call`, the predecessor of tool calls. An answer has at most one.
    pub(super) fn legacy_delta(
        &mut self,
        function: &mut FunctionDelta<'_>,
        place: &Place<'_>,
        attempt: &mut Attempt,
    ) {
        let (name, arguments) = (filled(&function.name), take_filled(&mut function.arguments));
        match (self.calls.len(), name) {
            (0, Some(_)) => self.begin_call(None, None, name, arguments, place, attempt),
            (0, None) => self.lost(AnomalyKind::NoSuchItem, place.range.clone(), attempt),
            (1, _) => self.continue_call(0, None, name, arguments, place, attempt),
            (_, _) => self.lost(AnomalyKind::Conflict, place.range.clone(), attempt),
        }
    }
}
