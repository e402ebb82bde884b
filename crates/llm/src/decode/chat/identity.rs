//! The identity of chat chunks: which members name the completion, as far as the profile trusts them.

use super::{Chat, has_content};
use crate::attempt::{AnomalyKind, SpliceEvidence};
use crate::decode::attempt::Attempt;
use crate::decode::{Place, Relation, Wire};
use crate::profile::{Constancy, Opening};
use crate::wire::chat::{Chunk, Delta};
use crate::wire::filled;

impl Chat {
    pub(super) fn compare(&self, chunk: &Chunk<'_>, attempt: &Attempt) -> Relation {
        let (profile, ours) = (&attempt.profile, &attempt.identity);
        let mut named = false;
        let mut same_id = false;
        if profile.id == Constancy::Constant
            && let (Some(our), Some(their)) = (ours.id.as_deref(), filled(&chunk.id))
        {
            if our != their {
                return Relation::Other(SpliceEvidence::Id);
            }
            (named, same_id) = (true, true);
        }
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
