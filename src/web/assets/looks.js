// Looks: clicks, drags and keys over the picture that move the gaze of the view.

/** Least interval of looks while the pointer is dragged, in ms: within a client's rate limit. */
const LOOK_INTERVAL_MS = 33;

/** Arrow keys move the gaze by this share of the picture's longer side, with Shift by more. */
const STEP = 0.02;
const STEP_WITH_SHIFT = 0.1;

/** The first box of the keys, as a share of the sides, and by how much a key changes it. */
const BOX_SHARE = 0.3;
const BOX_FACTOR = 1.25;

/** The least side of a box, as a share of the picture's: less is a click that trembled. */
const BOX_LEAST = 0.01;

/** As the daemon has it. */
const POINTS_MOST = 8;

/** Points, or a box, that the page has asked a view to look at. */
export class Looks {
  /** Whether the view has obeyed. */
  isHolding = false;
  #pane;
  #ask;
  #changed;
  /** All points that were asked for, in source pixels. */
  #points = [];
  /** Left, top, right, bottom in source pixels; null without one. */
  #box = null;
  /** Where the box that is being drawn began, in shares of the sides. */
  #from = null;
  #askedMs = 0;

  /** Over `pane`; `ask` is called with messages for the server, and `changed` when the gaze is held or no longer. */
  constructor(pane, ask, changed) {
    this.#pane = pane;
    this.#ask = ask;
    this.#changed = changed;
  }

  /** Whether there is anything to give back. */
  get isAsked() {
    return this.isHolding || 0 < this.#points.length || this.#box !== null;
  }

  /** The box that is being drawn or was asked for, to draw over the picture. */
  get marks() {
    if (this.#box === null) {
      return [];
    }
    const { width, height } = this.#pane.frame;
    const [left, top, right, bottom] = this.#box.map((side, index) => side / (index % 2 === 0 ? width : height));
    const points = [[left, top], [right, top], [right, bottom], [left, bottom]];
    return [{ points, isClosed: true, hasHandles: false }];
  }

  press(event) {
    const point = this.#pane.pixelAt(event.clientX, event.clientY);
    if (event.altKey) {
      this.#from = point;
      return;
    }
    this.#box = null;
    this.#points = event.shiftKey ? [...this.#points, point].slice(-POINTS_MOST) : [point];
    this.#look();
  }

  move(event) {
    const point = this.#pane.pixelAt(event.clientX, event.clientY);
    if (this.#from !== null) {
      this.#box = boxOf(this.#from, point);
      this.#changed();
    } else if (0 < this.#points.length && LOOK_INTERVAL_MS <= performance.now() - this.#askedMs) {
      this.#points[this.#points.length - 1] = point;
      this.#look();
    }
  }

  lift(event) {
    const end = this.#pane.pixelAt(event.clientX, event.clientY);
    if (this.#from !== null) {
      const box = boxOf(this.#from, end);
      this.#from = null;
      this.#over(box);
      return;
    }
    const last = this.#points.at(-1);
    if (last !== undefined && 1 < Math.hypot(last.x - end.x, last.y - end.y)) {
      this.#points[this.#points.length - 1] = end;
      this.#look();
    }
  }

  /** Ends a press that the browser took for something else. */
  cancel() {
    if (this.#from !== null) {
      this.#from = null;
      this.#box = null;
      this.#changed();
    }
  }

  /** Moves the last point, or the box. */
  step([dx, dy], isFar) {
    const { width, height } = this.#pane.frame;
    const pixels = (isFar ? STEP_WITH_SHIFT : STEP) * Math.max(width, height);
    if (this.#box !== null) {
      const [left, top, right, bottom] = this.#box;
      const across = Math.min(Math.max(dx * pixels, -left), width - right);
      const down = Math.min(Math.max(dy * pixels, -top), height - bottom);
      this.#over([left + across, top + down, right + across, bottom + down]);
      return;
    }
    const from = this.#points.at(-1) ?? this.#pane.frame.fixations[0];
    if (from !== undefined) {
      const point = { x: inside(from.x + dx * pixels, width), y: inside(from.y + dy * pixels, height) };
      this.#points = [...this.#points.slice(0, -1), point];
      this.#look();
    }
  }

  /** Keeps the last point where it is; the arrow keys then move another one. */
  keep() {
    const last = this.#points.at(-1);
    if (last !== undefined && this.#points.length < POINTS_MOST) {
      this.#points.push({ ...last });
    }
  }

  /** Makes a box around the gaze, or the box larger or smaller. */
  scaleBox(isLarger) {
    const { width, height, fixations } = this.#pane.frame;
    const center = this.#points.at(-1) ?? fixations[0] ?? { x: width / 2, y: height / 2 };
    let [x, y, across, down] = [center.x, center.y, BOX_SHARE * width, BOX_SHARE * height];
    if (this.#box !== null) {
      const [left, top, right, bottom] = this.#box;
      const factor = isLarger ? BOX_FACTOR : 1 / BOX_FACTOR;
      [x, y] = [(left + right) / 2, (top + bottom) / 2];
      [across, down] = [factor * (right - left), factor * (bottom - top)];
    }
    this.#over([
      inside(x - across / 2, width), inside(y - down / 2, height), inside(x + across / 2, width), inside(y + down / 2, height),
    ]);
  }

  /** The view has obeyed; gives what to say. */
  obeyed(points) {
    this.isHolding = true;
    const [{ x, y }] = points.map(([left, top]) => ({ x: Math.round(left), y: Math.round(top) }));
    if (this.#box !== null) {
      const [left, top, right, bottom] = this.#box.map(Math.round);
      return `Looks at the box ${left}, ${top} to ${right}, ${bottom}, until you release the gaze.`;
    }
    const more = points.length === 1 ? '' : ` and ${points.length - 1} more`;
    return `Looks at ${x}, ${y}${more}, until you release the gaze.`;
  }

  /** The view has refused. Of several points it may look at fewer; returns whether that was asked for. */
  refused() {
    if (this.#points.length < 2) {
      return false;
    }
    this.#points.pop();
    this.#look();
    return true;
  }

  /** Forgets what was asked for. */
  forget() {
    this.isHolding = false;
    this.#points = [];
    this.#box = null;
    this.#from = null;
    this.#pane.targets = [];
    this.#changed();
  }

  #over(box) {
    const { width, height } = this.#pane.frame;
    const [left, top, right, bottom] = box;
    if (right - left < BOX_LEAST * width || bottom - top < BOX_LEAST * height) {
      this.#box = null;
      this.#changed();
      return;
    }
    this.#points = [];
    this.#box = box;
    this.#pane.targets = [];
    this.#send({ op: 'look', box });
  }

  #look() {
    this.#pane.targets = [...this.#points];
    this.#send({ op: 'look', points: this.#points.map(({ x, y }) => [x, y]) });
  }

  #send(message) {
    this.#askedMs = performance.now();
    this.#ask(message);
    this.#changed();
  }
}

function boxOf(one, other) {
  return [Math.min(one.x, other.x), Math.min(one.y, other.y), Math.max(one.x, other.x), Math.max(one.y, other.y)];
}

function inside(at, length) {
  return Math.min(Math.max(at, 0), length);
}
