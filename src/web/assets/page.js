// The page: connects the server's messages with the elements on the screen.

import { Past } from './history.js';
import { Pane } from './pane.js';
import { Plots } from './plots.js';
import { Streams } from './streams.js';
import { Wire, paneOf } from './wire.js';
import { rankColor, rankName, rankOf } from './overlay.js';

/** Least interval of looks while the pointer is dragged, in ms: within a client's rate limit. */
const LOOK_INTERVAL_MS = 33;

/** Arrow keys move the gaze by this share of the picture's longer side, with Shift by more. */
const STEP = 0.02;
const STEP_WITH_SHIFT = 0.1;

/** Interval of updates of a still picture's age. */
const TICK_MS = 500;

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const KEYS = { b: 'boxes', c: 'changes', r: 'relevance', g: 'gaze', u: 'compare' };

/** A view's name. Anything else in an address is ignored. */
const VIEW_NAME = /^[a-z0-9_-]{1,63}\/[a-z0-9_-]{1,63}$/;

const CHANNEL_NAME = /^[a-z0-9_-]{1,31}$/;

const byId = (id) => document.getElementById(id);

/** The choices in the page's address: #view=camera/main&boxes&gaze&channel=strokes */
const shows = { boxes: false, changes: false, relevance: false, gaze: true, compare: false };
let chosen = null;
/** Name of the channel over the picture, and of those that the view publishes. */
let channel = null;
let channels = [];
let streams = [];
let isReadOnly = false;
let isSteering = false;

/** The page's own counts since the last report. */
const seen = { frames: 0, bytes: 0, tokens: 0, valid: 0, sinceMs: performance.now() };

const panes = [new Pane(shows), new Pane(shows, false)];
const plots = new Plots(byId('plots'));
const list = new Streams(byId('streams'), (name) => choose(name));
const past = new Past(byId('past'), (message) => wire.say(message));
const waiting = new Set();

const wire = new Wire({
  open() {
    setDaemon('starting', 'Connected');
    watch();
  },
  closed(reason) {
    setDaemon('lost', 'Disconnected');
    letGo();
    past.clear();
    panes.forEach((pane) => pane.setState('lost', reason, null));
    document.body.classList.remove('is-loading');
  },
  message: (message) => handlers[message.type]?.(message),
  frame(buffer) {
    if (past.take(buffer)) {
      return;
    }
    const pane = panes[paneOf(buffer)];
    if (pane === undefined) {
      return;
    }
    pane.frame.read(buffer);
    // A packet that depends on a frame of another view was sent before the choice.
    if (pane.awaitsWhole && !pane.frame.isWhole) {
      return;
    }
    pane.awaitsWhole = false;
    count(pane);
    if (waiting.size === 0) {
      requestAnimationFrame(paint);
    }
    waiting.add(pane);
  },
});

const handlers = {
  ...past.handlers,
  hello({ view, read_only: readOnly, ...others }) {
    isReadOnly = readOnly;
    past.greet(others);
    document.body.classList.toggle('is-read-only', readOnly);
    if (chosen === null && view !== null) {
      choose(view);
    }
  },
  report(report) {
    streams = report.streams;
    if (report.recording) {
      setDaemon('live', 'Recording');
    } else if (report.error === null) {
      setDaemon('live', `foveated ${report.daemon?.version ?? ''}`);
    } else {
      setDaemon('lost', 'No daemon');
      if (chosen === null) {
        panes[0].setState('lost', report.error, null);
      }
    }
    const first = streams.find((stream) => 0 < stream.views.length);
    if (chosen === null && first !== undefined) {
      choose(first.views[0].name);
    }
    list.show(streams, chosen);
    byId('streams').classList.toggle('is-empty', streams.length === 0);
    describe();
    addNumbers();
    document.body.classList.remove('is-loading');
  },
  state({ pane, state, reason, age_ms: ageMs }) {
    panes[pane].setState(state, reason, ageMs);
  },
  channels({ names }) {
    channels = names;
    listChannels();
  },
  looking({ x, y }) {
    isSteering = true;
    byId('give-back').disabled = false;
    tell(`Looks at ${Math.round(x)}, ${Math.round(y)}, until you release the gaze.`);
  },
  released() {
    letGo();
    tell('The view looks where its policy says.');
  },
  refused({ error }) {
    letGo();
    panes[0].redraw();
    tell(error, true);
  },
};

/** Paints the newest frames, then acknowledges them, so that the server sends nothing to a hidden page. */
function paint() {
  for (const pane of waiting) {
    pane.layout = layoutOf(pane);
    pane.paint();
    wire.say({ op: 'ack', pane: panes.indexOf(pane), serial: pane.frame.serial });
  }
  if (waiting.has(panes[0])) {
    countGroups(panes[0]);
  }
  waiting.clear();
  panes.forEach((pane, index) => pane.setCaption(caption(index)));
}

function count(pane) {
  seen.bytes += pane.frame.bytes;
  if (pane === panes[0]) {
    seen.frames += 1;
    seen.tokens += pane.frame.isWhole ? 0 : pane.frame.count;
    seen.valid += pane.frame.isWhole ? 0 : pane.frame.count - pane.frame.sentCount;
  }
}

function addNumbers() {
  const now = performance.now();
  const seconds = (now - seen.sinceMs) / 1000;
  const stream = chosenStream();
  if (stream !== undefined && 0.05 < seconds) {
    plots.add(stream, {
      fps: seen.frames / seconds,
      ageMs: past.isPaused ? null : panes[0].ageMs,
      bytesPerSecond: seen.bytes / seconds,
      validShare: 0 < seen.tokens ? seen.valid / seen.tokens : null,
    });
  }
  Object.assign(seen, { frames: 0, bytes: 0, tokens: 0, valid: 0, sinceMs: now });
}

const groupItems = [];

/** The token count of each level, ring, window or block, as the legend of the boxes' colours. */
function countGroups({ frame, layout }) {
  const counts = [];
  for (let index = 0; index < frame.count; index += 1) {
    const rank = rankOf(frame, index, layout);
    counts[rank] = (counts[rank] ?? 0) + 1;
  }
  while (groupItems.length < counts.length) {
    const item = document.createElement('li');
    item.style.setProperty('--group', rankColor(groupItems.length));
    groupItems.push(item);
    byId('groups').append(item);
  }
  for (const [rank, item] of groupItems.entries()) {
    const text = `${rankName(rank, layout, frame)}: ${counts[rank] ?? 0}`;
    if (item.textContent !== text) {
      item.textContent = text;
    }
  }
}

/** The layout of a picture; unknown until the daemon has listed the view. */
function layoutOf(pane) {
  return pane === panes[0] ? chosenView()?.layout ?? '' : 'uniform';
}

function chosenStream() {
  return streams.find((stream) => stream.name === chosen?.split('/')[0]);
}

function chosenView() {
  return chosenStream()?.views.find((view) => view.name === chosen);
}

function choose(name) {
  chosen = name;
  past.clear();
  waiting.clear();
  panes.forEach((pane) => pane.clear());
  groupItems.length = 0;
  channels = [];
  listChannels();
  byId('groups').replaceChildren();
  letGo();
  tell('');
  plots.clear();
  watch();
  remember();
  list.show(streams, chosen);
  describe();
}

function watch() {
  if (chosen !== null) {
    wire.say({ op: 'watch', view: chosen, compare: shows.compare, channel });
  }
}

/** The channels to choose from; hidden where the view publishes none. */
function listChannels() {
  const select = byId('channel');
  const option = (name, text) => Object.assign(document.createElement('option'), { value: name, textContent: text });
  select.replaceChildren(option('', 'No channel'), ...channels.map((name) => option(name, name)));
  select.value = channels.includes(channel) ? channel : '';
  select.hidden = channels.length === 0;
}

/** Describes the screen in words. */
function describe() {
  const [stream, view] = [chosenStream(), chosenView()];
  const [pane] = panes;
  document.title = chosen === null ? 'Foveate' : `${chosen} · Foveate`;
  byId('place').textContent = [
    chosen, stream?.format, stream?.backend?.device,
  ].filter(Boolean).join('  ·  ');
  if (stream?.extent && !pane.isPainted) {
    panes.forEach((each) => each.setExtent(...stream.extent));
  }
  if (pane.isPainted && pane.layout !== layoutOf(pane)) {
    // The view was listed after its newest frame.
    pane.layout = layoutOf(pane);
    pane.redraw();
    countGroups(pane);
  }
  showMasks(stream?.masks ?? []);
  pane.surface.setAttribute('aria-label', `Picture of ${chosen ?? 'no view'}. ${
    isReadOnly ? '' : 'Click, or move with the arrow keys, to look; Escape gives the gaze back.'}`);
  const holder = view?.steering.holder;
  byId('stage').dataset.steered = isSteering ? 'here' : holder ? 'elsewhere' : '';
}

/** Draws masks that are new or have moved. */
function showMasks(masks) {
  const text = JSON.stringify(masks);
  for (const pane of panes) {
    if (pane.element.dataset.masks !== text) {
      pane.element.dataset.masks = text;
      pane.masks = masks;
      pane.redraw();
    }
  }
}

/** Pixels, with two digits after the point where they are needed. */
function pixelText(pixels) {
  return String(Math.round(100 * pixels) / 100);
}

function caption(index) {
  const { frame, layout } = panes[index];
  if (frame.count === 0) {
    return '\u00a0';
  }
  const name = layout || 'view';
  const finest = frame.finest();
  const [across, down] = [frame.tokenWidth(finest), frame.tokenHeight(finest)].map((side) => pixelText(side / frame.patchSide));
  const words = `${name[0].toUpperCase()}${name.slice(1)}, ${frame.count} tokens, finest texel ${across} × ${down}`;
  const { budget } = chosenView() ?? {};
  // Windows have no budget.
  const hasFewer = index === 1 && frame.count < panes[0].frame.count && panes[0].layout !== 'windows';
  return hasFewer && budget !== undefined ? `${words}: no finer grid fits the budget of ${budget}` : words;
}

function setDaemon(state, words) {
  const element = byId('daemon');
  element.dataset.state = state;
  const text = element.querySelector('.words');
  if (text.textContent !== words) {
    text.textContent = words;
  }
}

function tell(text, isError = false) {
  const element = byId('says');
  // The same words again would be spoken again.
  if (element.textContent !== text) {
    element.textContent = text;
  }
  element.title = text;
  element.classList.toggle('is-error', isError);
}

// Steering

let lookedMs = 0;

function look(point) {
  if (isReadOnly || past.isPaused || !panes[0].isPainted) {
    return;
  }
  panes[0].target = point;
  panes[0].redraw();
  wire.say({ op: 'look', x: point.x, y: point.y });
  lookedMs = performance.now();
}

function giveBack() {
  if (isSteering || panes[0].target !== null) {
    wire.say({ op: 'release' });
  }
}

function letGo() {
  isSteering = false;
  byId('give-back').disabled = true;
  panes[0].target = null;
}

function step([dx, dy], share) {
  const [{ frame, target }] = panes;
  const from = target ?? frame.fixations[0];
  if (from === undefined) {
    return;
  }
  const pixels = share * Math.max(frame.width, frame.height);
  look({
    x: Math.min(frame.width, Math.max(0, from.x + dx * pixels)),
    y: Math.min(frame.height, Math.max(0, from.y + dy * pixels)),
  });
}

function followPointer(surface) {
  surface.addEventListener('pointerdown', (event) => {
    if (event.button === 0) {
      surface.setPointerCapture(event.pointerId);
      look(panes[0].pixelAt(event.clientX, event.clientY));
    }
  });
  surface.addEventListener('pointermove', (event) => {
    if (event.buttons === 1 && LOOK_INTERVAL_MS <= performance.now() - lookedMs) {
      look(panes[0].pixelAt(event.clientX, event.clientY));
    }
  });
  surface.addEventListener('pointerup', (event) => {
    const [{ target }] = panes;
    const end = panes[0].pixelAt(event.clientX, event.clientY);
    if (event.button === 0 && (target === null || 1 < Math.hypot(target.x - end.x, target.y - end.y))) {
      look(end);
    }
  });
  surface.addEventListener('keydown', (event) => {
    const arrow = ARROWS[event.key];
    if (arrow !== undefined && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      step(arrow, event.shiftKey ? STEP_WITH_SHIFT : STEP);
    }
  });
}

// Displayed items

function toggle(name) {
  shows[name] = !shows[name];
  apply();
  if (name === 'compare') {
    waiting.delete(panes[1]);
    panes[1].clear();
    watch();
  }
  remember();
}

function apply() {
  for (const button of document.querySelectorAll('[data-toggle]')) {
    button.setAttribute('aria-pressed', String(shows[button.dataset.toggle]));
  }
  document.body.classList.toggle('is-comparing', shows.compare);
  panes[1].element.hidden = !shows.compare;
  panes.forEach((pane) => pane.redraw());
}

/** Puts the choices into the page's address, to be bookmarked or shared. */
function remember() {
  const on = Object.keys(shows).filter((name) => shows[name]);
  const words = [chosen === null ? '' : `view=${chosen}`, ...on, channel === null ? '' : `channel=${channel}`];
  history.replaceState(null, '', `#${words.filter(Boolean).join('&')}`);
}

function recall() {
  const words = location.hash.slice(1).split('&').filter(Boolean);
  if (words.length === 0) {
    return;
  }
  for (const name of Object.keys(shows)) {
    shows[name] = words.includes(name);
  }
  const valueOf = (key) => words.find((word) => word.startsWith(`${key}=`))?.slice(key.length + 1) ?? '';
  chosen = VIEW_NAME.test(valueOf('view')) ? valueOf('view') : chosen;
  channel = CHANNEL_NAME.test(valueOf('channel')) ? valueOf('channel') : null;
}

function begin() {
  recall();
  byId('panes').append(...panes.map((pane) => pane.element));
  const { surface } = panes[0];
  surface.tabIndex = 0;
  surface.setAttribute('role', 'application');
  panes[1].surface.setAttribute('role', 'group');
  panes[1].surface.setAttribute('aria-label', 'The same budget spent uniformly');
  followPointer(surface);
  byId('give-back').addEventListener('click', giveBack);
  for (const button of document.querySelectorAll('[data-toggle]')) {
    button.addEventListener('click', () => toggle(button.dataset.toggle));
  }
  byId('channel').addEventListener('change', ({ target }) => {
    channel = target.value || null;
    watch();
    remember();
  });
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    if (event.key === 'Escape') {
      giveBack();
    } else if (!event.repeat && KEYS[event.key.toLowerCase()] !== undefined) {
      toggle(KEYS[event.key.toLowerCase()]);
    }
  });
  addEventListener('hashchange', () => {
    const before = chosen;
    recall();
    apply();
    if (chosen !== before) {
      choose(chosen);
    } else {
      watch();
      listChannels();
    }
  });
  setInterval(() => panes.forEach((pane) => pane.tick()), TICK_MS);
  apply();
  describe();
}

begin();
