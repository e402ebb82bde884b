//! `turnstream login`: prints an address with which a browser signs in.

use super::VerbError;
use crate::client::{Reach, connect_running};
use crate::escape::{Untrusted, safe};
use crate::out;
use serde_json::json;
use std::process::ExitCode;

/// Print an address with which one browser signs in, within ten minutes
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    reach: Reach,
}

pub(crate) async fn run(args: Args) -> Result<ExitCode, VerbError> {
    let client = connect_running(&args.reach).await?;
    let made = client.post("/v1/login-codes", &json!({})).await?;
    out::print(&safe![Untrusted(made["url"].as_str().unwrap_or_default()), "\n"])?;
    Ok(ExitCode::SUCCESS)
}
