//! `turnstream open`: opens the page in a browser, signed in.

use super::VerbError;
use crate::client::{Reach, connect_running};
use crate::escape::{Untrusted, safe, text};
use crate::out;
use serde_json::json;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// The program that opens a file with the user's own browser.
const OPENER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

/// Open the page in a browser, signed in
///
/// The variable BROWSER names another program than xdg-open (on macOS: open). If no browser can be started,
/// the address is printed, and the exit code is 1.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    reach: Reach,
    /// Print a QR code for the camera of a phone instead. The gateway must be reachable from other machines.
    #[arg(long)]
    qr: bool,
}

pub(crate) async fn run(args: Args) -> Result<ExitCode, VerbError> {
    let client = connect_running(&args.reach).await?;
    let made = client.post("/v1/login-codes", &json!({})).await?;
    let url = made["url"].as_str().unwrap_or_default();
    if args.qr {
        return print_qr(url);
    }
    let data = args.reach.place.data().map_err(crate::client::FindError::from)?;
    match open(&data, url) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => {
            out::note(safe!["turnstream: ", text(&error.to_string()), "; open this address:"]);
            out::print(&safe![Untrusted(url), "\n"])?;
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Why no browser was started.
#[derive(Debug, thiserror::Error)]
enum OpenError {
    #[error("cannot write {}: {error}", path.display())]
    File { path: PathBuf, error: io::Error },
    #[error("cannot start {program}: {error}")]
    Start { program: String, error: io::Error },
    #[error("{program} failed")]
    Failed { program: String },
}

/// Prints the address as a QR code. A phone cannot use an address of this machine's loopback.
fn print_qr(url: &str) -> Result<ExitCode, VerbError> {
    let code = if is_loopback(url) { Err(QrError::Loopback) } else { qr(url) };
    match code {
        Ok(code) => {
            out::print(&safe![text(&code), Untrusted(url), "\n"])?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            out::note(safe!["turnstream: ", text(&error.to_string())]);
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Why no QR code was printed.
#[derive(Debug, thiserror::Error)]
enum QrError {
    #[error(
        "the address of this gateway works only on this machine; set `listen` to an address of its network, \
         or `public_url` to the address of a proxy, and start the gateway again"
    )]
    Loopback,
    #[error("the address cannot be written as a QR code: {0}")]
    Code(#[from] qrcode::types::QrError),
}

/// Dark on light, with half blocks: two rows of modules are one line.
fn qr(url: &str) -> Result<String, QrError> {
    let code = qrcode::QrCode::new(url)?;
    let mut drawn = code.render::<qrcode::render::unicode::Dense1x2>();
    Ok(format!("{}\n", drawn.quiet_zone(true).build()))
}

/// Whether the host of an address is of this machine alone.
fn is_loopback(url: &str) -> bool {
    let host = url.parse::<reqwest::Url>().ok().and_then(|url| url.host_str().map(str::to_owned));
    host.is_none_or(|host| {
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback() || address.is_unspecified())
    })
}

/// Opens a private file that leads to the address. Arguments of a process can be read by other users of the
/// machine, and the address has a login code.
fn open(data: &Path, url: &str) -> Result<(), OpenError> {
    let path = data.join("open.html");
    write_private(&path, &page(url)).map_err(|error| OpenError::File { path: path.clone(), error })?;
    let program = std::env::var("BROWSER").ok().filter(|named| !named.is_empty());
    let program = program.unwrap_or_else(|| OPENER.to_owned());
    let mut command = Command::new(&program);
    command.arg(&path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(OpenError::Failed { program }),
        Err(error) => Err(OpenError::Start { program, error }),
    }
}

/// A new file, so that nobody has it open who could read the one before.
fn write_private(path: &Path, text: &str) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(text.as_bytes())
}

fn page(url: &str) -> String {
    let url = url.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;");
    format!(
        "<!doctype html>\n<meta charset=\"utf-8\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
         <title>Turnstream</title>\n<meta http-equiv=\"refresh\" content=\"0; url={url}\">\n"
    )
}

#[cfg(test)]
mod tests {
    use super::is_loopback;

    #[test]
    fn a_phone_gets_no_address_of_this_machine_alone() {
        for own in [
            "http://127.0.0.1:4180/#login=x",
            "http://[::1]:1/",
            "http://localhost:1/",
            "http://0.0.0.0:1/",
            "",
        ] {
            assert!(is_loopback(own), "{own}");
        }
        for other in ["http://192.0.2.7:4180/#login=x", "https://agents.example/", "http://[2001:db8::1]:1/"]
        {
            assert!(!is_loopback(other), "{other}");
        }
    }
}
