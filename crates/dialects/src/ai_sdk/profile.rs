//! What the versions of the SDK survive. All of them refuse unknown chunks, and older ones unknown members
//! too, so each profile has only what every version of its major has since 5.0.108, 6.0.0 and 7.0.119.

/// Which clients read the chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// What all versions since 6.0 survive, without members that came later.
    #[default]
    Safe,
    /// Version 5. It has no approvals, so they are calls that the page answers.
    V5,
    /// Version 6.
    V6,
    /// Version 7. It can take back what was superseded.
    V7,
}

impl Profile {
    /// The profile of a major version.
    pub fn of_version(version: u8) -> Option<Self> {
        match version {
            5 => Some(Self::V5),
            6 => Some(Self::V6),
            7 => Some(Self::V7),
            _ => None,
        }
    }

    /// `tool-approval-request` and `tool-output-denied`.
    pub(super) fn has_approvals(self) -> bool {
        match self {
            Self::V5 => false,
            Self::Safe | Self::V6 | Self::V7 => true,
        }
    }

    /// `title` of a call.
    pub(super) fn has_titles(self) -> bool {
        match self {
            Self::Safe | Self::V5 => false,
            Self::V6 | Self::V7 => true,
        }
    }

    /// `reset-step`, `tool-approval-response`, the finish reason `interrupted`, and the reason of an abort.
    pub(super) fn is_newest(self) -> bool {
        match self {
            Self::Safe | Self::V5 | Self::V6 => false,
            Self::V7 => true,
        }
    }
}
