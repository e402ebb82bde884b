//! What the gateway hands out beside its own token: login codes, tokens of pages, and tickets for streams.
//!
//! | what | for | life |
//! |---|---|---|
//! | login code | a page gets its token | 10 minutes, one use; in memory only |
//! | page token | everything a page does | 7 days |
//! | ticket | one kind of thing: opening event streams | first use within 60 s, then 12 h |
//!
//! All of them end when the gateway's own token is replaced. Only fingerprints are kept, in a file, so that
//! pages stay signed in and streams reconnect when the gateway was restarted.

use super::token::{Fingerprint, NoRandomness, secret};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long a login code can be used.
pub(crate) const CODE_LIFE: Duration = Duration::from_secs(10 * 60);
/// How long a page stays signed in.
const PAGE_LIFE: Duration = Duration::from_secs(7 * 24 * 3600);
/// Until a ticket must have been used once.
pub(crate) const TICKET_FIRST_USE: Duration = Duration::from_secs(60);
/// How long a ticket opens streams after its first use.
const TICKET_LIFE: Duration = Duration::from_secs(12 * 3600);
/// The most of each kind. With more, the oldest end.
const MOST: usize = 1_000;

/// What was handed out and still opens something.
#[derive(Debug)]
pub(crate) struct Issued {
    state: Mutex<State>,
    /// Where page tokens and used tickets are kept.
    file: Option<PathBuf>,
    /// Held while the file is written.
    writing: Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    codes: HashMap<Fingerprint, Instant>,
    unused_tickets: HashMap<Fingerprint, UnusedTicket>,
    kept: Kept,
}

#[derive(Debug)]
struct UnusedTicket {
    made: Instant,
    session: Option<String>,
    name: String,
    parent: Fingerprint,
}

/// The content of the file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Kept {
    pages: Vec<PageToken>,
    tickets: Vec<UsedTicket>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct PageToken {
    /// The fingerprint, as text.
    token: String,
    name: String,
    /// The fingerprint of the gateway's own token when the page signed in.
    owner: String,
    /// Milliseconds since 1970.
    expires: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct UsedTicket {
    ticket: String,
    session: Option<String>,
    name: String,
    /// The fingerprint of the token that asked for it.
    parent: String,
    expires: u64,
}

/// A token for a page.
pub(crate) struct SignedIn {
    pub(crate) token: String,
    pub(crate) name: String,
    /// Milliseconds since 1970.
    pub(crate) expires: u64,
}

/// What a ticket opens, and for whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TicketHolder {
    pub(crate) name: String,
    /// The only session whose streams it opens.
    pub(crate) session: Option<String>,
}

impl Issued {
    /// Reads what an earlier process kept. A file that cannot be read only makes pages sign in again.
    pub(crate) fn open(file: Option<PathBuf>) -> Self {
        let kept = file.as_deref().map_or_else(Kept::default, |path| {
            read(path).unwrap_or_else(|error| {
                tracing::warn!(%error, path = %path.display(), "signed-in pages are forgotten");
                Kept::default()
            })
        });
        Self { state: Mutex::new(State { kept, ..State::default() }), file, writing: Mutex::default() }
    }

    /// A new login code.
    pub(crate) fn new_code(&self) -> Result<String, NoRandomness> {
        let code = secret("tsl_")?;
        self.with(|state| {
            bound(&mut state.codes, |made| made);
            state.codes.insert(Fingerprint::of(&code), Instant::now());
        });
        Ok(code)
    }

    /// Exchanges a login code for a page token. `None`: the code is wrong, was used, or is too old.
    pub(crate) fn sign_in(&self, code: &str, owner: Fingerprint) -> Result<Option<SignedIn>, NoRandomness> {
        let made = self.with(|state| state.codes.remove(&Fingerprint::of(code)));
        if made.is_none_or(|made| made.elapsed() >= CODE_LIFE) {
            return Ok(None);
        }
        let token = secret("tst_")?;
        let fingerprint = Fingerprint::of(&token).to_text();
        let tag: String = fingerprint.chars().filter(char::is_ascii_alphanumeric).take(6).collect();
        let page = PageToken {
            name: format!("page-{}", tag.to_ascii_lowercase()),
            token: fingerprint,
            owner: owner.to_text(),
            expires: after(PAGE_LIFE),
        };
        let signed_in = SignedIn { token, name: page.name.clone(), expires: page.expires };
        self.with(|state| state.kept.pages.push(page));
        self.save();
        Ok(Some(signed_in))
    }

    /// The name of the page with this token.
    pub(crate) fn page(&self, token: Fingerprint, owner: Fingerprint) -> Option<String> {
        let (token, owner, now) = (token.to_text(), owner.to_text(), after(Duration::ZERO));
        self.with(|state| {
            let is_it = |page: &&PageToken| page.token == token && page.owner == owner && page.expires > now;
            state.kept.pages.iter().find(is_it).map(|page| page.name.clone())
        })
    }

    /// Ends a page token. Whether there was one.
    pub(crate) fn sign_out(&self, token: Fingerprint) -> bool {
        let token = token.to_text();
        let is_ended = self.with(|state| {
            let before = state.kept.pages.len();
            state.kept.pages.retain(|page| page.token != token);
            state.kept.pages.len() < before
        });
        if is_ended {
            self.save();
        }
        is_ended
    }

    /// A ticket for the holder of a token.
    pub(crate) fn new_ticket(
        &self,
        parent: Fingerprint,
        name: String,
        session: Option<String>,
    ) -> Result<String, NoRandomness> {
        let ticket = secret("tsq_")?;
        self.with(|state| {
            state.unused_tickets.retain(|_, unused| unused.made.elapsed() < TICKET_FIRST_USE);
            bound(&mut state.unused_tickets, |unused| &unused.made);
            let unused = UnusedTicket { made: Instant::now(), session, name, parent };
            state.unused_tickets.insert(Fingerprint::of(&ticket), unused);
        });
        Ok(ticket)
    }

    /// What a ticket opens, if it is valid. The first use starts its life.
    pub(crate) fn use_ticket(&self, ticket: &str, owner: Fingerprint) -> Option<TicketHolder> {
        let fingerprint = Fingerprint::of(ticket);
        let (text, now) = (fingerprint.to_text(), after(Duration::ZERO));
        let (used, parent, is_first) = self.with(|state| {
            let known = state.kept.tickets.iter().find(|used| used.ticket == text && used.expires > now);
            if let Some(used) = known {
                return Some((used.clone(), Fingerprint::from_text(&used.parent)?, false));
            }
            let unused = state.unused_tickets.remove(&fingerprint)?;
            if unused.made.elapsed() >= TICKET_FIRST_USE {
                return None;
            }
            let UnusedTicket { session, name, parent, .. } = unused;
            let (parent_text, expires) = (parent.to_text(), after(TICKET_LIFE));
            let used = UsedTicket { ticket: text, session, name, parent: parent_text, expires };
            state.kept.tickets.push(used.clone());
            Some((used, parent, true))
        })?;
        if is_first {
            self.save();
        }
        self.is_valid_parent(parent, owner).then_some(TicketHolder { name: used.name, session: used.session })
    }

    /// Whether a ticket that was used before still opens streams.
    pub(crate) fn is_ticket_valid(&self, ticket: Fingerprint, owner: Fingerprint) -> bool {
        let (text, now) = (ticket.to_text(), after(Duration::ZERO));
        let parent = self.with(|state| {
            let known = state.kept.tickets.iter().find(|used| used.ticket == text && used.expires > now)?;
            Fingerprint::from_text(&known.parent)
        });
        parent.is_some_and(|parent| self.is_valid_parent(parent, owner))
    }

    fn is_valid_parent(&self, parent: Fingerprint, owner: Fingerprint) -> bool {
        parent == owner || self.page(parent, owner).is_some()
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Removes what has expired, and writes the rest. If it cannot be written, it holds until a restart.
    ///
    /// Requests that only look something up do not wait for the disk.
    fn save(&self) {
        let _one_at_a_time = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let now = after(Duration::ZERO);
        let kept = self.with(|State { kept, .. }| {
            kept.pages.retain(|page| page.expires > now);
            kept.tickets.retain(|ticket| ticket.expires > now);
            kept.pages.drain(..kept.pages.len().saturating_sub(MOST));
            kept.tickets.drain(..kept.tickets.len().saturating_sub(MOST));
            kept.clone()
        });
        let Some(path) = &self.file else { return };
        if let Err(error) = write(path, &kept) {
            tracing::warn!(%error, path = %path.display(), "a sign-in is forgotten when the gateway stops");
        }
    }
}

/// Milliseconds since 1970, this long from now.
fn after(span: Duration) -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from((since + span).as_millis()).unwrap_or(u64::MAX)
}

/// Removes the oldest entry of a full map.
fn bound<T>(map: &mut HashMap<Fingerprint, T>, made: impl Fn(&T) -> &Instant) {
    if map.len() >= MOST
        && let Some(oldest) = map.iter().min_by_key(|(_, entry)| *made(entry)).map(|(key, _)| *key)
    {
        map.remove(&oldest);
    }
}

fn read(path: &Path) -> io::Result<Kept> {
    match fs::read(path) {
        Ok(text) => Ok(serde_json::from_slice(&text)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Kept::default()),
        Err(error) => Err(error),
    }
}

fn write(path: &Path, kept: &Kept) -> io::Result<()> {
    let fresh = path.with_extension("new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
    file.write_all(&serde_json::to_vec(kept)?)?;
    file.sync_all()?;
    fs::rename(&fresh, path)?;
    path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::{Issued, MOST};
    use crate::access::token::Fingerprint;

    #[test]
    fn a_login_code_is_used_once_and_its_page_stays_signed_in_over_a_restart() {
        let home = tempfile::tempdir().unwrap();
        let file = Some(home.path().join("pages.json"));
        let owner = Fingerprint::of("owner");
        let issued = Issued::open(file.clone());
        let code = issued.new_code().unwrap();
        assert!(issued.sign_in("tsl_other", owner).unwrap().is_none());
        let page = issued.sign_in(&code, owner).unwrap().unwrap();
        assert!(issued.sign_in(&code, owner).unwrap().is_none(), "a second use");
        let token = Fingerprint::of(&page.token);
        let again = Issued::open(file.clone());
        assert_eq!(again.page(token, owner), Some(page.name));
        assert_eq!(again.page(token, Fingerprint::of("replaced")), None, "the gateway's token was replaced");
        let kept = std::fs::read_to_string(home.path().join("pages.json")).unwrap();
        assert!(!kept.contains(&page.token) && !kept.contains(&code), "{kept}");
        assert!(again.sign_out(token) && !again.sign_out(token));
        assert_eq!(again.page(token, owner), None);
    }

    #[test]
    fn a_ticket_lives_as_long_as_the_token_that_asked_for_it() {
        let home = tempfile::tempdir().unwrap();
        let file = Some(home.path().join("pages.json"));
        let owner = Fingerprint::of("owner");
        let issued = Issued::open(file.clone());
        let page = issued.sign_in(&issued.new_code().unwrap(), owner).unwrap().unwrap();
        let parent = Fingerprint::of(&page.token);
        let ticket = issued.new_ticket(parent, page.name.clone(), Some("ses_1".to_owned())).unwrap();
        let unused = issued.new_ticket(parent, page.name.clone(), None).unwrap();
        let holder = issued.use_ticket(&ticket, owner).unwrap();
        assert_eq!((holder.name, holder.session.as_deref()), (page.name, Some("ses_1")));
        assert!(issued.use_ticket(&ticket, owner).is_some(), "a reconnect");
        assert!(issued.use_ticket("tsq_other", owner).is_none());
        let again = Issued::open(file);
        assert!(again.use_ticket(&ticket, owner).is_some(), "after a restart");
        assert!(again.use_ticket(&unused, owner).is_none(), "one that was never used");
        assert!(again.use_ticket(&ticket, Fingerprint::of("replaced")).is_none());
        again.sign_out(parent);
        assert!(again.use_ticket(&ticket, owner).is_none());
    }

    #[test]
    fn nobody_can_fill_the_memory_with_codes_and_tickets() {
        let issued = Issued::open(None);
        let first = issued.new_code().unwrap();
        for _ in 0..MOST {
            issued.new_code().unwrap();
            issued.new_ticket(Fingerprint::of("owner"), "owner".to_owned(), None).unwrap();
        }
        issued.with(|state| assert!(state.codes.len() <= MOST && state.unused_tickets.len() <= MOST));
        assert!(issued.sign_in(&first, Fingerprint::of("owner")).unwrap().is_none(), "the oldest ended");
    }
}
