"use strict";
// Draws each chart in the place of its picture, on a narrow screen in one column. Where that fails,
// the picture stays. What is wider than its box fades at the edge until it is scrolled to.
const CHARACTER_PX = 6; // of a subtitle
const narrow = matchMedia("screen and (max-width: 700px)");

function fit(part, roomPx) {
  if (part.width > roomPx) part.width = roomPx;
  if (part.columns) part.columns = 1;
  for (const parts of [part.concat, part.hconcat, part.vconcat]) {
    for (const one of parts ?? []) fit(one, roomPx);
  }
}

function wrapped(text, roomPx) {
  const lines = [];
  for (const word of text.split(" ")) {
    const longer = `${lines.at(-1)} ${word}`;
    if (lines.length && longer.length * CHARACTER_PX <= roomPx) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

function fitted(spec, roomPx) {
  fit(spec, Math.max(roomPx, spec.usermeta?.narrowest_px ?? 0));
  const [drive, ...rest] = spec.title.subtitle.split(" · ");
  spec.title.subtitle = [drive, rest.join(" · ")].flatMap((line) => wrapped(line, roomPx + 50));
  spec.title.limit = spec.config.title.limit = roomPx + 50;
  spec.config.legend.columns = 1;
  spec.config.legend.layout = { top: { direction: "vertical", margin: 2 } };
  return spec;
}

function mark(box) {
  box.classList.toggle("more", box.scrollLeft + box.clientWidth < box.scrollWidth - 2);
}

function watch(box) {
  box.addEventListener("scroll", () => mark(box), { passive: true });
  new ResizeObserver(() => mark(box)).observe(box);
}

async function draw(figure) {
  const spec = JSON.parse(figure.querySelector("script").textContent);
  const place = document.createElement("div");
  place.tabIndex = 0;
  try {
    const drawn = await vegaEmbed(place, narrow.matches ? fitted(spec, figure.clientWidth - 85) : spec, {
      renderer: "svg",
      ast: true,
      actions: { export: true, source: false, compiled: false, editor: false },
      downloadFileName: figure.dataset.chart,
      scaleFactor: 2,
    });
    figure.querySelector(":scope > img, :scope > div").replaceWith(place);
    watch(place);
    showStretch(drawn.view, spec, figure);
  } catch (error) {
    console.error(figure.dataset.chart, error);
  }
}

// Of the chart over time: what was drawn in the stretch that is selected with the mouse.
function showStretch(view, spec, figure) {
  const about = spec.usermeta && spec.usermeta.stretch;
  if (!about) return;
  const words = figure.querySelector(".stretch") ?? document.createElement("p");
  words.className = "stretch hint";
  words.setAttribute("aria-live", "polite");
  words.textContent = "Drag over the watts to select a stretch.";
  figure.append(words);
  view.addSignalListener("stretch", (name, selected) => {
    if (!selected || !selected.t) return;
    const [from, to] = [...selected.t].sort((a, b) => a - b);
    const watts = spec.datasets[about.data]
      .filter((row) => row.name === about.name && row.mean !== null && row.t >= from && row.t <= to)
      .map((row) => row.mean);
    if (!watts.length) return;
    const mean = watts.reduce((sum, one) => sum + one, 0) / watts.length;
    const [fromS, toS] = [from * about.unit_s, to * about.unit_s];
    words.className = "stretch";
    words.textContent =
      `${fromS.toFixed(2)} s to ${toS.toFixed(2)} s: about ${mean.toPrecision(4)} W and ` +
      `${(mean * (toS - fromS)).toPrecision(4)} J (${about.name}, of the means drawn). With U: ` +
      `labctl analyse ${about.run} --from ${fromS.toFixed(3)} --to ${toS.toFixed(3)}`;
  });
}

// A narrow screen that is turned or widened has its charts drawn again.
const drawnFor = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const widthPx = String(narrow.matches ? target.clientWidth : 0);
    if (target.dataset.width === widthPx) continue;
    target.dataset.width = widthPx;
    draw(target);
  }
});
document.querySelectorAll("figure[data-chart]").forEach((one) => drawnFor.observe(one));
document.querySelectorAll(".wide").forEach(watch);
// On paper nothing is folded away.
addEventListener("beforeprint", () => {
  for (const fold of document.querySelectorAll(".fold:not([open])")) {
    fold.open = true;
    addEventListener("afterprint", () => (fold.open = false), { once: true });
  }
});
