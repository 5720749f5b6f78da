//! The token plan of one view, and the planes of its tokens.

use std::any::Any;
use std::fmt;

use bytemuck::Zeroable;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::plan::TokenPlan;
use foveate_core::geometry::region::PixelBox;
use foveate_core::geometry::relevance::RelevanceMap;
use foveate_core::geometry::rule::IngestRule;
use foveate_core::geometry::tile::TileSet;
use foveate_core::token::{Outside, TokenFormat};
use foveate_gaze::view::ViewSpec;
use foveate_ring::{Items, TokenRecord};

use crate::change::tracker::ChangeTracker;
use crate::reuse::Reuse;

/// Relevance without a relevance map.
const EVEN_RELEVANCE: f32 = 1.0;

/// Token format, capacity and comparison mode that a sampler is built for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SamplerSpec {
    /// Number format of a token.
    pub format: TokenFormat,
    /// Most tokens of a plan.
    pub capacity: usize,
    /// Whether a token is published unchanged while no texel differs by more than the change threshold.
    pub keeps_unchanged: bool,
}

impl SamplerSpec {
    /// The sampler specification of a view, with comparison off.
    pub fn of(spec: &ViewSpec) -> Self {
        Self { format: spec.format, capacity: spec.capacity(), keeps_unchanged: false }
    }
}

/// What a backend samples one view with. Opaque, except to the backend whose [maker](crate::backend::SamplerMaker) made
/// it.
pub struct Sampler(Box<dyn Any + Send>);

impl Sampler {
    /// Wraps a backend's own state.
    pub(crate) fn new(inner: impl Any + Send) -> Self {
        Self(Box::new(inner))
    }

    /// The backend's own state.
    ///
    /// # Panics
    ///
    /// If another kind of backend made it.
    #[cfg(feature = "vulkan")]
    pub(crate) fn get<T: 'static>(&self) -> &T {
        self.0.downcast_ref().expect("a sampler of this backend")
    }

    /// Mutable access to the backend's own state; panics like [`get`](Self::get).
    pub(crate) fn get_mut<T: 'static>(&mut self) -> &mut T {
        self.0.downcast_mut().expect("a sampler of this backend")
    }
}

impl fmt::Debug for Sampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sampler")
    }
}

/// The tokens of one view, kept from frame to frame: a token over tiles that were not ingested stays as it is, and so does one whose
/// own texels have hardly moved.
#[derive(Debug)]
pub struct Planes {
    spec: SamplerSpec,
    pub(crate) sampler: Sampler,
    pub(crate) plan: TokenPlan,
    /// The source pixels that each token is read from.
    pub(crate) boxes: Vec<PixelBox>,
    /// Where the next update samples to: a slot of a ring, or memory of its own.
    pub(crate) items: Items,
    relevance: Vec<f32>,
    records: Vec<TokenRecord>,
    /// Records of the last frame of the plan before, with their rows, ordered by [`place`]; empty once a frame of this plan was recorded.
    records_before: Vec<(TokenRecord, Option<u32>)>,
    /// Tokens of the newest recorded frame that the frame before had too, byte for byte.
    kept: usize,
    /// Tokens of the newest recorded frame whose place the frame before had too, whatever their bytes.
    in_place: usize,
    /// Updates so far.
    update: u64,
    /// For each token, the update that last sampled it; 0 if the next update must sample it again.
    versions: Vec<u64>,
    /// Indices of the tokens that this update samples, ascending.
    pub(crate) stale: Vec<u32>,
    pub(crate) reuse: Reuse,
    pub(crate) is_resting: bool,
}

impl Planes {
    /// Room for the tokens of `spec`, for which `sampler` was made; the plan is empty.
    pub fn new(spec: SamplerSpec, sampler: Sampler) -> Self {
        let SamplerSpec { format, capacity, .. } = spec;
        Self {
            spec,
            sampler,
            plan: TokenPlan { patch_side: format.patch_side, tokens: Vec::new() },
            boxes: Vec::with_capacity(capacity),
            items: Items::new(format.token_bytes(), capacity),
            relevance: Vec::with_capacity(capacity),
            records: Vec::with_capacity(capacity),
            records_before: Vec::with_capacity(capacity),
            kept: 0,
            in_place: 0,
            update: 0,
            versions: Vec::with_capacity(capacity),
            stale: Vec::with_capacity(capacity),
            reuse: Reuse::new(spec),
            is_resting: false,
        }
    }

    /// Planes for another engine, for whose `spec` `sampler` was made. Versions continue, since sinks may hold items with
    /// old versions.
    pub(crate) fn renewed(&self, spec: SamplerSpec, sampler: Sampler) -> Self {
        Self { update: self.update, ..Self::new(spec, sampler) }
    }

    /// The plane `pixels`, the records, and the sampler.
    pub fn into_parts(self) -> (Vec<u8>, Vec<TokenRecord>, Sampler) {
        (self.pixels(), self.records, self.sampler)
    }

    /// Format of the tokens in memory, and how many there may be.
    pub fn spec(&self) -> SamplerSpec {
        self.spec
    }

    /// Switches to `sampler`, which samples every token again in the next update. Returns the old one.
    pub fn set_sampler(&mut self, sampler: Sampler) -> Sampler {
        self.forget_samples();
        std::mem::replace(&mut self.sampler, sampler)
    }

    /// Makes the next update sample every token, and publish it with what it finds.
    pub(crate) fn forget_samples(&mut self) {
        self.versions.fill(0);
        self.records_before.iter_mut().for_each(|(_, row)| *row = None);
        self.reuse.forget();
    }

    /// Takes the rule by which the tiles of the next frame are ingested.
    pub fn follow(&mut self, rule: &IngestRule) {
        if self.reuse.is_on() && self.reuse.follow(rule, &self.boxes) {
            // The threshold has fallen.
            self.versions.fill(0);
        }
    }

    /// Samples `plan` over a source of `extent` from the next update on.
    ///
    /// # Panics
    ///
    /// If it holds more tokens than there is room for, or patches of another side.
    pub fn set_plan(&mut self, plan: TokenPlan, extent: Extent) {
        let TokenPlan { patch_side, tokens } = &plan;
        assert_eq!(
            *patch_side, self.spec.format.patch_side,
            "patch side of the plan and of the view"
        );
        assert!(tokens.len() <= self.spec.capacity, "a plan beyond the view's capacity");
        self.boxes.clear();
        self.boxes.extend(tokens.iter().map(|token| token.read_box(extent, *patch_side)));
        self.relevance.resize(tokens.len(), EVEN_RELEVANCE);
        let is_next = self.records_before.is_empty();
        if is_next {
            // Keep only records that a frame was recorded by: the records of an unused plan are zeros.
            let rows = (0..).map(|index| self.reuse.published_row(index));
            self.records_before.extend(self.records.drain(..).zip(rows));
            self.records_before.retain(|(record, _)| 0 < record.size);
            self.records_before.sort_unstable_by_key(|(record, _)| place(record));
        }
        self.records.clear();
        self.records.resize(tokens.len(), TokenRecord::zeroed());
        self.versions.clear();
        self.versions.resize(tokens.len(), 0);
        let Self { reuse, records_before, .. } = self;
        reuse.set_plan(
            extent,
            is_next,
            tokens.iter().map(|token| {
                let record = TokenRecord::new(*token, extent, *patch_side, 0, EVEN_RELEVANCE);
                find(records_before, &record).and_then(|(_, row)| *row)
            }),
        );
        self.plan = plan;
    }

    /// The token plan.
    pub fn plan(&self) -> &TokenPlan {
        &self.plan
    }

    /// A copy of the plane [`pixels`](foveate_core::plane::PIXELS), `[N, 3, P, P]`. If the sink of the view gives the
    /// memory, only the tokens that the newest update sampled are valid.
    pub fn pixels(&self) -> Vec<u8> {
        self.items.to_vec(self.plan.tokens.len())
    }

    /// The items of the plane [`pixels`](foveate_core::plane::PIXELS), in the memory that they were sampled to.
    pub fn items(&self) -> &Items {
        &self.items
    }

    /// Has the next update sample to `items`; `None` for where the update before sampled to.
    pub(crate) fn sample_to(&mut self, items: Option<Items>) {
        if let Some(items) = items {
            self.items = items;
        }
    }

    /// The plane [`relevance`](foveate_core::plane::RELEVANCE), `[N]`.
    pub fn relevance(&self) -> &[f32] {
        &self.relevance
    }

    /// Where each token lies, and when it last changed.
    pub fn records(&self) -> &[TokenRecord] {
        &self.records
    }

    /// Tokens of the newest frame that a consumer knows from the frame before: same place, same bytes.
    pub fn kept(&self) -> usize {
        self.kept
    }

    /// Tokens of the newest frame at places where the frame before had one, whatever their bytes.
    pub fn in_place(&self) -> usize {
        self.in_place
    }

    /// For each token, the update that last sampled it; 0 if the next update must sample it again.
    pub fn versions(&self) -> &[u64] {
        &self.versions
    }

    /// Indices of the tokens that the newest update sampled, ascending; the others are as they were.
    pub fn stale(&self) -> &[u32] {
        &self.stale
    }

    /// While resting, updates sample no token. Tokens that change meanwhile are sampled by the first update afterwards.
    pub fn set_resting(&mut self, is_resting: bool) {
        self.is_resting = is_resting;
    }

    /// Whether updates sample no token.
    pub fn is_resting(&self) -> bool {
        self.is_resting
    }

    /// Whether the next update samples every token.
    #[cfg(feature = "vulkan")]
    pub(crate) fn must_sample_all(&self) -> bool {
        // Either all versions are 0 or none is.
        self.versions.first() == Some(&0)
    }

    /// Begins an update: finds the tokens that must be sampled again or lie over a tile of `ingested`.
    pub(crate) fn find_stale(&mut self, ingested: &TileSet) {
        let ingests = !ingested.is_empty();
        if self.begin_update(ingests) {
            return;
        }
        for ((index, region), version) in (0..).zip(&self.boxes).zip(&mut self.versions) {
            if *version == 0 || ingests && ingested.reaches(*region) {
                *version = self.update;
                self.stale.push(index);
            }
        }
    }

    /// Leaves an update out, as if resting: what `ingested` changes is sampled by the next one.
    pub(crate) fn leave_out(&mut self, ingested: &TileSet) {
        let was_resting = std::mem::replace(&mut self.is_resting, true);
        self.begin_update(!ingested.is_empty());
        self.is_resting = was_resting;
    }

    /// Begins an update whose stale tokens a device has found; `ingests` says whether it ingested a tile.
    #[cfg(feature = "vulkan")]
    pub(crate) fn take_stale(&mut self, stale: Vec<u32>, ingests: bool) {
        self.begin_update(ingests);
        for &index in &stale {
            self.versions[index as usize] = self.update;
        }
        self.stale = stale;
    }

    /// Starts an update. Returns whether it samples nothing.
    fn begin_update(&mut self, ingests: bool) -> bool {
        self.update += 1;
        self.stale.clear();
        // Mark all: cheaper than finding out which.
        if self.is_resting && ingests {
            self.versions.fill(0);
        }
        self.is_resting
    }

    /// Ends an update: writes the records of the sampled tokens. `relevance` stays the same as long as the plan.
    pub(crate) fn record(
        &mut self,
        extent: Extent,
        tracker: &ChangeTracker,
        relevance: Option<&RelevanceMap>,
    ) {
        let TokenPlan { patch_side, tokens } = &self.plan;
        let (mut moved, mut changed) = (0, 0);
        for index in self.stale.iter().map(|&index| index as usize) {
            let region = self.boxes[index];
            let record = match self.records[index] {
                TokenRecord { size: 0, .. } => {
                    let weight = weight_of(relevance, extent, region);
                    self.relevance[index] = weight;
                    TokenRecord::new(tokens[index], extent, *patch_side, 0, weight)
                }
                of_plan => of_plan,
            };
            let before = match find(&self.records_before, &record) {
                Some((before, _)) => before,
                None => &self.records[index],
            };
            let is_in_place = place(before) == place(&record);
            // A token without a real pixel holds the mean, whatever changes beside it.
            let has_pixels = 0 < record.columns && 0 < record.rows;
            let is_constant = !has_pixels && self.spec.format.outside == Outside::Mean;
            let changed_frame = if self.reuse.settle(index) || is_constant && is_in_place {
                before.changed_frame
            } else {
                tracker.changed_frame(region)
            };
            moved += usize::from(!is_in_place);
            changed += usize::from(!is_in_place || before.changed_frame != changed_frame);
            self.records[index] = TokenRecord { changed_frame, ..record };
        }
        self.kept = tokens.len() - changed;
        self.in_place = tokens.len() - moved;
        self.records_before.clear();
    }
}

/// The relevance of a token that is read from `region`.
#[expect(clippy::cast_possible_truncation, reason = "a weight needs no more digits")]
pub(crate) fn weight_of(relevance: Option<&RelevanceMap>, extent: Extent, region: PixelBox) -> f32 {
    relevance.map_or(EVEN_RELEVANCE, |relevance| relevance.greatest(extent, region) as f32)
}

/// The record of a frame before, whose records are ordered by [`place`], that a consumer identifies with the token of `record`.
fn find<'a>(
    before: &'a [(TokenRecord, Option<u32>)],
    record: &TokenRecord,
) -> Option<&'a (TokenRecord, Option<u32>)> {
    let at = before.binary_search_by_key(&place(record), |(record, _)| place(record));
    at.ok().map(|at| &before[at])
}

/// The identity of a token for a consumer, within an epoch.
fn place(record: &TokenRecord) -> (i32, i32, [u16; 3], [u8; 2]) {
    let TokenRecord { x, y, sx, sy, size, extra_width, extra_height, .. } = *record;
    (x, y, [sx, sy, size], [extra_width, extra_height])
}
