//! The one thread that writes attempts: what is waiting is committed together, and answered after that.

use super::database::Database;
use std::sync::mpsc::Receiver;
use tokio::sync::oneshot;
use turnstream_model::attempts::{Attempt, AttemptName, Begun, Ended, Evidence, Parked, Unkept};
use turnstream_model::id::{SessionId, TurnId};
use turnstream_model::time::Time;

/// Rows that go into one commit at most.
const TOGETHER: usize = 256;

pub(super) type Done<T> = oneshot::Sender<Result<T, Unkept>>;

/// What can be asked.
pub(super) enum Work {
    Begin(Begun, Done<()>),
    End(AttemptName, Box<Ended>, Done<()>),
    Attempts(SessionId, Done<Vec<Attempt>>),
    Evidence(AttemptName, Done<Option<Evidence>>),
    Park(Box<Parked>, Done<()>),
    Restate(Box<Parked>, Done<bool>),
    Unpark(SessionId, TurnId, Done<bool>),
    Parked(Done<Vec<Parked>>),
    Forget(SessionId, Done<u64>),
    Trim(Time, Done<u64>),
}

/// Answers when told whether the commit succeeded.
type Reply = Box<dyn FnOnce(Option<&Unkept>)>;

pub(super) fn run(database: Database, work: &Receiver<Work>) {
    while let Ok(first) = work.recv() {
        let mut batch = vec![first];
        batch.extend(work.try_iter().take(TOGETHER - 1));
        // Whether it can be kept is known only at the end, so all of it is answered after that.
        let begun = database.open_transaction();
        let each = batch.into_iter().map(|work| {
            let forgets = matches!(work, Work::Forget(..) | Work::Trim(..));
            let reply = match &begun {
                Ok(()) => one(work, &database),
                Err(unkept) => refused(work, unkept),
            };
            (forgets, reply)
        });
        let (forgetting, others): (Vec<_>, Vec<_>) = each.partition(|(forgets, _)| *forgets);
        let committed = begun.and_then(|()| database.commit());
        turnstream_failpoint::reach("attempts.committed");
        answer(others, committed.as_ref().err());
        if !forgetting.is_empty() {
            // Only those who wanted something gone care whether it is gone from every file.
            let scrubbed = committed.and_then(|()| database.scrub());
            answer(forgetting, scrubbed.as_ref().err());
        }
    }
}

fn answer(replies: Vec<(bool, Reply)>, failed: Option<&Unkept>) {
    for (_, reply) in replies {
        reply(failed);
    }
}

fn one(work: Work, database: &Database) -> Reply {
    match work {
        Work::Begin(begun, done) => reply(database.begin(&begun), done),
        Work::End(name, ended, done) => reply(database.end(&name, &ended), done),
        Work::Attempts(session, done) => reply(database.attempts(&session), done),
        Work::Evidence(name, done) => reply(database.evidence(&name), done),
        Work::Park(parked, done) => reply(database.park(&parked), done),
        Work::Restate(parked, done) => reply(database.restate(&parked), done),
        Work::Unpark(session, turn, done) => reply(database.unpark(&session, &turn), done),
        Work::Parked(done) => reply(database.parked(), done),
        Work::Forget(session, done) => reply(database.forget(&session), done),
        Work::Trim(before, done) => reply(database.trim(before), done),
    }
}

/// The same answer to whatever was asked.
fn refused(work: Work, why: &Unkept) -> Reply {
    let why = why.clone();
    match work {
        Work::Begin(_, done) | Work::End(_, _, done) | Work::Park(_, done) => reply(Err(why), done),
        Work::Attempts(_, done) => reply(Err(why), done),
        Work::Evidence(_, done) => reply(Err(why), done),
        Work::Restate(_, done) | Work::Unpark(_, _, done) => reply(Err(why), done),
        Work::Parked(done) => reply(Err(why), done),
        Work::Forget(_, done) | Work::Trim(_, done) => reply(Err(why), done),
    }
}

fn reply<T: 'static>(result: Result<T, Unkept>, done: Done<T>) -> Reply {
    Box::new(move |failed| {
        let result = match failed {
            Some(failed) => Err(failed.clone()),
            None => result,
        };
        // Whoever asked may be gone.
        let _ = done.send(result);
    })
}
