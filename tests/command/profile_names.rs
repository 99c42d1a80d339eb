// SPDX-License-Identifier: BSD-3-Clause
// Call sites of known names in Rust, as profile_names.cc has them in C++.
use std::io::BufRead;

mod shop {
    pub struct Store<T> {
        items: Vec<Box<T>>,
    }

    impl<T> Store<T> {
        pub fn new() -> Store<T> {
            Store { items: Vec::new() }
        }

        #[inline(never)]
        pub fn fill(&mut self, n: usize, make: impl Fn(usize) -> T) {
            for i in 0..n {
                self.put(make(i));
            }
        }

        #[inline(always)]
        fn put(&mut self, item: T) {
            self.items.push(Box::new(item));
        }
    }
}

#[inline(never)]
fn grow(bytes: usize) -> Vec<u8> {
    vec![1; bytes]
}

fn main() {
    let mut store = shop::Store::new();
    store.fill(300000, |i| i as u64);
    let grown = grow(3 << 20);
    println!("ready {:p}", grown.as_ptr());
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).unwrap();
    drop(store);
}
