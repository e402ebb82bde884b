//! The prompt: what stands on the command line, or all of standard input.

use super::RunError;
use std::io::{self, Read};

/// More is refused by the gateway.
const MOST: u64 = 10 << 20;

/// What is asked. `-` means standard input, to its end.
pub(super) fn read(argument: &str) -> Result<String, RunError> {
    let prompt = if argument == "-" { standard_input()? } else { argument.to_owned() };
    if prompt.trim().is_empty() {
        return Err(RunError::Empty);
    }
    Ok(prompt)
}

fn standard_input() -> Result<String, RunError> {
    let mut bytes = Vec::new();
    io::stdin().lock().take(MOST + 1).read_to_end(&mut bytes).map_err(RunError::Input)?;
    if bytes.len() as u64 > MOST {
        return Err(RunError::Long);
    }
    String::from_utf8(bytes).map_err(|error| RunError::NotText(error.utf8_error().valid_up_to()))
}
