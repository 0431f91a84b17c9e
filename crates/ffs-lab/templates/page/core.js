// What all parts of the page share: the data, the state in the address, elements, the tooltip.

const data = JSON.parse(document.getElementById('study-data').textContent);

// An element with attributes and children. A function as an attribute is a listener.
function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === 'function') element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? '' : value);
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

// A number with three or four significant digits.
function short(value) {
  if (value === null || value === undefined || !isFinite(value)) return '–';
  const size = Math.abs(value);
  if (size === 0) return '0';
  const digits = size >= 999.5 ? 0 : size >= 99.95 ? 1 : size >= 9.995 ? 2
    : size >= 0.0995 ? 3 : Math.min(9, 2 - Math.floor(Math.log10(size)));
  let text = size.toFixed(digits);
  if (text.includes('.')) text = text.replace(/\.?0+$/, '');
  const [whole, rest] = text.split('.');
  const spaced = whole.length > 4 ? whole.replace(/\B(?=(\d{3})+$)/g, '\u202f') : whole;
  return (value < 0 ? '−' : '') + spaced + (rest ? '.' + rest : '');
}

const times = gain => '×' + (gain >= 99.5 ? gain.toFixed(0) : gain >= 9.95 ? gain.toFixed(1)
  : gain >= 0.0995 ? gain.toFixed(2) : short(gain));

const within = (ratio, factor) => Math.max(ratio, 1 / ratio) <= factor;
const nearness = ratio => within(ratio, 1.3) ? 'near' : within(ratio, 2) ? 'off' : 'far';

// The value of a cost in the unit of its result.
function shown(result, cost) {
  if (cost === null || cost === undefined) return null;
  return (result.kind === 'rate' ? 1 / cost : cost) * result.scale;
}

const maskName = (mask, names) =>
  names.filter((_, bit) => mask >> bit & 1).join('+') || 'none';

// The state: choices by their key. It is kept in the address behind the name of a section:
// #whatif?w-on=su,dp
const state = {
  values: new Map(),
  listeners: [],
  get(key, initial) {
    return this.values.has(key) ? this.values.get(key) : initial;
  },
  set(key, value, initial) {
    if (String(value) === String(initial)) this.values.delete(key);
    else this.values.set(key, String(value));
    this.write(key);
  },
  write(key) {
    const own = key && key.startsWith('r-') ? document.getElementById(key.slice(2)) : null;
    const place = own || key && document.querySelector(`[data-state~="${key.split('-')[0]}"]`);
    const section = place ? place.id : location.hash.slice(1).split('?')[0];
    const words = [...this.values].map(([name, value]) =>
      `${encodeURIComponent(name)}=${encodeURIComponent(value).replace(/%2C/g, ',')}`);
    const hash = '#' + section + (words.length ? '?' + words.join('&') : '');
    try {
      history.replaceState(null, '', hash);
    } catch (error) {
      location.hash = hash;
    }
  },
  read() {
    const [section, query] = location.hash.slice(1).split('?');
    if (query !== undefined) {
      this.values.clear();
      for (const word of query.split('&').filter(word => word.includes('='))) {
        const at = word.indexOf('=');
        try {
          this.values.set(decodeURIComponent(word.slice(0, at)),
            decodeURIComponent(word.slice(at + 1)));
        } catch (error) {
          // An address may be damaged: this word is left out.
        }
      }
    }
    return section;
  },
};

// Shows the element that the address names, and opens what it is in.
function reveal(section) {
  const target = section && document.getElementById(section);
  if (!target) return;
  for (let e = target; e; e = e.parentElement) if (e.tagName === 'DETAILS') e.open = true;
  const within = target.closest('details');
  (within && within.parentElement.id !== section ? within : target).scrollIntoView();
}

// The tooltip: one for the page, beside an element or the pointer.
const tip = {
  box: h('div', { id: 'tip', role: 'tooltip', hidden: true }),
  // Beside a point of the window, or beside what `near` returns, also after the page is scrolled.
  show(lines, near) {
    this.box.replaceChildren(...lines.filter(Boolean).map((line, n) =>
      h(n ? 'div' : 'b', null, line)));
    this.box.hidden = false;
    this.place = typeof near === 'function' ? near : null;
    this.put(this.place ? this.place() : near);
  },
  put(near) {
    const { width, height } = this.box.getBoundingClientRect();
    const wide = document.documentElement.clientWidth;
    const left = Math.max(4, Math.min(near.x + 12, wide - width - 4));
    const top = near.y + 16 + height > innerHeight ? near.y - height - 10 : near.y + 16;
    this.box.style.left = left + 'px';
    this.box.style.top = Math.max(4, top) + 'px';
  },
  hide() {
    this.box.hidden = true;
  },
  scrolled() {
    if (this.box.hidden) return;
    if (this.place) this.put(this.place());
    else this.hide();
  },
  // Shows lines while an element has the pointer or the focus.
  of(element, lines) {
    element.addEventListener('pointermove', e => this.show(lines(), { x: e.clientX, y: e.clientY }));
    element.addEventListener('pointerleave', () => this.hide());
    element.addEventListener('focus', () => {
      this.show(lines(), () => {
        const box = element.getBoundingClientRect();
        return { x: box.left + Math.min(box.width / 2, 260), y: box.bottom - 8 };
      });
    });
    element.addEventListener('blur', () => this.hide());
  },
};

// A list in which the arrow keys move the focus, with one place in the order of the Tab key.
function roving(items, open) {
  items.forEach((item, n) => {
    item.tabIndex = n === 0 ? 0 : -1;
    item.addEventListener('keydown', event => {
      const to = { ArrowDown: n + 1, ArrowUp: n - 1, Home: 0, End: items.length - 1 }[event.key];
      if (event.key === 'Escape') tip.hide();
      if (event.key === 'Enter' && event.target === item && open) open(n);
      if (to === undefined || !items[to]) return;
      event.preventDefault();
      items.forEach(other => { other.tabIndex = -1; });
      items[to].tabIndex = 0;
      items[to].focus();
      items[to].scrollIntoView({ block: 'nearest' });
    });
  });
}

// Controls. Each keeps its choice in the state under `key` and calls `changed`.
let controls = 0;
function choices(label, key, options, initial, changed) {
  const name = 'c' + controls++;
  const now = state.get(key, initial);
  const known = options.some(([value]) => value === now) ? now : initial;
  return h('fieldset', { class: 'choices' }, h('legend', null, label), options.map(([value, text]) =>
    h('label', null, h('input', {
      type: 'radio', name, value, checked: value === known,
      change: () => { state.set(key, value, initial); changed(); },
    }), h('span', null, text))));
}

function menu(label, key, options, initial, changed) {
  const now = state.get(key, initial);
  return h('label', { class: 'menu' }, h('span', null, label), h('select', {
    'data-key': key,
    change: event => { state.set(key, event.target.value, initial); changed(); },
  }, options.map(([value, text]) => h('option', { value, selected: value === now }, text))));
}

function check(label, key, changed) {
  return h('label', { class: 'check' }, h('input', {
    type: 'checkbox', checked: state.get(key, '') === '1',
    change: event => { state.set(key, event.target.checked ? '1' : '', ''); changed(); },
  }), h('span', null, label));
}

// A set of names that are on, such as switches.
function toggles(label, key, names, initial, changed) {
  const now = () => state.get(key, initial).split(',').filter(name => names.includes(name));
  return h('fieldset', { class: 'choices' }, h('legend', null, label), names.map((name, n) =>
    h('label', { class: 't' + n % 8 }, h('input', {
      type: 'checkbox', checked: now().includes(name),
      change: event => {
        const on = names.filter(other => other === name ? event.target.checked
          : now().includes(other));
        state.set(key, on.join(','), initial);
        changed();
      },
    }), h('span', null, name))));
}

const benchmarkOptions = used => [['', 'all benchmarks'], ...data.benchmarks
  .map((b, n) => [b.words, b.title, n]).filter(([, , n]) => used.has(n))];

// A table, whose cells are texts or elements.
function table(heads, rows) {
  const cell = (tag, value, n) => h(tag, n === 0 ? { class: 'w' } : null, value ?? '–');
  return h('div', { class: 'scroll' }, h('table', { class: 'sortable' },
    h('thead', null, h('tr', null, heads.map((head, n) => cell('th', head, n)))),
    h('tbody', null, rows.map(row => h('tr', null,
      row.map((value, n) => cell(n ? 'td' : 'th', value, n)))))));
}
