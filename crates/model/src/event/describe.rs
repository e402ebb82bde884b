//! The macros that turn the table of events into types and functions, and the description they leave for
//! readers.

use super::subject::Effect;
use crate::words::words;

words! {
    /// Whether a member is always there.
    pub enum Presence {
        /// It is always there.
        Must = "must",
        /// It is left out when there is nothing to say.
        May = "may",
        /// It is left out when it has its usual value.
        OrDefault = "or_default",
        /// A list that is always written. Readers take a missing one for an empty one.
        List = "list",
        /// A value whose members stand in the event itself.
        Flat = "flat",
    }
}

words! {
    /// What a member holds.
    pub enum MemberKind {
        /// An id, or another name that programs compare.
        Id = "id",
        /// A word of a closed list.
        Word = "word",
        /// A number.
        Number = "number",
        /// True or false.
        Flag = "flag",
        /// Prose, of a person or a model.
        Text = "text",
        /// An object, a list, or any other JSON.
        Json = "json",
    }
}

words! {
    /// Where secrets are taken out of a member.
    pub enum Redacted {
        /// Nowhere: it holds no prose.
        Plain = "plain",
        /// Before the turn machine sees it, or when a client sends it.
        Before = "before",
        /// In the event, just before it is logged.
        Here = "here",
    }
}

/// One member of an event.
#[derive(Clone, Copy, Debug)]
pub struct MemberDescription {
    /// Its name on the wire. A [`Presence::Flat`] member has none there.
    pub name: &'static str,
    /// Whether it is always there.
    pub presence: Presence,
    /// What it holds.
    pub kind: MemberKind,
    /// Where secrets are taken out of it.
    pub redacted: Redacted,
    /// The members of a [`Presence::Flat`] one.
    pub flat: &'static [MemberDescription],
}

/// One event type.
#[derive(Clone, Copy, Debug)]
pub struct Description {
    /// Its name on the wire.
    pub name: &'static str,
    /// What it says, in a sentence or two.
    pub says: &'static str,
    /// Ids of the envelope that it cannot do without.
    pub needs: &'static [&'static str],
    /// What it does to its subject.
    pub effect: Effect,
    /// Its members besides the envelope, in the order of the wire.
    pub members: &'static [MemberDescription],
}

/// The columns of the table as modules: a word of the table is the name of a module, a constant or a
/// function.
pub(super) mod columns {
    pub(in crate::event) use crate::event::json::{flat, list, may, must, or_default};
    pub(in crate::event) use crate::event::redact::{before, here, plain};

    /// The words of the column `KIND`.
    pub(in crate::event) mod kind {
        #![allow(non_upper_case_globals, reason = "these are words of the table")]
        use super::super::MemberKind;

        pub(in crate::event) const id: MemberKind = MemberKind::Id;
        pub(in crate::event) const word: MemberKind = MemberKind::Word;
        pub(in crate::event) const number: MemberKind = MemberKind::Number;
        pub(in crate::event) const flag: MemberKind = MemberKind::Flag;
        pub(in crate::event) const text: MemberKind = MemberKind::Text;
        pub(in crate::event) const json: MemberKind = MemberKind::Json;
    }
}

/// The name of a member on the wire. A member that is a word of Rust has the prefix `r#` in the table.
pub(super) const fn wire_name(member: &'static str) -> &'static str {
    match member.as_bytes() {
        [b'r', b'#', ..] => member.split_at(2).1,
        _ => member,
    }
}

/// Makes the type names, their descriptions and the two enums of bodies from the table.
macro_rules! events {
    (shown { $($shown:tt)+ } asides { $($aside:tt)+ }) => {
        $crate::event::describe::known! {
            /// The event types that this version knows.
            pub enum Known { $($shown)+ $($aside)+ }
        }

        $crate::event::describe::names! {
            /// The types of the table's first part, for readers that decide about each of them.
            pub enum Shown { $($shown)+ }
        }

        $crate::event::describe::bodies! {
            /// What an event says, by type. Ids that name the event's place are in [`Draft`](super::Draft).
            pub enum Body { $($shown)+ } also Aside Unknown
        }

        $crate::event::describe::bodies! {
            /// What an event of the table's second part says. Readers that have not asked for one of these
            /// types skip all of them.
            pub enum Aside { $($aside)+ }
        }

        impl From<Aside> for Body {
            fn from(aside: Aside) -> Self {
                Self::Aside(aside)
            }
        }
    };
}

/// Makes an enum of the names of event types.
macro_rules! names {
    (
        $(#[$about:meta])+
        pub enum $enum:ident {$(
            $(#[doc = $says:literal])+
            $name:literal $variant:ident
            $({ $($member:ident: $type:ty = $presence:ident $kind:ident $redacted:ident),+ $(,)? })?
            $(($whole:ident: $whole_type:ty = $whole_kind:ident $whole_redacted:ident))?
            $effect:ident $subject:ident $(needs $($id:ident)+)?;
        )+}
    ) => {
        $crate::words::words! {
            $(#[$about])+
            pub enum $enum { $($(#[doc = $says])+ $variant = $name),+ }
        }
    };
}

/// Makes the names of all event types, and what the table says about each.
macro_rules! known {
    (
        $(#[$about:meta])+
        pub enum $enum:ident {$(
            $(#[doc = $says:literal])+
            $name:literal $variant:ident
            $({ $($member:ident: $type:ty = $presence:ident $kind:ident $redacted:ident),+ $(,)? })?
            $(($whole:ident: $whole_type:ty = $whole_kind:ident $whole_redacted:ident))?
            $effect:ident $subject:ident $(needs $($id:ident)+)?;
        )+}
    ) => {
        $crate::words::words! {
            $(#[$about])+
            pub enum $enum { $($(#[doc = $says])+ $variant = $name),+ }
        }

        impl $enum {
            /// What the table of events says about this type.
            pub fn description(self) -> &'static $crate::event::Description {
                use $crate::event::describe::{Description, MemberDescription, columns, describe_member};
                match self {$(
                    Self::$variant => {
                        const MEMBERS: &[MemberDescription] = &[
                            $($(describe_member!($member, $type, $presence $kind $redacted)),+)?
                            $(describe_member!($whole, $whole_type, flat $whole_kind $whole_redacted))?
                        ];
                        const DESCRIPTION: &Description = &Description {
                            name: $name,
                            says: concat!($($says),+),
                            needs: &[$($(stringify!($id)),+)?],
                            effect: $crate::event::Effect::$effect,
                            members: MEMBERS,
                        };
                        DESCRIPTION
                    }
                )+}
            }
        }
    };
}

/// Makes one enum of bodies, its JSON, weight, redaction and subjects. `also` adds the variant for the types
/// of another enum, and the one for types that this version does not know.
macro_rules! bodies {
    (
        $(#[$about:meta])+
        pub enum $enum:ident {$(
            $(#[doc = $says:literal])+
            $name:literal $variant:ident
            $({ $($member:ident: $type:ty = $presence:ident $kind:ident $redacted:ident),+ $(,)? })?
            $(($whole:ident: $whole_type:ty = $whole_kind:ident $whole_redacted:ident))?
            $effect:ident $subject:ident $(needs $($id:ident)+)?;
        )+}
        $(also $aside:ident $unknown:ident)?
    ) => {
        $(#[$about])+
        #[derive(Clone, Debug, PartialEq)]
        #[allow(missing_docs, reason = "members are those of the wire reference, under the same names")]
        pub enum $enum {
            $(
                $(#[doc = $says])+
                $variant $({ $($member: $type),+ })? $(($whole_type))?,
            )+
            $(
                /// A type of the table's second part.
                $aside($aside),
                /// A type this version does not know; its members are in the draft's `extra`.
                $unknown { r#type: String },
            )?
        }

        impl $enum {
            /// The event's type.
            pub fn kind(&self) -> $crate::event::Kind {
                match self {
                    $(Self::$variant { .. } => $crate::event::Kind::Known(Known::$variant),)+
                    $(
                        Self::$aside(aside) => aside.kind(),
                        Self::$unknown { r#type } => $crate::event::Kind::named(r#type),
                    )?
                }
            }

            /// The event's type on the wire.
            pub fn type_name(&self) -> &str {
                match self {
                    $(Self::$variant { .. } => $name,)+
                    $(
                        Self::$aside(aside) => aside.type_name(),
                        Self::$unknown { r#type } => r#type,
                    )?
                }
            }

            /// Writes the members of the body.
            #[allow(unused_variables, reason = "not every event has members")]
            pub(in crate::event) fn write_members<M: serde::ser::SerializeMap>(
                &self,
                map: &mut M,
            ) -> Result<(), M::Error> {
                use $crate::event::describe::{columns, wire_name};
                match self {
                    $(Self::$variant $({ $($member),+ })? $(($whole))? => {
                        $($(columns::$presence::write(map, wire_name(stringify!($member)), $member)?;)+)?
                        $(columns::flat::write(map, stringify!($whole), $whole)?;)?
                    })+
                    $(
                        Self::$aside(aside) => aside.write_members(map)?,
                        Self::$unknown { .. } => {}
                    )?
                }
                Ok(())
            }

            /// Reads the body of an event of this type; `None` if the type is not one of this enum.
            pub(in crate::event) fn read_members(
                known: Known,
                members: &mut $crate::event::json::Members,
            ) -> Result<Option<Self>, $crate::event::EventError> {
                use $crate::event::describe::{columns, wire_name};
                $(if known == Known::$variant {
                    return Ok(Some(Self::$variant
                        $({ $($member: columns::$presence::read(members, wire_name(stringify!($member)))?),+ })?
                        $((columns::flat::read(members, stringify!($whole))?))?
                    ));
                })+
                $(if let Some(aside) = $aside::read_members(known, members)? {
                    return Ok(Some(Self::$aside(aside)));
                })?
                Ok(None)
            }

            /// About how many bytes the members take on the wire.
            pub(in crate::event) fn weight(&self) -> usize {
                use $crate::event::Weigh as _;
                match self {
                    $(Self::$variant $({ $($member),+ })? $(($whole))? => {
                        0 $($(+ $member.weight())+)? $(+ $whole.weight())?
                    })+
                    $(
                        Self::$aside(aside) => aside.weight(),
                        Self::$unknown { r#type } => r#type.len(),
                    )?
                }
            }

            /// Takes secrets out of the members that the table marks `here`. Those marked `before` were
            /// redacted before: redacting twice is not the same as once, because a configured value may
            /// occur in a marker.
            #[allow(unused_variables, reason = "not every event has members")]
            pub fn redact_here(&mut self, secrets: &impl $crate::event::Secrets) {
                use $crate::event::describe::columns;
                match self {
                    $(Self::$variant $({ $($member),+ })? $(($whole))? => {
                        $($(columns::$redacted::redact($member, secrets);)+)?
                        $(columns::$whole_redacted::redact($whole, secrets);)?
                    })+
                    $(
                        Self::$aside(aside) => aside.redact_here(secrets),
                        Self::$unknown { .. } => {}
                    )?
                }
            }

            /// Goes through all prose, marked `here` or `before`. For what may see a text twice, such as a
            /// cut of texts that are too long.
            #[allow(unused_variables, reason = "not every event has members")]
            pub fn redact_all(&mut self, secrets: &impl $crate::event::Secrets) {
                use $crate::event::describe::columns;
                match self {
                    $(Self::$variant $({ $($member),+ })? $(($whole))? => {
                        $($(columns::$redacted::redact_always($member, secrets);)+)?
                        $(columns::$whole_redacted::redact_always($whole, secrets);)?
                    })+
                    $(
                        Self::$aside(aside) => aside.redact_all(secrets),
                        Self::$unknown { .. } => {}
                    )?
                }
            }

            /// What the event is about, and what it does to that. `None` for an unknown type.
            pub(in crate::event) fn about<'a>(
                &'a self,
                draft: &'a $crate::event::Draft,
            ) -> Option<($crate::event::Subject<'a>, $crate::event::Effect)> {
                use $crate::event::{Effect, subject::subject};
                Some(match self {
                    $(Self::$variant { .. } => {
                        (subject!($subject, draft, self, $enum $variant)?, Effect::$effect)
                    })+
                    $(
                        Self::$aside(aside) => return aside.about(draft),
                        Self::$unknown { .. } => return None,
                    )?
                })
            }
        }
    };
}

/// Makes the JSON, the weight and the redaction of a struct whose members stand in an event. They are
/// redacted before.
macro_rules! flat_members {
    ($name:ident { $($member:ident: $type:ty = $presence:ident $kind:ident $redacted:ident),+ $(,)? }) => {
        impl $crate::event::json::FlatMembers for $name {
            const DESCRIPTIONS: &'static [$crate::event::MemberDescription] = {
                use $crate::event::describe::{columns, describe_member};
                &[$(describe_member!($member, $type, $presence $kind $redacted)),+]
            };

            fn write<M: serde::ser::SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
                use $crate::event::describe::{columns, wire_name};
                let Self { $($member),+ } = self;
                $(columns::$presence::write(map, wire_name(stringify!($member)), $member)?;)+
                Ok(())
            }

            fn read(
                members: &mut $crate::event::json::Members,
            ) -> Result<Self, $crate::event::EventError> {
                use $crate::event::describe::{columns, wire_name};
                Ok(Self { $($member: columns::$presence::read(members, wire_name(stringify!($member)))?),+ })
            }
        }

        impl $crate::event::Weigh for $name {
            fn weight(&self) -> usize {
                let Self { $($member),+ } = self;
                0 $(+ $crate::event::Weigh::weight($member))+
            }
        }

        impl $crate::event::Redact for $name {
            fn redact(&mut self, secrets: &impl $crate::event::Secrets) {
                use $crate::event::describe::columns;
                let Self { $($member),+ } = self;
                $(columns::$redacted::redact_always($member, secrets);)+
            }
        }
    };
}

/// The description of one member.
macro_rules! describe_member {
    ($member:ident, $type:ty, $presence:ident $kind:ident $redacted:ident) => {
        $crate::event::MemberDescription {
            name: $crate::event::describe::wire_name(stringify!($member)),
            presence: columns::$presence::PRESENCE,
            kind: columns::kind::$kind,
            redacted: columns::$redacted::REDACTED,
            flat: columns::$presence::flat_members::<$type>(),
        }
    };
}

pub(super) use {bodies, describe_member, events, flat_members, known, names};
