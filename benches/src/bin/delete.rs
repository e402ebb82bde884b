//! Deleting and trimming on a large database: how long until the bytes are gone, and what others notice. `--quick` has less.

use std::process::ExitCode;
use turnstream_benches::delete::run;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    run()
}
