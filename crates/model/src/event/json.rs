//! The JSON of one member, in both directions, by the column `PRESENCE` of the table of events.

use super::EventError;
use super::describe::MemberDescription;
use serde::de::DeserializeOwned;
use serde::ser::SerializeMap;
use serde_json::{Map, Value};

/// The members of an event that are not read yet. What is left at the end is unknown to this version.
pub(super) struct Members {
    pub(super) r#type: String,
    pub(super) members: Map<String, Value>,
}

impl Members {
    /// A member that may be absent. Null is the same as absent: both mean unknown.
    pub(super) fn may<T: DeserializeOwned>(&mut self, name: &'static str) -> Result<Option<T>, EventError> {
        match self.members.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => serde_json::from_value(value).map(Some).map_err(|problem| EventError::Malformed {
                r#type: self.r#type.clone(),
                member: name,
                problem,
            }),
        }
    }

    /// A member that has to be there.
    pub(super) fn must<T: DeserializeOwned>(&mut self, name: &'static str) -> Result<T, EventError> {
        self.may(name)?.ok_or_else(|| EventError::Missing { r#type: self.r#type.clone(), member: name })
    }
}

/// A value whose members stand in the event itself.
pub(super) trait FlatMembers: Sized {
    /// Its members, as the table of events would describe them.
    const DESCRIPTIONS: &'static [MemberDescription];

    /// Writes the members that are there.
    fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error>;

    /// Reads its members and leaves the others.
    fn read(members: &mut Members) -> Result<Self, EventError>;
}

impl<T: FlatMembers> FlatMembers for Box<T> {
    const DESCRIPTIONS: &'static [MemberDescription] = T::DESCRIPTIONS;

    fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        (**self).write(map)
    }

    fn read(members: &mut Members) -> Result<Self, EventError> {
        T::read(members).map(Self::new)
    }
}

/// Members that are always there.
pub(super) mod must {
    use super::{DeserializeOwned, EventError, MemberDescription, Members, SerializeMap};
    use crate::event::Presence;
    use serde::Serialize;

    pub(in crate::event) const PRESENCE: Presence = Presence::Must;

    #[allow(clippy::extra_unused_type_parameters, reason = "the table calls it in the same way for `flat`")]
    pub(in crate::event) const fn flat_members<T>() -> &'static [MemberDescription] {
        &[]
    }

    pub(in crate::event) fn write<M: SerializeMap, T: Serialize>(
        map: &mut M,
        name: &'static str,
        value: &T,
    ) -> Result<(), M::Error> {
        map.serialize_entry(name, value)
    }

    pub(in crate::event) fn read<T: DeserializeOwned>(
        members: &mut Members,
        name: &'static str,
    ) -> Result<T, EventError> {
        members.must(name)
    }
}

/// Members that are left out when there is nothing to say.
pub(super) mod may {
    use super::{DeserializeOwned, EventError, Members, SerializeMap};
    use crate::event::Presence;
    use serde::Serialize;

    pub(in crate::event) use super::must::flat_members;

    pub(in crate::event) const PRESENCE: Presence = Presence::May;

    pub(in crate::event) fn write<M: SerializeMap, T: Serialize>(
        map: &mut M,
        name: &'static str,
        value: &Option<T>,
    ) -> Result<(), M::Error> {
        value.as_ref().map_or(Ok(()), |value| map.serialize_entry(name, value))
    }

    pub(in crate::event) fn read<T: DeserializeOwned>(
        members: &mut Members,
        name: &'static str,
    ) -> Result<Option<T>, EventError> {
        members.may(name)
    }
}

/// Members that are left out when they have their usual value.
pub(super) mod or_default {
    use super::{DeserializeOwned, EventError, Members, SerializeMap};
    use crate::event::Presence;
    use serde::Serialize;

    pub(in crate::event) use super::must::flat_members;

    pub(in crate::event) const PRESENCE: Presence = Presence::OrDefault;

    pub(in crate::event) fn write<M: SerializeMap, T: Serialize + Default + PartialEq>(
        map: &mut M,
        name: &'static str,
        value: &T,
    ) -> Result<(), M::Error> {
        if *value == T::default() { Ok(()) } else { map.serialize_entry(name, value) }
    }

    pub(in crate::event) fn read<T: DeserializeOwned + Default>(
        members: &mut Members,
        name: &'static str,
    ) -> Result<T, EventError> {
        members.may(name).map(Option::unwrap_or_default)
    }
}

/// Lists that are always written, and that are empty when they are absent.
pub(super) mod list {
    use super::{DeserializeOwned, EventError, Members};
    use crate::event::Presence;

    pub(in crate::event) use super::must::{flat_members, write};

    pub(in crate::event) const PRESENCE: Presence = Presence::List;

    pub(in crate::event) fn read<T: DeserializeOwned>(
        members: &mut Members,
        name: &'static str,
    ) -> Result<Vec<T>, EventError> {
        members.may(name).map(Option::unwrap_or_default)
    }
}

/// Values whose members stand in the event itself. The name is that of the Rust member only.
pub(super) mod flat {
    use super::{EventError, FlatMembers, MemberDescription, Members, SerializeMap};
    use crate::event::Presence;

    pub(in crate::event) const PRESENCE: Presence = Presence::Flat;

    pub(in crate::event) const fn flat_members<T: FlatMembers>() -> &'static [MemberDescription] {
        T::DESCRIPTIONS
    }

    pub(in crate::event) fn write<M: SerializeMap, T: FlatMembers>(
        map: &mut M,
        _name: &'static str,
        value: &T,
    ) -> Result<(), M::Error> {
        value.write(map)
    }

    pub(in crate::event) fn read<T: FlatMembers>(
        members: &mut Members,
        _name: &'static str,
    ) -> Result<T, EventError> {
        T::read(members)
    }
}
