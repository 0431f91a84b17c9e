// A volume drawn block by block, and the steps on its copy.

const data = JSON.parse(document.getElementById('data').textContent);
const byId = id => document.getElementById(id);
function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (typeof value === 'function') element.addEventListener(name, value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.flat());
  return element;
}

const count = (n, word) => `${n} ${word}${n === 1 ? '' : 's'}`;
const [FREE, , , , , DIRECTORY, , , , LEAKED] = data.kinds.keys();
// The colours are those of the page, so the drawing follows light and dark.
const colourNames = ['--card', '--c6', '--c4', '--c2', '--c7', '--c1', '--c0', '--c3', '--c5', '--bad'];

// The volume at a step: the kind and the owner of each fragment, and the inodes.
const kinds = new Uint8Array(data.size), owners = new Uint32Array(data.size);
let inodes = new Map(), step = 0, chosen = 0;
let written = new Set(), changed = new Set();

function put(from, [length, kind, owner]) {
  kinds.fill(kind, from, from + length);
  owners.fill(owner, from, from + length);
}

function reset() {
  let at = 0;
  for (const run of data.runs) {
    put(at, run);
    at += run[0];
  }
  inodes = new Map(data.inodes.map(([ino, ...rest]) => [ino, rest]));
}

function go(to) {
  reset();
  step = Math.max(0, Math.min(data.steps.length, to));
  written = new Set();
  changed = new Set();
  data.steps.slice(0, step).forEach((each, n) => {
    each.changed.forEach(([from, run]) => put(from, run));
    each.inodes.forEach(([ino, ...rest]) => inodes.set(ino, rest));
    each.freed.forEach(ino => inodes.delete(ino));
    if (n + 1 !== step) return;
    for (const [from, length] of each.written) for (let i = 0; i < length; i++) written.add(from + i);
    for (const [from, [length]] of each.changed) for (let i = 0; i < length; i++) changed.add(from + i);
  });
  draw();
  listInodes();
  showStep();
  history.replaceState(null, '', step ? '#step=' + step : '#');
}

// The boxes: one for a fragment, or for a block if there are many.
const unit = data.size > 24000 ? data.block : 1;
const groups = Math.ceil(data.size / data.group);
const canvases = [];

function colours() {
  const style = getComputedStyle(document.documentElement);
  return {
    fill: colourNames.map(name => style.getPropertyValue(name).trim()),
    ink: style.getPropertyValue('--ink').trim(),
    rule: style.getPropertyValue('--rule').trim(),
  };
}

// The kind of a box: that of its first fragment in use.
function boxKind(at) {
  for (let i = 0; i < unit; i++) if (kinds[at + i] !== FREE) return kinds[at + i];
  return FREE;
}

const some = (set, at) => {
  for (let i = 0; i < unit; i++) if (set.has(at + i)) return true;
  return false;
};

const isChosen = at => {
  for (let i = 0; i < unit; i++) if (chosen && owners[at + i] === chosen) return true;
  return false;
};

// Lays out `count` boxes and draws each.
function layout(canvas, boxes, size) {
  const wide = canvas.parentElement.clientWidth || 800;
  const columns = Math.max(1, Math.floor(wide / size)), rows = Math.ceil(boxes / columns);
  const scale = devicePixelRatio || 1;
  canvas.width = columns * size * scale;
  canvas.height = rows * size * scale;
  canvas.style.width = columns * size + 'px';
  canvas.style.height = rows * size + 'px';
  const context = canvas.getContext('2d');
  context.scale(scale, scale);
  Object.assign(canvas, { columns, boxes, size });
  return (n, colour, frame, marks) => {
    const x = n % columns * size, y = Math.floor(n / columns) * size, box = size - 1;
    context.fillStyle = colour;
    context.fillRect(x, y, box, box);
    context.strokeStyle = frame;
    context.lineWidth = 1;
    context.strokeRect(x + 0.5, y + 0.5, box - 1, box - 1);
    marks(context, x, y, box);
  };
}

function draw() {
  const { fill, ink, rule } = colours();
  const size = data.size / unit > 8000 ? 7 : 11;
  for (const { group, blocks, nodes } of canvases) {
    const from = group * data.group, to = Math.min(data.size, from + data.group);
    const box = layout(blocks, Math.ceil((to - from) / unit), size);
    for (let n = 0; n < blocks.boxes; n++) {
      const at = from + n * unit, kind = boxKind(at);
      box(n, fill[kind], kind === FREE ? rule : fill[kind], (c, x, y, side) => {
        // Marks besides colour: a dot in directories, a cross in what has no owner.
        c.fillStyle = c.strokeStyle = fill[0];
        if (kind === DIRECTORY) c.fillRect(x + side / 2 - 1.5, y + side / 2 - 1.5, 3, 3);
        if (kind === LEAKED) {
          c.beginPath();
          c.moveTo(x + 2, y + 2);
          c.lineTo(x + side - 2, y + side - 2);
          c.moveTo(x + side - 2, y + 2);
          c.lineTo(x + 2, y + side - 2);
          c.stroke();
        }
        if (some(changed, at) || isChosen(at)) {
          c.strokeStyle = ink;
          c.lineWidth = 2;
          c.strokeRect(x + 1, y + 1, side - 2, side - 2);
        }
        if (some(written, at)) {
          c.fillStyle = ink;
          c.beginPath();
          c.moveTo(x, y);
          c.lineTo(x + side * 0.7, y);
          c.lineTo(x, y + side * 0.7);
          c.fill();
        }
      });
    }
    const first = group * data.inodes_of_group;
    const node = layout(nodes, Math.min(data.inodes_of_group, 4096), 7);
    for (let n = 0; n < nodes.boxes; n++) {
      const found = inodes.get(first + n);
      node(n, found ? fill[found[0]] : fill[FREE], found ? fill[found[0]] : rule, (c, x, y, side) => {
        if (chosen !== first + n) return;
        c.strokeStyle = ink;
        c.lineWidth = 2;
        c.strokeRect(x + 1, y + 1, side - 2, side - 2);
      });
    }
  }
}

// What a box holds, in words.
function blockWords(group, n) {
  const at = group * data.group + n * unit;
  const last = Math.min(data.size, at + unit) - 1;
  const kind = boxKind(at), owner = owners[at] || owners[last];
  const inode = owner && inodes.get(owner);
  return [
    unit > 1 ? `fragments ${at} to ${last}` : `fragment ${at}`, data.kinds[kind],
    owner ? `inode ${owner}${inode && inode[3] ? `: ${inode[3]}` : ''}` : '',
    some(written, at) ? 'written in this step' : '', some(changed, at) ? 'another use than before' : '',
  ].filter(Boolean);
}

function inodeWords(group, n) {
  const ino = group * data.inodes_of_group + n, found = inodes.get(ino);
  if (!found) return [`inode ${ino}`, 'free'];
  const [kind, size, links, path] = found;
  return [`inode ${ino}`, data.kinds[kind], `${count(size, 'byte')}, ${count(links, 'link')}`,
    path || 'no name leads to it'];
}

const tip = h('div', { id: 'tip', role: 'status' });
tip.hidden = true;
function show(lines, x, y) {
  tip.replaceChildren(...lines.map(line => h('div', null, line)));
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(x + 14, document.documentElement.clientWidth - width - 4)) + 'px';
  tip.style.top = (y + 18 + height > innerHeight ? y - height - 8 : y + 18) + 'px';
}

function listen(canvas, words, owner) {
  let at = 0;
  const place = n => {
    const box = canvas.getBoundingClientRect();
    return [box.left + n % canvas.columns * canvas.size, box.top + Math.floor(n / canvas.columns) * canvas.size];
  };
  canvas.addEventListener('pointermove', event => {
    const box = canvas.getBoundingClientRect();
    const n = Math.floor((event.clientY - box.top) / canvas.size) * canvas.columns +
      Math.floor((event.clientX - box.left) / canvas.size);
    if (n >= 0 && n < canvas.boxes) show(words(at = n), event.clientX, event.clientY);
    else tip.hidden = true;
  });
  canvas.addEventListener('pointerleave', () => { tip.hidden = true; });
  canvas.addEventListener('blur', () => { tip.hidden = true; });
  canvas.addEventListener('click', () => choose(owner(at)));
  canvas.addEventListener('keydown', event => {
    const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: canvas.columns, ArrowUp: -canvas.columns }[event.key];
    if (event.key === 'Escape') tip.hidden = true;
    if (event.key === 'Enter') choose(owner(at));
    if (by === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    at = Math.max(0, Math.min(canvas.boxes - 1, at + by));
    show(words(at), ...place(at));
  });
}

function choose(ino) {
  chosen = ino === chosen ? 0 : ino;
  draw();
  listInodes();
}

function makeGroups() {
  for (let group = 0; group < groups; group++) {
    const blocks = h('canvas', {
      tabindex: '0', role: 'img', 'aria-label': `Blocks of group ${group}. Arrow keys show each box.`,
    });
    const nodes = h('canvas', {
      tabindex: '0', role: 'img', 'aria-label': `Inodes of group ${group}. Arrow keys show each box.`,
    });
    canvases.push({ group, blocks, nodes });
    byId('groups').append(h('div', { class: 'group' }, h('h3', null, `Group ${group}`), blocks, nodes));
    listen(blocks, n => blockWords(group, n), n => {
      const at = group * data.group + n * unit;
      return owners.slice(at, at + unit).find(owner => owner) || 0;
    });
    listen(nodes, n => inodeWords(group, n), n => group * data.inodes_of_group + n);
  }
  byId('legend').append(...data.kinds.map((name, n) =>
    h('li', null, h('span', { class: 'swatch', style: `background:var(${colourNames[n]})` }),
      name + (n === DIRECTORY ? ' (with a dot)' : n === LEAKED ? ' (with a cross)' : ''))));
}

// The list of inodes, at most this many rows.
const ROWS = 400;
function listInodes() {
  const words = byId('find').value;
  const fits = [...inodes].filter(([ino, [, , , path]]) => !words || path.includes(words) || String(ino) === words);
  const rows = fits.slice(0, ROWS).map(([ino, [kind, size, links, path]]) =>
    h('tr', ino === chosen ? { class: 'chosen' } : null,
      h('th', null, h('button', {
        type: 'button', 'aria-pressed': String(ino === chosen), click: () => choose(ino),
      }, String(ino))), h('td', null, data.kinds[kind]), h('td', null, String(size)),
      h('td', null, String(links)), h('td', null, path || '(no name leads to it)')));
  const left = fits.length - rows.length + (words ? 0 : data.more_inodes);
  byId('inodes').replaceChildren(h('div', { class: 'card scroll' }, h('table', null, h('thead', null,
    h('tr', null, ['inode', 'kind', 'bytes', 'links', 'path'].map(head => h('th', null, head)))),
  h('tbody', null, rows))), h('p', { class: 'note' }, left > 0 ? `${count(left, 'more inode')}.` : ''));
}

function showStep() {
  const now = data.steps[step - 1];
  const names = [...inodes.values()].map(([, , , path]) => path).filter(path => /^\/ffs-(drawn|renamed)/.test(path));
  const box = byId('story');
  byId('step').value = String(step);
  byId('back').disabled = step === 0;
  byId('next').disabled = step === data.steps.length;
  if (!now) {
    box.replaceChildren(h('h3', null, 'The volume as it is'), h('p', null,
      'Next makes a file on a copy of the volume, and follows its blocks to the device.'));
    return;
  }
  const list = now.events.length ? h('details', { open: '' },
    h('summary', null, now.title.startsWith('Repair') ? 'Findings of the check' : 'Events of the engine'),
    h('ol', null, now.events.map(event => h('li', null, event))),
    now.more_events ? h('p', { class: 'note' }, `${count(now.more_events, 'more event')}.`) : []) : [];
  box.replaceChildren(h('h3', null, `${step}. ${now.title}`), h('p', null, now.text),
    h('p', { class: 'note' }, `${count(now.written.length, 'write')}; ` +
      `${count(now.changed.reduce((sum, [, [n]]) => sum + n, 0), 'fragment')} with another use. ` +
      `On the device: ${names.join(', ') || 'neither of the two names'}.`), list);
}

document.body.append(tip);
makeGroups();
if (data.steps.length) {
  for (const id of ['steps', 'stepper', 'story']) byId(id).hidden = false;
  byId('step').append(h('option', { value: '0' }, '0. The volume as it is'),
    ...data.steps.map((each, n) => h('option', { value: String(n + 1) }, `${n + 1}. ${each.title}`)));
  byId('step').addEventListener('change', event => go(Number(event.target.value)));
  byId('back').addEventListener('click', () => go(step - 1));
  byId('next').addEventListener('click', () => go(step + 1));
  addEventListener('keydown', event => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by || event.target.matches('canvas,input,select')) return;
    event.preventDefault();
    go(step + by);
  });
}
byId('find').addEventListener('input', listInodes);
addEventListener('resize', draw);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
const wanted = location.hash.match(/^#step=(\d+)$/);
go(wanted ? Number(wanted[1]) : 0);
