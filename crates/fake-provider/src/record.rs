//! What the provider was asked and how each answer went.

use crate::fault::CutBy;
use crate::http::HttpRequest;
use crate::wire::{Asked, WireFormat};
use serde_json::Value;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;
use tokio::sync::watch;

/// Requests a provider remembers, and therefore answers. An agent in a loop ends here.
const REQUEST_CAP: usize = 4096;
/// Bytes of the bodies it remembers. Agents send the whole conversation with every call.
pub(crate) const BODIES_CAP: usize = 512 * 1024 * 1024;

/// One request and how its answer went so far.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// When it had arrived whole.
    pub at: SystemTime,
    /// The HTTP method.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// Headers in order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, null where it is not JSON.
    pub body: Value,
    /// The wire format, if it is a call to a model.
    pub format: Option<WireFormat>,
    /// What it asked for, if it is a call to a model.
    pub asked: Asked,
    /// The step that answered it, if one did.
    pub step: Option<usize>,
    /// The HTTP status of the answer, once that is decided.
    pub status: Option<u16>,
    /// Bytes of the answer's body written so far, without HTTP framing.
    pub written: usize,
    /// How the answer ended.
    pub ended: Ended,
}

/// How an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It has not.
    Open,
    /// Whole.
    Complete,
    /// Cut by the script.
    Cut(CutBy),
    /// The client closed the connection, or it broke, or the client took nothing for too long.
    ClientLeft,
    /// The provider gave up in the middle: it was shut down, or it broke.
    Abandoned,
}

/// All requests of a provider. Clones share one record.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    kept: Arc<Mutex<Kept>>,
    changed: Arc<watch::Sender<u64>>,
}

#[derive(Debug)]
struct Kept {
    requests: Vec<Request>,
    /// Bytes of bodies that may still be kept.
    room: usize,
}

/// Calls to a model so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Calls {
    pub(crate) arrived: usize,
    pub(crate) ended: usize,
}

/// The place of one request in the record.
#[derive(Debug)]
pub(crate) struct Entry {
    record: Record,
    place: usize,
}

// === impl Request ===

impl Request {
    pub(crate) fn new(http: HttpRequest) -> Self {
        let path = http.target.split('?').next().unwrap_or_default();
        let format = WireFormat::of_path(path).filter(|_| http.method == "POST");
        let body = turnstream_json::from_slice(&http.body).unwrap_or(Value::Null);
        Self {
            at: SystemTime::now(),
            asked: format.map(|format| Asked::read(format, &body)).unwrap_or_default(),
            method: http.method,
            target: http.target,
            headers: http.headers,
            body,
            format,
            step: None,
            status: None,
            written: 0,
            ended: Ended::Open,
        }
    }

    /// The path without the query.
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// The first header of that name, which is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        crate::http::header(&self.headers, name)
    }
}

// === impl Record ===

impl Record {
    /// A record for bodies of so many bytes together.
    pub(crate) fn new(room: usize) -> Self {
        let kept = Kept { requests: Vec::new(), room };
        Self { kept: Arc::new(Mutex::new(kept)), changed: Arc::new(watch::Sender::new(0)) }
    }

    /// Notes a request whose body came in so many bytes, or returns nothing when the record is full.
    pub(crate) fn add(&self, request: Request, size: usize) -> Option<Entry> {
        let mut kept = self.lock();
        if kept.requests.len() >= REQUEST_CAP {
            return None;
        }
        kept.room = kept.room.checked_sub(size)?;
        kept.requests.push(request);
        let entry = Entry { record: self.clone(), place: kept.requests.len() - 1 };
        drop(kept);
        self.tell();
        Some(entry)
    }

    /// The requests of which this is true.
    pub(crate) fn all(&self, wanted: impl Fn(&Request) -> bool) -> Vec<Request> {
        self.lock().requests.iter().filter(|request| wanted(request)).cloned().collect()
    }

    /// Counted in place, since a wait asks at every change and bodies are large.
    pub(crate) fn calls(&self) -> Calls {
        let kept = self.lock();
        let calls = || kept.requests.iter().filter(|request| request.format.is_some());
        Calls {
            arrived: calls().count(),
            ended: calls().filter(|request| request.ended != Ended::Open).count(),
        }
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn tell(&self) {
        self.changed.send_modify(|changes| *changes += 1);
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        // Nothing panics while it is held; were it so, the entries would still be whole.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Entry ===

impl Entry {
    /// The number of the request, from 0.
    pub(crate) fn serial(&self) -> u64 {
        self.place as u64
    }

    pub(crate) fn decided(&self, step: Option<usize>, status: u16) {
        self.change(|request| {
            request.step = step;
            request.status = Some(status);
        });
    }

    pub(crate) fn wrote(&self, bytes: usize) {
        self.change(|request| request.written += bytes);
    }

    pub(crate) fn ended(&self, ended: Ended) {
        self.change(|request| request.ended = ended);
    }

    fn change(&self, change: impl FnOnce(&mut Request)) {
        change(&mut self.record.lock().requests[self.place]);
        self.record.tell();
    }
}

impl Drop for Entry {
    /// An answer that nobody plays any more must not look as if it went on.
    fn drop(&mut self) {
        self.change(|request| {
            if request.ended == Ended::Open {
                request.ended = Ended::Abandoned;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::{Calls, Ended, Record, Request};
    use crate::http::{HttpRequest, Version};

    fn call() -> Request {
        Request::new(HttpRequest {
            version: Version::Http11,
            method: "POST".to_owned(),
            target: "/v1/messages".to_owned(),
            headers: Vec::new(),
            body: b"{\"model\":\"m\"}".to_vec(),
        })
    }

    #[test]
    fn an_answer_that_is_dropped_in_the_middle_does_not_stay_open() {
        let record = Record::new(1000);
        let open = record.add(call(), 10).unwrap();
        let complete = record.add(call(), 10).unwrap();
        complete.ended(Ended::Complete);
        assert_eq!(record.calls(), Calls { arrived: 2, ended: 1 });
        drop((open, complete));
        let ends: Vec<_> = record.all(|_| true).iter().map(|request| request.ended).collect();
        assert_eq!(ends, [Ended::Abandoned, Ended::Complete]);
    }

    #[test]
    fn bodies_are_kept_up_to_a_number_of_bytes_together() {
        let record = Record::new(100);
        assert!(record.add(call(), 60).is_some());
        assert!(record.add(call(), 41).is_none());
        assert!(record.add(call(), 40).is_some());
        assert!(record.add(call(), 1).is_none());
        assert_eq!(record.all(|_| true).len(), 2);
    }
}
