// The list of streams and views. Elements are reused while their streams and views exist, which keeps the focus.

import { say } from './words.js';

/** Lists streams in `list`, and calls `choose` with the name of a clicked view. */
export class Streams {
  #list;
  #choose;
  /** Elements by the name of their stream or view. */
  #items = new Map();

  constructor(list, choose) {
    this.#list = list;
    this.#choose = choose;
  }

  /** Updates the list; `chosen` is the name of a view. */
  show(streams, chosen) {
    const wanted = new Map();
    for (const stream of streams) {
      wanted.set(stream.name, this.#stream(stream));
      for (const view of stream.views) {
        wanted.set(view.name, this.#view(view, view.name === chosen));
      }
    }
    for (const [name, item] of this.#items) {
      if (!wanted.has(name)) {
        item.remove();
      }
    }
    this.#items = wanted;
    const items = [...wanted.values()];
    const isSame = items.every((item, index) => this.#list.children[index] === item);
    if (!isSame) {
      this.#list.replaceChildren(...items);
    }
  }

  #stream(stream) {
    const item = this.#items.get(stream.name) ?? made('li', 'stream', ['name', 'state']);
    item.dataset.state = stream.state;
    const size = stream.extent === null ? '' : `${stream.extent[0]} × ${stream.extent[1]}`;
    say(item.querySelector('.name'), stream.name);
    const isFine = stream.state === 'live';
    say(item.querySelector('.state'), isFine ? size : stream.state);
    item.title = stream.reasons.join('\n') || stream.source;
    return item;
  }

  #view(view, isChosen) {
    let item = this.#items.get(view.name);
    if (item === undefined) {
      item = document.createElement('li');
      const button = made('button', 'view', ['name', 'facts']);
      button.type = 'button';
      button.addEventListener('click', () => this.#choose(view.name));
      item.append(button);
    }
    const button = item.firstElementChild;
    say(button.querySelector('.name'), view.name.split('/')[1]);
    say(button.querySelector('.facts'), `${view.policy}, ≤ ${view.budget}`);
    // Views of several streams may have one name.
    button.setAttribute('aria-label', `${view.name} ${view.policy}, ≤ ${view.budget} tokens`);
    button.title = `${view.layout}, at most ${view.budget} tokens, ${view.policy}`;
    if (isChosen) {
      button.setAttribute('aria-current', 'true');
    } else {
      button.removeAttribute('aria-current');
    }
    return item;
  }
}

function made(tag, name, parts) {
  const element = document.createElement(tag);
  element.className = name;
  for (const part of parts) {
    const span = document.createElement('span');
    span.className = part;
    // The space is for what reads the element as text.
    element.append(span, ' ');
  }
  return element;
}
