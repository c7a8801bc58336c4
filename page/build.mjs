// Bundle the page into the Python package, with the licences of what is inside.
import { build } from "esbuild";
import { existsSync, readFileSync, writeFileSync, copyFileSync } from "node:fs";

const out = "../src/nearer/app/explorer/assets";
await build({
  entryPoints: { page: "src/main.ts" },
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  legalComments: "none",
  charset: "utf8",
  outdir: out,
});
copyFileSync("src/index.html", `${out}/index.html`);
// regl-scatterplot comes with its own dependencies inside, so everything that is not a tool is named.
const lock = JSON.parse(readFileSync("package-lock.json", "utf8")).packages;
const inside = Object.keys(lock)
  .filter((name) => name.startsWith("node_modules/") && !lock[name].dev && !lock[name].optional)
  .map((name) => name.slice("node_modules/".length));
const parts = ["page.js contains these packages, under these licences.\n"];
for (const name of inside.sort()) {
  const folder = `node_modules/${name}`;
  const about = JSON.parse(readFileSync(`${folder}/package.json`, "utf8"));
  const file = ["LICENSE", "LICENSE.md", "LICENSE.txt", "license", "LICENCE"].find((one) => existsSync(`${folder}/${one}`));
  const text = file ? readFileSync(`${folder}/${file}`, "utf8").trim() : `${about.license} (the package has no licence file)`;
  parts.push(`${"=".repeat(80)}\n${about.name} ${about.version}, ${about.license}\n${"=".repeat(80)}\n${text}\n`);
}
writeFileSync(`${out}/LICENSES.txt`, parts.join("\n").replace(/[ \t]+$/gm, ""));
console.log(`page.js with ${inside.sort().join(", ")}`);
