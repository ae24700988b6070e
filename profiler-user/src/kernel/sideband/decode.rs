//! Perf records, decoded. Layouts: `enum perf_event_type` in the kernel's uapi `perf_event.h`.

use perf_event_open_sys::bindings::{
    PERF_RECORD_COMM, PERF_RECORD_EXIT, PERF_RECORD_FORK, PERF_RECORD_LOST,
    PERF_RECORD_MISC_COMM_EXEC, PERF_RECORD_MMAP2,
};

use super::{MappingRecord, SidebandEvent};

/// Decodes one record, header included; `None` for kinds that say nothing of processes.
pub(super) fn decode(record: &[u8]) -> Option<SidebandEvent> {
    let mut fields = Fields(record);
    let kind = fields.u32()?;
    let misc = fields.u16()?;
    fields.u16()?; // the size, known already
    // The time stamp is the whole of the trailing sample id.
    let time_ns = u64::from_ne_bytes(record.last_chunk().copied()?);
    let body_end = record.len().checked_sub(8)?;
    match kind {
        PERF_RECORD_MMAP2 => mapping(fields, record, body_end, time_ns),
        PERF_RECORD_COMM => Some(SidebandEvent::Name {
            pid: fields.u32()?,
            tid: fields.u32()?,
            time_ns,
            name: text(record.get(16..body_end)?),
            exec: u32::from(misc) & PERF_RECORD_MISC_COMM_EXEC != 0,
        }),
        PERF_RECORD_FORK | PERF_RECORD_EXIT => {
            let (pid, parent, tid) = (fields.u32()?, fields.u32()?, fields.u32()?);
            fields.u32()?; // the parent's thread
            let time_ns = fields.u64()?;
            Some(if kind == PERF_RECORD_FORK {
                SidebandEvent::Fork {
                    pid,
                    tid,
                    parent,
                    time_ns,
                }
            } else {
                SidebandEvent::Exit { pid, tid, time_ns }
            })
        }
        PERF_RECORD_LOST => {
            fields.u64()?; // the event's id
            Some(SidebandEvent::Lost(fields.u64()?))
        }
        _ => None,
    }
}

fn mapping(
    mut fields: Fields<'_>,
    record: &[u8],
    body_end: usize,
    time_ns: u64,
) -> Option<SidebandEvent> {
    let pid = fields.u32()?;
    fields.u32()?; // the thread
    let (start, bytes, file_offset) = (fields.u64()?, fields.u64()?, fields.u64()?);
    let device = (fields.u32()?, fields.u32()?);
    let inode = fields.u64()?;
    fields.u64()?; // the inode's generation
    fields.u64()?; // protection and flags
    let path = text(record.get(72..body_end)?);
    Some(SidebandEvent::Mapping {
        pid,
        time_ns,
        mapping: MappingRecord {
            start,
            bytes,
            file_offset,
            device,
            inode,
            path,
        },
    })
}

/// What stands before the first NUL.
fn text(bytes: &[u8]) -> Vec<u8> {
    bytes
        .split(|byte| *byte == 0)
        .next()
        .unwrap_or_default()
        .to_vec()
}

/// Fields taken off the front of a record.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (mine, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*mine)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_ne_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_ne_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_ne_bytes)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn record(kind: u32, misc: u16, body: &[u8], time_ns: u64) -> Vec<u8> {
        let size = u16::try_from(8 + body.len() + 8).unwrap();
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend(misc.to_ne_bytes());
        bytes.extend(size.to_ne_bytes());
        bytes.extend(body);
        bytes.extend(time_ns.to_ne_bytes());
        bytes
    }

    fn mapping_record() -> Vec<u8> {
        let mut body = Vec::new();
        for word in [7u32, 8] {
            body.extend(word.to_ne_bytes());
        }
        for word in [0x1000u64, 0x2000, 0x3000] {
            body.extend(word.to_ne_bytes());
        }
        for word in [254u32, 1] {
            body.extend(word.to_ne_bytes());
        }
        for word in [99u64, 1, 5] {
            body.extend(word.to_ne_bytes());
        }
        body.extend(b"/usr/lib/x.so\0\0\0");
        record(PERF_RECORD_MMAP2, 0, &body, 55)
    }

    /// A mapping comes out with all its fields.
    #[test]
    fn decodes_a_mapping() {
        let expected = MappingRecord {
            start: 0x1000,
            bytes: 0x2000,
            file_offset: 0x3000,
            device: (254, 1),
            inode: 99,
            path: b"/usr/lib/x.so".to_vec(),
        };
        assert_eq!(
            decode(&mapping_record()),
            Some(SidebandEvent::Mapping {
                pid: 7,
                time_ns: 55,
                mapping: expected
            })
        );
    }

    /// A record cut anywhere is never a panic.
    #[test]
    fn survives_cut_records() {
        let bytes = mapping_record();
        for length in 0..bytes.len() {
            decode(&bytes[..length]);
        }
    }

    /// An exec is told from a mere change of name.
    #[test]
    fn tells_an_exec() {
        let mut body = 7u32.to_ne_bytes().to_vec();
        body.extend(7u32.to_ne_bytes());
        body.extend(b"python3\0");
        for (misc, expected) in [(0, false), (1 << 13, true)] {
            let event = decode(&record(PERF_RECORD_COMM, misc, &body, 3)).unwrap();
            let SidebandEvent::Name { name, exec, .. } = event else {
                panic!("no name")
            };
            assert_eq!((name.as_slice(), exec), (b"python3".as_slice(), expected));
        }
    }
}
