//! The tail of one session: its last encoded frames, shared by the readers that are there.

use super::carrier::Carrier;
use super::encoder::Encoded;
use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;
use turnstream_model::cursor::Seq;

/// Most bytes in the tail. A reader that is further behind reads the log.
const KEPT: usize = 256 * 1024;
/// Small chunks are joined up to this size, so that a late reader reads one chunk and not many.
const JOINED: usize = 64 * 1024;

/// The place of a reader: the next event, and how many of its frames the reader has already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) next: Seq,
    pub(crate) frames: u32,
}

impl Place {
    /// At the first frame of an event.
    pub(crate) fn at(next: Seq) -> Self {
        Self { next, frames: 0 }
    }

    /// The last event that the reader has completely.
    pub(crate) fn last(self) -> Seq {
        Seq(self.next.0.saturating_sub(1))
    }
}

/// The frames of consecutive events.
struct Chunk {
    first: Seq,
    bytes: Bytes,
    /// The end of each event's frames.
    ends: Vec<u32>,
    /// How many readers have read it.
    taken: usize,
}

/// What the tail has at a reader's place.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TailRead {
    /// Frames, and the event after them.
    Frames(Bytes, Seq),
    /// The place is before the tail: the log has it.
    Older,
    /// The reader has everything. The next event is this one.
    NotYet(Seq),
}

/// Consecutive chunks up to the last encoded event.
pub(crate) struct Tail {
    carrier: Carrier,
    chunks: VecDeque<Chunk>,
    weight: usize,
    next: Seq,
}

impl Tail {
    /// An empty tail that begins with this event.
    pub(crate) fn new(carrier: Carrier, next: Seq) -> Self {
        Self { carrier, chunks: VecDeque::new(), weight: 0, next }
    }

    /// Adds the frames of the next events.
    pub(crate) fn push(&mut self, encoded: Encoded) -> Seq {
        let Encoded { bytes, ends } = encoded;
        let first = self.next;
        self.next = Seq(first.0 + ends.len() as u64);
        let chunk = Chunk { first, bytes: bytes.freeze(), ends, taken: 0 };
        self.weight += chunk.weight();
        self.chunks.push_back(chunk);
        self.join();
        while self.weight > KEPT && self.chunks.len() > 1 {
            self.drop_oldest();
        }
        self.next
    }

    /// The frames from this place on. Chunks that all readers have read are removed.
    pub(crate) fn read_from(&mut self, place: Place, readers: usize) -> TailRead {
        if place.next >= self.next {
            return TailRead::NotYet(self.next);
        }
        let after = self.chunks.partition_point(|chunk| chunk.first <= place.next);
        let Some(chunk) = after.checked_sub(1).and_then(|at| self.chunks.get_mut(at)) else {
            return TailRead::Older;
        };
        let start = start(self.carrier, chunk.first, &chunk.bytes, &chunk.ends, place);
        chunk.taken += 1;
        let taken =
            TailRead::Frames(chunk.bytes.slice(start..), Seq(chunk.first.0 + chunk.ends.len() as u64));
        while self.chunks.front().is_some_and(|oldest| oldest.taken >= readers) {
            self.drop_oldest();
        }
        taken
    }

    /// Whether the tail has everything from this place on.
    pub(crate) fn has(&self, place: Place) -> bool {
        let oldest = self.chunks.front().map_or(self.next, |chunk| chunk.first);
        oldest <= place.next
    }

    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.chunks.pop_front() {
            self.weight -= oldest.weight();
        }
    }

    /// Joins the last chunks while the older one is not much larger. So each byte is copied only a few
    /// times, and the number of chunks grows with the logarithm of the number of pushes.
    fn join(&mut self) {
        while let Some(newer) = self.chunks.pop_back() {
            match self.chunks.back_mut() {
                Some(older)
                    if older.weight() <= 2 * newer.weight() && older.weight() + newer.weight() <= JOINED =>
                {
                    older.append(&newer);
                }
                _ => {
                    self.chunks.push_back(newer);
                    return;
                }
            }
        }
    }
}

/// Where a reader's next frame is in the frames of events from `first` on; their end if the reader has all.
pub(crate) fn start(carrier: Carrier, first: Seq, bytes: &[u8], ends: &[u32], place: Place) -> usize {
    let end = |index: usize| ends.get(index).map_or(bytes.len(), |end| *end as usize);
    let index = place.next.0.saturating_sub(first.0) as usize;
    let start = index.checked_sub(1).map_or(0, end);
    match place.frames {
        0 => start,
        frames => start + carrier.end_of(frames, &bytes[start..end(index)]),
    }
}

impl Chunk {
    /// Its size in memory. Events without frames count too.
    fn weight(&self) -> usize {
        self.bytes.len() + size_of_val(self.ends.as_slice())
    }

    fn append(&mut self, newer: &Self) {
        let length = self.bytes.len() as u32;
        let mut bytes = BytesMut::with_capacity(self.bytes.len() + newer.bytes.len());
        bytes.extend_from_slice(&self.bytes);
        bytes.extend_from_slice(&newer.bytes);
        self.bytes = bytes.freeze();
        self.ends.extend(newer.ends.iter().map(|end| end + length));
        self.taken = self.taken.min(newer.taken);
    }
}

#[cfg(test)]
mod tests {
    use super::{Carrier, Encoded, KEPT, Place, Tail, TailRead};
    use bytes::{Bytes, BytesMut};
    use turnstream_model::cursor::Seq;

    fn push(tail: &mut Tail, frames: &[&str]) {
        let ends = frames.iter().scan(0, |end, frame| {
            *end += frame.len() as u32;
            Some(*end)
        });
        let ends = ends.collect();
        tail.push(Encoded { bytes: BytesMut::from(frames.concat().as_str()), ends });
    }

    fn tail(next: u64) -> Tail {
        Tail::new(Carrier::Lines, Seq(next))
    }

    fn at(next: u64) -> Place {
        Place::at(Seq(next))
    }

    #[test]
    fn every_place_gets_what_follows_it() {
        let mut tail = tail(5);
        push(&mut tail, &["e", "ff"]);
        push(&mut tail, &["ggg"]);
        let many = usize::MAX;
        assert_eq!(tail.read_from(at(4), many), TailRead::Older);
        assert_eq!(tail.read_from(at(5), many), TailRead::Frames(Bytes::from("effggg"), Seq(8)));
        assert_eq!(tail.read_from(at(6), many), TailRead::Frames(Bytes::from("ffggg"), Seq(8)));
        assert_eq!(tail.read_from(at(7), many), TailRead::Frames(Bytes::from("ggg"), Seq(8)));
        assert_eq!(tail.read_from(at(8), many), TailRead::NotYet(Seq(8)));
        assert_eq!(tail.read_from(at(9), many), TailRead::NotYet(Seq(8)));
    }

    #[test]
    fn what_all_readers_have_is_let_go() {
        let mut tail = tail(1);
        push(&mut tail, &["a"]);
        assert_eq!(tail.read_from(at(1), 2), TailRead::Frames(Bytes::from("a"), Seq(2)));
        assert_eq!(tail.read_from(at(1), 2), TailRead::Frames(Bytes::from("a"), Seq(2)));
        assert_eq!(tail.read_from(at(1), 2), TailRead::Older);
        assert_eq!(tail.weight, 0);
    }

    #[test]
    fn memory_is_bounded_and_pieces_are_joined() {
        let mut tail = tail(1);
        for _ in 0..20_000 {
            push(&mut tail, &["0123456789012345678901234567890123456789"]);
        }
        assert!(tail.weight <= KEPT, "{}", tail.weight);
        assert!(tail.chunks.len() < 40, "{}", tail.chunks.len());
        let mut next = tail.chunks[0].first;
        let mut bytes = 0;
        while let TailRead::Frames(frames, after) = tail.read_from(Place::at(next), usize::MAX) {
            bytes += frames.len() as u64;
            assert_eq!(frames.len() as u64, 40 * (after.0 - next.0));
            next = after;
        }
        assert_eq!((next, bytes), (Seq(20_001), tail.weight as u64 / 44 * 40));
    }

    #[test]
    fn one_frame_larger_than_all_that_is_kept_is_still_handed_out() {
        let mut tail = tail(1);
        let large = "x".repeat(KEPT * 2);
        push(&mut tail, &[&large]);
        assert!(
            matches!(tail.read_from(at(1), 9), TailRead::Frames(frames, Seq(2)) if frames.len() == large.len())
        );
    }

    #[test]
    fn a_reader_that_has_some_frames_of_an_event_gets_the_others() {
        let mut tail = tail(1);
        push(&mut tail, &["a\n", "b1\nb2\nb3\n", "", "d\n"]);
        let rest = |tail: &mut Tail, next, frames| match tail.read_from(Place { next: Seq(next), frames }, 99)
        {
            TailRead::Frames(bytes, Seq(5)) => String::from_utf8(bytes.to_vec()).unwrap(),
            other => panic!("{other:?}"),
        };
        assert_eq!(rest(&mut tail, 2, 0), "b1\nb2\nb3\nd\n");
        assert_eq!(rest(&mut tail, 2, 2), "b3\nd\n");
        assert_eq!(rest(&mut tail, 2, 3), "d\n");
        assert_eq!(rest(&mut tail, 2, 9), "d\n");
        assert_eq!(rest(&mut tail, 3, 1), "d\n");
        assert_eq!(rest(&mut tail, 4, 1), "");
    }

    #[test]
    fn events_without_frames_are_bounded_too() {
        let mut tail = tail(1);
        push(&mut tail, &["x\n"]);
        for _ in 0..KEPT {
            push(&mut tail, &[""]);
        }
        assert!(tail.weight <= KEPT && tail.chunks.len() < 40, "{} {}", tail.weight, tail.chunks.len());
        let next = KEPT as u64 + 2;
        assert!(!tail.has(at(1)) && tail.has(at(next - 1)) && tail.has(at(next)));
    }
}
