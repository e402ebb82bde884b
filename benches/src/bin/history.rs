//! Pages of one session of a million events: how long the first page and pages further back take. `--quick`
//! has fewer.

use std::process::ExitCode;
use turnstream_benches::history::run;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    run()
}
