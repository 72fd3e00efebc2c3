// SPDX-License-Identifier: Apache-2.0
//
// The same as known.c: known MODE MILLISECONDS.
use std::ptr::{read_volatile, write_volatile};
use std::time::{Duration, Instant};

const CYCLE: u64 = 16180340; // ns, ten times the golden ratio in ms
const UNIT: u64 = 160000;

static mut SINK: u64 = 0;

#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

#[repr(C)]
struct PollFd {
    fd: i32,
    events: i16,
    revents: i16,
}

extern "C" {
    fn clock_gettime(clock: i32, time: *mut Timespec) -> i32;
    fn poll(list: *mut PollFd, count: u64, milliseconds: i32) -> i32;
}

// CPU time of the process: CLOCK_PROCESS_CPUTIME_ID is 2.
fn used() -> u64 {
    let mut t = Timespec { seconds: 0, nanoseconds: 0 };
    unsafe { clock_gettime(2, &mut t) };
    t.seconds as u64 * 1_000_000_000 + t.nanoseconds as u64
}

fn sink() -> u64 {
    unsafe { read_volatile(std::ptr::addr_of!(SINK)) }
}

fn sink_in(value: u64) {
    unsafe { write_volatile(std::ptr::addr_of_mut!(SINK), value) }
}

#[inline(never)]
fn spin(mut seed: u64) -> u64 {
    for _ in 0..UNIT {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(seed >> 33);
    }
    seed
}

#[inline(never)]
fn hot_a(seed: u64) -> u64 {
    let room = [seed, seed ^ 1, seed ^ 2, seed ^ 3];
    sink_in(spin(room[(seed & 3) as usize]));
    sink().wrapping_add(room[(seed & 1) as usize])
}

#[inline(never)]
fn hot_b(seed: u64) -> u64 {
    spin(seed ^ 5).wrapping_add(sink())
}

#[inline(never)]
fn hot_c(seed: u64) -> u64 {
    let first = spin(seed | 1);
    (first / ((first & 7) + 1)).wrapping_add(sink())
}

#[inline(never)]
fn inner(seed: u64, turn: u64) -> u64 {
    let text = vec![turn as u8; (seed % 50 + 1) as usize];
    let value = match turn {
        0..=4 => hot_a(seed),
        5..=7 => hot_b(seed),
        _ => hot_c(seed),
    };
    value.wrapping_add(text[0] as u64)
}

#[inline(never)]
fn outer(seed: u64, turn: u64) -> u64 {
    inner(seed.wrapping_add(1), turn) ^ sink()
}

fn hot(total: u64) {
    let (mut a, mut b, mut c, mut seed) = (0, 0, 0, total);
    let mut before = used();
    while before < total {
        let turn = before % CYCLE / (CYCLE / 10);
        seed = outer(seed, turn);
        let after = used();
        match turn {
            0..=4 => a += after - before,
            5..=7 => b += after - before,
            _ => c += after - before,
        }
        before = after;
    }
    println!("hot_a {}\nhot_b {}\nhot_c {}", a, b, c);
}

// Something to do after a call, or the call becomes a jump and its caller is not on the stack.
fn kept(value: u64) -> u64 {
    sink_in(value);
    value
}

#[inline(never)]
fn rest(milliseconds: u64) -> u64 {
    let before = Instant::now();
    std::thread::sleep(Duration::from_millis(milliseconds));
    before.elapsed().as_nanos() as u64
}

#[inline(never)]
fn blocked_a() -> u64 {
    kept(rest(30))
}

#[inline(never)]
fn blocked_b() -> u64 {
    kept(rest(20))
}

fn blocked(total: u64) {
    let (mut a, mut b) = (0, 0);
    while a + b < total {
        a += blocked_a();
        b += blocked_b();
    }
    println!("blocked_a {}\nblocked_b {}", a, b);
}

#[inline(never)]
fn take(size: usize) -> u64 {
    let room = vec![1u8; size];
    sink_in(sink().wrapping_add(room.as_ptr() as u64));
    size as u64
}

#[inline(never)]
fn alloc_a() -> u64 {
    kept(take(7000))
}

#[inline(never)]
fn alloc_b() -> u64 {
    kept(take(1000) + take(2000))
}

#[inline(never)]
fn alloc_warm() -> u64 {
    kept(take(4000))
}

fn alloc(total: u64) {
    let mut input = PollFd { fd: 0, events: 1, revents: 0 }; // POLLIN
    while unsafe { poll(&mut input, 1, 1) } == 0 {
        alloc_warm();
    }
    let (mut a, mut b) = (0, 0);
    let began = Instant::now();
    while (began.elapsed().as_nanos() as u64) < total {
        a += alloc_a();
        b += alloc_b();
    }
    println!("alloc_a {}\nalloc_b {}", a, b);
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let total = args[2].parse::<u64>().unwrap() * 1_000_000;
    match args[1].as_str() {
        "hot" => hot(total),
        "blocked" => blocked(total),
        "alloc" => alloc(total),
        _ => std::process::exit(2),
    }
}
