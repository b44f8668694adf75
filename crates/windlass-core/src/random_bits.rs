//! Identities that are 128 random bits, made by the client: claims, requests, workers and terms of leases have them.

/// How such an identity is made, and how it goes to a store and comes back.
macro_rules! random_bits {
    ($name:ident) => {
        impl $name {
            /// Takes 128 bits, which must be random, or derived from something unique.
            pub const fn from_random(bits: u128) -> Self {
                Self(bits)
            }

            /// For a store that keeps bytes.
            pub fn to_bytes(self) -> [u8; 16] {
                self.0.to_be_bytes()
            }

            /// From a store that keeps bytes.
            pub fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(u128::from_be_bytes(bytes))
            }
        }
    };
}
