//! The chat completions format (OpenAI and compatible APIs).
//!
//! Nothing is repeated and nothing is numbered, so a single loss spoils the step. Only the identity in
//! every chunk tells which completion it belongs to.

mod calls;
mod identity;

use crate::attempt::{
    AnomalyKind, Extra, FinishMeaning, Item, ItemNo, ProfileRule, ProviderError, ReasoningData, Repair,
    SpliceEvidence, StreamEvent, ToolCall, ToolCallKind, Transport, WithheldCall, WithheldReason,
};
use crate::decode::attempt::{Attempt, Over};
use crate::decode::calls::{ReceivedCall, commit_calls, empty_arguments};
use crate::decode::{Place, Relation, Wire};
use crate::profile::DoneMarker;
use crate::wire::chat::{Choices, Chunk, Content, Delta, Detail, Part};
use crate::wire::unread::{self, UnreadChoice};
use crate::wire::{ShortList, Str, error, filled, quick, take_filled, usage};
use calls::OpenCall;
use identity::Ids;
use std::borrow::Cow;
use std::ops::Range;
use turnstream_json::Seam;

/// The state of one chat completion.
#[derive(Debug, Default)]
pub(crate) struct Chat {
    text: Option<Written>,
    reasoning: Option<Written>,
    kept: Vec<ReasoningData>,
    /// Members of deltas that are not read, as received.
    unread: Vec<String>,
    calls: Vec<OpenCall>,
    /// The number of tool deltas so far.
    deltas: u64,
    tainted: bool,
    ids: Ids,
    /// Whether the current chunk names the completion by its id.
    named: bool,
    /// Deltas with a role before the first delta without one.
    roles: u32,
    /// Whether a delta without a role came.
    roleless: bool,
    /// Whether the first delta with a role had content.
    opening_spoke: bool,
}

#[derive(Debug)]
struct Written {
    item: ItemNo,
    text: String,
    /// Joins characters that are split between deltas.
    seam: Seam,
}

impl Written {
    /// Appends a delta, and returns what it adds to the text.
    #[inline]
    fn grow<'a>(&mut self, delta: Str<'a>) -> Cow<'a, str> {
        let text = self.seam.join(delta);
        self.text.push_str(&text);
        text
    }

    fn end(&mut self) -> Option<(ItemNo, String)> {
        let lost = self.seam.end()?;
        self.text.push(lost);
        Some((self.item, lost.to_string()))
    }
}

impl Wire for Chat {
    type Event<'a> = Chunk<'a>;

    fn quick(data: &str) -> Option<Chunk<'_>> {
        quick::chat(data)
    }

    fn apply(&mut self, chunk: &mut Chunk<'_>, place: &Place<'_>, attempt: &mut Attempt) {
        if let Some(error) = failure(chunk, place, attempt) {
            return attempt.fail(error, place.range.start);
        }
        match self.relation(chunk, attempt) {
            Relation::Other(evidence) => return self.cut_off(evidence, chunk, place, attempt),
            // The lost bytes may have contained the opening of another completion, which is named only there.
            Relation::Unknown if self.tainted && !chunk.choices.list().is_empty() => {
                return attempt.end_at(Over::Lost, place.range.start);
            }
            Relation::Same | Relation::Unknown => {}
        }
        self.identify(chunk, attempt);
        let mut deltas = chunk.choices.list().iter().filter_map(|choice| choice.delta.as_ref());
        let has_unread = deltas.any(Delta::has_unread);
        let unread = if has_unread { unread::chat(place.data) } else { Vec::new() };
        let mut unread = unread.into_iter();
        let choices = match &mut chunk.choices {
            Choices::Null => {
                attempt.repair(Repair::NullChoices);
                &mut []
            }
            Choices::Absent => &mut [],
            Choices::Of(choices) => choices.as_mut_slice(),
        };
        for choice in choices {
            let unread = unread.next().unwrap_or_default();
            if choice.index.unwrap_or(0) != 0 {
                self.lost(AnomalyKind::OtherChoice, place.range.clone(), attempt);
            } else if choice.delta.is_none() && choice.message.is_some() {
                self.lost(AnomalyKind::UnknownShape, place.range.clone(), attempt);
            } else {
                let text = choice.text.take().filter(|_| choice.delta.is_none());
                let reason = filled(&choice.finish_reason);
                self.choice(choice.delta.as_mut(), text, reason, unread, place, attempt);
            }
            if attempt.over().is_some() {
                return;
            }
            if let Some(raw) = choice.usage {
                attempt.update_usage(usage::chat(raw));
            }
        }
        let elsewhere = chunk.x_groq.as_ref().and_then(|groq| groq.usage);
        if let Some(raw) = chunk.usage.or(elsewhere) {
            attempt.update_usage(usage::chat(raw));
        }
    }

    fn relation(&self, chunk: &Chunk<'_>, attempt: &Attempt) -> Relation {
        self.compare(chunk, attempt)
    }

    fn opens(&self, chunk: &Chunk<'_>) -> bool {
        identity::has_role(chunk)
    }

    fn id(&self, chunk: &Chunk<'_>) -> Option<String> {
        filled(&chunk.id).map(str::to_owned)
    }

    fn lost(&mut self, kind: AnomalyKind, range: Range<u64>, attempt: &mut Attempt) {
        let at = range.end;
        attempt.anomaly(kind, range, self.items());
        self.tainted = true;
        // The lost bytes may have contained the opening of another completion. Only an id can tell.
        if !self.ids.is_constant(attempt.profile.id) {
            attempt.end_at(Over::Lost, at);
        }
    }

    fn done(&mut self, place: &Place<'_>, attempt: &mut Attempt) {
        let without_finish = match attempt.profile.done {
            DoneMarker::WithoutFinish => attempt.opened,
            DoneMarker::Always | DoneMarker::Perhaps => false,
        };
        if (attempt.finish.is_some() || without_finish) && !self.tainted {
            self.close(place.range.clone(), attempt);
        }
        attempt.end_at(Over::Done, place.range.end);
    }

    fn end(&mut self, transport: Transport, attempt: &mut Attempt) {
        if attempt.over().is_none() && transport == Transport::Clean && self.is_finished(attempt) {
            self.close(0..0, attempt);
        }
        if attempt.complete {
            return;
        }
        self.end_halves(attempt);
        let reason = if self.tainted { WithheldReason::Tainted } else { WithheldReason::Open };
        for call in self.calls.drain(..) {
            attempt.withheld.push(WithheldCall { item: call.item, name: call.name, reason });
        }
    }

    fn ends_with(&self, rest: &[u8], attempt: &Attempt) -> bool {
        attempt.finish.is_some() && b"data: [DONE]".starts_with(rest)
    }
}

impl Chat {
    /// Whether only `[DONE]` is missing, which this provider may leave out.
    fn is_finished(&self, attempt: &Attempt) -> bool {
        let needs_done = match attempt.profile.done {
            DoneMarker::Always | DoneMarker::WithoutFinish => true,
            DoneMarker::Perhaps => false,
        };
        attempt.finish.is_some() && !self.tainted && !needs_done
    }

    /// Ends the attempt at a chunk of another completion. Finished items of the first one stay.
    fn cut_off(
        &mut self,
        evidence: SpliceEvidence,
        chunk: &Chunk<'_>,
        place: &Place<'_>,
        attempt: &mut Attempt,
    ) {
        if self.is_finished(attempt) {
            self.close(place.range.clone(), attempt);
        }
        attempt.record_splice(evidence, place.range.start, self.id(chunk));
        attempt.end_at(Over::Spliced, place.range.start);
    }

    fn choice(
        &mut self,
        delta: Option<&mut Delta<'_>>,
        text: Option<Str<'_>>,
        reason: Option<&str>,
        unread: UnreadChoice,
        place: &Place<'_>,
        attempt: &mut Attempt,
    ) {
        if let Some(reason) = reason
            && attempt.profile.error_finishes.iter().any(|known| known == reason)
        {
            return attempt.fail(error_as_content(reason, delta.as_deref(), place), place.range.start);
        }
        if let Some(delta) = delta {
            self.count_role(delta, reason, place, attempt);
            if attempt.finish.is_some() && has_content(delta) {
                return self.lost(AnomalyKind::AfterFinish, place.range.clone(), attempt);
            }
            self.delta(delta, unread, place, attempt);
        }
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            if attempt.finish.is_some() {
                return self.lost(AnomalyKind::AfterFinish, place.range.clone(), attempt);
            }
            if !self.write(text, attempt) {
                return self.too_much(place, attempt);
            }
        }
        let Some(reason) = reason else { return };
        let meaning = meaning(reason);
        attempt.finish(reason, meaning);
        if meaning == FinishMeaning::Failed {
            let message = "the provider gave this as the reason for the end of its answer".to_owned();
            let kind = Some(reason.to_owned());
            let raw = error::beginning(place.data, crate::attempt::Body::LIMIT).to_owned();
            attempt.fail(ProviderError { kind, message, raw, ..ProviderError::default() }, place.range.start);
        }
    }

    fn delta(
        &mut self,
        delta: &mut Delta<'_>,
        unread: UnreadChoice,
        place: &Place<'_>,
        attempt: &mut Attempt,
    ) {
        let mut kept = true;
        if let Some(raw) = unread.delta {
            kept &= attempt.grow(raw.len());
            self.unread.push(raw);
        }
        if let Some(thought) =
            take_filled(&mut delta.reasoning_content).or_else(|| take_filled(&mut delta.reasoning))
        {
            kept &= self.think(thought, attempt);
        } else if let Some(raw) = delta.reasoning_details {
            for thought in details(raw.get()) {
                kept &= self.think(thought, attempt);
            }
        }
        if let Some(raw) = delta.reasoning_details {
            kept &= self.keep(raw.get(), attempt);
        }
        match delta.content.take() {
            Some(Content::Text(text)) => kept &= self.write(text, attempt),
            Some(Content::Parts(parts)) => {
                for part in parts {
                    kept &= self.part(part, attempt);
                }
            }
            None => {}
        }
        if let Some(refusal) = take_filled(&mut delta.refusal) {
            let item = Self::item(&mut self.text, attempt);
            kept &= item.is_some_and(|written| {
                let refusal = written.grow(refusal);
                let (item, length) = (written.item, refusal.len());
                attempt.refusal(item, refusal);
                attempt.grow(length)
            });
        }
        let mut unread = unread.calls.into_iter();
        for call in delta.tool_calls.iter_mut().flat_map(ShortList::as_mut_slice) {
            self.tool_delta(call, unread.next().flatten(), place, attempt);
        }
        if let Some(function) = delta.function_call.as_deref_mut() {
            self.legacy_delta(function, place, attempt);
        }
        if !kept {
            self.too_much(place, attempt);
        }
    }

    fn too_much(&mut self, place: &Place<'_>, attempt: &mut Attempt) {
        self.lost(AnomalyKind::TooMuch, place.range.clone(), attempt);
        attempt.end_at(Over::Lost, place.range.end);
    }

    fn part(&mut self, mut part: Part<'_>, attempt: &mut Attempt) -> bool {
        let mut kept = true;
        match part.thinking {
            Some(Content::Text(thought)) => kept &= self.think(thought, attempt),
            Some(Content::Parts(thoughts)) => {
                for mut thought in thoughts {
                    kept &= self.think(take_filled(&mut thought.text).unwrap_or_default(), attempt);
                }
            }
            None => {}
        }
        kept && self.write(take_filled(&mut part.text).unwrap_or_default(), attempt)
    }

    /// The item of this kind, created with its first delta.
    fn item<'w>(written: &'w mut Option<Written>, attempt: &mut Attempt) -> Option<&'w mut Written> {
        if written.is_none() {
            *written =
                attempt.next_item().map(|item| Written { item, text: String::new(), seam: Seam::default() });
        }
        written.as_mut()
    }

    fn write(&mut self, text: Str<'_>, attempt: &mut Attempt) -> bool {
        if text.is_empty() {
            return true;
        }
        let Some(written) = Self::item(&mut self.text, attempt) else { return false };
        let text = written.grow(text);
        let length = text.len();
        attempt.text(written.item, text);
        attempt.grow(length)
    }

    fn think(&mut self, text: Str<'_>, attempt: &mut Attempt) -> bool {
        if text.is_empty() {
            return true;
        }
        let Some(written) = Self::item(&mut self.reasoning, attempt) else { return false };
        let text = written.grow(text);
        let length = text.len();
        attempt.reasoning(written.item, text);
        attempt.grow(length)
    }

    fn keep(&mut self, raw: &str, attempt: &mut Attempt) -> bool {
        let Some(written) = Self::item(&mut self.reasoning, attempt) else { return false };
        let kept = ReasoningData::Details(raw.to_owned());
        self.kept.push(kept.clone());
        attempt.out.push(StreamEvent::ReasoningData { item: written.item, kept });
        attempt.grow(raw.len())
    }

    /// Ends all texts. Half a character at an end becomes U+FFFD.
    fn end_halves(&mut self, attempt: &mut Attempt) {
        if let Some((item, lost)) = self.reasoning.as_mut().and_then(Written::end) {
            attempt.reasoning(item, lost.into());
        }
        if let Some((item, lost)) = self.text.as_mut().and_then(Written::end) {
            attempt.text(item, lost.into());
        }
        for call in &mut self.calls {
            if let Some(lost) = call.seam.end() {
                call.arguments.push(lost);
                attempt.arguments(call.item, lost.to_string().into());
            }
        }
    }

    fn items(&self) -> impl Iterator<Item = ItemNo> + '_ {
        let written = [&self.reasoning, &self.text].into_iter().flatten().map(|written| written.item);
        written.chain(self.calls.iter().map(|call| call.item))
    }

    /// Commits the completion, which is over and untainted.
    fn close(&mut self, range: Range<u64>, attempt: &mut Attempt) {
        let wants_calls =
            attempt.finish.as_ref().is_some_and(|finish| finish.meaning == FinishMeaning::ToolCalls);
        if wants_calls && self.calls.is_empty() {
            // A whole call was lost (openai-python #2806).
            return self.lost(AnomalyKind::NoSuchItem, range, attempt);
        }
        attempt.complete = true;
        self.end_halves(attempt);
        // Members of deltas belong to the message. Without a text they belong to the reasoning, and never to
        // a call: a request that repeats them there is refused.
        let mut unread = std::mem::take(&mut self.unread);
        let mut extra = || Extra { id: None, unread: std::mem::take(&mut unread) };
        if let Some(Written { item, text, .. }) = self.reasoning.take() {
            let extra = if self.text.is_none() { extra() } else { Extra::default() };
            attempt.commit(Item::Reasoning { item, text, kept: std::mem::take(&mut self.kept), extra });
        }
        if let Some(Written { item, text, .. }) = self.text.take() {
            attempt.commit(Item::Message { item, text, extra: extra() });
        }
        self.commit_unread(unread, attempt);
        let calls = self.calls.drain(..).map(|call| ReceivedCall {
            is_damaged: call.seam.has_lost(),
            call: ToolCall {
                item: call.item,
                id: call.id,
                name: call.name,
                arguments: call.arguments,
                kind: ToolCallKind::Function,
                extra: Extra { id: None, unread: call.unread },
            },
        });
        let (calls, empty) = (calls.collect(), empty_arguments(attempt));
        commit_calls(calls, empty, attempt);
    }

    /// Commits unknown members that belong to no text. Without calls they are the answer, such as images, if
    /// they are more than words.
    fn commit_unread(&self, unread: Vec<String>, attempt: &mut Attempt) {
        let is_content = |raw: &String| raw.contains(":[") || raw.contains(":{");
        let is_kept = if self.calls.is_empty() { unread.iter().any(is_content) } else { !unread.is_empty() };
        if is_kept && let Some(item) = attempt.next_item() {
            let raw = format!("[{}]", unread.join(","));
            attempt.commit(Item::Other { item, kind: "delta".to_owned(), raw, extra: Extra::default() });
        }
    }
}

pub(super) fn has_content(delta: &Delta<'_>) -> bool {
    let content = match &delta.content {
        Some(Content::Text(text)) => !text.is_empty(),
        Some(Content::Parts(parts)) => !parts.as_slice().is_empty(),
        None => false,
    };
    let texts = [&delta.reasoning_content, &delta.reasoning, &delta.refusal];
    content
        || texts.into_iter().any(|text| filled(text).is_some())
        || delta.tool_calls.as_ref().is_some_and(|calls| !calls.as_slice().is_empty())
        || delta.function_call.is_some()
}

/// The texts of a `reasoning_details` array, for providers that send nothing else.
fn details(raw: &str) -> Vec<Str<'_>> {
    let details: ShortList<Detail<'_>> = turnstream_json::from_str(raw).unwrap_or_default();
    let details = details.into_iter();
    details
        .filter_map(|mut detail| take_filled(&mut detail.text).or_else(|| take_filled(&mut detail.summary)))
        .collect()
}

/// The error object of a chunk. It is searched before anything else.
fn failure(chunk: &Chunk<'_>, place: &Place<'_>, attempt: &Attempt) -> Option<ProviderError> {
    let groq = chunk.x_groq.as_ref().and_then(|groq| groq.error);
    let of_choice = chunk.choices.list().iter().find_map(|choice| choice.error);
    let raw = [chunk.error, groq, of_choice].into_iter().flatten().find(|raw| raw.get() != "null");
    if let Some(raw) = raw {
        return Some(error::read(raw.get(), place.data, &attempt.profile));
    }
    let is_error = place.name == "error" || chunk.object.as_deref() == Some("error");
    is_error.then(|| error::read(place.data, place.data, &attempt.profile))
}

fn error_as_content(reason: &str, delta: Option<&Delta<'_>>, place: &Place<'_>) -> ProviderError {
    let message = match delta.and_then(|delta| delta.content.as_ref()) {
        Some(Content::Text(text)) => text.to_string(),
        Some(Content::Parts(_)) | None => String::new(),
    };
    ProviderError {
        kind: Some(reason.to_owned()),
        message,
        profile: Some(ProfileRule::ErrorAsContent),
        raw: error::beginning(place.data, crate::attempt::Body::LIMIT).to_owned(),
        ..ProviderError::default()
    }
}

fn meaning(reason: &str) -> FinishMeaning {
    match reason {
        "stop" => FinishMeaning::Stop,
        "tool_calls" | "function_call" => FinishMeaning::ToolCalls,
        "length" => FinishMeaning::Length,
        "content_filter" => FinishMeaning::ContentFilter,
        // DeepSeek's and Z.ai's words.
        "error" | "insufficient_system_resource" | "network_error" => FinishMeaning::Failed,
        _ => FinishMeaning::Unknown,
    }
}
