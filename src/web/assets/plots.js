// Small line plots of the last minute. Drawn with each report, twice a second.

import { duration, latency, number, say } from './words.js';

const MINUTE_MS = 60_000;

/** More than the reports of a minute. */
const POINTS_MOST = 160;

/** The stages of a frame, in order, and what each does. */
const STAGES = {
  plan: 'decides where the tokens of views with layouts other than adaptive lie',
  change: 'compares the frame with what the pyramid was built from, tile by tile',
  upload: 'copies changed tiles to the device',
  ingest: 'builds the finest levels of the pyramid from changed tiles',
  features: 'sums up features of changed tiles, for the gaze and for events',
  reduce: 'builds the coarse levels of the pyramid',
  sample: 'samples tokens that have changed from the pyramid',
  collect: 'waits for the device and takes over its results',
  adapt: 'measures what coarser steps lose, and plans and samples the tokens of adaptive views',
  publish: 'completes the frame in the ring and wakes readers',
};
const STAGE_NAMES = Object.keys(STAGES);

/** Stages that the legend leaves out until they have run: those of a device, and of what few streams ask for. */
const RARE_STAGES = ['upload', 'features', 'collect'];

/** One plot: a name, the newest value as text, and one or two lines, or stacked areas. */
class Plot {
  #canvas = document.createElement('canvas');
  /** Not an output: what changes twice a second must not be spoken. */
  #value = document.createElement('span');
  #note = document.createElement('span');
  #points = [];
  #spec;
  element = document.createElement('article');

  constructor(spec) {
    this.#spec = spec;
    const title = document.createElement('h3');
    title.textContent = spec.title;
    this.element.title = spec.about;
    this.element.className = spec.stacked ? 'plot is-tall' : 'plot';
    this.element.dataset.plot = spec.key;
    this.#value.className = 'value';
    this.#note.className = 'note';
    this.#canvas.setAttribute('aria-hidden', 'true');
    this.element.append(title, this.#value, this.#note, this.#canvas);
    if (spec.stacked) {
      this.element.append(this.#legend(spec.stacked));
    }
    new ResizeObserver(() => this.draw()).observe(this.#canvas);
  }

  /** Adds the current values; `null` leaves a gap. */
  add(nowMs, values, words, note) {
    this.#points.push({ nowMs, values });
    while (POINTS_MOST < this.#points.length || this.#points[0].nowMs < nowMs - MINUTE_MS - 1000) {
      this.#points.shift();
    }
    say(this.#value, words);
    say(this.#note, note ?? '');
    for (const [index, span] of this.element.querySelectorAll('.legend b').entries()) {
      const value = values[index];
      span.parentElement.hidden &&= typeof value !== 'number';
      say(span, typeof value === 'number' ? value.toFixed(value < 0.995 ? 2 : 1) : '–');
    }
    this.draw(nowMs);
  }

  clear() {
    this.#points = [];
    say(this.#value, '–');
    say(this.#note, '');
    this.draw();
  }

  draw(nowMs = this.#points.at(-1)?.nowMs ?? 0) {
    const ratio = devicePixelRatio;
    const [width, height] = [this.#canvas.clientWidth * ratio, this.#canvas.clientHeight * ratio];
    if (width === 0) {
      return;
    }
    if (this.#canvas.width !== Math.round(width) || this.#canvas.height !== Math.round(height)) {
      this.#canvas.width = Math.round(width);
      this.#canvas.height = Math.round(height);
    }
    const context = this.#canvas.getContext('2d');
    context.clearRect(0, 0, width, height);
    const style = getComputedStyle(this.element);
    context.fillStyle = style.getPropertyValue('--line');
    context.fillRect(0, Math.round(height) - ratio, width, ratio);
    if (this.#points.length < 2) {
      return;
    }
    const most = this.#most();
    const at = (point, value) => [
      width * (1 - (nowMs - point.nowMs) / MINUTE_MS),
      (height - 2 * ratio) * (1 - value / most) + ratio,
    ];
    if (this.#spec.stacked) {
      this.#drawAreas(context, at, style);
    } else {
      this.#drawLines(context, at, style, height);
    }
  }

  /** The value at the top. */
  #most() {
    const of = ({ values }) => (this.#spec.stacked ? sum(values) : Math.max(...values.map((value) => value ?? 0)));
    return this.#spec.most ?? Math.max(this.#spec.least ?? 0, 1.15 * Math.max(...this.#points.map(of)), 1e-9);
  }

  #drawLines(context, at, style, height) {
    const colors = [style.getPropertyValue('--plot'), style.getPropertyValue('--plot-2')];
    for (let line = this.#points[0].values.length - 1; 0 <= line; line -= 1) {
      const points = this.#points.filter(({ values }) => typeof values[line] === 'number');
      if (points.length < 2) {
        continue;
      }
      context.beginPath();
      points.forEach((point) => context.lineTo(...at(point, point.values[line])));
      context.strokeStyle = colors[line];
      context.lineWidth = 1.5 * devicePixelRatio;
      context.lineJoin = 'round';
      context.stroke();
      if (line === 0) {
        context.lineTo(at(points.at(-1), 0)[0], height);
        context.lineTo(at(points[0], 0)[0], height);
        context.globalAlpha = 0.12;
        context.fillStyle = colors[0];
        context.fill();
        context.globalAlpha = 1;
      }
    }
  }

  #drawAreas(context, at, style) {
    const count = this.#spec.stacked.length;
    for (let layer = count - 1; 0 <= layer; layer -= 1) {
      context.beginPath();
      for (const point of this.#points) {
        context.lineTo(...at(point, sum(point.values.slice(0, layer + 1))));
      }
      context.lineTo(at(this.#points.at(-1), 0)[0], at(this.#points[0], 0)[1]);
      context.lineTo(...at(this.#points[0], 0));
      context.fillStyle = style.getPropertyValue(`--stage-${layer}`);
      context.fill();
    }
  }

  #legend(names) {
    const legend = document.createElement('ul');
    legend.className = 'legend';
    for (const [index, name] of names.entries()) {
      const item = document.createElement('li');
      item.className = `stage-${index}`;
      item.hidden = RARE_STAGES.includes(name);
      item.title = `${name}: ${STAGES[name]}`;
      const value = document.createElement('b');
      value.textContent = '–';
      item.append(name, value);
      legend.append(item);
    }
    return legend;
  }
}

/** All plots of the page. */
export class Plots {
  #plots = {};

  constructor(container) {
    const specs = [
      { key: 'fps', title: 'Frames a second', least: 10, about: 'Frames that the stream publishes' },
      { key: 'age', title: 'Age at a consumer', least: 10, about: 'From capture until the tokens are there to read, median' },
      { key: 'page-age', title: 'Age on this page', least: 10, about: 'From capture until now, of the picture on the screen' },
      { key: 'stages', title: 'Time per stage', stacked: STAGE_NAMES, least: 0.5, about: 'What a frame takes in the daemon' },
      { key: 'tiles', title: 'Tiles changed', most: 100, about: 'Tiles of 32 × 32 pixels that differ from the frame before' },
      { key: 'kept', title: 'Tokens kept', most: 100, about: 'Tokens that the frame before had at the same place with the same bytes' },
      { key: 'upload', title: 'Uploaded', least: 1, about: 'Bytes copied to the device, and what whole frames would take' },
      { key: 'drops', title: 'Frames dropped', least: 2, about: 'Frames that came while the one before was being processed' },
      { key: 'wire', title: 'To this page', least: 0.1, about: 'Bytes that this page receives' },
    ];
    for (const spec of specs) {
      this.#plots[spec.key] = new Plot(spec);
      container.append(this.#plots[spec.key].element);
    }
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.redraw());
  }

  /** Adds the current values: the daemon's `rates` of a stream, its listing, and the page's own counts, `seen`. */
  add(stream, seen) {
    const now = performance.now();
    const rates = stream.rates;
    const plots = this.#plots;
    plots.fps.add(now, [rates?.fps ?? null, seen.fps], number(rates?.fps, 1), `${number(seen.fps, 1)} on this page`);
    plots.age.add(now, [rates?.age_p50_ms ?? null], latency(rates?.age_p50_ms));
    plots['page-age'].add(now, [seen.ageMs], duration(seen.ageMs));
    const stages = STAGE_NAMES.map((name) => rates?.stages_ms[name] ?? null);
    plots.stages.add(
      now, stages, `${number(rates ? sum(stages) : null, 2)} ms`,
      `median ${stepTime(rates?.step_p50_ms)}, 99 %: ${stepTime(rates?.step_p99_ms)}`,
    );
    plots.tiles.add(now, [percent(rates?.dirty_share)], `${number(percent(rates?.dirty_share), 1)} %`);
    plots.kept.add(now, [percent(seen.keptShare)], `${number(percent(seen.keptShare), 1)} %`);
    const [uploaded, full] = [megabytes(rates?.uploaded_bytes_per_s), megabytes(rates?.full_bytes_per_s)];
    // Nothing is uploaded without a device.
    plots.upload.element.hidden = stream.backend === null || stream.backend.kind === 'cpu';
    plots.upload.add(now, [uploaded, full], `${number(uploaded, 2)} MB/s`, `whole frames: ${number(full, 1)} MB/s`);
    plots.drops.add(now, [rates?.dropped_per_s ?? null], `${number(rates?.dropped_per_s, 1)} /s`, `${stream.frames_dropped} in all`);
    plots.wire.add(now, [megabytes(seen.bytesPerSecond)], `${number(megabytes(seen.bytesPerSecond), 2)} MB/s`);
  }

  clear() {
    Object.values(this.#plots).forEach((plot) => plot.clear());
  }

  redraw() {
    Object.values(this.#plots).forEach((plot) => plot.draw());
  }
}

function stepTime(ms) {
  return typeof ms === 'number' && ms < 1000 ? `${ms.toFixed(2)} ms` : latency(ms);
}

function sum(values) {
  return values.reduce((total, value) => total + (value ?? 0), 0);
}

function percent(share) {
  return typeof share === 'number' ? 100 * share : null;
}

function megabytes(bytes) {
  return typeof bytes === 'number' ? bytes / 1e6 : null;
}

