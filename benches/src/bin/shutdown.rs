//! A shutdown while the gateway has much in memory: `cargo xtask bench shutdown 3000` fills about 3,000 MB.

use std::process::ExitCode;
use turnstream_benches::shutdown::run;

fn main() -> ExitCode {
    run()
}
