"use strict";
const DATA = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const style = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
let draw = () => {};

// Inside a page of the site the page's own switch decides, outside it the reader's system does.
function outer() {
  try { return window.parent !== window ? window.parent.document.body : null; } catch (error) { return null; }
}
function theme() {
  const body = outer(), scheme = body && body.getAttribute("data-md-color-scheme");
  const dark = scheme ? scheme === "slate" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  draw();
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", theme);
if (outer()) new MutationObserver(theme).observe(outer(), { attributes: true, attributeFilter: ["data-md-color-scheme"] });

// A canvas in the units of the page, sharp on any screen: returns its context, width and height.
function sheet(canvas, ratio) {
  const width = canvas.clientWidth || 300, height = Math.round(width * ratio), dense = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * dense) || canvas.height !== Math.round(height * dense)) {
    canvas.width = Math.round(width * dense);
    canvas.height = Math.round(height * dense);
    canvas.style.height = height + "px";
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(dense, 0, 0, dense, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = "12px system-ui, DejaVu Sans, sans-serif";
  return [pen, width, height];
}
function disc(pen, x, y, r, fill, ring, dash) {
  pen.beginPath();
  pen.arc(x, y, r, 0, 2 * Math.PI);
  if (fill) { pen.fillStyle = fill; pen.fill(); }
  if (ring) { pen.setLineDash(dash || []); pen.lineWidth = 2; pen.strokeStyle = ring; pen.stroke(); pen.setLineDash([]); }
}
// Show the number of every slider, and redraw when one moves.
function sliders(changed) {
  for (const input of document.querySelectorAll("input, select")) {
    const show = () => { const out = input.parentElement.querySelector("output"); if (out) out.textContent = input.value; };
    input.addEventListener("input", () => { show(); changed(); });
    show();
  }
}
// Inside a page of the site the frame is as high as what it holds.
function fit() {
  try { if (window.frameElement) window.frameElement.style.height = document.querySelector("main").offsetHeight + 40 + "px"; } catch (error) { /* a frame of another site keeps its height */ }
}
addEventListener("resize", () => { draw(); fit(); });
function begin(drawing) { draw = drawing; theme(); fit(); document.body.dataset.ready = "yes"; }
