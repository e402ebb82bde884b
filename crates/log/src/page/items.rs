//! A page of folded items, newest first, with their turns and prompts.

use super::window::weight_of_prompt;
use super::{PAGE_BYTES, PageError, Reach, TRIES, Window, WindowQuery, number_of};
use crate::error::ReadError;
use crate::log::{Inner, Log};
use crate::session::Session;
use crate::snapshot::apply;
use crate::weight;
use std::collections::{HashMap, HashSet};
use turnstream_model::cursor::{Generation, Seq};
use turnstream_model::fold::{Approval, Asked, Fold, Item, Prompt, Session as SessionState, State, Turn};
use turnstream_model::id::{ItemId, PromptId, SessionId, TurnId};

/// Bytes of events that are folded at a time.
const AT_ONCE: usize = 1 << 20;

/// A query for a page of items.
#[derive(Clone, Debug)]
pub struct ItemsQuery {
    /// Return items that began before this one. `None` for the newest items. The item itself may have been
    /// superseded, removed or trimmed since.
    pub before: Option<ItemId>,
    /// The largest number of items.
    pub limit: usize,
}

/// Consecutive items.
#[derive(Clone, Debug, PartialEq)]
pub struct ItemsPage {
    /// The log's generation.
    pub generation: Generation,
    /// The first event that is kept; head + 1 if none is.
    pub oldest: Seq,
    /// The last event that the page includes.
    pub head: Seq,
    /// The session at this event.
    pub session: SessionState,
    /// The items, newest first, without superseded and removed ones.
    pub items: Vec<Item>,
    /// The turns of these items and the turns between them, newest first.
    pub turns: Vec<Turn>,
    /// The prompts that these turns took, newest first.
    pub prompts: Vec<Prompt>,
    /// The approvals of these turns, oldest first. On the newest page also all that are open.
    pub approvals: Vec<Approval>,
    /// The questions of these turns, oldest first. On the newest page also all that are open.
    pub questions: Vec<Asked>,
    /// The prompts without an outcome, oldest first. Only on the newest page.
    pub queue: Vec<Prompt>,
    /// Pass this as `before` to get the next page. `None` if there are no older items.
    pub next: Option<ItemId>,
}

impl Log {
    /// Reads a page of items at the head. It may hold fewer than requested if items are large.
    pub fn items_page(&self, id: &SessionId, query: &ItemsQuery) -> Result<ItemsPage, PageError> {
        let session = self.find(id)?;
        let mut tries = 0;
        let mut limit = query.limit;
        loop {
            tries += 1;
            match self.inner().items_page(&session, query, limit) {
                // The session was trimmed during the read.
                Err(PageError::Read(ReadError::Trimmed { .. })) if tries < TRIES => {}
                // Events that are not stored yet have voided some of the stored items. Read more in their
                // place.
                Ok(Read { page, void }) if void > 0 && page.items.len() < query.limit && tries < TRIES => {
                    limit = limit.saturating_add(void);
                }
                read => return read.map(|read| read.page),
            }
        }
    }
}

/// A page, and the number of items read for it that are void.
struct Read {
    page: ItemsPage,
    void: usize,
}

impl Inner {
    fn items_page(&self, session: &Session, query: &ItemsQuery, limit: usize) -> Result<Read, PageError> {
        if session.is_deleted() {
            return Err(ReadError::Unknown(session.id.to_string()).into());
        }
        let oldest = session.oldest();
        let wanted = WindowQuery { before: query.before.clone(), limit };
        let Window { state, tail, reach, until, more } = self.store.window(session.key, &wanted)?;
        let stored: Vec<ItemId> = state.items.iter().map(|item| item.id.clone()).collect();
        let mut fold = Fold::from(state);
        for event in &tail {
            fold.apply(event);
        }
        let head = session.head();
        while fold.state().seq < head {
            let events = self.read_some(session, fold.state().seq.next(), AT_ONCE)?;
            apply(session, &mut fold, &events)?;
        }
        if session.is_deleted() {
            // Rows of a deleted session may already be missing.
            return Err(ReadError::Unknown(session.id.to_string()).into());
        }
        if session.oldest() != oldest {
            let (session, oldest) = (session.id.to_string(), session.oldest());
            return Err(ReadError::Trimmed { session, seq: fold.state().seq, oldest }.into());
        }
        let state = fold.into_state();
        let left: HashSet<&ItemId> = state.items.iter().map(|item| &item.id).collect();
        let void = stored.iter().filter(|id| !left.contains(id)).count();
        let (items, until) = cut(session, &state, query, reach, until, &stored)?;
        let oldest_read = stored.first().filter(|_| more);
        let page = page(session, &state, items, until, oldest_read, query);
        // Only if the item limit ended the read, and not the byte limit or the last item.
        let void = if more && stored.len() == limit { void } else { 0 };
        Ok(Read { page, void })
    }
}

/// The items before the requested one, oldest first, and its turn.
fn cut<'a>(
    session: &Session,
    state: &'a State,
    query: &ItemsQuery,
    reach: Reach,
    until: Option<TurnId>,
    stored: &[ItemId],
) -> Result<(Vec<&'a Item>, Option<TurnId>), PageError> {
    let Some(before) = &query.before else { return Ok((state.items.iter().collect(), None)) };
    if reach == Reach::Stored {
        let stored: HashSet<&ItemId> = stored.iter().collect();
        return Ok((state.items.iter().filter(|item| stored.contains(&item.id)).collect(), until));
    }
    if let Some(place) = state.items.iter().position(|item| item.id == *before) {
        return Ok((state.items[..place].iter().collect(), state.items[place].turn.clone()));
    }
    match number_of(before.as_str()) {
        Some(number) if number <= state.counters.items => {
            let is_before = |item: &&Item| number_of(item.id.as_str()).is_none_or(|its| its < number);
            Ok((state.items.iter().filter(is_before).collect(), None))
        }
        _ => Err(PageError::UnknownItem { session: session.id.to_string(), item: before.clone() }),
    }
}

fn page(
    session: &Session,
    state: &State,
    items: Vec<&Item>,
    until: Option<TurnId>,
    oldest_read: Option<&ItemId>,
    query: &ItemsQuery,
) -> ItemsPage {
    let prompts: HashMap<&PromptId, &Prompt> =
        state.prompts.iter().map(|prompt| (&prompt.prompt, prompt)).collect();
    let places: HashMap<&TurnId, usize> =
        state.turns.iter().enumerate().map(|(place, turn)| (&turn.turn, place)).collect();
    let taken = fitting(&items, state, &places, &prompts, query.limit);
    let next = if taken < items.len() {
        items.get(items.len() - taken).map(|item| item.id.clone())
    } else {
        // The oldest item that was read, even if it is void now.
        oldest_read.cloned()
    };
    let items: Vec<Item> = items[items.len() - taken..].iter().rev().map(|item| (*item).clone()).collect();
    let of_items = items.iter().filter_map(|item| places.get(item.turn.as_ref()?).copied());
    let first = if next.is_some() { of_items.clone().min() } else { Some(0) };
    let end = match &query.before {
        None => state.turns.len().checked_sub(1),
        Some(_) => until.and_then(|turn| places.get(&turn).copied()).max(of_items.max()),
    };
    let turns: Vec<Turn> = match (first, end) {
        (Some(first), Some(end)) if first <= end => state.turns[first..=end].iter().rev().cloned().collect(),
        _ => Vec::new(),
    };
    let said = turns.iter().flat_map(|turn| turn.prompts.iter().rev());
    let prompts = said.filter_map(|id| prompts.get(id).map(|prompt| (*prompt).clone())).collect();
    let (generation, oldest, head) = (session.generation.clone(), session.oldest(), state.seq);
    let is_newest = query.before.is_none();
    let shown: HashSet<&TurnId> = turns.iter().map(|turn| &turn.turn).collect();
    let is_of_page = |turn: &Option<TurnId>, is_open: bool| {
        (is_newest && is_open) || turn.as_ref().is_some_and(|turn| shown.contains(turn))
    };
    let approvals =
        state.approvals.iter().filter(|ask| is_of_page(&ask.turn, ask.is_open())).cloned().collect();
    let questions =
        state.questions.iter().filter(|asked| is_of_page(&asked.turn, asked.is_open())).cloned().collect();
    let queue = if is_newest { state.queue.clone() } else { Vec::new() };
    let session = state.session.clone();
    ItemsPage { generation, oldest, head, session, items, turns, prompts, approvals, questions, queue, next }
}

/// How many of the newest items fit on a page together with their prompts; at least one.
fn fitting(
    items: &[&Item],
    state: &State,
    places: &HashMap<&TurnId, usize>,
    prompts: &HashMap<&PromptId, &Prompt>,
    limit: usize,
) -> usize {
    let (mut bytes, mut seen) = (0, HashSet::new());
    let fits = |item: &&&Item| {
        let is_first = bytes == 0;
        bytes += weight::item(item);
        if let Some(turn) = item.turn.as_ref().filter(|turn| seen.insert((*turn).clone()))
            && let Some(&place) = places.get(turn)
        {
            let said = state.turns[place].prompts.iter().filter_map(|id| prompts.get(id));
            bytes += said.map(|prompt| weight_of_prompt(prompt)).sum::<usize>();
        }
        is_first || bytes <= PAGE_BYTES
    };
    items.iter().rev().take(limit).take_while(fits).count()
}
