// The page: connects the server's messages with the elements on the screen.

import { Grid, isThumbnails } from './grid.js';
import { Inspector } from './inspector.js';
import { Looks } from './looks.js';
import { MaskEditor } from './drawing.js';
import { Past } from './history.js';
import { Pane } from './pane.js';
import { Plots } from './plots.js';
import { Streams } from './streams.js';
import { Wire, paneOf } from './wire.js';
import { rankColor, rankName, rankOf } from './overlay.js';
import { say, short } from './words.js';

/** Interval of updates of a still picture's age. */
const TICK_MS = 500;

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const KEYS = { b: 'boxes', c: 'changes', r: 'relevance', g: 'gaze', u: 'compare', i: 'inspect' };

/** A view's name. Anything else in an address is ignored. */
const VIEW_NAME = /^[a-z0-9_-]{1,63}\/[a-z0-9_-]{1,63}$/;

const CHANNEL_NAME = /^[a-z0-9_-]{1,31}$/;

const byId = (id) => document.getElementById(id);

/** The choices in the page's address: #view=camera/main&boxes&gaze&channel=strokes */
const shows = { boxes: false, changes: false, relevance: false, gaze: true, compare: false, inspect: false };
let chosen = null;
/** Name of the channel over the picture, and of those that the view publishes. */
let channel = null;
let channels = [];
let streams = [];
let isReadOnly = false;
let mayMask = false;
/** Whether the server has not said anything yet. */
let isFresh = true;

/** The page's own counts since the last report. */
const seen = { frames: 0, bytes: 0, tokens: 0, kept: 0, sinceMs: performance.now() };

const panes = [new Pane(shows), new Pane(shows, false)];
const plots = new Plots(byId('plots'));
const list = new Streams(byId('streams'), (name) => open(name));
const grid = new Grid(byId('tiles'), byId('grid-says'), (name) => open(name), (views) => wire.say({ op: 'thumbnails', views }));
const looks = new Looks(panes[0], (message) => wire.say(message), showLooks);
const inspector = new Inspector(byId('inspector'), ({ x, y }) => wire.say({ op: 'inspect', x, y }), markToken);
const mask = new MaskEditor(byId('mask-editor'), (message) => wire.say(message), showMarks);
const past = new Past(byId('past'), (message) => wire.say(message));
const waiting = new Set();
/** Whether the next answer is to a look without the point that was refused: its refusal stays on the screen. */
let isCorrected = false;
/** The box of the token that is inspected, in source pixels. */
let markedBox = null;

const wire = new Wire({
  open() {
    setDaemon('starting', 'Connected');
    watch();
    grid.ask();
  },
  closed(reason) {
    setDaemon('lost', 'Disconnected');
    letGo();
    grid.show([], reason);
    past.clear();
    panes.forEach((pane) => pane.setState('lost', reason, null));
    document.body.classList.remove('is-loading');
  },
  message: (message) => handlers[message.type]?.(message),
  frame(buffer) {
    if (isThumbnails(buffer)) {
      requestAnimationFrame(() => {
        grid.paint(buffer);
        wire.say({ op: 'ack_thumbnails' });
      });
      return;
    }
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
  hello({ view, read_only: readOnly, masks, ...others }) {
    isReadOnly = readOnly;
    mayMask = masks;
    past.greet(others);
    document.body.classList.toggle('is-read-only', readOnly);
    if (isFresh && chosen === null && view !== null) {
      choose(view);
    }
    isFresh = false;
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
    chooseFirst();
    grid.show(streams, report.error);
    list.show(streams, chosen);
    byId('streams').classList.toggle('is-empty', streams.length === 0);
    describe();
    addNumbers();
    inspector.again();
    document.body.classList.remove('is-loading');
  },
  state({ pane, state, reason, age_ms: ageMs }) {
    panes[pane].setState(state, reason, ageMs);
  },
  channels({ names }) {
    channels = names;
    listChannels();
  },
  looking({ points }) {
    const words = looks.obeyed(points);
    if (!isCorrected) {
      tell(words);
    }
    isCorrected = false;
    showLooks();
  },
  token({ token }) {
    inspector.take(token, chosenStream()?.rates?.fps ?? null);
  },
  masked({ reason }) {
    mask.tell(reason === null ? 'Done: the views show it.' : `Done, from the next frame on: ${reason}`);
  },
  released() {
    letGo();
    tell('The view looks where its policy says.');
  },
  mask_refused({ error }) {
    if (mask.isOpen) {
      mask.tell(error);
    } else {
      tell(error, true);
    }
  },
  refused({ error }) {
    isCorrected = looks.refused();
    if (!isCorrected) {
      letGo();
    }
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
    if (past.isPaused) {
      inspector.again();
    }
  }
  waiting.clear();
  panes.forEach((pane, index) => pane.setCaption(caption(index)));
}

function count(pane) {
  seen.bytes += pane.frame.bytes;
  if (pane === panes[0]) {
    seen.frames += 1;
    seen.tokens += pane.frame.isWhole ? 0 : pane.frame.count;
    seen.kept += pane.frame.isWhole ? 0 : pane.frame.count - pane.frame.sentCount;
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
      keptShare: 0 < seen.tokens ? seen.kept / seen.tokens : null,
    });
  }
  Object.assign(seen, { frames: 0, bytes: 0, tokens: 0, kept: 0, sinceMs: now });
}

const groupItems = [];

/** The token count of each step, ring, window or block, as the legend of the boxes' colours. */
function countGroups({ frame, layout }) {
  const counts = [];
  for (let index = 0; index < frame.count; index += 1) {
    const rank = rankOf(frame, index, layout);
    counts[rank] = (counts[rank] ?? 0) + 1;
  }
  while (groupItems.length < counts.length) {
    const item = document.createElement('li');
    item.append('', document.createElement('b'));
    item.style.setProperty('--group', rankColor(groupItems.length));
    groupItems.push(item);
    byId('groups').append(item);
  }
  for (const [rank, item] of groupItems.entries()) {
    const [name, count] = item.childNodes;
    say(name, `${rankName(rank, layout, frame)} `);
    say(count, String(counts[rank] ?? 0));
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

/** Opens a view from a list, so that the browser's way back leads to what was shown before. */
function open(name) {
  const { hash } = location;
  choose(name);
  if (location.hash !== hash) {
    const { hash: opened } = location;
    history.replaceState(null, '', hash || '#');
    history.pushState(null, '', opened);
  }
  showDrawer(false);
  byId('stage').focus({ preventScroll: true });
}

/** The one view that there is to choose, or the start page. */
function chooseFirst() {
  const [first] = streams;
  if (chosen === null && streams.length === 1 && 0 < first.views.length && !grid.isOpen) {
    choose(first.views[0].name);
  }
  showGrid(chosen === null && (grid.isOpen || 1 < streams.length));
}

function showGrid(isOpen) {
  byId('grid').hidden = !isOpen;
  document.body.classList.toggle('is-grid', isOpen);
  if (grid.isOpen !== isOpen) {
    grid.isOpen = isOpen;
  }
}

/** Leaves the view for the start page. */
function goHome() {
  chosen = null;
  clearView();
  wire.say({ op: 'watch', view: null });
  chooseFirst();
  list.show(streams, chosen);
  describe();
}

function choose(name) {
  chosen = name;
  clearView();
  showGrid(false);
  watch();
  remember();
  list.show(streams, chosen);
  describe();
}

/** Removes what the screen shows of the view before. */
function clearView() {
  past.clear();
  waiting.clear();
  panes.forEach((pane) => pane.clear());
  groupItems.length = 0;
  channels = [];
  listChannels();
  byId('groups').replaceChildren();
  letGo();
  inspector.clear();
  closeMask();
  tell('');
  plots.clear();
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
    isReadOnly ? '' : 'Click, or move with the arrow keys, to look; Enter keeps a place and adds another, plus and minus make a box; '
      + 'Escape gives the gaze back.'}`);
  const holder = view?.steering.holder;
  byId('stage').dataset.steered = looks.isHolding ? 'here' : holder ? 'elsewhere' : '';
}

/** Draws masks that are new or have moved. */
function showMasks(masks) {
  const text = JSON.stringify(masks);
  for (const pane of panes) {
    if (pane.element.dataset.masks !== text) {
      past.forgetPictures();
      pane.element.dataset.masks = text;
      pane.masks = masks;
      pane.redraw();
    }
  }
}

function caption(index) {
  const { frame, layout } = panes[index];
  if (frame.count === 0) {
    return '\u00a0';
  }
  const name = layout || 'view';
  const finest = frame.finest();
  const [across, down] = [frame.tokenWidth(finest), frame.tokenHeight(finest)].map((side) => short(side / frame.patchSide));
  const kept = frame.isOfCanvas ? ', canvas' : '';
  const words = `${name[0].toUpperCase()}${name.slice(1)}${kept}, ${frame.count} tokens, finest texel ${across} × ${down}`;
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

// Steering, inspecting and drawing over the picture

function maySteer() {
  return !isReadOnly && !past.isPaused && panes[0].isPainted;
}

/** Shows what was asked for. */
function showLooks() {
  byId('give-back').disabled = !looks.isHolding;
  showMarks();
}

function giveBack() {
  if (looks.isAsked) {
    wire.say({ op: 'release' });
  }
}

function letGo() {
  looks.forget();
}

function markToken(box) {
  markedBox = box;
  showMarks();
}

/** Draws the box that is looked at, the token that is inspected, and the mask that is drawn. */
function showMarks() {
  const [pane] = panes;
  const { width, height } = pane.frame;
  const token = [];
  if (markedBox !== null) {
    const [left, top, right, bottom] = markedBox.map((side, index) => side / (index % 2 === 0 ? width : height));
    token.push({ points: [[left, top], [right, top], [right, bottom], [left, bottom]], isClosed: true, hasHandles: false });
  }
  pane.marks = [...looks.marks, ...token, ...mask.marks];
  pane.redraw();
}

function openMask() {
  mask.open(chosenStream()?.masks ?? [], mayMask);
  byId('mask').setAttribute('aria-pressed', 'true');
  panes[0].surface.focus({ preventScroll: true });
  byId('mask-editor').scrollIntoView({ block: 'nearest' });
}

function closeMask() {
  mask.close();
  byId('mask').setAttribute('aria-pressed', 'false');
}

function toggleMask() {
  if (mask.isOpen) {
    closeMask();
  } else if (panes[0].isPainted) {
    openMask();
  }
}

/** How much of each side of the picture a pixel of the screen is. */
function unitOf(surface) {
  const { width, height } = surface.getBoundingClientRect();
  return [1 / width, 1 / height];
}

function followPointer(surface) {
  const [pane] = panes;
  const pixel = (event) => pane.pixelAt(event.clientX, event.clientY);
  surface.addEventListener('pointerdown', (event) => {
    if (event.button !== 0) {
      return;
    }
    if (mask.isOpen) {
      surface.setPointerCapture(event.pointerId);
      mask.press(pane.shareAt(event.clientX, event.clientY), unitOf(surface));
    } else if (shows.inspect) {
      inspector.at(pixel(event));
    } else if (maySteer()) {
      surface.setPointerCapture(event.pointerId);
      looks.press(event);
    }
  });
  surface.addEventListener('pointermove', (event) => {
    if (mask.isOpen) {
      mask.move(pane.shareAt(event.clientX, event.clientY));
    } else if (shows.inspect) {
      inspector.at(pixel(event), true);
    } else if (event.buttons === 1 && maySteer()) {
      looks.move(event);
    }
  });
  surface.addEventListener('pointerup', (event) => {
    mask.lift();
    if (event.button === 0 && !mask.isOpen && !shows.inspect && maySteer()) {
      looks.lift(event);
    }
  });
  surface.addEventListener('pointercancel', () => {
    mask.lift();
    looks.cancel();
  });
  surface.addEventListener('keydown', (event) => {
    const arrow = ARROWS[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    const press = arrow === undefined ? actionOf(event.key) : () => move(arrow, event.shiftKey);
    if (press !== undefined) {
      event.preventDefault();
      press();
    }
  });
}

/** What an arrow key moves. */
function move(arrow, isFar) {
  const [{ frame }] = panes;
  if (mask.isOpen) {
    mask.step(arrow, isFar);
  } else if (shows.inspect) {
    inspector.step(arrow, frame.width, frame.height);
  } else if (maySteer()) {
    looks.step(arrow, isFar);
  }
}

/** What another key does while the picture has the focus. */
function actionOf(key) {
  if (mask.isOpen) {
    return { Enter: () => mask.enter(), Backspace: () => mask.undo() }[key];
  }
  if (shows.inspect || !maySteer()) {
    return undefined;
  }
  return { Enter: () => looks.keep(), '+': () => looks.scaleBox(true), '-': () => looks.scaleBox(false) }[key];
}

/** Closes what lies over the picture, or gives the gaze back. */
function escape() {
  if (byId('drawer').getAttribute('aria-expanded') === 'true') {
    showDrawer(false);
    byId('drawer').focus();
  } else if (mask.isOpen) {
    closeMask();
    byId('mask').focus();
  } else if (inspector.isPinned) {
    inspector.clear();
  } else {
    giveBack();
  }
}

async function save() {
  const [{ frame, isPainted }] = panes;
  const file = isPainted ? await panes[0].save() : null;
  if (file === null) {
    tell('There is no picture to save.', true);
    return;
  }
  const link = document.createElement('a');
  link.href = URL.createObjectURL(file);
  link.download = `${chosen.replace('/', '-')}-${frame.frameSeq}.png`;
  link.click();
  URL.revokeObjectURL(link.href);
  tell(`Saved ${link.download}.`);
}

/** The streams, which a narrow screen shows on request. */
function showDrawer(isOpen) {
  byId('drawer').setAttribute('aria-expanded', String(isOpen));
  byId('nav').classList.toggle('is-open', isOpen);
  if (isOpen) {
    byId('nav').querySelector('button')?.focus();
  }
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
  if (inspector.isOpen !== shows.inspect) {
    inspector.isOpen = shows.inspect;
    byId('inspector').scrollIntoView({ block: 'nearest' });
  }
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
    chosen = null;
    return;
  }
  for (const name of Object.keys(shows)) {
    shows[name] = words.includes(name);
  }
  const valueOf = (key) => words.find((word) => word.startsWith(`${key}=`))?.slice(key.length + 1) ?? '';
  chosen = VIEW_NAME.test(valueOf('view')) ? valueOf('view') : null;
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
  byId('mask').addEventListener('click', toggleMask);
  byId('save').addEventListener('click', save);
  byId('drawer').addEventListener('click', () => showDrawer(!byId('nav').classList.contains('is-open')));
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
    const key = event.key.toLowerCase();
    if (event.key === 'Escape') {
      escape();
    } else if (!event.repeat && chosen !== null && !isTyping(event.target)) {
      (KEYS[key] === undefined ? { m: toggleMask, s: save }[key] : () => toggle(KEYS[key]))?.();
    }
  });
  addEventListener('hashchange', () => {
    const before = chosen;
    recall();
    apply();
    if (chosen === null) {
      goHome();
    } else if (chosen !== before) {
      choose(chosen);
    } else {
      watch();
      listChannels();
    }
  });
  setInterval(() => {
    panes.forEach((pane) => pane.tick());
    grid.tick();
  }, TICK_MS);
  apply();
  describe();
}

/** Whether keys are text there. */
function isTyping(element) {
  return element.matches?.('input, textarea, select') ?? false;
}

begin();
