//! Which line of own code calls a driver function: the line most often seen above it in samples.

use std::collections::{HashMap, HashSet};

use crate::profile::{FrameId, FrameKind, Profile, StringId};

use super::index::Index;
use super::place::PlaceId;

/// Per driver function, the own-code line that most of the samples in it were called from.
pub(super) fn calling_lines(index: &Index<'_>) -> HashMap<StringId, String> {
    let mut seen: HashMap<StringId, HashMap<PlaceId, u64>> = HashMap::new();
    for (stack, count) in index.stacks() {
        let mut counted: HashSet<StringId> = HashSet::new();
        for (depth, frame) in stack.iter().enumerate() {
            if let Some(function) = driver_function(index.profile, *frame)
                && counted.insert(function)
                && let Some(caller) = index.innermost_own(&stack[depth + 1..])
                && let Some(place) = index.lines.of(caller)
            {
                *seen.entry(function).or_default().entry(place).or_insert(0) += count;
            }
        }
    }
    let label = |place: PlaceId| index.lines.label(place);
    let most = |lines: &HashMap<PlaceId, u64>| {
        let top = lines
            .iter()
            .max_by(|a, b| a.1.cmp(b.1).then_with(|| label(*b.0).cmp(label(*a.0))));
        top.map(|(place, _)| label(*place).to_owned())
    };
    seen.iter()
        .filter_map(|(function, lines)| Some((*function, most(lines)?)))
        .collect()
}

fn driver_function(profile: &Profile, frame: FrameId) -> Option<StringId> {
    let frame = profile.frame(frame);
    (frame.kind == FrameKind::Cuda).then_some(frame.function)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::OwnCode;
    use crate::evidence::testing::Build;

    /// The line is own code above the call, whatever lies between; other samples do not vote.
    #[test]
    fn the_calling_line_is_own_code() {
        let mut build = Build::new();
        let process = build.process("python3", 10);
        let thread = build.thread(process, "a", 10);
        let cuda = build.cuda("cuLaunchKernel");
        let torch = build.python("forward", "/v/site-packages/torch/nn.py", 5);
        let (one, two) = (
            build.python("step", "/train.py", 7),
            build.python("step", "/train.py", 8),
        );
        build.sample(thread, &[cuda, torch, one], 3);
        build.sample(thread, &[cuda, two], 2);
        build.sample(thread, &[two], 50);
        let launch = build.profile.strings.intern("cuLaunchKernel");
        let index = Index::new(&build.profile, &OwnCode::default());
        assert_eq!(
            calling_lines(&index),
            HashMap::from([(launch, "step (train.py:7)".to_owned())])
        );
    }

    /// A call from code that is not own has no line.
    #[test]
    fn without_own_code_there_is_none() {
        let mut build = Build::new();
        let process = build.process("app", 10);
        let thread = build.thread(process, "a", 10);
        let (cuda, main) = (build.cuda("cuInit"), build.native("main", "/app"));
        build.sample(thread, &[cuda, main], 3);
        let index = Index::new(&build.profile, &OwnCode::default());
        assert_eq!(calling_lines(&index), HashMap::new());
    }
}
