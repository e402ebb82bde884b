//! The identity of chat chunks: which members name the completion, as far as the profile trusts them.

use super::{Chat, has_content};
use crate::attempt::{AnomalyKind, SpliceEvidence};
use crate::decode::attempt::Attempt;
use crate::decode::{Place, Relation, Wire};
use crate::profile::{ChunkId, Constancy, Opening};
use crate::wire::chat::{Chunk, Delta};
use crate::wire::filled;

/// The ids of the chunks so far.
#[derive(Debug, Default)]
pub(super) struct Ids {
    /// The number of chunks with an id.
    count: u64,
    /// The id of the last one.
    last: Option<String>,
    /// Whether the first two differ.
    differ: bool,
    /// Whether a chunk with an id had content.
    had_content: bool,
}

/// What the id of the next chunk must be.
enum IdRule<'a> {
    Equals(&'a str),
    Differs(&'a str),
}

impl Ids {
    fn add(&mut self, id: &str) {
        if self.last.as_deref() != Some(id) {
            self.differ |= self.count == 1;
            self.last = Some(id.to_owned());
        }
        self.count += 1;
    }

    /// The rule for the next chunk; `None` if its id proves nothing.
    fn known<'a>(&'a self, id: ChunkId, first: Option<&'a str>) -> Option<IdRule<'a>> {
        let last = self.last.as_deref();
        match id {
            ChunkId::Constant => first.map(IdRule::Equals),
            // The opening chunk has no content. If it had, a splice could not be told from it.
            ChunkId::AfterFirst if self.count == 1 && !self.had_content => None,
            ChunkId::AfterFirst => last.map(IdRule::Equals),
            ChunkId::ConstantOrPerChunk if self.count < 2 => None,
            ChunkId::ConstantOrPerChunk if self.differ => last.map(IdRule::Differs),
            ChunkId::ConstantOrPerChunk => last.map(IdRule::Equals),
            ChunkId::Varies => None,
        }
    }

    /// Whether the id names the completion.
    pub(super) fn is_constant(&self, id: ChunkId) -> bool {
        match id {
            ChunkId::Constant => self.count > 0,
            ChunkId::AfterFirst => self.count > 1,
            ChunkId::ConstantOrPerChunk => self.count > 1 && !self.differ,
            ChunkId::Varies => false,
        }
    }
}

impl Chat {
    pub(super) fn compare(&self, chunk: &Chunk<'_>, attempt: &Attempt) -> Relation {
        let (profile, ours) = (&attempt.profile, &attempt.identity);
        let same_id = match (self.ids.known(profile.id, ours.id.as_deref()), filled(&chunk.id)) {
            (Some(IdRule::Equals(our)), Some(their)) if our != their => {
                return Relation::Other(SpliceEvidence::Id);
            }
            (Some(IdRule::Equals(_)), Some(_)) => true,
            (Some(IdRule::Differs(last)), Some(their)) if last == their => {
                return Relation::Other(SpliceEvidence::Id);
            }
            // Content without an id, after content with one.
            (Some(_), None) if self.ids.had_content && chunk_has_content(chunk) => {
                return Relation::Other(SpliceEvidence::Id);
            }
            (Some(_) | None, _) => false,
        };
        let mut named = same_id;
        let compared = |constancy| match constancy {
            Constancy::Constant => true,
            Constancy::WithoutId => !same_id,
            Constancy::Varies => false,
        };
        if compared(profile.created)
            && let (Some(our), Some(their)) = (ours.created, chunk.created.0.filter(|time| *time != 0))
        {
            if our != their {
                return Relation::Other(SpliceEvidence::Created);
            }
            named = true;
        }
        if compared(profile.fingerprint)
            && let (Some(our), Some(their)) = (ours.fingerprint.as_deref(), filled(&chunk.system_fingerprint))
            && our != their
        {
            return Relation::Other(SpliceEvidence::Fingerprint);
        }
        if !same_id && (self.reopens(chunk, attempt) || self.was_reopened(chunk, attempt)) {
            return Relation::Other(SpliceEvidence::Role);
        }
        if named { Relation::Same } else { Relation::Unknown }
    }

    /// Whether a role follows deltas without one. Providers that send it with every delta have no such
    /// deltas, and after the finish a role means nothing.
    fn reopens(&self, chunk: &Chunk<'_>, attempt: &Attempt) -> bool {
        let once = match attempt.profile.opening {
            Opening::FirstOrAll => self.roles <= 1,
            Opening::Anywhere => false,
        };
        once && self.roleless && attempt.finish.is_none() && has_role(chunk)
    }

    /// Whether the previous role was already a second opening: an opening with content, another opening,
    /// and then a delta without a role. Providers that send the role with every delta have no such deltas.
    fn was_reopened(&self, chunk: &Chunk<'_>, attempt: &Attempt) -> bool {
        let twice = match attempt.profile.opening {
            Opening::FirstOrAll => self.roles == 2 && self.opening_spoke && !self.roleless,
            Opening::Anywhere => false,
        };
        let mut choices = chunk.choices.list().iter();
        twice
            && choices.any(|choice| {
                let roleless = choice.delta.as_ref().is_some_and(|delta| filled(&delta.role).is_none());
                roleless && filled(&choice.finish_reason).is_none()
            })
    }

    pub(super) fn identify(&mut self, chunk: &Chunk<'_>, attempt: &mut Attempt) {
        let ours = &mut attempt.identity;
        fill(&mut ours.id, filled(&chunk.id));
        self.named = false;
        if let Some(id) = filled(&chunk.id) {
            // The first chunk's id is the gateway's own.
            if self.ids.count == 1 && attempt.profile.id == ChunkId::AfterFirst {
                ours.id = Some(id.to_owned());
            }
            self.ids.add(id);
            self.ids.had_content = self.ids.had_content || chunk_has_content(chunk);
            self.named = self.ids.is_constant(attempt.profile.id);
        }
        fill(&mut ours.model, filled(&chunk.model));
        fill(&mut ours.fingerprint, filled(&chunk.system_fingerprint));
        ours.created = ours.created.or(chunk.created.0.filter(|time| *time != 0));
        // Azure first sends a chunk with an empty id and no choices.
        if !attempt.opened && (attempt.identity.id.is_some() || !chunk.choices.list().is_empty()) {
            attempt.open();
        }
    }

    pub(super) fn count_role(
        &mut self,
        delta: &Delta<'_>,
        reason: Option<&str>,
        place: &Place<'_>,
        attempt: &mut Attempt,
    ) {
        if filled(&delta.role).is_none() {
            self.roleless |= reason.is_none();
            return;
        }
        let once = attempt.profile.opening == Opening::FirstOrAll && self.roles == 1;
        if self.roleless && once && attempt.finish.is_none() {
            // With the same id this may be harmless, or a proxy that replays the answer.
            self.lost(AnomalyKind::SecondOpening, place.range.clone(), attempt);
        }
        if !self.roleless {
            self.opening_spoke |= self.roles == 0 && has_content(delta);
            self.roles = self.roles.saturating_add(1);
        }
    }
}

/// Sets a member that is not known yet.
pub(super) fn fill(ours: &mut Option<String>, theirs: Option<&str>) {
    if ours.is_none() {
        *ours = theirs.map(str::to_owned);
    }
}

pub(super) fn has_role(chunk: &Chunk<'_>) -> bool {
    let deltas = chunk.choices.list().iter().filter_map(|choice| choice.delta.as_ref());
    deltas.into_iter().any(|delta| filled(&delta.role).is_some())
}

fn chunk_has_content(chunk: &Chunk<'_>) -> bool {
    chunk
        .choices
        .list()
        .iter()
        .any(|choice| filled(&choice.text).is_some() || choice.delta.as_ref().is_some_and(has_content))
}
