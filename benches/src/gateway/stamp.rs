//! The text of one event: `@NUMBER:MICROS;`, filled with `x` to the wanted size.
//!
//! Events are numbered from 0. The microseconds are those of the machine's monotonic clock. The scripted
//! agent writes the same with `"stamp": true`.

use rustix::time::{ClockId, clock_gettime};
use std::io::Write;

const NUMBER: usize = 8;
const MICROS: usize = 16;
const LENGTH: usize = 1 + NUMBER + 1 + MICROS + 1;

/// The stamp of one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The number of the event in the turn, from 0.
    pub number: u64,
    /// When it was sent.
    pub micros: u64,
}

/// Microseconds of `CLOCK_MONOTONIC`, which is the same for all processes of a machine.
pub fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1_000
}

impl Stamp {
    /// Appends the text of this event, `bytes` long and at least as long as a stamp is.
    pub fn write(self, bytes: usize, out: &mut Vec<u8>) {
        let end = out.len() + bytes.max(LENGTH);
        write!(out, "@{:0NUMBER$}:{:0MICROS$};", self.number, self.micros).expect("memory takes it");
        out.resize(end, b'x');
    }

    /// All stamps in a JSON line, in order. A merged delivery has several.
    pub fn all(json: &[u8]) -> impl Iterator<Item = Self> {
        memchr::memchr_iter(b'@', json).filter_map(|at| Self::read(json.get(at..at + LENGTH)?))
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (number, rest) = bytes.get(1..)?.split_at_checked(NUMBER)?;
        let micros = rest.strip_prefix(b":")?.strip_suffix(b";")?;
        Some(Self { number: digits(number)?, micros: digits(micros)? })
    }
}

fn digits(bytes: &[u8]) -> Option<u64> {
    bytes.iter().try_fold(0_u64, |sum, &byte| {
        byte.is_ascii_digit().then(|| sum.wrapping_mul(10).wrapping_add(u64::from(byte - b'0')))
    })
}

#[cfg(test)]
mod tests {
    use super::{Stamp, now};

    #[test]
    fn a_merged_delivery_has_every_stamp_that_was_written_into_it() {
        let stamps = [Stamp { number: 7, micros: now() }, Stamp { number: 8, micros: now() }];
        let mut text = b"{\"mail\":\"a@b\",\"text\":\"".to_vec();
        let before = text.len();
        stamps[0].write(100, &mut text);
        assert_eq!(text.len(), before + 100);
        stamps[1].write(3, &mut text);
        text.extend(b"\"}");
        assert_eq!(Stamp::all(&text).collect::<Vec<_>>(), stamps);
    }
}
