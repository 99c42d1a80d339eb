// SPDX-License-Identifier: BSD-3-Clause
#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod global;
mod memory;
mod profile;
mod properties;
mod stats;
mod unwind;

pub use global::TCMalloc;
pub use memory::{
    allocated_size, flush_all_thread_caches, flush_central_caches, flush_this_thread_cache,
    mark_thread_busy, mark_thread_idle, memory_limit, owns, release_free_memory,
    release_rate, release_to_system, set_memory_limit, set_release_rate, trim, Limit, Phase,
};
pub use profile::{
    sampling_interval, set_sampling_interval, AllocationRecording, Format, Kind, Profile, Site,
};
pub use properties::{properties, property, set_property, PropertyError};
pub use stats::{stats_json, stats_openmetrics, stats_text, version, Detail};

/// The C interface, for what this crate does not wrap: callbacks, memory pressure, lists of objects.
pub use tcmalloc_sys as sys;
