// SPDX-License-Identifier: BSD-3-Clause
//! The C interface of TCMalloc: what `tcmalloc/tcmalloc.h` declares, and the allocation functions.
//!
//! The build script compiles the library's sources, which the crate carries, and links them
//! statically. A program that refers to any function here is served by TCMalloc as a whole, `malloc`
//! of its C libraries included. The crate [`tcmalloc`](https://docs.rs/tcmalloc) has a safe interface.
//!
//! The header says what each function does, what it costs, and who may call it. It is in the crate,
//! and scripts of crates that depend on this one find its folder in `DEP_TCMALLOC_INCLUDE`.
#![allow(non_camel_case_types)]

use std::os::raw::{c_char, c_double, c_int, c_longlong, c_ulonglong, c_void};

/// Kinds of limits of [`tcmalloc_set_memory_limit`].
pub const TCMALLOC_LIMIT_HARD: c_int = 0;
pub const TCMALLOC_LIMIT_SOFT: c_int = 1;

/// Kinds of profiles.
pub const TCMALLOC_PROFILE_HEAP: c_int = 0;
pub const TCMALLOC_PROFILE_PEAK_HEAP: c_int = 1;
pub const TCMALLOC_PROFILE_ALLOCATIONS: c_int = 2;
pub const TCMALLOC_PROFILE_GROWTH: c_int = 3;

/// Formats of profiles.
pub const TCMALLOC_FORMAT_PROTO: c_int = 0;
pub const TCMALLOC_FORMAT_LEGACY_TEXT: c_int = 1;
pub const TCMALLOC_FORMAT_FOLDED: c_int = 2;

pub type tcmalloc_limit_callback = Option<
    unsafe extern "C" fn(
        kind: c_int,
        current_bytes: usize,
        limit_bytes: usize,
        context: *mut c_void,
    ),
>;
pub type tcmalloc_large_allocation_callback =
    Option<unsafe extern "C" fn(object: *mut c_void, bytes: usize, context: *mut c_void)>;
pub type tcmalloc_property_callback =
    Option<unsafe extern "C" fn(name: *const c_char, value: usize, context: *mut c_void)>;
pub type tcmalloc_profile_callback =
    Option<unsafe extern "C" fn(entry: *const tcmalloc_profile_entry, context: *mut c_void)>;
pub type tcmalloc_profile_sink = Option<
    unsafe extern "C" fn(data: *const c_void, bytes: usize, context: *mut c_void) -> c_int,
>;
pub type tcmalloc_object_callback =
    Option<unsafe extern "C" fn(object: *mut c_void, bytes: usize, context: *mut c_void)>;

/// Set `notify` and `context`, fill the rest with nulls, and do not move the listener while it is added.
#[repr(C)]
pub struct tcmalloc_pressure_listener {
    pub notify: Option<unsafe extern "C" fn(level: c_int, context: *mut c_void)>,
    pub context: *mut c_void,
    pub private_links: [*mut tcmalloc_pressure_listener; 2],
}

/// An immutable profile.
#[repr(C)]
pub struct tcmalloc_profile {
    private: [u8; 0],
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct tcmalloc_profile_info {
    pub kind: c_int,
    pub sample_interval: usize,
    pub time_ns: c_longlong,
    pub duration_ns: c_longlong,
    pub num_entries: usize,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct tcmalloc_profile_entry {
    pub stack: *const *const c_void,
    pub depth: usize,
    pub object_size: usize,
    pub recorded_objects: c_ulonglong,
    pub recorded_bytes: c_ulonglong,
    pub objects: c_double,
    pub bytes: c_double,
}

// tcmalloc/tcmalloc.h
extern "C" {
    pub fn tcmalloc_flush_thread_caches() -> usize;
    pub fn tcmalloc_flush_central_caches() -> usize;
    pub fn tcmalloc_flush_this_thread_cache() -> usize;
    pub fn tcmalloc_mark_thread_idle();
    pub fn tcmalloc_mark_thread_temporarily_idle();
    pub fn tcmalloc_mark_thread_busy();
    pub fn tcmalloc_release_free_memory() -> usize;
    pub fn tcmalloc_release_to_system(bytes: usize) -> usize;
    pub fn tcmalloc_set_memory_release_rate(rate: c_double);
    pub fn tcmalloc_get_memory_release_rate() -> c_double;
    pub fn tcmalloc_process_background_actions();
    pub fn tcmalloc_set_memory_limit(kind: c_int, bytes: usize);
    pub fn tcmalloc_get_memory_limit(kind: c_int) -> usize;
    pub fn tcmalloc_set_limit_callback(callback: tcmalloc_limit_callback, context: *mut c_void);
    pub fn tcmalloc_add_pressure_listener(listener: *mut tcmalloc_pressure_listener);
    pub fn tcmalloc_remove_pressure_listener(listener: *mut tcmalloc_pressure_listener);
    pub fn tcmalloc_pressure_fd() -> c_int;
    pub fn tcmalloc_handle_pressure() -> c_int;
    pub fn tcmalloc_version() -> *const c_char;
    pub fn tcmalloc_stats_text(level: c_int, buffer: *mut c_char, length: usize) -> usize;
    pub fn tcmalloc_stats_json(buffer: *mut c_char, length: usize) -> usize;
    pub fn tcmalloc_stats_openmetrics(buffer: *mut c_char, length: usize) -> usize;
    pub fn tcmalloc_set_large_allocation_callback(
        callback: tcmalloc_large_allocation_callback,
        context: *mut c_void,
    );
    pub fn tcmalloc_set_large_allocation_threshold(bytes: usize);
    pub fn tcmalloc_get_large_allocation_threshold() -> usize;
    pub fn tcmalloc_get_numeric_property(name: *const c_char, value: *mut usize) -> c_int;
    pub fn tcmalloc_set_numeric_property(name: *const c_char, value: usize) -> c_int;
    pub fn tcmalloc_list_numeric_properties(
        callback: tcmalloc_property_callback,
        context: *mut c_void,
    );
    pub fn tcmalloc_get_allocated_size(object: *const c_void) -> usize;
    pub fn tcmalloc_get_estimated_allocated_size(size: usize) -> usize;
    pub fn tcmalloc_owns(address: *const c_void) -> c_int;
    pub fn tcmalloc_get_profile_sampling_interval() -> usize;
    pub fn tcmalloc_set_profile_sampling_interval(bytes: usize);
    pub fn tcmalloc_profile_snapshot(kind: c_int) -> *mut tcmalloc_profile;
    pub fn tcmalloc_profile_free(profile: *mut tcmalloc_profile);
    pub fn tcmalloc_start_allocation_profiling() -> c_int;
    pub fn tcmalloc_stop_allocation_profiling() -> *mut tcmalloc_profile;
    pub fn tcmalloc_profile_get_info(
        profile: *const tcmalloc_profile,
        info: *mut tcmalloc_profile_info,
    );
    pub fn tcmalloc_profile_for_each(
        profile: *const tcmalloc_profile,
        callback: tcmalloc_profile_callback,
        context: *mut c_void,
    );
    pub fn tcmalloc_profile_write(
        profile: *const tcmalloc_profile,
        format: c_int,
        fd: c_int,
    ) -> c_int;
    pub fn tcmalloc_profile_write_to(
        profile: *const tcmalloc_profile,
        format: c_int,
        sink: tcmalloc_profile_sink,
        context: *mut c_void,
    ) -> c_int;
    pub fn tcmalloc_for_each_object(
        callback: tcmalloc_object_callback,
        context: *mut c_void,
    ) -> c_int;
}

// The allocation functions, under names that no other library has.
extern "C" {
    pub fn tc_malloc(size: usize) -> *mut c_void;
    pub fn tc_calloc(count: usize, size: usize) -> *mut c_void;
    pub fn tc_realloc(object: *mut c_void, size: usize) -> *mut c_void;
    pub fn tc_memalign(alignment: usize, size: usize) -> *mut c_void;
    pub fn tc_free(object: *mut c_void);
    /// `size` is the one that was requested from [`tc_malloc`], [`tc_calloc`] or [`tc_realloc`].
    pub fn tc_free_sized(object: *mut c_void, size: usize);
    /// `alignment` and `size` are those that were requested from [`tc_memalign`].
    pub fn tc_free_aligned_sized(object: *mut c_void, alignment: usize, size: usize);
    pub fn tc_malloc_trim(pad: usize) -> c_int;
}
