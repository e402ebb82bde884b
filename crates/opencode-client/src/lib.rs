//! A client of `opencode serve`: its REST routes, its event stream, what its events mean, and a supervisor
//! for a server of one's own. It needs no gateway and no log.
//!
//! - [`Client`] sends requests. [`Client::send_message`] runs a whole turn, as a stream of ACP events with
//!   exactly one terminator (feature `acp`, on by default).
//! - [`Bus`] is the event stream of one directory, shared by all its subscribers.
//! - [`Server`] is an `opencode serve` that is started, watched and restarted here, or one that already runs.
//! - [`Conversation`] decides what events and answers mean. It does no I/O; [`ServerConnection`] connects
//!   it to a real server. The gateway's adapter uses both, without the feature `acp`.
//!
//! ```no_run
//! # #[cfg(feature = "acp")]
//! # async fn talk() -> Result<(), Box<dyn std::error::Error>> {
//! use turnstream_dialects::acp::AcpEvent;
//! use turnstream_model::event::ApprovalOutcome;
//! use turnstream_opencode_client::{Client, ClientInfo, Directory, FromEnv, Timeouts, TurnSettings};
//!
//! let password = FromEnv::new("OPENCODE_SERVER_PASSWORD");
//! let client = Client::new("http://127.0.0.1:4096", password, Timeouts::default(), ClientInfo::default())?;
//! let session = client.ensure_session(None, &Directory::new("/srv/project")?, None).await?.at;
//! let mut turn = client.send_message(&session, "Tidy up", TurnSettings::default());
//! while let Some(event) = turn.next().await {
//!     match &event {
//!         AcpEvent::Permission(asked) => turn.approve(asked.approval.clone(), ApprovalOutcome::AllowOnce),
//!         AcpEvent::Error(fault) => eprintln!("{}: {}", fault.code, fault.message),
//!         other => println!("{}", other.to_json(&session.id)),
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The events themselves:
//!
//! ```no_run
//! use turnstream_opencode_client::{BusItem, Client, ClientInfo, Directory, FromEnv, Timeouts};
//!
//! # async fn follow() -> Result<(), Box<dyn std::error::Error>> {
//! let password = FromEnv::new("OPENCODE_SERVER_PASSWORD");
//! let client = Client::new("http://127.0.0.1:4096", password, Timeouts::default(), ClientInfo::default())?;
//! println!("opencode {}", client.health_check().await?.version);
//! let cwd = Directory::new("/srv/project")?;
//! let session = client.ensure_session(None, &cwd, Some("Tidy up")).await?.at;
//! let mut subscription = client.bus(&cwd).subscribe(&session.id);
//! loop {
//!     match subscription.next().await {
//!         BusItem::Connected { gap } => println!("all later events arrive; missed some before: {gap}"),
//!         BusItem::Event(event) => println!("{event:?}"),
//!         BusItem::Lost { reason, attempt } => println!("{reason}; attempt {attempt} follows"),
//!         BusItem::Lagged { why } => println!("{why:?}: ask the server for its current state"),
//!         BusItem::Closed { reason } => return Err(reason.into()),
//!     }
//! }
//! # }
//! ```

mod auth;
mod bus;
mod call_executor;
mod client;
mod connection;
pub mod conversation;
mod directory;
mod error;
pub mod event;
pub mod ids;
pub mod info;
mod lineage;
pub mod part;
mod password;
mod prompt;
mod prompt_content;
mod queue;
mod request;
mod rest;
mod secret;
mod serve;
mod settings;
pub mod standalone;
mod stream_reader;
mod subscription;
pub mod tools;
pub mod translate;
mod transport;
#[cfg(feature = "acp")]
mod turn;
mod turn_error;

pub use bus::{Bus, BusSettings};
pub use client::Client;
pub use connection::{Incoming, ServerConnection};
pub use conversation::{Budget, Conversation, Pace};
pub use directory::{Directory, DirectoryError};
pub use error::{ClientError, ForLog, Refused};
pub use event::{Event, EventError};
pub use info::Status;
pub use password::{
    Configured, FromEnv, FromFile, NoPassword, PasswordError, PasswordSource, USER, WithUser,
};
pub use prompt::{Model, PartContent, Prompt, PromptPart};
pub use prompt_content::check as check_block;
pub use request::{COMPACT, is_for_model};
pub use rest::{
    CommandInfo, Ensured, Health, Pending, PermissionReply, Session, SessionRef, SessionTime, StoredMessage,
};
pub use secret::Secret;
pub use serve::{Launch, NotReady, Restarts, ServeError, Server, ServerState};
pub use settings::{ClientInfo, Timeouts};
pub use subscription::{BusItem, Closed, Lag, Loss, Subscription};
pub use transport::check_url;
#[cfg(feature = "acp")]
pub use turn::{Turn, TurnSettings};
