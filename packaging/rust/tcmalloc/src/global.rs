// SPDX-License-Identifier: BSD-3-Clause
use std::alloc::{GlobalAlloc, Layout};
use std::mem::size_of;

use tcmalloc_sys as sys;

/// The allocator, for `#[global_allocator]`.
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: tcmalloc::TCMalloc = tcmalloc::TCMalloc;
///
/// let numbers = vec![0u8; 1000];
/// assert!(tcmalloc::owns(numbers.as_ptr()));
/// ```
///
/// It serves the whole process: `malloc` of the C libraries in it is TCMalloc's, too.
#[derive(Clone, Copy, Debug, Default)]
pub struct TCMalloc;

/// `malloc` aligns an object of at least this size to this size.
const MALLOC_ALIGNMENT: usize = 2 * size_of::<usize>();

/// Whether `malloc` aligns an object of this layout well enough. A shorter object is aligned to the
/// largest power of two that is not longer than it.
fn malloc_aligns(layout: &Layout) -> bool {
    layout.align() <= MALLOC_ALIGNMENT && layout.align() <= layout.size()
}

// SAFETY: the functions of tcmalloc-sys do not unwind, and return null or an object of the layout. The
// caller passes the layout with which an object was allocated, so each is freed as it was allocated.
unsafe impl GlobalAlloc for TCMalloc {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if malloc_aligns(&layout) {
            sys::tc_malloc(layout.size()).cast()
        } else {
            sys::tc_memalign(layout.align(), layout.size()).cast()
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if malloc_aligns(&layout) {
            return sys::tc_calloc(1, layout.size()).cast();
        }
        let object = self.alloc(layout);
        if !object.is_null() {
            object.write_bytes(0, layout.size());
        }
        object
    }

    #[inline]
    unsafe fn dealloc(&self, object: *mut u8, layout: Layout) {
        if malloc_aligns(&layout) {
            sys::tc_free_sized(object.cast(), layout.size());
        } else {
            sys::tc_free_aligned_sized(object.cast(), layout.align(), layout.size());
        }
    }

    #[inline]
    unsafe fn realloc(&self, object: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let new_layout = Layout::from_size_align_unchecked(new_size, layout.align());
        if malloc_aligns(&layout) && malloc_aligns(&new_layout) {
            return sys::tc_realloc(object.cast(), new_size).cast();
        }
        let new_object = self.alloc(new_layout);
        if !new_object.is_null() {
            new_object.copy_from_nonoverlapping(object, layout.size().min(new_size));
            self.dealloc(object, layout);
        }
        new_object
    }
}
