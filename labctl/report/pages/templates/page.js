"use strict";
// Draws each chart in the place of its picture. Where that fails, the picture stays.
for (const figure of document.querySelectorAll("figure[data-chart]")) {
  const spec = JSON.parse(figure.querySelector("script").textContent);
  const picture = figure.querySelector("img");
  const place = document.createElement("div");
  vegaEmbed(place, spec, {
    renderer: "svg",
    ast: true,
    actions: { export: true, source: false, compiled: false, editor: false },
    downloadFileName: figure.dataset.chart,
    scaleFactor: 2,
  }).then(
    () => picture.replaceWith(place),
    (error) => console.error(figure.dataset.chart, error),
  );
}
