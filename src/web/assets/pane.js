// One picture with its overlay, its caption and its state.

import { Frame } from './wire.js';
import { Overlay } from './overlay.js';
import { Picture } from './picture.js';
import { say } from './words.js';

/** Past fixations that are drawn. */
const PATH_LENGTH = 12;

const TITLES = {
  starting: 'Waiting for the first frame',
  stalled: 'Stalled',
  ended: 'Ended',
  lost: 'Out of reach',
};

/** What the age of the newest frame means, in seconds. */
const AGES = {
  stalled: (age) => `for ${age} s`,
  ended: (age) => `${age} s ago`,
  lost: (age) => `for ${age} s`,
};

/** One picture of the page. */
export class Pane {
  frame = new Frame();
  /** Name of the view's layout. */
  layout = '';
  /** Where the stream is masked. */
  masks = [];
  /** The last fixations, the newest last. */
  path = [];
  /** Requested points that are not fixated yet. */
  targets = [];
  /** Drawings of the page over it: polygons, in shares of the sides. */
  marks = [];
  /** Whether only an independent frame may be shown: packets in flight show another view. */
  awaitsWhole = true;
  element = document.createElement('figure');
  /** Takes the keyboard and the pointer. */
  surface = document.createElement('div');
  #picture;
  #overlay;
  #veil = document.createElement('div');
  #title = document.createElement('strong');
  /** It changes each second, so it is not spoken. */
  #age = document.createElement('span');
  #reason = document.createElement('span');
  #caption = document.createElement('figcaption');
  #shows;
  #hasGaze;
  #state = 'starting';
  #painted = 0;
  /** When the newest frame was captured, on the clock of the page. */
  #capturedMs = null;

  /** `shows` are the layers over the picture; the gaze is drawn only if it can be steered. */
  constructor(shows, hasGaze = true) {
    this.#shows = shows;
    this.#hasGaze = hasGaze;
    const [picture, overlay] = [document.createElement('canvas'), document.createElement('canvas')];
    picture.className = 'picture';
    overlay.className = 'overlay';
    this.surface.className = 'surface';
    this.#veil.className = 'veil';
    this.#title.setAttribute('role', 'status');
    this.#reason.setAttribute('role', 'status');
    this.#age.className = 'age';
    const line = document.createElement('div');
    line.append(this.#title, ' ', this.#age);
    this.#veil.append(line, this.#reason);
    this.surface.append(picture, overlay, this.#veil);
    this.element.append(this.surface, this.#caption);
    this.#picture = new Picture(picture);
    this.#overlay = new Overlay(overlay);
    this.setState('starting', '', null);
    new ResizeObserver(([entry]) => {
      this.#overlay.resize(entry.contentRect.width, entry.contentRect.height);
      this.redraw();
    }).observe(this.surface);
  }

  /** Whether a frame has been painted. */
  get isPainted() {
    return 0 < this.frame.count;
  }

  /** How old the newest frame is now, in milliseconds. */
  get ageMs() {
    return this.#capturedMs === null ? null : performance.now() - this.#capturedMs;
  }

  setCaption(text) {
    say(this.#caption, text);
  }

  /** Sets the size of both pictures. */
  setExtent(width, height) {
    document.documentElement.style.setProperty('--ratio', width / height);
  }

  /** Clears the pane. */
  clear() {
    this.frame.count = 0;
    this.awaitsWhole = true;
    this.path = [];
    this.targets = [];
    this.#capturedMs = null;
    this.element.classList.remove('is-painted');
    this.setState('starting', '', null);
    this.redraw();
  }

  setState(state, reason, ageMs) {
    this.#state = state;
    this.element.dataset.state = state;
    if (ageMs !== null) {
      this.#capturedMs = performance.now() - ageMs;
    }
    say(this.#title, TITLES[state] ?? '');
    say(this.#reason, reason);
    this.tick();
  }

  /** Updates the age. */
  tick() {
    const words = this.ageMs === null ? undefined : AGES[this.#state];
    say(this.#age, words?.(Math.max(0, Math.round(this.ageMs / 1000))) ?? '');
  }

  /** Shows the newest frame. */
  paint() {
    const { frame } = this;
    this.#capturedMs = performance.now() - frame.ageMs;
    if (frame.isWhole) {
      this.setExtent(frame.width, frame.height);
      this.element.classList.add('is-painted');
    }
    this.#picture.paint(frame);
    this.#painted += 1;
    // For tests that drive a browser.
    Object.assign(this.element.dataset, { frame: frame.frameSeq, painted: this.#painted });
    this.#follow(frame.fixations);
    this.redraw();
  }

  redraw() {
    this.#drawOver(this.#overlay, this.marks);
  }

  #drawOver(overlay, marks) {
    const { masks, path, targets } = this;
    overlay.draw(this.frame, this.layout, this.#shows, this.#hasGaze ? { path, targets } : null, masks, marks);
  }

  /** The picture with its layers, as large as the source, as a PNG file; null if the browser cannot make it. */
  async save() {
    const canvas = document.createElement('canvas');
    Object.assign(canvas, { width: this.frame.width, height: this.frame.height });
    const context = canvas.getContext('2d');
    const [picture, over] = [this.surface.querySelector('.picture'), document.createElement('canvas')];
    Object.assign(over, { width: canvas.width, height: canvas.height });
    this.#drawOver(new Overlay(over), []);
    for (const layer of [picture, over]) {
      context.drawImage(layer, 0, 0, canvas.width, canvas.height);
    }
    return new Promise((done) => { canvas.toBlob(done, 'image/png'); });
  }

  /** The point of the picture at a point of the screen, as shares of the sides. */
  shareAt(clientX, clientY) {
    const { left, top, width, height } = this.surface.getBoundingClientRect();
    const share = (at, length) => Math.min(1, Math.max(0, at / length));
    return [share(clientX - left, width), share(clientY - top, height)];
  }

  /** The source pixel at a point of the screen. */
  pixelAt(clientX, clientY) {
    const [x, y] = this.shareAt(clientX, clientY);
    return { x: x * this.frame.width, y: y * this.frame.height };
  }

  #follow(fixations) {
    const { path } = this;
    const newest = fixations.reduce((one, other) => (one.id < other.id ? other : one));
    const present = path.at(-1);
    if (present?.id === newest.id) {
      path[path.length - 1] = newest;
    } else {
      if (present !== undefined && newest.id < present.id) {
        path.length = 0;
      }
      path.push(newest);
      if (PATH_LENGTH < path.length) {
        path.shift();
      }
    }
    const isFixated = (target) => fixations.some(({ x, y }) => Math.hypot(target.x - x, target.y - y) < 1);
    this.targets = this.targets.filter((target) => !isFixated(target));
  }
}
