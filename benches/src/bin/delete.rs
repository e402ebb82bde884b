//! Deleting and trimming on a large database: the time until the bytes are gone, and the effect on other
//! sessions. `--quick` uses a smaller database.

use std::process::ExitCode;
use turnstream_benches::delete::run;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    run()
}
