//! What processes share of policies. Nothing is kept here yet: breakers and rate limits are each process's own.

use windlass_core::policies::Policies;

use super::RedisEngine;

impl Policies for RedisEngine {}
