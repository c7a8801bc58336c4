// Tables of more than seven rows sort by a click on a heading, and filter while one types. No dependency.
(function () {
  const number = (text) => {
    const found = text.replace(/,/g, "").match(/[-+−]?\d+(\.\d+)?(e[-+]?\d+)?/i);
    return found ? parseFloat(found[0].replace("−", "-")) : NaN;
  };
  const ready = (table) => {
    const body = table.tBodies[0];
    if (!body || body.rows.length < 8 || table.dataset.ready) return;
    table.dataset.ready = "yes";
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      head.classList.add("sortable");
      head.tabIndex = 0;
      const sort = () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const rows = [...body.rows].map((row) => {
          const text = row.cells[column].textContent.trim();
          return { row, text, value: number(text) };
        });
        const counted = rows.filter((one) => !Number.isNaN(one.value)).length;
        rows.sort((a, b) => {
          if (counted * 2 < rows.length) return (up ? 1 : -1) * a.text.localeCompare(b.text);
          if (Number.isNaN(a.value) || Number.isNaN(b.value)) return Number.isNaN(a.value) - Number.isNaN(b.value);
          return (up ? 1 : -1) * (a.value - b.value);
        });
        body.append(...rows.map((one) => one.row));
      };
      head.addEventListener("click", sort);
      head.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(); });
    });
    if (body.rows.length < 16) return;
    const tools = document.createElement("div");
    tools.className = "table-tools";
    const input = document.createElement("input");
    input.type = "search";
    input.placeholder = "filter rows";
    input.setAttribute("aria-label", "filter rows");
    const count = document.createElement("span");
    const show = () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let seen = 0;
      for (const row of body.rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
        seen += !row.hidden;
      }
      count.textContent = seen === body.rows.length ? `${seen} rows` : `${seen} of ${body.rows.length} rows`;
    };
    input.addEventListener("input", show);
    tools.append(input, count);
    (table.closest(".md-typeset__scrollwrap") || table).before(tools);
    show();
  };
  const all = () => document.querySelectorAll(".md-typeset table").forEach(ready);
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", all);
  else all();
})();
