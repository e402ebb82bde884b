//! Encodes one session in one dialect for one carrier: events in, bytes out. Pure.

use super::carrier::Carrier;
use super::dialects::Offered;
use super::framing::Framing;
use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use turnstream_dialects::Repeats;
use turnstream_log::{Committed, DamagedEvent};
use turnstream_model::cursor::{Generation, Seq};
use turnstream_model::event::Known;
use turnstream_model::fold::State;

/// Most resume points of one session: the running turn and the turns before it.
const RESUME_POINTS: usize = 4;
/// Most events that are encoded again to reach a place after a resume point.
const REREAD: u64 = 65_536;

/// The dialect and the carrier of a stream.
#[derive(Clone, Copy)]
pub(crate) struct Form {
    pub(crate) dialect: &'static Offered,
    pub(crate) carrier: Carrier,
}

impl Form {
    pub(crate) fn native(carrier: Carrier) -> Self {
        Self { dialect: Offered::native(), carrier }
    }
}

impl PartialEq for Form {
    fn eq(&self, other: &Self) -> bool {
        (self.dialect.name, self.carrier) == (other.dialect.name, other.carrier)
    }
}

impl Eq for Form {}

impl Hash for Form {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.dialect.name, self.carrier).hash(state);
    }
}

impl Form {
    /// Whether the dialect has state. Then a stream can continue only where the state is known.
    pub(crate) fn keeps_state(self) -> bool {
        match self.dialect.repeats {
            Repeats::Nothing => false,
            Repeats::Conversation => true,
        }
    }
}

/// A dialect at its place in one session, as an object.
pub(crate) trait DialectEncoder: Send {
    /// Adds the frames of these events.
    fn encode(
        &mut self,
        events: &[Committed],
        framing: &mut Framing,
        out: &mut Encoded,
    ) -> Result<(), DamagedEvent>;

    /// A copy at the same place.
    fn boxed_clone(&self) -> Box<dyn DialectEncoder>;
}

/// The state of a dialect after an event. A reader can continue from there.
pub(crate) struct ResumePoint {
    pub(crate) seq: Seq,
    dialect: Box<dyn DialectEncoder>,
}

/// The resume points of one session, the newest last.
#[derive(Default)]
pub(crate) struct ResumePoints(VecDeque<ResumePoint>);

/// The frames of some events.
#[derive(Default)]
pub(crate) struct Encoded {
    pub(crate) bytes: BytesMut,
    /// The end of each event's frames.
    pub(crate) ends: Vec<u32>,
}

/// Encodes the events of one session.
pub(crate) struct Encoder {
    form: Form,
    framing: Framing,
    dialect: Box<dyn DialectEncoder>,
}

impl Encoder {
    /// For a client that has everything up to this state. A dialect without state ignores it.
    pub(crate) fn resume(form: Form, generation: &Generation, state: &State) -> Self {
        Self { form, framing: framing(form, generation), dialect: form.dialect.resume(state) }
    }

    /// For a client that has nothing: the frames of the conversation so far, and an encoder that continues.
    pub(crate) fn replay(form: Form, generation: &Generation, state: &State) -> (Self, Bytes) {
        let (mut framing, mut out) = (framing(form, generation), BytesMut::new());
        let dialect = form.dialect.replay(state, &mut framing, &mut out);
        (Self { form, framing, dialect }, out.freeze())
    }

    /// Continues after a resume point.
    pub(crate) fn behind(form: Form, generation: &Generation, resume_point: &ResumePoint) -> Self {
        Self { form, framing: framing(form, generation), dialect: resume_point.dialect.boxed_clone() }
    }

    /// A resume point of this encoder, which is after this event.
    pub(crate) fn resume_point(&self, seq: Seq) -> ResumePoint {
        ResumePoint { seq, dialect: self.dialect.boxed_clone() }
    }

    /// The frames of the next events.
    pub(crate) fn encode(&mut self, events: &[Committed]) -> Result<Encoded, DamagedEvent> {
        let mut out = Encoded::for_events(events);
        self.dialect.encode(events, &mut self.framing, &mut out)?;
        Ok(out)
    }

    /// The same, with a resume point before every turn if the dialect has state.
    pub(crate) fn encode_and_keep(
        &mut self,
        events: &[Committed],
    ) -> Result<(Encoded, ResumePoints), DamagedEvent> {
        let mut kept = ResumePoints::default();
        if !self.form.keeps_state() {
            return Ok((self.encode(events)?, kept));
        }
        let mut out = Encoded::for_events(events);
        for part in events.chunk_by(|_, next| !next.kind().is(Known::TurnStarted)) {
            if let Some(first) = part.first().filter(|first| first.kind().is(Known::TurnStarted)) {
                kept.push(self.resume_point(Seq(first.seq().0.saturating_sub(1))));
            }
            self.dialect.encode(part, &mut self.framing, &mut out)?;
        }
        Ok((out, kept))
    }
}

fn framing(form: Form, generation: &Generation) -> Framing {
    Framing::new(form.carrier, form.dialect.id_member, generation)
}

impl ResumePoints {
    pub(crate) fn push(&mut self, resume_point: ResumePoint) {
        if self.0.back().is_some_and(|newest| newest.seq >= resume_point.seq) {
            return;
        }
        self.0.push_back(resume_point);
        if self.0.len() > RESUME_POINTS {
            self.0.pop_front();
        }
    }

    /// The last resume point for a reader that has everything up to this event.
    pub(crate) fn before(&self, last: Seq) -> Option<&ResumePoint> {
        let near = |kept: &&ResumePoint| kept.seq <= last && last.0 - kept.seq.0 <= REREAD;
        self.0.iter().rev().find(near)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds newer resume points.
    pub(crate) fn extend(&mut self, newer: Self) {
        newer.0.into_iter().for_each(|resume_point| self.push(resume_point));
    }
}

impl Encoded {
    fn for_events(events: &[Committed]) -> Self {
        let weight: usize = events.iter().map(|event| event.json().len() + 96).sum();
        Self { bytes: BytesMut::with_capacity(weight), ends: Vec::with_capacity(events.len()) }
    }

    pub(crate) fn end_of_event(&mut self) {
        // Far below 4 GiB: a follower reads 64 KiB at a time, or one event, and an append has at most 64 MiB.
        self.ends.push(u32::try_from(self.bytes.len()).unwrap_or(u32::MAX));
    }
}
