(() => {
  "use strict";

  const value = (row, column) => row.cells[column].dataset.sort;

  function sort(table, column, button) {
    const header = button.closest("th");
    const first = button.dataset.first;
    const other = first === "ascending" ? "descending" : "ascending";
    const order = header.getAttribute("aria-sort") === first ? other : first;
    const sign = order === "ascending" ? 1 : -1;
    const body = table.tBodies[0];
    const rows = [...body.rows];
    const isNumber = header.classList.contains("number");
    rows.sort((a, b) => {
      const [x, y] = [value(a, column), value(b, column)];
      if (x === "" || y === "") return (x === "") - (y === "");
      return sign * (isNumber ? x - y : x.localeCompare(y));
    });
    for (const cell of table.tHead.rows[0].cells) cell.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", order);
    body.append(...rows);
  }

  for (const table of document.querySelectorAll("table.sortable")) {
    table.tHead.querySelectorAll("button").forEach((button, column) => {
      button.addEventListener("click", () => sort(table, column, button));
    });
  }
})();
