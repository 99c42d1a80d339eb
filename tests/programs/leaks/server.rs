// SPDX-License-Identifier: BSD-3-Clause
// The server of server.cc in Rust.
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

type Values = Arc<Mutex<BTreeMap<String, Box<Vec<u8>>>>>;

#[inline(never)]
fn leak(bytes: usize) {
    let value = vec![1u8; bytes];
    // This makes the compiler keep the allocation.
    unsafe { std::ptr::read_volatile(value.as_ptr()) };
    std::mem::forget(value);
}

fn answer(line: &str, values: &Values) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |i: usize| words.get(i).and_then(|word| word.parse().ok()).unwrap_or(1);
    match words.first().copied() {
        Some("leak") => {
            leak(number(1));
            "ok".to_string()
        }
        Some("set") => {
            let value = Box::new(vec![0u8; number(2)]);
            values.lock().unwrap().insert(words[1].to_string(), value);
            "ok".to_string()
        }
        _ => match values.lock().unwrap().get(*words.get(1).unwrap_or(&"")) {
            Some(value) => value.len().to_string(),
            None => "none".to_string(),
        },
    }
}

fn serve(connection: TcpStream, values: Values) {
    let mut out = connection.try_clone().unwrap();
    for line in BufReader::new(connection).lines() {
        let Ok(line) = line else { break };
        if out.write_all((answer(&line, &values) + "\n").as_bytes()).is_err() {
            break;
        }
    }
}

fn main() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    println!("{}", listener.local_addr().unwrap().port());
    let values: Values = Default::default();
    for connection in listener.incoming() {
        let values = values.clone();
        std::thread::spawn(move || serve(connection.unwrap(), values));
    }
}
