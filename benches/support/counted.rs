//! An allocator that counts: how often memory was taken, and how much. A count is the same on a busy machine; a time is not.
#![allow(unsafe_code, reason = "an allocator is unsafe by its trait; this one only counts and hands on")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicU64, Ordering},
};

static TAKEN: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

struct Counted;

#[global_allocator]
static ALLOCATOR: Counted = Counted;

unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        unsafe { System.realloc(pointer, layout, size) }
    }
}

fn count(bytes: usize) {
    TAKEN.fetch_add(1, Ordering::Relaxed);
    BYTES.fetch_add(bytes as u64, Ordering::Relaxed);
}

/// How many allocations this process has made so far, and of how many bytes.
pub(crate) fn so_far() -> (u64, u64) {
    (TAKEN.load(Ordering::Relaxed), BYTES.load(Ordering::Relaxed))
}
