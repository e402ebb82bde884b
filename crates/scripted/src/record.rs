//! What the provider was asked and how each answer went.

use crate::fault::CutBy;
use crate::http::HttpRequest;
use crate::wire::{Asked, WireFormat};
use serde_json::Value;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;
use tokio::sync::watch;

/// Requests a provider remembers, and therefore answers. An agent in a loop ends here.
pub(crate) const REQUEST_CAP: usize = 4096;

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
    /// The client closed the connection, or it broke.
    ClientLeft,
}

/// All requests of a provider. Clones share one record.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    requests: Arc<Mutex<Vec<Request>>>,
    changed: Arc<watch::Sender<u64>>,
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
        let body = serde_json::from_slice(&http.body).unwrap_or(Value::Null);
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
    pub(crate) fn new() -> Self {
        Self { requests: Arc::default(), changed: Arc::new(watch::Sender::new(0)) }
    }

    /// Notes a request, or returns nothing when the record is full.
    pub(crate) fn add(&self, request: Request) -> Option<Entry> {
        let mut requests = self.lock();
        if requests.len() >= REQUEST_CAP {
            return None;
        }
        requests.push(request);
        let entry = Entry { record: self.clone(), place: requests.len() - 1 };
        drop(requests);
        self.tell();
        Some(entry)
    }

    pub(crate) fn all(&self) -> Vec<Request> {
        self.lock().clone()
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn tell(&self) {
        self.changed.send_modify(|changes| *changes += 1);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Request>> {
        // Nothing panics while it is held; were it so, the entries would still be whole.
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
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
        change(&mut self.record.lock()[self.place]);
        self.record.tell();
    }
}
