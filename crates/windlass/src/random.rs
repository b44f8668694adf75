//! Random bits for tokens, request ids and identities.

use windlass_core::claim::ClaimToken;
use windlass_core::enqueue::RequestId;
use windlass_core::lease::TermId;
use windlass_core::worker::WorkerId;

pub(crate) fn claim_token() -> ClaimToken {
    ClaimToken::from_random(bits())
}

pub(crate) fn request_id() -> RequestId {
    RequestId::from_random(bits())
}

pub(crate) fn worker_id() -> WorkerId {
    WorkerId::from_random(bits())
}

pub(crate) fn term_id() -> TermId {
    TermId::from_random(bits())
}

fn bits() -> u128 {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the operating system provides random bytes once it has booted");
    u128::from_be_bytes(bytes)
}

/// A number from 0 to 255.
pub(crate) fn byte() -> u8 {
    request_id().to_bytes()[0]
}

/// A random span between half of `span` and all of it.
pub(crate) fn part_of(span: std::time::Duration) -> std::time::Duration {
    span / 2 + (span / 2).mul_f64(f64::from(byte()) / 255.0)
}
