// The timeline: bands of what happened to a view, and a list of events with small pictures.

import { frameCount, say } from './words.js';

/** Rows, from the top: `band` of an entry, and what it is called. */
const BANDS = [['state', 'State'], ['event', 'Events'], ['fixation', 'Fixations'], ['drops', 'Drops']];

/** As many as the server keeps of each band. */
const MOST = { state: 512, event: 1024, fixation: 4096, drops: 1024 };

const HOUR_MS = 3_600_000;
const LEAST_MS = 60_000;

/** Spans to choose from, in milliseconds. */
const SPANS = [[HOUR_MS, 'Last hour'], [600_000, '10 minutes'], [60_000, 'Last minute']];

const ROW = 16;
const LABELS = 74;
const AXIS = 18;

/** Events in the list. */
const LISTED_MOST = 24;
const THUMBNAIL = [112, 63];

const NICE_MS = [1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000, 900_000, 1_800_000, HOUR_MS];

/** Time of day. */
export function clock(ms, digits = 0) {
  const date = new Date(ms);
  const two = (number) => String(number).padStart(2, '0');
  const text = [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(':');
  return digits === 0 ? text : `${text}.${String(date.getMilliseconds()).padStart(3, '0').slice(0, digits)}`;
}

export class Timeline {
  element = document.createElement('div');
  list = document.createElement('ol');
  #canvas = document.createElement('canvas');
  #words = document.createElement('p');
  #span = document.createElement('select');
  #seek;
  #entries = { state: [], event: [], fixation: [], drops: [] };
  /** What the list shows, the newest first: entry, item, small picture. */
  #listed = [];
  /** From the first moment of a recording to its last, or null. */
  #fixed = null;
  /** What is in memory. */
  #extent = null;
  #playheadMs = null;
  #nowMs = 0;
  #range = [0, 1];

  /** `seek` is called with the time of a click. */
  constructor(seek) {
    this.#seek = seek;
    this.element.className = 'timeline';
    this.#canvas.setAttribute('role', 'img');
    this.#canvas.setAttribute('aria-label', 'What happened: the list of events has the same in words');
    this.#words.className = 'hint';
    this.#span.setAttribute('aria-label', 'Span of the timeline');
    this.#span.append(...SPANS.map(([ms, text]) => Object.assign(document.createElement('option'), { value: ms, textContent: text })));
    this.#span.addEventListener('change', () => this.draw());
    this.list.className = 'events';
    const foot = document.createElement('div');
    foot.className = 'foot';
    foot.append(this.#words, this.#span);
    this.element.append(this.#canvas, foot);
    this.#canvas.addEventListener('click', (event) => this.#seek(this.#timeAt(event)));
    this.#canvas.addEventListener('pointermove', (event) => this.#hint(this.#timeAt(event)));
    this.#canvas.addEventListener('pointerleave', () => say(this.#words, ''));
    new ResizeObserver(() => this.draw()).observe(this.#canvas);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.draw());
  }

  clear() {
    Object.values(this.#entries).forEach((entries) => { entries.length = 0; });
    this.#listed = [];
    this.list.replaceChildren();
    this.#extent = null;
    this.#playheadMs = null;
    this.draw();
  }

  /** The range of a recording, which is in memory as a whole. */
  fix(fromMs, toMs) {
    this.#fixed = [fromMs, Math.max(toMs, fromMs + 1)];
    this.#span.hidden = true;
    this.#extent = { from_ms: fromMs, to_ms: toMs };
  }

  /** Adds entries; one of drops may replace the last. */
  add(entries, isWhole) {
    if (isWhole) {
      this.clear();
    }
    for (const entry of entries) {
      const band = this.#entries[entry.band];
      if (band === undefined) {
        continue;
      }
      if (entry.band === 'drops' && band.at(-1)?.at_ms === entry.at_ms) {
        band.pop();
      }
      band.push(entry);
      while (MOST[entry.band] < band.length) {
        band.shift();
      }
    }
    this.#listEvents();
    this.draw();
  }

  /** What is in memory now, and what time it is. */
  show(extent, nowMs, playheadMs) {
    this.#extent = this.#fixed === null ? extent : this.#extent;
    this.#nowMs = nowMs;
    this.#playheadMs = playheadMs;
    for (const { entry, item } of this.#listed) {
      item.firstElementChild.setAttribute('aria-disabled', String(!this.isKept(entry.at_ms)));
    }
    this.draw();
  }

  /** Whether a moment can be shown. */
  isKept(ms) {
    return this.#extent !== null && this.#extent.from_ms - 1 <= ms;
  }

  /** The newest event without a small picture that could have one; undefined without any. */
  get pending() {
    return this.#listed.find(({ entry, thumbnail }) => thumbnail.hidden && !thumbnail.dataset.asked && this.isKept(entry.at_ms));
  }

  /** Draws the small picture of an event from a canvas. */
  illustrate(listed, picture) {
    const { thumbnail } = listed;
    [thumbnail.width, thumbnail.height] = THUMBNAIL.map((side) => side * 2);
    const context = thumbnail.getContext('2d');
    const scale = Math.min(thumbnail.width / picture.width, thumbnail.height / picture.height);
    const [width, height] = [picture.width * scale, picture.height * scale];
    context.imageSmoothingQuality = 'high';
    context.drawImage(picture, (thumbnail.width - width) / 2, (thumbnail.height - height) / 2, width, height);
    thumbnail.hidden = false;
  }

  /** Removes the small pictures; those of what is still in memory are asked for again. */
  forgetPictures() {
    for (const { thumbnail } of this.#listed) {
      thumbnail.hidden = true;
      delete thumbnail.dataset.asked;
    }
  }

  draw() {
    const ratio = devicePixelRatio;
    const [columns, rows] = [this.#canvas.clientWidth, this.#canvas.clientHeight];
    if (columns === 0) {
      return;
    }
    const [width, height] = [Math.round(columns * ratio), Math.round(rows * ratio)];
    if (this.#canvas.width !== width || this.#canvas.height !== height) {
      [this.#canvas.width, this.#canvas.height] = [width, height];
    }
    const context = this.#canvas.getContext('2d');
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, columns, rows);
    this.#range = this.#choose();
    const [from, to] = this.#range;
    const at = (ms) => LABELS + ((columns - LABELS) * (ms - from)) / (to - from);
    const style = getComputedStyle(this.element);
    const color = (name) => style.getPropertyValue(name);
    const bottom = BANDS.length * ROW;
    if (this.#extent !== null && this.#fixed === null) {
      context.fillStyle = color('--chosen');
      const { from_ms: first, whole_from_ms: whole, to_ms: last } = this.#extent;
      const [left, middle] = [first, whole].map((ms) => Math.max(at(ms), LABELS));
      context.fillRect(middle, 0, Math.max(at(last) - middle, 2), bottom);
      context.globalAlpha = 0.5;
      context.fillRect(left, 0, middle - left, bottom);
      context.globalAlpha = 1;
    }
    context.font = `11px ${style.fontFamily}`;
    context.textBaseline = 'middle';
    for (const [row, [, name]] of BANDS.entries()) {
      context.fillStyle = color('--quiet');
      context.fillText(name, 0, row * ROW + ROW / 2);
      context.fillStyle = color('--line');
      context.fillRect(LABELS, (row + 1) * ROW - 1, columns - LABELS, 1);
    }
    context.save();
    context.beginPath();
    context.rect(LABELS, 0, columns - LABELS, bottom);
    context.clip();
    this.#drawBands(context, at, color);
    if (this.#playheadMs !== null) {
      context.fillStyle = color('--text');
      context.fillRect(Math.min(Math.max(at(this.#playheadMs), LABELS), columns - 2) - 1, 0, 2, bottom);
    }
    context.restore();
    this.#drawAxis(context, at, color, columns, bottom);
  }

  /** First and last time of the canvas. */
  #choose() {
    if (this.#fixed !== null) {
      return this.#fixed;
    }
    const to = this.#nowMs;
    const first = Math.min(this.#entries.state[0]?.at_ms ?? to, this.#extent?.from_ms ?? to);
    const span = Math.min(Number(this.#span.value), Math.max(to - first, LEAST_MS));
    return [to - span, to];
  }

  #drawBands(context, at, color) {
    const [, to] = this.#range;
    const colors = { live: '--good', stalled: '--warn', lost: '--bad', starting: '--warn', ended: '--still' };
    for (const [index, { at_ms: from, state }] of this.#entries.state.entries()) {
      const end = this.#entries.state[index + 1]?.at_ms ?? to;
      if (colors[state] !== undefined) {
        context.fillStyle = color(colors[state]);
        context.fillRect(at(from), 5, Math.max(at(end) - at(from), 1), ROW - 10);
      }
    }
    const open = new Map();
    context.fillStyle = color('--accent');
    for (const { at_ms: ms, kind, phase } of this.#entries.event) {
      if (phase === 'began') {
        open.set(kind, ms);
      } else if (phase === 'ended' && open.has(kind)) {
        this.#drawSpan(context, at(open.get(kind)), at(ms));
        open.delete(kind);
      }
      context.fillRect(at(ms) - 1, ROW + 2, 2, ROW - 5);
    }
    open.forEach((ms) => this.#drawSpan(context, at(ms), at(to)));
    const reasons = { look: '--accent', attend: '--warn' };
    for (const { at_ms: ms, reason } of this.#entries.fixation) {
      context.fillStyle = color(reasons[reason] ?? '--plot-2');
      context.fillRect(at(ms), 2 * ROW + 3, 1, ROW - 7);
    }
    context.fillStyle = color('--bad');
    for (const { at_ms: ms } of this.#entries.drops) {
      context.fillRect(at(ms) - 1, 3 * ROW + 2, 3, ROW - 5);
    }
  }

  #drawSpan(context, left, right) {
    context.globalAlpha = 0.35;
    context.fillRect(left, ROW + 4, Math.max(right - left, 1), ROW - 9);
    context.globalAlpha = 1;
  }

  #drawAxis(context, at, color, columns, bottom) {
    const [from, to] = this.#range;
    const most = Math.max((columns - LABELS) / 80, 1);
    const step = NICE_MS.find((ms) => (to - from) / ms <= most) ?? Math.ceil((to - from) / most / HOUR_MS) * HOUR_MS;
    context.fillStyle = color('--quiet');
    context.textAlign = 'center';
    const offset = new Date(from).getTimezoneOffset() * 60_000;
    for (let ms = Math.ceil((from - offset) / step) * step + offset; ms < to; ms += step) {
      const x = at(ms);
      if (LABELS + 26 < x && x < columns - 26) {
        context.fillText(step < 60_000 ? clock(ms) : clock(ms).slice(0, 5), x, bottom + AXIS / 2 + 1);
      }
    }
    context.textAlign = 'start';
  }

  #timeAt(event) {
    const { left, width } = this.#canvas.getBoundingClientRect();
    const [from, to] = this.#range;
    const share = (event.clientX - left - LABELS) / Math.max(width - LABELS, 1);
    return from + Math.min(Math.max(share, 0), 1) * (to - from);
  }

  /** Describes what is next to a time. */
  #hint(ms) {
    const [from, to] = this.#range;
    const near = (to - from) / 100;
    const words = [clock(ms)];
    for (const band of ['event', 'drops', 'fixation']) {
      const entry = this.#entries[band].findLast(({ at_ms: at }) => Math.abs(at - ms) < near);
      if (entry !== undefined) {
        words.push(describe(entry));
      }
    }
    const state = this.#entries.state.findLast(({ at_ms: at }) => at <= ms);
    if (state !== undefined) {
      words.push(describe(state));
    }
    if (!this.isKept(ms)) {
      words.push('not in memory');
    } else if (ms < this.#extent.whole_from_ms) {
      words.push('frames are left out here');
    }
    say(this.#words, words.join(' · '));
  }

  /** Updates the list, and keeps items that stay. */
  #listEvents() {
    const isListed = ({ band, state }) => band === 'event' || (band === 'state' && state !== 'unwatched');
    const wanted = [...this.#entries.event, ...this.#entries.state].filter(isListed);
    wanted.sort((one, other) => other.at_ms - one.at_ms || other.serial - one.serial);
    const present = new Map(this.#listed.map((listed) => [listed.entry.serial, listed]));
    this.#listed = wanted.slice(0, LISTED_MOST).map((entry) => present.get(entry.serial) ?? this.#item(entry));
    const items = this.#listed.map(({ item }) => item);
    if (items.length !== this.list.children.length || items.some((item, index) => this.list.children[index] !== item)) {
      const focused = document.activeElement;
      this.list.replaceChildren(...items);
      if (this.list.contains(focused)) {
        focused.focus();
      }
    }
  }

  #item(entry) {
    const item = document.createElement('li');
    const button = document.createElement('button');
    const thumbnail = document.createElement('canvas');
    const [time, words] = [document.createElement('span'), document.createElement('span')];
    button.type = 'button';
    thumbnail.hidden = true;
    thumbnail.setAttribute('aria-hidden', 'true');
    time.className = 'time';
    time.textContent = clock(entry.at_ms);
    words.textContent = describe(entry);
    button.append(thumbnail, time, words);
    button.addEventListener('click', () => this.#seek(entry.at_ms));
    item.append(button);
    return { entry, item, thumbnail };
  }
}

/** An entry in words. */
function describe(entry) {
  switch (entry.band) {
    case 'state':
      return [entry.state, entry.reason].filter(Boolean).join(': ');
    case 'event': {
      const phase = entry.phase === 'once' ? '' : ` ${entry.phase}`;
      const place = entry.region === null ? '' : ` at ${entry.region.slice(0, 2).map(Math.round).join(', ')}`;
      return `${entry.kind}${phase}${place}`;
    }
    case 'fixation':
      return `fixation (${entry.reason}) at ${Math.round(entry.x)}, ${Math.round(entry.y)}`;
    default:
      return `${frameCount(entry.count)} dropped`;
  }
}
