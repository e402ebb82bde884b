//! The running gateway compared with sandbox-agent, as processes on loopback.

use std::process::ExitCode;
use turnstream_benches::gateway::run;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    run()
}
