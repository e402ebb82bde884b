//! The proxy for model providers compared with the LiteLLM proxy and with no proxy, on loopback.

use std::process::ExitCode;
use turnstream_benches::proxy::run;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    run()
}
