// SPDX-License-Identifier: BSD-3-Clause
use std::any::Any;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};

/// Keeps a panic of a callback from unwinding through the C++ code that calls it.
#[derive(Default)]
pub(crate) struct Caught(Option<Box<dyn Any + Send>>);

impl Caught {
    /// Calls `f` unless an earlier call panicked. Returns `None` if this call or an earlier one panicked.
    pub(crate) fn call<T>(&mut self, f: impl FnOnce() -> T) -> Option<T> {
        if self.0.is_some() {
            return None;
        }
        match catch_unwind(AssertUnwindSafe(f)) {
            Ok(value) => Some(value),
            Err(panic) => {
                self.0 = Some(panic);
                None
            }
        }
    }

    /// Continues the panic, in the code that called the C++ code.
    pub(crate) fn resume(self) {
        if let Some(panic) = self.0 {
            resume_unwind(panic);
        }
    }
}
