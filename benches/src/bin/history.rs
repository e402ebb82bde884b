//! Pages of a session with a million events: the time of the first page and of pages further back.
//! `--quick` uses fewer events.

use std::process::ExitCode;
use turnstream_benches::history::run;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    run()
}
