//! The checks that foreign bytes have to pass, each with a text that says what is wrong.

/// A value, or what is wrong with the bytes.
pub(super) type Checked<T = ()> = Result<T, String>;

/// An id, if it leads to one of `known` rows.
pub(super) fn index(what: &str, id: u32, known: usize) -> Checked<u32> {
    if (id as usize) < known {
        return Ok(id);
    }
    Err(format!("{what} {id} is named, of {known}"))
}

/// The value with that number.
pub(super) fn known<T>(what: &str, id: u32, from_id: impl Fn(u32) -> Option<T>) -> Checked<T> {
    from_id(id).ok_or_else(|| format!("{id} is no {what}"))
}

/// Whether a figure is one that can be: larger ones would overflow a sum somewhere.
pub(super) fn at_most(what: &str, figure: u64, most: u64) -> Checked {
    if figure <= most {
        return Ok(());
    }
    Err(format!("the {what} is {figure}, the limit is {most}"))
}

/// The sum, unless it overflows.
pub(super) fn sum(mut figures: impl Iterator<Item = u64>) -> Option<u64> {
    figures.try_fold(0u64, u64::checked_add)
}

/// Whether a number of things, the newest included, is within its limit.
pub(super) fn capped(what: &str, held: usize, most: usize) -> Checked {
    if held <= most {
        return Ok(());
    }
    Err(format!("more than {most} {what}"))
}

/// Whether columns belong together.
pub(super) fn same_length(columns: &[usize]) -> Checked {
    if columns.windows(2).all(|pair| pair[0] == pair[1]) {
        return Ok(());
    }
    Err("columns of different length".into())
}
