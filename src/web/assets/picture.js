// The picture rebuilt from the tokens. Only tokens sent with a frame are drawn; the others are on the canvas already. Of a view with
// memory = "canvas" it keeps the finest texels so far of each place: see docs/reference/canvas.md.

import { TILE_SIDE } from './wire.js';

/** The strip is at most so many pixels wide, or one token: browsers limit the sides of a canvas. */
const STRIP_WIDTH = 2048;
const STRIP_COLUMNS_MOST = 32;

/** Pictures with a longer side than this are drawn at half size, which no screen exceeds. */
const LONGEST_SIDE = 2560;

/** Draws frames on a canvas. */
export class Picture {
  #canvas;
  #context;
  /** The tokens of one frame side by side, each with its own texels. */
  #strip = document.createElement('canvas');
  #stripContext = this.#strip.getContext('2d');
  #image = null;
  #epoch = -1n;
  #places = new Places();

  constructor(canvas) {
    this.#canvas = canvas;
    this.#context = canvas.getContext('2d', { alpha: false });
  }

  paint(frame) {
    const scale = LONGEST_SIDE < Math.max(frame.width, frame.height) ? 0.5 : 1;
    this.#fit(Math.ceil(frame.width * scale), Math.ceil(frame.height * scale), frame.epoch);
    if (frame.isOfCanvas) {
      this.#places.follow(frame);
    }
    if (frame.sentCount === 0) {
      return;
    }
    const context = this.#context;
    if (frame.isOfCanvas ? frame.isWhole : frame.sentCount === frame.count) {
      // Nothing is shown where no token lies.
      context.fillRect(0, 0, this.#canvas.width, this.#canvas.height);
    }
    const cell = frame.patchSide + 2;
    const perRow = Math.min(Math.max(Math.floor(STRIP_WIDTH / cell), 1), STRIP_COLUMNS_MOST);
    this.#fillStrip(frame, cell, perRow);
    for (const index of frame.coarseToFine()) {
      const [columns, rows] = [frame.columns[index], frame.rows[index]];
      if (!frame.isSent(index) || columns === 0 || rows === 0) {
        continue;
      }
      const drawn = frame.isOfCanvas ? this.#places.draw(frame, index) : null;
      if (drawn?.length === 0) {
        continue;
      }
      const at = frame.texelsAt[index];
      const [column, row] = [frame.firstColumn[index], frame.firstRow[index]];
      const [width, height] = [frame.tokenWidth(index), frame.tokenHeight(index)].map((side) => side / frame.patchSide);
      const [left, top] = [frame.x[index] + column * width, frame.y[index] + row * height];
      // Whole pixels, so that neighbours neither overlap nor leave gaps.
      const [x0, y0, x1, y1] = [left, top, left + columns * width, top + rows * height].map((edge) => Math.round(edge * scale));
      context.save();
      if (drawn !== null) {
        context.beginPath();
        drawn.forEach((edges) => {
          const [left, top, right, bottom] = edges.map((edge) => Math.round(edge * scale));
          context.rect(left, top, right - left, bottom - top);
        });
        context.clip();
      }
      context.drawImage(
        this.#strip,
        (at % perRow) * cell + 1 + column, Math.floor(at / perRow) * cell + 1 + row, columns, rows,
        x0, y0, x1 - x0, y1 - y0,
      );
      context.restore();
    }
  }

  #fit(width, height, epoch) {
    if (this.#canvas.width !== width || this.#canvas.height !== height || this.#epoch !== epoch) {
      this.#canvas.width = width;
      this.#canvas.height = height;
      this.#context.imageSmoothingEnabled = true;
      this.#context.imageSmoothingQuality = 'medium';
      this.#epoch = epoch;
    }
  }

  /**
   * Converts planes of R, G and B to pixels. The outermost real texels of each token are repeated around them, because
   * browsers smooth with neighbouring pixels.
   */
  #fillStrip(frame, cell, perRow) {
    const width = perRow * cell;
    const height = Math.ceil(frame.sentCount / perRow) * cell;
    this.#reserve(width, height);
    for (let index = 0; index < frame.count; index += 1) {
      if (frame.isSent(index)) {
        this.#fillCell(frame, index, cell, perRow);
      }
    }
    this.#stripContext.putImageData(this.#image, 0, 0, 0, 0, width, height);
  }

  #fillCell(frame, index, cell, perRow) {
    const { patchSide: side, texels } = frame;
    const at = frame.texelsAt[index];
    const area = side * side;
    const pixels = this.#image.data;
    const [width, left, top] = [perRow * cell, (at % perRow) * cell, Math.floor(at / perRow) * cell];
    const [column, columns] = [frame.firstColumn[index], frame.columns[index]];
    for (let row = 0; row < cell; row += 1) {
      const start = at * 3 * area + inside(row - 1, frame.firstRow[index], frame.rows[index], side) * side;
      let to = 4 * ((top + row) * width + left);
      for (let across = 0; across < cell; across += 1, to += 4) {
        const from = start + inside(across - 1, column, columns, side);
        pixels[to] = texels[from];
        pixels[to + 1] = texels[from + area];
        pixels[to + 2] = texels[from + 2 * area];
      }
    }
  }

  /** Grows the strip to the largest frame so far. */
  #reserve(width, height) {
    if (this.#image !== null && this.#image.width === width && height <= this.#image.height) {
      return;
    }
    this.#strip.width = width;
    this.#strip.height = height;
    this.#image = this.#stripContext.createImageData(width, height);
    new Uint32Array(this.#image.data.buffer).fill(0xff000000);
  }
}

/** The steps at which a picture shows its places: the greatest squares that lie in one token and in one tile. */
class Places {
  /** In pixels. */
  #side = 0;
  #columns = 0;
  #rows = 0;
  /** Row by row; 0 where nothing is shown. */
  #steps = new Uint16Array(0);

  /** Forgets the places under texels that have changed with a frame; all of them if it depends on no earlier one. */
  follow(frame) {
    if (frame.isWhole) {
      this.#side = Math.min(TILE_SIDE, frame.patchSide & -frame.patchSide);
      [this.#columns, this.#rows] = [frame.width, frame.height].map((length) => Math.ceil(length / this.#side));
      this.#steps = new Uint16Array(this.#columns * this.#rows);
      return;
    }
    if (frame.tiles.every((bits) => bits === 0)) {
      return;
    }
    const tileColumns = Math.ceil(frame.width / TILE_SIDE);
    const tileRows = Math.ceil(frame.height / TILE_SIDE);
    const hasChanged = (column, row) => {
      const tile = row * tileColumns + column;
      return ((frame.tiles[tile >> 3] >> (tile & 7)) & 1) !== 0;
    };
    for (let row = 0, place = 0; row < this.#rows; row += 1) {
      for (let column = 0; column < this.#columns; column += 1, place += 1) {
        const step = this.#steps[place];
        // The texel that is shown, which may cover several tiles.
        const tiles = Math.max(step / TILE_SIDE, 1);
        const left = Math.floor((column * this.#side) / TILE_SIDE / tiles) * tiles;
        const top = Math.floor((row * this.#side) / TILE_SIDE / tiles) * tiles;
        for (let at = 0; step !== 0 && at < tiles * tiles; at += 1) {
          const across = left + (at % tiles);
          const down = top + Math.floor(at / tiles);
          if (across < tileColumns && down < tileRows && hasChanged(across, down)) {
            this.#steps[place] = 0;
            break;
          }
        }
      }
    }
  }

  /** Takes what a token draws: the boxes of its places that are not shown more finely, [left, top, right, bottom] in pixels. */
  draw(frame, index) {
    const [step, side] = [frame.sx[index], this.#side];
    const count = Math.round((frame.patchSide * step) / side);
    const [left, top] = [frame.x[index], frame.y[index]].map((edge) => Math.floor(edge / side));
    const boxes = [];
    for (let row = Math.max(0, top); row < Math.min(this.#rows, top + count); row += 1) {
      let start = null;
      for (let column = Math.max(0, left); column <= Math.min(this.#columns, left + count); column += 1) {
        const at = row * this.#columns + column;
        const isInside = column < Math.min(this.#columns, left + count);
        const isDrawn = isInside && (this.#steps[at] === 0 || step <= this.#steps[at]);
        if (isDrawn) {
          this.#steps[at] = step;
          start ??= column;
        } else if (start !== null) {
          boxes.push([start, row, column, row + 1].map((place) => place * side));
          start = null;
        }
      }
    }
    return boxes;
  }
}

/** The nearest of `count` indices from `first` in a row of `side` texels. */
function inside(at, first, count, side) {
  return Math.min(Math.max(at, first), first + count - 1, side - 1);
}
