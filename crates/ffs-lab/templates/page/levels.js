// Switches with more than two levels. An option `big=20000` is a level of the switch `big` and
// excludes its other levels. The page has this part only if a study has such switches: `toggles`
// takes the place of the function of that name in core.js.

const switchOf = option => option.split('=')[0];

// Of several levels of a switch, the last one counts. So "all switches" is the last level of each.
const storedChoice = state.get;
state.get = function (key, initial) {
  const value = storedChoice.call(state, key, initial);
  if (key !== 'w-on' && key !== 'v-on') return value;
  return [...new Map(value.split(',').map(option => [switchOf(option), option])).values()].join(',');
};

// The name of the first level of a switch.
function baseOf(option) {
  const found = data.factors.find(factor => factor.name === option);
  return found && found.off ? found.off : 'first level';
}

// A box for each switch that is on or off, and a menu for each switch with levels.
function toggles(label, key, options, initial, changed) {
  const now = () => state.get(key, initial).split(',').filter(option => options.includes(option));
  const put = (name, chosen) => {
    const on = options.filter(option => option === chosen
      || (switchOf(option) !== name && now().includes(option)));
    state.set(key, on.join(','), initial);
    changed();
  };
  const box = option => h('label', { class: 't' + options.indexOf(option) % 8 }, h('input', {
    type: 'checkbox', checked: now().includes(option),
    change: event => put(option, event.target.checked ? option : ''),
  }), h('span', null, option));
  const levels = ([name, own]) => h('label', { class: 'menu' }, h('span', null, name), h('select', {
    change: event => put(name, event.target.value),
  }, ['', ...own].map(option => h('option', { value: option, selected: now().includes(option) },
    option ? option.slice(name.length + 1) || 'on' : baseOf(own[0])))));
  const switches = new Map();
  options.forEach(option => switches.set(switchOf(option),
    [...(switches.get(switchOf(option)) || []), option]));
  const all = [...switches], boxes = all.filter(([name, own]) => own.length === 1 && own[0] === name);
  return [
    boxes.length > 0 && h('fieldset', { class: 'choices' }, h('legend', null, label),
      boxes.map(([option]) => box(option))),
    ...all.filter(each => !boxes.includes(each)).map(levels),
  ];
}
