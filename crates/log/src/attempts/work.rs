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
    Unpark(SessionId, TurnId, Done<bool>),
    Parked(Done<Vec<Parked>>),
    Forget(SessionId, Done<u64>),
    Trim(Time, Done<u64>),
}

/// Answers when told whether the commit succeeded.
type Reply = Box<dyn FnOnce(Option<&Unkept>)>;

pub(super) fn run(mut database: Database, work: &Receiver<Work>) {
    while let Ok(first) = work.recv() {
        let mut batch = vec![first];
        batch.extend(work.try_iter().take(TOGETHER - 1));
        let forgets = batch.iter().any(|work| matches!(work, Work::Forget(..) | Work::Trim(..)));
        let mut replies: Vec<Reply> = Vec::new();
        let committed =
            database.commit(|database| replies.extend(batch.into_iter().map(|work| one(work, database))));
        let scrubbed = match (&committed, forgets) {
            (Ok(()), true) => database.scrub(),
            (Ok(()), false) | (Err(_), _) => Ok(()),
        };
        let failed = committed.and(scrubbed).err();
        turnstream_failpoint::reach("attempts.committed");
        for reply in replies {
            reply(failed.as_ref());
        }
    }
}

fn one(work: Work, database: &Database) -> Reply {
    match work {
        Work::Begin(begun, done) => reply(database.begin(&begun), done),
        Work::End(name, ended, done) => reply(database.end(&name, &ended), done),
        Work::Attempts(session, done) => reply(database.attempts(&session), done),
        Work::Evidence(name, done) => reply(database.evidence(&name), done),
        Work::Park(parked, done) => reply(database.park(&parked), done),
        Work::Unpark(session, turn, done) => reply(database.unpark(&session, &turn), done),
        Work::Parked(done) => reply(database.parked(), done),
        Work::Forget(session, done) => reply(database.forget(&session), done),
        Work::Trim(before, done) => reply(database.trim(before), done),
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
