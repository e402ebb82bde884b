//! The durable log compared with a group-committed file (the upper limit) and with one SQLite commit per row.

use std::process::ExitCode;
use turnstream_benches::log::run;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    run()
}
