// Drawing on the picture: the corners of a privacy mask, as text to paste, and set live where the page may.

import { say } from './words.js';

/** As the daemon has it: see src/core/mask.rs. */
const CORNERS_LEAST = 3;
const CORNERS_MOST = 64;

const NAME = /^[a-z0-9_-]{1,63}$/;

/** A corner is taken hold of within so many pixels of the screen. */
const REACH = 12;

/** Arrow keys move the cursor by this share of the picture, with Shift by more. */
const STEP = 0.01;
const STEP_WITH_SHIFT = 0.05;

/** A share of a side as the configuration has it. */
function share(value) {
  const text = value.toFixed(4).replace(/0+$/, '');
  return text.endsWith('.') ? `${text}0` : text;
}

/** The table of a mask in the configuration. */
export function maskTable(name, points) {
  const corners = points.map(([x, y]) => `[${share(x)}, ${share(y)}]`);
  return `[[stream.mask]]\nname = "${name}"\npoints = [${corners.join(', ')}]\n`;
}

/** The editor of one mask. */
export class MaskEditor {
  /** Corners, as shares of the sides. */
  points = [];
  /** Where the keys put the next corner; null until one is pressed. */
  #cursor = null;
  #held = -1;
  #panel;
  #name;
  #text;
  #hint;
  #set;
  #clear;
  #copy;
  #ask;
  #draw;

  /**
   * `ask` is called with a message for the server, and `draw` when the drawing has changed.
   */
  constructor(panel, ask, draw) {
    this.#panel = panel;
    this.#ask = ask;
    this.#draw = draw;
    const find = (name) => panel.querySelector(`[data-mask=${name}]`);
    [this.#name, this.#text, this.#hint] = ['name', 'text', 'hint'].map(find);
    [this.#set, this.#clear, this.#copy] = ['set', 'clear', 'copy'].map(find);
    this.#name.addEventListener('input', () => this.#changed());
    this.#copy.addEventListener('click', () => this.copy());
    this.#set.addEventListener('click', () => {
      this.#hintAt('Setting the mask.');
      this.#ask({ op: 'mask', name: this.#name.value, points: this.points });
    });
    this.#clear.addEventListener('click', () => {
      this.#hintAt('Clearing the mask.');
      this.#ask({ op: 'clear_mask', name: this.#name.value });
    });
    find('undo').addEventListener('click', () => this.undo());
  }

  get isOpen() {
    return !this.#panel.hidden;
  }

  /** Shows it, empty, with a name that none of `masks` has; `mayAsk` if the page may set masks. */
  open(masks, mayAsk) {
    this.points = [];
    this.#cursor = null;
    this.#panel.hidden = false;
    this.#set.hidden = !mayAsk;
    this.#clear.hidden = !mayAsk;
    let number = 1;
    while (masks.some(({ name }) => name === `mask-${number}`)) {
      number += 1;
    }
    this.#name.value = `mask-${number}`;
    this.#changed();
  }

  close() {
    this.#panel.hidden = true;
    this.points = [];
    this.#cursor = null;
    this.#draw();
  }

  /** What to draw over the picture: shares of its sides. */
  get marks() {
    const marks = [{ points: this.points, isClosed: 2 < this.points.length, hasHandles: true }];
    if (this.#cursor !== null) {
      marks.push({ points: [this.#cursor], isClosed: false, hasHandles: true });
    }
    return this.isOpen ? marks : [];
  }

  /** Takes hold of the corner at a point, or makes one; `unit` is how much of each side a pixel of the screen is. */
  press(point, unit) {
    this.#cursor = null;
    this.#held = this.points.findIndex(([x, y]) => Math.hypot((x - point[0]) / unit[0], (y - point[1]) / unit[1]) < REACH);
    if (this.#held < 0) {
      this.#add(point);
      this.#held = this.points.length - 1;
    }
  }

  move(point) {
    if (0 <= this.#held && this.#held < this.points.length) {
      this.points[this.#held] = point;
      this.#changed();
    }
  }

  lift() {
    this.#held = -1;
  }

  undo() {
    this.points.pop();
    this.#changed();
  }

  /** Moves the cursor of the keys. */
  step([dx, dy], isFar) {
    const by = isFar ? STEP_WITH_SHIFT : STEP;
    const [x, y] = this.#cursor ?? this.points.at(-1) ?? [0.5, 0.5];
    const inside = (at) => Math.min(Math.max(at, 0), 1);
    this.#cursor = [inside(x + dx * by), inside(y + dy * by)];
    this.#draw();
  }

  /** Makes a corner at the cursor of the keys. */
  enter() {
    this.#add(this.#cursor ?? [0.5, 0.5]);
    this.#cursor ??= [0.5, 0.5];
    this.#draw();
  }

  /** What the server said of a mask that was set or cleared. */
  tell(words) {
    this.#hintAt(words);
  }

  async copy() {
    try {
      await navigator.clipboard.writeText(this.#text.value);
      this.#hintAt('Copied.');
    } catch {
      this.#text.select();
      this.#hintAt('The browser does not let the page copy: the text is selected, press Ctrl-C.');
    }
  }

  #add(point) {
    if (this.points.length < CORNERS_MOST) {
      this.points.push(point);
      this.#changed();
    }
  }

  #changed() {
    const isNamed = NAME.test(this.#name.value);
    const isComplete = CORNERS_LEAST <= this.points.length && isNamed;
    this.#text.value = isComplete ? maskTable(this.#name.value, this.points) : '';
    this.#set.disabled = !isComplete;
    this.#copy.disabled = !isComplete;
    this.#clear.disabled = !isNamed;
    this.#name.setAttribute('aria-invalid', String(!isNamed));
    this.#hintAt(this.#advice(isNamed));
    this.#draw();
  }

  #advice(isNamed) {
    if (!isNamed) {
      return 'A name has 1 to 63 of a-z, 0-9, _ and -.';
    }
    if (this.points.length < CORNERS_LEAST) {
      return 'Click the corners in the picture, or move with the arrow keys and press Enter.';
    }
    return 'Drag corners to move them. Backspace takes the last one back.';
  }

  #hintAt(words) {
    say(this.#hint, words);
  }
}
