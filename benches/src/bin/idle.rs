//! Many sessions in which nothing happens: memory while they are there, and the time of a restart. The bars
//! are for 100,000 sessions; `cargo xtask bench idle 100000` creates as many.

use std::process::ExitCode;
use turnstream_benches::idle::run;

fn main() -> ExitCode {
    run()
}
