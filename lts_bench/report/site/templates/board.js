// Sorts and filters tables; without it they are plain tables.
"use strict";

function valueOf(row, column) {
  const cell = row.cells[column];
  if ("value" in cell.dataset) return Number(cell.dataset.value);
  return cell.textContent.trim();
}

// Numbers by size, text after them in the order of its letters; a column's dashes stay at the bottom in both orders.
function sortBy(table, column, descending) {
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const numeric = rows.some((row) => typeof valueOf(row, column) === "number");
  const last = (value) => numeric && typeof value !== "number";
  rows.sort((left, right) => {
    const [a, b] = [valueOf(left, column), valueOf(right, column)];
    if (last(a) || last(b)) return last(a) - last(b);
    const order = numeric ? a - b : a.localeCompare(b, "en", { numeric: true });
    return descending ? -order : order;
  });
  body.append(...rows);
}

function makeSortable(table) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const descending = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      sortBy(table, column, descending);
    });
  });
}

function makeFilters(table) {
  const form = document.createElement("form");
  form.className = "filters";
  const status = document.createElement("p");
  status.setAttribute("role", "status");
  const rows = [...table.tBodies[0].rows];
  const textOf = (row, column) => row.cells[column].textContent.trim();
  const valuesOf = (column) => [...new Set(rows.map((row) => textOf(row, column)))];
  const columns = table.dataset.filters.split(",").map(Number).filter((column) => valuesOf(column).length > 1);
  if (!columns.length) return;
  const selects = columns.map((column) => {
    const title = table.tHead.rows[0].cells[column].textContent.trim();
    const select = document.createElement("select");
    const values = valuesOf(column);
    select.append(new Option("all", ""), ...values.map((value) => new Option(value, value)));
    select.dataset.column = column;
    const label = document.createElement("label");
    label.append(title, select);
    form.append(label);
    return select;
  });
  const update = () => {
    for (const row of rows) {
      row.hidden = selects.some((select) => select.value && textOf(row, select.dataset.column) !== select.value);
    }
    status.textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length} rows`;
  };
  form.addEventListener("change", update);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.append(status);
  table.parentElement.before(form);
  update();
}

for (const table of document.querySelectorAll("table[data-filters]")) makeFilters(table);
for (const table of document.querySelectorAll("table[data-sortable]")) makeSortable(table);
