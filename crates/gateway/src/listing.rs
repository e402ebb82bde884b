//! Pages of the list of sessions, with filters and an order.

use crate::error::RequestError;
use crate::gateway::Gateway;
use crate::last_activity::last_time;
use crate::request::SessionInfo;
use crate::session_states::{Place, SessionEntry, Stage, Stretch};
use serde::Serialize;
use std::cmp::Reverse;
use turnstream_model::Chain;
use turnstream_model::fold::Session;
use turnstream_model::id::SessionId;
use turnstream_model::time::Time;

/// A query for a page of sessions. Filters that are `None` let every session through.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// Sessions of this agent.
    pub agent: Option<String>,
    /// Sessions at this stage.
    pub stage: Option<Stage>,
    /// Sessions that work in this directory.
    pub cwd: Option<String>,
    /// Sessions with this text in their title, in upper or lower case.
    pub title: Option<String>,
    /// Sessions whose last activity is at this time or later.
    pub from: Option<Time>,
    /// Sessions whose last activity is before this time.
    pub to: Option<Time>,
    /// The order.
    pub order: Order,
    /// The `next` of the page before.
    pub after: Option<String>,
    /// Most sessions on the page.
    pub limit: usize,
}

/// The order of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Last activity, the newest first.
    #[default]
    Activity,
    /// By id. This order does not change while pages are read.
    Id,
}

/// A page of sessions.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// The sessions.
    pub sessions: Vec<ListedSession>,
    /// The `after` of the next page; `None` on the last page.
    pub next: Option<String>,
}

/// A session in a page.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ListedSession {
    /// The session.
    #[serde(flatten)]
    pub info: SessionInfo,
    /// The time of its last activity.
    pub active: Time,
}

impl Gateway {
    /// A page of sessions. Blocks: the first one reads the log for sessions that were not used since the
    /// start.
    pub fn list(&self, listing: &Listing) -> Result<Listed, RequestError> {
        let Listing { agent, stage, cwd, title, from, to, order, after, limit } = listing;
        let after = after.as_deref().map(|after| place_of(after, *order)).transpose()?;
        let wanted = title.as_deref().map(str::to_lowercase);
        let fits = |session: &Session| {
            let title = || session.title.as_deref().unwrap_or_default().to_lowercase();
            agent.as_ref().is_none_or(|agent| *agent == session.agent)
                && stage.is_none_or(|stage| stage == Stage::of(session))
                && cwd.as_ref().is_none_or(|cwd| *cwd == session.cwd)
                && wanted.as_ref().is_none_or(|wanted| title().contains(wanted))
        };
        for (id, created) in self.states().unread() {
            self.look_up_activity(&id, created);
        }
        let one_more = limit.saturating_add(1);
        let stretch = Stretch { after: after.as_ref(), from: *from, to: *to, limit: one_more };
        let mut places = match order {
            Order::Activity => self.states().by_activity(&stretch, fits),
            Order::Id => self.states().by_id(&stretch, fits),
        };
        let more = places.len() > *limit;
        places.truncate(*limit);
        let next = places.last().filter(|_| more).map(|place| cursor_of(place, *order));
        let sessions = places.into_iter().filter_map(|(Reverse(active), id)| {
            Some(ListedSession { info: self.session_for_list(&id)?, active })
        });
        Ok(Listed { sessions: sessions.collect(), next })
    }

    /// A session that was not deleted, without a look at the log.
    pub fn state_of(&self, id: &SessionId) -> Option<Session> {
        self.states().get(id)
    }

    /// The sessions that are not idle, by id, without a look at the log.
    pub fn sessions_at_work(&self) -> Vec<SessionEntry> {
        self.states().at_work()
    }

    /// Looks at every session that was not deleted, by id, without a look at the log. The look must be quick.
    pub fn for_each_session(&self, look: impl FnMut(&SessionId, &Session)) {
        self.states().for_each(look);
    }

    /// When a session was last active; 0 for one that is gone. Blocks: it may read the log.
    pub fn last_activity(&self, id: &SessionId) -> Time {
        let known = self.states().activity(id);
        known.unwrap_or_else(|| {
            let created = self.states().get(id).and_then(|session| session.created);
            self.look_up_activity(id, created)
        })
    }

    /// The last activity of a session that was not used since the start. If it cannot be read, the session
    /// keeps its place by its creation until it is used again, so this is logged once.
    fn look_up_activity(&self, id: &SessionId, created: Option<Time>) -> Time {
        let last = last_time(self.log(), id).unwrap_or_else(|error| {
            tracing::warn!(session = %id, error = %Chain(&error), "the last activity cannot be read");
            None
        });
        let active = last.or(created).unwrap_or(Time(0));
        self.states().touch(id, active);
        active
    }
}

fn cursor_of((Reverse(active), id): &Place, order: Order) -> String {
    match order {
        Order::Activity => format!("{}-{id}", active.0),
        Order::Id => id.to_string(),
    }
}

fn place_of(cursor: &str, order: Order) -> Result<Place, RequestError> {
    let place = match order {
        Order::Id => Some((Reverse(Time(0)), SessionId::from(cursor))),
        Order::Activity => cursor
            .split_once('-')
            .and_then(|(active, id)| Some((Reverse(Time(active.parse().ok()?)), SessionId::from(id)))),
    };
    place.filter(|(_, id)| !id.as_str().is_empty()).ok_or_else(|| {
        let detail = format!(
            "{cursor:?} is not the `next` of a page in this order; leave it out to start from the first page"
        );
        RequestError::BadCursor(detail)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_in_its_own_order_only() {
        let place = (Reverse(Time(1_794_771_700_000)), SessionId::from("ses_a-b"));
        let cursor = cursor_of(&place, Order::Activity);
        assert_eq!(place_of(&cursor, Order::Activity), Ok(place));
        for bad in ["", "ses_1", "x-ses_1", "12-"] {
            let refused = place_of(bad, Order::Activity);
            assert!(matches!(refused, Err(RequestError::BadCursor(_))), "{bad:?}: {refused:?}");
        }
    }
}
