// Optional: sorts tables, unfolds the target of a link, unfolds everything for print.
(() => {
  const number = (text) => {
    const scale = {KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40, Kops: 1e3, Mops: 1e6, ms: 1e3, s: 1e6};
    const match = text.trim().match(/^([+-]?[\d,]*\.?\d+(?:e[+-]?\d+)?)\s*([A-Za-zµ]*)/);
    return match ? parseFloat(match[1].replaceAll(",", "")) * (scale[match[2]] ?? 1) : NaN;
  };
  const order = (a, b) => {
    const [x, y] = [number(a), number(b)];
    if (Number.isNaN(x) !== Number.isNaN(y)) return Number.isNaN(x) ? 1 : -1;
    return Number.isNaN(x) ? a.localeCompare(b) : x - y;
  };
  const sort = (table, head) => {
    const column = head.cellIndex;
    const up = head.getAttribute("aria-sort") !== "ascending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    for (const body of table.tBodies) {
      const rows = [...body.rows].filter((row) => !row.classList.contains("metric") && row.cells.length > column);
      rows.sort((a, b) => order(a.cells[column].textContent, b.cells[column].textContent) * (up ? 1 : -1));
      body.append(...rows);
    }
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    for (const head of table.tHead.rows[0].cells) {
      head.tabIndex = 0;
      head.title = "sort";
      head.addEventListener("click", () => sort(table, head));
      head.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(table, head); });
    }
  }
  const unfold = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    target?.scrollIntoView();
  };
  addEventListener("hashchange", unfold);
  if (location.hash) unfold();
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    for (const details of folded) details.open = true;
  });
  addEventListener("afterprint", () => { for (const details of folded) details.open = false; });
})();
