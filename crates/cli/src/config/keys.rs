//! Each key of the configuration is declared once, with [`keys!`]. The declaration makes the field that the
//! file fills, the variable that overrides it, the check for zero, and the row in docs/configuration.md.

/// How the name of every variable begins.
pub(super) const PREFIX: &str = "TURNSTREAM_";

/// A key of the configuration, as it was declared.
#[derive(Debug)]
pub(super) struct Key {
    /// The table it is in; empty for the keys at the top.
    pub(super) table: &'static str,
    pub(super) name: &'static str,
    /// A value, as it is written in the file.
    pub(super) example: &'static str,
    pub(super) source: Source,
    /// The kinds of agents that have the key, for keys of agents. Empty: all.
    pub(super) agents: &'static [&'static str],
    /// What zero would do, and what leaving the key out does; only where zero is refused.
    pub(super) zero: Option<(&'static str, &'static str)>,
    /// Lines for the documentation.
    #[cfg(test)]
    pub(super) meaning: &'static [&'static str],
}

/// Where the value of a key can come from, besides the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The file only.
    File,
    /// A variable, which is read here.
    Variable,
    /// A flag, and its variable, which clap reads.
    Flag,
}

/// A value that a variable can hold.
pub(super) trait FromVariable: Sized {
    fn from_variable(text: &str) -> Result<Self, String>;
}

/// A limit, which can be zero.
pub(super) trait Limit {
    fn is_zero(&self) -> bool;
}

/// A key whose value is zero, and must not be.
#[derive(Debug)]
pub(super) struct Zero(pub(super) &'static Key);

// === impl Key ===

impl Key {
    /// `TURNSTREAM_TIMEOUTS_START` for `start` in `[timeouts]`.
    pub(super) fn variable(&self) -> String {
        let separator = if self.table.is_empty() { "" } else { "_" };
        format!("{PREFIX}{}{separator}{}", self.table, self.name).to_uppercase()
    }

    /// Why zero is refused.
    pub(super) fn zero_problem(&self) -> Option<String> {
        let (would, otherwise) = self.zero?;
        let Self { name, example, .. } = self;
        Some(format!("0 would {would}; leave {name} out to {otherwise}, or give a limit like {example}"))
    }
}

// === impl Zero ===

impl std::fmt::Display for Zero {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.zero_problem().unwrap_or_default())
    }
}

// === impl FromVariable ===

impl FromVariable for u64 {
    fn from_variable(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| "it must be a whole number, for example 100".to_owned())
    }
}

impl FromVariable for bool {
    fn from_variable(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| "it must be true or false".to_owned())
    }
}

impl FromVariable for String {
    fn from_variable(text: &str) -> Result<Self, String> {
        Ok(text.to_owned())
    }
}

// === impl Limit ===

impl Limit for u64 {
    fn is_zero(&self) -> bool {
        *self == 0
    }
}

/// Declares the keys of one table. The doc comment of a key is its text in docs/configuration.md.
///
/// A declaration reads `name: Type = "example", source;`. The source is `file`, `variable` or `flag`.
/// `agent "kind" "kind"` says which kinds of agents have the key. `zero "would …" "keeps …"` refuses zero.
/// `tables { … }` lists tables below this one.
macro_rules! keys {
    (
        $(#[$attribute:meta])*
        $visible:vis struct $name:ident in $table:literal {
            $(
                $(#[doc = $meaning:literal])+
                $key:ident: $kind:ty = $example:literal, $source:ident
                    $(, agent $($agent:literal)+)? $(, zero $would:literal $otherwise:literal)?;
            )+
        }
        $(tables { $($below:ident: $below_kind:ty;)+ })?
    ) => {
        $(#[$attribute])*
        #[derive(Debug, Default, serde::Deserialize)]
        #[serde(deny_unknown_fields, expecting = "a table")]
        $visible struct $name {
            $($(#[doc = $meaning])+ pub(crate) $key: Option<$kind>,)+
            $($(#[serde(default)] pub(crate) $below: $below_kind,)+)?
        }

        #[allow(dead_code, reason = "a table may have no variables and no limits")]
        impl $name {
            /// Every key of the table, in the order of the documentation.
            pub(super) const KEYS: &'static [$crate::config::keys::Key] = &[$(
                $crate::config::keys::Key {
                    table: $table,
                    name: stringify!($key),
                    example: $example,
                    source: keys!(@source $source),
                    agents: &[$($($agent),+)?],
                    zero: keys!(@optional $(($would, $otherwise))?),
                    #[cfg(test)]
                    meaning: &[$($meaning),+],
                },
            )+];

            /// The keys that have a value.
            pub(super) fn given(&self) -> Vec<&'static $crate::config::keys::Key> {
                let is_given = [$(self.$key.is_some()),+];
                Self::KEYS.iter().zip(is_given).filter(|(_, is_given)| *is_given).map(|(key, _)| key).collect()
            }

            /// The declaration of one key.
            pub(super) fn key(name: &str) -> Option<&'static $crate::config::keys::Key> {
                Self::KEYS.iter().find(|key| key.name == name)
            }

            /// Refuses limits of zero: by the letter they would remove or refuse everything, which nobody
            /// wants.
            pub(super) fn refuse_zero(&self) -> Result<(), $crate::config::keys::Zero> {
                $($(
                    // Two texts of the declaration: naming them here repeats this for each key that has them.
                    let _ = ($would, $otherwise);
                    if self.$key.as_ref().is_some_and($crate::config::keys::Limit::is_zero)
                        && let Some(key) = Self::key(stringify!($key))
                    {
                        return Err($crate::config::keys::Zero(key));
                    }
                )?)+
                Ok(())
            }

            /// With the values of variables, which win over the file. Zeros of the file were refused before.
            #[allow(unused_mut, reason = "a table may have no variables")]
            pub(super) fn with_environment(
                mut self,
                variable: impl Fn(&str) -> Option<String>,
            ) -> Result<Self, $crate::config::ConfigError> {
                $(keys!(@read $source self.$key, Self::key(stringify!($key)), variable);)+
                self.refuse_zero().map_err(|zero| $crate::config::ConfigError::Variable {
                    variable: zero.0.variable(),
                    value: variable(&zero.0.variable()).unwrap_or_default(),
                    problem: zero.to_string(),
                })?;
                Ok(self)
            }
        }
    };
    (@source file) => { $crate::config::keys::Source::File };
    (@source variable) => { $crate::config::keys::Source::Variable };
    (@source flag) => { $crate::config::keys::Source::Flag };
    (@optional) => { None };
    (@optional $value:expr) => { Some($value) };
    (@read file $place:expr, $key:expr, $variable:expr) => {};
    (@read flag $place:expr, $key:expr, $variable:expr) => {};
    (@read variable $place:expr, $key:expr, $variable:expr) => {
        if let Some(key) = $key
            && let Some(value) = $variable(&key.variable())
        {
            let parsed = $crate::config::keys::FromVariable::from_variable(&value);
            $place = Some(parsed.map_err(|problem| $crate::config::ConfigError::Variable {
                variable: key.variable(),
                value: $crate::config::toml_errors::without_credentials(&value),
                problem,
            })?);
        }
    };
}

pub(super) use keys;
