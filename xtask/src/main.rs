//! Everything done by hand twice: `cargo xtask <command>`.

mod agents;
mod bench;
mod cargo;
mod debian;
mod fuzz;
mod npm;
mod peer;
mod test;
mod tools;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <command>

  test [--fast | --full]   set up and run every check; --fast leaves groups out and names them,
                           --full adds the long matrices
  bench <name>             side-by-side benchmark in release mode; without a name: list them
  fuzz [seconds]           run every fuzz target (nightly toolchain; default 60 s each)
  agents                   install the pinned real agents into target/agents";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["test"] => test::run(test::Depth::Default),
        ["test", "--fast"] => test::run(test::Depth::Fast),
        ["test", "--full"] => test::run(test::Depth::Full),
        ["bench", rest @ ..] => bench::run(rest),
        ["fuzz"] => fuzz::run(60),
        ["fuzz", seconds] => match seconds.parse() {
            Ok(seconds) => fuzz::run(seconds),
            Err(_) => {
                Err(format!("fuzz: {seconds:?} is not a number of seconds; example: cargo xtask fuzz 30"))
            }
        },
        ["agents"] => agents::install().map(|dir| println!("agents are in {}", dir.display())),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        [] => Err(USAGE.to_owned()),
        other => Err(format!("unknown command {:?}\n\n{USAGE}", other.join(" "))),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}
