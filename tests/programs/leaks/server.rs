// SPDX-License-Identifier: BSD-3-Clause
// server.cc in Rust: a server with a thread for each connection, which keeps values by key. Lines:
// "set KEY BYTES", "get KEY", "leak BYTES", which leaks an object.
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

type Values = Arc<Mutex<BTreeMap<String, Box<Vec<u8>>>>>;

#[inline(never)]
fn lose(bytes: usize) {
    let mut lost = vec![0u8; bytes];
    lost[0] = 1;
    std::mem::forget(std::hint::black_box(lost));
}

// Overwrites what functions have left on the stack, so that no stale pointer holds a lost object.
#[inline(never)]
fn clear_stack() {
    std::hint::black_box([0u8; 16384]);
}

fn answer(line: &str, values: &Values) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        ["leak", bytes] => {
            let bytes = bytes.parse().unwrap();
            lose(bytes);
            clear_stack();
            "ok".to_string()
        }
        ["set", key, bytes] => {
            let value = Box::new(vec![1u8; bytes.parse().unwrap()]);
            values.lock().unwrap().insert(key.to_string(), value);
            "ok".to_string()
        }
        ["get", key, ..] => match values.lock().unwrap().get(key) {
            Some(value) => value.len().to_string(),
            None => "none".to_string(),
        },
        _ => "error".to_string(),
    }
}

fn serve(stream: TcpStream, values: Values) {
    let mut to = stream.try_clone().unwrap();
    for line in BufReader::new(stream).lines() {
        let Ok(line) = line else { return };
        if writeln!(to, "{}", answer(&line, &values)).is_err() {
            return;
        }
    }
}

fn main() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    println!("{}", listener.local_addr().unwrap().port());
    let values = Values::default();
    for stream in listener.incoming() {
        let values = values.clone();
        if let Ok(stream) = stream {
            std::thread::spawn(move || serve(stream, values));
        }
    }
}
