//! The thread that writes attempts. Queued requests share one commit and are answered after it.

use super::database::Database;
use crate::diagnostics::answer as answer_caller;
use std::sync::mpsc::Receiver;
use tokio::sync::oneshot;
use tracing::warn;
use turnstream_model::attempts::{
    AgentAttempt, Attempt, AttemptName, Begun, Ended, Evidence, Parked, Unkept,
};
use turnstream_model::id::{SessionId, TurnId};
use turnstream_model::time::Time;

/// The largest number of requests in one commit.
const TOGETHER: usize = 256;

pub(super) type Done<T> = oneshot::Sender<Result<T, Unkept>>;

/// A request to the thread.
pub(super) enum Request {
    Begin(Begun, Done<()>),
    End(AttemptName, Box<Ended>, Done<()>),
    Link(AttemptName, AgentAttempt, Done<()>),
    Attempts(SessionId, Done<Vec<Attempt>>),
    Evidence(AttemptName, Done<Option<Evidence>>),
    Park(Box<Parked>, Done<()>),
    Restate(Box<Parked>, Done<bool>),
    Unpark(SessionId, TurnId, Done<bool>),
    Parked(Done<Vec<Parked>>),
    Forget(SessionId, Done<u64>),
    Trim(Time, Done<u64>),
}

/// Answers a request when the result of the commit is known.
type Reply = Box<dyn FnOnce(Option<&Unkept>)>;

pub(super) fn run(database: Database, work: &Receiver<Request>) {
    while let Ok(first) = work.recv() {
        let mut batch = vec![first];
        batch.extend(work.try_iter().take(TOGETHER - 1));
        // A row is durable only after the commit, so every request is answered after it.
        let begun = database.open_transaction();
        let each = batch.into_iter().map(|work| {
            let forgets = matches!(work, Request::Forget(..) | Request::Trim(..));
            let reply = match &begun {
                Ok(()) => one(work, &database),
                Err(unkept) => refused(work, unkept),
            };
            (forgets, reply)
        });
        let (forgetting, others): (Vec<_>, Vec<_>) = each.partition(|(forgets, _)| *forgets);
        let committed = begun.and_then(|()| database.commit());
        turnstream_failpoint::reach("attempts.committed");
        if let Err(error) = &committed {
            warn!(%error, "attempts could not be written; their callers are refused");
        }
        answer(others, committed.as_ref().err());
        if !forgetting.is_empty() {
            // Only requests that delete rows wait until the bytes are erased from every file.
            let scrubbed = committed.and_then(|()| database.scrub());
            if let Err(error) = &scrubbed {
                warn!(%error, "deleted attempts could not be erased from every file");
            }
            answer(forgetting, scrubbed.as_ref().err());
        }
    }
}

fn answer(replies: Vec<(bool, Reply)>, failed: Option<&Unkept>) {
    for (_, reply) in replies {
        reply(failed);
    }
}

fn one(work: Request, database: &Database) -> Reply {
    match work {
        Request::Begin(begun, done) => reply(database.begin(&begun), done),
        Request::End(name, ended, done) => reply(database.end(&name, &ended), done),
        Request::Link(name, of, done) => reply(database.link(&name, &of), done),
        Request::Attempts(session, done) => reply(database.attempts(&session), done),
        Request::Evidence(name, done) => reply(database.evidence(&name), done),
        Request::Park(parked, done) => reply(database.park(&parked), done),
        Request::Restate(parked, done) => reply(database.restate(&parked), done),
        Request::Unpark(session, turn, done) => reply(database.unpark(&session, &turn), done),
        Request::Parked(done) => reply(database.parked(), done),
        Request::Forget(session, done) => reply(database.forget(&session), done),
        Request::Trim(before, done) => reply(database.trim(before), done),
    }
}

/// Answers any request with this error.
fn refused(work: Request, why: &Unkept) -> Reply {
    let why = why.clone();
    match work {
        Request::Begin(_, done)
        | Request::End(_, _, done)
        | Request::Link(_, _, done)
        | Request::Park(_, done) => reply(Err(why), done),
        Request::Attempts(_, done) => reply(Err(why), done),
        Request::Evidence(_, done) => reply(Err(why), done),
        Request::Restate(_, done) | Request::Unpark(_, _, done) => reply(Err(why), done),
        Request::Parked(done) => reply(Err(why), done),
        Request::Forget(_, done) | Request::Trim(_, done) => reply(Err(why), done),
    }
}

fn reply<T: 'static>(result: Result<T, Unkept>, done: Done<T>) -> Reply {
    Box::new(move |failed| {
        let result = match failed {
            Some(failed) => Err(failed.clone()),
            None => result,
        };
        answer_caller(done, result);
    })
}
