// Numbers and states as text, and the one place that writes text into elements.

/** The last bound of the daemon's histograms: a greater duration is only known to be greater. */
const LATENCY_MOST_MS = 10_000;

/** Sets the text of an element, unless it has it: the same words again would be spoken again. */
export function say(element, text) {
  if (element.textContent !== text) {
    element.textContent = text;
  }
}

export function number(value, digits) {
  return typeof value === 'number' ? value.toFixed(digits) : '–';
}

/** With two digits after the point where they are needed. */
export function short(value) {
  return String(Math.round(100 * value) / 100);
}

/** A duration out of a histogram of the daemon. */
export function latency(ms) {
  return typeof ms === 'number' && LATENCY_MOST_MS <= ms ? '> 10 s' : duration(ms);
}

/** A duration that was measured. */
export function duration(ms) {
  if (typeof ms !== 'number') {
    return '–';
  }
  if (ms < 1000) {
    return `${ms.toFixed(1)} ms`;
  }
  const seconds = ms / 1000;
  if (seconds < 120) {
    return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  }
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}

/** A number of frames. */
export function frameCount(count) {
  return count === 1 ? '1 frame' : `${count} frames`;
}

/** The step of a token: source pixels of a texel across and down. */
export function stepName(across, down = across) {
  return across === down ? `1:${short(across)}` : `1:${short(across)} × 1:${short(down)}`;
}
