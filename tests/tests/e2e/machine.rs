//! The whole machine: programs that nobody named, kernel functions, and idle CPUs.

use wholestack_tests::require_bpf;

use crate::fixtures::machine;

/// `dd` from /dev/zero to /dev/null is found without being named, and its stacks go through its system call down to the
/// kernel function that writes the zeros.
#[test]
fn kernel_stacks_have_names() {
    require_bpf!();
    let run = machine();
    let stacks: Vec<_> = run.folded.of_process(run.dd).collect();
    let samples: u64 = stacks.iter().map(|stack| stack.count).sum();
    let through = |wanted: &[&str]| {
        let has = |frame: &String| {
            wanted
                .iter()
                .any(|name| *frame == format!("{name} [kernel]"))
        };
        stacks
            .iter()
            .filter(|stack| stack.frames.iter().any(has))
            .map(|stack| stack.count)
            .sum::<u64>()
    };
    assert!(
        stacks.iter().all(|stack| stack.process.name == "dd"),
        "{stacks:#?}"
    );
    // Nearly all of its time goes into reads of a megabyte. The names are those of kernels 5.15 to 6.18.
    for layer in [
        &["do_syscall_64"][..],
        &["ksys_read", "__x64_sys_read"],
        &["vfs_read"],
        &["read_zero", "read_iter_zero"],
    ] {
        assert!(
            through(layer) * 10 > samples * 8,
            "{layer:?} is in {} of {samples}: {stacks:#?}",
            through(layer)
        );
    }
    let order = ["do_syscall_64 [kernel]", "vfs_read [kernel]"];
    for stack in stacks
        .iter()
        .filter(|stack| order.iter().all(|frame| stack.has(frame)))
    {
        let [outer, inner] = order.map(|name| stack.frames.iter().position(|frame| frame == name));
        assert!(outer < inner, "root first: {stack:#?}");
    }
}

/// Kernel code lies below user code: no user function, nor Python, is called by the kernel.
#[test]
fn the_kernel_is_at_the_leaf() {
    require_bpf!();
    for stack in &machine().folded.stacks {
        let first = stack
            .frames
            .iter()
            .position(|frame| frame.ends_with(" [kernel]"));
        let inner = &stack.frames[first.unwrap_or(stack.frames.len())..];
        assert!(
            inner
                .iter()
                .all(|frame| frame.ends_with("[kernel]") || frame.starts_with("[kernel]+")),
            "{stack:#?}"
        );
    }
}

/// A program that starts in the middle is recorded, with its functions by name.
#[test]
fn later_programs_are_recorded() {
    require_bpf!();
    let run = machine();
    let in_function = |stack: &&wholestack_tests::folded::Stack| {
        stack
            .frames
            .iter()
            .any(|frame| frame.starts_with("burn_a_little ("))
    };
    let samples: u64 = run
        .folded
        .of_process(run.burner)
        .filter(in_function)
        .map(|stack| stack.count)
        .sum();
    assert!(
        samples > 0,
        "{:#?}",
        run.folded.of_process(run.burner).collect::<Vec<_>>()
    );
}

/// An idle CPU is no sample: there are no more samples than CPUs were busy, and none of the idle task.
#[test]
fn idle_is_no_sample() {
    require_bpf!();
    let run = machine();
    let books = &run.report.summary;
    let most = f64::from(books.cpus) * books.duration_seconds * f64::from(books.frequency_hz);
    assert!(
        books.taken as f64 <= most * 1.1,
        "{} samples, {most} ticks",
        books.taken
    );
    let sampled = books.taken as f64 / f64::from(books.frequency_hz);
    println!("{sampled:.2} s sampled, {:.2} s busy", run.busy_seconds);
    // The kernel's own figures are of its ticks: a few are off.
    assert!(
        sampled <= run.busy_seconds * 1.1 + 0.2,
        "{sampled} s sampled, {} s busy",
        run.busy_seconds
    );
    assert_eq!(
        run.folded
            .count(|stack| stack.process.id == 0 || stack.process.name.starts_with("swapper")),
        0
    );
    assert!(
        run.report.threads.rows.iter().all(|thread| thread.pid != 0),
        "{:#?}",
        run.report.threads
    );
}
