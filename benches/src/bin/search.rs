//! Search over a log of a million items: how long the first page takes. `--quick` has fewer.

use std::process::ExitCode;
use turnstream_benches::search::run;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    run()
}
