//! Whose a chunk is: the members that name a completion, as far as the provider's profile lets them count.

use super::{Chat, has_content};
use crate::attempt::{AnomalyKind, Evidence};
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
                return Relation::Other(Evidence::Id);
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
                return Relation::Other(Evidence::Created);
            }
            named = true;
        }
        if compared(profile.fingerprint)
            && let (Some(our), Some(their)) = (ours.fingerprint.as_deref(), filled(&chunk.system_fingerprint))
            && our != their
        {
            return Relation::Other(Evidence::Fingerprint);
        }
        if !same_id && (self.reopens(chunk, attempt) || self.was_reopened(chunk, attempt)) {
            return Relation::Other(Evidence::Role);
        }
        if named { Relation::Same } else { Relation::Unknown }
    }

    /// Whether a role comes behind deltas without one. Providers that send it with every delta have none of those, and
    /// behind the finish it means nothing.
    fn reopens(&self, chunk: &Chunk<'_>, attempt: &Attempt) -> bool {
        let once = match attempt.profile.opening {
            Opening::FirstOrAll => self.roles <= 1,
            Opening::Anywhere => false,
        };
        once && self.roleless && attempt.finish.is_none() && has_role(chunk)
    }

    /// Whether the role before was already that of another opening: an opening that said something, one more, and then deltas
    /// without a role. Where roles come with all deltas there are none of those.
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
        // Azure sends a chunk with an empty id and no choices in front.
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
            // With the same id it may be a harmless habit, or a proxy that plays the same answer again.
            self.lost(AnomalyKind::SecondOpening, place.range.clone(), attempt);
        }
        if !self.roleless {
            self.opening_spoke |= self.roles == 0 && has_content(delta);
            self.roles = self.roles.saturating_add(1);
        }
    }
}

/// Takes over what was not known.
pub(super) fn fill(ours: &mut Option<String>, theirs: Option<&str>) {
    if ours.is_none() {
        *ours = theirs.map(str::to_owned);
    }
}

pub(super) fn has_role(chunk: &Chunk<'_>) -> bool {
    let deltas = chunk.choices.list().iter().filter_map(|choice| choice.delta.as_ref());
    deltas.into_iter().any(|delta| filled(&delta.role).is_some())
}
