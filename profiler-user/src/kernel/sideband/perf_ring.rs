//! One mapped perf ring.

use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use perf_event_open_sys::bindings::perf_event_mmap_page;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A perf event's ring: a control page, then data pages (a power of two) that records wrap around in.
pub(super) struct PerfRing {
    event: OwnedFd,
    control: NonNull<perf_event_mmap_page>,
    page_bytes: usize,
    data_bytes: usize,
    /// A record put together when it wraps.
    record: Vec<u8>,
}

// SAFETY: the mapping belongs to this value alone; the kernel is the only other party.
unsafe impl Send for PerfRing {}

impl PerfRing {
    pub(super) fn map(event: OwnedFd, pages: usize) -> io::Result<Self> {
        let page_bytes = rustix::param::page_size();
        let data_bytes = pages * page_bytes;
        // SAFETY: a new shared mapping of the event, at an address the kernel chooses.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                page_bytes + data_bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &event,
                0,
            )?
        };
        let control =
            NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        Ok(Self {
            event,
            control,
            page_bytes,
            data_bytes,
            record: Vec::new(),
        })
    }

    /// Hands every waiting record, header included, to `each`.
    pub(super) fn drain(&mut self, mut each: impl FnMut(&[u8])) {
        let head = self
            .position(offset_of!(perf_event_mmap_page, data_head))
            .load(Ordering::Acquire);
        let tail_at = self.position(offset_of!(perf_event_mmap_page, data_tail));
        let mut tail = tail_at.load(Ordering::Relaxed);
        while tail < head {
            let mut header = [0; 8];
            self.copy(tail, &mut header);
            let size = usize::from(u16::from_ne_bytes([header[6], header[7]]));
            if size < header.len() || size as u64 > head - tail {
                tail = head; // not a record: nothing after it can be told apart
                break;
            }
            let mut record = std::mem::take(&mut self.record);
            record.resize(size, 0);
            self.copy(tail, &mut record);
            each(&record);
            self.record = record;
            tail += size as u64;
        }
        self.position(offset_of!(perf_event_mmap_page, data_tail))
            .store(tail, Ordering::Release);
    }

    /// The position at this offset of the control page.
    fn position(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the control page stays mapped as long as self; head and tail are aligned words in it that
        // the kernel reads and writes atomically.
        unsafe { AtomicU64::from_ptr(self.control.as_ptr().byte_add(offset).cast()) }
    }

    /// Copies from a position of the stream, around the end of the data pages if need be.
    fn copy(&self, position: u64, to: &mut [u8]) {
        let start = usize::try_from(position % self.data_bytes as u64).unwrap_or(0);
        let first = to.len().min(self.data_bytes - start);
        // SAFETY: the data pages follow the control page and stay mapped as long as self. The bytes between
        // tail and head are ours until the tail moves; `to` is at most as long as the ring.
        unsafe {
            let data = self.control.as_ptr().cast::<u8>().add(self.page_bytes);
            std::ptr::copy_nonoverlapping(data.add(start), to.as_mut_ptr(), first);
            std::ptr::copy_nonoverlapping(data, to.as_mut_ptr().add(first), to.len() - first);
        }
    }
}

impl AsFd for PerfRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

impl Drop for PerfRing {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `map`; nothing borrows from it any more.
        let unmapped = unsafe {
            munmap(
                self.control.as_ptr().cast(),
                self.page_bytes + self.data_bytes,
            )
        };
        debug_assert!(unmapped.is_ok());
    }
}
