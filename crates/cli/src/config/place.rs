//! The flags of every command that needs a gateway, and what a client needs of the configuration.

use super::access::{self, AuthChoice};
use super::file::{self, ContactKeys, File};
use super::{ConfigError, TokenText, directories, import_mib, keys};
use crate::data_directory;
use crate::gateway_file::{self, TokenPlace};
use std::path::PathBuf;
use turnstream_server::TokenFile;

/// The flags of every command that needs a gateway.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct Place {
    /// The configuration file [default: turnstream.toml in the user's configuration directory, if it exists]
    #[arg(long, value_name = "FILE", env = "TURNSTREAM_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// The data directory: sessions, their logs and the search index
    #[arg(long, value_name = "DIR", env = "TURNSTREAM_DATA")]
    pub(crate) data: Option<PathBuf>,
    /// A directory in which sessions may work; can be repeated [default: the current directory]
    #[arg(long = "root", value_name = "DIR", env = "TURNSTREAM_ROOTS", value_delimiter = ':')]
    pub(crate) roots: Vec<PathBuf>,
    /// The token of the gateway. Other users can see flags: prefer the variable or the configuration file
    /// [default: the one in the data directory]
    #[arg(long, env = "TURNSTREAM_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<TokenText>,
    /// Whether agents that are found on PATH are offered without configuration [default: true]
    #[arg(long, value_name = "BOOL", env = "TURNSTREAM_DISCOVER")]
    pub(crate) discover: Option<bool>,
    /// The largest file that the gateway imports, in MiB [default: 4096]
    #[arg(long, value_name = "MIB", env = "TURNSTREAM_IMPORT_MIB", hide = true, value_parser = import_mib)]
    pub(crate) import_mib: Option<u64>,
}

impl Place {
    /// The data directory alone.
    pub(crate) fn data(&self) -> Result<PathBuf, ConfigError> {
        self.settled().map(|settled| settled.data)
    }

    /// The part of the configuration that a client needs. The rest may name variables and files that only the
    /// gateway can see.
    pub(crate) fn contact(&self) -> Result<Contact, ConfigError> {
        let Settled { data, auth, configured } = self.settled()?;
        let token_text = access::sent_token(auth, configured.clone(), &data)?;
        Ok(Contact { data, token_text, is_configured: configured.is_some() })
    }

    /// The token of the gateway, as `turnstream token` prints it. It is made if there is none yet. `None`:
    /// the gateway needs no token.
    pub(crate) fn own_token(&self) -> Result<Option<TokenText>, ConfigError> {
        let Settled { data, auth, configured } = self.settled()?;
        access::auth(auth, configured.as_ref(), &data)?;
        access::sent_token(auth, configured, &data)
    }

    /// Replaces the token in the data directory.
    pub(crate) fn new_token(&self) -> Result<TokenText, ConfigError> {
        let Settled { data, auth, configured } = self.settled()?;
        match (auth, configured) {
            (AuthChoice::None, _) => return Err(ConfigError::NoTokenToReplace),
            (AuthChoice::Token, Some(_)) => return Err(ConfigError::TokenIsConfigured),
            (AuthChoice::Token, None) => {}
        }
        data_directory::prepare(&data)?;
        if let Some(running) =
            gateway_file::read(&data).filter(|running| running.token != TokenPlace::Directory)
        {
            return Err(ConfigError::TokenElsewhere { pid: running.pid });
        }
        let token = TokenFile::replace(&data)?.token()?;
        Ok(TokenText::from(token.expose().to_owned()))
    }

    fn settled(&self) -> Result<Settled, ConfigError> {
        let file: ContactKeys = file::read(self.file().as_deref())?;
        let data = self.data.clone().or(file.data).or_else(directories::data).ok_or(ConfigError::NoData)?;
        let chosen = File::key("auth").map(keys::Key::variable).and_then(|name| {
            let value = std::env::var(&name).ok()?;
            let parsed = keys::FromVariable::from_variable(&value);
            Some(parsed.map_err(|problem| ConfigError::Variable { variable: name, value, problem }))
        });
        let auth = chosen.transpose()?.or(file.auth).unwrap_or_default();
        Ok(Settled { data, auth, configured: self.token.clone().or(file.token) })
    }

    /// The configuration file, if there is one.
    pub(super) fn file(&self) -> Option<PathBuf> {
        self.config.clone().or_else(|| directories::configuration().filter(|path| path.is_file()))
    }
}

/// What a client needs to find a gateway and to authenticate.
pub(crate) struct Contact {
    pub(crate) data: PathBuf,
    pub(crate) token_text: Option<TokenText>,
    /// Whether a flag, a variable or the file names the token. Otherwise it is that of the data directory.
    pub(crate) is_configured: bool,
}

/// The part of the configuration that decides about the token.
struct Settled {
    data: PathBuf,
    auth: AuthChoice,
    configured: Option<TokenText>,
}
