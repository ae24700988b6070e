//! Looks into a kernel object: programs and their instructions; and takes its debug sections out.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use object::build::elf::{Builder, SectionData};
use object::elf;
use object::read::elf::ElfFile64;
use object::{Object, ObjectSection, ObjectSymbol, SectionFlags, SymbolKind};

/// Bytes of one BPF instruction.
const INSTRUCTION: u64 = 8;

/// Functions that programs call lie here; everything else executable is a program's section.
const CALLED_SECTION: &str = ".text";

/// A function in the object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// The section it lies in: for a program, its kind.
    pub section: String,
    pub instructions: u64,
}

impl Function {
    /// Whether the kernel enters it, rather than another function.
    pub fn is_program(&self) -> bool {
        self.section != CALLED_SECTION
    }
}

/// Every function by its symbol.
pub fn functions(object: &[u8]) -> Result<BTreeMap<String, Function>> {
    let file = ElfFile64::<object::Endianness>::parse(object).context("not a kernel object")?;
    if file.section_by_name(".BTF").is_none() {
        bail!("the object has no BTF section: it was not linked with --btf");
    }
    let mut functions = BTreeMap::new();
    for symbol in file
        .symbols()
        .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0)
    {
        let Some(index) = symbol.section_index() else {
            continue;
        };
        let section = file.section_by_index(index)?;
        let SectionFlags::Elf { sh_flags } = section.flags() else {
            continue;
        };
        if sh_flags & u64::from(elf::SHF_EXECINSTR) != 0 {
            let function = Function {
                section: section.name()?.to_owned(),
                instructions: symbol.size() / INSTRUCTION,
            };
            functions.insert(symbol.name()?.to_owned(), function);
        }
    }
    if !functions.values().any(Function::is_program) {
        bail!("the object holds no program");
    }
    Ok(functions)
}

/// The object without DWARF, which only the compiler needed, to make BTF from: a tenth of the size. BTF stays.
pub fn without_debug_sections(object: &[u8]) -> Result<Vec<u8>> {
    let mut builder = Builder::read64(object)?;
    for section in &mut builder.sections {
        let name = section.name.to_string();
        section.delete = name.starts_with(".debug_") || name.starts_with(".rel.debug_");
    }
    // LLVM keeps section names in the symbols' string table; the writer wants a table of their own.
    let shared = !builder
        .sections
        .iter()
        .any(|section| matches!(section.data, SectionData::SectionString));
    if shared {
        let names = builder.sections.add();
        names.name = b".shstrtab"[..].into();
        names.sh_type = elf::SHT_STRTAB;
        names.sh_addralign = 1;
        names.data = SectionData::SectionString;
    }
    let mut stripped = Vec::new();
    builder.write(&mut stripped)?;
    Ok(stripped)
}

/// Names of the sections in which two objects differ, or that only one of them has.
pub fn differing_sections(one: &[u8], other: &[u8]) -> Result<Vec<String>> {
    let (one, other) = (sections(one)?, sections(other)?);
    let names: std::collections::BTreeSet<_> = one.keys().chain(other.keys()).collect();
    Ok(names
        .into_iter()
        .filter(|name| one.get(*name) != other.get(*name))
        .cloned()
        .collect())
}

fn sections(object: &[u8]) -> Result<BTreeMap<String, Vec<u8>>> {
    let file = ElfFile64::<object::Endianness>::parse(object)?;
    file.sections()
        .map(|section| Ok((section.name()?.to_owned(), section.data()?.to_vec())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An object as bpf-linker writes it: one program of two instructions, one called function of three, BTF, DWARF.
    fn linked(btf: bool) -> Vec<u8> {
        let mut builder = Builder::new(object::Endianness::Little, true);
        builder.header.e_type = elf::ET_REL;
        builder.header.e_machine = elf::EM_BPF;
        builder.header.e_phoff = 0x40;
        let mut add =
            |name: &'static str, sh_type: u32, sh_flags: u32, data: SectionData<'static>| {
                let section = builder.sections.add();
                section.name = name.into();
                section.sh_type = sh_type;
                section.sh_flags = u64::from(sh_flags);
                section.sh_addralign = 1;
                section.data = data;
                section.id()
            };
        let code = |length: usize| SectionData::Data(vec![0; length].into());
        let executable = elf::SHF_ALLOC | elf::SHF_EXECINSTR;
        let program = add("perf_event", elf::SHT_PROGBITS, executable, code(16));
        let called = add(".text", elf::SHT_PROGBITS, executable, code(24));
        add(".debug_info", elf::SHT_PROGBITS, 0, code(100));
        if btf {
            add(".BTF", elf::SHT_PROGBITS, 0, code(5));
        }
        add(".symtab", elf::SHT_SYMTAB, 0, SectionData::Symbol);
        add(".strtab", elf::SHT_STRTAB, 0, SectionData::String);
        add(".shstrtab", elf::SHT_STRTAB, 0, SectionData::SectionString);
        for (name, section, size) in [("sample", program, 16), ("step", called, 24)] {
            let symbol = builder.symbols.add();
            symbol.name = name.into();
            symbol.section = Some(section);
            symbol.st_size = size;
            symbol.set_st_info(elf::STB_GLOBAL, elf::STT_FUNC);
        }
        for section in &mut builder.sections {
            section.sh_offset = if section.name.as_slice() == b".text" {
                0x50
            } else {
                0x40
            };
        }
        let mut bytes = Vec::new();
        builder.write(&mut bytes).unwrap();
        bytes
    }

    /// Instructions are counted by function, and programs are told from what they call.
    #[test]
    fn instructions_are_counted() {
        let functions = functions(&linked(true)).unwrap();
        assert_eq!(
            functions["sample"],
            Function {
                section: "perf_event".into(),
                instructions: 2
            }
        );
        assert_eq!(
            functions["step"],
            Function {
                section: ".text".into(),
                instructions: 3
            }
        );
        assert!(functions["sample"].is_program() && !functions["step"].is_program());
    }

    /// Taking out the debug sections takes out nothing else.
    #[test]
    fn only_debug_sections_go() {
        let (before, after) = (linked(true), without_debug_sections(&linked(true)).unwrap());
        assert_eq!(functions(&before).unwrap(), functions(&after).unwrap());
        let differing = differing_sections(&before, &after).unwrap();
        assert_eq!(differing, [".debug_info", ".shstrtab"]);
    }

    /// An object without BTF would load on no kernel that wants it; it is refused here.
    #[test]
    fn an_object_needs_btf() {
        assert!(
            functions(&linked(false))
                .unwrap_err()
                .to_string()
                .contains("no BTF")
        );
    }
}
