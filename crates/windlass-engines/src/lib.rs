//! Where jobs are kept.
