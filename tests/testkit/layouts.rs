//! A frame of each layout, published by hand, and what a picture of it shows, by definition.

use foveate_config::ViewConfig;
use foveate_core::frame::{FrameStamp, PictureMotion};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::{Fixation, FixationReason, Focus};
use foveate_core::geometry::plan::Token;
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_gaze::layout::PlanRequest;
use foveate_gaze::view::ViewSpec;
use foveate_ring::{FrameHead, SegmentSpec, TokenFrame, TokenRecord, Writer, plane_list};
use foveate_server::directory::StreamPort;

use crate::control::{Stage, segment_spec, start};

/// The picture that the tokens lie in: no layout's patches fill it evenly.
pub const PICTURE: Extent = Extent::new(315, 235);

/// Motion of the picture in every frame.
const MOTION: PictureMotion =
    PictureMotion { frame_seq: 7, now_from_before: [1.0, 0.5, -3.25, -0.5, 1.0, 40.0] };

/// Keys of a view, and where it looks.
const LAYOUTS: [(&str, &[(f64, f64)]); 11] = [
    ("layout = 'foveal'\nbudget = 80", &[(40.0, 200.0)]),
    ("layout = 'foveal'\nbudget = 80\nfoveae = 3", &[(280.0, 30.0), (20.0, 20.0), (150.5, 200.0)]),
    ("layout = 'uniform'\nbudget = 100\npatch = 10", &[(0.0, 0.0)]),
    ("layout = 'inset'\nbudget = 90\nblocks = 2\nmin_step = 1.3", &[(70.0, 160.0), (300.0, 60.0)]),
    ("layout = 'inset'\nbudget = 60\nshare = 0.3\npatch = 8", &[(150.0, 90.0)]),
    ("layout = 'directional'\nbudget = 60", &[(200.0, 100.0)]),
    ("layout = 'rings'\npreset = 'stt172'", &[(10.0, 230.0)]),
    ("layout = 'rings'\npreset = 'giava20'", &[(280.0, 40.5)]),
    ("layout = 'rings'\nstrides = [1, 3]\ngrids = [3, 3]\npatch = 8", &[(90.0, 90.0)]),
    ("layout = 'samples'\ntable = 'tests/data/table.npy'\npatch = 8", &[(60.0, 100.0)]),
    ("layout = 'windows'\npatch = 224", &[(150.0, 20.0)]),
];

/// A frame of a view.
pub struct LayoutFrame {
    pub view: ViewConfig,
    pub fixations: Vec<Fixation>,
    pub records: Vec<TokenRecord>,
    /// `[records.len(), 3, P, P]`, 0..=255.
    pub pixels: Vec<u8>,
}

/// One frame of each layout.
pub fn each() -> Vec<LayoutFrame> {
    let view = |keys| ViewConfig::parse(&format!("name = 'main'\ndtype = 'u8'\n{keys}")).unwrap();
    LAYOUTS.iter().map(|(keys, points)| LayoutFrame::new(view(keys), points)).collect()
}

/// The pixels of the picture, row by row.
pub fn pixels() -> impl Iterator<Item = (u32, u32)> {
    (0..PICTURE.height).flat_map(|y| (0..PICTURE.width).map(move |x| (x, y)))
}

impl LayoutFrame {
    fn new(view: ViewConfig, points: &[(f64, f64)]) -> Self {
        let patch_side = view.format.patch_side;
        let foci: Vec<_> = points.iter().map(|&(x, y)| Focus::at(x, y)).collect();
        let request = PlanRequest {
            shape: PyramidShape::new(PICTURE),
            patch_side,
            budget: view.budget as usize,
            fixations: &foci,
            relevance: None,
            before: None,
            demand: None,
        };
        let tokens = view.layout.plan(&request).tokens;
        let record = |token| TokenRecord::new(token, PICTURE, patch_side, 1, 1.0);
        let fixation = |(id, &(x, y)): (u64, &(f64, f64))| Fixation {
            id,
            ..Fixation::at((x, y), FixationReason::Look)
        };
        Self {
            pixels: tokens.iter().flat_map(|token| texels(*token, patch_side as usize)).collect(),
            records: tokens.into_iter().map(record).collect(),
            fixations: (1..).zip(points).map(fixation).collect(),
            view,
        }
    }

    /// The same scene a patch further to the right, so that some tokens lie where others were.
    pub fn moved(&self) -> Self {
        let further = f64::from(self.view.format.patch_side.min(16));
        let points = self.fixations.iter().map(|fixation| (fixation.x + further, fixation.y));
        Self::new(self.view.clone(), &points.collect::<Vec<_>>())
    }

    /// Adds a stream `camera` whose view `main` shows this.
    pub fn serve(&self, stage: &Stage) -> (StreamPort, Writer) {
        let port = stage.stream_of("camera", vec![self.view.clone()]);
        start(&port);
        let spec = ViewSpec::try_from(&self.view).unwrap();
        let mut writer = Writer::create(&SegmentSpec {
            layout: spec.layout.name().to_owned(),
            capacity: spec.layout.capacity(spec.format.patch_side, spec.budget),
            foveae: self.fixations.len(),
            extent: PICTURE,
            slot_count: 4,
            ..segment_spec(spec.format)
        })
        .unwrap();
        port.views[0].set_segment(writer.reader_fd().unwrap(), writer.epoch());
        self.publish(&mut writer, 1);
        (port, writer)
    }

    pub fn publish(&self, writer: &mut Writer, frame_seq: u64) {
        let now_ns = foveate_core::clock::monotonic_ns();
        writer.publish(&TokenFrame {
            head: FrameHead {
                stamp: FrameStamp {
                    capture_ns: now_ns,
                    arrival_ns: now_ns,
                    ..FrameStamp::numbered(frame_seq)
                },
                fixations: self.fixations.iter().copied().collect(),
                dirty_tiles: 1,
                tile_count: 80,
                motion: Some(MOTION),
                ..FrameHead::default()
            },
            records: &self.records,
            planes: plane_list([&self.pixels]),
            versions: &vec![0; self.records.len()],
            whole_version: 0,
        });
    }

    /// The token that a picture shows at a pixel, the smallest one, and the column and row of its texel under the pixel's centre; `None`
    /// where no token lies.
    pub fn at(&self, x: u32, y: u32) -> Option<(usize, u32, u32)> {
        let is_over = |record: &TokenRecord| {
            (record.x0..record.x1).contains(&x) && (record.y0..record.y1).contains(&y)
        };
        // Of tokens of one size the last is on top.
        let tokens = self.records.iter().enumerate().rev().filter(|(_, record)| is_over(record));
        let side = self.view.format.patch_side;
        let size = |record: &TokenRecord| {
            let token = record.token();
            (token.width(side), token.height(side))
        };
        let (index, record) = tokens.min_by_key(|(_, record)| size(record).0 * size(record).1)?;
        let texel = |at: u32, origin: i32, length: u32| {
            let centre = 2 * (i64::from(at) - i64::from(origin)) + 1;
            u32::try_from(centre * i64::from(side) / (2 * i64::from(length))).unwrap()
        };
        let (width, height) = size(record);
        Some((index, texel(x, record.x, width), texel(y, record.y, height)))
    }

    /// R, G and B of a texel of a token.
    pub fn texel(&self, token: usize, column: u32, row: u32) -> [u8; 3] {
        let side = self.view.format.patch_side;
        [0, 1, 2].map(|channel| {
            let texel = (channel * side + row) * side + column;
            self.pixels[token * (3 * side * side) as usize + texel as usize]
        })
    }
}

/// Texels that differ from place to place, and a little from one to the next.
fn texels(token: Token, side: usize) -> impl Iterator<Item = u8> {
    let Token { x, y, sx, sy, .. } = token;
    let place = 7 * x + 11 * y + 37 * i32::from(sx) + 59 * i32::from(sy);
    let base = usize::try_from(place.rem_euclid(200)).unwrap();
    (0..3 * side * side).map(move |at| {
        let (channel, row, column) = (at / (side * side), at / side % side, at % side);
        u8::try_from(base + (3 * column + 5 * row + 17 * channel) % 48).unwrap()
    })
}
