//! Reads the prompt from the command line or from standard input.

use std::io::{self, Read};

/// The gateway refuses larger prompts.
const MOST: u64 = 10 << 20;

/// Why the prompt cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PromptError {
    #[error("the prompt is empty; say what the agent is to do")]
    Empty,
    #[error("cannot read the prompt from standard input: {0}")]
    Input(#[source] io::Error),
    #[error("the prompt has more than 10 MiB; put it into a file and name its path in the prompt")]
    Long,
    #[error("the prompt on standard input is no text: byte {0} is not UTF-8")]
    NotText(usize),
}

/// The text of the prompt. `-` reads standard input to its end.
pub(crate) fn read(argument: &str) -> Result<String, PromptError> {
    let prompt = if argument == "-" { standard_input()? } else { argument.to_owned() };
    if prompt.trim().is_empty() {
        return Err(PromptError::Empty);
    }
    Ok(prompt)
}

fn standard_input() -> Result<String, PromptError> {
    let mut bytes = Vec::new();
    io::stdin().lock().take(MOST + 1).read_to_end(&mut bytes).map_err(PromptError::Input)?;
    if bytes.len() as u64 > MOST {
        return Err(PromptError::Long);
    }
    String::from_utf8(bytes).map_err(|error| PromptError::NotText(error.utf8_error().valid_up_to()))
}
