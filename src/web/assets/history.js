// The past: pause, step, scrub and play what the server has in memory, or a recording; and save it.

import { Picture } from './picture.js';
import { Timeline, clock } from './timeline.js';
import { Frame, paneOf } from './wire.js';
import { frameCount, say } from './words.js';

const THUMBNAIL_PANE = 2;
const SAVED_PANE = 3;
const PIECE_MAGIC = 0x31445646; // "FVD1"
const PIECE_HEADER_BYTES = 8;

const SHIFT_STEP_MS = 1000;

/** Speeds of playing. */
const PACES = [[1, '1 ×'], [0.25, '¼ ×'], [4, '4 ×'], [16, '16 ×']];

/** Elements that take the space bar or arrow keys themselves. */
const OWN_KEYS = 'button, select, input, textarea, summary, a[href], [contenteditable]';

/** What arrow keys move while the picture has the focus, before they move the moment. */
const OVER_PICTURE = '#inspector:not([hidden]), #mask-editor:not([hidden])';

/** The controls of time in `element`. `say` sends a message to the server. */
export class Past {
  #element;
  #say;
  #timeline = new Timeline((ms) => this.seek(ms));
  #parts = {};
  /** The files that the page shows in place of a daemon, or null. */
  #recording = null;
  /** The frame that is shown, while the page is paused. */
  #moment = null;
  #extent = null;
  #memory = { bytes: 0, bytesMax: 0 };
  /** Difference of the server's clock and the page's. */
  #clockMs = 0;
  /** When playing began, and at which moment; null while it does not play. */
  #playing = null;
  /** Whether a request to move is on its way. */
  #isMoving = false;
  #wantedMs = null;
  #thumbnail = { frame: new Frame(), canvas: document.createElement('canvas'), asked: null };
  #thumbnailPicture = new Picture(this.#thumbnail.canvas);
  /** The newest moment when Record was pressed; null unless it goes on. */
  #recordedAfterMs = null;
  /** A recording that arrives: its name, size and pieces. */
  #saved = null;

  constructor(element, send) {
    this.#element = element;
    this.#say = send;
    this.#build();
    document.addEventListener('keydown', (event) => this.#press(event), true);
    this.#describe();
  }

  /** Whether an earlier moment is on the screen. */
  get isPaused() {
    return this.#moment !== null;
  }

  /** Messages of the server, by type. */
  handlers = {
    history: ({ extent, bytes, bytes_max: bytesMax, now_ms: nowMs }) => {
      this.#extent = extent;
      this.#memory = { bytes, bytesMax };
      this.#clockMs = nowMs - performance.now();
      this.#followRecord();
      this.#describe();
      this.#illustrate();
    },
    timeline: ({ entries, is_whole: isWhole }) => {
      this.#timeline.add(entries, isWhole);
      this.#describe();
      this.#illustrate();
    },
    moment: ({ type: _, ...moment }) => {
      const isFirst = this.#moment === null;
      this.#moment = moment;
      this.#isMoving = false;
      if (this.#recording !== null) {
        this.#timeline.fix(moment.from_ms, moment.to_ms);
      }
      document.body.classList.add('is-paused');
      if (isFirst) {
        this.#tell('');
        this.#illustrate();
      }
      this.#describe();
      this.#follow();
    },
    resumed: () => this.#forget(),
    thumbnail: ({ is_kept: isKept }) => {
      if (!isKept) {
        this.#thumbnail.asked = null;
        this.#illustrate();
      }
    },
    saving: ({ name, bytes, frames }) => {
      this.#saved = { name, bytes, frames, pieces: [], got: 0 };
    },
    history_error: ({ error }) => {
      this.#isMoving = false;
      this.#playing = null;
      this.#endSaving();
      this.#tell(error);
      this.#describe();
    },
  };

  /** Notes whether the page shows a recording, and what it may do. */
  greet({ recording, can_save: canSave }) {
    this.#recording = recording;
    document.body.classList.toggle('is-recording', recording !== null);
    this.#parts.save.hidden = !canSave;
    this.#parts.record.hidden = !canSave;
    this.#parts.live.hidden = recording !== null;
    this.#describe();
  }

  /** Takes a binary message if it is not a frame of the panes. */
  take(buffer) {
    const view = new DataView(buffer);
    if (PIECE_HEADER_BYTES <= buffer.byteLength && view.getUint32(0, true) === PIECE_MAGIC) {
      this.#takePiece(view.getUint32(4, true), buffer.slice(PIECE_HEADER_BYTES));
      return true;
    }
    if (paneOf(buffer) !== THUMBNAIL_PANE) {
      return false;
    }
    const { frame, canvas, asked } = this.#thumbnail;
    frame.read(buffer);
    this.#thumbnailPicture.paint(frame);
    if (asked !== null) {
      this.#timeline.illustrate(asked, canvas);
    }
    this.#thumbnail.asked = null;
    this.#illustrate();
    return true;
  }

  /** Another view is shown, or the server is gone. */
  clear() {
    this.#forget();
    this.#extent = null;
    this.#recordedAfterMs = null;
    this.#thumbnail.asked = null;
    this.#endSaving();
    this.#timeline.clear();
    this.#describe();
  }

  /** The masks have changed: small pictures may show what they hide. */
  forgetPictures() {
    this.#timeline.forgetPictures();
  }

  /** Shows the frame of a time. */
  seek(ms) {
    this.#playing = null;
    if (!this.#timeline.isKept(ms)) {
      this.#tell('This moment is not in memory any more.');
      return;
    }
    this.#move(ms);
  }

  /** Pauses a live page; plays a paused one, or stops that. */
  toggle() {
    if (this.#moment === null) {
      this.#say({ op: 'seek' });
    } else if (this.#playing === null) {
      const isAtEnd = this.#moment.index + 1 === this.#moment.frames;
      const fromMs = isAtEnd ? this.#moment.from_ms : this.#moment.at_ms;
      this.#playing = { sinceMs: performance.now(), fromMs };
      this.#follow();
    } else {
      this.#playing = null;
    }
    this.#describe();
  }

  step(by) {
    this.#playing = null;
    this.#say({ op: 'step', by });
    this.#describe();
  }

  live() {
    if (this.#recording === null && this.#moment !== null) {
      this.#say({ op: 'live' });
    }
  }

  #forget() {
    [this.#moment, this.#playing, this.#isMoving, this.#wantedMs] = [null, null, false, null];
    document.body.classList.remove('is-paused');
    this.#describe();
  }

  /** One request at a time; of those that come meanwhile, the newest wins. */
  #move(ms) {
    if (this.#isMoving) {
      this.#wantedMs = ms;
      return;
    }
    this.#wantedMs = null;
    this.#isMoving = true;
    this.#say({ op: 'seek', at: ms });
  }

  /** Goes to where playing has got to, or to what was asked for meanwhile. */
  #follow() {
    if (this.#wantedMs !== null) {
      this.#move(this.#wantedMs);
      return;
    }
    if (this.#playing === null || this.#moment === null || this.#isMoving) {
      return;
    }
    requestAnimationFrame(() => {
      if (this.#playing === null || this.#moment === null || this.#isMoving) {
        return;
      }
      const { sinceMs, fromMs } = this.#playing;
      const ms = fromMs + (performance.now() - sinceMs) * Number(this.#parts.pace.value);
      if (this.#moment.to_ms <= ms && this.#moment.index + 1 === this.#moment.frames) {
        this.#playing = null;
        this.#describe();
        return;
      }
      this.#move(Math.min(ms, this.#moment.to_ms));
    });
  }

  #build() {
    const button = (name, text, key, words) => {
      const element = document.createElement('button');
      element.type = 'button';
      element.dataset.past = name;
      element.textContent = text;
      if (words !== undefined) {
        element.setAttribute('aria-label', words);
        element.title = words;
      }
      if (key !== undefined) {
        element.setAttribute('aria-keyshortcuts', key[0]);
        element.append(Object.assign(document.createElement('kbd'), { textContent: key[1] }));
      }
      this.#parts[name] = element;
      return element;
    };
    const scrub = Object.assign(document.createElement('input'), { type: 'range', min: 0, max: 1, step: 1, value: 1 });
    scrub.setAttribute('aria-label', 'Moment on the screen');
    scrub.addEventListener('input', () => this.#scrub());
    const pace = document.createElement('select');
    pace.setAttribute('aria-label', 'Speed of playing');
    pace.append(...PACES.map(([value, textContent]) => Object.assign(document.createElement('option'), { value, textContent })));
    pace.addEventListener('change', () => {
      if (this.#playing !== null) {
        this.#playing = { sinceMs: performance.now(), fromMs: this.#moment.at_ms };
      }
    });
    const bar = document.createElement('div');
    bar.className = 'transport';
    bar.setAttribute('role', 'group');
    bar.setAttribute('aria-label', 'Pause and scrub');
    bar.append(
      button('toggle', 'Pause'), button('back', '‹', ['ArrowLeft', ''], 'One frame back'),
      button('on', '›', ['ArrowRight', ''], 'One frame on'), scrub, pace, button('live', 'Live', ['l', 'L']),
      button('record', 'Record'),
      button('save', 'Save MCAP', undefined, 'Save MCAP: a recording of what is in memory'),
    );
    this.#parts.toggle.setAttribute('aria-keyshortcuts', 'Space');
    this.#parts.record.title = 'Saves as MCAP what arrives until it is pressed again';
    const [state, words, told] = ['span', 'span', 'span'].map((tag) => document.createElement(tag));
    state.className = 'now';
    state.setAttribute('role', 'status');
    told.className = 'told';
    told.setAttribute('role', 'status');
    const line = document.createElement('p');
    line.className = 'when';
    line.append(state, words, told);
    const events = document.createElement('details');
    events.open = true;
    const summary = document.createElement('summary');
    summary.textContent = 'Events';
    events.append(summary, this.#timeline.list);
    Object.assign(this.#parts, { scrub, pace, state, words, told });
    this.#element.append(bar, line, this.#timeline.element, events);
    this.#parts.toggle.addEventListener('click', () => this.toggle());
    this.#parts.back.addEventListener('click', () => this.step(-1));
    this.#parts.on.addEventListener('click', () => this.step(1));
    this.#parts.live.addEventListener('click', () => this.live());
    this.#parts.record.addEventListener('click', () => this.#toggleRecord());
    this.#parts.save.addEventListener('click', () => this.#save());
  }

  /** Begins to record, or saves what has arrived since. */
  #toggleRecord() {
    if (this.#recordedAfterMs === null) {
      this.#recordedAfterMs = this.#extent.to_ms;
      this.#say({ op: 'record', after: this.#recordedAfterMs });
      this.#tell('Recording');
      this.#describe();
    } else {
      const after = this.#recordedAfterMs;
      this.#recordedAfterMs = null;
      this.#save({ after });
    }
  }

  /** Ends the recording once frames of it are no longer in memory. */
  #followRecord() {
    if (this.#recordedAfterMs === null) {
      return;
    }
    if (this.#extent === null) {
      this.#recordedAfterMs = null;
      this.#tell('The recording has ended: its frames are not in memory any more');
    } else if (this.#recordedAfterMs < this.#extent.whole_from_ms && !this.#parts.save.disabled) {
      this.#toggleRecord();
      this.#tell('The first frames are not in memory any more: making the recording of the others');
    }
  }

  #save(range) {
    this.#parts.save.disabled = true;
    this.#tell('Making the recording');
    this.#say({ op: 'save', ...range });
    this.#describe();
  }

  #endSaving() {
    this.#saved = null;
    this.#parts.save.disabled = false;
  }

  /** First and last time that can be shown; null without any. */
  #span() {
    const { from_ms: from, to_ms: to } = this.#moment ?? this.#extent ?? {};
    return from === undefined ? null : [from, to];
  }

  /** What can be shown: what the page holds while it is paused, and what has come since. */
  #reach() {
    const [held, kept] = [this.#moment, this.#extent];
    if (held === null || kept === null) {
      return held ?? kept;
    }
    return {
      from_ms: Math.min(held.from_ms, kept.from_ms),
      whole_from_ms: Math.max(held.whole_from_ms, kept.whole_from_ms),
      to_ms: Math.max(held.to_ms, kept.to_ms),
    };
  }

  #scrub() {
    const span = this.#span();
    if (span !== null) {
      this.#playing = null;
      this.#move(Math.min(span[0] + Number(this.#parts.scrub.value), span[1]));
    }
  }

  #press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) {
      return;
    }
    const { target, key } = event;
    const isScrub = target === this.#parts.scrub;
    const hasOwnKeys = !isScrub && target instanceof Element && target.closest(OWN_KEYS) !== null;
    const isOver = key.startsWith('Arrow') && document.activeElement?.closest('figure') && document.querySelector(OVER_PICTURE);
    if (hasOwnKeys || isOver) {
      return;
    }
    const taken = () => {
      event.preventDefault();
      event.stopPropagation();
    };
    if (key === ' ') {
      taken();
      if (!event.repeat) {
        this.toggle();
      }
    } else if (key.toLowerCase() === 'l' && this.#moment !== null) {
      taken();
      this.live();
    } else if (this.#moment !== null || isScrub) {
      const direction = { ArrowLeft: -1, ArrowRight: 1 }[key] ?? 0;
      const span = this.#span();
      if (direction !== 0) {
        taken();
        if (event.shiftKey && span !== null) {
          this.#playing = null;
          const ms = (this.#moment?.at_ms ?? span[1]) + direction * SHIFT_STEP_MS;
          this.#move(Math.min(Math.max(ms, span[0]), span[1]));
        } else {
          this.step(direction);
        }
      } else if ((key === 'Home' || key === 'End') && span !== null) {
        taken();
        this.#playing = null;
        this.#move(span[key === 'Home' ? 0 : 1]);
      } else if (key === 'ArrowUp' || key === 'ArrowDown') {
        // A paused page does not steer.
        taken();
      }
    }
  }

  /** Asks for the small picture of an event that has none, one after the other. */
  #illustrate() {
    if (this.#thumbnail.asked !== null) {
      return;
    }
    const { pending } = this.#timeline;
    if (pending !== undefined) {
      pending.thumbnail.dataset.asked = 'yes';
      this.#thumbnail.asked = pending;
      this.#say({ op: 'thumbnail', at: pending.entry.at_ms });
    }
  }

  #takePiece(serial, piece) {
    const saved = this.#saved;
    if (saved === null) {
      return;
    }
    this.#say({ op: 'ack', pane: SAVED_PANE, serial });
    if (0 < piece.byteLength) {
      saved.pieces.push(piece);
      saved.got += piece.byteLength;
      this.#tell(`Saving, ${Math.floor((100 * saved.got) / Math.max(saved.bytes, 1))} %`);
      return;
    }
    this.#endSaving();
    const link = document.createElement('a');
    link.href = URL.createObjectURL(new Blob(saved.pieces, { type: 'application/octet-stream' }));
    const stamp = new Date(performance.now() + this.#clockMs).toISOString().slice(0, 19).replaceAll(/[-:]/g, '');
    link.download = `${saved.name}-${stamp}.mcap`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    this.#tell(`Saved ${link.download}: ${frameCount(saved.frames)}, ${megabytes(saved.got)}`);
    this.#describe();
  }

  #tell(text) {
    say(this.#parts.told, text);
    this.#parts.told.title = text;
  }

  /** Puts the state on the screen. */
  #describe() {
    const { toggle, back, on, scrub, live, record, state, words } = this.#parts;
    const [moment, span] = [this.#moment, this.#span()];
    const [isPlaying, isSaving] = [this.#playing !== null, this.#parts.save.disabled];
    say(toggle, moment === null || isPlaying ? 'Pause' : 'Play');
    say(state, moment === null ? 'Live' : isPlaying ? 'Playing' : 'Paused');
    this.#element.dataset.past = state.textContent.toLowerCase();
    live.disabled = moment === null;
    const isEmpty = span === null;
    toggle.disabled = isEmpty;
    say(record, this.#recordedAfterMs === null ? 'Record' : 'Stop');
    record.disabled = isSaving || this.#extent === null;
    scrub.disabled = isEmpty;
    back.disabled = isEmpty || moment?.index === 0;
    on.disabled = moment === null || moment.index + 1 === moment.frames;
    if (moment === null) {
      say(words, this.#recordText() + this.#memoryText());
      scrub.max = isEmpty ? 1 : Math.ceil(span[1] - span[0]);
      scrub.value = scrub.max;
      scrub.setAttribute('aria-valuetext', 'Live');
    } else {
      const text = this.#recordText() + this.#momentText(moment);
      say(words, text);
      scrub.max = Math.max(Math.ceil(moment.to_ms - moment.from_ms), 1);
      scrub.value = Math.round(moment.at_ms - moment.from_ms);
      scrub.setAttribute('aria-valuetext', text);
      Object.assign(this.#element.dataset, { frame: moment.frame_seq, index: moment.index, frames: moment.frames });
    }
    this.#timeline.show(this.#reach(), this.#clockMs + performance.now(), moment?.at_ms ?? null);
  }

  #recordText() {
    const afterMs = this.#recordedAfterMs;
    return afterMs === null ? '' : `Recording ${Math.round(Math.max(this.#extent.to_ms - afterMs, 0) / 1000)} s · `;
  }

  #momentText(moment) {
    const seconds = (ms) => `${(ms / 1000).toFixed(1)} s`;
    const place = this.#recording === null
      ? `${seconds(this.#clockMs + performance.now() - moment.at_ms)} ago`
      : `${seconds(moment.at_ms - moment.from_ms)} of ${seconds(moment.to_ms - moment.from_ms)}`;
    const parts = [clock(moment.at_ms, 3), place, `frame ${moment.frame_seq} (${moment.index + 1} of ${moment.frames})`];
    if (0 < moment.missed) {
      parts.push(`${moment.missed} before it missed`);
    }
    if (0 < moment.left_out) {
      parts.push(`${moment.left_out} before it left out`);
    }
    return parts.join(' · ');
  }

  #memoryText() {
    const { bytes, bytesMax } = this.#memory;
    if (this.#extent === null) {
      return bytesMax === 0 ? 'Nothing is kept in memory' : 'Nothing in memory yet';
    }
    const { from_ms: from, whole_from_ms: whole, to_ms: to, left_out: leftOut, missed } = this.#extent;
    const seconds = (ms) => Math.round((to - ms) / 1000);
    const parts = [`${seconds(from)} s in memory`, `${megabytes(bytes)} of ${megabytes(bytesMax)}`];
    if (0 < leftOut) {
      parts[0] += `, the last ${seconds(whole)} s whole`;
      parts.push(`${frameCount(leftOut)} left out`);
    }
    if (0 < missed) {
      parts.push(`${frameCount(missed)} missed`);
    }
    return parts.join(' · ');
  }
}

function megabytes(bytes) {
  return `${(bytes / 2 ** 20).toFixed(bytes < 10 * 2 ** 20 ? 1 : 0)} MiB`;
}
