//! The answer of the command INFO.

use super::conn::Link;
use super::reply::text;
use super::store_error::StoreResult;

/// Fields with their values, as the server wrote them.
#[derive(Debug)]
pub(super) struct Info(String);

impl Info {
    pub(super) async fn read(link: &Link) -> StoreResult<Self> {
        Ok(Self(text(link.query(redis::cmd("INFO").arg("default")).await?)?))
    }

    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.fields().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    pub(super) fn number(&self, name: &str) -> Option<f64> {
        self.field(name)?.parse().ok()
    }

    pub(super) fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.lines().filter_map(|line| line.trim_end().split_once(':'))
    }

    #[cfg(test)]
    pub(super) fn of(text: &str) -> Self {
        Self(text.to_owned())
    }
}
