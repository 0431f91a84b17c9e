//! A news server of 1999. Articles arrive in group directories, get links in others, and expire.
//!
//! Reference: `docs/spec/benchmarks.md` §4.6.

use std::collections::{BTreeMap, VecDeque};

use super::file_calls::{WriteMode, remove_tree, write_file};
use super::open_path::OpenPath;
use super::parameters::{Parameter, share};
use super::progress::ProgressMeter;
use super::random::{RandomStream, Zipf};
use super::{PhaseInfo, PhaseRecorder, Workload, WorkloadInfo};
use crate::error::Result;
use crate::systems::{Demand, DirId, Open, Target};
use crate::watch::Watch;

pub(super) const INFO: WorkloadInfo = WorkloadInfo {
    name: "netnews",
    group: "Netnews",
    about: "a news server: eight days of articles, two days with expiry, removal of the spool",
    params: &[
        Parameter::new("size", "1", "share of a full feed: 130,000 articles a day"),
        Parameter::new("directories", "first", "when groups are made: first or needed"),
    ],
    source: "paper §4; model of the simplified benchmark of Seltzer et al., USENIX 2000",
    computes: false,
    make: |words| {
        let all_first = words.word("directories", &["first", "needed"])? == "first";
        Ok(Box::new(Netnews { size: words.size(1.0)?, all_first }))
    },
};

struct Netnews {
    size: f64,
    /// All directories are made before the first article. Otherwise the first article of a group
    /// makes its directory.
    all_first: bool,
}

/// Groups of a full feed. A smaller feed has the share given by the square root of its size.
const GROUPS: f64 = 3000.0;
/// Articles that arrive in a day.
const ARRIVALS: u64 = 130_000;
/// Articles that expire in a day.
const EXPIRED: u64 = 92_000;
/// Days of the build phase, and of the news phase.
const DAYS: (u64, u64) = (8, 2);
/// Batches of expiry in a day.
const BATCHES: u64 = 4;
/// The popularity of the k-th group is 1/k to this power.
const POPULARITY: f64 = 0.9;
/// The name of the spool.
const SPOOL: &[u8] = b"news";
/// Bytes of a read or write.
const CHUNK: u64 = 8 << 10;
/// The size of an article: median, standard deviation of the logarithm, maximum.
const MEDIAN: f64 = 1900.0;
const SIGMA: f64 = 1.05;
const LARGEST: u64 = 64 << 10;
/// One article in a hundred has a picture.
const BINARY: u64 = 60 << 10;

impl Netnews {
    fn a_day(&self, of: u64) -> u64 {
        share(of, self.size)
    }

    fn groups(&self) -> usize {
        ((GROUPS * self.size.sqrt()).round() as usize).max(5)
    }
}

impl Workload for Netnews {
    fn info(&self) -> &'static WorkloadInfo {
        &INFO
    }

    fn phases(&self) -> Vec<PhaseInfo> {
        vec![
            PhaseInfo::time("build", "tree build", "articles").row("tree build"),
            PhaseInfo::time("news", "simulated news operation", "articles")
                .row("simulated news operation"),
            PhaseInfo::time("rm", "tree removal", "entries").row("tree removal"),
        ]
    }

    fn demand(&self) -> Demand {
        let articles = self.a_day(ARRIVALS) * (DAYS.0 + DAYS.1);
        // An entry for each file and link, directories, and a few spare ones.
        Demand { files: articles + 8 * self.groups() as u64, bytes: articles * 4400 }
    }

    fn operations(&self) -> u64 {
        let days = DAYS.0 + DAYS.1;
        2 * self.a_day(ARRIVALS) * days + self.a_day(EXPIRED) * DAYS.1
    }

    fn run(
        &self,
        target: &mut dyn Target,
        seed: u64,
        recorder: &mut PhaseRecorder,
        watch: &mut dyn Watch,
    ) -> Result<()> {
        let top = target.begin(self.demand())?;
        let mut meter = ProgressMeter::new(watch);
        let mut server = Server::new(seed, self.groups());
        let arrivals = self.a_day(ARRIVALS);
        meter.phase(recorder, target, "build", |t, meter| {
            let spool = t.mkdir(top, SPOOL)?;
            if self.all_first {
                server.make_all(t, spool)?;
            }
            for _ in 0..arrivals * DAYS.0 {
                server.arrive(t, spool)?;
                meter.tick()?;
            }
            server.leave(t, spool)?;
            Ok((arrivals * DAYS.0) as f64)
        })?;
        meter.phase(recorder, target, "news", |t, meter| {
            let spool = t.open_dir(top, SPOOL)?;
            let expired = self.a_day(EXPIRED);
            for quarter in 0..DAYS.1 * BATCHES {
                let part = |of: u64| of * (quarter + 1) / BATCHES - of * quarter / BATCHES;
                for _ in 0..part(arrivals) {
                    server.arrive(t, spool)?;
                    meter.tick()?;
                }
                server.expire(t, spool, part(expired), meter)?;
            }
            server.leave(t, spool)?;
            Ok(((arrivals + expired) * DAYS.1) as f64)
        })?;
        meter.phase(recorder, target, "rm", |t, meter| {
            remove_tree(t, top, SPOOL, meter).map(|removed| removed as f64)
        })?;
        Ok(())
    }
}

/// The path of a group in parts: `comp/os/unix`.
type Group = Vec<Vec<u8>>;

/// An article: its groups and its number in each. The file is in the first group.
struct Article(Vec<(u32, u32)>);

struct Server {
    draw: RandomStream,
    groups: Vec<Group>,
    /// Whether the directory of each group exists.
    made: Vec<bool>,
    popularity: Zipf,
    /// The last number of each group.
    last: Vec<u32>,
    /// The articles, oldest first.
    articles: VecDeque<Article>,
    /// The group of the last article.
    chain: Option<OpenPath>,
}

impl Server {
    fn new(seed: u64, groups: usize) -> Server {
        let draw = RandomStream::new(seed, "netnews");
        let groups = names(&draw, groups);
        let popularity = Zipf::new(groups.len(), POPULARITY);
        let (made, last) = (vec![false; groups.len()], vec![0; groups.len()]);
        Server { draw, groups, made, popularity, last, articles: VecDeque::new(), chain: None }
    }

    /// Draws the groups of an article: one for most, up to five for some.
    fn pick_groups(&self) -> Vec<u32> {
        let wanted = match self.draw.below(100) {
            0..85 => 1,
            85..94 => 2,
            _ => self.draw.range(3, 5) as usize,
        };
        let mut picked: Vec<u32> = Vec::with_capacity(wanted);
        while picked.len() < wanted.min(self.groups.len()) {
            let group = self.popularity.draw(&self.draw) as u32;
            if !picked.contains(&group) {
                picked.push(group);
            }
        }
        picked
    }

    fn size(&self) -> u64 {
        if self.draw.percent(1) {
            return BINARY;
        }
        (self.draw.log_normal(MEDIAN, SIGMA) as u64).clamp(1, LARGEST)
    }

    fn make_all(&mut self, t: &mut dyn Target, spool: DirId) -> Result<()> {
        (0..self.groups.len()).try_for_each(|group| self.make(t, spool, group))
    }

    /// Makes the directory of a group, unless it exists.
    fn make(&mut self, t: &mut dyn Target, spool: DirId, group: usize) -> Result<()> {
        if !std::mem::replace(&mut self.made[group], true) {
            make(t, spool, &self.groups[group])?;
        }
        Ok(())
    }

    /// Opens the directory of a group. It stays open until the next call.
    fn go(&mut self, t: &mut dyn Target, spool: DirId, group: u32) -> Result<DirId> {
        let chain = self.chain.get_or_insert_with(|| OpenPath::new(spool));
        chain.go(t, self.groups[group as usize].iter().map(Vec::as_slice))
    }

    fn leave(&mut self, t: &mut dyn Target, spool: DirId) -> Result<()> {
        if let Some(chain) = self.chain.take() {
            chain.close(t)?;
        }
        t.close_dir(spool)
    }

    fn arrive(&mut self, t: &mut dyn Target, spool: DirId) -> Result<()> {
        let size = self.size();
        let groups = self.pick_groups();
        let mut places: Vec<(u32, u32)> = Vec::with_capacity(groups.len());
        for group in groups {
            self.make(t, spool, group as usize)?;
            self.last[group as usize] += 1;
            let number = self.last[group as usize];
            let name = number.to_string().into_bytes();
            if let Some(&(first, of_first)) = places.first() {
                // The path of the file is looked up again for each link.
                let mut to = OpenPath::new(spool);
                let into = to.go(t, self.groups[group as usize].iter().map(Vec::as_slice))?;
                let from = self.go(t, spool, first)?;
                t.link((from, of_first.to_string().as_bytes()), (into, &name))?;
                to.close(t)?;
            } else {
                let dir = self.go(t, spool, group)?;
                let write = WriteMode { open: Open::CreateNew, piece: CHUNK };
                write_file(t, dir, &name, size, write)?;
            }
            places.push((group, number));
        }
        self.articles.push_back(Article(places));
        Ok(())
    }

    /// Removes the oldest `count` articles, group by group, in the order of their numbers.
    fn expire(
        &mut self,
        t: &mut dyn Target,
        spool: DirId,
        count: u64,
        meter: &mut ProgressMeter<'_>,
    ) -> Result<()> {
        let count = (count as usize).min(self.articles.len());
        let mut batch: Vec<Article> = self.articles.drain(..count).collect();
        batch.sort_by(|a, b| a.0.cmp(&b.0));
        for Article(places) in batch {
            for (group, number) in places {
                let dir = self.go(t, spool, group)?;
                t.unlink(dir, number.to_string().as_bytes())?;
            }
            meter.tick()?;
        }
        Ok(())
    }
}

/// Makes the directory of a group and the missing ones above it.
fn make(t: &mut dyn Target, spool: DirId, group: &Group) -> Result<()> {
    let mut chain = OpenPath::new(spool);
    for part in group {
        if t.stat(chain.current(), part)?.is_none() {
            chain.make(t, part)?;
        } else {
            chain.enter(t, part)?;
        }
    }
    chain.close(t)
}

/// Makes distinct groups with paths of two to five parts. Some parts are much more common than
/// others.
fn names(draw: &RandomStream, groups: usize) -> Vec<Group> {
    // The parts below each path so far. Earlier parts are more likely.
    let mut parts: BTreeMap<Group, Vec<Vec<u8>>> = BTreeMap::new();
    let likely = Zipf::new(24, 1.0);
    let mut found: BTreeMap<Group, ()> = BTreeMap::new();
    let mut out = Vec::with_capacity(groups);
    while out.len() < groups {
        let depth = draw.range(2, 5);
        let mut group: Group = Vec::new();
        for _ in 0..depth {
            let place = likely.draw(draw);
            let known = parts.entry(group.clone()).or_default();
            while known.len() <= place {
                let part = word(draw, known.len());
                known.push(part);
            }
            let part = known[place].clone();
            group.push(part);
        }
        if found.insert(group.clone(), ()).is_none() {
            out.push(group);
        }
    }
    out
}

/// A random word with a suffix that makes it unique below its parent.
fn word(draw: &RandomStream, place: usize) -> Vec<u8> {
    let len = draw.range(2, 9);
    let mut word: Vec<u8> = (0..len).map(|_| b'a' + draw.below(26) as u8).collect();
    word.push(b'a' + (place % 26) as u8);
    word
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn groups_are_different_and_of_all_depths() {
        let groups = names(&RandomStream::new(1, "test"), 500);
        let distinct: BTreeSet<&Group> = groups.iter().collect();
        let depths: BTreeSet<usize> = groups.iter().map(Vec::len).collect();
        assert_eq!((distinct.len(), depths), (500, (2..=5).collect()));
    }

    #[test]
    fn articles_are_small_and_some_are_linked() {
        let server = Server::new(2, 100);
        let groups: Vec<usize> = (0..10_000).map(|_| server.pick_groups().len()).collect();
        let once = groups.iter().filter(|groups| **groups == 1).count();
        assert!((8300..8700).contains(&once), "{once}");
        let mean = (0..10_000).map(|_| server.size()).sum::<u64>() / 10_000;
        assert!((3500..4400).contains(&mean), "{mean}");
    }
}
