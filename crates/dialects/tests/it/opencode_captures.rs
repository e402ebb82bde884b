//! The captures of the real server, through our log and back, against what the server itself sent.
