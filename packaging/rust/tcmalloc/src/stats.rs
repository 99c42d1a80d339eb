// SPDX-License-Identifier: BSD-3-Clause
use std::os::raw::c_char;

use tcmalloc_sys as sys;

/// How much [`stats_text`] shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// The table of totals.
    Summary,
    /// Also a line for each size class and each length of free run.
    SizeClasses,
}

/// Calls `write`, which fills a buffer as snprintf does, until the buffer is long enough.
fn text_of(write: impl Fn(*mut c_char, usize) -> usize) -> String {
    // The buffer itself is in this heap, so the text may grow. The first try is nearly always enough.
    let mut buffer = vec![0u8; 16 << 10];
    loop {
        let length = write(buffer.as_mut_ptr().cast(), buffer.len());
        if length < buffer.len() {
            buffer.truncate(length);
            return String::from_utf8_lossy(&buffer).into_owned();
        }
        buffer = vec![0u8; (length + 1).max(2 * buffer.len())];
    }
}

/// The version of the library, which is that of this crate.
///
/// ```
/// # #[global_allocator] static A: tcmalloc::TCMalloc = tcmalloc::TCMalloc;
/// assert!(tcmalloc::version().contains('.'));
/// ```
pub fn version() -> &'static str {
    // SAFETY: a constant of the library that ends with a zero.
    unsafe { std::ffi::CStr::from_ptr(sys::tcmalloc_version()) }.to_str().unwrap_or("")
}

/// The statistics as `malloc_stats` prints them.
///
/// ```
/// # #[global_allocator] static A: tcmalloc::TCMalloc = tcmalloc::TCMalloc;
/// let text = tcmalloc::stats_text(tcmalloc::Detail::Summary);
/// assert!(text.contains("Bytes in use by application"));
/// ```
pub fn stats_text(detail: Detail) -> String {
    let level = if detail == Detail::Summary { 1 } else { 2 };
    // SAFETY: writes at most `length` bytes.
    text_of(|buffer, length| unsafe { sys::tcmalloc_stats_text(level, buffer, length) })
}

/// The statistics as one JSON object.
pub fn stats_json() -> String {
    // SAFETY: as above.
    text_of(|buffer, length| unsafe { sys::tcmalloc_stats_json(buffer, length) })
}

/// The statistics for Prometheus and other collectors: answer a scrape with this text and the content
/// type `application/openmetrics-text; version=1.0.0; charset=utf-8`.
///
/// ```
/// # #[global_allocator] static A: tcmalloc::TCMalloc = tcmalloc::TCMalloc;
/// assert!(tcmalloc::stats_openmetrics().ends_with("# EOF\n"));
/// ```
pub fn stats_openmetrics() -> String {
    // SAFETY: as above.
    text_of(|buffer, length| unsafe { sys::tcmalloc_stats_openmetrics(buffer, length) })
}
