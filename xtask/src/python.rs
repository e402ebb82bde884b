//! Programs from PyPI, at pinned versions, each in an environment of its own below `target/`.

use crate::cargo::{command, run, target};
use std::path::PathBuf;

/// The LiteLLM proxy, beside which ours is measured.
const LITELLM: &str = "litellm[proxy]==1.106.2";

/// Installs the LiteLLM proxy unless it is installed, and returns its program.
pub(crate) fn install_litellm() -> Result<PathBuf, String> {
    let dir = target().join("litellm");
    let program = dir.join("bin/litellm");
    let stamp = dir.join("installed.txt");
    if program.exists() && std::fs::read_to_string(&stamp).is_ok_and(|have| have == LITELLM) {
        return Ok(program);
    }
    println!("installing into target/litellm: {LITELLM} (takes minutes)");
    let mut venv = command("python3", &["-m", "venv", "--clear"]);
    venv.arg(&dir);
    run(venv)?;
    let pip = dir.join("bin/pip");
    let pip = pip.to_str().ok_or("the target directory has a name that is no text")?;
    run(command(pip, &["install", "--quiet", "--disable-pip-version-check", LITELLM]))?;
    std::fs::write(&stamp, LITELLM).map_err(|error| format!("cannot write {}: {error}", stamp.display()))?;
    Ok(program)
}
