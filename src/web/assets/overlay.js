// The overlay of the picture: boxes, changes, relevance, masks, gaze, drawings. In screen pixels, so that lines stay thin.

import { stepName } from './words.js';

/** The colour of a token's box by its rank, as in `foveate snap`: warm where the resolution is high. */
const COLORS = ['#ff5252', '#ffab40', '#ffee58', '#66d978', '#40c4ff', '#646eff', '#ba68c8'];

/** Ranks of a legend: far more than levels, rings or windows. */
const RANKS = 16;

/** What the groups of a layout are; those of other layouts are steps. */
const GROUP_NAMES = { rings: 'Ring ', windows: 'Window ', inset: 'Block ' };

/** Frames in which a change fades. */
const FADE_FRAMES = 15;

/** Distance of the lines that a mask is hatched with, in pixels of the page. */
const HATCH = 12;

/** Relevance is between 1 / 16 and 16. */
const RELEVANCE_OCTAVES = 4;

export function rankColor(rank) {
  return COLORS[Math.min(rank, COLORS.length - 1)];
}

export function rankName(rank, layout, frame) {
  if (layout === 'inset' && rank === frame.greatestGroup) {
    return 'Base:';
  }
  if (GROUP_NAMES[layout] !== undefined) {
    return `${GROUP_NAMES[layout]}${rank}:`;
  }
  // The one step of a uniform grid may lie between two levels.
  return stepName(layout === 'uniform' && 0 < frame.count ? frame.tokenWidth(0) / frame.patchSide : 2 ** rank);
}

/**
 * The place of a token in the legend: its group; of `directional`, whose groups are half levels, the level; of `inset`, whose group 0
 * is the base, that of the block, and the base after them.
 */
export function rankOf(frame, index, layout) {
  let group = frame.group[index];
  if (layout === 'directional') {
    group >>= 1;
  } else if (layout === 'inset') {
    group = group === 0 ? frame.greatestGroup : group - 1;
  }
  return Math.min(group, RANKS - 1);
}

/** Draws over one picture. */
export class Overlay {
  #canvas;
  #context;
  #box = [0, 0, 0, 0];

  constructor(canvas) {
    this.#canvas = canvas;
    this.#context = canvas.getContext('2d');
  }

  /** Sizes the canvas in screen pixels. */
  resize(width, height) {
    const ratio = devicePixelRatio;
    const [columns, rows] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (this.#canvas.width !== columns || this.#canvas.height !== rows) {
      this.#canvas.width = columns;
      this.#canvas.height = rows;
    }
  }

  /**
   * Draws the layers in `shows`. `gaze` is what to draw of it, if anything: `path`, the fixations so far, the newest last, and
   * `targets`, the requested points. `masks` are those of the stream: what is black there was never seen. `marks` are drawings of the
   * page: polygons, in shares of the sides.
   */
  draw(frame, layout, shows, gaze, masks = [], marks = []) {
    const context = this.#context;
    context.clearRect(0, 0, this.#canvas.width, this.#canvas.height);
    if (frame.count === 0) {
      return;
    }
    const scale = this.#canvas.width / frame.width;
    if (0 < frame.cells.length) {
      this.#drawChannel(frame, scale);
    }
    if (shows.relevance) {
      this.#drawRelevance(frame, scale);
    }
    if (shows.changes) {
      this.#drawChanges(frame, scale);
    }
    if (shows.boxes) {
      this.#drawBoxes(frame, layout, scale);
    }
    for (const mask of masks) {
      this.#drawMask(mask);
    }
    if (shows.gaze && gaze !== null) {
      this.#drawGaze(frame.fixations, gaze, scale);
    }
    for (const mark of marks) {
      this.#drawMark(mark);
    }
  }

  /** A polygon or the beginning of one, with its corners, if it `hasHandles`. */
  #drawMark({ points, isClosed, hasHandles }) {
    const context = this.#context;
    const { width, height } = this.#canvas;
    const unit = devicePixelRatio;
    context.beginPath();
    for (const [x, y] of points) {
      context.lineTo(x * width, y * height);
    }
    if (isClosed) {
      context.closePath();
    }
    this.#strokeTwice(2 * unit);
    for (const [x, y] of hasHandles ? points : []) {
      this.#ring(x * width, y * height, 4 * unit, 2 * unit);
    }
  }

  /** Hatched, with its outline. */
  #drawMask({ points }) {
    const context = this.#context;
    const { width, height } = this.#canvas;
    const unit = devicePixelRatio;
    const outline = new Path2D();
    for (const [x, y] of points) {
      outline.lineTo(x * width, y * height);
    }
    outline.closePath();
    const lines = new Path2D();
    for (let start = -height; start < width; start += HATCH * unit) {
      lines.moveTo(start, height);
      lines.lineTo(start + height, 0);
    }
    context.save();
    context.strokeStyle = '#9aa7b4';
    context.lineWidth = unit;
    context.clip(outline);
    context.globalAlpha = 0.55;
    context.stroke(lines);
    context.restore();
    context.strokeStyle = '#9aa7b4';
    context.lineWidth = Math.max(1, Math.round(unit));
    context.stroke(outline);
  }

  #drawBoxes(frame, layout, scale) {
    const context = this.#context;
    context.lineWidth = Math.max(1, Math.round(devicePixelRatio));
    const ranks = Uint16Array.from({ length: frame.count }, (_, index) => rankOf(frame, index, layout));
    for (const rank of [...new Set(ranks)].sort((a, b) => b - a)) {
      context.beginPath();
      for (let index = 0; index < frame.count; index += 1) {
        const [left, top, right, bottom] = frame.box(index, this.#box);
        if (ranks[index] === rank && left < right && top < bottom) {
          context.rect(left * scale + 0.5, top * scale + 0.5, (right - left) * scale - 1, (bottom - top) * scale - 1);
        }
      }
      context.strokeStyle = rankColor(rank);
      context.globalAlpha = rank === 0 ? 0.95 : 0.75;
      context.stroke();
    }
    context.globalAlpha = 1;
  }

  /** From black at the least value that the channel may have, through red and yellow, to white, as in `foveate snap`. */
  #drawChannel(frame, scale) {
    const context = this.#context;
    context.globalAlpha = 0.7;
    const edge = (cell) => Math.round(cell * frame.cellSide * scale);
    for (let index = 0; index < frame.cells.length; index += 1) {
      const heat = (3 * frame.cells[index]) / 255;
      const [red, green, blue] = [0, 1, 2].map((start) => Math.round(255 * Math.min(Math.max(heat - start, 0), 1)));
      const [column, row] = [index % frame.cellColumns, Math.floor(index / frame.cellColumns)];
      context.fillStyle = `rgb(${red} ${green} ${blue})`;
      // Whole pixels, so that neighbours neither overlap nor leave gaps.
      context.fillRect(edge(column), edge(row), edge(column + 1) - edge(column), edge(row + 1) - edge(row));
    }
    context.globalAlpha = 1;
  }

  #drawChanges(frame, scale) {
    const context = this.#context;
    context.fillStyle = '#7df5dc';
    for (let index = 0; index < frame.count; index += 1) {
      const fresh = 1 - frame.unchanged[index] / FADE_FRAMES;
      if (0 < fresh) {
        context.globalAlpha = 0.4 * fresh * fresh;
        this.#fillBox(frame, index, scale);
      }
    }
    context.globalAlpha = 1;
  }

  /** Warm where relevance raises the weight, cool where it lowers it, and nothing at weight 1. */
  #drawRelevance(frame, scale) {
    const context = this.#context;
    for (let index = 0; index < frame.count; index += 1) {
      const octaves = Math.log2(Math.max(frame.relevance[index], 2 ** -RELEVANCE_OCTAVES));
      const heat = Math.min(1, Math.abs(octaves) / RELEVANCE_OCTAVES);
      context.fillStyle = 0 < octaves ? `hsl(${Math.round(48 - 40 * heat)} 100% 55%)` : 'hsl(225 90% 45%)';
      context.globalAlpha = 0.65 * Math.sqrt(heat);
      this.#fillBox(frame, index, scale);
    }
    context.globalAlpha = 1;
  }

  #fillBox(frame, index, scale) {
    const [left, top, right, bottom] = frame.box(index, this.#box);
    // Whole pixels, so that neighbours neither overlap nor leave gaps.
    const [x0, y0, x1, y1] = [left, top, right, bottom].map((side) => Math.round(side * scale));
    this.#context.fillRect(x0, y0, x1 - x0, y1 - y0);
  }

  /** The way that the gaze took, and a cross at each fixation; a ring around the most important one. */
  #drawGaze(fixations, { path, targets }, scale) {
    const unit = devicePixelRatio;
    const context = this.#context;
    context.lineCap = 'round';
    for (let index = 1; index < path.length; index += 1) {
      context.globalAlpha = 0.15 + 0.6 * (index / path.length);
      this.#line(path[index - 1], path[index], scale, unit);
    }
    for (let index = 0; index + 1 < path.length; index += 1) {
      context.globalAlpha = 0.3 + 0.6 * (index / path.length);
      this.#ring(path[index].x * scale, path[index].y * scale, 3 * unit, 1.5 * unit);
    }
    context.globalAlpha = 1;
    for (const [index, { x, y }] of fixations.entries()) {
      this.#cross(x * scale, y * scale, (index === 0 ? 6 : 9) * unit, 2 * unit);
      if (index === 0) {
        this.#ring(x * scale, y * scale, 13 * unit, 2 * unit);
      }
    }
    context.setLineDash([4 * unit, 4 * unit]);
    for (const { x, y } of targets) {
      this.#ring(x * scale, y * scale, 20 * unit, 1.5 * unit);
    }
    context.setLineDash([]);
  }

  /** White with a dark rim, to be visible on any background. */
  #ring(x, y, radius, width) {
    const context = this.#context;
    context.beginPath();
    context.arc(x, y, radius, 0, 2 * Math.PI);
    this.#strokeTwice(width);
  }

  #cross(x, y, arm, width) {
    const context = this.#context;
    context.beginPath();
    context.moveTo(x - arm, y);
    context.lineTo(x + arm, y);
    context.moveTo(x, y - arm);
    context.lineTo(x, y + arm);
    this.#strokeTwice(width);
  }

  #line(from, to, scale, unit) {
    const context = this.#context;
    context.beginPath();
    context.moveTo(from.x * scale, from.y * scale);
    context.lineTo(to.x * scale, to.y * scale);
    this.#strokeTwice(1.5 * unit);
  }

  #strokeTwice(width) {
    const context = this.#context;
    context.strokeStyle = 'rgb(0 0 0 / 55%)';
    context.lineWidth = width + 2 * devicePixelRatio;
    context.stroke();
    context.strokeStyle = '#fff';
    context.lineWidth = width;
    context.stroke();
  }
}
