//! Token records of a slot: places and versions.

use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::plan::Token;
use foveate_core::geometry::region::PixelBox;

use super::abi::TokenRecord;

impl TokenRecord {
    /// The record of `token` over a source of `extent`.
    #[expect(clippy::cast_possible_truncation, reason = "P is at most 1024")]
    pub fn new(
        token: Token,
        extent: Extent,
        patch_side: u32,
        changed_frame: u64,
        relevance: f32,
    ) -> Self {
        let PixelBox { x0, y0, x1, y1 } = token.pixel_box(extent, patch_side);
        let columns = token.columns(extent, patch_side).real();
        let rows = token.rows(extent, patch_side).real();
        let Token { x, y, sx, sy, extra_width, extra_height, group, fovea } = token;
        Self {
            changed_frame,
            x0,
            y0,
            x1,
            y1,
            x,
            y,
            sx,
            sy,
            size: patch_side as u16,
            group,
            first_column: columns.start as u16,
            columns: columns.len() as u16,
            first_row: rows.start as u16,
            rows: rows.len() as u16,
            fovea,
            extra_width,
            extra_height,
            relevance,
        }
    }

    /// Whether each field has a value that a token over a source of `extent` may have. Of other records, which a broken writer may
    /// publish, nothing is drawn; check those that size memory or index it.
    pub fn is_within_limits(&self, extent: Extent, patch_side: u32) -> bool {
        let Self { x0, y0, x1, y1, size, .. } = *self;
        let are_texels = |first: u16, count: u16| u32::from(first) + u32::from(count) <= patch_side;
        u32::from(size) == patch_side
            && self.token().is_within_limits(patch_side)
            && are_texels(self.first_column, self.columns)
            && are_texels(self.first_row, self.rows)
            && x0 <= x1
            && x1 <= extent.width
            && y0 <= y1
            && y1 <= extent.height
    }

    /// The source pixels that the token covers.
    pub fn pixel_box(&self) -> PixelBox {
        PixelBox { x0: self.x0, y0: self.y0, x1: self.x1, y1: self.y1 }
    }

    /// The token.
    pub fn token(&self) -> Token {
        let Self { x, y, sx, sy, extra_width, extra_height, group, fovea, .. } = *self;
        Token { x, y, sx, sy, extra_width, extra_height, group, fovea }
    }
}
