// The line that follows a running study. `ffs lab serve` adds it to the page.
(() => {
  'use strict';
  const bar = document.createElement('div');
  bar.id = 'live';
  bar.setAttribute('role', 'status');
  bar.style.cssText = 'position:fixed;left:0;right:0;bottom:0;padding:.45rem 1rem;z-index:8;' +
    'background:#1c2127;color:#fff;font:14px/1.4 system-ui,sans-serif;display:flex;gap:1rem;' +
    'flex-wrap:wrap;align-items:center';
  const words = document.createElement('span');
  const follow = document.createElement('label');
  const box = document.createElement('input');
  box.type = 'checkbox';
  box.checked = sessionStorage.getItem('follow') !== 'no';
  box.addEventListener('change', () => sessionStorage.setItem('follow', box.checked ? 'yes' : 'no'));
  follow.append(box, ' show new results');
  const show = document.createElement('button');
  show.type = 'button';
  show.textContent = 'Show now';
  show.hidden = true;
  show.addEventListener('click', () => location.reload());
  bar.append(words, follow, show);
  document.body.append(bar);
  document.body.style.paddingBottom = '3.5rem';

  let first = null;
  async function look() {
    try {
      const status = await (await fetch('/status', { cache: 'no-store' })).json();
      first = first ?? status.version;
      const left = status.planned - status.finished;
      words.textContent = status.problem ? `Waiting: ${status.problem}`
        : `${status.finished} of ${status.planned} runs${left ? ', running' : ', complete'}`;
      bar.dataset.finished = status.finished;
      const changed = status.version !== first;
      show.hidden = !changed;
      if (changed && box.checked) {
        location.reload();
        return;
      }
    } catch (error) {
      words.textContent = 'The server has ended.';
    }
    setTimeout(look, 2000);
  }
  look();
})();
