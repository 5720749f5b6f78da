// The inspector: what is known of the token under the pointer, or where a tap or the arrow keys have chosen one.

import { frameCount, say, short, stepName } from './words.js';

/** Least interval between two questions while the pointer moves. */
const ASK_INTERVAL_MS = 60;

const FACTS = [
  ['place', 'Place', 'Corner of the token in source pixels, from the top left of the picture'],
  ['step', 'Step', 'Source pixels under a texel: 1:1 is full resolution'],
  ['covers', 'Covers', 'Source pixels under the token, inside the picture'],
  ['changed', 'Changed', 'Frames since its bytes changed: what was computed from it then still holds'],
  ['relevance', 'Relevance', 'Weight that the layout used for it: 1 where all parts of the picture matter equally'],
  ['depth', 'Depth', 'Nearest and mean depth under it'],
];

/** The panel of the inspector. */
export class Inspector {
  /** The point that is inspected, in source pixels; null without one. */
  point = null;
  /** Whether the point stays where it is while the pointer moves. */
  isPinned = false;
  /** What the server said last. */
  #token = null;
  #panel;
  #canvas;
  #values = {};
  #hint;
  #copy;
  #ask;
  #mark;
  #askedMs = 0;

  /** `ask` is called with a point to ask the server about, and `mark` with the box of the token, or null. */
  constructor(panel, ask, mark) {
    this.#panel = panel;
    this.#ask = ask;
    this.#mark = mark;
    this.#canvas = panel.querySelector('canvas');
    this.#hint = panel.querySelector('.hint');
    this.#copy = panel.querySelector('button');
    const list = panel.querySelector('dl');
    for (const [key, title, words] of FACTS) {
      const [row, term, value] = ['div', 'dt', 'dd'].map((tag) => document.createElement(tag));
      row.dataset.fact = key;
      term.textContent = title;
      row.title = words;
      value.textContent = '–';
      row.append(term, value);
      list.append(row);
      this.#values[key] = value;
    }
    this.#copy.addEventListener('click', () => this.copy());
  }

  get isOpen() {
    return !this.#panel.hidden;
  }

  set isOpen(isOpen) {
    this.#panel.hidden = !isOpen;
    if (!isOpen) {
      this.clear();
    }
  }

  /** The token as text, to be copied. */
  get json() {
    return this.#token === null ? '' : JSON.stringify(this.#token);
  }

  clear() {
    this.point = null;
    this.isPinned = false;
    this.#token = null;
    this.#mark(null);
    this.#show(null);
  }

  /** Inspects the token under a point; of a pointer that moves, `isHover`, not more often than can be seen. */
  at(point, isHover = false) {
    if (isHover && (this.isPinned || performance.now() - this.#askedMs < ASK_INTERVAL_MS)) {
      return;
    }
    this.isPinned = !isHover;
    this.point = point;
    this.again();
  }

  /** Asks about the same point of a newer frame. */
  again() {
    if (this.isOpen && this.point !== null) {
      this.#askedMs = performance.now();
      this.#ask(this.point);
    }
  }

  /** The neighbour of the token in a direction. */
  step([dx, dy], width, height) {
    const [left, top, right, bottom] = this.#token?.box ?? [width / 2, height / 2, width / 2, height / 2];
    const inside = (at, length) => Math.min(Math.max(at, 0.5), length - 0.5);
    const along = (direction, from, to) => (direction < 0 ? from - 0.5 : direction === 0 ? (from + to) / 2 : to + 0.5);
    this.at({ x: inside(along(dx, left, right), width), y: inside(along(dy, top, bottom), height) });
  }

  /** Shows what the server said; `fps` makes a time of a number of frames. */
  take(token, fps) {
    if (!this.isOpen || this.point === null) {
      return;
    }
    this.#token = token;
    this.#mark(token?.box ?? null);
    this.#show(token, fps);
  }

  async copy() {
    try {
      await navigator.clipboard.writeText(this.json);
      say(this.#hint, 'Copied.');
    } catch {
      say(this.#hint, 'The browser does not let the page copy: it does on https and on localhost.');
    }
  }

  #show(token, fps = null) {
    this.#copy.disabled = token === null;
    say(this.#hint, token === null ? 'Point at a token, or tap it; arrow keys move to its neighbours.' : '');
    this.#panel.dataset.token = token === null ? '' : token.index;
    for (const [key] of FACTS) {
      const words = token === null ? '–' : this.#words(key, token, fps);
      say(this.#values[key], words ?? '');
      this.#values[key].parentElement.hidden = words === null;
    }
    this.#draw(token);
  }

  /** A fact in words; null where there is nothing to say. */
  #words(key, token, fps) {
    const [left, top, right, bottom] = token.box;
    const frames = token.unchanged_frames;
    switch (key) {
      case 'place': return `${token.x}, ${token.y}`;
      case 'step': return stepName(...token.step);
      case 'covers': return `${right - left} × ${bottom - top} pixels, ${token.patch} × ${token.patch} texels`;
      case 'changed': {
        const seconds = 0 < fps ? `, ${short(frames / fps)} s` : '';
        return frames === 0 ? 'in this frame' : `${frameCount(frames)} ago${seconds}`;
      }
      case 'relevance': return short(token.relevance);
      default: {
        if (token.depth === null) {
          return null;
        }
        const { nearest_m: nearest, mean_m: mean, known } = token.depth;
        const share = `${Math.round(100 * known)} % known`;
        return mean === null ? share : `${short(nearest)} m nearest, ${short(mean)} m mean, ${share}`;
      }
    }
  }

  /** The texels, enlarged. */
  #draw(token) {
    const side = token?.texels.length || 1;
    Object.assign(this.#canvas, { width: side, height: side });
    this.#canvas.hidden = token !== null && token.texels.length === 0;
    if (token === null) {
      return;
    }
    const context = this.#canvas.getContext('2d');
    for (const [y, row] of token.texels.entries()) {
      for (let x = 0; x < side; x += 1) {
        context.fillStyle = `#${row.slice(6 * x, 6 * x + 6)}`;
        context.fillRect(x, y, 1, 1);
      }
    }
  }
}
