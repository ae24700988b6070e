//! Kernel code.

use blazesym::MaybeDefault;
use blazesym::symbolize::source::{Kernel, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};
use rustc_hash::FxHashMap;

/// Addresses kept; when there are more all are forgotten and asked again.
const MAX_ADDRESSES: usize = 1 << 18;

/// Names kernel addresses from `/proc/kallsyms`.
pub struct KernelSymbols {
    symbolizer: Symbolizer,
    source: Source<'static>,
    names: FxHashMap<u64, Option<String>>,
    /// How often everything was forgotten.
    pub forgotten: u64,
    /// Why no kernel address can be named, once that is known.
    pub failure: Option<String>,
}

impl Default for KernelSymbols {
    fn default() -> Self {
        let source = Source::Kernel(Kernel {
            kallsyms: MaybeDefault::Default,
            vmlinux: MaybeDefault::None,
            debug_syms: false,
            ..Kernel::default()
        });
        let symbolizer = Symbolizer::builder()
            .enable_auto_reload(false)
            .enable_code_info(false)
            .build();
        Self {
            symbolizer,
            source,
            names: FxHashMap::default(),
            forgotten: 0,
            failure: None,
        }
    }
}

impl KernelSymbols {
    /// The function at an address.
    pub fn name(&mut self, address: u64) -> Option<&str> {
        if self.names.len() >= MAX_ADDRESSES && !self.names.contains_key(&address) {
            self.names.clear();
            self.forgotten += 1;
        }
        if !self.names.contains_key(&address) {
            let name = self.ask(address);
            self.names.insert(address, name);
        }
        self.names.get(&address)?.as_deref()
    }

    fn ask(&mut self, address: u64) -> Option<String> {
        if self.failure.is_some() {
            return None;
        }
        match self
            .symbolizer
            .symbolize_single(&self.source, Input::AbsAddr(address))
        {
            Ok(Symbolized::Sym(symbol)) => Some(symbol.name.into_owned()),
            Ok(Symbolized::Unknown(_)) => None,
            Err(error) => {
                self.failure = Some(error.to_string());
                None
            }
        }
    }
}
