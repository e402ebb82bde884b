//! The last encoded frames of one session, for all who are at its tail.

use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;
use turnstream_model::cursor::Seq;

/// What is kept at most. A reader that is further behind reads the log.
const KEPT: usize = 256 * 1024;
/// Small pieces are joined up to this, so that a reader who comes a little late takes one and not many.
const JOINED: usize = 64 * 1024;

/// Frames of events that follow each other, in one piece.
struct Chunk {
    first: Seq,
    bytes: Bytes,
    /// Where each frame ends.
    ends: Vec<u32>,
    /// How many readers have it.
    taken: usize,
}

/// What a reader finds at its place.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Take {
    /// These frames, and the place after them.
    Frames(Bytes, Seq),
    /// It is no longer here; the log has it.
    Older,
    /// It is not here yet: the next frame that comes is this one's.
    NotYet(Seq),
}

/// Contiguous chunks up to the last encoded event.
pub(crate) struct Tail {
    chunks: VecDeque<Chunk>,
    bytes: usize,
    next: Seq,
}

impl Tail {
    /// An empty one that goes on with this event.
    pub(crate) fn new(next: Seq) -> Self {
        Self { chunks: VecDeque::new(), bytes: 0, next }
    }

    /// Adds the frames of the next events; `ends` tells where each of them ends.
    pub(crate) fn push(&mut self, bytes: Bytes, ends: Vec<u32>) -> Seq {
        let first = self.next;
        self.next = Seq(first.0 + ends.len() as u64);
        self.bytes += bytes.len();
        self.chunks.push_back(Chunk { first, bytes, ends, taken: 0 });
        self.join();
        while self.bytes > KEPT && self.chunks.len() > 1 {
            self.drop_oldest();
        }
        self.next
    }

    /// What there is from `next` on. What all readers have is let go.
    pub(crate) fn take(&mut self, next: Seq, readers: usize) -> Take {
        if next >= self.next {
            return Take::NotYet(self.next);
        }
        let after = self.chunks.partition_point(|chunk| chunk.first <= next);
        let Some(chunk) = after.checked_sub(1).and_then(|at| self.chunks.get_mut(at)) else {
            return Take::Older;
        };
        let skipped = (next.0 - chunk.first.0) as usize;
        let start = skipped.checked_sub(1).map_or(0, |last| chunk.ends[last] as usize);
        chunk.taken += 1;
        let taken = Take::Frames(chunk.bytes.slice(start..), Seq(chunk.first.0 + chunk.ends.len() as u64));
        while self.chunks.front().is_some_and(|oldest| oldest.taken >= readers) {
            self.drop_oldest();
        }
        taken
    }

    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.chunks.pop_front() {
            self.bytes -= oldest.bytes.len();
        }
    }

    /// Joins the last chunks as long as the one before is not much larger: each byte is copied a few times at most, however
    /// small the pieces are, and the number of chunks grows with the logarithm of their number.
    fn join(&mut self) {
        while let Some(newer) = self.chunks.pop_back() {
            match self.chunks.back_mut() {
                Some(older)
                    if older.bytes.len() <= 2 * newer.bytes.len()
                        && older.bytes.len() + newer.bytes.len() <= JOINED =>
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

impl Chunk {
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
    use super::{KEPT, Tail, Take};
    use bytes::Bytes;
    use turnstream_model::cursor::Seq;

    fn push(tail: &mut Tail, frames: &[&str]) {
        let ends = frames.iter().scan(0, |end, frame| {
            *end += frame.len() as u32;
            Some(*end)
        });
        let ends = ends.collect();
        tail.push(Bytes::from(frames.concat()), ends);
    }

    #[test]
    fn every_place_gets_what_follows_it() {
        let mut tail = Tail::new(Seq(5));
        push(&mut tail, &["e", "ff"]);
        push(&mut tail, &["ggg"]);
        let many = usize::MAX;
        assert_eq!(tail.take(Seq(4), many), Take::Older);
        assert_eq!(tail.take(Seq(5), many), Take::Frames(Bytes::from("effggg"), Seq(8)));
        assert_eq!(tail.take(Seq(6), many), Take::Frames(Bytes::from("ffggg"), Seq(8)));
        assert_eq!(tail.take(Seq(7), many), Take::Frames(Bytes::from("ggg"), Seq(8)));
        assert_eq!(tail.take(Seq(8), many), Take::NotYet(Seq(8)));
        assert_eq!(tail.take(Seq(9), many), Take::NotYet(Seq(8)));
    }

    #[test]
    fn what_all_readers_have_is_let_go() {
        let mut tail = Tail::new(Seq(1));
        push(&mut tail, &["a"]);
        assert_eq!(tail.take(Seq(1), 2), Take::Frames(Bytes::from("a"), Seq(2)));
        assert_eq!(tail.take(Seq(1), 2), Take::Frames(Bytes::from("a"), Seq(2)));
        assert_eq!(tail.take(Seq(1), 2), Take::Older);
        assert_eq!(tail.bytes, 0);
    }

    #[test]
    fn memory_is_bounded_and_pieces_are_joined() {
        let mut tail = Tail::new(Seq(1));
        for _ in 0..20_000 {
            push(&mut tail, &["0123456789012345678901234567890123456789"]);
        }
        assert!(tail.bytes <= KEPT, "{}", tail.bytes);
        assert!(tail.chunks.len() < 40, "{}", tail.chunks.len());
        let mut next = tail.chunks[0].first;
        let mut bytes = 0;
        while let Take::Frames(frames, after) = tail.take(next, usize::MAX) {
            bytes += frames.len() as u64;
            assert_eq!(frames.len() as u64, 40 * (after.0 - next.0));
            next = after;
        }
        assert_eq!((next, bytes), (Seq(20_001), tail.bytes as u64));
    }

    #[test]
    fn one_frame_larger_than_all_that_is_kept_is_still_handed_out() {
        let mut tail = Tail::new(Seq(1));
        let large = "x".repeat(KEPT * 2);
        push(&mut tail, &[&large]);
        assert!(matches!(tail.take(Seq(1), 9), Take::Frames(frames, Seq(2)) if frames.len() == large.len()));
    }
}
