//! The trait that makes a plain struct a job.

use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass_core::job_type::TypeSpec;
use windlass_core::names::{NameError, QueueName, TypeName};

/// A struct that can be enqueued. The name is explicit, so that renaming the struct orphans nothing.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use windlass::JobType;
///
/// #[derive(Serialize, Deserialize)]
/// struct SendMail { to: String }
///
/// impl JobType for SendMail {
///     const NAME: &'static str = "mail.send";
/// }
/// ```
pub trait JobType: Serialize + DeserializeOwned + Send + 'static {
    /// The name that the store keeps.
    const NAME: &'static str;

    /// The one queue that all jobs of this type go to.
    const QUEUE: &'static str = "default";

    /// The defaults of this type: start from `spec` and change what you need.
    ///
    /// ```
    /// # use serde::{Deserialize, Serialize};
    /// use std::time::Duration;
    /// use windlass::{JobType, TypeSpec};
    /// # #[derive(Serialize, Deserialize)] struct SendMail { to: String }
    /// impl JobType for SendMail {
    ///     const NAME: &'static str = "mail.send";
    ///     fn defaults(spec: TypeSpec) -> TypeSpec {
    ///         TypeSpec { timeout: Duration::from_secs(30), retention_days: 90, ..spec }
    ///     }
    /// }
    /// ```
    fn defaults(spec: TypeSpec) -> TypeSpec {
        spec
    }
}

/// The specification of a type: its checked name and queue, and its defaults.
pub fn spec_of<T: JobType>() -> Result<TypeSpec, NameError> {
    Ok(T::defaults(TypeSpec::new(TypeName::parse(T::NAME)?, QueueName::parse(T::QUEUE)?)))
}
