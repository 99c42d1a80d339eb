// SPDX-License-Identifier: BSD-3-Clause
//! Builds an index, drops most of it in a phase, and asks the allocator where the memory is.
//!
//!     cargo run --release --example phases            prints the figures
//!     cargo run --release --example phases -- wait    then waits until its input ends
use std::collections::BTreeMap;
use std::io::{self, Read};

#[global_allocator]
static ALLOCATOR: tcmalloc::TCMalloc = tcmalloc::TCMalloc;

#[inline(never)]
fn build_index(entries: u32) -> BTreeMap<u32, Vec<u8>> {
    let mut index = BTreeMap::new();
    for key in 0..entries {
        index.insert(key, vec![1u8; 200]);
    }
    index
}

fn report(what: &str) {
    let mib = |name| tcmalloc::property(name).unwrap_or(0) as f64 / f64::from(1 << 20);
    println!(
        "{what:<26} {:5.1} MiB in use, {:5.1} MiB backed",
        mib("generic.current_allocated_bytes"),
        mib("generic.total_physical_bytes"),
    );
}

fn main() -> io::Result<()> {
    tcmalloc::set_sampling_interval(64 << 10);
    report("at the start");
    let mut index = build_index(200_000);
    report("the index is built");
    {
        let _phase = tcmalloc::Phase::new();
        index = index.split_off(&180_000); // the first nine tenths are dropped
    }
    report("nine of ten are dropped");
    tcmalloc::trim();
    report("free memory is released");

    let profile = tcmalloc::Profile::take(tcmalloc::Kind::Heap)?;
    let bytes: f64 = profile.sites().iter().map(|site| site.bytes).sum();
    println!("the heap profile has about {:.0} MB", bytes / 1e6);

    if std::env::args().nth(1).as_deref() == Some("wait") {
        io::stdin().read_to_end(&mut Vec::new())?;
    }
    drop(index);
    Ok(())
}
