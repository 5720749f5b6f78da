// The connection to `foveate web`: JSON in both directions, binary frames from the server. See docs/web.md.

const MAGIC = 0x31575646; // "FVW1"
const HEADER_BYTES = 88;
const RECORD_BYTES = 24;
const HELD = 0xffffffff;

const RETRY_FIRST_MS = 500;
const RETRY_MOST_MS = 5000;
const CLOSED_BECAUSE_FULL = 1013;

/** Keeps a connection to the server, and calls `message`, `frame`, `open` and `closed` of `listener`. */
export class Wire {
  #listener;
  #socket = null;
  #retryMs = RETRY_FIRST_MS;

  constructor(listener) {
    this.#listener = listener;
    this.#connect();
  }

  /** Sends a message if connected. */
  say(message) {
    if (this.#socket?.readyState === WebSocket.OPEN) {
      this.#socket.send(JSON.stringify(message));
    }
  }

  #connect() {
    const scheme = location.protocol === 'https:' ? 'wss:' : 'ws:';
    const socket = new WebSocket(`${scheme}//${location.host}/live`);
    socket.binaryType = 'arraybuffer';
    socket.onmessage = ({ data }) => {
      if (typeof data === 'string') {
        this.#retryMs = RETRY_FIRST_MS;
        this.#listener.message(JSON.parse(data));
      } else {
        this.#listener.frame(data);
      }
    };
    socket.onopen = () => this.#listener.open();
    socket.onclose = ({ code, reason }) => {
      this.#socket = null;
      this.#listener.closed(reason || 'foveate web does not answer: start it again, and this page goes on.');
      const wait = code === CLOSED_BECAUSE_FULL ? RETRY_MOST_MS : this.#retryMs;
      this.#retryMs = Math.min(2 * this.#retryMs, RETRY_MOST_MS);
      setTimeout(() => this.#connect(), wait);
    };
    this.#socket = socket;
  }
}

/** A reusable frame. The tokens are columns of a table, of which the first `count` rows are valid. */
export class Frame {
  count = 0;
  /** Whether it depends on no earlier frame. */
  isWhole = true;
  serial = 0;
  width = 0;
  height = 0;
  patchSide = 16;
  sentCount = 0;
  fixation = { id: 0, x: 0, y: 0 };
  frameSeq = 0;
  ageMs = 0;
  epoch = 0n;
  bytes = 0;
  /** `[sentCount, 3, P, P]`. */
  texels = new Uint8Array(0);

  constructor() {
    this.#reserve(512);
  }

  /** Whether the texels of token `index` come with this frame. */
  isSent(index) {
    return this.texelsAt[index] !== HELD;
  }

  /** The box of token `index` in source pixels: left, top, right, bottom. */
  box(index, out) {
    const texel = 2 ** this.level[index];
    out[0] = this.x[index] * texel;
    out[1] = this.y[index] * texel;
    out[2] = Math.min(out[0] + this.columns[index] * texel, this.width);
    out[3] = Math.min(out[1] + this.rows[index] * texel, this.height);
    return out;
  }

  /** Parses a packet; `paneOf` gives its picture. */
  read(buffer) {
    const view = new DataView(buffer);
    this.bytes = buffer.byteLength;
    this.isWhole = view.getUint8(5) === 1;
    this.patchSide = view.getUint16(6, true);
    this.serial = view.getUint32(8, true);
    this.count = view.getUint32(12, true);
    this.sentCount = view.getUint32(16, true);
    this.width = view.getUint32(20, true);
    this.height = view.getUint32(24, true);
    this.fixation = { id: view.getUint32(36, true), x: view.getFloat64(40, true), y: view.getFloat64(48, true) };
    this.frameSeq = Number(view.getBigUint64(56, true));
    this.ageMs = Number(view.getBigUint64(72, true)) / 1e6;
    this.epoch = view.getBigUint64(80, true);
    this.#reserve(this.count);
    for (let index = 0; index < this.count; index += 1) {
      const at = HEADER_BYTES + index * RECORD_BYTES;
      this.x[index] = view.getUint32(at, true);
      this.y[index] = view.getUint32(at + 4, true);
      this.level[index] = view.getUint16(at + 8, true);
      this.columns[index] = view.getUint8(at + 10);
      this.rows[index] = view.getUint8(at + 11);
      this.relevance[index] = view.getFloat32(at + 12, true);
      this.unchanged[index] = view.getUint32(at + 16, true);
      this.texelsAt[index] = view.getUint32(at + 20, true);
    }
    this.texels = new Uint8Array(buffer, HEADER_BYTES + this.count * RECORD_BYTES);
  }

  #reserve(count) {
    if (this.x && count <= this.x.length) {
      return;
    }
    this.x = new Uint32Array(count);
    this.y = new Uint32Array(count);
    this.level = new Uint16Array(count);
    this.columns = new Uint8Array(count);
    this.rows = new Uint8Array(count);
    this.relevance = new Float32Array(count);
    this.unchanged = new Uint32Array(count);
    this.texelsAt = new Uint32Array(count);
  }
}

/** The picture of a packet; -1 if this page cannot read it. */
export function paneOf(buffer) {
  const view = new DataView(buffer);
  const isPacket = HEADER_BYTES <= buffer.byteLength && view.getUint32(0, true) === MAGIC;
  return isPacket ? view.getUint8(4) : -1;
}
