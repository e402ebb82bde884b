//! Reads an object by its known members, and notes whether others have content.

/// Reads an object into a struct whose `has_unknown` says whether something with content is not read. A
/// member that comes twice is an error, as in derived readers.
///
/// The members in brackets are only looked at: a function says whether their value is known. They may have
/// any value, and may come twice.
macro_rules! read_members {
    ($type:ident { $($member:ident),+ $(,)? } [$($noted:ident: $is_known:expr),*]) => {
        impl $type<'_> {
            /// The members that are known.
            pub(crate) const MEMBERS: &'static [&'static str] = &[
                $($crate::wire::members::without_prefix(stringify!($member)),)+
                $($crate::wire::members::without_prefix(stringify!($noted)),)*
            ];
        }

        impl<'de: 'a, 'a> serde::Deserialize<'de> for $type<'a> {
            #[inline]
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                use serde::de::{Error, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor};

                #[allow(non_camel_case_types, reason = "named as the members")]
                #[derive(serde::Deserialize)]
                #[serde(field_identifier)]
                enum Member {
                    $($member,)+
                    $($noted,)*
                    #[serde(other)]
                    Unknown,
                }

                #[derive(Default)]
                struct Seen {
                    $($member: bool,)+
                }

                struct ObjectVisitor;

                impl<'de> Visitor<'de> for ObjectVisitor {
                    type Value = $type<'de>;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str(concat!("an object: ", stringify!($type)))
                    }

                    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                        let (mut read, mut seen) = ($type::default(), Seen::default());
                        while let Some(member) = map.next_key()? {
                            match member {
                                $(Member::$member => {
                                    if std::mem::replace(&mut seen.$member, true) {
                                        return Err(A::Error::duplicate_field(stringify!($member)));
                                    }
                                    read.$member = map.next_value()?;
                                })+
                                $(Member::$noted => {
                                    let is_known: fn(&Option<$crate::wire::Loose<'_>>) -> bool = $is_known;
                                    read.has_unknown |= !is_known(&map.next_value()?);
                                })*
                                Member::Unknown => {
                                    let raw: &'de serde_json::value::RawValue = map.next_value()?;
                                    read.has_unknown |= $crate::wire::unread::has_content(raw.get());
                                }
                            }
                        }
                        Ok(read)
                    }

                    /// Some encoders write an empty object as an empty list.
                    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                        match list.next_element::<IgnoredAny>()? {
                            None => Ok($type::default()),
                            Some(_) => Err(A::Error::invalid_type(Unexpected::Seq, &self)),
                        }
                    }
                }

                deserializer.deserialize_struct(stringify!($type), Self::MEMBERS, ObjectVisitor)
            }
        }
    };
}

pub(super) use read_members;

/// The name of a member, from that of a field such as `r#type`.
pub(super) const fn without_prefix(field: &'static str) -> &'static str {
    match field.as_bytes() {
        [b'r', b'#', ..] => field.split_at(2).1,
        _ => field,
    }
}
