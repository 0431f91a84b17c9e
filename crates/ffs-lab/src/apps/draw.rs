//! The choice of the states of a recording to examine.
//!
//! A state is named `WINDOW:STATE`, like the states of `ffs lab crash`.

use std::fmt;
use std::str::FromStr;

use ffs_device::{Rng, SplitMix64};

use crate::crash::record::Window;
use crate::crash::states::{Choice, Effort, WindowStates};
use crate::error::LabError;

/// The effect of a loss of power on the writes since the last flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Model {
    /// All of them are lost: the device as it was when the last flush returned.
    Returned,
    /// The first ones are kept.
    Prefix,
    /// Some are kept.
    Subset,
    /// One is torn between sectors; some of the others are kept.
    Torn,
    /// Some sectors are kept.
    Sectors,
}

/// The order of the models. `Returned` has three turns of eight, as the guarantees of fsync show
/// best when every other write is lost.
const TURNS: &[Model] = &[
    Model::Returned,
    Model::Subset,
    Model::Torn,
    Model::Returned,
    Model::Prefix,
    Model::Subset,
    Model::Returned,
    Model::Sectors,
];

/// Random subsets to draw from.
const EFFORT: Effort = Effort { subsets: 64, sectors: 64, window: 4000 };
/// Attempts to draw a state that was not drawn before.
const TRIES: u32 = 8;

/// A state of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StateId {
    /// The window, counted from 0.
    pub window: usize,
    /// The writes that the state keeps.
    pub choice: Choice,
}

impl fmt::Display for StateId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.window, self.choice)
    }
}

impl FromStr for StateId {
    type Err = LabError;

    fn from_str(text: &str) -> Result<StateId, LabError> {
        let parsed = text.split_once(':').and_then(|(window, choice)| {
            Some(StateId { window: window.parse().ok()?, choice: choice.parse().ok()? })
        });
        parsed.ok_or_else(|| {
            LabError::Plan(format!("state '{text}': expected WINDOW:STATE, such as 12:p0"))
        })
    }
}

/// The models by which the states of each window are drawn.
pub(super) struct Draw {
    seed: u64,
    turns: Vec<Vec<Model>>,
}

impl Draw {
    /// Draws at most `states` states of these windows. Equal states count once.
    pub(super) fn new(windows: &[Window], states: usize, seed: u64) -> Draw {
        let rng = SplitMix64::new(seed);
        let mut order: Vec<usize> = (0..windows.len()).collect();
        for last in (1..order.len()).rev() {
            // The remainder is at most `last`.
            order.swap(last, rng.below(last as u64 + 1) as usize);
        }
        let mut turns = vec![Vec::new(); windows.len()];
        for place in 0..if order.is_empty() { 0 } else { states } {
            // Each round begins one turn later, so that every window gets every model.
            let (round, at) = (place / order.len(), place % order.len());
            let model = TURNS.get((place + round) % TURNS.len());
            let window = order.get(at).and_then(|&window| turns.get_mut(window));
            if let (Some(turns), Some(&model)) = (window, model) {
                turns.push(model);
            }
        }
        Draw { seed, turns }
    }

    /// The states to examine of one window, each content once.
    pub(super) fn of(&self, window: usize, window_states: &WindowStates<'_>) -> Vec<Choice> {
        let Some(turns) = self.turns.get(window).filter(|turns| !turns.is_empty()) else {
            return Vec::new();
        };
        let rng = SplitMix64::new(self.seed ^ (window as u64).rotate_left(32));
        let all = window_states.choices(EFFORT);
        let mut seen = Vec::new();
        let mut drawn = Vec::new();
        for model in turns {
            let fitting: Vec<Choice> =
                all.iter().copied().filter(|choice| model_of(*choice) == *model).collect();
            for _ in 0..TRIES {
                // A window of one write has no subsets: any of its states is used.
                let from = if fitting.is_empty() { &all } else { &fitting };
                let Some(&choice) = from.get(rng.below(from.len() as u64) as usize) else { break };
                let hash = window_states.hash(&window_states.layout(choice));
                if !seen.contains(&hash) {
                    seen.push(hash);
                    drawn.push(choice);
                    break;
                }
            }
        }
        drawn
    }
}

fn model_of(choice: Choice) -> Model {
    match choice {
        Choice::Prefix(0) => Model::Returned,
        Choice::Prefix(_) => Model::Prefix,
        Choice::Torn { .. } => Model::Torn,
        Choice::Sectors(_) => Model::Sectors,
        _ => Model::Subset,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crash::overlay::OverlayDevice;
    use crate::crash::record::Write;
    use ffs_device::Durability;
    use std::sync::Arc;

    fn window(writes: u64) -> Window {
        let write =
            |n: u64| Write { at: n + 1, offset: n * 1024, bytes: Arc::from([n as u8 + 1; 1024]) };
        Window { begin: 0, end: writes, writes: (0..writes).map(write).collect() }
    }

    #[test]
    fn a_draw_is_repeated_by_its_seed_and_has_each_state_once() {
        let windows = [window(0), window(1), window(5), window(30)];
        let overlay = OverlayDevice::new(Arc::new(vec![0; 64 << 10]), Durability::OnFlush);
        let all = |states, seed| -> Vec<StateId> {
            let draw = Draw::new(&windows, states, seed);
            let of = |(n, window)| {
                let window_states = WindowStates::new(window, &overlay, seed);
                let drawn = draw.of(n, &window_states).into_iter();
                drawn.map(move |choice| StateId { window: n, choice }).collect::<Vec<_>>()
            };
            windows.iter().enumerate().flat_map(of).collect()
        };
        assert_eq!(all(100, 7), all(100, 7));
        assert_ne!(all(100, 7), all(100, 8));
        let drawn = all(400, 7);
        assert!(drawn.len() > 100, "{}", drawn.len());
        let mut once = drawn.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), drawn.len());
        for model in TURNS {
            assert!(drawn.iter().any(|id| model_of(id.choice) == *model), "{model:?}");
        }
        // An empty window has one state.
        assert_eq!(drawn.iter().filter(|id| id.window == 0).count(), 1);
        for id in drawn {
            assert_eq!(id.to_string().parse::<StateId>().unwrap(), id);
        }
        assert!("12".parse::<StateId>().is_err());
    }
}
