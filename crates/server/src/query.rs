//! Query strings as typed values. Errors name the parameter.

use serde::de::value::{MapDeserializer, StrDeserializer};
use serde::de::{
    DeserializeOwned, Deserializer, Error as _, Expected, IntoDeserializer, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;
use std::fmt;

/// Why a query is invalid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{problem}", parameter.as_ref().map(|name| format!("{name}: ")).unwrap_or_default())]
pub(crate) struct QueryError {
    /// The parameter with the invalid value.
    parameter: Option<String>,
    problem: String,
}

impl QueryError {
    fn new(problem: String) -> Self {
        Self { parameter: None, problem }
    }
}

/// Reads name and value pairs into a value.
pub(crate) fn read<T: DeserializeOwned>(pairs: Vec<(String, String)>) -> Result<T, QueryError> {
    let pairs = pairs.iter().map(|(name, value)| (name.as_str(), Parameter { name, value }));
    T::deserialize(MapDeserializer::new(pairs))
}

impl serde::de::Error for QueryError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(message.to_string())
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        match expected {
            [] => Self::new(format!("the query has {field:?}, and this request takes no parameters")),
            known => Self::new(format!("there is no parameter {field:?}; known are {}", known.join(", "))),
        }
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Self::new(format!("{variant:?} is not one of {}", expected.join(", ")))
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(format!("the parameter {field:?} is missing"))
    }

    fn duplicate_field(field: &'static str) -> Self {
        Self::new(format!("the parameter {field:?} is given twice"))
    }

    fn invalid_type(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_value(unexpected, expected)
    }

    fn invalid_value(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(format!("{unexpected} is not {expected}"))
    }
}

/// The value of one parameter, with its name.
#[derive(Clone, Copy)]
struct Parameter<'a> {
    name: &'a str,
    value: &'a str,
}

impl<'a> Parameter<'a> {
    fn text(self) -> StrDeserializer<'a, QueryError> {
        self.value.into_deserializer()
    }

    fn named(self, error: QueryError) -> QueryError {
        QueryError { parameter: error.parameter.or_else(|| Some(self.name.to_owned())), ..error }
    }

    fn number(self) -> Result<u64, QueryError> {
        self.value.parse().map_err(|_| self.unfit("a whole number"))
    }

    fn unfit(self, wanted: &str) -> QueryError {
        self.named(QueryError::custom(format!("{:?} is not {wanted}", self.value)))
    }
}

impl<'a> IntoDeserializer<'a, QueryError> for Parameter<'a> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Parameter<'de> {
    type Error = QueryError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, QueryError> {
        self.text().deserialize_any(visitor).map_err(|error| self.named(error))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, QueryError> {
        visitor.visit_some(self).map_err(|error| self.named(error))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, QueryError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, QueryError> {
        self.text().deserialize_enum(name, variants, visitor).map_err(|error| self.named(error))
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, QueryError> {
        let value = self.value.parse().map_err(|_| self.unfit("true or false"))?;
        visitor.visit_bool(value)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, QueryError> {
        visitor.visit_u64(self.number()?).map_err(|error: QueryError| self.named(error))
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, QueryError> {
        self.deserialize_u64(visitor)
    }

    fn deserialize_u16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, QueryError> {
        self.deserialize_u64(visitor)
    }

    fn deserialize_u8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, QueryError> {
        self.deserialize_u64(visitor)
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct
        identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::read;
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Asked {
        q: String,
        limit: Option<usize>,
        kind: Option<Kind>,
        role: Option<turnstream_model::event::Role>,
        #[serde(default)]
        new: bool,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Kind {
        OneThing,
        Other,
    }

    fn asked(query: &str) -> Result<Asked, String> {
        let pair = |pair: &str| pair.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        let pairs = query.split('&').filter_map(pair).collect();
        read(pairs).map_err(|error| error.to_string())
    }

    #[test]
    fn parameters_are_read_by_their_type() {
        let whole =
            Asked { q: "5".into(), limit: Some(7), kind: Some(Kind::OneThing), role: None, new: true };
        assert_eq!(asked("q=5&limit=7&kind=one_thing&new=true"), Ok(whole));
        assert_eq!(
            asked("q=x"),
            Ok(Asked { q: "x".into(), limit: None, kind: None, role: None, new: false })
        );
    }

    #[test]
    fn what_does_not_fit_is_named_with_its_value_and_what_would() {
        let cases = [
            ("limit=1", "the parameter \"q\" is missing"),
            ("q=x&limit=many", "limit: \"many\" is not a whole number"),
            ("q=x&limit=-1", "limit: \"-1\" is not a whole number"),
            ("q=x&new=yes", "new: \"yes\" is not true or false"),
            ("q=x&kind=third", "kind: \"third\" is not one of one_thing, other"),
            ("q=x&role=third", "role: \"third\" is not one of user, assistant"),
            ("q=x&colour=red", "there is no parameter \"colour\"; known are q, limit, kind, role, new"),
            ("q=x&q=y", "the parameter \"q\" is given twice"),
        ];
        for (query, expected) in cases {
            assert_eq!(asked(query), Err(expected.to_owned()), "{query}");
        }
    }
}
