//! The `turnstream` binary.

fn main() {
    println!("turnstream {}", env!("CARGO_PKG_VERSION"));
}
