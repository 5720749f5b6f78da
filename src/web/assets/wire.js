// The connection to `foveate web`: JSON in both directions, binary frames from the server. See src/web/packet.rs.

const MAGIC = 0x33575646; // "FVW3"
const HEADER_BYTES = 80; // and the fixations
const FIXATION_BYTES = 20;
const RECORD_BYTES = 36;

const FIXATIONS_MOST = 8;
const PATCH_SIDE_MOST = 1024;
const SOURCE_SIDE_MOST = 16384;
const CELLS_MOST = 128;

/** Side of the tiles that change detection works on, in source pixels. */
export const TILE_SIDE = 32;

/** Flags of a packet. */
const WHOLE = 1;
const OF_CANVAS = 2;

const RETRY_FIRST_MS = 500;
const RETRY_MOST_MS = 5000;
const CLOSED_BECAUSE_FULL = 1013;
/** Another page has replaced this one, or its address lacks the token: only the user can go on. */
const CLOSED_FOR_GOOD = [4001, 4003];

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
    const socket = new WebSocket(`${scheme}//${location.host}/live${location.search}`);
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
      if (CLOSED_FOR_GOOD.includes(code)) {
        return;
      }
      const wait = code === CLOSED_BECAUSE_FULL ? RETRY_MOST_MS : this.#retryMs;
      this.#retryMs = Math.min(2 * this.#retryMs, RETRY_MOST_MS);
      setTimeout(() => this.#connect(), wait);
    };
    this.#socket = socket;
  }
}

/** What is known of each token: see the records in src/web/packet.rs. */
const COLUMNS = {
  x: Int32Array,
  y: Int32Array,
  sx: Uint16Array,
  sy: Uint16Array,
  extraWidth: Uint8Array,
  extraHeight: Uint8Array,
  firstColumn: Uint16Array,
  columns: Uint16Array,
  firstRow: Uint16Array,
  rows: Uint16Array,
  group: Uint16Array,
  relevance: Float32Array,
  unchanged: Uint32Array,
  texelsAt: Uint32Array,
};

/** A frame, filled again by each packet. The tokens are columns of a table, of which the first `count` rows are valid. */
export class Frame {
  count = 0;
  /** Whether it depends on no earlier frame. */
  isWhole = true;
  /** Whether its view is for a canvas. */
  isOfCanvas = false;
  serial = 0;
  width = 0;
  height = 0;
  patchSide = 16;
  sentCount = 0;
  /** Of all tokens. */
  greatestGroup = 0;
  /** Where the view looks, the most important first. */
  fixations = [];
  frameSeq = 0;
  ageMs = 0;
  epoch = 0n;
  bytes = 0;
  /** `[sentCount, 3, P, P]`. */
  texels = new Uint8Array(0);
  /** Columns, rows and side of the cells of the channel that came along; zeros without one. */
  cellColumns = 0;
  cellRows = 0;
  cellSide = 0;
  /** `[cellRows, cellColumns]`, from the least to the greatest value that the channel may have. */
  cells = new Uint8Array(0);
  /** A bit for each tile, row by row, the lowest first: whether it has changed since the frame before; of a canvas. */
  tiles = new Uint8Array(0);

  constructor() {
    this.#reserve(512);
  }

  /** Whether the texels of token `index` come with this frame. */
  isSent(index) {
    return this.texelsAt[index] < this.sentCount;
  }

  /** The box of token `index` in source pixels: left, top, right, bottom. Empty if it lies outside. */
  box(index, out) {
    out[0] = inside(this.x[index], this.width);
    out[1] = inside(this.y[index], this.height);
    out[2] = inside(this.x[index] + this.tokenWidth(index), this.width);
    out[3] = inside(this.y[index] + this.tokenHeight(index), this.height);
    return out;
  }

  /** Source pixels under token `index` along a row, those outside the source included. */
  tokenWidth(index) {
    return this.patchSide * this.sx[index] + this.extraWidth[index];
  }

  /** The same down a column. */
  tokenHeight(index) {
    return this.patchSide * this.sy[index] + this.extraHeight[index];
  }

  /** The smallest token. */
  finest() {
    let finest = 0;
    for (let index = 1; index < this.count; index += 1) {
      finest = this.#area(index) < this.#area(finest) ? index : finest;
    }
    return finest;
  }

  /** The tokens so that finer ones come after coarser ones, which they may lie over. */
  coarseToFine() {
    const indices = Uint32Array.from({ length: this.count }, (_, index) => index);
    return indices.sort((one, other) => this.#area(other) - this.#area(one));
  }

  /** Source pixels under a token. */
  #area(index) {
    return this.tokenWidth(index) * this.tokenHeight(index);
  }

  /** Parses a packet; `paneOf` gives its picture. */
  read(buffer) {
    const view = new DataView(buffer);
    this.bytes = buffer.byteLength;
    this.isWhole = (view.getUint8(5) & WHOLE) !== 0;
    this.isOfCanvas = (view.getUint8(5) & OF_CANVAS) !== 0;
    this.patchSide = view.getUint16(6, true);
    this.serial = view.getUint32(8, true);
    this.count = view.getUint32(12, true);
    this.sentCount = view.getUint32(16, true);
    this.width = view.getUint32(20, true);
    this.height = view.getUint32(24, true);
    const fixationCount = view.getUint32(36, true);
    this.frameSeq = Number(view.getBigUint64(40, true));
    this.ageMs = Number(view.getBigUint64(56, true)) / 1e6;
    this.epoch = view.getBigUint64(64, true);
    this.cellColumns = view.getUint16(72, true);
    this.cellRows = view.getUint16(74, true);
    this.cellSide = view.getUint32(76, true);
    this.fixations = Array.from({ length: fixationCount }, (_, index) => {
      const at = HEADER_BYTES + index * FIXATION_BYTES;
      return { id: view.getUint32(at, true), x: view.getFloat64(at + 4, true), y: view.getFloat64(at + 12, true) };
    });
    this.#reserve(this.count);
    const first = HEADER_BYTES + fixationCount * FIXATION_BYTES;
    for (let index = 0; index < this.count; index += 1) {
      this.#readToken(view, first + index * RECORD_BYTES, index);
    }
    this.greatestGroup = this.group.subarray(0, this.count).reduce((most, group) => Math.max(most, group), 0);
    const cellCount = this.cellColumns * this.cellRows;
    this.texels = new Uint8Array(buffer, first + this.count * RECORD_BYTES, this.sentCount * 3 * this.patchSide ** 2);
    const tileBytes = tilesLength(view);
    this.cells = new Uint8Array(buffer, buffer.byteLength - tileBytes - cellCount, cellCount);
    this.tiles = new Uint8Array(buffer, buffer.byteLength - tileBytes, tileBytes);
  }

  #readToken(view, at, index) {
    this.x[index] = view.getInt32(at, true);
    this.y[index] = view.getInt32(at + 4, true);
    this.sx[index] = view.getUint16(at + 8, true);
    this.sy[index] = view.getUint16(at + 10, true);
    this.firstColumn[index] = view.getUint16(at + 12, true);
    this.columns[index] = view.getUint16(at + 14, true);
    this.firstRow[index] = view.getUint16(at + 16, true);
    this.rows[index] = view.getUint16(at + 18, true);
    this.group[index] = view.getUint16(at + 20, true);
    this.extraWidth[index] = view.getUint8(at + 22);
    this.extraHeight[index] = view.getUint8(at + 23);
    this.relevance[index] = view.getFloat32(at + 24, true);
    this.unchanged[index] = view.getUint32(at + 28, true);
    this.texelsAt[index] = view.getUint32(at + 32, true);
  }

  #reserve(count) {
    if (this.x && count <= this.x.length) {
      return;
    }
    for (const [column, Numbers] of Object.entries(COLUMNS)) {
      this[column] = new Numbers(count);
    }
  }
}

/** The picture of a packet; -1 if this page cannot read it: the sizes in its header have to be possible, and make up its length. */
export function paneOf(buffer) {
  const view = new DataView(buffer);
  if (buffer.byteLength < HEADER_BYTES || view.getUint32(0, true) !== MAGIC) {
    return -1;
  }
  const [patchSide, pane] = [view.getUint16(6, true), view.getUint8(4)];
  const [count, sentCount, width, height] = [12, 16, 20, 24].map((at) => view.getUint32(at, true));
  const fixationCount = view.getUint32(36, true);
  const [cellColumns, cellRows] = [72, 74].map((at) => view.getUint16(at, true));
  const isPossible = Math.max(cellColumns, cellRows) <= CELLS_MOST && isIn(patchSide, PATCH_SIDE_MOST) && isIn(width, SOURCE_SIDE_MOST)
    && isIn(height, SOURCE_SIDE_MOST) && isIn(fixationCount, FIXATIONS_MOST) && sentCount <= count;
  const length = HEADER_BYTES + fixationCount * FIXATION_BYTES + count * RECORD_BYTES + sentCount * 3 * patchSide ** 2
    + cellColumns * cellRows + tilesLength(view);
  return isPossible && length === buffer.byteLength ? pane : -1;
}

/** Bytes of the bits of tiles in a packet. */
function tilesLength(view) {
  const [columns, rows] = [20, 24].map((at) => Math.ceil(view.getUint32(at, true) / TILE_SIDE));
  return view.getUint8(5) === OF_CANVAS ? Math.ceil((columns * rows) / 8) : 0;
}

function isIn(number, most) {
  return 1 <= number && number <= most;
}

function inside(at, length) {
  return Math.min(Math.max(at, 0), length);
}
