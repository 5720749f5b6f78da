// The start page of several streams: a small picture of each, its state, reason and age. See src/web/thumbnails.rs.

import { duration, latency, say } from './words.js';

const MAGIC = 0x31545646; // "FVT1"
const HEADER_BYTES = 8;
const ENTRY_BYTES = 16;

/** As many as the server reads. */
const PICTURES_MOST = 24;

/** After tiles have come into sight or left it. */
const SETTLE_MS = 100;

/** Whether a packet has small pictures. */
export function isThumbnails(buffer) {
  return HEADER_BYTES <= buffer.byteLength && new DataView(buffer).getUint32(0, true) === MAGIC;
}

/** The small pictures of a packet; none if it is damaged. */
export function thumbnails(buffer) {
  const view = new DataView(buffer);
  const pictures = [];
  let at = HEADER_BYTES;
  for (let left = view.getUint32(4, true); 0 < left; left -= 1) {
    if (buffer.byteLength < at + ENTRY_BYTES) {
      return [];
    }
    const [nameBytes, width, height] = [0, 2, 4].map((offset) => view.getUint16(at + offset, true));
    const ageMs = Number(view.getBigUint64(at + 8, true)) / 1e6;
    const texelsAt = at + ENTRY_BYTES + nameBytes;
    const end = texelsAt + 3 * width * height;
    if (width === 0 || height === 0 || buffer.byteLength < end) {
      return [];
    }
    const name = new TextDecoder().decode(new Uint8Array(buffer, at + ENTRY_BYTES, nameBytes));
    pictures.push({ name, width, height, ageMs, rgb: new Uint8Array(buffer, texelsAt, 3 * width * height) });
    at = end;
  }
  return pictures;
}

/** What the grid shows of a stream. */
class Tile {
  element = document.createElement('li');
  /** The view that the picture is of; null without one. */
  view = null;
  isInSight = false;
  state = '';
  /** When the picture was captured, on the clock of the page. */
  #capturedMs = null;
  #ageMs = null;
  #button = document.createElement('button');
  #canvas = document.createElement('canvas');
  #name = document.createElement('span');
  #state = document.createElement('span');
  #age = document.createElement('span');
  #reason = document.createElement('span');

  constructor(open) {
    this.element.className = 'tile';
    this.#button.type = 'button';
    this.#canvas.setAttribute('aria-hidden', 'true');
    const parts = { name: this.#name, state: this.#state, age: this.#age, reason: this.#reason };
    Object.entries(parts).forEach(([name, part]) => { part.className = name; });
    // It changes with each report, so it is not read out.
    this.#age.setAttribute('aria-hidden', 'true');
    const shot = document.createElement('span');
    shot.className = 'shot';
    shot.append(this.#canvas);
    const line = document.createElement('span');
    line.className = 'line';
    line.append(this.#name, this.#state, this.#age);
    this.#button.append(shot, line, this.#reason);
    this.#button.addEventListener('click', () => {
      if (this.view !== null) {
        open(this.view);
      }
    });
    this.element.append(this.#button);
  }

  show(stream) {
    const view = stream.views[0]?.name ?? null;
    if (view !== this.view) {
      this.view = view;
      this.#capturedMs = null;
      this.element.classList.remove('is-painted');
    }
    this.#button.setAttribute('aria-disabled', String(view === null));
    this.#ageMs = stream.rates?.age_p50_ms ?? null;
    this.setState(stream.state);
    say(this.#name, stream.name);
    const reasons = view === null ? ['no view: add one with [[stream.view]]', ...stream.reasons] : stream.reasons;
    say(this.#reason, reasons.join('; '));
    this.#reason.title = reasons.join('\n');
    this.tick();
  }

  setState(state) {
    this.state = state;
    this.element.dataset.state = state;
    say(this.#state, state);
  }

  paint({ width, height, ageMs, rgb }) {
    const canvas = this.#canvas;
    if (canvas.width !== width || canvas.height !== height) {
      Object.assign(canvas, { width, height });
    }
    const context = canvas.getContext('2d', { alpha: false });
    const image = context.createImageData(width, height);
    for (let from = 0, to = 0; from < rgb.length; from += 3, to += 4) {
      image.data[to] = rgb[from];
      image.data[to + 1] = rgb[from + 1];
      image.data[to + 2] = rgb[from + 2];
      image.data[to + 3] = 255;
    }
    context.putImageData(image, 0, 0);
    this.#capturedMs = performance.now() - ageMs;
    this.element.classList.add('is-painted');
    this.tick();
  }

  /** What a consumer sees, or how long nothing has come. */
  tick() {
    const sinceMs = this.#capturedMs === null ? null : performance.now() - this.#capturedMs;
    const silent = sinceMs === null ? 'no frame yet' : `last frame ${duration(Math.max(sinceMs, 1000))} ago`;
    const live = this.#ageMs === null ? '' : `age ${latency(this.#ageMs)}`;
    say(this.#age, this.state === 'live' ? live : silent);
  }
}

/** All tiles. */
export class Grid {
  #list;
  #status;
  #open;
  #want;
  #tiles = new Map();
  #isOpen = false;
  #timer = 0;
  #sight = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      const tile = [...this.#tiles.values()].find(({ element }) => element === target);
      if (tile !== undefined) {
        tile.isInSight = isIntersecting;
      }
    }
    this.#askSoon();
  });

  /**
   * Fills `list`, and names changes of states in `status`. `open` is called with the view of a tile that is chosen, and
   * `want` with the views whose pictures are in sight.
   */
  constructor(list, status, open, want) {
    this.#list = list;
    this.#status = status;
    this.#open = open;
    this.#want = want;
  }

  get isOpen() {
    return this.#isOpen;
  }

  set isOpen(isOpen) {
    this.#isOpen = isOpen;
    this.ask();
  }

  /** Updates the tiles; `error` says why the daemon does not answer, and leaves them. */
  show(streams, error) {
    if (error !== null) {
      this.#tiles.forEach((tile) => tile.setState('lost'));
      say(this.#status, error);
      this.#status.classList.add('is-error');
      return;
    }
    const changes = [];
    for (const stream of streams) {
      let tile = this.#tiles.get(stream.name);
      if (tile === undefined) {
        tile = new Tile(this.#open);
        this.#tiles.set(stream.name, tile);
        this.#sight.observe(tile.element);
      } else if (tile.state !== stream.state) {
        changes.push(`${stream.name} is ${stream.state}`);
      }
      tile.show(stream);
    }
    for (const [name, tile] of this.#tiles) {
      if (!streams.some((stream) => stream.name === name)) {
        this.#sight.unobserve(tile.element);
        tile.element.remove();
        this.#tiles.delete(name);
        changes.push(`${name} is gone`);
      }
    }
    const items = streams.map(({ name }) => this.#tiles.get(name).element);
    if (!items.every((item, index) => this.#list.children[index] === item)) {
      this.#list.replaceChildren(...items);
    }
    if (0 < changes.length || this.#status.classList.contains('is-error')) {
      say(this.#status, changes.join(', '));
      this.#status.classList.remove('is-error');
    }
    this.#askSoon();
  }

  /** Paints the pictures of a packet. */
  paint(buffer) {
    for (const picture of thumbnails(buffer)) {
      [...this.#tiles.values()].find(({ view }) => view === picture.name)?.paint(picture);
    }
  }

  tick() {
    if (this.#isOpen) {
      this.#tiles.forEach((tile) => tile.tick());
    }
  }

  /** Asks for the pictures in sight. */
  ask() {
    const tiles = this.#isOpen ? [...this.#tiles.values()] : [];
    const views = tiles.filter(({ isInSight, view }) => isInSight && view !== null).map(({ view }) => view);
    this.#want(views.slice(0, PICTURES_MOST));
  }

  #askSoon() {
    if (this.#isOpen) {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.ask(), SETTLE_MS);
    }
  }
}
