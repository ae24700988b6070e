//! The functions that are probed, as one table. A new one is a new row.
//!
//! Names and arguments: `cuda.h` and `cuda_runtime_api.h`. Exports: those of the drivers 470 to 555 and of the runtimes
//! 12 and 13, and what newer headers add. `_ptsz` and `_ptds` are the twins for per-thread default streams, `_v2` what
//! the header's macros map a base name to; driver functions that have a `_v2` and are listed without take 32-bit sizes
//! and addresses.

use std::collections::HashMap;
use std::sync::LazyLock;

use profiler_ebpf::wire::Cookie;

use super::row::Bytes::{
    Area, AreaUnits, AreaUnits32, Box, In, In32, None, Rectangle, Units, Units32,
};
use super::row::{Library, Row, row};
use crate::profile::CallClass::{Copy, Event, Launch, Memory, Module, Poll, Sync};

/// One exported function.
#[derive(Debug, Clone)]
pub struct Function {
    /// Its exported name.
    pub name: String,
    /// What it has in common with its family.
    pub row: &'static Row,
    /// What its probes carry.
    pub cookie: Cookie,
}

/// The probed functions. The index of one is its id on the kernel side.
#[derive(Debug)]
pub struct Catalogue {
    functions: Vec<Function>,
    by_name: HashMap<&'static str, usize>,
}

/// Every probed function.
pub fn catalogue() -> &'static Catalogue {
    static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(Catalogue::new);
    &CATALOGUE
}

impl Catalogue {
    fn new() -> Self {
        let names = ROWS.iter().flat_map(|row| {
            let names = row.suffixes.iter();
            names.map(move |suffix| (format!("{}{suffix}", row.name), row))
        });
        let functions: Vec<Function> = (0u16..)
            .zip(names)
            .map(|(id, (name, row))| Function {
                name,
                row,
                cookie: row.cookie(id),
            })
            .collect();
        let mut by_name = HashMap::new();
        for (id, function) in functions.iter().enumerate() {
            let name: &'static str = std::boxed::Box::leak(function.name.clone().into_boxed_str());
            by_name.insert(name, id);
        }
        Self { functions, by_name }
    }

    /// The function with this id.
    pub fn get(&self, id: u32) -> Option<&Function> {
        self.functions.get(usize::try_from(id).ok()?)
    }

    /// The function of this library with this name, and its id.
    pub fn find(&self, library: Library, name: &str) -> Option<(usize, &Function)> {
        let id = *self.by_name.get(name)?;
        let function = &self.functions[id];
        (function.row.library() == library).then_some((id, function))
    }

    /// Every function, in order of id.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }
}

const ONE: &[&str] = &[""];
const PTSZ: &[&str] = &["", "_ptsz"];
const PTDS: &[&str] = &["", "_ptds"];
const V2: &[&str] = &["_v2"];
const ONE_V2: &[&str] = &["", "_v2"];
const PTSZ_V2: &[&str] = &["", "_ptsz", "_v2", "_v2_ptsz"];
const V2_PTSZ: &[&str] = &["_v2", "_v2_ptsz"];
const V2_PTDS: &[&str] = &["_v2", "_v2_ptds"];

/// The table. Rows that come first name an address that several exports share.
const ROWS: &[Row] = &[
    // ---- the driver: launches
    row("cuLaunchKernel", PTSZ, Launch, None).common(),
    row("cuLaunchKernelEx", PTSZ, Launch, None).common(),
    row("cuGraphLaunch", PTSZ, Launch, None).common(),
    row("cuLaunchCooperativeKernel", PTSZ, Launch, None).common(),
    row("cuLaunchCooperativeKernelMultiDevice", ONE, Launch, None),
    row("cuLaunchHostFunc", PTSZ_V2, Launch, None).common(),
    row("cuLaunch", ONE, Launch, None),
    row("cuLaunchGrid", ONE, Launch, None),
    row("cuLaunchGridAsync", ONE, Launch, None),
    row("cuStreamAddCallback", PTSZ, Launch, None),
    // synchronisation
    row("cuStreamSynchronize", PTSZ, Sync, None).common(),
    row("cuCtxSynchronize", ONE_V2, Sync, None).common(),
    row("cuEventSynchronize", ONE, Sync, None).common(),
    // polling
    row("cuStreamQuery", PTSZ, Poll, None)
        .may_be_not_ready()
        .common(),
    row("cuEventQuery", ONE, Poll, None)
        .may_be_not_ready()
        .common(),
    // copies
    row("cuMemcpy", PTDS, Copy, In(2)).common(),
    row("cuMemcpyAsync", PTSZ, Copy, In(2)).common(),
    row("cuMemcpyHtoD", V2_PTDS, Copy, In(2)).common(),
    row("cuMemcpyDtoH", V2_PTDS, Copy, In(2)).common(),
    row("cuMemcpyDtoD", V2_PTDS, Copy, In(2)).common(),
    row("cuMemcpyHtoDAsync", V2_PTSZ, Copy, In(2)).common(),
    row("cuMemcpyDtoHAsync", V2_PTSZ, Copy, In(2)).common(),
    row("cuMemcpyDtoDAsync", V2_PTSZ, Copy, In(2)).common(),
    row("cuMemcpyPeer", PTDS, Copy, In(4)),
    row("cuMemcpyPeerAsync", PTSZ, Copy, In(4)).common(),
    row("cuMemcpyBatchAsync", PTSZ_V2, Copy, None).common(),
    row("cuMemcpy3DBatchAsync", PTSZ_V2, Copy, None),
    row("cuMemcpyWithAttributesAsync", PTSZ, Copy, None),
    row("cuMemcpy3DWithAttributesAsync", PTSZ, Copy, None),
    row("cuFabricCpyBatchAsync", PTSZ, Copy, None),
    row("cuMemcpyDtoA", V2_PTDS, Copy, In(3)),
    row("cuMemcpyAtoD", V2_PTDS, Copy, In(3)),
    row("cuMemcpyHtoA", V2_PTDS, Copy, In(3)),
    row("cuMemcpyAtoH", V2_PTDS, Copy, In(3)),
    row("cuMemcpyAtoA", V2_PTDS, Copy, In(4)),
    row("cuMemcpyHtoAAsync", V2_PTSZ, Copy, In(3)),
    row("cuMemcpyAtoHAsync", V2_PTSZ, Copy, In(3)),
    row("cuMemcpy2D", V2_PTDS, Copy, Rectangle(112)),
    row("cuMemcpy2DUnaligned", V2_PTDS, Copy, Rectangle(112)),
    row("cuMemcpy2DAsync", V2_PTSZ, Copy, Rectangle(112)).common(),
    row("cuMemcpy3D", V2_PTDS, Copy, Box(176)),
    row("cuMemcpy3DAsync", V2_PTSZ, Copy, Box(176)),
    row("cuMemcpy3DPeer", PTDS, Copy, Box(176)),
    row("cuMemcpy3DPeerAsync", PTSZ, Copy, Box(176)),
    row("cuMemPrefetchAsync", PTSZ_V2, Copy, In(1)),
    row("cuMemPrefetchBatchAsync", PTSZ, Copy, None),
    row("cuMemDiscardBatchAsync", PTSZ, Copy, None),
    row("cuMemDiscardAndPrefetchBatchAsync", PTSZ, Copy, None),
    row("cuMemBatchDecompressAsync", PTSZ, Copy, None),
    // copies of 32-bit addresses and sizes
    row("cuMemcpyHtoD", ONE, Copy, In32(2)),
    row("cuMemcpyDtoH", ONE, Copy, In32(2)),
    row("cuMemcpyDtoD", ONE, Copy, In32(2)),
    row("cuMemcpyHtoDAsync", ONE, Copy, In32(2)),
    row("cuMemcpyDtoHAsync", ONE, Copy, In32(2)),
    row("cuMemcpyDtoDAsync", ONE, Copy, In32(2)),
    row("cuMemcpyDtoA", ONE, Copy, In32(3)),
    row("cuMemcpyAtoD", ONE, Copy, In32(3)),
    row("cuMemcpyHtoA", ONE, Copy, In32(3)),
    row("cuMemcpyAtoH", ONE, Copy, In32(3)),
    row("cuMemcpyAtoA", ONE, Copy, In32(4)),
    row("cuMemcpyHtoAAsync", ONE, Copy, In32(3)),
    row("cuMemcpyAtoHAsync", ONE, Copy, In32(3)),
    row("cuMemcpy2D", ONE, Copy, None),
    row("cuMemcpy2DUnaligned", ONE, Copy, None),
    row("cuMemcpy2DAsync", ONE, Copy, None),
    row("cuMemcpy3D", ONE, Copy, None),
    row("cuMemcpy3DAsync", ONE, Copy, None),
    // sets
    row("cuMemsetD8", V2_PTDS, Copy, In(2)),
    row("cuMemsetD16", V2_PTDS, Copy, Units(2, 1)),
    row("cuMemsetD32", V2_PTDS, Copy, Units(2, 2)),
    row("cuMemsetD8Async", PTSZ, Copy, In(2)).common(),
    row("cuMemsetD16Async", PTSZ, Copy, Units(2, 1)),
    row("cuMemsetD32Async", PTSZ, Copy, Units(2, 2)).common(),
    row("cuMemsetD2D8", V2_PTDS, Copy, Area(3, 4)),
    row("cuMemsetD2D16", V2_PTDS, Copy, AreaUnits(3, 4, 1)),
    row("cuMemsetD2D32", V2_PTDS, Copy, AreaUnits(3, 4, 2)),
    row("cuMemsetD2D8Async", PTSZ, Copy, Area(3, 4)),
    row("cuMemsetD2D16Async", PTSZ, Copy, AreaUnits(3, 4, 1)),
    row("cuMemsetD2D32Async", PTSZ, Copy, AreaUnits(3, 4, 2)),
    row("cuMemsetD8", ONE, Copy, In32(2)),
    row("cuMemsetD16", ONE, Copy, Units32(2, 1)),
    row("cuMemsetD32", ONE, Copy, Units32(2, 2)),
    row("cuMemsetD2D8", ONE, Copy, AreaUnits32(3, 4, 0)),
    row("cuMemsetD2D16", ONE, Copy, AreaUnits32(3, 4, 1)),
    row("cuMemsetD2D32", ONE, Copy, AreaUnits32(3, 4, 2)),
    // memory of the device
    row("cuMemAlloc", V2, Memory, In(1)).common(),
    row("cuMemFree", V2, Memory, None).common(),
    row("cuMemAllocPitch", V2, Memory, Area(2, 3)),
    row("cuMemAllocManaged", ONE, Memory, In(1)).common(),
    row("cuMemAlloc", ONE, Memory, In32(1)),
    row("cuMemFree", ONE, Memory, None),
    row("cuMemAllocPitch", ONE, Memory, AreaUnits32(2, 3, 0)),
    row("cuArrayCreate", ONE_V2, Memory, None),
    row("cuArray3DCreate", ONE_V2, Memory, None),
    row("cuArrayDestroy", ONE, Memory, None),
    row("cuMipmappedArrayCreate", ONE, Memory, None),
    row("cuMipmappedArrayDestroy", ONE, Memory, None),
    // pools
    row("cuMemAllocAsync", PTSZ, Memory, In(1)).common(),
    row("cuMemAllocFromPoolAsync", PTSZ, Memory, In(1)).common(),
    row("cuMemFreeAsync", PTSZ, Memory, None).common(),
    row("cuMemPoolCreate", ONE, Memory, None),
    row("cuMemPoolDestroy", ONE, Memory, None),
    row("cuMemPoolTrimTo", ONE, Memory, None),
    // virtual memory
    row("cuMemAddressReserve", ONE, Memory, In(1)),
    row("cuMemAddressFree", ONE, Memory, In(1)),
    row("cuMemCreate", ONE, Memory, In(1)).common(),
    row("cuMemRelease", ONE, Memory, None).common(),
    row("cuMemMap", ONE, Memory, In(1)).common(),
    row("cuMemMapArrayAsync", PTSZ, Memory, None),
    row("cuMemUnmap", ONE, Memory, In(1)).common(),
    row("cuMemSetAccess", ONE, Memory, In(1)),
    row("cuMulticastCreate", ONE, Memory, None),
    row("cuMulticastBindMem", ONE, Memory, None),
    row("cuMulticastBindAddr", ONE, Memory, None),
    row("cuMulticastUnbind", ONE, Memory, None),
    row("cuIpcGetMemHandle", ONE, Memory, None),
    row("cuIpcOpenMemHandle", ONE_V2, Memory, None),
    row("cuIpcCloseMemHandle", ONE, Memory, None),
    // pinned memory of the host
    row("cuMemHostAlloc", ONE, Memory, In(1)).common(),
    row("cuMemAllocHost", V2, Memory, In(1)).common(),
    row("cuMemAllocHost", ONE, Memory, In32(1)),
    row("cuMemFreeHost", ONE, Memory, None).common(),
    row("cuMemHostRegister", ONE_V2, Memory, In(1)).common(),
    row("cuMemHostUnregister", ONE, Memory, None).common(),
    // modules and libraries
    row("cuModuleLoad", ONE, Module, None).common(),
    row("cuModuleLoadData", ONE, Module, None).common(),
    row("cuModuleLoadDataEx", ONE, Module, None).common(),
    row("cuModuleLoadFatBinary", ONE, Module, None).common(),
    row("cuModuleUnload", ONE, Module, None).common(),
    row("cuModuleGetFunction", ONE, Module, None).common(),
    row("cuLibraryLoadData", ONE, Module, None).common(),
    row("cuLibraryLoadFromFile", ONE, Module, None).common(),
    row("cuLibraryUnload", ONE, Module, None).common(),
    row("cuLibraryGetKernel", ONE, Module, None).common(),
    row("cuLibraryGetModule", ONE, Module, None),
    row("cuKernelGetFunction", ONE, Module, None),
    row("cuFuncLoad", ONE, Module, None),
    row("cuLinkCreate", ONE_V2, Module, None),
    row("cuLinkAddData", ONE_V2, Module, None),
    row("cuLinkAddFile", ONE_V2, Module, None),
    row("cuLinkComplete", ONE, Module, None),
    // events
    row("cuEventCreate", ONE, Event, None),
    row("cuEventDestroy", ONE_V2, Event, None),
    row("cuEventElapsedTime", ONE_V2, Event, None).may_be_not_ready(),
    row("cuEventRecord", PTSZ, Event, None).common(),
    row("cuEventRecordWithFlags", PTSZ, Event, None),
    row("cuStreamWaitEvent", PTSZ, Event, None).common(),
    row("cuStreamWaitValue32", PTSZ_V2, Event, None),
    row("cuStreamWaitValue64", PTSZ_V2, Event, None),
    // ---- the runtime: launches
    row("cudaLaunchKernel", PTSZ, Launch, None).common(),
    row("cudaLaunchKernelExC", PTSZ, Launch, None).common(),
    row("__cudaLaunchKernel", PTSZ, Launch, None).common(),
    row("cudaGraphLaunch", PTSZ, Launch, None).common(),
    row("cudaLaunchCooperativeKernel", PTSZ, Launch, None).common(),
    row("cudaLaunchCooperativeKernelMultiDevice", ONE, Launch, None),
    row("cudaLaunchHostFunc", PTSZ_V2, Launch, None).common(),
    row("cudaStreamAddCallback", PTSZ, Launch, None),
    // synchronisation
    row("cudaStreamSynchronize", PTSZ, Sync, None).common(),
    row("cudaDeviceSynchronize", ONE, Sync, None).common(),
    row("cudaThreadSynchronize", ONE, Sync, None),
    row("cudaEventSynchronize", ONE, Sync, None).common(),
    // polling
    row("cudaStreamQuery", PTSZ, Poll, None)
        .may_be_not_ready()
        .common(),
    row("cudaEventQuery", ONE, Poll, None)
        .may_be_not_ready()
        .common(),
    // copies; a 3D copy counts elements where an array is involved, so only the driver's call knows bytes
    row("cudaMemcpy", PTDS, Copy, In(2)).common(),
    row("cudaMemcpyAsync", PTSZ, Copy, In(2)).common(),
    row("cudaMemcpyPeer", ONE, Copy, In(4)),
    row("cudaMemcpyPeerAsync", ONE, Copy, In(4)).common(),
    row("cudaMemcpyBatchAsync", PTSZ, Copy, None).common(),
    row("cudaMemcpy3DBatchAsync", PTSZ, Copy, None),
    row("cudaMemcpyWithAttributesAsync", PTSZ, Copy, None),
    row("cudaMemcpy3DWithAttributesAsync", PTSZ, Copy, None),
    row("cudaMemcpyToSymbol", PTDS, Copy, In(2)),
    row("cudaMemcpyToSymbolAsync", PTSZ, Copy, In(2)),
    row("cudaMemcpyFromSymbol", PTDS, Copy, In(2)),
    row("cudaMemcpyFromSymbolAsync", PTSZ, Copy, In(2)),
    row("cudaMemcpyToArray", PTDS, Copy, In(4)),
    row("cudaMemcpyToArrayAsync", PTSZ, Copy, In(4)),
    row("cudaMemcpyFromArray", PTDS, Copy, In(4)),
    row("cudaMemcpyFromArrayAsync", PTSZ, Copy, In(4)),
    row("cudaMemcpyArrayToArray", PTDS, Copy, In(6)),
    row("cudaMemcpy2D", PTDS, Copy, Area(4, 5)),
    row("cudaMemcpy2DAsync", PTSZ, Copy, Area(4, 5)).common(),
    row("cudaMemcpy2DToArray", PTDS, Copy, Area(5, 6)),
    row("cudaMemcpy2DToArrayAsync", PTSZ, Copy, Area(5, 6)),
    row("cudaMemcpy2DFromArray", PTDS, Copy, Area(5, 6)),
    row("cudaMemcpy2DFromArrayAsync", PTSZ, Copy, Area(5, 6)),
    row("cudaMemcpy2DArrayToArray", PTDS, Copy, Area(6, 7)),
    row("cudaMemcpy3D", PTDS, Copy, None),
    row("cudaMemcpy3DAsync", PTSZ, Copy, None),
    row("cudaMemcpy3DPeer", PTDS, Copy, None),
    row("cudaMemcpy3DPeerAsync", PTSZ, Copy, None),
    row("cudaMemPrefetchAsync", PTSZ_V2, Copy, In(1)),
    row("cudaMemPrefetchBatchAsync", PTSZ, Copy, None),
    row("cudaMemDiscardBatchAsync", PTSZ, Copy, None),
    row("cudaMemDiscardAndPrefetchBatchAsync", PTSZ, Copy, None),
    // sets
    row("cudaMemset", PTDS, Copy, In(2)),
    row("cudaMemsetAsync", PTSZ, Copy, In(2)).common(),
    row("cudaMemset2D", PTDS, Copy, Area(3, 4)),
    row("cudaMemset2DAsync", PTSZ, Copy, Area(3, 4)),
    row("cudaMemset3D", PTDS, Copy, None),
    row("cudaMemset3DAsync", PTSZ, Copy, None),
    // memory of the device
    row("cudaMalloc", ONE, Memory, In(1)).common(),
    row("cudaFree", ONE, Memory, None).common(),
    row("cudaMallocPitch", ONE, Memory, Area(2, 3)),
    row("cudaMallocManaged", ONE, Memory, In(1)).common(),
    row("cudaMalloc3D", ONE, Memory, None),
    row("cudaMallocArray", ONE, Memory, None),
    row("cudaMalloc3DArray", ONE, Memory, None),
    row("cudaMallocMipmappedArray", ONE, Memory, None),
    row("cudaFreeArray", ONE, Memory, None),
    row("cudaFreeMipmappedArray", ONE, Memory, None),
    row("cudaIpcGetMemHandle", ONE, Memory, None),
    row("cudaIpcOpenMemHandle", ONE, Memory, None),
    row("cudaIpcCloseMemHandle", ONE, Memory, None),
    // pools
    row("cudaMallocAsync", PTSZ, Memory, In(1)).common(),
    row("cudaMallocFromPoolAsync", PTSZ, Memory, In(1)).common(),
    row("cudaFreeAsync", PTSZ, Memory, None).common(),
    row("cudaMemPoolCreate", ONE, Memory, None),
    row("cudaMemPoolDestroy", ONE, Memory, None),
    row("cudaMemPoolTrimTo", ONE, Memory, None),
    // pinned memory of the host
    row("cudaHostAlloc", ONE, Memory, In(1)).common(),
    row("cudaMallocHost", ONE, Memory, In(1)).common(),
    row("cudaFreeHost", ONE, Memory, None).common(),
    row("cudaHostRegister", ONE, Memory, In(1)).common(),
    row("cudaHostUnregister", ONE, Memory, None).common(),
    // libraries
    row("cudaLibraryLoadData", ONE, Module, None).common(),
    row("cudaLibraryLoadFromFile", ONE, Module, None).common(),
    row("cudaLibraryUnload", ONE, Module, None),
    row("cudaLibraryGetKernel", ONE, Module, None),
    // events
    row("cudaEventCreate", ONE, Event, None),
    row("cudaEventCreateWithFlags", ONE, Event, None),
    row("cudaEventDestroy", ONE, Event, None),
    row("cudaEventElapsedTime", ONE_V2, Event, None).may_be_not_ready(),
    row("cudaEventRecord", PTSZ, Event, None).common(),
    row("cudaEventRecordWithFlags", PTSZ, Event, None),
    row("cudaStreamWaitEvent", PTSZ, Event, None).common(),
];

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// No function is listed twice: it would be counted twice.
    #[test]
    fn names_are_unique() {
        let functions = catalogue().functions();
        let names: HashSet<_> = functions.iter().map(|function| &function.name).collect();
        assert_eq!(names.len(), functions.len());
    }

    /// What the probes carry says what the table says; arguments beyond the registers lie on the stack.
    #[test]
    fn cookies_say_what_rows_say() {
        let find = |library, name| catalogue().find(library, name).unwrap();
        let (id, query) = find(Library::Driver, "cuStreamQuery_ptsz");
        assert_eq!(query.cookie.function() as usize, id);
        assert!(query.cookie.may_be_not_ready());
        let (_, set) = find(Library::Driver, "cuMemsetD2D32_v2");
        let cookie = set.cookie;
        assert_eq!(
            (
                cookie.first(),
                cookie.second(),
                cookie.shift(),
                cookie.narrow()
            ),
            (3, 4, 2, false)
        );
        let (_, copy) = find(Library::Driver, "cuMemcpy3DAsync_v2_ptsz");
        assert_eq!(copy.cookie.offset(), 176);
        let (_, old) = find(Library::Driver, "cuMemAlloc");
        assert!(old.cookie.narrow());
        let (_, array) = find(Library::Runtime, "cudaMemcpy2DArrayToArray_ptds");
        assert_eq!((array.cookie.first(), array.cookie.second()), (6, 7));
        assert!(catalogue().find(Library::Driver, "cudaMalloc").is_none());
    }

    /// Every id fits where it is kept.
    #[test]
    fn ids_fit() {
        assert!(catalogue().functions().len() < 1 << 16);
    }
}
