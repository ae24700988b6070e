//! One session for several recordings.

use std::collections::BTreeMap;

use crate::profile::Session;

/// The hosts, by name.
pub(super) fn hosts<'a>(sessions: &[(&'a Session, u64)]) -> BTreeMap<&'a str, Vec<&'a Session>> {
    let mut hosts = BTreeMap::<&str, Vec<&Session>>::new();
    for (session, _) in sessions {
        hosts.entry(&session.host).or_default().push(session);
    }
    hosts
}

/// The session of the whole, and what the reader should know about it. Each session comes with its kept samples;
/// they are in the order in which they began.
pub(super) fn combine(sessions: &[(&Session, u64)]) -> (Session, Vec<String>) {
    let hosts = hosts(sessions);
    let each = |text: fn(&Session) -> &str| {
        let mut texts: Vec<&str> = Vec::new();
        for (session, _) in sessions {
            if !texts.contains(&text(session)) {
                texts.push(text(session));
            }
        }
        texts
    };
    let most_cpus = |of: &Vec<&Session>| of.iter().map(|session| session.cpus).max().unwrap_or(0);
    let mut notes = Vec::new();
    let frequency_hz = frequency(sessions, &mut notes);
    let clocks = each(|session| session.clock.text());
    if clocks.len() > 1 {
        notes.push(format!(
            "the recordings are paced differently: {}",
            clocks.join(", ")
        ));
    }
    if sessions.len() > 1 {
        notes.push(describe(sessions.len(), &hosts));
    }
    let session = Session {
        version: each(|session| &session.version).join(", "),
        host: each(|session| &session.host).join(", "),
        kernel: each(|session| &session.kernel).join(", "),
        cpus: hosts.values().map(most_cpus).fold(0, u32::saturating_add),
        frequency_hz,
        clock: sessions
            .last()
            .map_or_else(Default::default, |(session, _)| session.clock),
        started_unix_ns: sessions
            .first()
            .map_or(0, |(session, _)| session.started_unix_ns),
        duration_ns: hosts.values().map(|of| covered_ns(of)).max().unwrap_or(0),
        scope: each(|session| &session.scope).join("; "),
        closed: sessions.iter().all(|(session, _)| session.closed),
    };
    (session, notes)
}

fn describe(recordings: usize, hosts: &BTreeMap<&str, Vec<&Session>>) -> String {
    let each: Vec<String> = (hosts.iter())
        .map(|(host, of)| {
            let ns = covered_ns(of);
            format!("{host} {}.{} s", ns / 1_000_000_000, ns / 100_000_000 % 10)
        })
        .collect();
    format!(
        "{recordings} recordings merged; time covered: {}; rates and shares of time are of the longest",
        each.join(", ")
    )
}

/// Time in which at least one of one host's recordings ran; they are in the order in which they began.
fn covered_ns(sessions: &[&Session]) -> u64 {
    let (mut covered, mut reached) = (0u64, 0);
    for session in sessions {
        let from = session.started_unix_ns.max(reached);
        let to = session.started_unix_ns.saturating_add(session.duration_ns);
        covered = covered.saturating_add(to.saturating_sub(from));
        reached = reached.max(to);
    }
    covered
}

/// The common frequency; of different ones that at which all samples stand for as much CPU time as they do.
fn frequency(sessions: &[(&Session, u64)], notes: &mut Vec<String>) -> u32 {
    let mut all: Vec<u32> = sessions
        .iter()
        .map(|(session, _)| session.frequency_hz)
        .collect();
    all.sort_unstable();
    all.dedup();
    let [_, _, ..] = all.as_slice() else {
        return all.first().copied().unwrap_or(0);
    };
    let texts: Vec<String> = all.iter().map(u32::to_string).collect();
    notes.push(format!(
        "the recordings were taken at different frequencies ({} Hz): those of a higher one weigh more in every \
         count and share",
        texts.join(", ")
    ));
    let samples: u64 = sessions.iter().map(|(_, kept)| kept).sum();
    let seconds: f64 = (sessions.iter())
        .map(|(session, kept)| to_f64(*kept) / f64::from(session.frequency_hz.max(1)))
        .sum();
    if samples == 0 {
        return all[0];
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a mean of u32s"
    )]
    let mean = (to_f64(samples) / seconds).round() as u32;
    mean
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a weight: 53 bits are more than enough"
)]
fn to_f64(count: u64) -> f64 {
    count as f64
}
