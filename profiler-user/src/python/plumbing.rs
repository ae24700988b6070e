//! The interpreter's own calling machinery: functions that only lead from one Python frame to the next.
//!
//! They stand between almost every two Python frames and say nothing about where time goes, so they are folded
//! away unless execution is in them. C functions that Python code calls (`list.sort`, say) are not here.

/// Names of CPython functions, and beginnings of names (with `*`), as its sources of 3.8 to 3.14 have them.
const PLUMBING: [&str; 24] = [
    "PyEval_EvalCode*",
    "_PyEval_EvalFrame*",
    "_PyEval_EvalCode*",
    "_PyEval_Vector*",
    "_PyFunction_*",
    "_PyObject_Call*",
    "_PyObject_FastCall*",
    "_PyObject_MakeTpCall*",
    "_PyObject_Vectorcall*",
    "_PyVectorcall_*",
    "PyObject_Call*",
    "PyObject_Vectorcall*",
    "PyVectorcall_*",
    "_Py_CheckFunctionResult",
    "cfunction_call*",
    "cfunction_vectorcall*",
    "call_function",
    "do_call_core",
    "function_code_fastcall",
    "method_call",
    "method_vectorcall*",
    "object_vacall",
    "trace_call_function",
    "vectorcall_*",
];

/// Whether a function of the interpreter is calling machinery.
pub fn is_plumbing(function: &str) -> bool {
    PLUMBING.iter().any(|entry| match entry.strip_suffix('*') {
        Some(beginning) => function.starts_with(beginning),
        None => function == *entry,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Machinery is told from functions that do work.
    #[test]
    fn tells_machinery() {
        for name in [
            "_PyEval_Vector",
            "method_vectorcall",
            "cfunction_vectorcall_FASTCALL",
            "PyObject_CallNoArgs",
        ] {
            assert!(is_plumbing(name), "{name}");
        }
        for name in [
            "list_sort_impl",
            "_PyObject_Malloc",
            "long_add",
            "method_dealloc",
            "builtin_sorted",
        ] {
            assert!(!is_plumbing(name), "{name}");
        }
    }
}
