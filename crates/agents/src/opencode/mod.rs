//! opencode, as `opencode serve` speaks: a client of its REST routes and of its event stream, what its events mean, and
//! its supervisor.
//!
//! Usable with no gateway and no log. A [`Client`] asks and tells; [`Client::send_message`] is a whole [`Turn`] as a stream of
//! ACP events with exactly one terminator; a [`Bus`] is the one event stream of a directory, shared by all who follow
//! sessions there; a [`Server`] is an `opencode serve` of one's own.
//!
//! ```no_run
//! use turnstream_agents::opencode::{Client, ClientInfo, Directory, FromEnv, Timeouts, TurnSettings};
//! use turnstream_dialects::acp::AcpEvent;
//! use turnstream_model::event::ApprovalOutcome;
//!
//! # async fn talk() -> Result<(), Box<dyn std::error::Error>> {
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
//! Below that, the events as they come:
//!
//! ```no_run
//! use turnstream_agents::opencode::{BusItem, Client, ClientInfo, Directory, FromEnv, Timeouts};
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
//!         BusItem::Connected { gap } => println!("from now on everything is seen; missed something: {gap}"),
//!         BusItem::Event(event) => println!("{event:?}"),
//!         BusItem::Durable { session, seq } => println!("{session} is at {seq}"),
//!         BusItem::Lost { reason, attempt } => println!("{reason}; attempt {attempt} follows"),
//!         BusItem::Lagged { why } => println!("{why:?}: ask the server what happened"),
//!         BusItem::Closed { reason } => return Err(reason.into()),
//!     }
//! }
//! # }
//! ```

mod adapter;
mod agent;
mod auth;
mod bus;
mod client;
pub mod conduct;
mod content;
mod directory;
mod door;
mod error;
pub mod event;
mod fault;
mod hands;
pub mod ids;
pub mod info;
mod lineage;
pub mod part;
mod password;
mod prompt;
mod queue;
mod reader;
mod rest;
mod secret;
mod serve;
mod settings;
pub mod solo;
mod subscription;
mod talk;
pub mod tools;
pub mod translate;
mod transport;
mod turn;

pub use agent::{Opencode, OpencodeConfig, Source};
pub use bus::{Bus, BusSettings, Stream};
pub use client::Client;
pub use directory::{Directory, DirectoryError};
pub use error::{ClientError, Refused};
pub use event::{Event, EventError};
pub use info::Status;
pub use password::{
    Configured, FromEnv, FromFile, NoPassword, PasswordError, PasswordSource, USER, WithUser,
};
pub use prompt::{Model, PartContent, Prompt, PromptPart};
pub use rest::{
    Ensured, Health, Pending, PermissionReply, Session, SessionRef, SessionTime, StoredMessage, SyncEvent,
};
pub use secret::Secret;
pub use serve::{Launch, Restarts, ServeError, Server, ServerState};
pub use settings::{ClientInfo, Timeouts};
pub use subscription::{BusItem, Closed, Lag, Loss, Subscription};
pub use transport::check_url;
pub use turn::{Turn, TurnSettings};
