//! Notices: only their shape is judged.

use super::shape::{MUST, Shape, Text, Word};

pub(super) const SHAPES: &[Shape] = &[(
    "notice",
    &[
        (
            "code",
            Word(&[
                "gap",
                "repaired",
                "corrupt",
                "degraded",
                "healed",
                "unexpected_permission",
                "budget",
                "late",
                "unknown_event",
                "forgotten",
            ]),
            MUST,
        ),
        ("message", Text, MUST),
    ],
)];
