//! Words of Turnstream as types.
