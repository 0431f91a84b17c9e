// A chart of rows: a label, marks on one axis, and a value. The layout is that of HTML, so labels
// wrap and never cover each other, at any width and on paper.

const axes = {
  log(low, high) {
    const span = Math.log(high / low) || 1;
    return {
      at: value => Math.max(0, Math.min(1, Math.log(value / low) / span)) * 100,
      ticks() {
        const decades = Math.log10(high / low);
        const parts = decades > 3.4 ? [1] : decades > 1.6 ? [1, 3] : decades > 0.7 ? [1, 2, 5]
          : [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9];
        const all = [];
        for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high) + 1e-9; e++) {
          for (const part of parts) all.push(Number((part * 10 ** e).toPrecision(6)));
        }
        return all.filter(v => v >= low * 0.999 && v <= high * 1.001);
      },
    };
  },
  linear(low, high) {
    const span = high - low || 1;
    return {
      at: value => Math.max(0, Math.min(1, (value - low) / span)) * 100,
      ticks() {
        const rough = span / 6, unit = 10 ** Math.floor(Math.log10(rough));
        const step = [1, 2, 5, 10].map(part => part * unit).find(s => s >= rough);
        const all = [];
        for (let v = Math.ceil(low / step) * step; v <= high + step / 1e6; v += step) {
          all.push(Number(v.toPrecision(6)));
        }
        return all;
      },
    };
  },
};

// The header of an axis. Of ticks that are near each other, some have no label.
function axisOf(axis, format, band) {
  const grid = h('div', { class: 'lines', 'aria-hidden': 'true' });
  const head = h('div', { class: 'ticks', 'aria-hidden': 'true' });
  if (band) {
    const [from, to] = band.map(axis.at);
    grid.append(h('i', { class: 'band', style: `left:${from}%;width:${to - from}%` }));
  }
  let last = -99, wide = -99;
  for (const value of axis.ticks()) {
    const at = axis.at(value);
    const major = value === 1 || at - wide >= 19;
    if (at - last < 9 && value !== 1) continue;
    last = at;
    if (major) wide = at;
    const minor = major ? '' : ' minor';
    grid.append(h('i', { class: (value === 1 ? 'one' : 'line') + minor, style: `left:${at}%` }));
    head.append(h('span', { class: minor, style: `left:${at}%` }, format(value)));
  }
  return { grid, head };
}

// A mark: a piece from one place to another, or a dot.
function mark(axis, piece) {
  if (piece.to !== undefined) {
    const [a, b] = [axis.at(piece.from), axis.at(piece.to)].sort((x, y) => x - y);
    return h('span', { class: 'piece ' + piece.class, style: `left:${a}%;width:${b - a}%` },
      piece.text && b - a > piece.text.length * 1.5 + 1 ? h('span', null, piece.text) : null);
  }
  return h('span', { class: 'spot ' + piece.class, style: `left:${axis.at(piece.at)}%` });
}

// Draws groups of rows into `box`. A group is {title, axis, format, band, rows}; a row is
// {label, href, marks, value, class, tip}.
function drawRows(box, groups, empty) {
  const items = [];
  let shown = null;
  const parts = groups.filter(group => group.rows.length).map(group => {
    const { grid, head } = group.axis ? axisOf(group.axis, group.format, group.band)
      : { grid: null, head: null };
    const rows = group.rows.map(row => {
      const link = row.href ? h('a', { href: '#' + row.href, tabindex: '-1' }, row.label) : row.label;
      const item = h('li', { 'aria-label': row.tip().join('. ') },
        h('span', { class: 'label' }, link),
        h('span', { class: 'track', 'aria-hidden': 'true' },
          (row.marks || []).map(piece => mark(group.axis, piece))),
        h('span', { class: 'value ' + (row.class || '') }, row.value));
      item.row = row;
      tip.of(item, row.tip);
      items.push(item);
      return item;
    });
    const repeated = group.axis === shown;
    shown = group.axis;
    return h('div', { class: 'rowgroup' },
      group.title ? h('h3', null, group.title) : null,
      head && !repeated ? h('div', { class: 'head' }, head) : null,
      h('div', { class: 'body' }, grid, h('ul', { class: 'rows' }, rows)));
  });
  box.replaceChildren(...(parts.length ? parts : [h('p', { class: 'note' }, empty)]));
  roving(items, n => { if (items[n].row.href) location.hash = items[n].row.href; });
  return items.length;
}

// A figure with its controls, chart, count and table.
function figure(place, controls, draw) {
  const chart = h('div', { class: 'chart' });
  const count = h('p', { class: 'note', 'aria-live': 'polite' });
  const behind = h('details', { class: 'plain' }, h('summary', null, 'Table'));
  const card = h('div', { class: 'card figure' },
    h('div', { class: 'tools', role: 'group', 'aria-label': 'Controls of the figure' }), count, chart,
    behind);
  const fill = ({ heads, rows, note }) => {
    count.textContent = note;
    behind.replaceChildren(behind.firstChild, table(heads, rows));
    sortable(behind);
  };
  const redraw = () => fill(draw(chart));
  const build = () => {
    card.firstChild.replaceChildren(...controls(redraw).filter(Boolean));
    redraw();
  };
  place.replaceChildren(card);
  state.listeners.push(build);
  build();
  return build;
}
