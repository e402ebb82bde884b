//! `cargo xtask demo-picture`: runs `turnstream demo` on a terminal, and writes what it showed as an animated
//! picture, docs/images/demo.svg.

#[cfg(target_os = "linux")]
mod recording;
mod screen;
mod svg;

/// The size of the terminal, in characters.
const COLUMNS: u16 = 84;
const ROWS: u16 = 34;

/// Runs the demo and writes the picture. The variable `TURNSTREAM_BIN` names a program that is built already.
#[cfg(target_os = "linux")]
pub(crate) fn run() -> Result<(), String> {
    use crate::cargo::{command, root, run, target};

    let program = match std::env::var_os("TURNSTREAM_BIN") {
        Some(built) => built.into(),
        None => {
            run(command("cargo", &["build", "--package", "turnstream-cli", "--locked"]))?;
            target().join("debug/turnstream")
        }
    };
    let chunks = recording::record(&program, &["demo"], COLUMNS, ROWS)?;
    let shown = screen::read(&chunks);
    let picture = root().join("docs/images/demo.svg");
    std::fs::write(&picture, svg::draw(&shown, COLUMNS.into(), ROWS.into()))
        .map_err(|error| format!("cannot write {}: {error}", picture.display()))?;
    println!("{}: {} lines, {:.1} s", picture.display(), shown.lines, shown.end);
    Ok(())
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn run() -> Result<(), String> {
    Err("demo-picture records on Linux only".to_owned())
}
