"use strict";
// Tables sort by the heading that is clicked; long ones get a field to search in.
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
  const key = (row, i) => {
    const cell = row.cells[i], own = cell ? cell.dataset.v : undefined;
    return own !== undefined ? own : cell ? cell.textContent.trim() : "";
  };
  const words = new Intl.Collator(undefined, { numeric: true });
  heads.forEach((head, i) => {
    const button = document.createElement("button");
    button.type = "button";
    while (head.firstChild) button.append(head.firstChild);
    head.append(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const numbers = head.classList.contains("n");
      const rows = [...body.rows].map((row) => {
        const text = key(row, i);
        return { row, text, number: numbers ? parseFloat(text) : 0 };
      });
      rows.sort((a, b) => {
        if (numbers) {
          // Cells without a number stay at the end.
          const none = Number.isNaN(a.number) - Number.isNaN(b.number);
          return none || (Number.isNaN(a.number) ? 0 : up ? a.number - b.number : b.number - a.number);
        }
        return up ? words.compare(a.text, b.text) : words.compare(b.text, a.text);
      });
      body.append(...rows.map((one) => one.row));
    });
  });
  if (body.rows.length > 15) {
    const field = document.createElement("input");
    field.type = "search";
    field.placeholder = "search " + body.rows.length + " rows";
    field.setAttribute("aria-label", "rows of this table with these words");
    let timer = 0;
    field.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => {
        const wanted = field.value.toLowerCase().split(/\s+/).filter(Boolean);
        for (const row of body.rows) {
          const text = row.textContent.toLowerCase();
          row.hidden = !wanted.every((word) => text.includes(word));
        }
      }, 150);
    });
    table.parentNode.before(field);
  }
}
