//! Native stacks of programs that are hard to unwind: whole from the thread's root to the leaf, or cut with a mark, never
//! with a caller that is none.

mod expect;
mod gallery;
mod modes;
