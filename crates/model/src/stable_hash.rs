//! A hash for ids that are computed again, in other versions too.

/// FNV-1a with 128 bits. The result never changes, which the hasher of the standard library does not promise.
pub fn stable_hash(bytes: &[u8]) -> u128 {
    const PRIME: u128 = (1 << 88) + 0x13b;
    let step = |hash: u128, byte: &u8| (hash ^ u128::from(*byte)).wrapping_mul(PRIME);
    bytes.iter().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, step)
}
