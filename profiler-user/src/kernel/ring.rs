//! Records of the BPF ring, decoded.

use bytemuck::pod_read_unaligned;
use profiler_ebpf::wire::{
    MAX_KERNEL_FRAMES, MAX_NATIVE_FRAMES, MAX_PYTHON_FRAMES, NativeFrame, PythonFrame, RECORD_EXEC,
    RECORD_SAMPLE, RECORD_THREAD_EXIT, SampleHeader, ThreadExit,
};

/// A sample as it came from the kernel side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawSample {
    /// Who, when, and how the walks ended.
    pub header: SampleHeader,
    /// Kernel addresses, leaf first.
    pub kernel: Vec<u64>,
    /// Native frames, leaf first.
    pub native: Vec<NativeFrame>,
    /// Interpreter frames, leaf first.
    pub python: Vec<PythonFrame>,
}

/// One record of the ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RawEvent {
    /// A sample.
    Sample(Box<RawSample>),
    /// A thread ended.
    ThreadExit(ThreadExit),
    /// A thread became another program's main thread; `tid` is its id before.
    Exec(ThreadExit),
    /// A record that does not read as either: counted as a lost sample.
    Malformed,
}

impl RawEvent {
    /// Decodes one record.
    pub fn decode(bytes: &[u8]) -> Self {
        let event = match kind(bytes) {
            Some(RECORD_SAMPLE) => {
                decode_sample(bytes).map(|sample| Self::Sample(Box::new(sample)))
            }
            Some(RECORD_THREAD_EXIT) => decode_exit(bytes).map(Self::ThreadExit),
            Some(RECORD_EXEC) => decode_exit(bytes).map(Self::Exec),
            _ => None,
        };
        event.unwrap_or(Self::Malformed)
    }

    /// When it happened, CLOCK_MONOTONIC; 0 if unknown.
    pub fn time_ns(&self) -> u64 {
        match self {
            Self::Sample(sample) => sample.header.time_ns,
            Self::ThreadExit(exit) | Self::Exec(exit) => exit.time_ns,
            Self::Malformed => 0,
        }
    }
}

fn kind(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?))
}

fn decode_exit(bytes: &[u8]) -> Option<ThreadExit> {
    bytes.get(..size_of::<ThreadExit>()).map(pod_read_unaligned)
}

fn decode_sample(bytes: &[u8]) -> Option<RawSample> {
    let (head, mut rest) = bytes.split_at_checked(size_of::<SampleHeader>())?;
    let header: SampleHeader = pod_read_unaligned(head);
    Some(RawSample {
        kernel: take(&mut rest, header.kernel_frames, MAX_KERNEL_FRAMES)?,
        native: take(&mut rest, header.native_frames, MAX_NATIVE_FRAMES)?,
        python: take(&mut rest, header.python_frames, MAX_PYTHON_FRAMES)?,
        header,
    })
}

/// Takes `count` values off the front.
fn take<T: bytemuck::AnyBitPattern>(rest: &mut &[u8], count: u16, limit: usize) -> Option<Vec<T>> {
    let count = usize::from(count);
    if count > limit {
        return None;
    }
    let (mine, others) = rest.split_at_checked(count * size_of::<T>())?;
    *rest = others;
    Some(
        mine.chunks_exact(size_of::<T>())
            .map(pod_read_unaligned)
            .collect(),
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use bytemuck::{Zeroable, bytes_of};

    /// The bytes of a sample with one frame of each kind.
    fn sample_bytes() -> Vec<u8> {
        let header = SampleHeader {
            kind: RECORD_SAMPLE,
            time_ns: 7,
            kernel_frames: 1,
            native_frames: 1,
            python_frames: 1,
            ..SampleHeader::zeroed()
        };
        let mut bytes = bytes_of(&header).to_vec();
        bytes.extend(0xffff_ffff_8100_0000_u64.to_ne_bytes());
        bytes.extend(bytes_of(&NativeFrame {
            pc: 1,
            sp: 2,
            how: 0,
        }));
        bytes.extend(bytes_of(&PythonFrame {
            code: 3,
            instruction: 4,
            anchor: 5,
            check: 6,
        }));
        bytes
    }

    /// Frames come out in the order they were written.
    #[test]
    fn decodes_a_sample() {
        let RawEvent::Sample(sample) = RawEvent::decode(&sample_bytes()) else {
            panic!("no sample")
        };
        assert_eq!(sample.kernel, [0xffff_ffff_8100_0000]);
        assert_eq!(
            sample.native,
            [NativeFrame {
                pc: 1,
                sp: 2,
                how: 0
            }]
        );
        assert_eq!(sample.python[0].check, 6);
        assert_eq!(RawEvent::Sample(sample).time_ns(), 7);
    }

    /// A record cut anywhere, or one that claims more frames than there are, is malformed, never a panic.
    #[test]
    fn refuses_cut_records() {
        let bytes = sample_bytes();
        for length in 0..bytes.len() {
            assert_eq!(
                RawEvent::decode(&bytes[..length]),
                RawEvent::Malformed,
                "{length}"
            );
        }
        let mut wild = bytes;
        wild[0x28..0x2a].copy_from_slice(&u16::MAX.to_ne_bytes());
        assert_eq!(RawEvent::decode(&wild), RawEvent::Malformed);
    }
}
