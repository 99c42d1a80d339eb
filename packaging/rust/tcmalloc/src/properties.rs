// SPDX-License-Identifier: BSD-3-Clause
use std::collections::BTreeMap;
use std::error::Error;
use std::ffi::{CStr, CString};
use std::fmt;
use std::os::raw::{c_char, c_void};

use tcmalloc_sys as sys;

use crate::unwind::Caught;

/// Why [`set_property`] set nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PropertyError {
    /// There is no property of this name.
    Unknown(String),
    /// The property cannot be set, or not to this value.
    Refused {
        /// The name of the property.
        name: String,
        /// The value that was refused.
        value: usize,
    },
}

impl fmt::Display for PropertyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PropertyError::Unknown(name) => write!(f, "TCMalloc has no property {name}"),
            PropertyError::Refused { name, value } => {
                write!(f, "TCMalloc's property {name} cannot be set to {value}")
            }
        }
    }
}

impl Error for PropertyError {}

/// The value of a figure or setting by its name; `None` if there is no such name.
///
/// ```
/// # #[global_allocator] static A: tcmalloc::TCMalloc = tcmalloc::TCMalloc;
/// let before = tcmalloc::property("generic.current_allocated_bytes").unwrap();
/// let table = vec![1u8; 10 << 20];
/// let after = tcmalloc::property("generic.current_allocated_bytes").unwrap();
/// assert!(after - before >= table.len());
/// assert_eq!(tcmalloc::property("no.such.name"), None);
/// ```
pub fn property(name: &str) -> Option<usize> {
    let name = CString::new(name).ok()?;
    let mut value = 0;
    // SAFETY: the name ends with a zero, and `value` is writable.
    let found = unsafe { sys::tcmalloc_get_numeric_property(name.as_ptr(), &mut value) };
    (found != 0).then_some(value)
}

/// Sets a property.
///
/// ```
/// # #[global_allocator] static A: tcmalloc::TCMalloc = tcmalloc::TCMalloc;
/// tcmalloc::set_property("tcmalloc.max_total_thread_cache_bytes", 64 << 20)?;
///
/// let refused = tcmalloc::set_property("generic.heap_size", 0).unwrap_err();
/// assert_eq!(
///     refused.to_string(),
///     "TCMalloc's property generic.heap_size cannot be set to 0"
/// );
/// # Ok::<(), tcmalloc::PropertyError>(())
/// ```
pub fn set_property(name: &str, value: usize) -> Result<(), PropertyError> {
    let unknown = || PropertyError::Unknown(name.to_string());
    let c_name = CString::new(name).map_err(|_| unknown())?;
    // SAFETY: the name ends with a zero.
    if unsafe { sys::tcmalloc_set_numeric_property(c_name.as_ptr(), value) } != 0 {
        return Ok(());
    }
    Err(match property(name) {
        None => unknown(),
        Some(_) => PropertyError::Refused { name: name.to_string(), value },
    })
}

type Collected = (BTreeMap<String, usize>, Caught);

unsafe extern "C" fn collect(name: *const c_char, value: usize, context: *mut c_void) {
    let (values, caught) = &mut *context.cast::<Collected>();
    caught.call(|| values.insert(CStr::from_ptr(name).to_string_lossy().into_owned(), value));
}

/// All properties with their values, which are from the same moment.
///
/// ```
/// # #[global_allocator] static A: tcmalloc::TCMalloc = tcmalloc::TCMalloc;
/// for (name, value) in tcmalloc::properties() {
///     println!("{name} {value}");
/// }
/// ```
pub fn properties() -> BTreeMap<String, usize> {
    let mut collected: Collected = Default::default();
    // SAFETY: `collect` gets the address of `collected`, and is not called after the call returns.
    unsafe {
        sys::tcmalloc_list_numeric_properties(
            Some(collect),
            (&mut collected as *mut Collected).cast(),
        );
    }
    collected.1.resume();
    collected.0
}
