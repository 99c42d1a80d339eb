// SPDX-License-Identifier: BSD-3-Clause
use std::marker::PhantomData;

use tcmalloc_sys as sys;

/// Releases all free pages to the OS and returns the bytes released. What thread caches hold stays
/// there: [`trim`] flushes them first.
pub fn release_free_memory() -> usize {
    // SAFETY: this function, like all others in this file without another comment, has no preconditions.
    unsafe { sys::tcmalloc_release_free_memory() }
}

/// Releases at least `bytes` of free pages to the OS if there are that many. Returns the bytes released.
pub fn release_to_system(bytes: usize) -> usize {
    unsafe { sys::tcmalloc_release_to_system(bytes) }
}

/// Flushes all caches and releases all free memory to the OS, free pages among objects in use too.
/// Returns whether it released anything.
///
/// ```
/// # #[global_allocator] static A: tcmalloc::TCMalloc = tcmalloc::TCMalloc;
/// drop(vec![1u8; 64 << 20]);
/// tcmalloc::trim();
/// assert!(tcmalloc::property("tcmalloc.pageheap_free_bytes").unwrap() < 1 << 20);
/// ```
pub fn trim() -> bool {
    unsafe { sys::tc_malloc_trim(0) != 0 }
}

/// How fast the library releases free memory by itself: 0 never; 1, the default, 512 MiB per second of
/// what the program has not needed for four seconds; more is faster.
pub fn release_rate() -> f64 {
    unsafe { sys::tcmalloc_get_memory_release_rate() }
}

/// Sets the [`release_rate`].
pub fn set_release_rate(rate: f64) {
    unsafe { sys::tcmalloc_set_memory_release_rate(rate) }
}

/// Moves the objects in the caches of all threads to the central free lists, and returns their bytes.
/// Threads that sleep are included.
pub fn flush_all_thread_caches() -> usize {
    unsafe { sys::tcmalloc_flush_thread_caches() }
}

/// Moves the objects in the calling thread's cache to the central free lists, and returns their bytes.
pub fn flush_this_thread_cache() -> usize {
    unsafe { sys::tcmalloc_flush_this_thread_cache() }
}

/// Returns empty spans that are kept for the next use to the page heap, where other sizes can use them.
/// Returns their bytes. Call it after a flush of thread caches.
pub fn flush_central_caches() -> usize {
    unsafe { sys::tcmalloc_flush_central_caches() }
}

/// Says that the calling thread will not allocate for a while: flushes its cache.
pub fn mark_thread_idle() {
    unsafe { sys::tcmalloc_mark_thread_idle() }
}

/// Says that the calling thread will allocate soon: creates its cache if it has none.
pub fn mark_thread_busy() {
    unsafe { sys::tcmalloc_mark_thread_busy() }
}

/// What happens at a limit on the memory of the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// An allocation that would take the heap above the limit fails, after everything free was released.
    /// A Rust program that gets no memory usually aborts.
    Hard,
    /// Free memory is released before the heap grows above the limit. No allocation fails.
    Soft,
}

impl Limit {
    fn kind(self) -> std::os::raw::c_int {
        match self {
            Limit::Hard => sys::TCMALLOC_LIMIT_HARD,
            Limit::Soft => sys::TCMALLOC_LIMIT_SOFT,
        }
    }
}

/// The limit in bytes; `None` if there is none.
pub fn memory_limit(limit: Limit) -> Option<usize> {
    let bytes = unsafe { sys::tcmalloc_get_memory_limit(limit.kind()) };
    (bytes != 0).then_some(bytes)
}

/// Sets a limit in bytes, or removes it. It replaces the one of the environment.
///
/// ```
/// # #[global_allocator] static A: tcmalloc::TCMalloc = tcmalloc::TCMalloc;
/// use tcmalloc::Limit;
/// tcmalloc::set_memory_limit(Limit::Hard, Some(512 << 20));
/// let mut table: Vec<u8> = Vec::new();
/// assert!(table.try_reserve(1 << 30).is_err());
/// tcmalloc::set_memory_limit(Limit::Hard, None);
/// assert_eq!(tcmalloc::memory_limit(Limit::Hard), None);
/// ```
pub fn set_memory_limit(limit: Limit, bytes: Option<usize>) {
    unsafe { sys::tcmalloc_set_memory_limit(limit.kind(), bytes.unwrap_or(0)) }
}

/// The bytes that the object at `address` has room for; 0 for null.
///
/// # Safety
///
/// `address` is null or that of an object that the global allocator returned and that was not freed.
pub unsafe fn allocated_size<T>(address: *const T) -> usize {
    sys::tcmalloc_get_allocated_size(address.cast())
}

/// Whether `address` is in memory of the heap, in use or free.
pub fn owns<T: ?Sized>(address: *const T) -> bool {
    // SAFETY: does not read what is at the address.
    unsafe { sys::tcmalloc_owns(address.cast()) != 0 }
}

/// The scope of a phase of work that leaves nothing useful in caches: loading a table, building an
/// index, dropping one. Its end flushes the calling thread's cache and returns empty spans to the page
/// heap, so that other threads and sizes can use the memory.
///
/// ```
/// # #[global_allocator] static A: tcmalloc::TCMalloc = tcmalloc::TCMalloc;
/// let lines: Vec<String> = (0..100_000).map(|i| format!("line {i}")).collect();
/// {
///     let _phase = tcmalloc::Phase::new();
///     drop(lines);
/// }
/// // Nothing of it is left in the cache of this thread.
/// assert!(tcmalloc::flush_this_thread_cache() < 64 << 10);
/// ```
///
/// Phases may be nested: each flushes at its end. A phase releases nothing to the OS.
#[must_use = "the phase ends when it is dropped: bind it to a name"]
#[derive(Debug)]
pub struct Phase {
    /// The phase belongs to the thread that began it.
    of_this_thread: PhantomData<*const ()>,
}

impl Phase {
    /// Begins a phase.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Phase {
        Phase { of_this_thread: PhantomData }
    }
}

impl Drop for Phase {
    fn drop(&mut self) {
        flush_this_thread_cache();
        flush_central_caches();
    }
}
