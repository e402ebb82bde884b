//! The durable log beside a raw group-committed file (the limit) and one SQLite row per commit (the naive way).

use std::process::ExitCode;
use turnstream_benches::log::run;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    run()
}
