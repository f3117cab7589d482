#include "report/page_style.h"

namespace tandem {

const std::string_view page_style = R"css(
:root { color-scheme: light dark; --text: #1c2126; --soft: #5a646e; --back: #fff; --panel: #f6f7f8;
  --line: #d9dde1; --mark: #fff3d1;
  --c0: #0067a5; --c1: #c8500a; --c2: #00845f; --c3: #a6398f; --c4: #8a6d00; --c5: #4b3a9c;
  --c6: #5f6b73; --c7: #b3123a;
  --compute: #3b7dbd; --wait: #d98a00; --exposed: #a6398f; --evaluate: #6b7780; }
@media (prefers-color-scheme: dark) { :root { --text: #e4e8eb; --soft: #a2adb6; --back: #14181c;
  --panel: #1d2329; --line: #38424b; --mark: #43390f;
  --c0: #56b4e9; --c1: #ff8c42; --c2: #2fd3a5; --c3: #e79ad0; --c4: #f0c808; --c5: #a99cf5;
  --c6: #b8c2c9; --c7: #ff6b81;
  --compute: #56a0e0; --wait: #f0b040; --exposed: #e79ad0; --evaluate: #94a1ab; } }
.colour0 { --run: var(--c0); } .colour1 { --run: var(--c1); } .colour2 { --run: var(--c2); }
.colour3 { --run: var(--c3); } .colour4 { --run: var(--c4); } .colour5 { --run: var(--c5); }
.colour6 { --run: var(--c6); } .colour7 { --run: var(--c7); }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem 1.5rem 3rem; max-width: 88rem; color: var(--text);
  background: var(--back); font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .6rem; } h2 { font-size: 1.15rem; margin: 2rem 0 .6rem; }
small, .none, footer, .note { color: var(--soft); }
.note { border-left: 3px solid var(--wait); padding-left: .6rem; overflow-wrap: anywhere; }
.remark { margin: .5rem 0; overflow-wrap: anywhere; }
.legend { position: sticky; top: 0; z-index: 1; display: flex; flex-wrap: wrap; gap: .2rem 1.2rem;
  padding: .5rem 0; background: var(--back); border-bottom: 1px solid var(--line); }
.legend label { cursor: pointer; overflow-wrap: anywhere; }
span.run i { display: inline-block; width: 1.1em; height: .25em; margin-right: .4em;
  vertical-align: middle; background: var(--run); }
span.run.again i { background: repeating-linear-gradient(90deg, var(--run) 0 3px, transparent 3px 5px); }
.charts { grid-template-columns: repeat(auto-fit, minmax(min(30rem, 100%), 1fr));
  gap: 1rem; margin-top: 1rem; }
figure { margin: 0; padding: .7rem .8rem .3rem; background: var(--panel); border-radius: 6px; }
figcaption { font-weight: 600; } figcaption small { font-weight: 400; margin-left: .4em; }
svg { display: block; width: 100%; height: auto; }
.grid, .mark, .axis { stroke: var(--line); stroke-width: 1; }
.axis, .mark { stroke: var(--soft); } .tick { fill: var(--soft); font-size: 12px; }
g.run path { fill: none; stroke: var(--run); stroke-width: 1.6; stroke-linejoin: round; }
g.evaluation path { stroke-dasharray: 7 4; stroke-width: 1.8; } g.run circle { fill: var(--run); }
g.again path { stroke-dasharray: 2 3; } g.again.evaluation path { stroke-dasharray: 9 3 2 3; }
.cursor { stroke: var(--soft); stroke-width: 1; visibility: hidden; }
.hidden { display: none; }
.charts { display: none; } #by-step:checked ~ main .by-step,
#by-log-step:checked ~ main .by-log-step, #by-time:checked ~ main .by-time { display: grid; }
#tip { position: fixed; z-index: 2; pointer-events: none; padding: .35rem .6rem; font-size: 13px;
  background: var(--back); border: 1px solid var(--soft); border-radius: 4px; max-width: 28rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; } th, td { padding: .3rem .7rem; text-align: left;
  vertical-align: top; border-bottom: 1px solid var(--line); }
thead th { color: var(--soft); font-weight: 600; } thead th .run { color: var(--text); }
tbody th { font-weight: 500; min-width: 10rem; overflow-wrap: anywhere; }
.phases thead th { white-space: nowrap; }
.numbers td { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.numbers thead th:nth-child(n+3) { text-align: right; } .numbers td:nth-child(2) { text-align: left; }
.best { font-weight: 700; } .facts td, .facts th { overflow-wrap: anywhere; min-width: 8rem; max-width: 34rem; }
.facts td { font-family: ui-monospace, monospace; font-size: 13px; } .differs { background: var(--mark); }
.phases .bar { width: 30%; min-width: 14rem; white-space: nowrap; font-size: 0; text-align: left; }
.bar i { display: inline-block; height: 1.3rem; }
thead i { display: inline-block; width: .8em; height: .8em; margin-right: .4em; }
i.compute { background: var(--compute); } i.wait { background: var(--wait); }
i.exposed { background: var(--exposed); } i.evaluate { background: var(--evaluate); }
summary { cursor: pointer; margin: .6rem 0; } footer { margin-top: 3rem; font-size: 13px; }
)css";

const std::string_view page_script = R"js(
'use strict';
for (const box of document.querySelectorAll('.legend input')) {
  box.addEventListener('change', () => {
    for (const curve of document.querySelectorAll(`g[data-run="${box.value}"]`)) {
      curve.classList.toggle('hidden', !box.checked);
    }
  });
}
// Drawn points back to values: data-x and data-y hold "from to low high" of each axis.
const axis = text => {
  const [from, to, low, high] = text.split(' ').map(Number);
  return {from, to, low, high};
};
const valueAt = (a, place, log) => {
  const part = (place - a.from) / (a.to - a.from);
  return log ? Math.exp(Math.log(a.low) * (1 - part) + Math.log(a.high) * part)
    : a.low + part * (a.high - a.low);
};
const short = value => String(Number(value.toPrecision(4)));
const tip = document.createElement('div');
tip.id = 'tip';
tip.className = 'hidden';
document.body.append(tip);
for (const chart of document.querySelectorAll('svg[data-x]')) {
  const x = axis(chart.dataset.x), y = axis(chart.dataset.y), logX = 'logX' in chart.dataset,
    logY = 'logY' in chart.dataset;
  const cursor = chart.querySelector('.cursor');
  const leave = () => { tip.className = 'hidden'; cursor.style.visibility = 'hidden'; };
  chart.addEventListener('pointerleave', leave);
  chart.addEventListener('pointermove', event => {
    const at = new DOMPoint(event.clientX, event.clientY)
      .matrixTransform(chart.getScreenCTM().inverse());
    const lines = [];
    let place = null;
    for (const curve of chart.querySelectorAll('g.run:not(.hidden)')) {
      const points = curve.querySelector('path').getAttribute('d').split(/[ML]/).slice(1)
        .map(point => point.split(' ').map(Number));
      if (points.length === 0) continue;
      const near = points.reduce((a, b) => Math.abs(b[0] - at.x) < Math.abs(a[0] - at.x) ? b : a);
      if (Math.abs(near[0] - at.x) > 40) continue;
      if (place === null) place = near[0];
      lines.push([curve, short(valueAt(y, near[1], logY))]);
    }
    if (place === null) return leave();
    const label = chart.dataset.xLabel, where = valueAt(x, place, logX);
    tip.replaceChildren(`${label} ${label === 'step' ? Math.round(where) : short(where)}`);
    for (const [curve, value] of lines) {
      const line = document.createElement('div'), name = document.createElement('span');
      name.className = curve.getAttribute('class');
      name.append(document.createElement('i'), `${curve.dataset.name}: ${value}`);
      line.append(name);
      tip.append(line);
    }
    tip.className = '';
    tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8) + 'px';
    tip.style.top = Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8) + 'px';
    for (const [name, value] of [['x1', place], ['x2', place], ['y1', y.to], ['y2', y.from]]) {
      cursor.setAttribute(name, value);
    }
    cursor.style.visibility = 'visible';
  });
}
)js";

}  // namespace tandem
