//! The dialects of streams: those of `crates/dialects`, which lists them.

use super::encoder::{DialectEncoder, Encoded};
use super::framing::Framing;
use bytes::BytesMut;
use turnstream_dialects::native::Native;
use turnstream_dialects::{Dialect, Repeats, for_each_dialect};
use turnstream_log::{Committed, DamagedEvent};
use turnstream_model::fold::State;

macro_rules! offered {
    ($($dialect:ty),+) => {
        /// Every dialect.
        static OFFERED: &[Offered] = &[$(Offered::of::<$dialect>()),+];
    };
}

for_each_dialect!(offered);

/// The default.
static NATIVE: Offered = Offered::of::<Native>();

/// A dialect by its name. Its encoder is generic: only a batch of events costs a call through a pointer.
pub(crate) struct Offered {
    pub(crate) name: &'static str,
    pub(crate) repeats: Repeats,
    pub(crate) id_member: &'static str,
    resume: fn(&State) -> Box<dyn DialectEncoder>,
    replay: fn(&State, &mut Framing, &mut BytesMut) -> Box<dyn DialectEncoder>,
}

impl Offered {
    pub(super) const fn of<D: Dialect>() -> Self {
        Self {
            name: D::NAME,
            repeats: D::REPEATS,
            id_member: D::ID_MEMBER,
            resume: |state| Box::new(D::resume(state)),
            replay: |state, framing, out| {
                let mut frames = framing.replay(state.seq, out);
                let dialect = D::replay(state, &mut frames);
                frames.finish();
                Box::new(dialect)
            },
        }
    }

    /// The default.
    pub(crate) fn native() -> &'static Self {
        &NATIVE
    }

    /// The dialect with this name; the default without a name.
    pub(crate) fn named(name: Option<&str>) -> Option<&'static Self> {
        match name {
            None => Some(Self::native()),
            Some(name) => OFFERED.iter().find(|offered| offered.name == name),
        }
    }

    /// The names of all dialects.
    pub(crate) fn names() -> Vec<&'static str> {
        OFFERED.iter().map(|offered| offered.name).collect()
    }

    /// For a client that has everything up to this state.
    pub(super) fn resume(&self, state: &State) -> Box<dyn DialectEncoder> {
        (self.resume)(state)
    }

    /// For a client that first gets the conversation up to this state.
    pub(super) fn replay(
        &self,
        state: &State,
        framing: &mut Framing,
        out: &mut BytesMut,
    ) -> Box<dyn DialectEncoder> {
        (self.replay)(state, framing, out)
    }
}

impl<D: Dialect> DialectEncoder for D {
    fn encode(
        &mut self,
        events: &[Committed],
        framing: &mut Framing,
        out: &mut Encoded,
    ) -> Result<(), DamagedEvent> {
        for event in events {
            let mut frames = framing.event(event.seq(), &mut out.bytes);
            Dialect::encode(self, &event.line(), &mut frames)
                .map_err(|error| DamagedEvent::new(event.seq(), &error))?;
            out.end_of_event();
        }
        Ok(())
    }

    fn boxed_clone(&self) -> Box<dyn DialectEncoder> {
        Box::new(self.clone())
    }
}
