//! Development commands: `cargo xtask <command>`.

mod agents;
mod background;
mod bench;
mod cargo;
mod clients;
mod debian;
mod demo_picture;
mod end_with_parent;
mod explore;
mod fuzz;
mod load;
mod npm;
mod page;
mod peer;
mod properties;
mod prose;
mod python;
mod recorded;
mod report;
mod soak;
mod suite;
mod test;
mod tools;

use std::process::ExitCode;
use test::{Beside, Depth};

const USAGE: &str = "\
usage: cargo xtask <command>

  test [--fast | --full | --under-load]
                           run every check, and install what it needs; --fast leaves groups out and names them,
                           --full adds the long matrices, a new seed and fuzzing,
                           --under-load runs the default beside four busy loops
  explore <minutes>        property tests from new seeds, and fuzzing; prints how to replay a failure
  bench <name>             side-by-side benchmark in release mode; without a name: list them
  soak [seconds]           turns beside idle, slow and hostile connections, in release mode (default 300 s)
  fuzz [seconds]           run every fuzz target (nightly toolchain; default 60 s each)
  recorded <dir>           read recorded provider streams and compare the reader with a plain one
  prose [path...]          find comments and documents with long lines or long sentences
  page [--check | --shots] build the page from web/ into the server; --check only compares, --shots renews the
                           pictures in docs/images
  demo-picture             record `turnstream demo` as docs/images/demo.svg
  agents                   install the pinned real agents into target/agents";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["test"] => test::run(Depth::Default, Beside::Nothing),
        ["test", "--fast"] => test::run(Depth::Fast, Beside::Nothing),
        ["test", "--full"] => test::run(Depth::Full, Beside::Nothing),
        ["test", "--under-load"] => test::run(Depth::Default, Beside::BusyLoops),
        ["explore", minutes] => match minutes.parse() {
            Ok(minutes) => explore::run(minutes),
            Err(_) => Err(format!(
                "explore: {minutes:?} is not a number of minutes; example: cargo xtask explore 15"
            )),
        },
        ["bench", rest @ ..] => bench::run(rest),
        ["fuzz"] => fuzz::run(60),
        ["fuzz", seconds] => match seconds.parse() {
            Ok(seconds) => fuzz::run(seconds),
            Err(_) => {
                Err(format!("fuzz: {seconds:?} is not a number of seconds; example: cargo xtask fuzz 30"))
            }
        },
        ["soak"] => soak::run(300),
        ["soak", seconds] => match seconds.parse() {
            Ok(seconds) => soak::run(seconds),
            Err(_) => {
                Err(format!("soak: {seconds:?} is not a number of seconds; example: cargo xtask soak 30"))
            }
        },
        ["recorded", dir] => recorded::run(dir),
        ["recorded", ..] => Err("recorded: name one directory of recordings; example: cargo xtask recorded \
                                 captures/provider"
            .to_owned()),
        ["prose", paths @ ..] => prose::run(paths),
        [end_with_parent::SUBCOMMAND, parent, program, rest @ ..] => {
            end_with_parent::run(parent, program, rest)
        }
        ["page"] => page::build(),
        ["page", "--check"] => page::install_and_check(),
        ["page", "--shots"] => page::shots(),
        ["demo-picture"] => demo_picture::run(),
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
