//! Identities that are 128 random bits, made by the client, for claims, requests, workers and terms of
//! leases.

/// Implements how such an identity is created, and how it goes to a store and comes back.
macro_rules! random_bits {
    ($name:ident) => {
        impl $name {
            /// Creates an identity from 128 bits, which must be random, or derived from something unique.
            pub const fn from_random(bits: u128) -> Self {
                Self(bits)
            }

            /// Returns the bytes, for a store that keeps bytes.
            pub fn to_bytes(self) -> [u8; 16] {
                self.0.to_be_bytes()
            }

            /// Creates an identity from the bytes that a store keeps.
            pub fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(u128::from_be_bytes(bytes))
            }
        }
    };
}
