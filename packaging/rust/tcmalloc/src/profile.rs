// SPDX-License-Identifier: BSD-3-Clause
use std::fs::File;
use std::io::{self, Write};
use std::os::raw::{c_int, c_void};
use std::path::Path;
use std::ptr::NonNull;
use std::slice;
use std::time::{Duration, SystemTime};

use tcmalloc_sys as sys;

use crate::unwind::Caught;

/// The mean number of bytes between samples; 0: no samples are taken.
pub fn sampling_interval() -> usize {
    // SAFETY: has no preconditions.
    unsafe { sys::tcmalloc_get_profile_sampling_interval() }
}

/// Starts, changes or stops (0) sampling. 524288 costs hardly anything. Objects that were allocated
/// before sampling started are in no profile.
pub fn set_sampling_interval(bytes: usize) {
    // SAFETY: has no preconditions.
    unsafe { sys::tcmalloc_set_profile_sampling_interval(bytes) }
}

/// What a profile shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Objects in use now.
    Heap,
    /// Objects in use at the peak.
    PeakHeap,
    /// Objects that were allocated while an [`AllocationRecording`] ran.
    Allocations,
    /// Call stacks that made the heap grow.
    Growth,
}

/// The format of a profile in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// pprof's profile.proto, not compressed.
    Proto,
    /// The text that gperftools' profilers write, which both versions of pprof read.
    LegacyText,
    /// A line for each stack, for flame graphs.
    Folded,
}

/// A call stack, and the objects of one size that were allocated there.
#[derive(Clone, Debug, PartialEq)]
pub struct Site {
    /// Return addresses, innermost first.
    pub stack: Vec<usize>,
    /// The size that was requested; 0 for several sizes.
    pub object_size: usize,
    /// The number of samples.
    pub recorded_objects: u64,
    /// The estimated number of objects.
    pub objects: f64,
    /// Their estimated bytes.
    pub bytes: f64,
}

/// An immutable heap profile.
///
/// ```
/// # #[global_allocator] static A: tcmalloc::TCMalloc = tcmalloc::TCMalloc;
/// use tcmalloc::{Format, Kind, Profile};
///
/// tcmalloc::set_sampling_interval(64 << 10); // before the objects of interest
/// let table: Vec<Box<[u8; 500]>> = (0..20_000).map(|_| Box::new([1; 500])).collect();
/// let profile = Profile::take(Kind::Heap)?;
/// profile.write_to(&mut std::io::stdout(), Format::Folded)?;
///
/// let bytes: f64 = profile.sites().iter().map(|site| site.bytes).sum();
/// assert!(bytes > 5e6, "of {} objects of 500 bytes: {bytes}", table.len());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Profile(NonNull<sys::tcmalloc_profile>);

// SAFETY: a profile is immutable, and any thread may read and free it.
unsafe impl Send for Profile {}
unsafe impl Sync for Profile {}

fn owned(profile: *mut sys::tcmalloc_profile) -> io::Result<Profile> {
    NonNull::new(profile)
        .map(Profile)
        .ok_or_else(|| io::Error::new(io::ErrorKind::OutOfMemory, "no memory for a heap profile"))
}

struct Sink<'a> {
    writer: &'a mut dyn Write,
    error: Option<io::Error>,
    caught: Caught,
}

unsafe extern "C" fn write_piece(data: *const c_void, bytes: usize, context: *mut c_void) -> c_int {
    let sink = &mut *context.cast::<Sink>();
    let piece = slice::from_raw_parts(data.cast::<u8>(), bytes);
    let (writer, caught) = (&mut sink.writer, &mut sink.caught);
    match caught.call(|| writer.write_all(piece)) {
        Some(Ok(())) => 1,
        Some(Err(error)) => {
            sink.error = Some(error);
            0
        }
        None => 0,
    }
}

type Sites = (Vec<Site>, Caught);

unsafe extern "C" fn add_site(entry: *const sys::tcmalloc_profile_entry, context: *mut c_void) {
    let entry = &*entry;
    let (sites, caught) = &mut *context.cast::<Sites>();
    caught.call(|| {
        let stack = match entry.depth {
            0 => Vec::new(),
            depth => slice::from_raw_parts(entry.stack.cast::<usize>(), depth).to_vec(),
        };
        sites.push(Site {
            stack,
            object_size: entry.object_size,
            recorded_objects: entry.recorded_objects,
            objects: entry.objects,
            bytes: entry.bytes,
        });
    });
}

impl Profile {
    /// Takes a profile. Fails if there is no memory for it, and for [`Kind::Allocations`], which
    /// [`AllocationRecording`] makes.
    pub fn take(kind: Kind) -> io::Result<Profile> {
        let kind = match kind {
            Kind::Heap => sys::TCMALLOC_PROFILE_HEAP,
            Kind::PeakHeap => sys::TCMALLOC_PROFILE_PEAK_HEAP,
            Kind::Growth => sys::TCMALLOC_PROFILE_GROWTH,
            Kind::Allocations => {
                let message = "a profile of allocations needs an AllocationRecording";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
            }
        };
        // SAFETY: has no preconditions; the profile that it returns is ours.
        owned(unsafe { sys::tcmalloc_profile_snapshot(kind) })
    }

    /// Writes the profile to `writer`, in pieces of some kilobytes.
    pub fn write_to(&self, writer: &mut dyn Write, format: Format) -> io::Result<()> {
        let format = match format {
            Format::Proto => sys::TCMALLOC_FORMAT_PROTO,
            Format::LegacyText => sys::TCMALLOC_FORMAT_LEGACY_TEXT,
            Format::Folded => sys::TCMALLOC_FORMAT_FOLDED,
        };
        let mut sink = Sink { writer, error: None, caught: Caught::default() };
        // SAFETY: `write_piece` gets the address of `sink`, and is not called after the call returns.
        let written = unsafe {
            sys::tcmalloc_profile_write_to(
                self.0.as_ptr(),
                format,
                Some(write_piece),
                (&mut sink as *mut Sink).cast(),
            )
        };
        sink.caught.resume();
        match sink.error {
            Some(error) => Err(error),
            None if written == 0 => {
                Err(io::Error::new(io::ErrorKind::Other, "the heap profile is incomplete"))
            }
            None => Ok(()),
        }
    }

    /// Writes the profile to a new file, or over an old one.
    pub fn write_file(&self, path: impl AsRef<Path>, format: Format) -> io::Result<()> {
        let mut file = File::create(path)?;
        self.write_to(&mut file, format)
    }

    fn info(&self) -> sys::tcmalloc_profile_info {
        let mut info = sys::tcmalloc_profile_info {
            kind: 0,
            sample_interval: 0,
            time_ns: 0,
            duration_ns: 0,
            num_entries: 0,
        };
        // SAFETY: the profile exists until it is dropped, and `info` is writable.
        unsafe { sys::tcmalloc_profile_get_info(self.0.as_ptr(), &mut info) };
        info
    }

    /// What the profile shows.
    pub fn kind(&self) -> Kind {
        match self.info().kind {
            sys::TCMALLOC_PROFILE_PEAK_HEAP => Kind::PeakHeap,
            sys::TCMALLOC_PROFILE_ALLOCATIONS => Kind::Allocations,
            sys::TCMALLOC_PROFILE_GROWTH => Kind::Growth,
            _ => Kind::Heap,
        }
    }

    /// When it was taken.
    pub fn time(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_nanos(self.info().time_ns.max(0) as u64)
    }

    /// How long the recording took; zero if there was none.
    pub fn duration(&self) -> Duration {
        Duration::from_nanos(self.info().duration_ns.max(0) as u64)
    }

    /// The call sites.
    pub fn sites(&self) -> Vec<Site> {
        let mut sites: Sites = Default::default();
        // SAFETY: `add_site` gets the address of `sites`, and is not called after the call returns.
        unsafe {
            sys::tcmalloc_profile_for_each(
                self.0.as_ptr(),
                Some(add_site),
                (&mut sites as *mut Sites).cast(),
            );
        }
        sites.1.resume();
        sites.0
    }
}

impl Drop for Profile {
    fn drop(&mut self) {
        // SAFETY: nothing else refers to the profile.
        unsafe { sys::tcmalloc_profile_free(self.0.as_ptr()) }
    }
}

/// A recording of all sampled allocations, also of those that are freed meanwhile: shows which code
/// allocates much. A process has one at a time.
///
/// ```
/// # #[global_allocator] static A: tcmalloc::TCMalloc = tcmalloc::TCMalloc;
/// tcmalloc::set_sampling_interval(4 << 10);
/// let recording = tcmalloc::AllocationRecording::start().expect("one runs already");
/// for i in 0..10_000 {
///     drop(format!("line {i}"));
/// }
/// let profile = recording.stop()?;
/// let file = std::env::temp_dir().join("allocations.pb");
/// profile.write_file(&file, tcmalloc::Format::Proto)?;
/// # std::fs::remove_file(&file)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use = "the recording ends when it is dropped: bind it to a name"]
#[derive(Debug)]
pub struct AllocationRecording(());

impl AllocationRecording {
    /// Starts a recording; `None` if one runs already. Sampling must be on ([`set_sampling_interval`]).
    pub fn start() -> Option<AllocationRecording> {
        // SAFETY: has no preconditions.
        let started = unsafe { sys::tcmalloc_start_allocation_profiling() } != 0;
        started.then(|| AllocationRecording(()))
    }

    /// Ends the recording.
    pub fn stop(self) -> io::Result<Profile> {
        std::mem::forget(self);
        // SAFETY: this recording runs, and the profile is ours.
        owned(unsafe { sys::tcmalloc_stop_allocation_profiling() })
    }
}

impl Drop for AllocationRecording {
    fn drop(&mut self) {
        // SAFETY: the profile, which is discarded, may be null.
        unsafe { sys::tcmalloc_profile_free(sys::tcmalloc_stop_allocation_profiling()) }
    }
}
