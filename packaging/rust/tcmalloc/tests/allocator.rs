// SPDX-License-Identifier: BSD-3-Clause
//! The allocator serves the program, and the interface does what the header says.
use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{self, Write};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Mutex;

use tcmalloc::{AllocationRecording, Format, Kind, Limit, Profile, TCMalloc};

#[global_allocator]
static ALLOCATOR: TCMalloc = TCMalloc;

/// Tests that sample or limit the heap run one at a time.
static OF_PROCESS: Mutex<()> = Mutex::new(());

#[test]
fn every_layout_is_aligned_and_keeps_its_contents() {
    for align in (0..=14).map(|shift| 1usize << shift) {
        for size in [1, 2, 7, 8, 9, 15, 16, 17, 24, 100, 1000, 4096, 70_000, 1 << 20] {
            let layout = Layout::from_size_align(size, align).unwrap();
            unsafe {
                let object = ALLOCATOR.alloc(layout);
                assert_eq!(object as usize % align, 0, "{layout:?}");
                assert!(tcmalloc::allocated_size(object) >= size, "{layout:?}");
                object.write_bytes(7, size);
                let larger = ALLOCATOR.realloc(object, layout, 3 * size);
                assert_eq!(larger as usize % align, 0, "{layout:?}");
                assert!((0..size).all(|i| *larger.add(i) == 7), "{layout:?}");
                let large = Layout::from_size_align(3 * size, align).unwrap();
                let one = ALLOCATOR.realloc(larger, large, 1);
                assert_eq!((one as usize % align, *one), (0, 7), "{layout:?}");
                ALLOCATOR.dealloc(one, Layout::from_size_align(1, align).unwrap());

                let zeroed = ALLOCATOR.alloc_zeroed(layout);
                assert_eq!(zeroed as usize % align, 0, "{layout:?}");
                assert!((0..size).all(|i| *zeroed.add(i) == 0), "{layout:?}");
                ALLOCATOR.dealloc(zeroed, layout);
            }
        }
    }
}

#[test]
fn no_memory_is_null() {
    let layout = Layout::from_size_align(isize::MAX as usize - 4096, 1).unwrap();
    assert!(unsafe { ALLOCATOR.alloc(layout) }.is_null());
    assert!(unsafe { ALLOCATOR.alloc_zeroed(layout) }.is_null());
    let aligned = Layout::from_size_align(isize::MAX as usize - 8191, 4096).unwrap();
    assert!(unsafe { ALLOCATOR.alloc_zeroed(aligned) }.is_null());
}

#[test]
fn serves_the_c_library_too() {
    let layout = Layout::from_size_align(100, 8).unwrap();
    let object = unsafe { System.alloc(layout) };
    assert!(tcmalloc::owns(object));
    unsafe { System.dealloc(object, layout) };
    // The C library's shared object allocates in this function.
    extern "C" {
        fn strdup(text: *const std::os::raw::c_char) -> *mut std::os::raw::c_char;
        fn free(object: *mut std::os::raw::c_void);
    }
    unsafe {
        let copy = strdup(b"a text\0".as_ptr().cast());
        assert!(tcmalloc::owns(copy));
        free(copy.cast());
    }
    let on_stack = 0u8;
    assert!(!tcmalloc::owns(&on_stack));
}

#[test]
fn objects_move_between_threads() {
    let handles: Vec<_> = (0..4u32)
        .map(|seed| {
            std::thread::spawn(move || {
                (0..20_000).map(|i| format!("{seed} {i}")).collect::<Vec<String>>()
            })
        })
        .collect();
    for (seed, handle) in handles.into_iter().enumerate() {
        let lines = handle.join().unwrap();
        assert_eq!(lines[19_999], format!("{seed} 19999"));
    }
}

#[test]
fn statistics_have_their_formats() {
    assert!(tcmalloc::stats_text(tcmalloc::Detail::Summary).contains("MALLOC:"));
    assert!(
        tcmalloc::stats_text(tcmalloc::Detail::SizeClasses).len()
            > tcmalloc::stats_text(tcmalloc::Detail::Summary).len()
    );
    assert!(tcmalloc::stats_json().starts_with('{'));
    assert!(tcmalloc::stats_openmetrics().ends_with("# EOF\n"));
}

#[test]
fn properties_by_name_and_in_the_list() {
    let listed = tcmalloc::properties();
    assert!(listed.len() > 20);
    for name in listed.keys() {
        assert!(tcmalloc::property(name).is_some(), "{name}");
    }
    assert_eq!(tcmalloc::property("a\0b"), None);
    let unknown = tcmalloc::set_property("no.such.name", 1).unwrap_err();
    assert_eq!(unknown.to_string(), "TCMalloc has no property no.such.name");
}

#[test]
fn limits_fail_allocations() {
    let _one = OF_PROCESS.lock().unwrap();
    tcmalloc::set_memory_limit(Limit::Soft, Some(1 << 30));
    assert_eq!(tcmalloc::memory_limit(Limit::Soft), Some(1 << 30));
    tcmalloc::set_memory_limit(Limit::Soft, None);
    tcmalloc::set_memory_limit(Limit::Hard, Some(1 << 30));
    assert!(Vec::<u8>::new().try_reserve(1_100 << 20).is_err());
    tcmalloc::set_memory_limit(Limit::Hard, None);
    assert_eq!(tcmalloc::memory_limit(Limit::Hard), None);
}

#[test]
fn profiles_in_each_format() {
    let _one = OF_PROCESS.lock().unwrap();
    tcmalloc::set_sampling_interval(16 << 10);
    let table: Vec<Vec<u8>> = (0..1000).map(|_| vec![1; 10_000]).collect();
    let profile = Profile::take(Kind::Heap).unwrap();
    tcmalloc::set_sampling_interval(0);
    assert_eq!(profile.kind(), Kind::Heap);
    assert!(profile.time().elapsed().unwrap().as_secs() < 60);
    let bytes: f64 = profile.sites().iter().map(|site| site.bytes).sum();
    assert!((5e6..2e7).contains(&bytes), "{bytes} for {} objects", table.len());
    for format in [Format::Proto, Format::LegacyText, Format::Folded] {
        let mut text = Vec::new();
        profile.write_to(&mut text, format).unwrap();
        assert!(text.len() > 50, "{format:?}");
    }
    assert!(Profile::take(Kind::Allocations).is_err());
}

#[test]
fn one_recording_at_a_time() {
    let _one = OF_PROCESS.lock().unwrap();
    let first = AllocationRecording::start().unwrap();
    assert!(AllocationRecording::start().is_none());
    drop(first);
    let second = AllocationRecording::start().unwrap();
    let profile = second.stop().unwrap();
    assert_eq!(profile.kind(), Kind::Allocations);
    assert!(AllocationRecording::start().is_some());
}

struct Failing(bool);

impl Write for Failing {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        assert!(!self.0, "the writer panicked");
        Err(io::Error::new(io::ErrorKind::Other, "the writer is full"))
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn errors_and_panics_of_a_writer_reach_the_caller() {
    let profile = Profile::take(Kind::Growth).unwrap();
    let error = profile.write_to(&mut Failing(false), Format::LegacyText).unwrap_err();
    assert_eq!(error.to_string(), "the writer is full");
    let caught = catch_unwind(AssertUnwindSafe(|| {
        let _ = profile.write_to(&mut Failing(true), Format::LegacyText);
    }));
    assert!(caught.is_err());
}
