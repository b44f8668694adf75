//! Values on the wire. Each is sent with its type, so that a statement needs no round trip to be prepared
//! where a pooler is in between.

use std::error::Error;

use bytes::{BufMut, BytesMut};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use windlass_core::claim::ClaimToken;
use windlass_core::clock::Timestamp;
use windlass_core::enqueue::RequestId;
use windlass_core::lease::TermId;
use windlass_core::worker::WorkerId;

/// A value and its type in PostgreSQL.
pub(super) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

macro_rules! params {
    ($($name:ident: $type:ident;)*) => {
        $(pub(super) fn $name<T: ToSql + Sync>(value: &T) -> Param<'_> {
            (value, Type::$type)
        })*
    };
}
params! {
    flag: BOOL;
    flags: BOOL_ARRAY;
    number: INT8;
    numbers: INT8_ARRAY;
    small_number: INT4;
    small_numbers: INT4_ARRAY;
    levels: INT2_ARRAY;
    text: TEXT;
    texts: TEXT_ARRAY;
    instant: TIMESTAMPTZ;
    instants: TIMESTAMPTZ_ARRAY;
    uuid: UUID;
    uuids: UUID_ARRAY;
    ctid_cache: TID_ARRAY;
}

/// Microseconds between the start of 1970, from which we count, and that of 2000, from which PostgreSQL
/// does.
const TO_2000: i64 = 946_684_800_000_000;

/// An instant as PostgreSQL's `timestamptz`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Instant(pub(super) Timestamp);

impl Instant {
    /// The instant after every other.
    pub(super) const FUTURE: Self = Self(Timestamp::from_micros(i64::MAX));
}

impl ToSql for Instant {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        let micros = self.0.as_micros();
        // The ends of the range mean infinity on both sides.
        out.put_i64(if micros == i64::MAX { i64::MAX } else { micros.saturating_sub(TO_2000) });
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::TIMESTAMPTZ
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Instant {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        let micros = i64::from_be_bytes(raw.try_into()?);
        let is_infinite = micros == i64::MAX || micros == i64::MIN;
        Ok(Self(Timestamp::from_micros(if is_infinite { micros } else { micros.saturating_add(TO_2000) })))
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::TIMESTAMPTZ
    }
}

/// 128 bits as PostgreSQL's `uuid`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Bits(pub(super) [u8; 16]);

impl From<ClaimToken> for Bits {
    fn from(token: ClaimToken) -> Self {
        Self(token.to_bytes())
    }
}

impl From<WorkerId> for Bits {
    fn from(worker: WorkerId) -> Self {
        Self(worker.to_bytes())
    }
}

impl From<RequestId> for Bits {
    fn from(request: RequestId) -> Self {
        Self(request.to_bytes())
    }
}

impl From<TermId> for Bits {
    fn from(term: TermId) -> Self {
        Self(term.to_bytes())
    }
}

impl From<Bits> for TermId {
    fn from(bits: Bits) -> Self {
        Self::from_bytes(bits.0)
    }
}

impl From<Bits> for ClaimToken {
    fn from(bits: Bits) -> Self {
        Self::from_bytes(bits.0)
    }
}

impl From<Bits> for WorkerId {
    fn from(bits: Bits) -> Self {
        Self::from_bytes(bits.0)
    }
}

impl ToSql for Bits {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.put_slice(&self.0);
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::UUID
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Bits {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(raw.try_into()?))
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::UUID
    }
}

/// The position of a row in its table, as PostgreSQL's `tid`. It is valid until a transaction writes the
/// row again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Ctid([u8; 6]);

impl Ctid {
    /// The page of the position.
    pub(super) fn page(self) -> [u8; 4] {
        let [a, b, c, d, ..] = self.0;
        [a, b, c, d]
    }
}

impl ToSql for Ctid {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.put_slice(&self.0);
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::TID
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Ctid {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(raw.try_into()?))
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::TID
    }
}

/// An instant, or nothing.
pub(super) fn maybe(instant: Option<Timestamp>) -> Option<Instant> {
    instant.map(Instant)
}

/// A span in microseconds, as statements add it to the store's now.
pub(super) fn micros(span: std::time::Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

/// A count as PostgreSQL's `integer`; a count that does not fit becomes the largest that does.
pub(super) fn int4(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back(instant: Instant) -> Instant {
        let mut wire = BytesMut::new();
        instant.to_sql(&Type::TIMESTAMPTZ, &mut wire).unwrap();
        Instant::from_sql(&Type::TIMESTAMPTZ, &wire).unwrap()
    }

    #[test]
    fn instants_survive_the_wire_to_the_microsecond() {
        for micros in [0, 1, -1, 1_767_225_600_000_001, TO_2000] {
            let instant = Instant(Timestamp::from_micros(micros));
            assert_eq!(there_and_back(instant), instant);
        }
    }

    #[test]
    fn the_ends_of_time_are_infinite_on_both_sides() {
        assert_eq!(there_and_back(Instant::FUTURE), Instant::FUTURE);
        let past = Instant(Timestamp::from_micros(i64::MIN));
        assert_eq!(there_and_back(past), past);
    }
}
