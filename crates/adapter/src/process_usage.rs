//! What processes use of the machine: resident memory and CPU time, from `/proc`. Linux only.

use std::fs;
use std::path::Path;
use std::time::Duration;

/// The kernel's directory of processes.
const PROC: &str = "/proc";

/// The sums over processes that live at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessUsage {
    /// How many processes there are.
    pub processes: u64,
    /// Resident memory, in bytes. Pages that processes share are counted for each of them.
    pub memory: u64,
    /// CPU time of the processes, user and system, with that of their ended children that they waited for.
    /// It shrinks when a process ends.
    pub cpu: Duration,
}

impl ProcessUsage {
    /// The sums over these processes. One that has ended counts as nothing. Reads files: not for an async
    /// task.
    pub fn of(ids: impl IntoIterator<Item = u32>) -> Self {
        let page = rustix::param::page_size() as u64;
        let ticks = rustix::param::clock_ticks_per_second().max(1);
        let mut usage = Self::default();
        for id in ids {
            let Some(one) = Reading::of(&Path::new(PROC).join(id.to_string())) else { continue };
            usage.processes += 1;
            usage.memory += one.pages.saturating_mul(page);
            let cpu = Duration::from_secs(one.ticks / ticks)
                + Duration::from_nanos(one.ticks % ticks * (1_000_000_000 / ticks));
            usage.cpu += cpu;
        }
        usage
    }

    /// The sum of two readings of different processes.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            processes: self.processes + other.processes,
            memory: self.memory + other.memory,
            cpu: self.cpu + other.cpu,
        }
    }
}

/// What the kernel says about one process.
#[derive(Debug, PartialEq, Eq)]
struct Reading {
    pages: u64,
    ticks: u64,
}

impl Reading {
    /// `None` when the process has ended, or is not Linux's.
    fn of(process: &Path) -> Option<Self> {
        let stat = fs::read_to_string(process.join("stat")).ok()?;
        let ticks = ticks(&stat)?;
        let statm = fs::read_to_string(process.join("statm")).ok()?;
        let pages = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
        Some(Self { pages, ticks })
    }
}

/// User and system time in ticks, of the process and of its children that it waited for. `None` for one that
/// has ended and was not waited for.
fn ticks(stat: &str) -> Option<u64> {
    // The name of the program is in brackets, and may hold brackets and spaces itself.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    if fields.next()? == "Z" {
        return None;
    }
    // Fields 14 to 17 of proc(5), counted from 1. The state, which was read, is field 3.
    fields.skip(10).take(4).map(|field| field.parse::<u64>().ok()).sum()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::{ProcessUsage, ticks};
    use std::process::{Command, Stdio};

    #[test]
    fn the_times_are_read_behind_any_name_of_a_program() {
        let stat = "42 (a) b (c) S 1 42 42 0 -1 4194560 100 0 0 0 7 11 13 17 20 0 1 0 100 1000 10 18446744073709551615";
        assert_eq!(ticks(stat), Some(7 + 11 + 13 + 17));
        assert_eq!(ticks(&stat.replace(" S ", " Z ")), None, "a zombie uses nothing");
        assert_eq!(ticks("42 (a"), None);
    }

    #[test]
    fn a_living_process_has_memory_and_one_that_has_ended_counts_as_nothing() {
        let mut child = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap();
        let (own, other) = (std::process::id(), child.id());
        let both = ProcessUsage::of([own, other]);
        assert_eq!(both.processes, 2);
        assert!(both.memory > 100_000, "{both:?}");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(ProcessUsage::of([other]), ProcessUsage::default());
        assert_eq!(ProcessUsage::of([own]).processes, 1);
    }

    #[test]
    fn work_shows_in_the_cpu_time() {
        let before = ProcessUsage::of([std::process::id()]).cpu;
        // Ends when the clock has advanced, however slow the machine is.
        let mut sum = 0_u64;
        while ProcessUsage::of([std::process::id()]).cpu <= before {
            sum = sum.wrapping_mul(31).wrapping_add(std::hint::black_box(1));
        }
        assert!(std::hint::black_box(sum) != 1);
    }
}
