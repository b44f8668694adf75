//! The macro that runs every behaviour on an engine, and what it needs.

use std::future::Future;
use std::pin::Pin;

use crate::harness::Harness;

/// Runs every behaviour on an engine, one `#[test]` each, on two threads of a runtime of its own.
///
/// The first argument names the module of the tests; the second is a function that creates a fresh
/// [`Fixture`](crate::harness::Fixture). A gap is an explicit skip with a reason, which the test prints.
///
/// ```text
/// async fn memory() -> Fixture { … }
/// windlass_conformance::suite!(memory, memory);
/// windlass_conformance::suite!(young, young, skip: [("boost::ten_minutes_raise_a_job", "not built yet")]);
/// ```
#[macro_export]
macro_rules! suite {
    ($engine:ident, $make:path) => {
        $crate::suite!($engine, $make, skip: []);
    };
    ($engine:ident, $make:path, skip: $skips:tt) => {
        $crate::every_behaviour!([$crate::expand_suite] $engine, $make, $skips);
    };
}

/// The expansion of [`suite!`].
#[doc(hidden)]
#[macro_export]
macro_rules! expand_suite {
    ($engine:ident, $make:path, $skips:tt; $($module:ident: $($name:ident)*;)*) => {
        mod $engine {
            use super::*;

            /// The behaviours that are not run on this engine, and why.
            pub(crate) const SKIPS: &[(&str, &str)] = &$skips;

            /// The names of the tests below.
            pub(crate) const BEHAVIOURS: &[&str] =
                &[$($(concat!(stringify!($module), "::", stringify!($name)),)*)*];

            /// One function for all: a `#[tokio::test]` each would be compiled anew for each behaviour and
            /// engine.
            fn run(behaviour: &str) {
                if let Some(why) = $crate::skip_reason(behaviour, SKIPS) {
                    println!("skipped on {}: {behaviour}: {why}", stringify!($engine));
                    return;
                }
                run_in_a_runtime($crate::behaviour(behaviour));
            }

            #[tokio::main(flavor = "multi_thread", worker_threads = 2)]
            async fn run_in_a_runtime(behaviour: $crate::Behaviour) {
                let spawn = |task| drop(tokio::spawn(task));
                let harness = $crate::harness::Harness::start($make().await, spawn).await;
                (behaviour.run)(&harness).await;
            }

            $(mod $module {
                $(#[test]
                fn $name() {
                    super::run(concat!(stringify!($module), "::", stringify!($name)));
                })*
            })*

            #[test]
            fn every_skip_names_a_behaviour_and_a_reason() {
                $crate::check_skips(SKIPS);
            }
        }
    };
}

/// Runs the behaviours about fences, cancels and ordering keys once more on an engine that has been used
/// before, and those about claims and due times if the state matters to them. Some engines choose between
/// statements for the same work, depending on their earlier use.
///
/// The third argument is a state of [`Used`](crate::harness::Used).
///
/// ```text
/// windlass_conformance::used_suite!(postgres_used, in_postgres, ForAllKinds);
/// ```
#[macro_export]
macro_rules! used_suite {
    ($engine:ident, $make:path, $used:ident) => {
        mod $engine {
            use super::*;

            const USED: $crate::harness::Used = $crate::harness::Used::$used;

            fn run(behaviour: &str) {
                if let Some(why) = $crate::skip_reason(behaviour, USED.skips()) {
                    println!("skipped on {}: {behaviour}: {why}", stringify!($engine));
                    return;
                }
                run_in_a_runtime($crate::behaviour(behaviour));
            }

            #[tokio::main(flavor = "multi_thread", worker_threads = 2)]
            async fn run_in_a_runtime(behaviour: $crate::Behaviour) {
                let spawn = |task| drop(tokio::spawn(task));
                let harness = $crate::harness::Harness::start($make().await, spawn).await;
                harness.use_before(USED).await;
                (behaviour.run)(&harness).await;
            }

            #[test]
            fn every_skip_names_a_behaviour_and_a_reason() {
                $crate::check_skips(USED.skips());
            }

            $crate::every_behaviour!([$crate::expand_used] $used);
        }
    };
}

/// The expansion of [`used_suite!`]: a module of tests for each module of behaviours that it takes.
#[doc(hidden)]
#[macro_export]
macro_rules! expand_used {
    ($used:ident; $($module:ident: $($name:ident)*;)*) => {
        $($crate::expand_used!(@ $used $module: $($name)*);)*
    };
    (@ $used:ident ordering_keys: $($name:ident)*) => { $crate::expand_used!(@@ ordering_keys: $($name)*); };
    (@ $used:ident fence: $($name:ident)*) => { $crate::expand_used!(@@ fence: $($name)*); };
    (@ $used:ident cancel: $($name:ident)*) => { $crate::expand_used!(@@ cancel: $($name)*); };
    (@ ForAllKinds claim: $($name:ident)*) => { $crate::expand_used!(@@ claim: $($name)*); };
    (@ ForAllKinds suspects: $($name:ident)*) => { $crate::expand_used!(@@ suspects: $($name)*); };
    (@ $used:ident $other:ident: $($name:ident)*) => {};
    (@@ $module:ident: $($name:ident)*) => {
        mod $module {
            $(#[test]
            fn $name() {
                super::run(concat!(stringify!($module), "::", stringify!($name)));
            })*
        }
    };
}

/// Returns why a behaviour is skipped, if it is.
pub fn skip_reason<'a>(behaviour: &str, skips: &[(&str, &'a str)]) -> Option<&'a str> {
    skips.iter().find(|(name, _)| *name == behaviour).map(|(_, why)| *why)
}

/// Panics if a skip names no behaviour or gives no reason: a skip must not outlive the behaviour.
pub fn check_skips(skips: &[(&str, &str)]) {
    for (name, why) in skips {
        assert!(BEHAVIOURS.contains(name), "expected a behaviour's name in a skip, got {name:?}");
        assert!(!why.trim().is_empty(), "expected a reason for the skip of {name}, got none");
    }
}

macro_rules! names {
    (; $($module:ident: $($name:ident)*;)*) => {
        &[$($(concat!(stringify!($module), "::", stringify!($name)),)*)*]
    };
}

/// The names of all behaviours, as `module::sentence`.
pub const BEHAVIOURS: &[&str] = crate::every_behaviour!([names]);

/// The future of a running behaviour.
pub type Running<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// A behaviour as a value. Its code is compiled here, once, and not in each program that runs it.
#[derive(Debug, Clone, Copy)]
pub struct Behaviour {
    /// Its name, as in [`BEHAVIOURS`].
    pub name: &'static str,
    /// Runs it; it panics if the engine does something else.
    pub run: for<'a> fn(&'a Harness) -> Running<'a>,
}

macro_rules! values {
    (; $($module:ident: $($name:ident)*;)*) => {
        vec![$($(Behaviour {
            name: concat!(stringify!($module), "::", stringify!($name)),
            run: |h| Box::pin(crate::$module::$name(h)),
        },)*)*]
    };
}

/// Returns all behaviours, in the order of [`BEHAVIOURS`].
pub fn all() -> Vec<Behaviour> {
    crate::every_behaviour!([values])
}

/// Returns a behaviour by its name, which must be one of [`BEHAVIOURS`].
pub fn behaviour(name: &str) -> Behaviour {
    all().into_iter().find(|behaviour| behaviour.name == name).expect("the name is in the list of behaviours")
}

#[cfg(test)]
mod tests;
