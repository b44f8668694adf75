//! One queue, one type, and constructors for them.

use std::time::Duration;

use windlass_core::claim::{ClaimRequest, ClaimToken, Suspects};
use windlass_core::engine::Declaration;
use windlass_core::enqueue::{EnqueueRequest, NewJob, RequestId};
use windlass_core::job_type::TypeSpec;
use windlass_core::names::{QueueName, TypeName};
use windlass_core::queue::QueueSpec;
use windlass_core::worker::{WorkerCard, WorkerId};

pub(crate) fn queue() -> QueueName {
    QueueName::parse("main").unwrap()
}

pub(crate) fn kind() -> TypeName {
    TypeName::parse("work").unwrap()
}

pub(crate) fn declaration() -> Declaration {
    Declaration { queues: vec![QueueSpec::new(queue())], types: vec![TypeSpec::new(kind(), queue())] }
}

pub(crate) fn bits() -> u128 {
    fastrand::u128(..)
}

pub(crate) fn card(id: WorkerId) -> WorkerCard {
    WorkerCard {
        id,
        host: "here".to_owned(),
        pid: 1,
        version: "test".to_owned(),
        queues: vec![queue()],
        types: vec![kind()],
        duties: Vec::new(),
        slots: 0,
        lease: Duration::from_secs(30),
    }
}

pub(crate) fn request(jobs: Vec<NewJob>) -> EnqueueRequest {
    EnqueueRequest { request: RequestId::from_random(bits()), jobs }
}

pub(crate) fn claim_request(worker: WorkerId, limit: u32) -> ClaimRequest {
    ClaimRequest {
        token: ClaimToken::from_random(bits()),
        repeat: false,
        worker,
        queues: vec![queue()],
        types: vec![kind()],
        limit,
        boosted_max: 0,
        suspects: Suspects::LeaveOut,
    }
}
