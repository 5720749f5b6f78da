// The picture rebuilt from the tokens. Only tokens sent with a frame are drawn; the others are on the canvas already.

const STRIP_COLUMNS = 32;

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

  constructor(canvas) {
    this.#canvas = canvas;
    this.#context = canvas.getContext('2d', { alpha: false });
  }

  paint(frame) {
    const scale = LONGEST_SIDE < Math.max(frame.width, frame.height) ? 0.5 : 1;
    this.#fit(Math.ceil(frame.width * scale), Math.ceil(frame.height * scale), frame.epoch);
    if (frame.sentCount === 0) {
      return;
    }
    this.#fillStrip(frame);
    const cell = frame.patchSide + 2;
    const context = this.#context;
    for (let index = 0; index < frame.count; index += 1) {
      if (!frame.isSent(index)) {
        continue;
      }
      const at = frame.texelsAt[index];
      const [columns, rows] = [frame.columns[index], frame.rows[index]];
      const texel = 2 ** frame.level[index] * scale;
      context.drawImage(
        this.#strip,
        (at % STRIP_COLUMNS) * cell + 1, Math.floor(at / STRIP_COLUMNS) * cell + 1, columns, rows,
        frame.x[index] * texel, frame.y[index] * texel, columns * texel, rows * texel,
      );
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
   * Converts planes of R, G and B to pixels. The outermost texels of each token are repeated around it, because
   * browsers smooth with neighbouring pixels.
   */
  #fillStrip(frame) {
    const side = frame.patchSide;
    const cell = side + 2;
    const rows = Math.ceil(frame.sentCount / STRIP_COLUMNS);
    const width = STRIP_COLUMNS * cell;
    this.#reserve(width, rows * cell);
    const pixels = this.#image.data;
    const texels = frame.texels;
    const area = side * side;
    for (let token = 0; token < frame.sentCount; token += 1) {
      const left = (token % STRIP_COLUMNS) * cell;
      const top = Math.floor(token / STRIP_COLUMNS) * cell;
      for (let row = 0; row < cell; row += 1) {
        const start = token * 3 * area + inside(row - 1, side) * side;
        let to = 4 * ((top + row) * width + left);
        for (let column = 0; column < cell; column += 1, to += 4) {
          const from = start + inside(column - 1, side);
          pixels[to] = texels[from];
          pixels[to + 1] = texels[from + area];
          pixels[to + 2] = texels[from + 2 * area];
        }
      }
    }
    this.#stripContext.putImageData(this.#image, 0, 0, 0, 0, width, rows * cell);
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

/** The nearest index in a row of `side` texels. */
function inside(at, side) {
  return Math.min(Math.max(at, 0), side - 1);
}
