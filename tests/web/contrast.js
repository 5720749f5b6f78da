// Every text that is to be seen, and those whose contrast with what is behind them is below 4.5, as WCAG computes it.
(() => {
  const parse = (color) => {
    const numbers = color.match(/[\d.]+/g).map(Number);
    const unit = color.startsWith('color(srgb') ? 255 : 1;
    return [...numbers.slice(0, 3).map((value) => value * unit), numbers[3] ?? 1];
  };
  const over = (top, under) => top.slice(0, 3).map((value, at) => value * top[3] + under[at] * (1 - top[3]));
  const behind = (element) => {
    if (element === null) {
      return [255, 255, 255];
    }
    const color = parse(getComputedStyle(element).backgroundColor);
    return color[3] === 1 ? color.slice(0, 3) : over(color, behind(element.parentElement));
  };
  const luminance = (color) => {
    const linear = color.map((value) => {
      const share = value / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const faint = [];
  let texts = 0;
  for (const element of document.body.querySelectorAll('*')) {
    const text = [...element.childNodes].filter((node) => node.nodeType === 3).map((node) => node.data).join('').trim();
    const style = getComputedStyle(element);
    if (text === '' || element.getClientRects().length === 0 || style.visibility === 'hidden') {
      continue;
    }
    const ground = behind(element);
    const ink = over(parse(style.color), ground);
    const [light, dark] = [luminance(ink), luminance(ground)].sort((a, b) => b - a);
    const contrast = (light + 0.05) / (dark + 0.05);
    texts += 1;
    if (contrast < 4.5) {
      faint.push(`${text.slice(0, 40)}: ${contrast.toFixed(2)} (${style.color} on ${ground})`);
    }
  }
  return { texts, faint };
})()
