// Every published number beside the number of this study.

// Two numbers are compared on one axis if they are of one section, and so of one unit.
function numberAxis(rows) {
  const values = rows.flatMap(row => [row.value, ...row.published]).filter(v => v !== null);
  const low = Math.min(...values), high = Math.max(...values);
  if (low > 0 && high / low > 4) return axes.log(low / 1.15, high * 1.15);
  return axes.linear(Math.min(0, low), Math.max(0, high) || 1);
}

function numberRow(number, view) {
  const marks = [];
  const [low, high] = number.published;
  const section = data.sections[number.section];
  const same = number.value === null ? '' : number.words || (number.ratio ? times(number.ratio) : '');
  if (view === 'ratio') {
    if (!number.ratio) return null;
    marks.push({ at: number.ratio, class: number.class || 'off' });
  } else {
    if (view !== 'here') {
      if (high !== null) marks.push({ from: low, to: high, class: 'span' });
      else marks.push({ at: low, class: 'paper' });
    }
    if (view !== 'published' && number.value !== null) {
      marks.push({ at: number.value, class: 'ours' });
    }
  }
  const value = {
    ratio: same, published: number.published_text, here: number.value_text || 'not run',
    both: `${number.published_text} → ${number.value_text || 'not run'}`,
  }[view];
  return {
    label: `${number.what}, ${number.on}`, marks, value, class: view === 'ratio' ? number.class : '',
    number,
    tip: () => [
      `${number.what}, ${number.on}`, `published: ${number.published_text} [${section.source}]`,
      `here: ${number.value_text || 'not run'}`, same && `here divided by published: ${same}`,
      number.calibrated && 'The machine was calibrated with this number.',
      number.follows && 'It follows from another number and is not counted.', section.title,
    ].filter(Boolean),
  };
}

function drawNumbers(chart) {
  const view = state.get('n-view', 'ratio'), sort = state.get('n-sort', 'source');
  const bench = state.get('n-bench', ''), option = state.get('n-switch', '');
  const which = state.get('n-which', 'counted');
  const chosen = data.numbers.filter(number =>
    (which === 'all' || (which === 'counted' ? data.sections[number.section].counted && !number.follows
      : String(number.section) === which))
    && (!bench || data.benchmarks[number.bench]?.words === bench)
    && (!option || number.on.split(/\+| → /).includes(option)));
  let rows = chosen.map(number => numberRow(number, view)).filter(Boolean);
  const distance = row => row.number.ratio ? Math.abs(Math.log(row.number.ratio)) : Infinity;
  const order = {
    ratio: (a, b) => (b.number.ratio || 0) - (a.number.ratio || 0),
    far: (a, b) => distance(b) - distance(a),
    near: (a, b) => distance(a) - distance(b),
  }[sort];
  if (order) rows = rows.map((row, n) => [row, n]).sort((a, b) => order(a[0], b[0]) || a[1] - b[1])
    .map(([row]) => row);
  const ratios = rows.map(row => row.number.ratio).filter(Boolean);
  const away = Math.min(100, Math.max(2, ...ratios.map(r => Math.max(r, 1 / r)))) * 1.1;
  const shared = view === 'ratio' && axes.log(1 / away, away);
  const sections = [...new Set(rows.map(row => row.number.section))];
  const groups = shared && order ? [{ title: '', axis: shared, band: [1 / 1.3, 1.3], format: times2, rows }]
    : sections.map(section => {
      const mine = rows.filter(row => row.number.section === section);
      return {
        title: `${data.sections[section].title} [${data.sections[section].source}]`, rows: mine,
        axis: shared || numberAxis(mine.map(row => row.number)),
        band: shared ? [1 / 1.3, 1.3] : null, format: shared ? times2 : short,
      };
    });
  drawRows(chart, groups, 'No number fits these choices.');
  const predicted = chosen.filter(n => !n.calibrated);
  const near = predicted.filter(n => n.ratio && within(n.ratio, 1.3)).length;
  const run = predicted.filter(n => n.value !== null);
  const signs = run.filter(n => !n.ratio).length;
  const marks = view === 'both' ? ' A diamond or a grey span is published, a disc is this study.' : '';
  return {
    note: `${rows.length} of ${data.numbers.length} numbers. Of ${predicted.length} that are not ` +
      `calibrated, ${run.length} were run; ${near} are within a factor of 1.3 of the published one` +
      `${signs ? `, and ${signs} are 0 or have the other sign, so that they have no ratio` : ''}.` +
      marks,
    heads: ['result', 'options', 'published', 'here', 'ratio', 'section'],
    rows: rows.map(({ number }) => [number.what, number.on, number.published_text, number.value_text,
      number.ratio ? short(number.ratio) : number.words, data.sections[number.section].title]),
  };
}

function numbersFigure(place) {
  const used = new Set(data.numbers.filter(n => n.bench !== null).map(n => n.bench));
  figure(place, redraw => [
    choices('Show', 'n-view', [['ratio', 'ratio'], ['both', 'both'], ['published', 'published'],
      ['here', 'reproduced']], 'ratio', redraw),
    menu('Numbers', 'n-which', [['counted', 'those that count'], ['all', 'all'],
      ...data.sections.map((s, n) => [String(n), s.title])], 'counted', redraw),
    menu('Benchmark', 'n-bench', benchmarkOptions(used), '', redraw),
    menu('Switch that is on', 'n-switch', [['', 'any'],
      ...data.factors.map(f => [f.name, f.long])], '', redraw),
    menu('Sort by', 'n-sort', [['source', 'order of the sources'], ['ratio', 'ratio'],
      ['far', 'farthest first'], ['near', 'nearest first']], 'source', redraw),
  ], drawNumbers);
}
