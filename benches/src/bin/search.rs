//! Search over a log of a million items: the time of the first page. `--quick` uses fewer items.

use std::process::ExitCode;
use turnstream_benches::search::run;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    run()
}
