// SPDX-License-Identifier: BSD-3-Clause
//! Builds libtcmalloc.a with CMake and a C++ compiler, and links it. The sources are those in native/, which the
//! crate's archive has, or those of the clone that the crate lies in.
//!
//! CMake is called as a program, so that the crate depends on no other: it has the rules by which the
//! files become a library. The library is optimised in every profile. CC, CXX and
//! CMAKE_TOOLCHAIN_FILE in the environment choose the compilers, as CMake reads them.
use std::env;
use std::path::PathBuf;
use std::process::{exit, Command};

/// A failed build script prints what it wrote on stderr; a panic would add a backtrace to it.
fn fail(message: &str) -> ! {
    eprintln!("tcmalloc-sys: {message}");
    exit(1)
}

fn run(command: &mut Command) {
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => fail(&format!("{command:?} failed: {status}")),
        Err(error) => fail(&format!(
            "cannot run {:?}: {error}. Install CMake 3.23 or newer, and g++ 12 or newer",
            command.get_program()
        )),
    }
}

/// The flag for 32-bit x86 on a 64-bit machine, which needs no other compiler.
fn check_target() -> Option<&'static str> {
    let target = env::var("TARGET").unwrap();
    let host = env::var("HOST").unwrap();
    if env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux") {
        fail(&format!("TCMalloc is for Linux; the target is {target}"));
    }
    if env::var("CARGO_CFG_TARGET_ENV").as_deref() != Ok("gnu") {
        fail(&format!(
            "TCMalloc needs the GNU C library in a Rust program; the target is {target}"
        ));
    }
    if target.starts_with("i686-") && host.starts_with("x86_64-") {
        return Some("-m32");
    }
    if target != host && env::var_os("CMAKE_TOOLCHAIN_FILE").is_none() {
        fail(&format!(
            "set CMAKE_TOOLCHAIN_FILE to a file that names the C++ compiler for {target}"
        ));
    }
    None
}

fn main() {
    let source = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap());
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap());
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=CMakeLists.txt");
    let carried = source.join("native");
    let native = if carried.exists() { carried } else { source.join("../../..") };
    for name in ["CMakeLists.txt", "formats", "include", "instruments", "src"] {
        println!("cargo:rerun-if-changed={}", native.join(name).display());
    }
    for name in ["CC", "CXX", "CFLAGS", "CXXFLAGS", "CMAKE_TOOLCHAIN_FILE"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    let bits = check_target();
    if !native.join("src/CMakeLists.txt").exists() {
        fail("the sources of the library are missing: build from a clone of the repository, or from the crate's archive");
    }

    let build = out.join("build");
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(&source).arg("-B").arg(&build);
    configure.arg("-DCMAKE_BUILD_TYPE=Release");
    configure.arg(format!("-DTCMALLOC_NATIVE={}", native.display()));
    if let Some(flag) = bits {
        configure.arg(format!("-DCMAKE_C_FLAGS={flag}"));
        configure.arg(format!("-DCMAKE_CXX_FLAGS={flag}"));
    }
    run(&mut configure);
    let jobs = env::var("NUM_JOBS").unwrap_or_else(|_| "1".to_string());
    let mut make = Command::new("cmake");
    make.arg("--build").arg(&build);
    make.args(["--target", "tcmalloc_static", "--parallel", &jobs]);
    // make's own descriptors of cargo's job server are not open in a build script.
    make.env_remove("MAKEFLAGS").env_remove("MFLAGS");
    run(&mut make);

    println!("cargo:rustc-link-search=native={}", build.join("lib").display());
    println!("cargo:rustc-link-lib=static=tcmalloc");
    println!("cargo:include={}", native.join("include").display());
    println!("cargo:root={}", build.display());
}
